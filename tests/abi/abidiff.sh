#!/bin/sh
# libtenon's functions and the types they take are as in the committed dump, as abidiff sees
# them in the debug information. Functions may be added. What else there is to say fails, with
# status 1 if it breaks programs of before, and 2 if it merely grows (docs/abi.md), which
# ./dev docs records.
#
# usage: abidiff.sh LIBTENON DUMP HEADERS...
set -eu
# shellcheck source=tests/lint/elf.sh
. "$(dirname "$0")/../lint/elf.sh"
skip_if_sanitized "$1"
command -v abidiff >/dev/null || { echo "skipped: no abidiff (abigail-tools)"; exit 77; }
if ! readelf -SW "$1" | grep -q '\.debug_info'; then
  echo "skipped: built without debug information"
  exit 77
fi
library=$1 dump=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
report=$scratch/report
# Like with like: of a library and a dump, abidiff overlooks fields that moved.
sh "$(dirname "$0")/dump.sh" "$library" "$@" >"$scratch/now.abi"
status=0
abidiff --no-added-syms "$dump" "$scratch/now.abi" >"$report" 2>&1 || status=$?
[ "$status" -ne 0 ] || exit 0
cat "$report"
# Bits of abidiff's status: 1 failed, 2 used wrongly, 4 changed, 8 surely broken.
[ "$status" -eq 4 ] || exit 1
# Growth: members beyond a struct's old end, and enumerators; nothing moved, gone or renamed.
awk '
  /type size changed from/ { match($0, /from [0-9]+/); end = substr($0, RSTART + 5, RLENGTH - 5) }
  /at offset [0-9]+ \(in bits\)/ {
    match($0, /at offset [0-9]+/)
    if (substr($0, RSTART + 10, RLENGTH - 10) + 0 < end + 0) broken = 1
  }
  /deletion|offset changed|name changed|entity changed|enumerator change|was removed|was added/ { broken = 1 }
  # A type that changed is a type of another name, or one that is reached through and grew.
  /type of .* changed:/ { wanted = NR + 1 }
  NR == wanted && !/in (unqualified |pointed to |underlying |unqualified underlying |array element )*type/ { broken = 1 }
  /parameter [0-9]+ of type .* changed:/ { broken = 1 }
  END { exit broken }' "$report" || exit 1
echo "$dump lacks what was appended: ./dev docs records it"
exit 2
