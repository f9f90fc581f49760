#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim collective`: machines by flags, and a log of nccl-tests beside the prediction.
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
echo 1..8
verdict () { # STATUS TEXT
  [ "$1" = 0 ] && echo "ok $2" || echo "not ok $2"
}
cat >"$out/log" <<END
# nThread 1 nGpus 1 minBytes 65536 maxBytes 1073741824 step: 16(factor) warmup iters: 5 iters: 20 validation: 1
#  Rank  0 Pid 1 on host device  0 [0x18] NVIDIA H100 80GB HBM3
$(for r in 1 2 3 4 5 6 7; do echo "#  Rank  $r Pid 1 on host device  $r [0x19] NVIDIA H100 80GB HBM3"; done)
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
       65536         16384     float     sum      -1    20.00    3.28    5.73      0    20.10    3.26    5.71      0
  1073741824     268435456     float     sum      -1   4000.0  268.44  469.76      0   4001.0  268.37  469.65      0
# Collective test concluded: all_reduce_perf
END
"$ZEROSIM" collective all_reduce --gpus 8xH100 --fabric nvswitch --sizes 1G >"$out/a" 2>&1
grep -q 'nvls' "$out/a"; verdict $? "1 - a machine by flags"
"$ZEROSIM" collective all_reduce --gpus 8xH100 --fabric nvswitch --nodes 2 --network ib-ndr-400 --sizes 1G 2>&1 | grep -q 'nvls-tree'
verdict $? "2 - several nodes by flags"
"$ZEROSIM" collective all_reduce --gpus 8xH100 --fabric nvswitch --against "$out/log" >"$out/b" 2>&1
verdict $? "3 - a log beside the prediction"
grep -q '^# median error from 1 MiB: .* (1 rows)' "$out/b" && grep -Eq '4000.00 +(0\.9|1\.0)' "$out/b"
verdict $? "4 - the ratio of each size and the median"
"$ZEROSIM" collective all_reduce --gpus 8xH100 --fabric nvswitch --against "$out/log" --json | grep -q '"ratio": '
verdict $? "5 - as JSON"
"$ZEROSIM" collective all_gather --gpus 8xH100 --fabric nvswitch --against "$out/log" 2>&1 | grep -q 'is a log of all_reduce'
verdict $? "6 - a log of another collective is an error"
"$ZEROSIM" collective all_reduce --sizes 1M >/dev/null 2>&1; [ $? = 1 ]; verdict $? "7 - without a machine: wrong input"
sed 's/nGpus 1/nGpus 8/' "$out/log" >"$out/one"
"$ZEROSIM" collective all_reduce --gpus 8xH100 --fabric nvswitch --against "$out/one" | grep -q '^# one thread drives 8 GPUs: 21 us'
verdict $? "8 - launches of one thread on eight GPUs are counted"
