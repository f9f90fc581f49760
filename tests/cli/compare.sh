#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim compare`: the JSON's names, the table at 80 columns, and what is wrong with bad input.
echo 1..8
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
n=0
result () {
  status=$?
  n=$((n + 1))
  [ $status = 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
for stage in 2 3; do
cat >"$dir/zero$stage.yaml" <<END
name: ZeRO-$stage
model: {base: llama-7b, layers: 2}
cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie}
training:
  framework: deepspeed
  micro_batch: 1
  sequence_length: 256
  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: $stage}}
END
done
"$ZEROSIM" compare "$dir/zero2.yaml" "$dir/zero3.yaml" --json >"$dir/out.json"
python3 - "$dir/out.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert [v["name"] for v in d["variants"]] == ["ZeRO-2", "ZeRO-3"]
for v in d["variants"]:
    assert v["result"]["outcome"] == "ok" and v["result"]["step_time_ps"] > 0
    assert "training.deepspeed.zero_optimization.stage" in v["settings"]
assert d["recommendation"].startswith("Choose ZeRO-") and d["recommendation"].endswith(".")
best = max(d["variants"], key=lambda v: v["result"]["tokens_per_second_per_gpu"])
assert best["name"] in d["recommendation"]
END
result "two scenarios as JSON"
"$ZEROSIM" compare "$dir/zero3.yaml" --vary stage=0,1,2,3 --json --jobs 1 >"$dir/one.json"
"$ZEROSIM" compare "$dir/zero3.yaml" --vary stage=0,1,2,3 --json --jobs 4 >"$dir/four.json"
cmp -s "$dir/one.json" "$dir/four.json" && [ "$(grep -c '"name": "stage=' "$dir/one.json")" = 4 ]
result "--vary gives a variant a value, the same for any number of threads"
"$ZEROSIM" compare "$dir/zero3.yaml" --vary stage=0,1,2,3 >"$dir/out.txt"
grep -q '^verdict .*FITS' "$dir/out.txt" && [ "$(awk '{ if (length > m) m = length } END { print m }' "$dir/out.txt")" -le 80 ]
result "four variants are columns and fit 80 of them"
"$ZEROSIM" compare "$dir/zero3.yaml" --vary stage=0,1,2,3 --vary checkpointing=none,full >"$dir/out.txt"
[ "$(grep -c 'stage=[0-3], checkpointing=[nf]' "$dir/out.txt")" -ge 8 ] \
  && [ "$(awk '{ if (length > m) m = length } END { print m }' "$dir/out.txt")" -le 80 ]
result "eight variants are lines"
"$ZEROSIM" compare "$dir/zero3.yaml" --set model.layers=32 --vary checkpointing=none,full | grep -q 'None of them fits'
result "nothing fits: it says so"
"$ZEROSIM" compare "$dir/zero3.yaml" >/dev/null 2>&1
[ $? = 2 ]
result "one scenario alone is wrong usage"
"$ZEROSIM" compare "$dir/zero3.yaml" /no/such/file 2>/dev/null
[ $? = 1 ]
result "a missing file is wrong input"
"$ZEROSIM" compare "$dir/zero3.yaml" --vary micro_batch=1:100:1 2>/dev/null
[ $? = 3 ]
result "a hundred variants are for a sweep"
