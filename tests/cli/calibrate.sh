#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim calibrate`: logs of collectives and of copies become a machine that predicts what it did not see better.
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
echo 1..9
verdict () { # STATUS TEXT
  [ "$1" = 0 ] && echo "ok $2" || echo "not ok $2"
}
# Published rows of eight RTX 4090 through host memory, as nccl-tests prints them: every second one to fit, the others held back.
rows () { # WHICH
  echo "# nThread 1 nGpus 8 minBytes 1024 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0"
  for r in 0 1 2 3 4 5 6 7; do echo "#  Rank  $r Pid 1 on host device  $r [0x01] NVIDIA GeForce RTX 4090"; done
  echo "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
  grep '^RTX4090-x8-SYS' "$top_srcdir/tests/data/network/nccl-measured.csv" | grep 'stock driver' \
    | sed 's/"[^"]*"/x/g' | awk -F, -v which="$1" '$8 == "all_reduce" && n++ % 2 == which \
        { printf "%12d %12d float sum -1 %8.2f %6.2f %6.2f 0 %8.2f %6.2f %6.2f 0\n", $9, $9 / 4, $12, $10, $11, $12, $10, $11 }'
  echo "# Collective test concluded: all_reduce_perf"
}
rows 0 >"$out/fit.log"
rows 1 >"$out/held.log"
machine="--gpus 8xrtx-4090 --fabric pcie4-x16-two-sockets --set cluster.host.cpu=amd"
"$ZEROSIM" calibrate "$out/fit.log" $machine --output "$out/m.yaml" >"$out/a" 2>&1
verdict $? "1 - a log of nccl-tests gives a machine"
grep -q 'collective_simple: .* # median error .* of .* measured; fit.log' "$out/m.yaml"
verdict $? "2 - a fitted number stands with its residual and source"
error () { # which machine
  "$ZEROSIM" collective all_reduce "$@" --against "$out/held.log" | sed -n 's/^# median error from 1 MiB: \([0-9.]*\).*/\1/p'
}
before=$(error $machine); after=$(error --cluster "$out/m.yaml")
echo "# rows that were held back: median error $before % before, $after % after"
awk "BEGIN { exit !($after < $before + 0.5) }"; verdict $? "3 - what was held back is predicted no worse"
"$ZEROSIM" calibrate "$out/fit.log" $machine >"$out/b"; cmp -s "$out/b" "$out/m.yaml"
verdict $? "4 - the same input gives the same bytes"
cat >"$out/nvb" <<END
nvbandwidth Version: v0.6
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     22.00     22.40

SUM host_to_device_memcpy_ce 44.40

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     23.10     23.30

SUM device_to_host_memcpy_ce 46.40
END
"$ZEROSIM" calibrate "$out/nvb" $machine --json >"$out/c"; grep -q '"to_gpu", "value": 0.88' "$out/c" && grep -q '"to_host"' "$out/c"
verdict $? "5 - nvbandwidth gives the rates of copies"
printf ' Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n   Transfer Size (Bytes)\tBandwidth(MB/s)\n   33554432\t\t\t12500.0\n' >"$out/bw"
"$ZEROSIM" calibrate "$out/bw" $machine --json | grep -q '"to_gpu", "value": 0\.\(5\|49999\)'; verdict $? "6 - bandwidthTest too"
"$ZEROSIM" calibrate "$out/fit.log" --gpus 4xrtx-4090 2>&1 | grep -q '8 ranks in the log, 4 in the machine'
verdict $? "7 - a log of another number of ranks is an error"
echo nothing >"$out/x"; "$ZEROSIM" calibrate "$out/x" $machine >/dev/null 2>&1; [ $? = 1 ]; verdict $? "8 - a file of no known kind is an error"
cat >"$out/step.yaml" <<END
model: {base: tinyllama-1.1b, layers: 4}
cluster: {gpu: h200-sxm-141gb, gpus_per_node: 1}
training: {framework: single, micro_batch: 8, sequence_length: 2048, dtype: bf16, attention: flash, optimizer: {name: adamw, implementation: fused}, steps: 2}
END
now=$("$ZEROSIM" run "$out/step.yaml" --json --no-advice | sed -n 's/.*"step_time_ps": \([0-9]*\).*/\1/p' | head -n 1)
{ cat "$out/step.yaml"; echo "measured: {step_time: $(awk "BEGIN { printf \"%.4f\", $now * 1.25 / 1e9 }") ms}"; } >"$out/measured.yaml"
"$ZEROSIM" calibrate "$out/measured.yaml" --json >"$out/d" 2>&1
sed -n 's/.*"\(kernels\|python\)", "value": \(0.[0-9]*\).*"median_error": \([0-9.e-]*\).*/\2 \3/p' "$out/d" | awk '{ ok = $1 < 0.95 && $2 < 0.02 } END { exit !ok }'
verdict $? "9 - a measured step gives the speed of kernels or of the host"
