#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim explain`: both languages and levels, the numbers of the run, wrong words refused.
echo 1..6
scenario=$top_srcdir/scenarios/nvswitch.yaml
count=0
check ()   # STATUS NAME
{
  count=$((count + 1))
  [ "$1" = 0 ] && echo "ok $count - $2" || echo "not ok $count - $2"
}
"$ZEROSIM" explain "$scenario" --no-advice >explain-$$.en
grep -q 'What the step waits for' explain-$$.en; check $? "the story has its sections"
peak=$("$ZEROSIM" run "$scenario" --json --no-advice | sed -n 's/.*"peak_allocated_bytes": \([0-9]*\),$/\1/p' | tail -1)
gib=$(awk -v b="$peak" 'BEGIN { printf "%.2f GiB", b / 1073741824 }')
tr -s '\n ' '  ' <explain-$$.en | grep -q "$gib"; check $? "the peak is the run's"
"$ZEROSIM" explain "$scenario" --no-advice --lang zh | grep -q '这一步在等什么'; check $? "the story is there in Chinese"
lines=$(wc -l <explain-$$.en)
more=$("$ZEROSIM" explain "$scenario" --no-advice --level expert | grep -c 'Largest alive')
[ "$more" -gt 0 ] && [ "$lines" -gt 20 ]; check $? "an expert hears of tensors"
"$ZEROSIM" explain "$scenario" --lang xx >/dev/null 2>&1; [ $? = 2 ]; check $? "an unknown language is wrong usage"
[ "$("$ZEROSIM" explain "$scenario" --no-advice --json | grep -c '"title"')" -ge 5 ]
check $? "--json is JSON"
rm -f explain-$$.en
