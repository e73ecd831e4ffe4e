#!/bin/sh
# Prints the public types and functions of a libtenon with debug information, as abidiff reads
# them.
#
# usage: dump.sh LIBTENON HEADERS...
set -eu
library=$1
shift
for folder in "$@"; do
  set -- "$@" --headers-dir "$folder"
  shift
done
abidw "$@" --drop-private-types --exported-interfaces-only --drop-undefined-syms \
  --no-architecture --no-elf-needed --no-corpus-path --no-comp-dir-path --no-show-locs \
  --no-parameter-names --no-write-default-sizes --type-id-style hash "$library" | sed "s/^ *//"
