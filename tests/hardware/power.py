#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Phases of tests/data/h200-power, trainings in their steady state and steps that were predicted before they were
measured, against their simulation."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ZEROSIM, TOP = sys.argv[1:3]
SCENARIO = """
model: %(dims)s
cluster: {gpu: h200-sxm-141gb, gpus_per_node: %(gpus)d, nodes: 1, fabric: ideal,
          host: {cpu: intel, cores: 16, speed: 1.15}}
training: {framework: %(framework)s, torch_version: "2.11", transformers_version: "5.17", micro_batch: %(B)d,
           sequence_length: %(S)d, dtype: %(dtype)s, attention: %(attn)s, checkpointing: %(checkpointing)s,
           optimizer: {name: adamw, implementation: %(optimizer)s}, gradient_clipping: %(clip)s,
           synchronize_phases: true, steps: 3%(more)s}
"""
CHECKPOINTING = {"none": "none", "nonreentrant": "{every: 1, reentrant: false}", "reentrant": "{every: 1, reentrant: true}"}
LINEARS = "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"
count = 0


def ok(good, name, comment):
    global count
    count += 1
    print("%sok %d - %s\n# %s" % ("" if good else "not ", count, name, comment))


def simulate(step, config):
    more = ", autocast: true" if config["autocast"] else ""
    more += ", attention_mask: true" if config["mask"] else ""
    if config["lora"]:
        more += ", lora: {rank: %d, targets: [%s], dtype: fp32, dropout: 0}" % (config["lora"]["r"], LINEARS)
    if config["framework"] == "fsdp2":
        more += ", fsdp: {reshard_after_forward: true, param_dtype: bf16, reduce_dtype: fp32, cpu_offload: false}"
    values = dict(config, dims=json.dumps(step["dims"]), checkpointing=CHECKPOINTING[config["ckpt"]], more=more,
                  framework="single" if config["framework"] == "plain" else config["framework"],
                  gpus=8 if config["framework"] == "fsdp2" else 1)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(SCENARIO % values)
        file.flush()
        result = json.loads(subprocess.run([ZEROSIM, "run", file.name, "--json"], capture_output=True, text=True,
                                           check=True).stdout)
    times = {p["phase"]: p["time_ps"] * 1e-9 for s in result["steps"] if s["step"] == 3 for p in s["phases"]}
    times["optimizer"] = result["time"]["optimizer_ps"] * 1e-9   # its kernels alone
    return times


def compare(file, bound):
    errors = {"forward": [], "backward": [], "optimizer": []}
    with open(os.path.join(TOP, "tests/data/h200-power", file)) as lines:
        for step in map(json.loads, lines):
            config = step.get("config") or {
                "B": step["micro_batch"], "S": step["sequence"], "ckpt": step["checkpointing"], "attn": "sdpa", "dtype": "bf16",
                "autocast": False, "optimizer": "fused", "clip": 0.0, "lora": None, "framework": "plain", "mask": False}
            predicted = simulate(step, config)
            for phase, found in errors.items():
                kernels = step["kernels_ms"][phase] + 1.4e-3 * step["kernels"][phase]
                wall = step["wall_ms"][phase] - step.get("probes_ms", {}).get(phase, 0)
                if phase == "optimizer":
                    kernels += sum(step[part].get("clip", 0) * by for part, by in (("kernels_ms", 1), ("kernels", 1.4e-3)))
                    wall = kernels if config["lora"] is None and config["framework"] == "plain" else 1e9
                if kernels > 0.93 * wall:   # bound by the GPU
                    found.append((predicted[phase] / wall - 1, step["case"]))
    for phase, found in errors.items():
        values = [error for error, case in found]
        worst = max(found, key=lambda pair: abs(pair[0]))
        ok(len(values) > 4 and abs(statistics.mean(values)) <= bound and abs(worst[0]) <= 0.06, "%s, %s" % (file, phase),
           "%d: median %.1f %%, mean %+.1f %%, worst %+.1f %% (%s)" % (
               len(values), 100 * statistics.median(map(abs, values)), 100 * statistics.mean(values), 100 * worst[0],
               worst[1]))


compare("steps.jsonl", 0.015)
compare("later.jsonl", 0.025)
print("1..%d" % count)
