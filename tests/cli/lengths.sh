#!/bin/sh
# SPDX-License-Identifier: MIT
# Samples of many lengths: the screen, the numbers of docs/lengths.md, wrong values, other programs' keys.
echo 1..22
count=0
check ()   # STATUS NAME
{
  count=$((count + 1))
  [ "$1" = 0 ] && echo "ok $count - $2" || echo "not ok $count - $2"
}
page=$top_srcdir/docs/lengths.md
scenario=$top_srcdir/scenarios/many-lengths.yaml
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# ---- the screen ----
"$ZEROSIM" run "$scenario" >"$scratch/screen"
grep -q '^OUT OF MEMORY in step 6, ' "$scratch/screen"; check $? "it runs out of memory at the step where it does"
grep -A2 '^Lengths vary' "$scratch/screen" | sed 's/^/    /' >"$scratch/growth"
grep -A2 '^    Lengths vary' "$page" | cmp -s - "$scratch/growth"; check $? "the page shows the screen's table"
[ "$(awk 'length ($0) > m { m = length ($0) } END { print m }' "$scratch/growth")" -le 84 ]
check $? "the table fits 80 columns"
grep -q 'alloc_conf=expandable_segments:True' "$scratch/screen"; check $? "expandable segments are among what helps"
tr -s '\n ' '  ' <"$scratch/screen" | grep -q 'the same for all ranks'; check $? "what is assumed is said"
"$ZEROSIM" run "$scenario" --set training.alloc_conf=expandable_segments:True --no-advice >"$scratch/fits"
grep -q '^FITS' "$scratch/fits" && grep -q '^Lengths vary.* 3 .* 10 .* 30 .*100$' "$scratch/fits"
check $? "with expandable segments it fits"
"$ZEROSIM" explain "$scenario" --no-advice | grep -q 'sequence_lengths'; check $? "the story names the key"
"$ZEROSIM" run "$scenario" --no-advice --json --set steps=4 | grep -q '"padding_share": 0\.[0-9]'
check $? "JSON has the share of padding"

# ---- the page's table: measured, and predicted to the byte ----
bad=
while IFS='|' read -r case allocated reserved; do
  row=$("$ZEROSIM" run "$top_srcdir/tests/published/h200-lengths/$case.yaml" --no-advice --json \
    | sed -n 's/^ *"peak_allocated_bytes": \([0-9]*\),$/\1/p; s/^ *"peak_reserved_bytes": \([0-9]*\),$/\1/p' | tail -2 \
    | awk '{ printf "%s%.2f", sep, $1 / 1073741824; sep = "|" }')
  [ "$row" = "$allocated|$reserved" ] || bad="$bad $case($row)"
  grep -q "| $allocated | $reserved[ ,]" "$page" || bad="$bad $case(page)"
done <<END
1b-lora-ck|6.43|15.89
1b-lora-ck-es|6.43|7.92
1b-lora-ck-split|6.44|49.94
1b-lora-ck-power2|7.14|17.13
1b-lora-ck-pad|6.63|16.42
1b-lora-ck-empty|6.43|10.86
1b-lora-ck-cap0|6.43|10.57
1b-lora-ck-gc|6.43|8.45
1b-lora-ck-cap1|6.43|7.27
END
[ -z "$bad" ]; check $? "the page's table is what is predicted$bad"

# ---- values ----
run ()   # VALUE...: what is said of them
{
  set_all=
  for value; do set_all="$set_all --set training.$value"; done
  # shellcheck disable=SC2086
  "$ZEROSIM" run "$scenario" --no-advice --set training.steps=2 $set_all 2>&1
}
run 'sequence_lengths=[512,-1]' | grep -q "'sequence_lengths' must be"; check $? "a length below 1 is refused"
run 'sequence_lengths=many' | grep -q 'must be a list such as'; check $? "a word is refused"
run 'sequence_lengths=[]' | grep -q 'empty list'; check $? "an empty list is refused"
run 'sequence_lengths={"mean":900}' | grep -q 'deviation'; check $? "a mean alone is refused"
run sequence_lengths=null pad_to_multiple_of=8 | tr -s '\n ' '  ' | grep -q 'has no effect without'; check $? "a multiple alone is dead"
run packing=true | tr -s '\n ' '  ' | grep -q 'with packing all sequences are 4096 tokens long'
check $? "packing makes one length of all"
one=$("$ZEROSIM" run "$scenario" --no-advice --json --set steps=3 --set training.sequence_lengths=null \
  --set training.sequence_length=700)
list=$("$ZEROSIM" run "$scenario" --no-advice --json --set steps=3 --set 'training.sequence_lengths=[700,700,900]' \
  --set training.sequence_length=700)
[ "$(printf '%s' "$one" | grep -v '"where"\|"text"')" = "$(printf '%s' "$list" | grep -v '"where"\|"text"')" ]
check $? "a list of equal lengths is one length, in every byte and picosecond"
a=$("$ZEROSIM" run "$scenario" --no-advice --json --set steps=3); b=$("$ZEROSIM" run "$scenario" --no-advice --json --set steps=3)
[ "$a" = "$b" ]; check $? "the same seed gives the same"
c=$("$ZEROSIM" run "$scenario" --no-advice --json --set steps=3 --set training.sequence_lengths.seed=7)
[ "$a" != "$c" ]; check $? "another seed gives another order"

waits ()   # RANKS: for other GPUs, in picoseconds of a step
{
  "$ZEROSIM" run "$top_srcdir/scenarios/many-lengths-ddp.yaml" --no-advice --json --set steps=8 \
    --set training.sequence_lengths.ranks="$1" | sed -n 's/.*"exposed_communication_ps": \([0-9]*\).*/\1/p'
}
[ "$(waits own)" -gt $(($(waits same) * 3)) ]; check $? "ranks with lengths of their own wait for one another"

# ---- the page's orders ----
sed -n '/file: seeds.yaml/,/^```$/p' "$page" | sed '/^<!--/d; /^```/d' >"$scratch/seeds.yaml"
ln -s "$(cd "$top_srcdir" && pwd)/scenarios" "$scratch/scenarios"
"$ZEROSIM" sweep "$scratch/seeds.yaml" --output "$scratch/seeds.db" --csv "$scratch/seeds.csv" --quiet >/dev/null
[ "$(awk -F, 'NR > 1 { print ($2 != "") ":" $3 }' "$scratch/seeds.csv" | sort | uniq -c | tr -s '\n ' '  ')" = " 3 0:oom 3 1:ok " ]
check $? "in each order expandable segments make it fit"

# ---- files of other programs ----
ask ()   # KEYS: what is assumed of a file of TrainingArguments that has them
{
  echo "{\"per_device_train_batch_size\": 1, $1}" >"$scratch/args.json"
  "$ZEROSIM" run "$scratch/args.json" --model tinyllama-1.1b --gpus 1xA100-80G --no-advice 2>&1 | tr -s '\n ' '  '
}
ask '"cutoff_len": 2048, "packing": true' | grep -q "LLaMA-Factory's packing joins"
check $? "LLaMA-Factory's packing is explained"
ask '"max_length": 2048, "group_by_length": true' | grep -q 'batches of samples of like lengths'
check $? "group_by_length is explained"
