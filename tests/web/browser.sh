#!/bin/sh
# SPDX-License-Identifier: MIT
# The page in a real browser: it loads, answers to hand and keyboard, and says what --json says.
# Without Chromium (or python3) there is nothing to drive: skipped.
python=$(command -v python3)
if [ -z "$python" ] || ! PYTHONPATH=$top_srcdir/tests/web "$python" -c 'import browser, sys; sys.exit(browser.find() is None)' 2>/dev/null; then
  echo "1..0 # SKIP no python3 or no Chromium (Debian: chromium) to drive"
  exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$top_srcdir/tests/web/drive-page.py"
