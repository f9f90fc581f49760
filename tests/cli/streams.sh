#!/bin/sh
# SPDX-License-Identifier: MIT
# "-" is standard input wherever a file is read, more than once too, and standard output wherever one is written.
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 99
machine="--model tinyllama --gpus 2xA100-40G"
cat >ds.json <<END
{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1}
END
echo '{"output_dir": "out", "bf16": true, "per_device_train_batch_size": 1, "deepspeed": "ds.json"}' >args.json
printf 'name: t\nscenario: {model: tinyllama, cluster: {gpu: h100, gpus_per_node: 2}}\naxes: {micro_batch: [1, 2]}\n' >sweep.yaml
echo 1..20
n=0
ok () { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; head -3 said | sed 's/^/# /'; fi; }
# "file.json:3:5: ..." and "-:3:5: ..."
nameless () { sed 's/ds\.json:/-:/' "$1"; }

for command in run explain "compare --vary stage=2,3" "advise --set model.layers=2"; do
  $ZEROSIM $command ds.json $machine >file 2>said
  cat ds.json | $ZEROSIM $command - $machine >said 2>&1
  nameless file | cmp -s - said; ok $? "$command - says the same of a pipe as of a file"
done
$ZEROSIM run - $machine <ds.json >said 2>&1; $ZEROSIM run ds.json $machine >file 2>/dev/null
nameless file | cmp -s - said; ok $? "so does a redirected file"
cat args.json | $ZEROSIM run - $machine >said 2>&1 && grep -q "ZeRO-3" said; ok $? "TrainingArguments come through a pipe"
cat sweep.yaml | $ZEROSIM sweep - >said 2>&1 && [ "$(wc -l <said)" = 3 ]; ok $? "a sweep comes through a pipe"
$ZEROSIM run ds.json $machine --trace - >said 2>&1 && head -c 20 said | grep -q '^{"displayTimeUnit' \
  && ! grep -q FITS said; ok $? "--trace - is the trace and nothing else"
$ZEROSIM run ds.json $machine --memory-snapshot - >said 2>&1 && head -c 20 said | grep -aq segments; ok $? "--memory-snapshot - is the snapshot"
$ZEROSIM report ds.json $machine --output - 2>said | grep -q '<html'; ok $? "report --output -"
$ZEROSIM plot memory ds.json $machine --output - 2>said | head -c 400 | grep -q '<svg'; ok $? "plot --output -"
$ZEROSIM sweep sweep.yaml --csv - >said 2>&1 && [ "$(wc -l <said)" = 3 ]; ok $? "sweep --csv -"
wrong () { $ZEROSIM "$@" >said 2>&1; [ $? = 2 ]; ok $? "$*: wrong usage"; }
wrong run ds.json $machine --trace - --json
wrong sweep sweep.yaml --output -
wrong check ds.json - --fix
trace=$top_srcdir/tests/data/allocator-traces/default.tsv.gz
for text in "cat $trace" "gzip -dc $trace" "$ZEROSIM run ds.json $machine --memory-snapshot -"; do
  $text | $ZEROSIM replay - >said 2>&1; ok $? "$(basename "${text%% *}") ... | replay -"
done
$ZEROSIM validate - <"$top_srcdir/tests/published/cases/12-tinyllama-single.yaml" >said 2>&1; ok $? "validate -"
[ ! -e ./- ]; ok $? "no file is called -"
