#!/bin/sh
# The worked examples of docs/adding-an-operator.md: each of its pieces is put where its
# heading says, into a copy of the sources; the table must print the operators, every backend's
# list must have rows of them, and the kernels must compile. CUDA's do where NVCC is given.
#
# usage: adding-an-operator.sh SOURCE_ROOT CC [NVCC ARCHITECTURE]
set -eu
root=$(realpath "$1") CC=$2 nvcc=${3:-} arch=${4:-}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/api" "$root/kernels" "$root/plugins" "$copy"
cd "$copy"

# Cuts the page's pieces of C into files 1, 2, ... whose first line is "FILE PLACE".
awk '/^```c / { n++; inside = 1; file = "piece." n; sub(/^```c /, ""); print > file; next }
     /^```/ { inside = 0; next }
     inside { print >> file }' "$root/docs/adding-an-operator.md"

for piece in piece.*; do
  read -r file place <"$piece"
  [ -f "$file" ] || { echo "the page names $file, which does not exist"; exit 1; }
  tail -n +2 "$piece" >text
  case $place in
    arguments) line=$(grep -n '^#endif' "$file" | head -1) ;;
    before*) line=$(grep -n "^${place#before }" "$file" | head -1) ;;
    end) line=$(($(wc -l <"$file") + 1)): ;;
    *) echo "the page puts a piece at '$place' of $file"; exit 1 ;;
  esac
  [ -n "$line" ] || { echo "$file has no place '$place'"; exit 1; }
  { head -n $((${line%%:*} - 1)) "$file"; cat text; tail -n "+${line%%:*}" "$file"; } >whole
  mv whole "$file"
done

"$CC" -std=c11 -Iapi -o opgen api/opgen/*.c
mkdir printed printed/tenon
./opgen types >printed/tenon/op_types.h
./opgen functions >printed/tenon/ops.h
./opgen rows >printed/tenon/op_rows.h
./opgen elementwise >printed/tenon/elementwise.def
./opgen reductions >printed/tenon/reductions.def
ops='elliott sum_square'
for page in 'functions elliott' 'reduction sum_square'; do
  ./opgen docs "${page% *}" | grep -q "^## ${page#* }\$" || { echo "no page has ${page#* }"; exit 1; }
done

# Gradient rules are printed as calls of operators, and each operator has its precision once.
./opgen gradients | grep -q '^static void elliott_rule' || { echo "elliott has no rule"; exit 1; }
./opgen gradients | grep -q 'mul(mul(x, num(dy, 2)), spread(dy' || { echo "sum_square has no rule"; exit 1; }
for op in $ops; do
  [ "$(grep -c "^PRECISION($op, " api/precision.def)" -eq 1 ] || { echo "$op has no precision"; exit 1; }
done

# What of stands in the list of rows at the end of standard input, and not twice.
has_rows() { # NAME, COUNT of rows of each operator
  "$CC" -std=c11 -Iapi -Iprinted -I. -Iplugins/opencl -E -P -x c - >rows
  for op in $ops; do
    n=$(grep -ow "ROW $op" rows | wc -l)
    [ "$n" -eq "$2" ] || { echo "$1 has $n rows of $op, not $2"; exit 1; }
  done
}
has_rows cpu 4 <<END
#include "tenon/op_rows.h"
#define ROW(op, ...) ROW op
#define ROW_ANY(op, ...) ROW op
#define ROW_MULTI(op) ROW op
#define ROW_BLAS(op, ...) ROW op
#include "kernels/cpu/rows.def"
END
has_rows cuda 1 <<END
#define STRIDED(op) ROW op
#define DENSE(op) ROW op
#define STRIDED_WITH(op, ...) ROW op
#define DENSE_WITH(op, ...) ROW op
#include "kernels/cuda/rows.def"
END
has_rows opencl 1 <<END
#define ROW(op, ...) ROW op
#define NAMED(op, ...) ROW op
#include "plugins/opencl/rows.def"
END

flags='-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wno-missing-field-initializers -Werror -I. -Iapi -Iprinted'
cpu='-fno-math-errno -fopenmp-simd -DTN_ISA=baseline -DTN_ISA_LEVEL=0'
# shellcheck disable=SC2086 # flags are words
for source in reference/unit reference/reduce_float; do
  "$CC" $flags -c -o "$(basename $source).o" "kernels/$source.c"
done
# shellcheck disable=SC2086
for source in elementwise/activation reduce/reduce; do
  "$CC" $flags $cpu -c -o "cpu-$(basename $source).o" "kernels/cpu/$source.c"
done
for symbol in reference_elliott reference_sum_square elliott_f32_baseline sum_square_bf16_baseline; do
  nm ./*.o | grep -q " T $symbol\$" || { echo "$symbol was not compiled"; exit 1; }
done

# OpenCL's expression, read as C.
cat >elliott.c <<END
#include <tgmath.h>
typedef float num;
#define DIVIDE(a, b) ((a) / (b))
$(grep apply_elliott plugins/opencl/cl/plain.cl)
int main(void) {
  num x = 3, high = (num)INFINITY;
  return apply_elliott(x) != 0.875f || apply_elliott(-high) != 0;
}
END
"$CC" -std=c11 -o elliott elliott.c -lm
./elliott || { echo "OpenCL's elliott is wrong"; exit 1; }

[ -n "$nvcc" ] || exit 0
# The pieces alone: their files have all the family's kernels.
for piece in piece.*; do
  case $(head -1 "$piece") in
    *activation.cu*) frame=elementwise/unary.cuh ;;
    *reduce.cu*) frame=reduce/reduce.cuh ;;
    *) continue ;;
  esac
  { echo "#include \"kernels/cuda/$frame\""; tail -n +2 "$piece"; } >alone.cu
  "$nvcc" -std=c++17 "-arch=sm_$arch" -I. -Iapi -Iprinted -c -o alone.o alone.cu
  nm alone.o | grep -q ' T cuda_run_[es]' || { echo "$frame: no kernel was compiled"; exit 1; }
done
