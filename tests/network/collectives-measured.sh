#!/bin/sh
# SPDX-License-Identifier: MIT
# Published nccl-tests results: the median error over systems stays at most 9 % from 1 MiB and 22 % below, and 89 % of them
# within 30 %.
# $top_builddir/tests/network/collectives-measured prints the table of systems.
echo 1..1
if "$top_builddir/tests/network/collectives-measured" --check >collectives-measured.out 2>&1; then
  echo "ok 1 - published collectives are met within 9 % (22 % below 1 MiB)"
else
  sed 's/^/# /' collectives-measured.out
  echo "not ok 1 - published collectives are met within 9 % (22 % below 1 MiB)"
fi
tail -n 2 collectives-measured.out | sed 's/^/# /'
rm -f collectives-measured.out
