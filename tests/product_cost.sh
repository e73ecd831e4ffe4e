#!/bin/sh
# The smallest product of two matrices on the CPU takes few instructions beside its arithmetic: no
# plan, and no BLAS.
#
# usage: product_cost.sh BUILD_ROOT LIBTENON
set -eu
# shellcheck source=tests/lint/elf.sh
. "$(dirname "$(realpath "$0")")/lint/elf.sh"
skip_if_sanitized "$2"
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
unset TENON_PLUGIN_PATH TENON_LAYERS
export TENON_DEVICE=cpu TENON_PLUGINS=cpu,reference TENON_NUM_THREADS=1 TENON_SCAN=off

# The instructions inside tn_matmul, and what it calls.
products() { # BUILD_ROOT CALLS
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=tn_matmul \
    "$1/bench/dispatch" --loop product "$2" 2>&1 |
    awk '/refs/ { gsub(",", "", $NF); print $NF }'
}

few=$(products "$1" 1000) many=$(products "$1" 11000)
each=$(((many - few) / 10000))
echo "a product takes $each instructions"
[ "$each" -gt 100 ] || { echo "the loop did not run"; exit 1; }
[ "$each" -lt 1000 ] # 2300 by a plan and the BLAS
