#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim report`: one file, small, the same each time; a 7B ZeRO-3 step on 8 GPUs is below 3 MB.
echo 1..4
count=0
check ()   # STATUS NAME
{
  count=$((count + 1))
  [ "$1" = 0 ] && echo "ok $count - $2" || echo "not ok $count - $2"
}
set -- "$top_srcdir/scenarios/nvswitch.yaml" --no-advice --model llama-7b
"$ZEROSIM" report "$@" -o report-$$.html; check $? "a page is written"
[ "$(wc -c <report-$$.html)" -lt 3000000 ]; check $? "it is below 3 MB"
"$ZEROSIM" report "$@" | cmp -s - report-$$.html; check $? "the same again, and to standard output"
"$ZEROSIM" report "$top_srcdir/scenarios/zero3.yaml" "$top_srcdir/scenarios/zero2.yaml" --no-advice | grep -q 'LLaMA-7B on two A100-40G, ZeRO-2'
check $? "two scenarios share a page"
rm -f report-$$.html
