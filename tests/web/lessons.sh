#!/bin/sh
# SPDX-License-Identifier: MIT
# The pages of docs/lessons are what their scenarios give now, and there is a page for each scenario.
python=$(command -v python3)
if [ -z "$python" ] || ! "$python" -c 'import html, json, shlex, subprocess' 2>/dev/null; then
  echo "1..0 # SKIP no python3 with its library"
  exit 0
fi
echo 1..2
if output=$(PYTHONDONTWRITEBYTECODE=1 "$python" "$top_srcdir/tests/tools/make-lessons.py" --check 2>&1); then
  echo "ok 1 - lessons are current"
else
  echo "not ok 1 - lessons are current"
  echo "$output" | sed 's/^/# /'
fi
missing=
for scenario in "$top_srcdir"/scenarios/lessons/*.yaml; do
  name=$(basename "$scenario" .yaml)
  [ -f "$top_srcdir/docs/lessons/$name.md" ] && [ -f "$top_srcdir/docs/lessons/$name.svg" ] || missing="$missing $name"
done
[ -z "$missing" ] && echo "ok 2 - each lesson has its page" || echo "not ok 2 - each lesson has its page:$missing"
