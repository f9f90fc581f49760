#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write tests/data/liger/steps.jsonl as cases: tests/published/h200-liger/*.yaml.

    python3 tests/tools/make-published-liger.py        # from the top of the source tree

Reserved bytes are left out: the models were built in fp32 on the GPU and cast, which leaves segments."""
import json
import os

DATA, OUT = "tests/data/liger/steps.jsonl", "tests/published/h200-liger"
LIGER = {"fused": "true", "transformers": "{fused_linear_cross_entropy: false}",
         "cross_entropy": "{fused_linear_cross_entropy: false, cross_entropy: true}"}


def lines_of(row):
    yield "# Written by tests/tools/make-published-liger.py from liger/steps.jsonl."
    yield 'name: "liger-%s"' % row["name"]
    yield "description: h200-liger"
    yield "model: " + json.dumps(dict(row["config"], model_type="llama", max_position_embeddings=8192))
    yield "cluster: {gpu: h200-sxm-141gb, gpus_per_node: 1, nodes: 1, fabric: ideal}"
    yield "training:"
    yield "  framework: single"
    yield '  torch_version: "2.11"'
    yield '  transformers_version: "5.17"'
    yield "  micro_batch: %d" % row["batch"]
    yield "  sequence_length: %d" % row["sequence"]
    yield "  dtype: %s" % ("fp32" if row["autocast"] else "bf16")
    if row["autocast"]:
        yield "  autocast: true"
    yield "  attention: sdpa"
    yield "  checkpointing: %s" % ("full" if row["checkpointing"] else "none")
    if row["checkpointing"]:
        yield "  reentrant: %s" % ("true" if row["checkpointing"] == "reentrant" else "false")
    if row["lora"]:
        yield "  lora: {rank: 16, targets: [q_proj, v_proj], dtype: bf16, dropout: 0}"
    yield "  liger: %s" % LIGER[row["loss"]]
    yield "  optimizer: {name: adamw, implementation: fused}"
    yield "  gradient_clipping: 0.0"
    yield "  synchronize_phases: true"
    yield "  steps: 5"
    yield "measured:"
    yield "  phases:"
    for phase in row["phases"]:
        if phase["step"] == 5:
            micro = "" if phase["phase"] == "optimizer" else "micro_step: 0, "
            yield ("    - {step: 5, phase: %s, %speak_allocated: %d B, end_allocated: %d B, time: %.3f ms}"
                   % (phase["phase"], micro, phase["peak_allocated"], phase["end_allocated"],
                      phase["wall_ms"]))
    yield "  source: one H200, liger/steps.jsonl; kernels written after Liger's"


os.makedirs(OUT, exist_ok=True)
with open(DATA) as file:
    for row in map(json.loads, file):
        with open("%s/%s.yaml" % (OUT, row["name"]), "w") as case:
            case.write("\n".join(lines_of(row)) + "\n")
