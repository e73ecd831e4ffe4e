#!/bin/sh
# The compiler of the OpenCL driver has nothing to say of our kernels: its warnings go to a
# program's standard error where the driver prints them. Skipped where there is no OpenCL device.
#
# usage: warnings.sh TENON
set -u
tenon=$1
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pocl"
export TENON_PLUGINS=opencl,reference TENON_LOG=debug TENON_OPENCL_CACHE=off POCL_CACHE_DIR="$work/pocl"

"$tenon" info 2>&1 | grep -q 'opencl:0' || { echo "no OpenCL device here"; exit 77; }
# Families that know both integers and floats by one source, and those with vectors of 16.
for op in argmax:i32 any:i32 add:i32 where:i32 matmul:f32 matmul:f64 conv2d:f32 conv2d_grad_input:f32; do
  "$tenon" check --device opencl --op "${op%:*}" --dtype "${op#*:}" --case 5 -j 1 >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log"; exit 1; }
  grep -q 'compiled .* program 1 of this run' "$work/log" || { echo "$op: nothing compiled"; exit 1; }
  # With a small letter: NVIDIA's driver tells every kernel that it may be inlined, as a "Warning".
  if grep -A 2 'warning' "$work/log"; then exit 1; fi
done
echo "no warnings"
