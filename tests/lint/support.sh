#!/bin/sh
# docs/support.md says what the plugins' kernels say, and README.md beside docs/ how many operators
# there are. A build without the backend of some type of device is compared in the sections that it
# has.
#
# usage: support.sh COMMITTED PRINTED | support.sh COMMITTED TENON
set -eu
committed=$1 printed=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
if [ -x "$printed" ]; then
  "$printed" info --missing >"$scratch/printed"
  printed=$scratch/printed
fi

types=$(sed -n 's/^## //p' "$printed" | tr '\n' ' ')
[ -n "$types" ] || { echo "nothing was printed"; exit 1; }
# What stands before the first section, and the sections of the given types alone.
parts() { # PAGE
  awk -v types=" $types" '
    BEGIN { shown = 1 }
    /^## / { shown = index(types, " " $2 " ") }
    shown && NF' "$1"
}
parts "$committed" >"$scratch/a"
parts "$printed" >"$scratch/b"
count=$(sed -n 's/^All \([0-9]*\) operators .*/\1/p' "$(dirname "$committed")/../README.md")
if [ -x "$2" ] && ! "$2" info | grep -q "of $count operators"; then
  echo "README.md counts $count operators: tenon info has others"
  exit 1
fi
if diff -u "$scratch/a" "$scratch/b"; then
  echo "$(grep -c '^| [a-z0-9_]* |' "$scratch/a") lines in the sections $types"
  exit 0
fi
echo "$committed is stale: ./dev docs prints it anew"
exit 1
