#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Steps of tests/data/h200-steps: the sum of their kernels, the phases that the GPU bounds, those that the host
bounds, and which of the two it is.  Only the half `c` was used for calibration."""
import json
import os
import statistics
import subprocess
import sys

ZEROSIM, TOP = sys.argv[1:3]
GAP = 1.25e-3   # ms from one kernel to the next
count = 0


def ok(good, name, comment):
    global count
    count += 1
    print("%sok %d - %s\n# %s" % ("" if good else "not ", count, name, comment))


def zerosim(*arguments):
    return json.loads(subprocess.run([ZEROSIM, *arguments, "--json"], capture_output=True, text=True, check=True).stdout)


def middle(values):
    return sorted(values)[len(values) // 2]


def wall(step, phase):
    parts = ("clip", "optimizer", "zero") if phase == "optimizer" else (phase,)
    return sum(middle(step["wall_ms"][part]) for part in parts if part in step["wall_ms"])


def busy(step, phase):
    parts = ("clip", "optimizer") if phase == "optimizer" else (phase,)
    return sum(step["kernels_ms"].get(part, 0) + GAP * step["kernels"].get(part, 0) for part in parts)


def show(errors):
    return "%d: median %.1f %%, mean %+.1f %%, worst %.1f %%" % (
        len(errors), 100 * statistics.median(map(abs, errors)), 100 * statistics.mean(errors),
        100 * max(map(abs, errors)))


with open(os.path.join(TOP, "tests/data/h200-steps/steps.jsonl")) as file:
    steps = {step["case"]: step for step in map(json.loads, file)}
results = {case: zerosim("run", os.path.join(TOP, "tests/published/h200-steps", case + ".yaml")) for case in steps}
phases = ("forward", "backward", "optimizer")
sums, by_gpu, by_host = {"c": [], "v": [], "e": []}, {"c": [], "v": [], "e": []}, []
wrong, said = [], [0, 0]
for case, step in steps.items():
    result = results[case]
    predicted = {p["phase"]: p["time_ps"] * 1e-9 for s in result["steps"] if s["step"] == 3 for p in s["phases"]}
    kernels = sum(busy(step, phase) for phase in phases)
    share = kernels / sum(wall(step, phase) for phase in phases)
    if step["config"]["framework"] == "plain" and step["config"]["S"] >= 512:
        ours = (result["time"]["compute_ps"] + result["time"]["optimizer_ps"]) * 1e-9
        sums[step["half"]].append(ours / kernels - 1)
    for phase in phases[:2]:
        error = predicted[phase] / wall(step, phase) - 1
        # the fake process group's copies run beside the kernels of FSDP and are in their sum
        if busy(step, phase) > 0.93 * wall(step, phase) and step["config"]["framework"] == "plain":
            by_gpu[step["half"]].append(error)
        elif busy(step, phase) < 0.6 * wall(step, phase):
            by_host.append(error)
    if share > 0.88 or share < 0.6:
        said[share < 0.6] += 1
        # copies of gathered parameters are kernels, and counted as communication
        if (result["bound_by"] == "host") != (share < 0.6):
            wrong.append("%s: kernels %.2f of the step, said to be bound by %s" % (case, share, result["bound_by"]))

for half, what in (("c", "calibration"), ("v", "validation"), ("e", "shapes of micro_e2e.csv")):
    ok(statistics.median(map(abs, sums[half])) <= 0.02 and max(map(abs, sums[half])) <= 0.06,
       "kernels add up, " + what, show(sums[half]))
    ok(statistics.median(map(abs, by_gpu[half])) <= 0.025 and max(map(abs, by_gpu[half])) <= 0.055,
       "phases that the GPU bounds, " + what, show(by_gpu[half]))
ok(all(1 / 1.7 < 1 + error < 1.7 for error in by_host), "phases that the host bounds, within what they spread",
   show(by_host))
ok(not wrong, "what bounds a step", "%d by the GPU, %d by the host; wrong: %s" % (*said, "; ".join(wrong) or "none"))
print("1..%d" % count)
