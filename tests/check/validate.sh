#!/bin/sh
# Part of the conformance suite under the layer validate: nothing that it does is a race, an
# overlap, a use after release or a leak, so not a word may come of it.
#
# usage: validate.sh TENON DEVICE OPERATORS
set -eu
tenon=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

status=0
TENON_LOG=info TENON_LAYERS=validate TENON_VALIDATE=alias,lifetime,races,leaks,unwritten,error \
  "$tenon" check --device "$2" --op "$3" --dtype f32 -j 2 > "$log" 2>&1 || status=$?
[ "$status" -ne 3 ] || exit 77
if [ "$status" -ne 0 ] || grep -q 'warning: validate' "$log"; then
  cat "$log"
  exit 1
fi
grep -q 'validate: nothing to report' "$log" || {
  echo "validate was not at work"
  cat "$log"
  exit 1
}
