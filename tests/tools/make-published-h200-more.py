#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the recorded runs of tests/data/h200-more as cases: tests/published/h200-more/*.yaml.

    python3 tests/tools/make-published-h200-more.py     # from the top of the source tree

A case is a scenario with a `measured:` block; `zerosim validate` runs it. Times were not valid."""
import json
import os
import re

OUT = "tests/published/h200-more"
FRAMEWORKS = {"plain": "single", "ddp": "ddp", "fsdp1": "fsdp", "fsdp2": "fsdp2"}


def boolean(value):
    return "true" if value else "false"


def fsdp(run):
    given = run["fsdp"]
    pure = given.get("pure", False)
    first = run["framework"] == "fsdp1"
    reduce = given.get("reduce", "bf16" if pure else "fp32")
    reshard = given.get("reshard", given.get("strategy") != "SHARD_GRAD_OP")
    words = ["reshard_after_forward: " + boolean(reshard), "param_dtype: bf16", "reduce_dtype: " + reduce,
             "storage_dtype: " + ("bf16" if pure else "fp32"),
             "cpu_offload: " + boolean(given.get("offload", False))]
    if run["gas"] > 1:
        words.append("no_sync: false")
    if first:
        words.append("use_orig_params: " + boolean(given.get("orig", False)))
    elif "reshard" not in given:
        words.append("reshard_root: false")
    return "{" + ", ".join(words) + "}"


def training(run):
    implementation = "foreach" if run["fsdp"].get("offload") else run["optimizer"]
    dtype = "bf16" if run["framework"].startswith("fsdp") else run["dtype"]
    lines = ["training:", "  framework: " + FRAMEWORKS[run["framework"]],
             '  torch_version: "2.11"', '  transformers_version: "5.17"',
             "  micro_batch: %d" % run["batch"], "  gradient_accumulation: %d" % run["gas"],
             "  sequence_length: %d" % run["seq"], "  dtype: " + dtype, "  attention: " + run["attn"],
             "  checkpointing: " + ("none" if run["ckpt"] == "none" else "full"),
             "  optimizer: {name: adamw, implementation: %s}" % implementation,
             "  gradient_clipping: %g" % run["clip"]]
    if run["ckpt"] != "none":
        lines.append("  reentrant: " + boolean(run["ckpt"] == "reentrant"))
    if run["backend"]:
        lines.append("  sdpa_backend: " + run["backend"])
    if run["mask"]:
        lines.append("  attention_mask: true")
    if run["autocast"]:
        lines.append("  autocast: true")
    if run["keep"]:
        lines.append("  keep_outputs: true")
    if run["lora"]:
        targets = run["lora"]["targets"]
        lines.append("  lora: {rank: %d, targets: %s, dtype: %s, dropout: %g}"
                     % (run["lora"]["r"], "all-linear" if targets == "all" else json.dumps(targets),
                        "bf16" if run["lora"]["bf16"] else "fp32", run["lora"]["dropout"]))
    if run["fsdp"] or run["framework"].startswith("fsdp"):
        lines.append("  fsdp: " + fsdp(run))
    return lines + ["  new_inputs: true", "  synchronize_phases: true", "  steps: %d" % run["steps"]]


def measured(run):
    steps = [p for p in run["phases"] if re.match(r"s\d", p["phase"])]
    lines = ["measured:", "  outcome: fits", "  rank: 0", "  alone: true",
             "  peak_allocated: %d B" % max(p["peak_allocated"] for p in steps),
             "  peak_reserved: %d B" % max(p["peak_reserved"] for p in steps), "  phases:"]
    for p in steps:
        step, micro, kind = re.match(r"s(\d+)(?:m(\d+))?_(\w+)", p["phase"]).groups()
        where = "step: %s, phase: %s" % (step, {"fwd": "forward", "bwd": "backward",
                                                "step": "optimizer"}[kind])
        if micro is not None and run["gas"] > 1:
            where += ", micro_step: " + micro
        lines.append("    - {%s, peak_allocated: %d B, peak_reserved: %d B, end_allocated: %d B}"
                     % (where, p["peak_allocated"], p["peak_reserved"], p["allocated"]))
    return lines + ["  source: one H200, run %s of tests/data/h200-more" % run["id"]]


def main():
    os.makedirs(OUT, exist_ok=True)
    for line in open("tests/data/h200-more/runs.jsonl"):
        run = json.loads(line)
        lines = ["# Written by tests/tools/make-published-h200-more.py.", "name: " + run["id"],
                 "description: h200-more-" + run["framework"], "model: " + json.dumps(run["model"]),
                 "cluster:", "  gpu: h200-sxm-141gb", "  gpu_memory: 150109880320 B",
                 "  gpus_per_node: %d" % run["world"], "  nodes: 1", "  fabric: ideal",
                 "  host: {cpu: intel, cores: 16, speed: 1.0}"]
        lines += training(run) + measured(run)
        with open(os.path.join(OUT, run["id"] + ".yaml"), "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
