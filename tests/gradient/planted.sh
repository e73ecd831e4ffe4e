#!/bin/sh
# Wrong gradient rules are found, each by the case that shows it, and the right one is passed.
#
# usage: planted.sh TEST_DIFFERENCES libtenon-planted.so
set -eu
differences=$1
export TENON_PLUGINS=reference,planted
TENON_PLUGIN_PATH="$(realpath "$2")${TENON_PLUGIN_PATH:+:$TENON_PLUGIN_PATH}"
export TENON_PLUGIN_PATH
export TENON_SCAN=off # the scan has tests of its own
out=$(mktemp)
trap 'rm -f "$out"' EXIT

die() {
  echo "failed: $*" >&2
  cat "$out" >&2
  exit 1
}
"$differences" planted.right >"$out" 2>&1 || die "the right rule is found wrong"
grep -q '^[1-9][0-9]* cases, [1-9][0-9]* directional derivatives, 0 operators' "$out" ||
  die "the right rule is not looked at"
for wrong in sign:a factor:a mean:b one:b; do
  op=planted.${wrong%:*} input=${wrong#*:}
  status=0
  "$differences" "$op" >"$out" 2>&1 || status=$?
  [ "$status" -eq 1 ] || die "$op: status $status"
  grep -q "^FAILED $op: gradients are wrong" "$out" || die "$op passes"
  grep -q "^$op .*: by $input in a direction: .*, the difference is" "$out" ||
    die "what is wrong with $op is not said"
done
# Nor is a tensor taken that the host has not made.
status=0
"$differences" planted.foreign >"$out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "planted.foreign: status $status"
grep -q "the rule of planted.foreign: give: a tensor that is neither" "$out" ||
  die "planted.foreign is not refused"
