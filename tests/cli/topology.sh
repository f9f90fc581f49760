#!/bin/sh
# SPDX-License-Identifier: MIT
# `zerosim topology`: every recorded machine is understood, drawn, and what is wrong with it is said.
folder=$top_srcdir/tests/data/network/topo
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
echo 1..6
verdict () { # STATUS TEXT
  [ "$1" = 0 ] && echo "ok $2" || echo "not ok $2"
}
bad=
for file in "$folder"/*.txt "$folder"/*.xml; do
  "$ZEROSIM" topology "$file" --plot "$out/a.svg" >"$out/a" 2>&1 || bad="$bad $file"
  grep -q '^Assumed:' "$out/a" || bad="$bad $file(assumptions)"
  [ "$(grep -c 'class="gpu"' "$out/a.svg")" = "$("$ZEROSIM" topology "$file" --json | sed -n 's/.*"gpus": \([0-9]*\).*/\1/p')" ] \
    || bad="$bad $file(GPUs drawn)"
  # every opened element is closed: as many <text as </text
  [ "$(grep -c '<text' "$out/a.svg")" = "$(grep -c '</text>' "$out/a.svg")" ] || bad="$bad $file(text)"
  tail -n 1 "$out/a.svg" | grep -q '^</svg>$' || bad="$bad $file(end)"
done
[ -z "$bad" ]; verdict $? "1 - every recorded machine is read and drawn$bad"
"$ZEROSIM" topology "$folder/06-3x-a6000-one-bridge.txt" | grep -q '^GPU 2 has no NVLink while others have'
verdict $? "2 - the GPU without a bridge is named"
"$ZEROSIM" topology "$folder/08-8x-h100-9nic-ansi-header.txt" --plot - | grep -q '>NVSwitch<'
verdict $? "3 - the NVSwitch is drawn; - is standard output"
"$ZEROSIM" topology "$folder/02-8x-v100-sxm2-2nic.txt" --plot - | grep -c 'class="nvlink"' | grep -q '^17$'
verdict $? "4 - the 16 NVLink pairs of eight V100 are drawn (and the legend's)"
printf 'cluster: {gpu: h100-sxm5-80gb, gpus_per_node: 8, fabric: nvswitch}\n' >"$out/c.yaml"
"$ZEROSIM" topology "$out/c.yaml" | grep -q NV18; verdict $? "5 - a YAML with a cluster is a machine too"
"$ZEROSIM" topology "$folder/06-3x-a6000-one-bridge.txt" --plot /no/such/folder/x.svg >/dev/null 2>&1
[ $? = 1 ]; verdict $? "6 - a drawing that cannot be written is an error"
