#!/bin/sh
# tenon check finds what kernels do beside what they compute, and says what it is: with their
# workspace, with memory that their calls share, to the thread and the process.
#
# usage: effects.sh TENON libtenon-effects.so
set -eu
tenon=$1 plugin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS EFFECTS_OPEN
export TENON_SCAN=off # the scan has tests of its own

die() {
  echo "failed: $*" >&2
  cat "$scratch/out" >&2
  exit 1
}
