#!/bin/sh
# The man pages are written as man wants them: by mandoc, or man itself, where one is installed.
#
# usage: man.sh PAGE...
set -eu
if command -v mandoc >/dev/null; then
  # A page that is printed by a build has no date of its own.
  faults=$(mandoc -T lint "$@" 2>&1 | grep -v 'missing date, using "": TH' || true)
elif command -v man >/dev/null; then
  faults=$(for page in "$@"; do LC_ALL=C.UTF-8 man --warnings -l -Tutf8 -Z "$page" 2>&1 >/dev/null; done)
else
  echo "skipped: neither mandoc nor man"
  exit 77
fi
[ -z "$faults" ] || { echo "$faults"; exit 1; }
echo "$# pages"
