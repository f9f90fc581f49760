#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the measured runs of tests/data/h200/memory*.csv as cases: tests/published/h200/*.yaml.

    python3 tests/tools/make-published-h200.py          # from the top of the source tree

A case is a scenario with a `measured:` block; `zerosim validate` runs it. Rows whose out of memory came
from neighbours on the GPU (status oom without a memory limit) say nothing and are left out."""
import csv
import json
import os
import re
import sys

SOURCES = (("memory.csv", ""), ("memory-ds0195.csv", "ds0195-"))
OUT = "tests/published/h200"
KNOWN = {   # dimensions of models/llms: name by (hidden, ffn, heads, kv heads, vocabulary)
    (2048, 5632, 32, 4, 32000): ("tinyllama-1.1b", 22),
    (2048, 8192, 32, 8, 128256): ("llama-3.2-1b", 16),
    (4096, 11008, 32, 32, 32000): ("llama-7b", 32),
    (4096, 14336, 32, 8, 128256): ("llama-3-8b", 32),
}
LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def number(row, key):
    return int(row[key]) if row[key] else None


def model(row):
    dims = tuple(int(row[k]) for k in ("hidden", "ffn", "heads", "kv_heads", "vocab"))
    layers = int(row["layers"])
    if dims in KNOWN:
        name, full = KNOWN[dims]
        return name if layers == full else "{base: %s, layers: %d}" % (name, layers)
    return ("{model_type: llama, hidden_size: %d, intermediate_size: %d, num_hidden_layers: %d, "
            "num_attention_heads: %d, num_key_value_heads: %d, vocab_size: %d, "
            "tie_word_embeddings: %s}" % (dims[0], dims[1], layers, dims[2], dims[3], dims[4],
                                          "true" if row["tied"] == "1" else "false"))


def cluster(row):
    world = int(row["world"])
    per_node = world
    while per_node > 8:
        per_node //= 2
    return [
        "cluster:",
        "  gpu: h200-sxm-141gb",
        "  gpu_memory: 150109880320 B",
        "  gpus_per_node: %d" % per_node,
        "  nodes: %d" % (world // per_node),
        "  fabric: ideal",
        # CPU Adam reached 125 GB/s; a socket's share of a node's memory is that of the one rank
        "  host: {cpu: intel, memory_rate: %d GB/s, pass_rate: %d GB/s, cores: 16, speed: 1.0}"
        % ((125 * (2 if per_node > 4 else 1),) * 2),
    ]


def training(row):
    framework = {"plain": "single", "deepspeed": "deepspeed", "fsdp2": "fsdp2"}[row["framework"]]
    lines = ["training:", "  framework: %s" % framework]
    if framework == "deepspeed":
        version = re.match(r"[0-9.]+", row["deepspeed"]).group(0)
        lines.append("  framework_version: %s" % version)
        config = json.loads(row["ds_config"])
        if row["reduce_scatter"] == "0":
            config["zero_optimization"].setdefault("reduce_scatter", False)
        if "BF16_Optimizer" in row["opt_class"]:    # what the harness asked the engine for
            config["data_types"] = {"grad_accum_dtype": "fp32"}
        lines.append("  hugging_face: false")
        lines.append("  deepspeed: %s" % json.dumps(config))
    lines += [
        '  torch_version: "2.11"',
        '  transformers_version: "5.17"',
        "  micro_batch: %s" % row["mbs"],
        "  gradient_accumulation: %s" % row["gas"],
        "  sequence_length: %s" % row["seq"],
        "  dtype: %s" % ("fp32" if "float32/train" in row["param_dtypes"] and framework == "single"
                         and not row["lora_r"] else "bf16"),
        "  attention: %s" % row["attn"],
        "  checkpointing: %s" % ("none" if row["ckpt"] == "none" else "full"),
    ]
    if "  dtype: fp32" in lines:
        lines.append("  autocast: true")
    if row["ckpt"] != "none":
        lines.append("  reentrant: %s" % ("true" if row["ckpt"] == "reentrant" else "false"))
    optimizer = row["optimizer"]
    if framework == "deepspeed":
        if optimizer != "fused_adam":
            lines.append("  optimizer: {name: adamw, implementation: %s}"
                         % optimizer.replace("torch_", ""))
    else:
        lines.append("  optimizer: {name: adamw, implementation: %s}"
                     % (optimizer.replace("torch_", "") if optimizer != "fused_adam" else "fused"))
        if float(row["clip"] or 0) > 0 and framework != "single":
            lines.append("  gradient_clipping: %s" % row["clip"])
    if framework == "fsdp2":
        lines.append("  fsdp: {reshard_after_forward: %s, param_dtype: bf16, reduce_dtype: %s, "
                     "cpu_offload: false%s}" % ("false" if row["fsdp_reshard"] == "0" else "true",
                                                row["fsdp_reduce_dtype"] or "fp32",
                                                ", storage_dtype: bf16" if row["master_dtype"] == "bf16"
                                                else ""))
    if row["lora_r"]:
        dtype = "fp32" if "float32/train" in row["param_dtypes"] else "bf16"
        targets = row["lora_targets"].split("+")
        assert all(t in LINEARS for t in targets)
        lines.append("  lora: {rank: %s, targets: [%s], dtype: %s, dropout: 0}"
                     % (row["lora_r"], ", ".join(targets), dtype))
    if row["zero_init"]:
        lines.append("  zero_init: %s" % ("true" if row["zero_init"] == "1" else "false"))
    if row["cap_gib"]:
        lines.append("  memory_limit: %s GiB" % row["cap_gib"])
    if row["alloc_conf"]:
        lines.append('  alloc_conf: "%s"' % row["alloc_conf"])
    if row["keep_outputs"] == "1":
        lines.append("  keep_outputs: true")
    lines += ["  omp_threads: 16", "  synchronize_phases: true", "  steps: %d" % max(1, int(row["steps"] or 1))]
    return lines


def fill_time(row, phase):
    """Milliseconds that only the measurement took: with `fill` the other ranks' slots of a gather were
    written from the own shard by an expanded copy, 2.29 ps per element (measured alone: 1.42 ms for 618
    million). Under ZeRO-1 and 2 it follows the step; under stage 3 and FSDP2 it overlaps: left in."""
    if phase != "step" or row["fill"] != "1" or row["framework"] != "deepspeed" \
            or row["stage"] not in ("1", "2"):
        return 0.0
    world = int(row["world"])
    return int(row["trainable"]) * (world - 1) / world * 2.29e-9


def phases(row):
    last = int(row["steps"])
    lines = []
    for step in sorted({1, 2, 3, last}):
        prefix = "last" if step == last else "s%d" % step
        for short, phase in (("fwd", "forward"), ("bwd", "backward"), ("step", "optimizer")):
            key = "%s_%s_" % (prefix, short)
            if step > last or not row.get(key + "max_alloc"):
                continue
            line = "    - {step: %d, phase: %s, " % (step, phase)
            # with accumulation the harness called step () after each micro-step: its maximum is that
            # of gradients waiting, not of the step
            if short != "step" or row["gas"] == "1":
                line += "peak_allocated: %s B, peak_reserved: %s B, " % (row[key + "max_alloc"],
                                                                         row[key + "max_reserved"])
            line += "end_allocated: %s B" % row[key + "end_alloc"]
            lines.append(line + "}")
            if step == last and row["timing_valid"] == "1" and row["ms_" + short]:
                # of one micro-step, their mean: only the last one's backward of ZeRO-1 reduces, and copies to the
                # host under ZeRO-2, and the rows lie between it and the others
                times = int(row["gas"]) if phase != "optimizer" else 1
                lines.append("    - {step: %d, phase: %s, time: %.3f ms}"
                             % (step, phase, times * (float(row["ms_" + short]) - fill_time(row, short))))
    return lines


def measured(row, source):
    lines = ["measured:", "  outcome: %s" % ("fits" if row["status"] == "ok" else "oom"), "  rank: 0", "  alone: true"]
    if row["status"] == "ok":
        lines += ["  peak_allocated: %s B" % row["train_peak_alloc"],
                  "  peak_reserved: %s B" % row["train_peak_reserved"]]
        if row["framework"] == "deepspeed" and row["pinned_allocated"]:
            lines.append("  host_pinned_per_rank: %s B" % row["pinned_allocated"])
        lines += ["  phases:"] + phases(row)
    lines.append("  source: one H200, run %s of %s" % (row["id"], source))
    return lines


def whole_steps():
    """micro_e2e.csv: steps of plain PyTorch on one GPU, as cases of their own: times only."""
    models = {"llama1b": "llama-3.2-1b", "llama7b": "llama-7b"}
    n = 0
    os.makedirs(OUT + "-times", exist_ok=True)
    with open("tests/data/h200/micro_e2e.csv", newline="") as file:
        for row in csv.DictReader(file):
            name = "%s-b%s-s%s-%s" % (row["model"], row["B"], row["S"], row["ckpt"])
            lines = ["# Written by tests/tools/make-published-h200.py from micro_e2e.csv.", 'name: "%s"' % name,
                     "description: h200-times", "model: %s" % models[row["model"]], "cluster:",
                     "  gpu: h200-sxm-141gb", "  gpus_per_node: 1", "  nodes: 1", "  fabric: ideal",
                     "  host: {cpu: intel, cores: 16, speed: 1.0}", "training:", "  framework: single",
                     '  torch_version: "2.11"', '  transformers_version: "5.17"', "  micro_batch: %s" % row["B"],
                     "  sequence_length: %s" % row["S"], "  dtype: bf16", "  attention: sdpa",
                     "  checkpointing: %s" % ("none" if row["ckpt"] == "none" else "full")]
            if row["ckpt"] != "none":
                lines.append("  reentrant: false")
            lines += ["  optimizer: {name: adamw, implementation: fused}", "  gradient_clipping: 0",
                      "  synchronize_phases: true", "  steps: 3", "measured:", "  phases:"]
            for short, phase in (("fwd", "forward"), ("bwd", "backward"), ("step", "optimizer")):
                lines.append("    - {step: 3, phase: %s, %stime: %s ms}"
                             % (phase, "" if short == "step" else "micro_step: 0, ", row[short + "_ms"]))
            lines.append("  source: one H200, micro_e2e.csv")
            with open("%s-times/%s.yaml" % (OUT, name), "w") as out:
                out.write("\n".join(lines) + "\n")
            n += 1
    return n


def step_scenario(step):
    """A line of tests/data/h200-steps/steps.jsonl as the lines of a scenario."""
    c, dims = step["config"], {k: v for k, v in step["dims"].items() if k != "max_position_embeddings"}
    framework = {"plain": "single", "fsdp2": "fsdp2", "fsdp1": "fsdp"}[c["framework"]]
    lines = ["model: " + json.dumps(dims), "cluster:", "  gpu: h200-sxm-141gb",
             "  gpus_per_node: %d" % (1 if framework == "single" else c["world"]), "  nodes: 1", "  fabric: ideal",
             # as fast as makes the host-bound phases of half c right on average
             "  host: {cpu: intel, cores: 16, speed: 1.15}", "training:", "  framework: " + framework,
             '  torch_version: "2.11"', '  transformers_version: "5.17"', "  micro_batch: %d" % c["B"],
             "  sequence_length: %d" % c["S"], "  dtype: " + c["dtype"],
             "  attention: " + (c["backend"] or c["attn"]),
             "  checkpointing: " + ("none" if c["ckpt"] == "none" else "full")]
    if c["ckpt"] != "none":
        lines.append("  reentrant: " + ("true" if c["ckpt"] == "reentrant" else "false"))
    lines += ["  optimizer: {name: adamw, implementation: %s}" % c["optimizer"],
              "  gradient_clipping: %s" % c["clip"]]
    if c["autocast"]:
        lines.append("  autocast: true")
    if c["mask"]:
        lines.append("  attention_mask: true")
    if framework == "fsdp2":
        lines.append("  fsdp: {reshard_after_forward: true, param_dtype: bf16, reduce_dtype: %s, cpu_offload: false}"
                     % c["reduce"])
    elif framework == "fsdp":
        lines.append("  fsdp: {reshard_after_forward: true, param_dtype: bf16, reduce_dtype: bf16, "
                     "cpu_offload: false, use_orig_params: true}")
    if c["lora"]:
        targets = LINEARS if c["lora"]["targets"] == "all" else c["lora"]["targets"]
        lines.append("  lora: {rank: %d, targets: [%s], dtype: fp32, dropout: 0}"
                     % (c["lora"]["r"], ", ".join(targets)))
    return lines + ["  synchronize_phases: true", "  steps: 3"]


def step_wall(step, phase):
    """Milliseconds: the median of five steps; clipping and zero_grad belong to the optimizer's phase."""
    parts = ("clip", "optimizer", "zero") if phase == "optimizer" else (phase,)
    return sum(sorted(step["wall_ms"][part])[len(step["wall_ms"][part]) // 2]
               for part in parts if part in step["wall_ms"])


def apart_steps():
    """h200-steps: steps that were taken apart, times only."""
    n = 0
    os.makedirs(OUT + "-steps", exist_ok=True)
    with open("tests/data/h200-steps/steps.jsonl") as file:
        for step in map(json.loads, file):
            lines = ["# Written by tests/tools/make-published-h200.py from h200-steps/steps.jsonl.",
                     'name: "step-%s"' % step["case"], "description: h200-steps"] + step_scenario(step)
            lines += ["measured:", "  alone: true", "  phases:"]
            for phase in ("forward", "backward", "optimizer"):
                lines.append("    - {step: 3, phase: %s, %stime: %.3f ms}"
                             % (phase, "" if phase == "optimizer" else "micro_step: 0, ", step_wall(step, phase)))
            lines.append("  source: one H200, h200-steps/steps.jsonl")
            with open("%s-steps/%s.yaml" % (OUT, step["case"]), "w") as out:
                out.write("\n".join(lines) + "\n")
            n += 1
    return n


def main():
    os.makedirs(OUT, exist_ok=True)
    written = set()
    for source, prefix in SOURCES:
        with open("tests/data/h200/" + source, newline="") as file:
            for row in csv.DictReader(file):
                if row["status"] != "ok" and not row["cap_gib"]:
                    continue
                name = prefix + re.sub(r"[^A-Za-z0-9_.-]", "_", row["id"]) + ".yaml"
                lines = ["# Written by tests/tools/make-published-h200.py from %s." % source,
                         "name: %s" % json.dumps(prefix + row["id"]),
                         "description: h200-memory-%s" % (row["framework"] if row["framework"] != "deepspeed"
                                                   else "zero%s" % row["stage"]),
                         "model: " + model(row)]
                lines += cluster(row) + training(row) + measured(row, source)
                with open(os.path.join(OUT, name), "w") as out:
                    out.write("\n".join(lines) + "\n")
                written.add(name)
    for old in os.listdir(OUT):
        if old.endswith(".yaml") and old not in written:
            os.remove(os.path.join(OUT, old))
    print("%d cases, %d whole steps, %d taken apart" % (len(written), whole_steps(), apart_steps()))


if __name__ == "__main__":
    sys.exit(main())
