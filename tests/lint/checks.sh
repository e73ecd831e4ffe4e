#!/bin/sh
# A libtenon that was built without checks (invariant.h) has nothing of them: neither the words
# of the one that does not hold, nor a function that states one.
#
# usage: checks.sh LIBTENON
set -eu
. "$(dirname "$0")/elf.sh"
skip_if_sanitized "$@"

if grep -q 'this does not hold' "$1"; then
  echo "$1 holds the words of a broken invariant"
  exit 1
fi
left=$(nm "$1" | grep -E '(_is_valid|_are_valid|_is_linked|_are_ordered)$' || true)
[ -z "$left" ] || { echo "$1 holds functions that state invariants:"; echo "$left"; exit 1; }
