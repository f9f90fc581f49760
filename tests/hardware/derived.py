#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NVMe, ZeRO++ and MiCS: no run of these was measured. Their steps are held against bounds that follow from the
bytes and rates alone, and ZeRO++ against the bars of DeepSpeed's announcement (384 V100 in 24 DGX-2 with one
100 Gb/s link each, 18e9 parameters: 40 layers of width 6144; TFLOPS a GPU with recomputation counted)."""
import json
import os
import subprocess
import sys
import tempfile

NVME = """
model: llama-7b
cluster: {gpu: a100-sxm4-80gb, gpus_per_node: 4, nodes: 1, fabric: nvswitch,
          host: {cores: 64, memory: 1024 GiB, memory_rate: 180 GB/s}, nvme: {read: 6.5 GB/s, write: 3.5 GB/s}}
training:
  framework: deepspeed
  deepspeed:
    zero_optimization: {stage: 3, offload_optimizer: {device: %s, nvme_path: /n, pin_memory: true},
                        offload_param: {device: %s, nvme_path: /n, pin_memory: true, max_in_cpu: 0}}
    bf16: {enabled: true}
  micro_batch: 1
  sequence_length: 2048
  checkpointing: full
"""
ZEROPP = """
model: {model_type: llama, hidden_size: 6144, intermediate_size: 16384, num_hidden_layers: 40,
        num_attention_heads: 48, num_key_value_heads: 48, vocab_size: 50304, tie_word_embeddings: true}
cluster: {gpu: v100-sxm2-32gb, gpus_per_node: 16, nodes: 24, fabric: nvswitch,
          network: {nics: 1, rate: 12.5 GB/s, kind: infiniband}}
training:
  framework: deepspeed
  deepspeed: {zero_optimization: {stage: 3%s}, fp16: {enabled: true}}
  micro_batch: 1
  sequence_length: %d
  dtype: fp16
  attention: eager
  checkpointing: full
"""
ALL = ", zero_quantized_weights: true, zero_hpz_partition_size: 16, zero_quantized_gradients: true"
N = 6738415616
count = 0


def run(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s.yaml")
        with open(path, "w") as file:
            file.write(text)
        out = subprocess.run([sys.argv[1], "run", path, "--json"], capture_output=True, text=True)
    if out.returncode != 0:
        print("# " + out.stderr)
        return None
    return json.loads(out.stdout)


def ok(good, name, comment=""):
    global count
    count += 1
    print("%sok %d - %s" % ("" if good else "not ", count, name))
    if comment:
        print("# " + comment)


def seconds(result):
    return result["step_time_ps"] * 1e-12


def nvme():
    base = seconds(run(NVME % ("cpu", "cpu")))
    time = seconds(run(NVME % ("nvme", "cpu")))
    least = 16 * N / 6.5e9 + 16 * N / 3.5e9   # master, moments and gradient are read; gradient, then the rest written
    ok(least <= time <= base + 1.1 * least, "optimizer on NVMe: 16 bytes read and written a parameter",
       "%.1f s, without %.1f, by bytes %.1f" % (time, base, least))
    time = seconds(run(NVME % ("cpu", "nvme")))
    least = 2 * 2 * N / 6.5e9   # forward and backward gather all; the step writes them again
    ok(least <= time <= base + 1.2 * (3 * 2 * N / 6.5e9 + 2 * N / 3.5e9), "parameters on NVMe: read for each gather",
       "%.1f s, in memory %.1f, two gathers by bytes %.1f" % (time, base, least))


def zeropp():
    for tokens, published in ((1024, (14, 31)), (2048, (26, 46))):
        for keys, figure in zip(("", ALL), published):
            result = run(ZEROPP % (keys, tokens))
            tflops = result["tflops_per_gpu"] * 4 / 3   # with full recomputation
            ok(abs(tflops / figure - 1) < 0.2, "ZeRO%s, %d tokens a GPU" % ("++" if keys else "-3", tokens),
               "%.1f TFLOPS, published %d" % (tflops, figure))
    plain = run(ZEROPP % ("", 1024))
    exposed = [run(ZEROPP % (keys, 1024))["time"]["exposed_communication_ps"] for keys in
               (", zero_quantized_weights: true", ", zero_hpz_partition_size: 16", ", mics_shard_size: 16")]
    # of three messages of equal size (two gathers and a reduction) quantised weights halve two, hpZ keeps one inside
    # the node, MiCS all but the all-reduce of the own gradients: a sixteenth of the whole, sent twice
    whole = plain["time"]["exposed_communication_ps"]
    ok(0.4 < exposed[0] / whole < 0.75, "quantised weights halve the gathers", "%.2f of stage 3" % (exposed[0] / whole))
    ok(0.4 < exposed[1] / whole < 0.75, "hpZ keeps backward's gather in the node", "%.2f" % (exposed[1] / whole))
    ok(exposed[2] < 0.7 * whole, "MiCS gathers in the node", "%.2f" % (exposed[2] / whole))


def adapters():
    """fsdp_qlora on two 3090: each LoRA matrix is a unit; allocated bytes and throughput were published."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../published/e2e-fq-3090")
    for case, gib, tokens in (("003", 8.28, 100.94), ("004", 9.16, 339.34)):
        with open(os.path.join(folder, "fq-3090-%s.yaml" % case)) as file:
            result = run(file.read())
        allocated, rate = result["peak_allocated_bytes"] / 2**30, result["tokens_per_second_per_gpu"]
        ok(abs(allocated / gib - 1) < 0.04 and abs(rate / tokens - 1) < 0.15, "LoRA under FSDP1, fq-3090-" + case,
           "%.2f GiB, published %.2f; %.1f tokens/s, published %.1f" % (allocated, gib, rate, tokens))


nvme()
zeropp()
adapters()
print("1..%d" % count)
