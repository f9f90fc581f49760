#!/bin/sh
# SPDX-License-Identifier: MIT
# The table of docs/memory.md about Liger's kernels is what scenarios/liger.yaml gives; files of others ask for them.
scenario=$top_srcdir/scenarios/liger.yaml
count=0
check ()   # STATUS NAME
{
  count=$((count + 1))
  [ "$1" = 0 ] && echo "ok $count - $2" || echo "not ok $count - $2"
}
gib ()   # bytes on stdin, one a line: in GiB, on one line
{
  awk '{ printf "%s%.2f GiB", (NR > 1 ? " | " : ""), $1 / 1073741824 }'
}
sed -n 's/^| `\(.*\)` | \([0-9.]* GiB | [0-9.]* GiB\) |$/\1=\2/p' "$top_srcdir/docs/memory.md" >rows-$$
echo "1..$(($(wc -l <rows-$$) + 6))"
[ "$(wc -l <rows-$$)" -ge 5 ]; check $? "docs/memory.md has its table"
while read -r row; do
  "$ZEROSIM" run "$scenario" --json --no-advice --set "training.liger=${row%=*}" >run-$$.json
  found=$({ sed -n 's/^  "peak_allocated_bytes": \([0-9]*\),$/\1/p' run-$$.json
            { tr -d '\n ' <run-$$.json; echo; } | sed -n 's/.*"peak_holders":\[\([^]]*\)\].*/\1/p' | tr '}' '\n' \
              | sed -n 's/.*"logitsandloss","bytes":\([0-9]*\).*/\1/p; $a 0' | head -1; } | gib)
  [ "$found" = "${row##*=}" ]; check $? "liger: ${row%=*} gives $found"
done <rows-$$
"$ZEROSIM" run "$scenario" --no-advice | grep -q "Liger's rope, swiglu, rms_norm, fused_linear_cross_entropy"
check $? "the run says which kernels"
"$ZEROSIM" explain "$scenario" --no-advice | tr -s '\n ' '  ' | grep -q 'no logits wait for backward'
check $? "explain says what the fused loss keeps"
"$ZEROSIM" run "$scenario" --set training.fused_operators=true 2>&1 | grep -q 'leave it out'
check $? "two ways to say it are one too many"
"$ZEROSIM" run "$scenario" --set training.liger=false --gpus 8xA100-40G | grep -q 'liger=true'
check $? "logits that do not fit bring Liger's kernels to mind"
"$ZEROSIM" validate "$top_srcdir/tests/published/h200-liger" 2>&1 \
  | grep -q '^phase_peak_allocated  *33 .* 100.0%  *100.0%  *100.0%  *100.0%$'
check $? "measured steps agree in bytes"
rm -f rows-$$ run-$$.json
