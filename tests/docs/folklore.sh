#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/folklore.md and docs/folklore.zh.md are what the pairs of scenarios/folklore give, and the verdicts are known ones.
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
echo 1..1
if python3 "$top_srcdir/tests/tools/make-folklore.py" --check; then
  echo "ok 1 - the pages about folklore are current"
else
  echo "not ok 1 - the pages about folklore are current"
fi
