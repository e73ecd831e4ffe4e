# shellcheck shell=bash
# Which CUDA kernels build/ has, for ./dev, which sources this.

# Where the tests or lint come first, they set build/ up with CUDA kernels for one architecture,
# which newer ones can run too, in half the time, and where no GPU is there to run them with hardly
# optimised PTX alone, in a quarter; a file says so. What is installed by ./dev, shown or measured is
# built for all of them.
cuda_for_tests=80
cuda_for_all=80,90

has_gpu() { # the last under WSL
  [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ]
}

has_option() { # NAME VALUE, as meson prints it: whether build/ is set up so
  [ -e build/build.ninja ] &&
    meson introspect build --buildoptions | grep -F "\"name\": \"$1\", \"value\": $2," >/dev/null
}

build_for_tests() {
  local options=()
  if [ ! -e build/build.ninja ]; then
    options=("-Dsm_arch=$cuda_for_tests")
    has_gpu || options+=(-Dsm_code=ptx)
    mkdir -p build && touch build/cuda-for-tests
  elif has_gpu && has_option sm_code '"ptx"'; then
    meson configure build -Dsm_code=machine
  fi
  build build "${options[@]}"
}

# Whoever has chosen architectures since then keeps them.
widen_cuda() {
  local options=()
  if [ -e build/cuda-for-tests ] && has_option sm_arch "[\"$cuda_for_tests\"]"; then
    options+=("-Dsm_arch=$cuda_for_all")
  fi
  if has_option sm_code '"ptx"'; then options+=(-Dsm_code=machine); fi
  if [ "${#options[@]}" -gt 0 ]; then meson configure build "${options[@]}" || return; fi
  rm -f build/cuda-for-tests
}

# Meson before 1.1 tells ninja of no header of a .cu file: after a change of one, all of those are new.
refresh_cuda() { # FOLDER
  local built=$1/libtenon-cuda.so
  if [ ! -e "$built" ] || grep -A 1 '^rule cuda_COMPILER' "$1/build.ninja" | grep -q -- '-MD'; then return 0; fi
  # No pipe: grep -q would end find before its last line, which is a failure to bash here.
  if [ -n "$(find kernels/cuda kernels/common api dispatcher \
    \( -name '*.*h' -o -name '*.inc' -o -name '*.def' \) -newer "$built" -print -quit)" ]; then
    find kernels/cuda -name '*.cu' -exec touch {} +
  fi
}
