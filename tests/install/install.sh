#!/bin/sh
# Installs the build to a scratch folder, then builds a host and a plugin against it with
# pkg-config alone (and with CMake, where there is one), and sees them work together.
#
# usage: install.sh BUILD_ROOT LIBTENON
# shellcheck disable=SC2046,SC2086 # flags are lists of words
set -eu
here=$(realpath "$(dirname "$0")")
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"

umask 022 # plugins that others may write to are refused
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS TENON_SCAN
export XDG_CACHE_HOME="$stage/cache"

say() { echo "-- $*"; }
die() {
  echo "failed: $*" >&2
  exit 1
}

DESTDIR=$stage meson install -C "$1" --no-rebuild --quiet || die "meson install"

pc=$(find "$stage" -name tenon.pc)
[ -n "$pc" ] || die "tenon.pc is not installed"
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$stage
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
libdir=$(dirname "$(find "$stage" -name 'libtenon.so.0')")
tenon=$(find "$stage" -path '*/bin/tenon')
plugindir=$stage$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=plugindir tenon-plugin)
export LD_LIBRARY_PATH="$libdir"
cc=${CC:-cc}
strict="-std=c11 -Wall -Wextra -Werror"

say "the prefix holds what it should"
[ -x "$tenon" ] || die "no bin/tenon"
[ -d "$plugindir" ] || die "plugindir $plugindir does not exist"
[ -x "$plugindir/tenon-scan" ] || die "no tenon-scan beside the plugins"
for header in tenon base plugin dlpack op_types ops; do
  find "$stage" -path "*/include/tenon/$header.h" | grep -q . || die "no $header.h"
done

say "every header stands alone, in C and as a C++ would see it"
for header in tenon base plugin dlpack op_types; do
  echo "#include <tenon/$header.h>" |
    $cc $strict -fsyntax-only $(pkg-config --cflags tenon-plugin) -x c - || die "$header.h"
done

say "a host"
$cc $strict "$here/host.c" $(pkg-config --cflags --libs tenon) -o "$stage/host"
"$stage/host" | tee "$stage/out"
grep -q ': 2 4 6$' "$stage/out" || die "wrong sum"

say "a host in C++, without a warning"
for header in tenon ops cpp/tensor cpp/error; do
  find "$stage" -path "*/include/tenon/$header.hpp" | grep -q . || die "no $header.hpp"
done
awk '/^```cpp$/ { on = 1; next } /^```/ { if (on) exit } on' "$here/../../docs/embedding.md" \
  >"$stage/page.cpp"
cp "$here/../../examples/line.cpp" "$stage"
for cxx in g++ clang++; do
  for std in c++17 c++20; do
    command -v "$cxx" >/dev/null || continue
    for program in line page; do
      $cxx -std=$std -Wall -Wextra -Wpedantic -Wshadow -Werror -fno-rtti "$stage/$program.cpp" \
        $(pkg-config --cflags --libs tenon) -o "$stage/$program" || die "$cxx -std=$std"
    done
    "$stage/line" | grep -q 'found y = 3.00 x -2.00$' || die "line, built by $cxx -std=$std"
    (cd "$stage" && ./page >/dev/null && [ -s y.safetensors ]) || die "the page's, by $cxx -std=$std"
  done
done

say "a plugin"
[ -z "$(pkg-config --libs tenon-plugin)" ] || die "tenon-plugin links something"
mkdir "$stage/mine"
$cc $strict -shared -fPIC -fvisibility=hidden $(pkg-config --cflags tenon-plugin) \
  "$here/plugin.c" -o "$stage/mine/libtenon-abacus.so"
export TENON_PLUGIN_PATH="$stage/mine"
"$tenon" info -v >"$stage/info" || die "tenon info"
grep -qE '^  abacus +taken' "$stage/info" || { cat "$stage/info"; die "the plugin was not taken"; }
grep -qE 'scan: made in' "$stage/info" || { cat "$stage/info"; die "it was not scanned"; }
[ "$(grep -c 'scan: ' "$stage/info")" = 1 ] || die "a plugin of the prefix was scanned"
grep -qE 'abacus\.add\.f32' "$stage/info" || { cat "$stage/info"; die "its kernel is not chosen"; }
[ "$(TENON_DEVICE=abacus "$stage/host")" = "abacus:0: 2 4 6" ] || die "the host on the new device"
[ "$(TENON_DEVICE=abacus:0 "$stage/host")" = "abacus:0: 2 4 6" ] || die "abacus:0"

say "without tenon-scan no plugin of others is loaded in silence"
mv "$plugindir/tenon-scan" "$stage/tenon-scan"
XDG_CACHE_HOME="$stage/empty" "$tenon" info >"$stage/info"
grep -q 'the scan could not be made: there is no tenon-scan' "$stage/info" ||
  { cat "$stage/info"; die "a plugin was loaded without a scan"; }
grep -qE '^  reference +taken' "$stage/info" || die "the plugins of the prefix need no scan"
if TENON_DEVICE=abacus XDG_CACHE_HOME="$stage/empty" "$stage/host" >"$stage/out" 2>&1; then die "a host ran"; fi
grep -q 'no tenon-scan beside the library.*TENON_SCAN=off' "$stage/out" ||
  { cat "$stage/out"; die "the host is not told what it lacks"; }
TENON_SCAN=off XDG_CACHE_HOME="$stage/empty" "$tenon" info >"$stage/info"
grep -qE '^  abacus +taken' "$stage/info" || { cat "$stage/info"; die "TENON_SCAN=off"; }
mv "$stage/tenon-scan" "$plugindir/tenon-scan"

say "a wrong name lists what exists"
if TENON_DEVICE=nosuch "$stage/host" 2>"$stage/err"; then die "nosuch was accepted"; fi
grep -q abacus "$stage/err" || { cat "$stage/err"; die "the message lists no devices"; }

say "the manual: no link leads out of what is installed, and man finds its pages"
sh "$here/../lint/links.sh" "$(dirname "$(find "$stage" -path '*/doc/tenon/index.md')")" || die "links"
doc=$(dirname "$(find "$stage" -path '*/doc/tenon/index.md')")
(cd "$here/../../docs" && find . -name '*.md') | while read -r page; do
  [ -e "$doc/$page" ] || die "docs/$page is not installed"
done
# What headers, pages of man, the command's help and new plugins name is there to be read.
"$tenon" new-plugin named --kind operator --dir "$stage/named" >/dev/null || die "new-plugin"
find "$stage" \( -path '*/include/tenon/*' -o -path '*/man/*' -o -path "$stage/named/*" \) -type f \
  -exec grep -ohE 'docs/[a-z/-]+\.md' {} + | sort -u >"$stage/pages"
[ -s "$stage/pages" ] || die "nothing names a page"
while read -r page; do
  [ -e "$doc/${page#docs/}" ] || die "$page is named, and not installed"
done <"$stage/pages"
for page in man1/tenon.1 man3/tenon.3 man7/tenon-environment.7; do
  find "$stage" -path "*/man/$page" | grep -q . || die "no $page"
done
"$tenon" help env | grep -q '^  TENON_DEVICE ' || die "tenon help env"

say "what README.md shows"
awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' "$here/../../README.md" >"$stage/sample.c"
$cc $strict "$stage/sample.c" $(pkg-config --cflags --libs tenon) -o "$stage/sample"
[ "$("$stage/sample")" = "2 4 6" ] || die "README's program"

if command -v python3 >/dev/null; then
  say "tenon info --json is JSON"
  "$tenon" info -v --json | python3 -m json.tool >/dev/null || die "not JSON"
fi

if command -v cmake >/dev/null; then
  say "CMake"
  Tenon_DIR=$(dirname "$(find "$stage" -name TenonConfig.cmake)")
  {
    cmake -S "$here" -B "$stage/cmake" -DTenon_DIR="$Tenon_DIR" -DCMAKE_BUILD_TYPE=Debug &&
      cmake --build "$stage/cmake"
  } >"$stage/cmake.log" 2>&1 || {
    cat "$stage/cmake.log"
    die "the CMake build"
  }
  [ "$(TENON_DEVICE=abacus TENON_PLUGIN_PATH=$stage/cmake "$stage/cmake/host")" = \
    "abacus:0: 2 4 6" ] || die "what CMake built"
  mkdir "$stage/parts"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(parts NONE)' \
    'find_package(Tenon 0.1 REQUIRED COMPONENTS bogus)' >"$stage/parts/CMakeLists.txt"
  if cmake -S "$stage/parts" -B "$stage/parts/build" -DTenon_DIR="$Tenon_DIR" \
    >"$stage/cmake.log" 2>&1; then die "a component that there is not was found"; fi
  grep -q "no component 'bogus'" "$stage/cmake.log" || { cat "$stage/cmake.log"; die "no reason"; }
fi
echo "installed, built, run"
