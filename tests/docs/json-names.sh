#!/bin/sh
# SPDX-License-Identifier: MIT
# The names of the JSON: see json-names.py.
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top_srcdir/tests/docs/json-names.py"
