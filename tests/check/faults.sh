#!/bin/sh
# tenon check finds each planted fault, names the operator and says what is wrong; the
# command that it prints runs the very case again; expected failures are as they say.
#
# usage: faults.sh TENON libtenon-faulty.so
set -eu
tenon=$1 plugin=$2
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
unset FAULTY_HANGS
export TENON_PLUGINS=reference,cpu,guard,faulty # others would be loaded for nothing

found() { # OPERATOR WHAT
  lines_of "$1" "$scratch/all" >"$scratch/out"
  grep -q "^FAILED *$1 " "$scratch/out" || die "$1: its fault was not found"
  grep -qE "$2" "$scratch/out" || die "$1: no '$2' in the report"
}

# One that hangs is waited for three times, and as long by whoever opens a device or runs another
# operator: where the machine is too busy for the short limit, a long one must do. Beside the rest.
hang_is() { # STATUS SECONDS WHAT ARGUMENTS...
  status=0 report="$scratch/hang$1" wanted=$1 seconds=$2 what=$3
  shift 3
  FAULTY_HANGS=1 "$tenon" check "$plugin" --op '[ahn]*' --dtype f32 --timeout "$seconds" "$@" \
    >"$report" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] && grep -q '^ok *add ' "$report" && grep -qE "$what" "$report"
}
hang_is_found() { hang_is 1 "$1" "^FAIL .*hypot .*did not end within $1 s"; }
hang_is_expected() { hang_is 0 "$1" '^expected *hypot ' --expect "$scratch/hang.expect"; }
printf '%s f32 a planted fault\n' hypot neg adam_step >"$scratch/hang.expect"
(hang_is_found 3 || hang_is_found 30) &
found_job=$!
(hang_is_expected 3 || hang_is_expected 30) &
expected_job=$!

check 1 "$plugin" --dtype f32 --junit "$scratch/junit.xml"
cp "$scratch/out" "$scratch/all"
lines_of add "$scratch/all" | grep -q '^ok' || die "add is sound"
[ "$(grep -c '^FAILED' "$scratch/all")" -eq 16 ] || die "not one failure per fault"
found relu 'element \[[0-9]+\] is .*, reference 0'
found mul '\((permuted|sliced)\).*element'
found softmax 'relative norm|element'
found sub 'element|outside'
found maximum 'reference -?nan'
found div 'TN_ERR_BACKEND.*made up'
found minimum 'TN_ERR_UNSUPPORTED.*too large'
found sqrt 'wrote outside|signal'
found sigmoid 'trapped.*signal'
found log 'changed its input'
found gelu 'deterministic, twice.*other bits'
found neg 'in place'
found tanh 'signal'
found sgd_step '\(from the device\).*(param|velocity)'
found adam_step '\(from the device\).*param.*nan'
# One that is wrong only from a size on, of which nothing but its "supports" knows.
found exp 'x=f32\[131313\].*element'

again=$(lines_of sub "$scratch/all" | sed -n 's/.*again: tenon //p' | head -n 1)
# shellcheck disable=SC2086 # the words of a command
status=0 && "$tenon" $again >"$scratch/out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "'tenon $again' does not fail"
grep -q '^1 cases' "$scratch/out" || die "'tenon $again' runs more than one case"

# The line that a "supports" draws is found to the very element, and left alone on demand.
check 1 "$plugin" --op exp --dtype f32
grep -q '^FAIL .*x=f32\[131313\]' "$scratch/out" || die "the threshold is 131313"
again=$(sed -n 's/.*again: tenon //p' "$scratch/out" | head -n 1)
# shellcheck disable=SC2086 # the words of a command
status=0 && "$tenon" $again >"$scratch/out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "'tenon $again' does not fail"
grep -q '^1 thresholds, both sides run' "$scratch/out" || die "more than one threshold"
check 0 "$plugin" --op exp --dtype f32 --no-thresholds

if command -v python3 >/dev/null; then
  python3 - "$scratch/junit.xml" <<'PYTHON' || die "not what JUnit XML should be"
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
cases = suite.findall("testcase")
failed = {c.get("name") for c in cases if c.find("failure") is not None}
assert len(cases) == int(suite.get("tests")) == 17, len(cases)
assert len(failed) == int(suite.get("failures")) == 16 and "add" not in failed, failed
PYTHON
fi

# With the faults explained, by a file beside the plugin, the run passes.
cp "$plugin" "$scratch/libtenon-faulty.so"
for op in relu mul softmax sub maximum div minimum sqrt sigmoid log gelu neg tanh exp sgd_step \
  adam_step; do
  echo "$op f32 a planted fault"
done >"$scratch/libtenon-faulty.expect"
check 0 "$scratch/libtenon-faulty.so" --dtype f32
grep -q '^expected *relu' "$scratch/out" || die "relu is not called expected"
# An entry that nothing uses fails an unnarrowed run.
cp "$scratch/libtenon-faulty.expect" "$scratch/stale"
echo 'add f* never was wrong' >>"$scratch/stale"
rm "$scratch/libtenon-faulty.expect"
check 1 "$scratch/libtenon-faulty.so" --expect "$scratch/stale"
grep -q '^stale: .*/stale:17: add' "$scratch/out" || die "the stale entry is not named"
[ "$(grep -c '^stale' "$scratch/out")" -eq 1 ] || die "entries in use are called stale"
grep -q '^0 failures, .* expected ones, 1 stale' "$scratch/out" || die "wrong totals"
wait "$found_job" || { cat "$scratch/hang1" && die "hypot: that it hangs is not said"; }
grep -q '^FAILED *neg ' "$scratch/hang1" || die "beside one that hangs others are not checked"
wait "$expected_job" || { cat "$scratch/hang0" && die "a hang that is listed is not expected"; }
echo "all planted faults were found"
