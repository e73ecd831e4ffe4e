#!/bin/sh
# What a process sees of libtenon-blas: the host BLAS found and never itself, the report, devices
# that are not there or fail, and the file of what was measured, damaged in several ways.
#
# usage: process.sh TENON MULTIPLY FRAIL_PLUGIN
set -u
tenon=$(realpath "$1") multiply=$(realpath "$2")
TENON_PLUGIN_PATH=$(realpath "$3")
export TENON_SCAN=off TENON_PLUGIN_PATH OPENBLAS_NUM_THREADS=1
unset LD_LIBRARY_PATH TENON_DEVICE TENON_BLAS_MIN TENON_BLAS_HOST TENON_BLAS_REPORT TENON_BLAS_VERBOSE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
failures=0
fail() { echo "not ok - $1"; sed 's/^/#   /' "$work/out"; failures=$((failures + 1)); }
# try STATUS COMMAND...: its output, of both kinds, to $work/out
try() {
  wanted=$1
  shift
  "$@" >"$work/out" 2>&1
  got=$?
  [ $got -eq "$wanted" ] || fail "status $got, not $wanted: $*"
}
says() { grep -q -- "$1" "$work/out" || fail "no '$1'"; }
silent_of() { if grep -q -- "$1" "$work/out"; then fail "says '$1'"; fi; }

echo "# the host"
try 0 "$tenon" blas --report -- "$multiply" 8
says 'right'
says '1 calls, 1 of level 3: 0 on no device'
try 0 "$tenon" blas --by-path --report -- "$multiply" 8
says '1 on the host BLAS'
library=$(env -u LD_PRELOAD "$tenon" blas -- printenv LD_PRELOAD)
try 127 "$tenon" blas --host "$library" -- "$multiply" 8
says 'it is this library itself'
try 127 "$tenon" blas --host /nowhere.so -- "$multiply" 8
says 'cannot be the host BLAS: /nowhere.so'
try 127 "$tenon" blas --host libc.so.6 -- "$multiply" 8
says 'it has no dgemm_'

echo "# devices"
try 0 "$tenon" blas --device reference --min 0 --report -- "$multiply" 9
says '1 on reference:0 (1 products'
try 0 "$tenon" blas --device reference --report -- "$multiply" 100 # in the host's memory: no gain
says '0 on reference:0'
try 0 "$tenon" blas --device reference --min 10 --report -- "$multiply" 9
says '0 on no device'
try 0 "$tenon" blas --device nosuch --min 0 -- "$multiply" 9
says "there is no device 'nosuch'.*the host BLAS computes"
says 'right'
try 0 env TENON_BLAS_VERBOSE=0 "$tenon" blas --device nosuch --min 0 -- "$multiply" 9
silent_of 'tenon-blas'
try 0 env TENON_BLAS_MIN=much "$tenon" blas --device reference -- "$multiply" 9
says "TENON_BLAS_MIN is 'much'"
for part in alloc upload matmul download doubles; do
  try 0 env FRAIL_FAILS=$part "$tenon" blas --device frail --min 0 --report -- "$multiply" 40
  says 'right'
  says 'the host BLAS computes'
  says '0 on frail:0'
done
try 0 env FRAIL_BYTES=4000 "$tenon" blas --device frail --min 0 --report -- "$multiply" 20
says '1 on frail:0 (8 products'

echo "# what was measured"
try 0 "$tenon" blas --device frail --verbose -- "$multiply" 100
says 'measuring frail:0'
file=$(ls "$work/cache/tenon/blas/"*)
cp "$file" "$work/whole"
again() { # WHAT: measured anew, and the file is whole again
  try 0 "$tenon" blas --device frail --verbose -- "$multiply" 100
  says 'measuring frail:0'
  grep -q '^tenon-blas 1$' "$file" || fail "$1: the file is not written anew"
  [ "$(wc -l <"$file")" -eq "$(wc -l <"$work/whole")" ] || fail "$1: the file is not whole"
}
try 0 "$tenon" blas --device frail --verbose -- "$multiply" 100
silent_of 'measuring'
head -c 100 "$work/whole" >"$file" && again 'cut off'
sed 's/^host 0x1/host 0x2/' "$work/whole" >"$file" && again 'another number'
: >"$file" && again 'empty'
head -c 100000 /dev/urandom >"$file" && again 'noise'
{ cat "$work/whole"; echo more; } >"$file" && again 'longer'
rm "$file" && ln -s "$work/whole" "$file" && again 'a link' # is replaced, not followed
[ ! -L "$file" ] || fail 'the link is still there'
[ "$(find "$work/cache/tenon/blas" -type f | wc -l)" -eq 1 ] || fail 'files are left over'
chmod 500 "$work/cache/tenon/blas" && rm -f "$file" 2>/dev/null
try 0 env XDG_CACHE_HOME=/proc/nowhere "$tenon" blas --device frail -- "$multiply" 100
says 'right'
chmod 700 "$work/cache/tenon/blas"

echo "# the command"
try 2 "$tenon" blas
try 2 "$tenon" blas --nosuch -- "$multiply"
try 0 "$tenon" blas --help
try 127 "$tenon" blas -- /nowhere/program
try 0 env LD_PRELOAD= "$tenon" blas -- true
[ $failures -eq 0 ] || exit 1
echo "all as it should be"
