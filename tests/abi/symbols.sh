#!/bin/sh
# What libtenon exports only grows: no symbol of the committed list may go, and a new one must
# be added to it, so that it cannot go either.
#
# usage: symbols.sh COMMITTED LIBTENON
set -eu
# shellcheck source=tests/lint/elf.sh
. "$(dirname "$0")/../lint/elf.sh"
skip_if_sanitized "$2"
exported=$(mktemp)
trap 'rm -f "$exported"' EXIT
exported_by "$2" | LC_ALL=C sort >"$exported"

lost=$(LC_ALL=C comm -23 "$1" "$exported")
if [ -n "$lost" ]; then
  echo "$lost"
  echo "programs that were linked to these would not start: a released function never goes"
  exit 1
fi
LC_ALL=C comm -13 "$1" "$exported" | grep . || exit 0
echo "$1 lacks the above: ./dev docs adds them"
exit 1
