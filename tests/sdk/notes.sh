#!/bin/sh
# A plugin's notes can be read whatever compiler wrote them, AddressSanitizer's room around variables
# or not: the loader reads them before it runs a line, and says why it takes no such plugin here.
#
# usage: notes.sh TENON LIBTENON INCLUDE...
set -eu
tenon=$1
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"
shift 2
include=''
for folder in "$@"; do include="$include -I$folder"; done

umask 022 # plugins that others may write to are refused
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/mine.c" <<'C'
#include "tenon/plugin.h"
TN_PLUGIN_BRINGS("device:mine");
TN_PLUGIN_DEFINE("mine") {
  (void)host;
  return 0;
}
C

tried=0
for compiler in gcc clang; do
  # shellcheck disable=SC2086 # a list of folders
  for sanitizer in '' -fsanitize=address; do
    plugin=$scratch/libtenon-mine.so
    "$compiler" $sanitizer -fPIC -shared $include "$scratch/mine.c" -o "$plugin" 2>"$scratch/why" || {
      if [ -n "$sanitizer" ] || ! command -v "$compiler" >/dev/null; then continue; fi
      cat "$scratch/why" >&2
      exit 1
    }
    "$tenon" scan "$plugin" >"$scratch/said" 2>&1 || true
    tried=$((tried + 1))
    wanted='plugin mine, ABI'
    [ -z "$sanitizer" ] || wanted='built with AddressSanitizer, which this host is not'
    grep -qF "$wanted" "$scratch/said" || {
      echo "failed: $compiler $sanitizer: tenon scan does not say: $wanted" >&2
      cat "$scratch/said" >&2
      exit 1
    }
  done
done
[ "$tried" -gt 0 ] || { echo "skipped: neither gcc nor clang"; exit 77; }
echo "$tried plugins"
