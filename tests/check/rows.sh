#!/bin/sh
# tenon check runs every kernel that a case can reach, be it last among those that take the call,
# and names those that it could not reach.
#
# usage: rows.sh TENON libtenon-rows-faulty.so libtenon-rules.so libtenon-template.so
set -eu
tenon=$1 plugin=$2 rules=$3 template=$(realpath "$4")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
export TENON_SCAN=off # the scan has tests of its own
export TENON_PLUGINS=-onednn,-opencl,-cuda

die() {
  echo "failed: $*" >&2
  cat "$scratch/out" >&2
  exit 1
}
check() { # STATUS ARGUMENTS...
  wanted=$1 status=0
  shift
  "$tenon" check "$@" >"$scratch/out" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || die "check $*: status $status, not $wanted"
}
lines_of() { awk -v op="$1" '/^[^ ]+ +[a-z0-9_]+ .* runs/ { on = $2 == op } on' "$2"; }
found() { # OPERATOR WHAT
  lines_of "$1" "$scratch/all" >"$scratch/out"
  grep -q "^FAILED *$1 " "$scratch/out" || die "$1: its fault was not found"
  grep -qE "$2" "$scratch/out" || die "$1: no '$2' in the report"
}

check 1 "$plugin" --op '[!c]*' --dtype f32
cp "$scratch/out" "$scratch/all"
lines_of sigmoid "$scratch/all" | grep -q '^ok' || die "sigmoid is sound"
[ "$(grep -c '^FAILED' "$scratch/all")" -eq 13 ] || die "not one failure per fault"
found gelu 'made, by rows.writes_42\).* is 42'
found relu '\(70001 elements\).*element'
found maximum '70001 elements, by rows.wrong_if_many_and_last'
found silu 'not checked: rows.writes_42 \(plugin rows, priority 50\) for f32: no case was taken'
found leaky_relu 'not checked: rows.writes_42'
found sqrt 'by rows.wrong_at_its_line\).*x=f32\[5003\]'
found add 'by rows.refuses_what_it_took\).*TN_ERR_UNSUPPORTED.*after all, no'
found abs 'by rows.wrong_at_rank_4\).*x=f32\[2,3,1,2\]'
found mul 'sliced, by rows.ignores_strides|by rows.ignores_strides.*signal'
found sub 'in place, by rows.wrong_in_place'
found floor 'given, by rows.wrong_off_alignment'
found log 'by rows.writes_42'
! grep -q 'by rows.right_log' "$scratch/out" || die "log: the two before it are right"
# What comes after a crash is still looked at.
found tanh 'x=f32\[4\].*signal'
found tanh 'by rows.dies_and_is_wrong\).*x=f32\[129\].* is 42'

again=$(lines_of sub "$scratch/all" | sed -n 's/.*again: tenon //p' | head -n 1)
# shellcheck disable=SC2086 # the words of a command
status=0 && "$tenon" $again >"$scratch/out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "'tenon $again' does not fail"

# One element type among several, seen and unseen.
check 1 "$plugin" --op neg --dtype i32
grep -q 'by rows.wrong_in_int).*x=i32' "$scratch/out" || die "neg in i32"
check 0 "$plugin" --op exp --dtype f32
check 1 "$plugin" --op exp --dtype f64
grep -q 'not checked: rows.right_in_float (plugin rows, priority 10000) for f64' "$scratch/out" ||
  die "exp in f64 is not said to be unchecked"
# On a device that is not the host, where refusing a call is no failure but for one that was taken.
check 0 "$plugin" --op add --dtype i8
grep -q 'skipped: 1 kernels for device type sim, of which there is none here' "$scratch/out" ||
  die "kernels for absent devices are not named"
export TENON_PLUGIN_PATH="$template"
check 1 "$plugin" --device sim --op add --dtype f32
grep -q '(made): add .*TN_ERR_UNSUPPORTED.*after all, no' "$scratch/out" || die "a call was refused late"
unset TENON_PLUGIN_PATH
# Rounding once, not twice.
check 1 "$plugin" --op cast --dtype i64,f32
check 1 "$plugin" --op cast --dtype f64,bf16
check 0 "$plugin" --op cast --dtype f64,f16

# Expected failures leave room for one that is not: in the report, and as XML.
echo 'cast i64 rounds twice' >"$scratch/listed"
check 1 "$plugin" --op cast --dtype '[if]64' --expect "$scratch/listed" --junit "$scratch/junit.xml"
grep -q '^FAIL .*x=f64' "$scratch/out" || die "what is not expected is not shown"
grep -q ' failures="1"' "$scratch/junit.xml" || die "no failure in the XML"
grep -q '<failure message=.*x=f64' "$scratch/junit.xml" || die "no test case fails in the XML"

# A list says why: not for a device with the feature, and not for longer than it is so.
reason='needs what nobody has'
echo "row:rows.writes_* f32 $reason" >"$scratch/listed"
check 0 "$plugin" --op silu --dtype f32 --expect "$scratch/listed"
grep -q '^0 kernels run, 1 not checked as listed' "$scratch/out" || die "what is listed is not counted"
echo "row:rows.writes_* f32 unless:nosuch,x86-64 $reason" >"$scratch/listed"
check 1 "$plugin" --op silu --dtype f32 --expect "$scratch/listed"
echo "row:rows.writes_* f32 unless:nosuch $reason" >"$scratch/listed"
check 0 "$plugin" --op silu --dtype f32 --expect "$scratch/listed"
echo "silu f32 $reason" >"$scratch/listed"
check 1 "$plugin" --op silu --dtype f32 --expect "$scratch/listed"
check 0 "$plugin" --op silu --dtype f32 --no-thresholds
echo "row:rows.sound f32" >"$scratch/listed"
check 2 "$plugin" --op silu --dtype f32 --expect "$scratch/listed"
cat >"$scratch/listed" <<LIST
row:rules_total.host f32 $reason
row:rules_total.host f64 unless:float64 $reason
LIST
check 1 "$rules" --device reference --expect "$scratch/listed"
grep -q '^stale: .*listed:1: row:rules_total.host f32' "$scratch/out" || die "the stale entry is not named"
[ "$(grep -c '^stale' "$scratch/out")" -eq 1 ] || die "an entry for other devices is called stale"
echo "all kernels ran, and all faults were found"
