#!/bin/sh
# tenon check on operators that have shape rules of their own: right ones pass, with cases that
# the rule takes; wrong ones fail and say why.
#
# usage: rules.sh TENON libtenon-rules.so
set -eu
tenon=$1 plugin=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
export TENON_SCAN=off # the scan has tests of its own

die() {
  echo "failed: $*" >&2
  cat "$out" >&2
  exit 1
}
status=0
"$tenon" check "$plugin" --device reference --op 'rules_*' >"$out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "status $status"
for op in total product bias advance; do
  runs=$(sed -n "s/^ok  *rules_$op  *f32 f64  *\([0-9]*\) runs.*/\1/p" "$out")
  [ "${runs:-0}" -ge 30 ] || die "rules_$op: '$runs' runs"
done
grep -q '^FAILED *rules_never ' "$out" || die "a rule that takes nothing passes"
grep -q 'rules_never: its shape rule takes none of the .* cases tried: .*nothing is right for it' "$out" ||
  die "that the rule takes nothing is not said"
grep -q '^FAILED *rules_negative ' "$out" || die "a size below 0 passes"
grep -q 'rules_negative(.*): its shape rule gave a negative size' "$out" || die "the size below 0 is not said"
[ "$(grep -c '^FAILED' "$out")" -eq 2 ] || die "others fail as well"
echo "right rules pass, wrong ones do not"
