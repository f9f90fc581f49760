#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the recorded runs of tests/data/h200-more, h200-wide and h200-lengths as cases: tests/published/h200-*/*.yaml.

    python3 tests/tools/make-published-h200-more.py     # from the top of the source tree
    python3 tests/tools/make-published-h200-more.py DATA OUT

A case is a scenario with a `measured:` block; `zerosim validate` runs it. Times were not valid."""
import json
import os
import re
import sys

FOLDERS = [("tests/data/h200-more", "tests/published/h200-more"),
           ("tests/data/h200-wide", "tests/published/h200-wide"),
           ("tests/data/h200-lengths", "tests/published/h200-lengths")]
FRAMEWORKS = {"plain": "single", "ddp": "ddp", "fsdp1": "fsdp", "fsdp2": "fsdp2"}


def boolean(value):
    return "true" if value else "false"


def fsdp(run):
    given = run["fsdp"]
    pure = given.get("pure", False)
    own = run["dtype"] if pure else "bf16"
    first = run["framework"] == "fsdp1"
    reduce = given.get("reduce", own if pure else "fp32")
    reshard = given.get("reshard", given.get("strategy") != "SHARD_GRAD_OP")
    words = ["reshard_after_forward: " + boolean(reshard), "param_dtype: " + own, "reduce_dtype: " + reduce,
             "storage_dtype: " + (own if pure else "fp32"),
             "cpu_offload: " + boolean(given.get("offload", False))]
    if run["gas"] > 1:
        words.append("no_sync: " + boolean(given.get("no_sync", False)))
    if "prefetch" in given:
        words.append("backward_prefetch: " + {"PRE": "backward_pre", "POST": "backward_post",
                                              "NONE": "none"}[given["prefetch"]])
    if given.get("embed"):
        words.append("wrap_embedding: true")
    if first:
        words.append("load: gpu")
        words.append("use_orig_params: " + boolean(given.get("orig", False)))
        if run.get("lora"):     # wrapped by layer alone
            words.append("wrap_adapters: false")
    elif "reshard" not in given:
        words.append("reshard_root: false")
    return "{" + ", ".join(words) + "}"


def optimizer(run):
    name = run["optimizer"]
    if name == "sgd-momentum":
        return "{name: sgd, momentum: 0.9, implementation: foreach}"
    if name == "sgd":
        return "{name: sgd, implementation: foreach}"
    if name == "adafactor":
        return "{name: adafactor}"
    groups = ", groups: 2" if run.get("groups") == 2 or run.get("trainer") is not None else ""
    return "{name: adamw, implementation: %s%s}" % ("foreach" if run["fsdp"].get("offload") else name, groups)


def training(run):
    pure = run["fsdp"].get("pure", False)
    dtype = "bf16" if run["framework"].startswith("fsdp") and not pure else run["dtype"]
    trainer = run.get("trainer")
    lines = ["training:", "  framework: " + FRAMEWORKS[run["framework"]],
             '  torch_version: "2.11"', '  transformers_version: "5.17"',
             "  micro_batch: %d" % run["batch"], "  gradient_accumulation: %d" % run["gas"],
             "  sequence_length: %d" % run.get("lengths", {}).get("cut", run["seq"]), "  dtype: " + dtype, "  attention: " + run["attn"],
             "  checkpointing: " + ("none" if run["ckpt"] == "none" else "full"),
             "  optimizer: " + optimizer(run),
             "  gradient_clipping: %g" % (run["clip"] if trainer is None else 1.0)]
    if run["ckpt"] != "none":
        lines.append("  reentrant: " + boolean(run["ckpt"] == "reentrant"))
    if run["backend"]:
        lines.append("  sdpa_backend: " + run["backend"])
    if run.get("lengths"):
        given = run["lengths"]
        lines.append("  sequence_lengths: {mean: %d, deviation: %d, seed: %d%s}"
                     % (given["mean"], given["deviation"], given["seed"], ", longer: drop" if given.get("drop") else ""))
        if given.get("multiple"):
            lines.append("  pad_to_multiple_of: %d" % given["multiple"])
    if run["mask"] or trainer is not None:
        lines.append("  attention_mask: " + ("padding" if run["mask"] is True else "ones"))
    elif run.get("lengths"):
        lines.append("  attention_mask: none")
    if run.get("conf"):
        lines.append("  alloc_conf: " + json.dumps(run["conf"]))
    if run.get("empty"):
        lines.append("  empty_cache_steps: %d" % run["empty"])
    if run.get("use_cache"):
        lines.append("  use_cache: true")
    if run.get("positions") == "packed":
        lines.append("  packing: true")
    if run.get("cap"):
        lines.append("  memory_limit: %g GiB" % run["cap"])
    if run.get("ddp"):
        lines.append("  ddp: " + json.dumps(run["ddp"]))
    if run["autocast"] or (trainer is not None and trainer.get("bf16", True)):
        lines.append("  autocast: true")
    if run["keep"]:
        lines.append("  keep_outputs: true")
    if run["lora"]:
        targets = run["lora"]["targets"]
        save = ", modules_to_save: " + json.dumps(run["lora"]["save"]) if run["lora"].get("save") else ""
        lines.append("  lora: {rank: %d, targets: %s, dtype: %s, dropout: %g%s}"
                     % (run["lora"]["r"], "all-linear" if targets == "all" else json.dumps(targets),
                        "bf16" if run["lora"]["bf16"] else "fp32", run["lora"]["dropout"], save))
    if run["fsdp"] or run["framework"].startswith("fsdp"):
        lines.append("  fsdp: " + fsdp(run))
    return lines + ["  new_inputs: true", "  synchronize_phases: true", "  steps: %d" % run["steps"]]


def measured(run, data):
    steps = [p for p in run["phases"] if re.match(r"s\d", p["phase"])]
    if run.get("oom"):
        return ["measured:", "  outcome: oom", "  rank: 0", "  alone: true",
                "  source: one H200, run %s of %s" % (run["id"], data)]
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
    return lines + ["  source: one H200, run %s of %s" % (run["id"], data)]


def write(data, out_folder):
    os.makedirs(out_folder, exist_ok=True)
    for line in open(os.path.join(data, "runs.jsonl")):
        run = json.loads(line)
        group = os.path.basename(data) + "-"
        lines = ["# Written by tests/tools/make-published-h200-more.py.", "name: " + run["id"],
                 "description: " + group + run["framework"], "model: " + json.dumps(run["model"]),
                 "cluster:", "  gpu: h200-sxm-141gb", "  gpu_memory: 150109880320 B",
                 "  gpus_per_node: %d" % run["world"], "  nodes: 1", "  fabric: ideal",
                 "  host: {cpu: intel, cores: 16, speed: 1.0}"]
        lines += training(run) + measured(run, data)
        with open(os.path.join(out_folder, run["id"] + ".yaml"), "w") as out:
            out.write("\n".join(lines) + "\n")


def main():
    for data, out_folder in [sys.argv[1:]] if len(sys.argv) > 1 else FOLDERS:
        write(data, out_folder)


if __name__ == "__main__":
    main()
