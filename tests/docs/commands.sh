#!/bin/sh
# SPDX-License-Identifier: MIT
# Every command that the documents show, run: see README.md here.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$ZEROSIM" >"$scratch/bin/zerosim"
chmod +x "$scratch/bin/zerosim"
PATH=$scratch/bin:$PATH
tab=$(printf '\t')
n=0
for document in "$top_srcdir/README.md" $(find "$top_srcdir/docs" -name '*.md' | LC_ALL=C sort); do
  name=${document#"$top_srcdir"/}
  folder=$scratch/$(printf '%s' "$name" | tr / _)
  mkdir "$folder"
  for part in scenarios models plots tests; do
    ln -s "$(cd "$top_srcdir" && pwd)/$part" "$folder/$part"
  done
  cp "$top_srcdir/scenarios/first-run/ds_config.json" "$folder/ds_config.json"
  awk -v files="$folder" -f "$top_srcdir/tests/docs/commands.awk" "$document" >"$scratch/list"
  while IFS=$tab read -r line status command <&3; do
    n=$((n + 1))
    (cd "$folder" && timeout 120 sh -c "$command") >"$scratch/out" 2>&1 </dev/null
    found=$?
    if [ "$found" = "$status" ]; then
      echo "ok $n - $name:$line: $command"
    else
      sed 's/^/# /' "$scratch/out" | head -n 10
      echo "not ok $n - $name:$line: status $found, not $status: $command"
    fi
  done 3<"$scratch/list"
done
echo "1..$n"
