#!/bin/sh
# A newcomer's first minute: from `tenon new-plugin acme` to a green check, with an installed
# Tenon, pkg-config and no edit. Prints how long it took; more than a minute fails, of a processor's
# time where others have the machine.
#
# usage: acme.sh BUILD_ROOT LIBTENON
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"

umask 022 # plugins that others may write to are refused
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
die() {
  echo "failed: $*" >&2
  exit 1
}

DESTDIR=$scratch/stage meson install -C "$1" --no-rebuild --quiet || die "meson install"
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/stage" -name tenon-plugin.pc)")
PKG_CONFIG_SYSROOT_DIR=$scratch/stage
LD_LIBRARY_PATH=$(dirname "$(find "$scratch/stage" -name 'libtenon.so.0')")
PATH=$(dirname "$(find "$scratch/stage" -path '*/bin/tenon')"):$PATH
XDG_CACHE_HOME=$scratch/cache # a first time: the scan remembers nothing yet
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH PATH XDG_CACHE_HOME
# For this test nothing but tenon-plugin is there.
rm "$PKG_CONFIG_PATH/tenon.pc"

mkdir "$scratch/work"
cd "$scratch/work"
# What commands that are over took of the processors, in milliseconds, by what `times` says.
processor_ms() {
  awk -F '[ms ]+' 'NR == 2 { printf "%d\n", ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }' "$1"
}
times >"$scratch/before"
began=$(date +%s%N)
tenon new-plugin acme
cd acme
meson setup build >log 2>&1 || { cat log; die "meson setup"; }
ninja -C build >log 2>&1 || { cat log; die "ninja"; }
! grep -q warning log || { cat log; die "warnings"; }
cd build
tenon check ./libtenon-acme.so --device acme >log 2>&1 || { cat log; die "tenon check"; }
took=$((($(date +%s%N) - began) / 1000000))
tail -n 3 log
grep -q '^acme:0 (.* run natively' log || die "nothing ran natively"
grep -q '^0 failures' log || die "no line of totals"
echo "from new-plugin to a green check: $took ms"
times >"$scratch/after"
spent=$(($(processor_ms "$scratch/after") - $(processor_ms "$scratch/before")))
echo "of a processor: $spent ms"
[ "$took" -le 60000 ] || [ "$spent" -le 60000 ] || die "more than a minute"

nm -D --defined-only libtenon-acme.so | awk '{ print $NF }' >symbols
[ "$(cat symbols)" = tn_plugin_query ] || { cat symbols; die "it exports more than its query"; }
readelf -d libtenon-acme.so | grep NEEDED | grep tenon && die "it links Tenon"
TENON_PLUGIN_PATH=$PWD TENON_DEVICE=acme tenon info | grep -q '^\* acme:0' || die "TENON_DEVICE=acme"
meson install -C . --quiet --destdir "$scratch/stage" || die "installing it"
found=$(find "$scratch/stage" -name libtenon-acme.so)
[ "$(basename "$(dirname "$found")")" = tenon ] || die "installed to $found"
