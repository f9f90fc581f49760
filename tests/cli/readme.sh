#!/bin/sh
# SPDX-License-Identifier: MIT
# The README's first screen is what the first run prints (but for what times decide).
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
echo 1..1
steady () { grep -Ev 'fits in|tokens/s|changes tried|step [0-9]+\.|expect [0-9]+ %|need [0-9.]+ GiB'; }
sed -n '/^```text$/,/^```$/p' "$top_srcdir/README.md" | sed '1d;$d' | steady >"$out/readme"
(cd "$top_srcdir" && "$ZEROSIM" run scenarios/first-run/ds_config.json --model llama-7b --gpus 2xA100-40G --fabric pcie \
  --micro-batch 1 --seq 2048 --checkpointing full) | steady >"$out/screen"
if diff "$out/readme" "$out/screen" >"$out/diff" && [ -s "$out/screen" ]; then
  echo "ok 1 - the README's first screen is current"
else
  echo "not ok 1 - the README's first screen is current"
  sed 's/^/# /' "$out/diff"
fi
