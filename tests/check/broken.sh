#!/bin/sh
# Faults of a plugin beside its kernels: each is a counted failure that names what failed, in text,
# JSON and JUnit XML alike, and nothing hangs; and where there is nothing to check, why is said.
#
# usage: broken.sh TENON libtenon-broken.so
set -eu
tenon=$1 plugin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
export TENON_PLUGINS=reference,cpu,guard,broken
export TENON_SCAN=off # what it refuses is loaded nowhere, and no failure of loading is seen

die() {
  echo "failed: $*" >&2
  cat "$scratch/out" "$scratch/err" >&2
  exit 1
}
check() { # STATUS FAULT ARGUMENTS...
  wanted=$1 fault=$2 status=0
  shift 2
  BROKEN=$fault "$tenon" check "$plugin" --op neg --dtype f32 --timeout "$limit" -j 1 "$@" \
    >"$scratch/out" 2>"$scratch/err" || status=$?
  [ "$status" -eq "$wanted" ] || die "$fault: status $status, not $wanted"
}
# What hangs is waited for, shortly; where a second is too short for the rest, on a busy machine, as
# long as for others.
limit=60
fails() { # FAULT WHAT: in text and as XML
  case $1 in *hangs) limit=1 ;; esac
  check 1 "$1" --junit "$scratch/junit.xml"
  if [ "$limit" -eq 1 ] && ! grep -qE "^FAIL .*$2" "$scratch/out"; then
    limit=20
    check 1 "$1" --junit "$scratch/junit.xml"
  fi
  limit=60
  grep -qE "^FAIL .*$2" "$scratch/out" || die "$1: no '$2' in the report"
  grep -qE '^[1-9][0-9]* failures$' "$scratch/out" || die "$1: it is not counted"
  grep -qE ' failures="[1-9]' "$scratch/junit.xml" || die "$1: not in the XML"
  grep -q '<failure message=' "$scratch/junit.xml" || die "$1: no test case fails in the XML"
}
skips() { # FAULT WHY
  check 3 "$1" --junit "$scratch/junit.xml"
  grep -qE "nothing to check: .*$2" "$scratch/err" || die "$1: no word of '$2'"
  grep -q '<skipped message=' "$scratch/junit.xml" || die "$1: no test case is skipped in the XML"
}

check 0 sound
fails 'open fails' 'broken:0.*no room on the chip'
fails 'scored: open fails' 'broken:0.*no room on the chip'
fails 'open gives NULL' 'broken:0.*open.*NULL'
fails 'open crashes' 'broken:0: opening it: killed by signal 11 .* in plugin broken, open of its backend'
fails 'open hangs' 'broken:0: opening it: did not end within (1|20) s in plugin broken, open of its backend'
fails 'scored: open hangs' 'looking for devices: did not end within (1|20) s in plugin broken, open of'
fails 'close crashes' 'broken:0: closing it: killed by signal 11 .* in plugin broken, close of its'
fails 'close hangs' 'broken:0: closing it: did not end within (1|20) s in plugin broken, close of its'
fails 'close exits with 3' 'broken:0: closing it: ended the process with status 3'
# Status 0 is no better, and nothing waits for what will not come.
fails 'query exits' 'looking for devices: ended the process with status 0'
fails 'plugin open exits' 'looking for devices: ended the process with status 0'
fails 'count exits' 'looking for devices: ended the process with status 0'
fails 'describe exits' 'looking for devices: ended the process with status 0'
fails 'alloc exits' 'broken:0 .*: neg x=f32.*: ended the process with status 0'
fails 'close exits' 'broken:0: closing it: ended the process with status 0'
fails 'plugin close exits' 'closing.*: ended the process with status 0'
fails 'kernel exits' 'broken:0 .*: neg x=f32.*: ended the process with status 0'
fails 'count crashes' 'looking for devices: killed by signal 11 .* in plugin broken, count of its'
fails 'count hangs' 'looking for devices: did not end within (1|20) s in plugin broken, count of its'
fails 'count gives none' 'plugin broken: count gave 0 devices and no reason'
fails 'describe crashes' 'killed by signal 11 .* in plugin broken, describe of its backend'
fails 'describe fails' 'broken:0: cannot be used: .*cannot say what it is'
fails 'alloc fails' 'TN_ERR_DEVICE_OUT_OF_MEMORY'
fails 'plugin open crashes' 'killed by signal 11 .* in plugin broken, tn_plugin.open'
fails 'plugin open hangs' 'did not end within (1|20) s in plugin broken, tn_plugin.open'
fails 'plugin open fails' 'was not taken: .*no licence'
fails 'plugin close crashes' 'closing.*: killed by signal 11 .* in plugin broken'
fails 'plugin close hangs' 'closing.*: did not end within (1|20) s in plugin broken'
fails 'query crashes' 'killed by signal 11 .* in plugin broken, tn_plugin_query'
fails 'query declines' 'was not taken: declined: .*wrong year'
skips 'count gives a reason' 'plugin broken found no device: .*not plugged in'
skips 'count fails' 'plugin broken found no device: .*the driver says no'
skips 'rows of no device' "broken.neg among them, are for devices of type 'cpuu'"
skips 'rows of no type' 'broken.neg among them, are for no element type'
skips 'layers alone' 'brings layers alone'
skips 'nothing' 'brings nothing'

grep -q '<skipped message=.*<failure\|<failure message=.*<skipped' "$scratch/junit.xml" &&
  die "a test case failed and was skipped"
check 1 'open crashes'
grep -q '1 operators were not checked' "$scratch/out" || die "what was not checked is not said"

# Where slots are called, a process that ends with status 0 has not done its checks.
check 1 'open exits' --slots device
grep -q '^FAIL .*broken:0: open: ended the process with status 0' "$scratch/out" || die "open exits"
check 1 'alloc exits' --slots memory.blocks
grep -q '^FAIL .*broken:0: alloc.*: ended the process with status 0' "$scratch/out" ||
  die "alloc exits"
check 1 'close exits' --slots device
grep -q '^FAIL .*broken:0: close.*: ended the process with status 0' "$scratch/out" ||
  die "close exits"

# The same as JSON; and of a device that is named.
check 1 'open fails' --json --device broken
grep -q '"op": "device".*"failures": 1,.*no room on the chip' "$scratch/out" || die "--json"
grep -q '"totals": true.*"failures": 1,' "$scratch/out" || die "--json: it is not counted"
check 1 'describe fails' --device broken
grep -q '^1 failures$' "$scratch/out" || die "describe fails, --device"
check 3 sound --op nosuch
grep -q 'nothing to check: no operator is called nosuch' "$scratch/err" || die "--op nosuch"
check 3 sound --dtype zz
grep -q 'nothing to check: no element type is called zz' "$scratch/err" || die "--dtype zz"
echo "every fault beside kernels is a failure, with its reason"
