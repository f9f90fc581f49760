#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim replay` on every recorded history: no mismatch.
traces=$top_srcdir/tests/data
count=0
check ()   # NAME FILE [OPTION...]
{
  name=$1 file=$2
  shift 2
  count=$((count + 1))
  if output=$("$ZEROSIM" replay "$file" "$@" 2>&1); then
    echo "ok $count - $name replays without a mismatch"
  else
    echo "not ok $count - $name replays without a mismatch"
    echo "$output" | sed 's/^/# /'
  fi
}
echo "1..22"
for name in default expand split round seg40 llama-step; do
  check "$name" "$traces/allocator-traces/$name.tsv.gz"
done
for name in t_plain_tl t_z2_tl t_z2_tl_w64 t_z3_tl t_z3_1b_ck t_z3_7b_ckre t_z3_tl_offall t_fsdp_1b \
            ds0195_z2_tl ds0195_z3_1b_ck; do
  check "$name" "$traces/h200/trace_$name.csv.gz"
done
limit="4503296409 B"
check fraction-default "$traces/allocator-traces/fraction-default.tsv.gz" --limit "$limit"
check fraction-gc "$traces/allocator-traces/fraction-gc.tsv.gz" --limit "$limit" \
  --alloc-conf garbage_collection_threshold:0.6
check fraction-split64 "$traces/allocator-traces/fraction-split64.tsv.gz" --limit "$limit" \
  --alloc-conf max_split_size_mb:64
check fraction-expand "$traces/allocator-traces/fraction-expand.tsv.gz" --limit "$limit" \
  --alloc-conf expandable_segments:True
# a wrong setting is found out
count=$((count + 1))
if "$ZEROSIM" replay "$traces/allocator-traces/expand.tsv.gz" --alloc-conf max_split_size_mb:64 >/dev/null; then
  echo "not ok $count - a wrong setting does not agree"
else
  echo "ok $count - a wrong setting does not agree"
fi
count=$((count + 1))
printf 'action\taddr\tsize\tstream\nalloc\tx\t1\t0\n' >replay-bad-$$.tsv
"$ZEROSIM" replay replay-bad-$$.tsv >/dev/null 2>replay-bad-$$.err
if [ $? = 1 ] && grep -q ":2" replay-bad-$$.err; then
  echo "ok $count - a broken history is an error with its line"
else
  echo "not ok $count - a broken history is an error with its line"
  sed 's/^/# /' replay-bad-$$.err
fi
rm -f replay-bad-$$.tsv replay-bad-$$.err
