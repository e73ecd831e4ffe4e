#!/bin/sh
# libtenon exports tn_* alone; a plugin exports tn_plugin_query alone.
#
# usage: symbols.sh LIBTENON PLUGIN...
set -eu
. "$(dirname "$0")/elf.sh"
skip_if_sanitized "$@"

check() { # LIBRARY PATTERN
  exported_by "$1" | grep -vE "$2" | sed "s@^@$1 exports @"
  exported_by "$1" | grep -qE "$2" || echo "$1 exports nothing of Tenon"
}

complaints() {
  check "$1" '^tn_[a-z0-9_]+$'
  shift
  for plugin in "$@"; do check "$plugin" '^tn_plugin_query$'; done
}

wrong=$(complaints "$@")
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
