#!/bin/sh
# The OpenCL plugin's cache of built programs: the second run compiles nothing, spoiled files are
# built anew, a folder that others may write into is left alone; and what is said where there is
# no driver. Skipped where there is no OpenCL device.
#
# usage: cache.sh TENON
set -u
tenon=$1
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
TENON_PLUGINS=opencl,reference
TENON_LOG=info
export TENON_PLUGINS TENON_LOG
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  sed 's/^/  /' "$work/log"
  failures=$((failures + 1))
}
# Runs a case of one operator with the cache in $1; $compiled and $loaded are how it got programs.
run() {
  TENON_OPENCL_CACHE=$1 "$tenon" check --device opencl --op neg --dtype f32 --case 3 --no-fork \
    >"$work/log" 2>&1 || fail "the check itself, cache $1"
  counts=$(awk '/programs compiled/ { for (i = 2; i < NF; i++) if ($i == "programs") a += $(i - 1)
      else if ($i == "taken") b += $(i - 1) } END { print a + 0, b + 0 }' "$work/log")
  compiled=${counts% *} loaded=${counts#* }
}

OCL_ICD_VENDORS=$work/none "$tenon" info >"$work/log" 2>&1 || fail "tenon info without a driver"
# Some loaders know no such variable and find their drivers all the same.
grep -q 'opencl:0' "$work/log" || grep -q 'no OpenCL platform' "$work/log" ||
  fail "what is said without a driver"

"$tenon" info 2>&1 | grep -q 'opencl:0' || { echo "no OpenCL device here"; exit 77; }

# PoCL has no device where it cannot keep what it compiles: that is said, not counted.
env -u XDG_CACHE_HOME -u POCL_CACHE_DIR HOME=/proc/none "$tenon" info >"$work/log" 2>&1 ||
  fail "tenon info without a home"
grep -q 'opencl:0' "$work/log" ||
  grep -q 'PoCL keeps what it compiles in /proc/none/.cache/pocl, which cannot be written' "$work/log" ||
  fail "what is said where there is no home"

run "$work/cache"
[ "$compiled" -gt 0 ] || fail "the first run compiles"
grep -qE 'opencl: compiled .* in [0-9.]+ s, program 1 of this run, which is kept' "$work/log" ||
  fail "nothing is said of what takes long"
run "$work/cache"
[ "$compiled" -eq 0 ] || fail "the second run compiles nothing"
[ "$loaded" -gt 0 ] || fail "the second run takes programs from the cache"
[ "$(stat -c %a "$work/cache")" = 700 ] || fail "the folder is closed to others"

for file in "$work"/cache/*.bin; do # cut short; other bytes; empty
  size=$(stat -c %s "$file")
  head -c $((size / 2)) "$file" >"$work/part"
  cp "$work/part" "$file"
  run "$work/cache"
  [ "$compiled" -eq 1 ] || fail "a file cut short is built anew"
  printf 'spoiled' | dd of="$file" bs=1 seek=$((size - 100)) conv=notrunc 2>/dev/null
  run "$work/cache"
  [ "$compiled" -eq 1 ] || fail "a file with other bytes is built anew"
  : >"$file"
  run "$work/cache"
  [ "$compiled" -eq 1 ] || fail "an empty file is built anew"
  break
done
run "$work/cache"
[ "$compiled" -eq 0 ] || fail "what was built anew is kept"

run off
[ "$compiled" -gt 0 ] || fail "off compiles"
[ "$loaded" -eq 0 ] || fail "off keeps nothing"
mkdir -m 777 "$work/open"
chmod 777 "$work/open"
run "$work/open"
[ -z "$(ls "$work/open")" ] || fail "nothing is put where others may write"

[ "$failures" -eq 0 ] && echo "the cache behaves"
exit $((failures > 0))
