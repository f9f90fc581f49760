#!/bin/sh
# SPDX-License-Identifier: MIT
# Trainings in their steady state, where the power limit holds the clock back.
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
exec python3 "$top_srcdir/tests/hardware/power.py" "$ZEROSIM" "$top_srcdir"
