#!/bin/sh
# SPDX-License-Identifier: MIT
# Training steps taken apart: their kernels, their times, and what bounds them.
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
exec python3 "$top_srcdir/tests/hardware/steps.py" "$ZEROSIM" "$top_srcdir"
