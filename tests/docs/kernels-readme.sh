#!/bin/sh
# kernels/README.md against the sources: each line of a block headed ```text FILE must stand in
# FILE, where build/ is the build's folder, and what the ```sh blocks print must be what the
# ```output block behind them says.
#
# usage: kernels-readme.sh SOURCE_ROOT BUILD_ROOT CC
set -eu
root=$(realpath "$1") build=$(realpath "$2") CC=$3
page=$root/kernels/README.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The commands say build/, wherever that is.
ln -s "$root/api" "$root/kernels" "$scratch"
ln -s "$build" "$scratch/build"
cd "$scratch"

awk '/^```text / { file = $2; inside = 1; next }
     /^```/ { inside = 0; next }
     inside { print file "\t" $0 }' "$page" >quoted
[ -s quoted ] || { echo "the page quotes nothing"; exit 1; }
tab=$(printf '\t')
while IFS= read -r quote; do
  file=${quote%%"$tab"*} line=${quote#*"$tab"}
  [ -f "$file" ] || { echo "the page quotes $file, which does not exist"; exit 1; }
  grep -qxF -- "$line" "$file" || { echo "$file has no such line: $line"; exit 1; }
done <quoted

awk '/^```sh/ { inside = 1; next } /^```/ { inside = 0; next } inside' "$page" >commands
awk '/^```output/ { inside = 1; next } /^```/ { inside = 0; next } inside' "$page" >wanted
[ -s commands ] || { echo "the page shows no commands"; exit 1; }
cc() { command "$CC" "$@"; }
# shellcheck disable=SC1091 # written above
. ./commands >printed
diff wanted printed
