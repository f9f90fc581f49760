#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Phases of tests/data/h200-power, trainings in their steady state, against their simulation."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ZEROSIM, TOP = sys.argv[1:3]
SCENARIO = """
model: %s
cluster: {gpu: h200-sxm-141gb, gpus_per_node: 1, nodes: 1, fabric: ideal, host: {cpu: intel, cores: 16, speed: 1.15}}
training: {framework: single, torch_version: "2.11", transformers_version: "5.17", micro_batch: %d, sequence_length: %d,
           dtype: bf16, attention: sdpa, checkpointing: %s, optimizer: {name: adamw, implementation: fused},
           gradient_clipping: 0.0, synchronize_phases: true, steps: 3}
"""
count = 0


def ok(good, name, comment):
    global count
    count += 1
    print("%sok %d - %s\n# %s" % ("" if good else "not ", count, name, comment))


def simulate(step):
    checkpointing = {"none": "none", "nonreentrant": "{every: 1, reentrant: false}",
                     "reentrant": "{every: 1, reentrant: true}"}[step["checkpointing"]]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(SCENARIO % (json.dumps(step["dims"]), step["micro_batch"], step["sequence"], checkpointing))
        file.flush()
        result = json.loads(subprocess.run([ZEROSIM, "run", file.name, "--json"], capture_output=True, text=True,
                                           check=True).stdout)
    times = {p["phase"]: p["time_ps"] * 1e-9 for s in result["steps"] if s["step"] == 3 for p in s["phases"]}
    times["optimizer"] = result["time"]["optimizer_ps"] * 1e-9   # its kernels alone
    return times


errors = {"forward": [], "backward": [], "optimizer": []}
with open(os.path.join(TOP, "tests/data/h200-power/steps.jsonl")) as file:
    for step in map(json.loads, file):
        predicted = simulate(step)
        for phase, found in errors.items():
            kernels = step["kernels_ms"][phase] + 1.4e-3 * step["kernels"][phase]
            wall = kernels if phase == "optimizer" else step["wall_ms"][phase] - step["probes_ms"][phase]
            if kernels > 0.93 * wall:   # bound by the GPU
                found.append((predicted[phase] / wall - 1, step["case"]))
for phase, found in errors.items():
    values = [error for error, case in found]
    worst = max(found, key=lambda pair: abs(pair[0]))
    ok(len(values) > 4 and abs(statistics.mean(values)) <= 0.015 and abs(worst[0]) <= 0.06, "steady " + phase,
       "%d: median %.1f %%, mean %+.1f %%, worst %+.1f %% (%s)" % (
           len(values), 100 * statistics.median(map(abs, values)), 100 * statistics.mean(values), 100 * worst[0], worst[1]))
print("1..%d" % count)
