#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder of sim/ uses only itself and the folders before it in this list.
order="base io engine memory plan hardware network model zero fsdp job run scenario report study check calibrate web cli"
bad=0 seen=
cd "${top_srcdir:-.}" || exit 99
for folder in $order; do
  seen="$seen $folder"
  [ -d "sim/$folder" ] || continue
  for used in $(grep -rhoE '#include "sim/[a-z-]+/' "sim/$folder" | cut -d/ -f2 | sort -u); do
    case " $seen " in
      *" $used "*) ;;
      *) echo "# sim/$folder includes sim/$used"; bad=1 ;;
    esac
  done
done
for folder in sim/*/; do
  case " $order " in
    *" $(basename "$folder") "*) ;;
    *) echo "# $folder is not in the list of layers"; bad=1 ;;
  esac
done
echo 1..1
if [ $bad = 0 ]; then echo "ok 1 - folders depend downwards only"; else echo "not ok 1 - folders depend downwards only"; fi
