#!/bin/sh
# Loops over 16 bits on AVX2 are vectors: so few instructions a result, on average over some operators
# that do little.
#
# usage: loop_cost.sh LOOP_COST LIBTENON
set -eu
# shellcheck source=tests/lint/elf.sh
. "$(dirname "$(realpath "$0")")/lint/elf.sh"
skip_if_sanitized "$2"
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
for flag in avx2 f16c; do
  grep -q "^flags.* $flag " /proc/cpuinfo || { echo "skipped: a processor without $flag"; exit 77; }
done
unset TENON_PLUGIN_PATH TENON_LAYERS
export TENON_DEVICE=cpu TENON_PLUGINS=cpu TENON_NUM_THREADS=1 TENON_SCAN=off TENON_CPU_ISA=avx2

# The instructions of so many calls of each operator, and their results.
run() { # CALLS
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$loop_cost" "$1" 2>&1 |
    awk '/ results$/ { results = $1 } /refs/ { gsub(",", "", $NF); print $NF, results }'
}

loop_cost=$1
{ run 2; run 12; } | awk '
  { instructions[NR] = $1; results[NR] = $2 }
  END {
    if (NR != 2 || results[2] <= results[1]) { print "the loops did not run"; exit 1 }
    each = (instructions[2] - instructions[1]) / (results[2] - results[1])
    printf "%.2f instructions a result; 2.0 of vectors, 3.4 where relu and maximum have none\n", each
    exit !(each > 0.2 && each < 2.7)
  }'
