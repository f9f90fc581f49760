#!/bin/sh
# SPDX-License-Identifier: MIT
# Numbers of one run do not contradict one another, and its text fits a terminal.
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
exec python3 "$top_srcdir/tests/cli/consistent.py" "$ZEROSIM"
