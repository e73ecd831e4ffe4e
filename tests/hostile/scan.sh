#!/bin/sh
# tenon scan: its verdicts, where they are from, what it lists, and its exit statuses.
#
# usage: scan.sh TENON GOOD_PLUGIN HOSTILE_PLUGIN ODD_PLUGIN
set -eu
tenon=$1 good=$2 hostile=$3 odds=$4
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
unset TENON_PLUGINS TENON_SCAN
export XDG_CACHE_HOME="$scratch/cache"

says() { grep -q -- "$1" "$scratch/out" || die "no '$1'"; }

expect 0 scan --help
expect 2 scan
expect 2 scan one.so two.so
expect 2 scan --nosuch x.so
expect 1 scan "$scratch/none.so"
grep -q 'no such file' "$scratch/err" || die "the missing file is not named"

cp "$good" "$scratch/libtenon-good.so"
expect 0 scan "$scratch/libtenon-good.so"
says 'plugin good, ABI 1..1'
says 'accepted by a scan made in'
says 'device   fixture:0, a fixture'
says 'kernels  1 for device type fixture'
expect 0 scan "$scratch/libtenon-good.so"
says 'accepted by a scan made in'

# It tries again whatever is remembered, others do not.
remembers() { # PLUGIN REASON
  export TENON_PLUGIN_PATH="$1"
  expect 0 info -v
  unset TENON_PLUGIN_PATH
  says 'scan: verdict remembered, found in'
  says "$2"
}
remembers "$scratch/libtenon-good.so" 'a fixture'
cp "$hostile" "$scratch/libtenon-segfault.so"
for _ in 1 2; do
  expect 1 scan "$scratch/libtenon-segfault.so"
  says 'refused by a scan made in'
done
remembers "$scratch/libtenon-segfault.so" 'SIGSEGV) while it was loaded'
cp "$hostile" "$scratch/libtenon-count-crash.so"
for _ in 1 2; do
  expect 1 scan "$scratch/libtenon-count-crash.so"
  says 'refused by a scan made in'
  says 'SIGSEGV) while it looked for devices'
done
# Which such a plugin took along:
remembers "$scratch/libtenon-count-crash.so" 'devices (its count); remembered for an hour; `tenon scan'
TENON_SCAN=off expect 1 scan "$scratch/libtenon-count-crash.so"

expect 0 scan "$odds"
says 'operator acme.answer: Gives 42.'
says 'warning  kernels wait for operators that no plugin has brought: acme.later'
