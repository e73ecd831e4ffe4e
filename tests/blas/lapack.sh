#!/bin/sh
# LAPACK's own testers (Debian: liblapack-test) over libtenon-blas: no more may fail than do without
# it, for a host BLAS may have failures of its own. A sample of them; all with --all or TENON_TEST_ALL, which
# takes an hour. Exit status 77: the testers are not installed.
#
# usage: lapack.sh TENON DEVICE [--all]
set -u
tenon=$(realpath "$1") device=$2 all=${3:-}
if [ "${TENON_TEST_ALL:-0}" = 1 ]; then all=--all; fi
for folder in /usr/lib/*/lapack /usr/lib64/lapack; do
  [ ! -x "$folder/xlintsts" ] || break
done
[ -x "$folder/xlintsts" ] || { echo "no testers: liblapack-test is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OPENBLAS_NUM_THREADS=1 TENON_PLUGINS="${TENON_PLUGINS:--onednn}"
unset TENON_DEVICE TENON_BLAS_MIN TENON_BLAS_HOST LD_LIBRARY_PATH

# Tests that failed: "N out of M tests failed to pass the threshold", and what broke off.
failed_in() {
  awk '/failed to pass the threshold/ { for (i = 2; i < NF; i++) if ($(i + 1) == "out") n += $i }
    / error exits.*FAILED|did not|\*\*\*/ { n++ } END { print n + 0 }' "$@"
}
try() { # TESTER INPUT
  "$folder/$1" <"$folder/$2" >plain 2>/dev/null
  "$tenon" blas --device "$device" --min 16 --report -- "$folder/$1" <"$folder/$2" >shim 2>err ||
    { echo "not ok - $1 < $2: status $?"; head -3 err; failures=$((failures + 1)); }
  before=$(failed_in plain) after=$(failed_in shim)
  went=$(sed -n "s/.*level 3: \([0-9]*\) on $device.*/\1/p" err)
  if [ "$after" -le "$before" ] && [ "${went:-0}" -gt 0 ] &&
    [ "$(grep -c passed shim)" -ge "$(grep -c passed plain)" ]; then
    echo "ok - $1 < $2: $(grep -c 'passed' shim) parts passed, $after tests failed ($before without), $went calls on $device"
  else
    echo "not ok - $1 < $2: $after tests failed, $before without; ${went:-no} calls on $device"
    failures=$((failures + 1))
  fi
}
failures=0
try xlintstd dtest.in
try xeigtsts svd.in
if [ "$all" = --all ]; then
  for type in s d c z; do
    try "xlintst$type" "${type}test.in"
    try "xlintstrf$type" "${type}test_rfp.in"
    for input in nep sep se2 svd glm gqr gsv csd lse; do try "xeigtst$type" "$input.in"; done
    for input in ec ed gg gd sb sg bb; do try "xeigtst$type" "$type$input.in"; done
  done
  try xlintstds dstest.in
  try xlintstzc zctest.in
fi
[ $failures -eq 0 ]
