#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim check`: statuses, the headline, folding, and what advice changes.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
n=0
ok () {
  n=$((n + 1))
  if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; fi
}
job="--model llama-7b --gpus 2xA100-40G --fabric pcie --micro-batch 1 --seq 1024 --checkpointing full"
echo 1..14

misplaced="$top_srcdir/scenarios/cases/13-misplaced-offload.json"
"$ZEROSIM" check "$misplaced" >"$folder/text"; ok "an ignored key is no error" $?
head -n 1 "$folder/text" | grep -q "NOTHING IS OFFLOADED by 'offload_optimizer'"
ok "the first line says that nothing is offloaded" $?
"$ZEROSIM" check "$misplaced" $job >"$folder/text"; ok "with a model and GPUs too" $?
head -n 1 "$folder/text" | grep -q "more of each GPU"
ok "the first line says what it costs" $?
grep -q "less GPU memory at the peak, .* more host memory, .*; now it does not fit, then it fits" "$folder/text"
ok "advice is simulated" $?
"$ZEROSIM" check "$misplaced" $job --json >"$folder/json"
grep -q '"effect": {' "$folder/json" && grep -q '"peak_bytes": -' "$folder/json" \
  && grep -q '"step_time_ps":' "$folder/json" && grep -q '"host_bytes":' "$folder/json"
ok "the effect is in the JSON" $?
"$ZEROSIM" check "$misplaced" --json | grep -q '"effect"'
[ $? = 1 ]; ok "without a model there is none" $?

auto="$top_srcdir/scenarios/cases/01-ds-zero3.json"
[ "$("$ZEROSIM" check "$auto" $job | grep -c auto-resolved)" = 1 ]
ok "notes of one kind are one line" $?
[ "$("$ZEROSIM" check "$auto" $job --json | grep -c auto-resolved)" -gt 3 ]
ok "the JSON has each of them" $?

"$ZEROSIM" check "$top_srcdir/scenarios/folklore/13b-offload-param-alone-80g-after.yaml" >"$folder/text"
grep -q "with zero_optimization.offload_optimizer" "$folder/text"
ok "advice about a scenario is simulated" $?

printf '{"zero_optimization": {"stage": 3, "offload_optimiser": {}}}' >"$folder/wrong.json"
"$ZEROSIM" check "$folder/wrong.json" >/dev/null; [ $? = 1 ]; ok "an error is status 1" $?
"$ZEROSIM" check >/dev/null 2>&1; [ $? = 2 ]; ok "no file is wrong usage" $?
printf '{"zero_optimization": {"stage": 3}}' >"$folder/three.json"
"$ZEROSIM" check "$folder/three.json" --model mistralai/Mixtral-8x7B-v0.1 | grep -q mixture-with-stage-3
ok "a mixture of experts under stage 3 is warned of" $?
printf '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}' \
  >"$folder/batch.json"
"$ZEROSIM" check "$folder/batch.json" --model llama-7b --gpus 8xA100-80G --seq 1024 \
  | grep -q "with train_micro_batch_size_per_gpu=1 gradient_accumulation_steps=4: .* less GPU memory"
ok "smaller micro-batches save memory, less accumulation does not" $?
