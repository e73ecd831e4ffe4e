#!/bin/sh
# A layer that is off costs nothing: 20,000 adds take the same number of instructions, to the
# last one, with the plugin there and with no such file.
#
# usage: off.sh BUILD_ROOT LIBTENON
set -eu
here=$(realpath "$(dirname "$0")")
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
umask 022 # plugins that others may write to are refused
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
export TENON_DEVICE=reference TENON_SCAN=off

# The instructions inside tn_add, with the plugins of a folder.
adds() { # FOLDER
  LD_LIBRARY_PATH=$1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --toggle-collect=tn_add "$work/dispatch" --loop-add 20000 2>&1 |
    awk '/refs/ { gsub(",", "", $NF); print $NF }'
}

cp "$1/bench/dispatch" "$work"
mkdir "$work/with" "$work/without"
for folder in with without; do
  cp "$1/libtenon.so.0" "$1/libtenon-reference.so" "$work/$folder"
done
cp "$1/libtenon-trace.so" "$work/with"
with=$(adds "$work/with") without=$(adds "$work/without")
echo "20000 adds: $with instructions with the plugin, $without without it"
[ "$with" -gt 20000 ] && [ "$with" -eq "$without" ]

# The check can fail: with the layer on there are more.
on=$(TENON_LAYERS=trace TENON_TRACE_FILE="$work/t.json" adds "$work/with")
echo "and $on with the layer on"
[ "$on" -gt "$with" ]
