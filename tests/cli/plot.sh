#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim plot`: every figure is drawn, and bad input is named.
if ! command -v gnuplot >/dev/null 2>&1; then
  echo "1..0 # SKIP no gnuplot"
  exit 0
fi
echo 1..8
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
n=0
result () {
  status=$?
  n=$((n + 1))
  [ $status = 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
cat >"$dir/job.yaml" <<END
model: {base: llama-7b, layers: 2}
cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie}
training:
  framework: deepspeed
  micro_batch: 1
  sequence_length: 256
  steps: 2
  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 3}}
END
[ "$("$ZEROSIM" plot --list | grep -c '^[a-z]')" = "$(ls "$top_srcdir"/plots/*.gp | grep -vc common)" ]
result "the list has every figure"
bad=
for script in "$top_srcdir"/plots/*.gp; do
  case $script in */common.gp) continue ;; esac
  sed -n 1p "$script" | grep -q '^# title: ' && sed -n 2p "$script" | grep -q '^# needs: ' \
    && sed -n 3p "$script" | grep -q '^# shows: ' || bad="$bad $script"
done
[ -z "$bad" ]
result "every figure says its title, what it needs and what it shows$bad"
bad=
for figure in memory timeline step; do
  "$ZEROSIM" plot $figure "$dir/job.yaml" --output "$dir/$figure.svg" && grep -q '</svg>' "$dir/$figure.svg" || bad="$bad $figure"
done
[ -z "$bad" ]
result "figures of a scenario$bad"
"$ZEROSIM" sweep "$dir/job.yaml" --vary stage=1,2,3 --vary micro_batch=1,4096 --output "$dir/sweep.db" >/dev/null
bad=
for figure in curve heat pareto; do
  "$ZEROSIM" plot $figure "$dir/sweep.db" --output "$dir/$figure.svg" && grep -q '</svg>' "$dir/$figure.svg" || bad="$bad $figure"
done
[ -z "$bad" ]
result "figures of a sweep, with configurations that run out of memory$bad"
"$ZEROSIM" plot collective all_gather all_reduce --gpus 8xA100-80G --fabric nvswitch --output "$dir/c.png" && [ -s "$dir/c.png" ]
result "collectives, as PNG"
"$ZEROSIM" plot hat "$dir/sweep.db" 2>"$dir/message"
[ $? = 2 ] && grep -q "did you mean 'heat'" "$dir/message"
result "an unknown figure is wrong usage"
"$ZEROSIM" plot heat "$dir/sweep.db" stge micro_batch --output "$dir/x.svg" 2>"$dir/message"
[ $? = 2 ] && grep -q "did you mean 'stage'" "$dir/message"
result "an unknown axis is wrong usage"
"$ZEROSIM" plot heat "$dir/job.yaml" --output "$dir/x.svg" 2>/dev/null
[ $? = 1 ]
result "a file that is no sweep is wrong input"
