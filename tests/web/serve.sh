#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim serve`: what it answers, what it refuses, and that no client brings it down.
python=$(command -v python3)
if [ -z "$python" ] || ! "$python" -c 'import http.client, json, random, resource, socket, subprocess, threading' 2>/dev/null; then
  echo "1..0 # SKIP no python3 with its library"
  exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$top_srcdir/tests/web/press-server.py"
