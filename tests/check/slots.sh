#!/bin/sh
# How tenon check reports the checks of a backend's slots: lines, JSON, JUnit, the command that
# runs one again, expected failures, and when they run.
#
# usage: slots.sh TENON libtenon-mutant.so
set -eu
tenon=$1 plugin=$2
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
unset TENON_MUTANT TENON_MUTANT_OPAQUE TENON_MUTANT_DELAY_US
export TENON_PLUGINS=reference,mutant # others would be loaded for nothing

check 0 "$plugin" --slots 'e[vl]*' --seed 3
grep -q '^ok *backend.events .* calls' "$scratch/out" || die "no line for the events"
grep -q '^ok *backend.elapsed .* calls' "$scratch/out" || die "no line for the times"
grep -q '^3 checks of slots' "$scratch/out" || die "not three checks"
check 0 "$plugin" --slots queues --no-fork
grep -q '^ok *backend.queues' "$scratch/out" || die "no check in one process"
check 0 "$plugin" --op add
! grep -q backend "$scratch/out" || die "--op does not leave the slots out"
check 0 "$plugin" --list
grep -q '^backend.events ' "$scratch/out" || die "--list does not name the checks"
grep -qE '^add +f32 +[0-9]+ cases' "$scratch/out" || die "--list does not name the operators"

# A backend that works in its caller: what is not checked is said.
check 0 --device reference --slots device
grep -q 'queues and events are not checked' "$scratch/out" || die "not a word of queues"

export TENON_MUTANT=event_wait_returns
check 1 "$plugin" --slots events --json --junit "$scratch/junit.xml"
grep -q '"op": "backend.events".*"failures": 1' "$scratch/out" || die "--json"
grep -q '"totals": true.*"slot_checks": 2.*"failures": 1' "$scratch/out" || die "--json: totals"
grep -q 'failures="1"' "$scratch/junit.xml" || die "--junit"
grep -A 1 'name="backend.events"' "$scratch/junit.xml" | grep -q '<failure message="mutant:0: event_wait' ||
  die "--junit: no failure"
check 1 "$plugin" --slots '[eq]*' --seed 5
again=$(sed -n 's/.*again: tenon //p' "$scratch/out" | head -n 1)
case $again in *"--slots events --seed 5") ;; *) die "not the command that runs it again: $again" ;; esac
# shellcheck disable=SC2086 # the words of a command
status=0 && "$tenon" $again >"$scratch/out" 2>&1 || status=$?
[ "$status" -eq 1 ] || die "'tenon $again' does not fail"

echo 'backend.events * waits are for another day' >"$scratch/known"
check 0 "$plugin" --slots events --expect "$scratch/known"
grep -q '^expected *backend.events' "$scratch/out" || die "not called expected"
grep -q '^0 failures, 1 expected' "$scratch/out" || die "wrong totals"

# Where a slot never returns, the rest is checked all the same.
TENON_MUTANT=queue_wait_hangs
for limit in 3 30; do # the second where a busy machine makes the rest of it wait as long
  check 1 "$plugin" --slots '[ew]*' --timeout "$limit"
  grep -q '^FAIL .*queue_wait .*did not return within '"$limit"' s' "$scratch/out" || die "not called by name"
  ! grep -q '^ok *backend.elapsed' "$scratch/out" || break
done
grep -q '^ok *backend.elapsed' "$scratch/out" || die "the rest was not checked"
echo "slots are reported"
