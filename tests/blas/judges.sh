#!/bin/sh
# The reference BLAS's own testers (Debian: libblas-test), Fortran's and the CBLAS's, all levels and
# types, with libtenon-blas as their BLAS. With a device, all of its products go there. Exit status
# 77: the testers are not installed.
#
# usage: judges.sh TENON [DEVICE]      DEVICE: none, by the search path; else preloaded
set -u
tenon=$(realpath "$1") device=${2:-}
for folder in /usr/lib/*/blas /usr/lib64/blas; do
  [ ! -x "$folder/xblat1s" ] || break
done
[ -x "$folder/xblat1s" ] || { echo "no testers: libblas-test is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OPENBLAS_NUM_THREADS=1 TENON_PLUGINS="${TENON_PLUGINS:--onednn}"
unset TENON_DEVICE TENON_BLAS_MIN TENON_BLAS_HOST LD_LIBRARY_PATH
run() { # a tester, with the library before its BLAS
  if [ -n "$device" ]; then
    "$tenon" blas --device "$device" --min 0 --report -- "$@"
  else
    "$tenon" blas --by-path --report -- "$@"
  fi
}
failures=0
# judge PASSES NAME [INPUT [OUTPUT]]: every part passes, and so many of them say so.
judge() {
  passes=$1 name=$2
  run "$folder/$name" <"${3:-/dev/null}" >out 2>err
  status=$?
  [ $# -lt 4 ] || cat "$4" >>out
  said=$(grep -ci 'pass' out)
  if [ $status -ne 0 ] || [ "$said" -ne "$passes" ] || grep -qiE 'fail|\*\*\*\*|did not' out; then
    echo "not ok - $name: status $status, $said of $passes parts passed"
    grep -iE 'fail|\*\*\*\*|did not' out | head -5
    head -3 err
    failures=$((failures + 1))
    return
  fi
  case $name in
  x*3*) [ -z "$device" ] || grep -qE "level 3: [1-9][0-9]* on $device" err ||
    { echo "not ok - $name: no product went to $device"; failures=$((failures + 1)); } ;;
  esac
  echo "ok - $name: $passes parts"
}
for type in s d c z; do
  case $type in
  s | d) first=13 second=33 third=13 c_second=49 c_third=19 ;;
  c | z) first=10 second=35 third=19 c_second=52 c_third=28 ;;
  esac
  if [ -z "$device" ]; then # what goes to no device is the same with one
    judge "$first" "xblat1$type"
    judge "$second" "xblat2$type" "$folder/${type}blat2.in" "${type}blat2.out"
    judge 10 "x${type}cblat1"
    judge "$c_second" "x${type}cblat2" "$folder/${type}in2"
  fi
  judge "$third" "xblat3$type" "$folder/${type}blat3.in" "${type}blat3.out"
  judge "$c_third" "x${type}cblat3" "$folder/${type}in3"
done
[ $failures -eq 0 ]
