#!/bin/sh
# Counts the instructions of small BLAS calls, with the BLAS that programs have here and with
# libtenon-blas before it: the difference of two runs under callgrind, divided by the difference
# of their calls. Without a device, and with one named, which has calls looked at. Needs valgrind.
#
#   bench/blas_calls.sh [SIZE...]
set -eu
cd "$(dirname "$0")/.."
shim=$PWD/build/tools/blas
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export OPENBLAS_NUM_THREADS=1

count() { # VARIABLES ROUTINE N CALLS
  variables=$1
  shift
  # shellcheck disable=SC2086 # words
  env $variables valgrind --tool=callgrind --callgrind-out-file=/dev/null build/bench/blas_calls "$@" >"$log" 2>&1 ||
    { cat "$log" >&2; return 1; }
  sed -n 's/.*Collected : //p' "$log"
}
per_call() { # VARIABLES ROUTINE N
  few=$(count "$1" "$2" "$3" 100) many=$(count "$1" "$2" "$3" 1100)
  echo $(((many - few) / 1000))
}

[ $# -gt 0 ] || set -- 1 4 16 64
for size in "$@"; do
  for routine in ddot_ cblas_ddot dgemm_ cblas_dgemm; do
    plain=$(per_call "" $routine "$size")
    with=$(per_call "LD_LIBRARY_PATH=$shim" $routine "$size")
    named=$(per_call "LD_LIBRARY_PATH=$shim TENON_DEVICE=cpu" $routine "$size")
    awk -v r=$routine -v n="$size" -v p="$plain" -v w="$with" -v d="$named" 'BEGIN {
      printf "%-12s n %2d %8d instructions plain, %8d with libtenon-blas (%.3f), %8d with a device named (%.3f)\n",
        r, n, p, w, w / p, d, d / p }'
  done
done
