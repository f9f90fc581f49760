#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/cases.md is what the scenarios of public reports give; those with numbers are scenarios too.
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
echo 1..1
if PYTHONDONTWRITEBYTECODE=1 python3 "$top_srcdir/tests/tools/make-cases.py" --check; then
  echo "ok 1 - the page about public reports is current"
else
  echo "not ok 1 - the page about public reports is current"
fi
