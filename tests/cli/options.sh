#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual page's OPTIONS are those of the program; every command has help and statuses are right.
echo 1..5
if "$ZEROSIM" --print-options-manual | cmp -s - "$top_srcdir/docs/options.scd"; then
  echo "ok 1 - the manual page lists the options of the program"
else
  echo "not ok 1 - the manual page lists the options of the program"
fi
bad=
for command in $("$ZEROSIM" help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -v zerosim); do
  "$ZEROSIM" "$command" --help >/dev/null 2>&1 || bad="$bad $command"
  grep -q "^\*$command\*" "$top_srcdir/docs/zerosim.1.scd" || bad="$bad $command(manual)"
done
[ -z "$bad" ] && echo "ok 2 - every command has help and is in the manual" \
  || echo "not ok 2 - every command has help and is in the manual:$bad"
"$ZEROSIM" rnu >/dev/null 2>&1; [ $? = 2 ] && echo "ok 3 - an unknown command is wrong usage" \
  || echo "not ok 3 - an unknown command is wrong usage"
"$ZEROSIM" replay --no-such-option x >/dev/null 2>&1; [ $? = 2 ] && echo "ok 4 - an unknown option is wrong usage" \
  || echo "not ok 4 - an unknown option is wrong usage"
"$ZEROSIM" replay /no/such/file >/dev/null 2>&1; [ $? = 1 ] && echo "ok 5 - a missing file is wrong input" \
  || echo "not ok 5 - a missing file is wrong input"
