#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Host-bound steps of tests/data/host-speed at `host.speed` 1: above the fastest step, at most 1.7 times that, and below
the slowest process; the loop of Python that docs/time.md offers as a yardstick."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ZEROSIM, TOP = sys.argv[1:3]
LLAMA_1B = ('{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, '
            '"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": true}')
TINYLLAMA = ('{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, '
             '"num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": false}')
CASES = {"1b": (LLAMA_1B, "framework: single", "none", ""), "1b-ck": (LLAMA_1B, "framework: single", "full", "reentrant: false"),
         "1b-ckre": (LLAMA_1B, "framework: single", "full", "reentrant: true"),
         "tinyllama": (TINYLLAMA, "framework: single", "none", ""),
         "1b-fsdp2": (LLAMA_1B, "framework: fsdp2\n  fsdp: {reshard_after_forward: true, param_dtype: bf16, reduce_dtype: fp32}",
                      "none", "")}
WARM = 3          # steps until the caches of every layer are filled
ONE_SPEED = 1.45  # the table's middle, in times of the fastest moments (sim/hardware/host-cost.c)


def predict(case):
    model, framework, checkpointing, more = CASES[case]
    text = """model: %s
cluster: {gpu: h200-sxm-141gb, gpus_per_node: %d, nodes: 1, fabric: ideal, host: {cpu: intel, cores: 16, speed: 1.0}}
training:
  %s
  torch_version: "2.11"
  transformers_version: "5.17"
  micro_batch: 1
  sequence_length: 16
  dtype: bf16
  checkpointing: %s
  optimizer: {name: adamw, implementation: fused}
  gradient_clipping: 0
  synchronize_phases: true
  steps: 3
  %s
""" % (model, 8 if "fsdp" in framework else 1, framework, checkpointing, more)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([ZEROSIM, "run", file.name, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return {p["phase"]: p["time_ps"] * 1e-9 for s in json.loads(done.stdout)["steps"] if s["step"] == 3 for p in s["phases"]}


with open(os.path.join(TOP, "tests/data/host-speed/host-speed.jsonl")) as file:
    rows = [row for row in map(json.loads, file) if row.get("condition", "history") != "history"]
count = 0
for case in CASES:
    predicted = predict(case)
    for phase in ("forward", "backward"):
        series = [row["issued_ms"][phase][WARM:] for row in rows if row["case"] in (case, case + "-again")]
        fastest = min(map(min, series))
        medians = sorted(map(statistics.median, series))
        ratio = predicted[phase] / fastest
        good = predicted[phase] <= medians[-1] and 1.0 <= ratio <= 1.7
        count += 1
        print("%sok %d - %s %s\n# %.1f ms; medians of %d processes %.1f to %.1f, fastest step %.1f: %.2f times that"
              % ("" if good else "not ", count, case, phase, predicted[phase], len(medians), medians[0], medians[-1], fastest, ratio))
with open(os.path.join(TOP, "tests/data/host-speed/depths.jsonl")) as file:
    depths = [json.loads(line) for line in file]
for layers in sorted({row["layers"] for row in depths}):
    narrow = ('{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": %d, '
              '"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": false}' % layers)
    ratios = []
    for sharded, name in ((0, "1b"), (1, "1b-fsdp2")):
        CASES["depth"] = (narrow, *CASES[name][1:])
        predicted = predict("depth")
        ratios += [predicted[phase] / min(row[phase[0]][0] for row in depths if (row["layers"], row["sharded"]) == (layers, sharded))
                   for phase in ("forward", "backward")]
    count += 1
    print("%sok %d - %d layers, plain and FSDP2\n# forward and backward at speed 1, in times of the fastest step: %s"
          % ("" if all(1.0 <= ratio <= 1.8 for ratio in ratios) else "not ", count, layers,
             " ".join("%.2f" % ratio for ratio in ratios)))
loops = [row["python_loop_ms"] for row in rows if row["case"] == "small"]
with open(os.path.join(TOP, "docs/time.md")) as file:
    told = "%.0f ms" % (ONE_SPEED * min(loops)) in file.read()
count += 1
print("%sok %d - the loop of Python that docs/time.md names\n# %.0f to %.0f ms; at speed 1 %.0f ms"
      % ("" if told else "not ", count, min(loops), max(loops), ONE_SPEED * min(loops)))
print("1..%d" % count)
