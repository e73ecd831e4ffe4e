#!/bin/sh
# tenon check finds kernels that are wrong only where sizes are 1 or 2, or where numbers leave
# float32 or float16 no room.
#
# usage: degenerate.sh TENON libtenon-degenerate.so
set -eu
tenon=$1 plugin=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
export TENON_PLUGINS=-onednn,-opencl,-cuda # others would be loaded for nothing
export TENON_SCAN=off # the scan has tests of its own

missed=0
# Each operator's kernel of these types has its fault, and must be said to fail.
faults() { # TYPES OPERATORS...
  types=$1
  shift
  "$tenon" check "$plugin" --device cpu --dtype "$types" >"$out" 2>&1 || true
  for op; do
    grep -q "^FAILED *$op " "$out" && continue
    echo "missed: $op $types"
    missed=$((missed + 1))
  done
  [ "$(grep -c '^FAILED' "$out")" -le $# ] || {
    cat "$out"
    echo "others than these fail: $*"
    exit 1
  }
}
# Here "mul" is sound.
faults 'f32' matmul conv1d conv2d conv2d_grad_weight conv_transpose2d avg_pool2d max concat resize \
  cumsum scaled_dot_product_attention var std norm logsumexp softmax log_softmax rms_norm layer_norm
faults f64 matmul
faults f16 sum mean
faults i32 sum
faults i8,i8 matmul_integer
faults u8,u8 matmul_integer
[ "$missed" -eq 0 ] || exit 1
echo "all planted faults were found"
