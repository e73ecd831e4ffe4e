#!/bin/sh
# Every kind of plugin that `tenon new-plugin` writes, by meson and by CMake: from the installed files
# alone each builds without a warning, passes its own tests, and is taken.
#
# usage: kinds.sh meson|cmake BUILD_ROOT LIBTENON
set -eu
build=$1
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$3"
command -v "$build" >/dev/null || { echo "skipped: no $build"; exit 77; }

umask 022 # plugins that others may write to are refused
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
die() {
  echo "failed: $*" >&2
  exit 1
}

DESTDIR=$scratch/stage meson install -C "$2" --no-rebuild --quiet || die "meson install"
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/stage" -name tenon-plugin.pc)")
PKG_CONFIG_SYSROOT_DIR=$scratch/stage
Tenon_DIR=$(dirname "$(find "$scratch/stage" -name TenonConfig.cmake)")
LD_LIBRARY_PATH=$(dirname "$(find "$scratch/stage" -name 'libtenon.so.0')")
PATH=$(dirname "$(find "$scratch/stage" -path '*/bin/tenon')"):$PATH
XDG_CACHE_HOME=$scratch/cache
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR Tenon_DIR LD_LIBRARY_PATH PATH XDG_CACHE_HOME

# The commands are those that README.md of the skeleton names.
readme_says() { grep -qF -- "$1" README.md || die "README.md does not say: $1"; }
make_and_test() {
  if [ "$build" = meson ]; then
    readme_says 'meson test -C build'
    meson setup build && ninja -C build && meson test -C build
  else
    readme_says 'ctest --test-dir build'
    ! grep -n meson README.md || die "README.md speaks of meson"
    cmake -B build && cmake --build build && ctest --test-dir build --output-on-failure
  fi
}

try() { # KIND TESTS: a plugin my_KIND, which has so many tests
  cd "$scratch"
  tenon new-plugin "my_$1" --kind "$1" --build "$build" >said || die "$1: new-plugin"
  cd "my_$1"
  # acme.sh checks all of the backend.
  [ "$1" != backend ] || sed -i 's/--device my_backend)/--device my_backend --op copy)/' CMakeLists.txt
  make_and_test >../log 2>&1 || { cat ../log; die "$1: building and testing it"; }
  ! grep -i warning ../log || die "$1: warnings"
  grep -qE "^(Ok: +$2 *|100% tests passed(, 0 tests failed)? out of $2)\$" ../log ||
    { cat ../log; die "$1: other than $2 tests"; }
  [ "$(nm -D --defined-only "build/libtenon-my_$1.so" | awk '{ print $NF }')" = tn_plugin_query ] ||
    die "$1: it exports more than its query"
  ! readelf -d "build/libtenon-my_$1.so" | grep NEEDED | grep tenon || die "$1: it links Tenon"
  TENON_PLUGIN_PATH=$PWD/build tenon info >../info
  grep -qE "^ *my_$1 +taken" ../info || { cat ../info; die "$1: it is not taken"; }
  echo "ok $1"
}

[ "$build" = meson ] || try backend 1 # meson's is in acme.sh
try kernels 1
try operator 2
try layer 1

# The tests that they come with do fail: at a wrong number, and with a layer that loses calls.
cd "$scratch/my_operator"
sed -i 's/{5, -1, 4}/{5, -1, 3}/' test.c
! make_and_test >../log 2>&1 || die "operator: a wrong number passed its test"
grep -qi 'numbers.*fail' ../log || { cat ../log; die "operator: failed, but not by its number"; }
cd "$scratch/my_layer"
sed -i 's/= next(call, next_ctx);/= call ? TN_OK : next(call, next_ctx);/' plugin.c
! make_and_test >../log 2>&1 || die "layer: one that loses calls passed its test"
grep -qi 'check.*fail' ../log || { cat ../log; die "layer: failed, but not by its check"; }
cd "$scratch/my_kernels"
sed -i 's/x\[i\] < 0 ? 0/x[i] < 1 ? 0/' plugin.c
! make_and_test >../log 2>&1 || die "kernels: a wrong one passed its test"
grep -qi 'check.*fail' ../log || { cat ../log; die "kernels: failed, but not by its check"; }
echo "every kind builds, passes its tests, and fails them when it is wrong"
