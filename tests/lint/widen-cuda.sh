#!/bin/bash
# What ./dev builds to be used has CUDA kernels of machine code, whatever was tested, chosen or wiped
# before: kernels for tests alone never stay.
#
# usage: widen-cuda.sh CUDA_SH
set -euo pipefail
# shellcheck source=tools/dev/cuda.sh
. "$1"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Of meson what these functions ask for: options in a file each.
meson() {
  local option name
  if [ "$1" = introspect ]; then
    printf '[{"name": "sm_arch", "value": [%s], "section": "user"}, ' "$(cat sm_arch)"
    printf '{"name": "sm_code", "value": "%s", "section": "user"}]\n' "$(cat sm_code)"
    return
  fi
  for option in "$@"; do
    name=${option#-D} name=${name%%=*}
    case $option in
      -Dsm_arch=*) sed 's/[0-9][0-9]*/"&"/g; s/,/, /g' <<<"${option#*=}" >"$name" ;;
      -Dsm_code=*) echo "${option#*=}" >"$name" ;;
    esac
  done
}
build() {
  meson setup "$@"
  mkdir -p build && : >build/build.ninja
}
has_gpu() { [ -n "${gpu:-}" ]; }
afresh() { rm -rf build && echo '"80", "90"' >sm_arch && echo machine >sm_code; }
is() { # WHAT ARCHITECTURES CODE
  if [ "$(cat sm_arch)" != "$2" ] || [ "$(cat sm_code)" != "$3" ]; then
    echo "$1: kernels of $(cat sm_arch) as $(cat sm_code), not of $2 as $3"
    exit 1
  fi
}

afresh && build_for_tests && is "tests without a GPU" '"80"' ptx
build_for_tests && is "tests again" '"80"' ptx
widen_cuda && is "a build behind tests" '"80", "90"' machine
[ ! -e build/cuda-for-tests ] || { echo "the mark of tests stays"; exit 1; }
build_for_tests && is "tests behind a build" '"80", "90"' machine

afresh && gpu=1 build_for_tests && is "tests with a GPU" '"80"' machine
afresh && build_for_tests && gpu=1 build_for_tests && is "a GPU that came later" '"80"' machine
afresh && build_for_tests && meson configure build -Dsm_arch=90 && widen_cuda &&
  is "architectures that were chosen" '"90"' machine
afresh && build_for_tests && rm build/cuda-for-tests && widen_cuda && is "a folder wiped" '"80"' machine
afresh && widen_cuda && is "a first build" '"80", "90"' machine
