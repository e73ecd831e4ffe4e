# shellcheck shell=bash disable=SC2154 # variables of dev
# `./dev test --arm`, for ./dev, which sources this: Tenon built for aarch64 by a cross compiler, and a
# sample of its tests run by qemu-user. Nothing foreign is installed: Debian's packages for arm64 are
# fetched with lists of apt's own in build-aarch64/ and unpacked there.

arm_folder=build-aarch64
# What the build and its tests need of the other architecture; apt adds what these depend on.
arm_packages=(libc6-dev libopenblas-pthread-dev check libprotobuf-c-dev zlib1g-dev)
arm_requirements='
! has aarch64-linux-gnu-gcc | gcc-aarch64-linux-gnu    | builds for aarch64  | optional
[ ! -e /usr/aarch64-linux-gnu/lib/libc.so ] | libc6-dev-arm64-cross | builds for aarch64 | optional
! has qemu-aarch64          | qemu-user                | runs aarch64         | optional
'
# Programs of the tests; tests that are shell scripts start programs past the emulator. Names of
# tests/**/meson.build.
arm_tests=(config elf loader pool processors registry threads trust invariant
  byte_products-baseline conv_tiles-baseline matmul_tiles-baseline cpu_kernels float_mode rounded_once
  widening emulated-cpu emulated-reference)

# apt as on a machine of the other architecture on which nothing is installed yet. No root is needed.
arm_apt() { # ARGUMENTS...
  local apt=$PWD/$arm_folder/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  touch "$apt/status"
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::Lists=$apt/lists" \
    -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o Acquire::Languages=none \
    -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@"
}

# Links that begin at the root lead out of the folder: they are made relative. Which BLAS serves is
# for a system's alternatives to say, which this one has none of.
arm_link() { # ROOT
  local link libraries=$1/usr/lib/aarch64-linux-gnu
  find "$1" -type l -lname '/*' | while read -r link; do
    ln -sfr "$1$(readlink "$link")" "$link"
  done
  ln -sfr "$libraries/openblas-pthread/libopenblas.so.0" "$libraries/libopenblas.so.0"
}

# Unpacks the libraries once; the folder is whole when it stands.
arm_unpack() {
  local root=$PWD/$arm_folder/sysroot package
  if [ -d "$root" ]; then return 0; fi
  say "fetching libraries for arm64 to $arm_folder/"
  rm -rf "$root.part" && mkdir -p "$root.part"
  arm_apt update && arm_apt install --yes --no-install-recommends --download-only "${arm_packages[@]}" || return
  for package in "$arm_folder"/apt/archives/*.deb; do dpkg -x "$package" "$root.part" || return; done
  arm_link "$root.part" && mv "$root.part" "$root" && rm -rf "$arm_folder/apt"
}

# Says why there is nothing to run, and counts it as one test skipped.
arm_skip() { # WHY
  echo "dev: skipped: the tests on aarch64: $1" >&2
  echo '0 passed, 0 failed, 1 skipped'
}

test_arm() { # [TESTS]
  # shellcheck disable=SC2034 # run_tests reads prebuilt
  local prebuilt=() cross=packaging/aarch64-linux-gnu.ini
  requirements+=$arm_requirements
  need
  if ! has aarch64-linux-gnu-gcc; then arm_skip 'no compiler (package gcc-aarch64-linux-gnu)'; return; fi
  if ! has qemu-aarch64; then arm_skip 'no emulator (package qemu-user)'; return; fi
  mkdir -p "$arm_folder"
  if ! { has apt-get && has dpkg && [ "${TENON_INSTALL:-1}" != 0 ] && arm_unpack; } &&
    [ ! -d "$arm_folder/sysroot" ]; then
    arm_skip "no libraries for arm64 (${arm_packages[*]})"
    return
  fi
  printf "[constants]\nroot = '%s'\n" "$PWD/$arm_folder/sysroot" >"$arm_folder/root.ini"
  # ccache is found by meson for the native compiler alone.
  if [ -x /usr/lib/ccache/aarch64-linux-gnu-gcc ]; then export PATH=/usr/lib/ccache:$PATH; fi
  if [ ! -e "$arm_folder/build.ninja" ]; then
    meson setup "$arm_folder" --cross-file "$cross" --cross-file "$arm_folder/root.ini" \
      -Doptimization=1 -Dcuda=disabled -Dopencl=disabled
  fi
  export TENON_SCAN=off # tenon-scan is started past the emulator
  # With `prebuilt` empty meson builds what these tests need, and no more.
  if [ $# -eq 0 ]; then set -- "${arm_tests[@]}"; fi
  run_tests "$arm_folder" "$@"
}
