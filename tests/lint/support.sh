#!/bin/sh
# docs/support.md says what the plugins' kernels say. A build without the backend of some
# column is compared in the columns that it has.
#
# usage: support.sh COMMITTED PRINTED | support.sh COMMITTED TENON
set -eu
committed=$1 printed=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
if [ -x "$printed" ]; then
  "$printed" info --kernels >"$scratch/printed"
  printed=$scratch/printed
fi

columns=$(awk -F'|' '/^\| operator/ { for (i = 2; i < NF; i++) print $i; exit }' "$printed" | tr -d ' ' | tr '\n' ' ')
# The rows of a page, in the given columns alone.
rows() { # PAGE
  awk -F'|' -v columns="$columns" '
    BEGIN { n = split(columns, wanted, " ") }
    /^\| operator/ { for (i = 2; i < NF; i++) { name = $i; gsub(/ /, "", name); at[name] = i } }
    /^\|/ && !/^\|-/ {
      for (i = 1; i <= n; i++) printf "|%s", (wanted[i] in at) ? $(at[wanted[i]]) : "(no column)"
      print "|"
    }' "$1"
}
rows "$committed" >"$scratch/a"
rows "$printed" >"$scratch/b"
if diff -u "$scratch/a" "$scratch/b"; then
  echo "$(($(wc -l <"$scratch/a") - 1)) operators in the columns $columns"
  exit 0
fi
echo "$committed is stale: ./dev docs prints it anew"
exit 1
