#!/bin/sh
# SPDX-License-Identifier: MIT
# Steps that the host bounds: the table of costs lies between the fastest and the slowest moments of one machine.
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
exec python3 "$top_srcdir/tests/hardware/host-speed.py" "$ZEROSIM" "$top_srcdir"
