#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write published runs (tests/data/e2e) as cases: tests/published/e2e-TABLE/*.yaml.

    python3 tests/tools/make-published-e2e.py          # from the top of the source tree

e2e-use.tsv says which tables are used and for what. A case measures only what its table is used for. Other
decoders (`like`: MPT) are run as a LLaMA of equal size: as many products, the feed-forward part narrowed by 2/3
because it has three matrices instead of two. Prints the rows used and those left out, with the reason."""
import collections
import csv
import json
import os
import re
import shutil
import sys

DATA, OUT = "tests/data/e2e", "tests/published"
MODELS = {"llama2-7b": "llama-2-7b", "llama2-13b": "llama-2-13b", "llama2-70b": "llama-2-70b",
          "llama3-8b": "llama-3-8b", "llama3-70b": "llama-3-70b", "yi-34b": "yi-34b", "yi-6b": "yi-6b",
          "mistral-7b": "mistral-7b-v0.1"}
GPUS = {("A100-SXM", "40"): "a100-sxm4-40gb", ("A100-SXM", "80"): "a100-sxm4-80gb",
        ("H100-SXM", "80"): "h100-sxm5-80gb", ("RTX 3090 (280 W)", "24"): "rtx-3090"}
FABRICS = {"a100-sxm4-40gb": "nvswitch-a100", "a100-sxm4-80gb": "nvswitch-a100",
           "h100-sxm5-80gb": "nvswitch-h100", "rtx-3090": "pcie3-x8-host-bridge"}
# between nodes; "not stated": what such machines usually have
NETWORKS = (("RoCE 1600", "{nics: 8, rate: 25 GB/s, kind: roce}"),
            ("RoCE 4x100", "{nics: 4, rate: 12.5 GB/s, kind: roce}"),
            ("400 Gb/s per node", "{nics: 4, rate: 12.5 GB/s, kind: efa}"),
            ("800 Gb/s per node", "{nics: 8, rate: 12.5 GB/s, kind: infiniband}"),
            ("not stated", "{nics: 8, rate: 50 GB/s, kind: infiniband}"),
            ("IB", "{nics: 8, rate: 50 GB/s, kind: infiniband}"),
            ("", "{nics: 8, rate: 25 GB/s, kind: infiniband}"))
ALL_LINEAR = "[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]"


# rows that e2e-use.tsv leaves out and that are shown all the same, under a name of their own
SHOWN = {"liger-kernels": {"table": "liger-e2e", "use": "memory,time,order", "model": "llama",
                           "only_rows": 'where:{"other": "Liger"}',
                           "reason": "not marked for use: shown beside e2e-liger-e2e, whose job it is with Liger's kernels"}}


class LeftOut(Exception):
    pass


def table_of(row):
    return row["id"].rsplit("-", 1)[0]


def wanted(row, only):
    if not only:
        return True
    how, text = only.split(":", 1)
    hit = all(re.search(pattern, row[field]) for field, pattern in json.loads(text).items())
    return hit if how == "where" else not hit


def other(row):
    return dict(part.split("=", 1) for part in row["other"].split(";") if "=" in part)


def model(row, like):
    name = row["model"]
    if name in MODELS:
        return MODELS[name]
    if not row["hidden"] or not row["layers"]:
        raise LeftOut("shape of %s not known" % name)
    ffn = int(row["ffn"])
    kind, tied = "llama", "false"
    if like:
        ffn, tied = (ffn * 2 // 3 + 63) // 64 * 64, "true"
    elif name.startswith("qwen"):   # the first Qwen: biases on q, k, v as Qwen2's
        kind = "qwen2"
    return ("{model_type: %s, hidden_size: %s, intermediate_size: %d, num_hidden_layers: %s, "
            "num_attention_heads: %s, num_key_value_heads: %s, vocab_size: %s, "
            "max_position_embeddings: 65536, tie_word_embeddings: %s}"
            % (kind, row["hidden"], ffn, row["layers"], row["heads"], row["kv_heads"], row["vocab"], tied))


def bytes_count(row, use, like):
    """Is it fair to ask whether it fits?  Not where what is kept differs."""
    return not like and "memory" in use


def cluster(row, roomy):
    gpu = GPUS.get((row["gpu"], row["gpu_mem_gb"]))
    if gpu is None:
        raise LeftOut("GPU %s" % row["gpu"])
    nodes, per_node = int(row["nodes"] or 1), int(row["gpus_per_node"])
    if nodes == 1 and "gpus" in other(row):
        per_node = int(other(row)["gpus"])
    lines = ["cluster:", "  gpu: %s" % gpu, "  gpus_per_node: %d" % per_node, "  nodes: %d" % nodes,
             "  fabric: %s" % (FABRICS[gpu] if per_node * nodes > 1 else "ideal")]
    if roomy:   # only time is asked for
        lines.append("  gpu_memory: 400 GiB")
    if nodes > 1:
        lines.append("  network: %s" % next(n for text, n in NETWORKS if text in row["interconnect"]))
    return lines, per_node * nodes


def framework(row, world):
    name, sharding = row["framework"], row["zero_stage_or_sharding"]
    mixed = ("reduce_dtype: bf16" if "PURE" in row["dtype"] or "bf16-true" in row["dtype"]
             else "reduce_dtype: fp32")
    reshard = "false" if "SHARD_GRAD_OP" in sharding else "true"
    offload = "true" if row["offload_param"] == "cpu" else "false"
    fsdp = ("  fsdp: {reshard_after_forward: %s, param_dtype: bf16, %s, cpu_offload: %s}"
            % (reshard, mixed, offload))
    if "fsdp_qlora" in name:      # its train.py: use_orig_params=False, parameters and gradients in bf16
        fsdp = fsdp.replace("reduce_dtype: fp32", "reduce_dtype: bf16").replace("}", ", use_orig_params: false, storage_dtype: bf16}")
    elif "HF Trainer" in name:
        # accelerate reduces in the dtype of its mixed precision; the shards are bf16, as the model was loaded
        # ("Data Type = bf16" in Liger's README): with fp32 ones more bytes would be allocated (21.9 GB at 1024
        # tokens) than were reserved (19.8)
        fsdp = fsdp.replace("reduce_dtype: fp32", "reduce_dtype: bf16").replace("}", ", storage_dtype: bf16}")
    elif "bf16-true" in row["dtype"]:      # Fabric: no other copy of the parameters
        fsdp = fsdp.replace("}", ", storage_dtype: bf16, load: gather}")
    if "litgpt" in name.lower() or table_of(row).startswith("litgpt"):   # Fabric wraps blocks alone
        fsdp = fsdp.replace("}", ", wrap_adapters: false}")
    clip = ["  gradient_clipping: 1.0"]
    if "fsdp2" in name:
        return ["  framework: fsdp2", fsdp] + clip
    if "deepspeed" in name:
        config = {"zero_optimization": {"stage": int(sharding)}, "bf16": {"enabled": True},
                  "gradient_clipping": 1.0}
        return ["  framework: deepspeed", "  framework_version: %s" % name_version(row),
                "  deepspeed: %s" % json.dumps(config)]
    if "InternEvo" in name:
        config = {"zero_optimization": {"stage": 1, "overlap_comm": True}, "bf16": {"enabled": True},
                  "gradient_clipping": 1.0}
        return ["  framework: deepspeed", "  framework_version: 0.10.0", "  deepspeed: %s" % json.dumps(config)]
    if sharding == "none" or world == 1:
        return ["  framework: single"] + clip
    if sharding == "ddp":
        return ["  framework: ddp"] + clip
    if "fsdp" in name.lower() or "fsdp" in sharding.lower():
        return ["  framework: fsdp", fsdp] + clip
    raise LeftOut("framework %s" % name)


def name_version(row):
    found = re.search(r"[0-9]+\.[0-9]+(\.[0-9]+)?", row["framework_version"])
    return found.group(0) if found else "0.16.6"


def lora(row):
    text = row["lora_rank_targets"]
    if not text:
        return []
    rank = re.search(r"r=(\d+)", text).group(1)
    targets = ALL_LINEAR if "all linear" in text else "[q_proj, k_proj, v_proj]" \
        if "c_attn" in text or "default" in text else "[q_proj, v_proj]"
    # fsdp_qlora's --precision bf16 (its default) keeps adapters in bf16
    dtype = "bf16" if "bf16-true" in row["dtype"] or "fsdp_qlora" in row["framework"] else "fp32"
    return ["  lora: {rank: %s, targets: %s, dtype: %s, dropout: 0}" % (rank, targets, dtype)]


def lengths(row):
    """Of samples, as the rows of ms-swift state them: "cut at max_length".  Their order is not known: that of the usual
    seed is as good as any (docs/lengths.md says how much it matters)."""
    stated = re.search(r"dataset lengths (\d+)\+-(\d+) tokens", row["notes"])
    if not stated:
        return []
    return ["  sequence_lengths: {mean: %s, deviation: %s}" % stated.groups()]


def attention(row):
    """FlashAttention's first version (llm-foundry's Triton kernel, sdpa of PyTorch before 2.2) or second."""
    if "sdpa" in row["attention"] or not row["attention"]:
        return "sdpa"
    return "flash" if "llm-foundry" in row["framework_version"] else "flash_attention_2"


def fused(row):
    """One kernel for a norm, rotary embedding, activation: MPT's and InternEvo's own code; torchtitan's does that
    only under torch.compile (its model: x.float() in the norm, complex products, silu apart)."""
    name = row["framework"] + row["framework_version"]
    return "llm-foundry" in name or "InternEvo" in name or "torchtitan" in name and "compile=yes" in row["other"]


def training(row, world):
    name = row["framework"]
    torch = "2.1" if row["year"] == "2023" or "llm-foundry" in row["framework_version"] else "2.3"
    transformers = "4.36" if row["year"] == "2023" else "4.44"
    if row["year"] >= "2025":
        torch, transformers = "2.6", "4.50"
    checkpointing = {"full": "full", "none": "none", "selective layer": "{every: 2}"}.get(
        re.sub(r" \(.*", "", row["act_checkpoint"]))
    if checkpointing is None:
        raise LeftOut("checkpointing %s" % row["act_checkpoint"])
    lines = ["training:"] + framework(row, world) + [
        '  torch_version: "%s"' % torch, '  transformers_version: "%s"' % transformers,
        "  micro_batch: %s" % (row["micro_batch"] or 1), "  gradient_accumulation: %s" % (row["grad_accum"] or 1),
        "  sequence_length: %s" % row["seq_len"], "  dtype: bf16",
        "  attention: %s" % attention(row),
        "  checkpointing: %s" % checkpointing]
    if "reentrant" in row["act_checkpoint"]:
        lines.append("  reentrant: true")
    if row["dtype"].startswith("amp") or "DEFAULT" in row["dtype"] or "fp32 params" in row["dtype"]:
        pass                     # FSDP's mixed precision casts: fp32 shards
    if fused(row):
        lines.append("  fused_operators: true")
    if "Liger" in row["other"]:
        lines.append("  liger: true")
    if "nf4" in row["dtype"]:
        lines.append("  load_in_4bit: true")
    implementation = "fused" if "fsdp" in name or "deepspeed" not in name else "fused"
    if "deepspeed" not in name and "InternEvo" not in name:
        lines.append("  optimizer: {name: adamw, implementation: %s}"
                     % ("foreach" if "llm-foundry" in row["framework_version"] or "swift" in name else implementation))
    return lines + lora(row) + (lengths(row) or ["  steps: 3"])


def gib(row):
    text = other(row).get("mem_gib")
    return "%s GiB" % text if text else "%s GB" % row["peak_mem_gb"]


def measured(row, use, fits):
    lines = ["measured:"]
    if fits:
        lines.append("  outcome: %s" % ("oom" if row["verdict"] == "oom" else "fits"))
    uses = use.split(",")
    # Fabric's load_raw () gathers the whole model on each GPU beside its shards: 13.5 + 6.7 of 22.2 GB for
    # LLaMA-7B on two GPUs, which is not training's peak
    loading = table_of(row) == "litgpt-loraN"
    if fits and row["peak_mem_gb"] and row["verdict"] != "oom" and not loading:
        kind = "peak_allocated" if "max_memory_allocated" in row["mem_kind"] else "peak_reserved"
        lines.append("  %s: %s" % (kind, gib(row)))
    if "time" in uses or "order" in uses:
        if row["tokens_per_s_per_gpu"]:
            lines.append("  tokens_per_second_per_gpu: %s" % row["tokens_per_s_per_gpu"])
        elif row["tflops_per_gpu"] and row["params_b"]:   # 6 P, the usual count; good for the order
            lines.append("  tokens_per_second_per_gpu: %.1f"
                         % (float(row["tflops_per_gpu"]) * 1e3 / (6 * float(row["params_b"]))))
        elif row["verdict"] != "oom":
            raise LeftOut("no throughput")
    if len(lines) == 1:
        raise LeftOut("out of memory, where only time is asked for")
    return lines + ["  source: %s" % json.dumps(row["source"][:120])]


def main():
    with open(DATA + "/e2e-use.tsv", newline="") as file:
        uses = {row["table"]: row for row in csv.DictReader(file, delimiter="\t")}
    with open(DATA + "/e2e.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for folder in os.listdir(OUT):
        if folder.startswith("e2e-"):
            shutil.rmtree(OUT + "/" + folder)
    used, left = collections.Counter(), collections.Counter()
    asked = [(row, table_of(row), uses.get(table_of(row), {"use": "none", "reason": "not listed"})) for row in rows]
    asked += [(row, name, use) for name, use in SHOWN.items() for row in rows
              if table_of(row) == use["table"] and wanted(row, use["only_rows"])]
    for row, name, use in asked:
        if use["use"] == "none":
            left["%s: %s" % (table_of(row), use["reason"])] += 1
            continue
        if not wanted(row, use["only_rows"]):
            left["%s: outside its rows in use" % table_of(row)] += 1
            continue
        try:
            like = use["model"] == "like"
            fits = bytes_count(row, use["use"], like)
            machine, world = cluster(row, not fits)
            lines = ["# Written by tests/tools/make-published-e2e.py; %s." % use["reason"],
                     "name: %s" % json.dumps(row["id"]), "description: e2e-%s" % name,
                     "model: %s" % model(row, like)]
            lines += machine + training(row, world) + measured(row, use["use"], fits)
        except LeftOut as reason:
            left["%s: %s" % (name, reason)] += 1
            continue
        folder = "%s/e2e-%s" % (OUT, name)
        os.makedirs(folder, exist_ok=True)
        with open("%s/%s.yaml" % (folder, row["id"]), "w") as file:
            file.write("\n".join(lines) + "\n")
        used[name] += 1
    for table, n in sorted(used.items()):
        print("%4d %-16s %s" % (n, table, (SHOWN.get(table) or uses[table])["use"]))
    print("%d rows are cases, %d are left out:" % (sum(used.values()), sum(left.values())))
    for reason, n in sorted(left.items()):
        print("%4d %s" % (n, reason))


if __name__ == "__main__":
    sys.exit(main())
