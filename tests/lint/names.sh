#!/bin/sh
# Functions, types and constants that the manual names exist in the public headers.
#
# usage: names.sh SOURCE_ROOT FOLDER_OF_PRINTED_HEADERS
set -eu
export LC_ALL=C
printed=$(realpath "$2")
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

names_in() { cat "$@" | grep -oE '\b(tn|TN)_[A-Za-z0-9_]+' | sort -u; }

names_in api/tenon/*.h "$printed"/*.h api/ops.def api/ops/*.def >"$scratch/known"
# A name's pattern, and what pages that walk through something declare themselves.
cat >>"$scratch/known" <<'EOF'
tn_NAME
TN_NAME_DEFAULTS
tn_acme
TN_ARGS_elliott
TN_ATTRS_elliott
TN_GRAD_elliott
TN_GRAD_sum_square
TN_WITHOUT_elliott
TN_ARGS_sum_square
TN_ATTRS_sum_square
tn_sum_square_attrs
EOF
sort -uo "$scratch/known" "$scratch/known"
names_in README.md docs/*.md >"$scratch/named"
comm -23 "$scratch/named" "$scratch/known" >"$scratch/faults"
while read -r name; do grep -nw "$name" README.md docs/*.md; done <"$scratch/faults"
[ ! -s "$scratch/faults" ] || { echo "no public header has the above"; exit 1; }
echo "$(wc -l <"$scratch/named") names"
