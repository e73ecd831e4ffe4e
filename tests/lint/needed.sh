#!/bin/sh
# libtenon needs the C library alone (with the pieces that some systems split off);
# plugins do not need libtenon.
#
# usage: needed.sh LIBTENON PLUGIN...
set -eu
. "$(dirname "$0")/elf.sh"
skip_if_sanitized "$@"

complaints() {
  needed_of "$1" | grep -vE '^(lib(c|dl|m|pthread|rt|gcc_s)\.so\.[0-9]+|ld-linux.*)$' |
    sed "s@^@$1 needs @"
  shift
  for plugin in "$@"; do needed_of "$plugin" | grep -E '^libtenon' | sed "s@^@$plugin needs @"; done
}

wrong=$(complaints "$@")
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
