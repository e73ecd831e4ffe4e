#!/bin/sh
# The library reads the environment through secure_getenv alone. The file that starts
# tenon-scan hands the environment on as it is; the scanner's own, no part of the library,
# compares it; and no other file names it.
#
# usage: getenv.sh LIBTENON SOURCE_ROOT
set -eu
if nm -D --undefined-only "$1" | sed 's/@.*//' | grep -w getenv; then
  echo "$1 must use secure_getenv"
  exit 1
fi
if grep -rlw environ --include='*.c' "$2/dispatcher" | grep -v '/scanner/\(spawn\|process_snapshot\)\.c$'; then
  echo "only dispatcher/scanner/spawn.c and process_snapshot.c may name environ"
  exit 1
fi
