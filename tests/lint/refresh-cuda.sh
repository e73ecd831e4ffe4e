#!/bin/bash
# ./dev builds CUDA kernels anew after a change of any header or table that they include, however
# many have changed, and only then.
#
# usage: refresh-cuda.sh CUDA_SH
set -euo pipefail
# shellcheck source=tools/dev/cuda.sh
. "$1"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p build kernels/cuda kernels/common kernels/cpu api dispatcher
: >build/libtenon-cuda.so
printf 'rule cuda_COMPILER_FOR\n command = nvcc\n' >build/build.ninja
for i in $(seq 400); do : >"kernels/common/a-header-of-the-kernels-$i.h"; done
: >kernels/common/cell.inc
: >kernels/cpu/row.inc
: >api/ops.def
: >kernels/cuda/kernel.cu

# All are of last year but for the file named.
is_anew() { # FILE...
  find . -type f -exec touch -d '1 year ago' {} +
  touch -d '1 day ago' build/libtenon-cuda.so
  [ $# = 0 ] || touch "$@"
  refresh_cuda build
  [ kernels/cuda/kernel.cu -nt build/libtenon-cuda.so ]
}

for changed in kernels/common/a-header-of-the-kernels-7.h kernels/common/cell.inc api/ops.def; do
  is_anew "$changed" || { echo "nothing is built anew after a change of $changed"; exit 1; }
done
# What find says may come in several pieces.
for _ in 1 2 3 4 5 6 7 8; do
  is_anew kernels/common/*.h || { echo "nothing is built anew after a change of all headers"; exit 1; }
done
! is_anew kernels/cpu/row.inc || { echo "all is built anew after a change of the CPU's kernels"; exit 1; }
! is_anew || { echo "all is built anew without a change"; exit 1; }
printf 'rule cuda_COMPILER_FOR\n command = nvcc -MD\n' >build/build.ninja
! is_anew api/ops.def || { echo "all is built anew although ninja knows the headers"; exit 1; }
