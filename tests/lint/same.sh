#!/bin/sh
# Committed pages equal what the build prints, and no page that is printed no more is left.
#
# usage: same.sh COMMITTED_FOLDER PRINTED_FOLDER
set -eu
committed=$1 printed=$2
count=0 stale=0
for page in "$printed"/*.md "$printed"/operators/*.md; do
  count=$((count + 1))
  diff -u "$committed/${page#"$printed"/}" "$page" || stale=$((stale + 1))
done
for page in "$committed"/operators/*.md; do
  [ -f "$printed/${page#"$committed"/}" ] || { echo "$page is printed by nothing"; stale=1; }
done
[ "$count" -gt 2 ] || { echo "nothing was printed"; exit 1; }
[ "$stale" -eq 0 ] || { echo "./dev docs prints them anew"; exit 1; }
echo "$count pages"
