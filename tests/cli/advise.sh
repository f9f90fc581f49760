#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim advise`: the JSON's names, files to paste that the program reads back, limits, and bad input.
echo 1..10
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
n=0
result () {
  status=$?
  n=$((n + 1))
  [ $status = 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
cat >"$dir/job.yaml" <<END
model: {base: llama-7b, layers: 2, vocabulary: 8000}
cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie, host: {cores: 32, memory: 64 GiB}}
training:
  framework: deepspeed
  micro_batch: 4
  gradient_accumulation: 2
  sequence_length: 1024
  memory_limit: 4 GiB
  steps: 2
  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 2, reduce_bucket_size: 2e8}}
END
"$ZEROSIM" advise "$dir/job.yaml" --json --jobs 1 >"$dir/one.json" && "$ZEROSIM" advise "$dir/job.yaml" --json --jobs 3 >"$dir/three.json"
cmp -s "$dir/one.json" "$dir/three.json"
result "the same answer for any number of threads"
python3 - "$dir" <<'END'
import json, sys
d = json.load(open(sys.argv[1] + "/one.json"))
s, f = d["smallest_change"], d["fastest"]
assert not d["fits_as_it_is"]
for a in (s, f):
    assert a["result"]["outcome"] == "ok" and a["set"] and a["changes"] >= 1
    b = a["ds_config"]
    assert b["train_micro_batch_size_per_gpu"] * b["gradient_accumulation_steps"] == 8
    assert b["train_batch_size"] == 16 and b["bf16"] == {"enabled": True}
    t = a["training_arguments"]
    assert t["per_device_train_batch_size"] == b["train_micro_batch_size_per_gpu"] and t["bf16"] is True
assert s["changes"] <= f["changes"]
speed = lambda a: a["result"]["tokens_per_second_per_gpu"]
assert speed(f) >= speed(s)
front = d["front"]
assert front and abs(front[-1]["tokens_per_second_per_gpu"] - speed(f)) < 1e-6
for a, b in zip(front, front[1:]):
    assert a["peak_device_bytes"] < b["peak_device_bytes"]
    assert a["tokens_per_second_per_gpu"] < b["tokens_per_second_per_gpu"]
assert not any(a["thin"] for a in front) or all(a["thin"] for a in front)
for a in d["faster_but_thin"]:
    assert a["thin"] and a["tokens_per_second_per_gpu"] > speed(f) and a["room_bytes"] >= 0
json.dump(f["ds_config"], open(sys.argv[1] + "/ds_config.json", "w"))
json.dump({k: str(v) for k, v in f["set"].items()}, open(sys.argv[1] + "/set.json", "w"))
open(sys.argv[1] + "/sets", "w").write("".join("--set\n%s=%s\n" % (k, v) for k, v in f["set"].items()))
open(sys.argv[1] + "/speed", "w").write("%.17g" % speed(f))
END
result "the JSON has what it promises"
set --
while read -r word; do set -- "$@" "$word"; done <"$dir/sets"
"$ZEROSIM" run "$dir/job.yaml" --json "$@" >"$dir/run.json"
python3 - "$dir" <<'END'
import json, sys
r = json.load(open(sys.argv[1] + "/run.json"))
assert r["outcome"] == "ok"
assert abs(r["tokens_per_second_per_gpu"] - float(open(sys.argv[1] + "/speed").read())) < 1e-6
END
result "a run with the advised settings gives the promised speed"
"$ZEROSIM" check --world 2 "$dir/ds_config.json" >"$dir/check.txt"
result "the ds_config to paste has no error"
"$ZEROSIM" advise "$dir/job.yaml" --objective memory >"$dir/out.txt" && grep -q '^The least GPU memory' "$dir/out.txt" \
  && grep -q '^ds_config.json' "$dir/out.txt"
result "another objective"
"$ZEROSIM" advise "$dir/job.yaml" --set model.layers=40 --set memory_limit=2GiB --limit host_memory=1GiB >"$dir/out.txt" \
  && grep -q '^NOTHING FITS' "$dir/out.txt"
result "nothing fits: it says so, with status 0"
cat >"$dir/fsdp.yaml" <<END
model: {base: llama-7b, layers: 2, vocabulary: 8000}
cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie, host: {cores: 32, memory: 64 GiB}}
training: {framework: fsdp, micro_batch: 4, gradient_accumulation: 2, sequence_length: 1024, memory_limit: 6 GiB, steps: 2}
END
"$ZEROSIM" advise "$dir/fsdp.yaml" --json >"$dir/fsdp.json" && python3 - "$dir" <<'END'
import json, sys
f = json.load(open(sys.argv[1] + "/fsdp.json"))["fastest"]
a = f["accelerate"]
assert a["distributed_type"] == "FSDP" and a["fsdp_config"]["fsdp_version"] == 1
json.dump(a, open(sys.argv[1] + "/accelerate.json", "w"))
open(sys.argv[1] + "/sets", "w").write("".join("--set\n%s=%s\n" % p for p in f["set"].items() if ".fsdp." not in p[0]))
open(sys.argv[1] + "/speed", "w").write("%.17g" % f["result"]["tokens_per_second_per_gpu"])
END
set --
while read -r word; do set -- "$@" "$word"; done <"$dir/sets"
sed 's/framework: fsdp, //' "$dir/fsdp.yaml" >"$dir/bare.yaml"
"$ZEROSIM" run "$dir/bare.yaml" --accelerate "$dir/accelerate.json" "$@" --json >"$dir/run.json" && python3 - "$dir" <<'END'
import json, sys
r = json.load(open(sys.argv[1] + "/run.json"))
assert abs(r["tokens_per_second_per_gpu"] - float(open(sys.argv[1] + "/speed").read())) < 1e-6
END
result "FSDP: accelerate's configuration to paste gives the promised speed"
cat >"$dir/ddp.json" <<END
{"output_dir": "out", "bf16": true, "per_device_train_batch_size": 2, "max_length": 1024}
END
"$ZEROSIM" advise "$dir/ddp.json" --model llama-3.2-1b --gpus 4xA100-40G --memory-limit 11GiB --json >"$dir/ddp-advice.json" && python3 - "$dir" <<'END'
import json, sys
d = json.load(open(sys.argv[1] + "/ddp-advice.json"))
s = d["smallest_change"]
assert not d["fits_as_it_is"] and s["set"]["training.framework"] == "deepspeed"
assert s["ds_config"]["zero_optimization"]["stage"] >= 2 and s["training_arguments"]["deepspeed"] == "ds_config.json"
json.dump(s["ds_config"], open(sys.argv[1] + "/ds_config.json", "w"))
json.dump(dict(json.load(open(sys.argv[1] + "/ddp.json")), **s["training_arguments"]), open(sys.argv[1] + "/args.json", "w"))
open(sys.argv[1] + "/speed", "w").write("%.17g" % s["result"]["tokens_per_second_per_gpu"])
END
"$ZEROSIM" run "$dir/args.json" --model llama-3.2-1b --gpus 4xA100-40G --memory-limit 11GiB --json --no-advice >"$dir/run.json" && python3 - "$dir" <<'END'
import json, sys
r = json.load(open(sys.argv[1] + "/run.json"))
assert abs(r["tokens_per_second_per_gpu"] - float(open(sys.argv[1] + "/speed").read())) < 1e-6, r["tokens_per_second_per_gpu"]
END
result "replicas that do not fit: DeepSpeed, and the files to paste give the promised speed"
"$ZEROSIM" advise "$dir/job.yaml" --objective fastest 2>"$dir/message"
[ $? = 2 ] && grep -q "tokens_per_second, memory, cost" "$dir/message"
result "an unknown objective is wrong usage"
"$ZEROSIM" advise "$dir/job.yaml" --limit host_mem=3GiB 2>"$dir/message"
[ $? = 2 ] && grep -q "did you mean 'host_memory'" "$dir/message"
result "an unknown limit is wrong usage"
