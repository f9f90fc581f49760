#!/bin/sh
# SPDX-License-Identifier: MIT
# A sweep gives the same bytes for any number of threads, shards and interruptions, and says what is wrong with bad input.
echo 1..13
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
n=0
# result NAME: the last command's status decides
result () {
  status=$?
  n=$((n + 1))
  [ $status = 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
scenario='
  model: {base: llama-7b, layers: 1}
  cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie}
  training:
    framework: deepspeed
    micro_batch: 1
    sequence_length: 256
    steps: 2
    deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 3}}'
cat >"$dir/sweep.yaml" <<END
name: small
scenario:$scenario
axes:
  stage: [1, 2, 3]
  reduce_bucket_size: 1e6:1e9:log12
  stage3_prefetch_bucket_size: {values: [1e6, 1e7, 2e7, 3e7, 4e7], when: stage == 3}
  checkpointing: [none, full, {every: 2}]
  sequence_length: [128, 256, 512]
when: [not (checkpointing == none and stage == 1)]
END
"$ZEROSIM" sweep "$dir/sweep.yaml" --jobs 1 --csv "$dir/one.csv" >/dev/null
[ "$(wc -l <"$dir/one.csv")" = 721 ]
result "conditions leave out what they should"
"$ZEROSIM" sweep "$dir/sweep.yaml" --jobs 4 --csv "$dir/four.csv" >/dev/null && cmp -s "$dir/one.csv" "$dir/four.csv"
result "one thread and four give the same bytes"

for k in 1 2 3; do
  "$ZEROSIM" sweep "$dir/sweep.yaml" --shard $k/3 --output "$dir/part$k.db" >/dev/null
done
"$ZEROSIM" sweep merge "$dir/all.db" "$dir/part1.db" "$dir/part2.db" "$dir/part3.db" --csv "$dir/merged.csv" >/dev/null \
  && cmp -s "$dir/one.csv" "$dir/merged.csv"
result "three shards put together give the same bytes"
"$ZEROSIM" sweep "$dir/sweep.yaml" --output "$dir/all.db" --csv "$dir/again.csv" >/dev/null && cmp -s "$dir/one.csv" "$dir/again.csv"
result "a merged file counts as done"
"$ZEROSIM" sweep "$dir/sweep.yaml" --output "$dir/both.db" --csv "$dir/b1.csv" >/dev/null 2>"$dir/message" & other=$!
"$ZEROSIM" sweep "$dir/sweep.yaml" --output "$dir/both.db" --csv "$dir/b2.csv" >/dev/null 2>&1; status=$?
wait $other && [ $status = 0 ] && cmp -s "$dir/one.csv" "$dir/b1.csv" && cmp -s "$dir/one.csv" "$dir/b2.csv"
result "two that write to one file both come to the whole"

# Killed ten times: when a random number of rows more is there, or sooner, so that it does not matter how fast
# the machine is.  Rows are written four times a second, so there are enough of them for some seconds; a sweep that
# comes to its end before it is killed starts anew.
cat >"$dir/long.yaml" <<END
name: long
scenario:$scenario
set: {model.layers: 12, training.steps: 3}
axes:
  reduce_bucket_size: 1e6:1e8:log40
  sequence_length: 128:1152:64
END
cat >"$dir/kill.py" <<'END'
import os, random, signal, sqlite3, subprocess, sys, time
zerosim, folder = sys.argv[1:]
seed = int(time.time())
random.seed(seed)
path = os.path.join(folder, "killed.db")
command = [zerosim, "sweep", os.path.join(folder, "long.yaml"), "--jobs", "1", "--output", path, "--quiet"]

def rows():
    try:
        with sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=0.1) as db:
            return db.execute("SELECT count(*), count(DISTINCT configuration) FROM results").fetchone()
    except sqlite3.Error:
        return 0, 0

seen, kills, begun = [], 0, time.time()
while kills < 10 and time.time() - begun < 60:
    more = random.choice((0, 1, 2, random.randrange(40)))
    before, wait = rows()[0], random.random() * 0.05
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(wait)
    while child.poll() is None and rows()[0] < before + more:
        time.sleep(0.002)
    child.kill()
    if child.wait() == -signal.SIGKILL:
        kills += 1
        n, distinct = rows()
        assert n == distinct
        seen.append(n)
    else:
        for end in ("", "-wal", "-shm"):
            if os.path.exists(path + end):
                os.remove(path + end)
print("# seed %d: rows after each kill: %s" % (seed, seen))
assert kills == 10 and len(set(seen)) > 1
END
"$ZEROSIM" sweep "$dir/long.yaml" --csv "$dir/long.csv" >/dev/null && python3 "$dir/kill.py" "$ZEROSIM" "$dir" \
  && "$ZEROSIM" sweep "$dir/long.yaml" --output "$dir/killed.db" --csv "$dir/killed.csv" >/dev/null \
  && cmp -s "$dir/long.csv" "$dir/killed.csv"
result "killed at ten random moments, no row is lost or doubled"

"$ZEROSIM" sweep "$dir/sweep.yaml" --jobs 1 --output "$dir/int.db" >/dev/null 2>"$dir/message" &
i=0; while [ ! -e "$dir/int.db" ] && [ $i -lt 500 ]; do sleep 0.01; i=$((i + 1)); done
kill -INT $!
wait $!
[ $? = 3 ] && grep -q 'goes on from' "$dir/message"
result "SIGINT ends with status 3"
"$ZEROSIM" sweep "$dir/sweep.yaml" --output "$dir/int.db" --csv "$dir/int.csv" >/dev/null && cmp -s "$dir/one.csv" "$dir/int.csv"
result "and the file resumes"

"$ZEROSIM" sweep "$dir/sweep.yaml" --set training.steps=1 --output "$dir/int.db" >/dev/null 2>"$dir/message"
[ $? = 1 ] && grep -q 'holds another sweep' "$dir/message"
result "a file of another sweep is refused"

cat >"$dir/bad.yaml" <<END
scenario:$scenario
axes:
  stge: [1, 2]
  stage: [2, 4]
  zero_optimization.stage: [1]
  reduce_bucket_size: 1e9:1e6:log4
  micro_batch: {vlues: [1]}
when: stage === 3
END
"$ZEROSIM" sweep "$dir/bad.yaml" 2>"$dir/message"
[ $? = 1 ] && grep -q "bad.yaml:11:3: there is no setting 'stge'; did you mean 'stage'" "$dir/message" \
  && grep -q "bad.yaml:13:3: the axis 'zero_optimization.stage' is there already" "$dir/message" \
  && grep -q "bad.yaml:14:23: '1e9:1e6:log4': from:to:logN wants" "$dir/message" \
  && grep -q "bad.yaml:15:17: an axis has 'values' and 'when', not 'vlues'" "$dir/message" \
  && grep -q "bad.yaml:16:7: 'stage === 3', column 9" "$dir/message"
result "all mistakes of a sweep file are named with their places"
sed '/stge\|zero_optimization.stage\|log4\|vlues\|when/d' "$dir/bad.yaml" >"$dir/bad2.yaml"
"$ZEROSIM" sweep "$dir/bad2.yaml" 2>"$dir/message"
[ $? = 1 ] && grep -q "bad2.yaml:11:3:.*'stage' must be 0, 1, 2 or 3, not 4" "$dir/message"
result "a value that no configuration takes is found before anything is run"
"$ZEROSIM" sweep "$dir/sweep.yaml" --vary micro_batch=1:9000:1 --vary gradient_accumulation=1:9000:1 2>/dev/null
[ $? = 3 ]
result "too many configurations are a limit"
"$ZEROSIM" sweep "$dir/sweep.yaml" --shard 4/3 2>/dev/null
[ $? = 2 ]
result "a shard that is none is wrong usage"
