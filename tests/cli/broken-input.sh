#!/bin/sh
# SPDX-License-Identifier: MIT
# Broken, absurd and hostile inputs through every command: status 1 (2 for the command line, 3 for a limit),
# one clear message with its place, within seconds and without eating the memory.
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 99
good='model: llama-3.2-1b
cluster: {gpu: h100, gpus_per_node: 2}'
yaml () { printf '%s\n' "$good" "$2" >"$1.yaml"; }
ds () { printf '{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {%s}}' "$2" >"$1.json"; }

mkdir folder empty-folder
: >empty.yaml; : >empty.json; : >empty.txt; : >empty.tsv
printf '\0\1\2\377' >binary.yaml
printf '\200\2}q\0(X\5\0\0\0' >torn.pickle
printf '\200\2]q\0.' >list.pickle
printf '\37\213\10\0torn' >torn.tsv.gz
head -c 17000000 /dev/zero | tr '\0' 'a' >long-line.yaml
{ printf '{"zero_optimization": {"stage": 3}, "x": "'; head -c 10000000 /dev/zero | tr '\0' 'a'; printf '"'; } >long-line.json
head -c 100000 /dev/zero | tr '\0' '[' >deep.json
head -c 100000 /dev/zero | tr '\0' '{' >deep.yaml
{ echo 'a: &a [x, x, x, x, x, x, x, x]'
  for i in b c d e f g h i j; do p=${i}; echo "$i: &$i [*$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i), *$(echo $p | tr b-j a-i)]"; done; } >bomb.yaml
printf 'model: caf\351\n' >latin1.yaml
printf '{"model_type": "llama"' >torn-model.json
echo '{"model_type": "gpt2", "n_embd": 768}' >gpt2.json
echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 7, "intermediate_size": 11, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}' >seven.json
echo '{"model_type": "llama", "hidden_size": -4096, "intermediate_size": 11, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}' >negative.json
echo '{"model_type": "llama", "hidden_size": 1e18, "intermediate_size": 11, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}' >huge.json
echo '{"model_type": "llama", "hidden_size": NaN}' >nan.json
echo '[1, 2]' >list.json
echo '{"zero_optimization": {"stage": 3,}, "bf16": {"enabled": True}}' >python.json
echo "{\"zero_optimization\": {\"stage\": 3}, \"zero_optimization\": {\"stage\": 2}}" >twice.json
ds stage9 '"stage": 9'
ds fraction '"stage": 3, "reduce_bucket_size": 1.5'
ds negative-bucket '"stage": 3, "reduce_bucket_size": -1'
ds misspelt '"stage": 3, "reduce_bucket_sise": 1'
ds device '"stage": 3, "offload_optimizer": {"device": "GPU"}'
ds nvme '"stage": 3, "offload_param": {"device": "nvme"}'
ds string '"stage": 3, "reduce_bucket_size": "5e8"'
echo '{"fp16": {"enabled": true}, "bf16": {"enabled": true}, "train_batch_size": 2, "zero_optimization": {"stage": 2}}' >both.json
echo '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}}' >batch.json
yaml negative-batch 'training: {micro_batch: -1}'
yaml nan 'training: {gradient_clipping: .nan}'
yaml overflow 'training: {sequence_length: 99999999999999999999}'
yaml long 'training: {sequence_length: 1e12}'
yaml unit 'training: {memory_limit: 24}'
yaml bits 'training: {memory_limit: 24 Gb}'
yaml list 'training: [1]'
yaml unknown 'trainig: {}'
yaml missing-ds 'training: {deepspeed: nowhere.json}'
yaml device-ds 'training: {deepspeed: /dev/zero}'
yaml folder-ds 'training: {deepspeed: folder}'
yaml self 'training: {deepspeed: self.yaml}'
yaml lora 'training: {lora: {rank: 0}}'
yaml measured 'measured: {peak_allocated: many}'
echo 'model: llama-7b
cluster: {gpu: h100, nodes: 1e9}' >nodes.yaml
echo 'model: {base: llama-7b, layers: 1e9}
cluster: {gpu: h100}' >layers.yaml
echo 'model: llama-7b
cluster: {gpu: h100, fabric: {topo: /dev/zero}}' >topo-device.yaml
echo 'model: llama-7b
cluster: {gpu: h100, fabric: {topo: empty.txt}}' >topo-empty.yaml
echo 'model: llama-7b
cluster: {gpu: h100, fabric: {nccl_xml: torn.xml}}' >topo-xml.yaml
printf '<system version="1"><cpu numaid="0">' >torn.xml
printf '\tGPU0\tGPU1\nGPU0\t X \tNV9\n' >short.txt
printf '\tGPU0\tGPU1\nGPU0\t X \tXYZ\nGPU1\tXYZ\t X \n' >words.txt
echo 'name: s
scenario: nowhere.yaml
axes: {stage: [2, 3]}' >sweep-file.yaml
echo 'name: s
scenario: {model: llama-7b, cluster: {gpu: h100}}
axes: {stag: [2, 3]}' >sweep-axis.yaml
echo 'name: s
axes: {stage: []}' >sweep-none.yaml
printf 'action\taddr\tsize\tstream\nalloc\t0x10\t-5\t0\n' >size.tsv
printf 'action\taddr\tsize\tstream\nalloc\tzz\t512\t0\n' >address.tsv
printf 'action\taddr\nalloc\t1\n' >columns.tsv
echo 'distributed_type: TPU' >tpu.yaml
echo 'distributed_type: DEEPSPEED
num_processes: 3
num_machines: 2' >odd.yaml
echo '{"output_dir": 1, "per_device_train_batch_size": "many"}' >args.json
ds fine '"stage": 3'
cat >table <<'END'
1|folder: this is a folder|run folder
1|/dev/zero: this is a device|run /dev/zero
1|nowhere: No such file|run nowhere
2|an argument is empty|run @
1|empty.yaml:1:1: the file is empty|run empty.yaml
1|empty.json:1:1: the file is empty|run empty.json
1|binary.yaml:1:1: byte 0x00|run binary.yaml
1|long-line.yaml: larger than 16 MiB|run long-line.yaml
1|long-line.json:|run long-line.json
1|deep.json:1:[0-9]+: |run deep.json
1|deep.yaml:1:[0-9]+: |run deep.yaml
1|bomb.yaml:[0-9]+:[0-9]+: |run bomb.yaml
1|latin1.yaml:1:11: byte 0xe9|run latin1.yaml
1|torn-model.json:|run fine.json --model torn-model.json --gpus h100
1|gpt2.json:1:[0-9]+: .*gpt2|run fine.json --model gpt2.json --gpus h100
1|seven.json:1:[0-9]+: hidden_size 7 is no multiple|run fine.json --model seven.json --gpus h100
1|negative.json:1:[0-9]+: 'hidden_size' must be|run fine.json --model negative.json --gpus h100
1|huge.json:1:[0-9]+: 'hidden_size' must be|run fine.json --model huge.json --gpus h100
1|nan.json:1:|run fine.json --model nan.json --gpus h100
1|this is a folder|run fine.json --model folder/. --gpus h100
1|device|run fine.json --model /dev/zero --gpus h100
1|list.json:1:1: |run list.json --model llama-7b --gpus h100
1|twice.json:1:[0-9]+: .*twice|run twice.json --model llama-7b --gpus h100
1|python.json:2:1: the file ends, .*rest of its line|run python.json --model llama-7b --gpus h100
1|stage9.json:1:[0-9]+: 'stage' must be 0, 1, 2 or 3|run stage9.json --model llama-7b --gpus h100
1|fraction.json:1:[0-9]+: .*write 1|run fraction.json --model llama-7b --gpus h100
1|negative-bucket.json:1:[0-9]+: |run negative-bucket.json --model llama-7b --gpus h100
1|misspelt.json:1:[0-9]+: .*did you mean 'reduce_bucket_size'|run misspelt.json --model llama-7b --gpus h100
1|device.json:1:[0-9]+: 'device' must be none, cpu or nvme|run device.json --model llama-7b --gpus h100
1|nvme.json:1:[0-9]+: .*nvme_path|run nvme.json --model llama-7b --gpus h100
1|string.json:1:[0-9]+: .*reduce_bucket_size|run string.json --model llama-7b --gpus h100
1|both.json:1:[0-9]+: .*cannot be simultaneously|run both.json --model llama-7b --gpus h100
1|batch.json:1:[0-9]+: .*train_batch_size is not equal|run batch.json --model llama-7b --gpus 2xh100
1|negative-batch.yaml:3:[0-9]+: 'micro_batch' must be 1 to|run negative-batch.yaml
1|nan.yaml:3:[0-9]+: .*must be a number|run nan.yaml
1|overflow.yaml:3:[0-9]+: .*whole number|run overflow.yaml
1|long.yaml:3:[0-9]+: 'sequence_length' must be 1 to|run long.yaml
1|unit.yaml:3:[0-9]+: .*needs its unit|run unit.yaml
1|bits.yaml:3:[0-9]+: .*bits|run bits.yaml
1|list.yaml:3:[0-9]+: 'training' must be a mapping|run list.yaml
1|unknown.yaml:3:1: .*did you mean 'training'|run unknown.yaml
1|missing-ds.yaml:3:[0-9]+: .*No such file|run missing-ds.yaml
1|device-ds.yaml:3:[0-9]+: .*device|run device-ds.yaml
1|folder-ds.yaml:3:[0-9]+: .*folder|run folder-ds.yaml
1|self.yaml:|run self.yaml
1|lora.yaml:3:[0-9]+: 'rank' must be 1 to|run lora.yaml
1|measured.yaml:3:[0-9]+: |run measured.yaml
1|nodes.yaml:2:[0-9]+: 'nodes' must be 1 to|run nodes.yaml
1|layers.yaml:1:[0-9]+: .*must be 1 to|run layers.yaml
1|/dev/zero: this is a device|run topo-device.yaml
1|empty.txt:1:1: no matrix|run topo-empty.yaml
1|torn.xml:1:[0-9]+: |run topo-xml.yaml
1|--gpus 9999999999xH100: |run fine.json --model llama-7b --gpus 9999999999xH100
1|--gpus -1xH100: no GPU|run fine.json --model llama-7b --gpus -1xH100
1|--gpus 8x: a number and a name|run fine.json --model llama-7b --gpus 8x
1|--seq 1e12: |run fine.json --model llama-7b --gpus h100 --seq 1e12
1|--micro-batch 1e9: |run fine.json --model llama-7b --gpus h100 --micro-batch 1e9
1|--micro-batch NaN: |run fine.json --model llama-7b --gpus h100 --micro-batch NaN
1|--nodes -1: |run fine.json --model llama-7b --gpus h100 --nodes -1
1|--steps 0: |run fine.json --model llama-7b --gpus h100 --steps 0
1|--host-memory 9e99GB: |run fine.json --model llama-7b --gpus h100 --host-memory 9e99GB
1|--set =: PATH=VALUE|run fine.json --model llama-7b --gpus h100 --set =
1|--set a..b=1: .*a word is missing|run fine.json --model llama-7b --gpus h100 --set a..b=1
1|--set a.b.c.d.e.f.g=1: there is no setting|run fine.json --model llama-7b --gpus h100 --set a.b.c.d.e.f.g=1
1|--set stage.a.b.c=1: |run fine.json --model llama-7b --gpus h100 --set stage.a.b.c=1
1|--set stage=\[:2:1: |run fine.json --model llama-7b --gpus h100 --set stage=[
1|--set été=1: there is no setting|run fine.json --model llama-7b --gpus h100 --set été=1
1|--set alloc_conf=x:: .*unknown option|run fine.json --model llama-7b --gpus h100 --set alloc_conf=x:
2|--rank 9 is not below|run fine.json --model llama-7b --gpus h100 --rank 9
1|tpu.yaml:1:[0-9]+: .*not simulated|run tpu.yaml --model llama-7b --gpus h100
1|odd.yaml:2:[0-9]+: 'num_processes'|run odd.yaml --model llama-7b --gpus h100
1|args.json:1:[0-9]+: 'micro_batch'|run args.json --model llama-7b --gpus h100
1|/no/such/x: No such file|run zero3 --no-advice --trace /no/such/x
1|/no/such/x: No such file|run zero3 --no-advice --memory-snapshot /no/such/x
3|the run is too large|run fine.json --model llama-7b --gpus 8xH100 --accumulation 1048576 --no-advice
0|OUT OF MEMORY|run fine.json --model llama-7b --gpus 8xH100 --seq 16777216 --no-advice
0|OUT OF MEMORY|run fine.json --model llama-7b --gpus 8xH100 --micro-batch 1048576 --attention eager
1|folder|check folder
1|binary.yaml:1:1: error|check binary.yaml
1|/dev/zero.*device|check /dev/zero
1|misspelt.json:1:[0-9]+: error|check misspelt.json
1|deep.json:1:[0-9]+: error|check deep.json
1|nowhere.*no such file|validate nowhere
1|binary.yaml:1:1: byte|validate binary.yaml
1|no cases|validate empty-folder
1|folder: this is a folder|replay folder
1|/dev/zero: this is a device|replay /dev/zero
1|nowhere: No such file|replay nowhere
1|empty.tsv: empty file|replay empty.tsv
1|torn.pickle|replay torn.pickle
1|list.pickle|replay list.pickle
1|torn.tsv.gz|replay torn.tsv.gz
1|size.tsv:2: |replay size.tsv
1|address.tsv:2: |replay address.tsv
1|columns.tsv:1: no column|replay columns.tsv
1|this is a folder|topology folder
1|/dev/zero: this is a device|topology /dev/zero
1|empty.txt:1:1: no matrix|topology empty.txt
1|torn.xml:1:[0-9]+: |topology torn.xml
1|short.txt:[0-9]+:|topology short.txt
1|words.txt:2:[0-9]+: |topology words.txt
2|unknown collective.*did you mean 'all_gather'|collective all_gahter --gpus 8xH100
1|--sizes: |collective all_gather --gpus 8xH100 --sizes 8:1:2
1|--sizes: |collective all_gather --gpus 8xH100 --sizes 1:8G:1.0000001
1|nowhere|collective all_gather --cluster nowhere
1|nowhere|collective all_gather --gpus 8xH100 --against nowhere
1|nowhere|sweep sweep-file.yaml
1|sweep-axis.yaml:3:[0-9]+: |sweep sweep-axis.yaml
1|sweep-none.yaml:|sweep sweep-none.yaml
1|nowhere: No such file|compare nowhere fine.json
1|binary.yaml:1:1: byte|explain binary.yaml
1|binary.yaml:1:1: byte|report binary.yaml
2|no list of 'x'|list x
1|nothing that comes with zerosim is called '../gpus/t4'|show ../gpus/t4
END
echo "1..$(wc -l <table)"
ulimit -S -v 2000000 2>/dev/null   # 2 GB of addresses; not possible with sanitizers
"$ZEROSIM" version >/dev/null 2>&1 || ulimit -S -v unlimited 2>/dev/null
n=0
while IFS='|' read -r status pattern command; do
  n=$((n + 1))
  set -f; set -- $command; set +f
  for word; do shift; [ "$word" = @ ] && word=; set -- "$@" "$word"; done
  timeout 20 "$ZEROSIM" "$@" >said 2>errors </dev/null
  got=$?
  cat said errors | tr -s '\n ' '  ' >text
  if [ $got = "$status" ] && grep -Eq -- "$pattern" text && [ "$(wc -c <errors)" -lt 3000 ]; then
    echo "ok $n - $command"
  else
    echo "not ok $n - $command"
    echo "# status $got, not $status, or no '$pattern' in:"
    head -c 600 text | sed 's/^/# /'
    echo
  fi
done <table
