#!/bin/sh
# tenon check finds every fault of a list that is planted into the mutant device, says of each what
# the list says, and finds nothing where none is planted.
#
# usage: mutants.sh TENON libtenon-mutant.so LIST [ARGUMENT of tenon check]...
#
# A line of the list: the fault, settings of the environment and arguments of tenon check if it
# needs some, a bar, and what must be in the report (an extended regular expression). The device
# "sound" has no fault.
#
#   copy_nothing TENON_MUTANT_OPAQUE=1 --slots memory.copies | on the device
#   sound TENON_MUTANT_DELAY_US=500 |
set -eu

# One line, in a process of its own: says nothing and ends with 0 where all is as the list says.
one() { # LINE TENON PLUGIN ARGUMENTS...
  line=$1 tenon=$2 plugin=$3
  shift 3
  wanted=$(printf '%s\n' "${line#*|}" | sed 's/^ *//')
  set -f # words, not names of files: the fault, settings, arguments
  # shellcheck disable=SC2086
  set -- ${line%%|*} "$@"
  set +f
  TENON_MUTANT=$1
  shift
  settings=
  while expr "${1-}" : '[A-Z_]*=' >/dev/null; do settings="$settings $1" && shift; done
  out=$scratch/$TENON_MUTANT$(printf %s "$settings$*" | tr -c 'A-Za-z0-9=_' -)
  fault=$TENON_MUTANT
  [ "$fault" != sound ] || TENON_MUTANT=
  export TENON_MUTANT
  expected=1
  [ "$fault" != sound ] || expected=0
  longer=
  for try in 1 2 3 4 5; do
    status=0
    # The short limit of a fault that hangs may be too short for what does not. The last counts.
    case "$try $*" in [2-5]*--timeout=*) longer=--timeout=20 ;; esac
    # shellcheck disable=SC2086 # words
    env $settings "$tenon" check "$plugin" "$@" $longer >"$out" 2>&1 || status=$?
    # A fault that shows for a moment alone may be missed while the machine does something else.
    [ "$fault" != sound ] || break
    [ "$status" -ne 1 ] || ! grep -qE -- "$wanted" "$out" || break
  done
  if [ "$status" -ne "$expected" ]; then
    echo "failed: $fault$settings: status $status, not $expected, in try $try" >"$out.failed"
  elif [ "$fault" = sound ]; then
    return 0
  elif grep -q 'no fault has that name' "$out"; then
    echo "failed: the mutant has no fault $fault" >"$out.failed"
  elif ! grep -qE -- "$wanted" "$out"; then
    echo "failed: $fault$settings: no '$wanted' in the report" >"$out.failed"
  else
    return 0
  fi
  head -n 60 "$out" >>"$out.failed"
}

if [ "$1" = --one ]; then
  shift
  one "$@"
  exit 0
fi

list=$3 tenon=$1 plugin=$2
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS TENON_MUTANT TENON_MUTANT_OPAQUE \
  TENON_MUTANT_DELAY_US TENON_MUTANT_GIB TENON_MUTANT_PAGEABLE TENON_MUTANT_UNPINNED \
  TENON_MUTANT_SILENT TENON_MUTANT_POOL_MIB
# Others would be loaded for nothing, in every run.
export TENON_PLUGINS=reference,mutant
# No fault is planted for nothing.
beside=$(dirname "$list")
for fault in $(sed -n 's/^FAULT(\([A-Z0-9_]*\),.*/\1/p' "$beside/faults.def" | tr '[:upper:]' '[:lower:]'); do
  grep -qE "^$fault( |$)" "$beside"/*.list || {
    echo "failed: no list has the fault $fault" >&2
    exit 1
  }
done
grep -v '^ *\(#\|$\)' "$list" | tr '\n' '\0' |
  xargs -0 -P 3 -I '{}' sh "$0" --one '{}' "$tenon" "$plugin" "$@"
failed=0
for report in "$scratch"/*.failed; do
  [ -e "$report" ] || continue
  failed=$((failed + 1))
  cat "$report" >&2
done
[ "$failed" -eq 0 ] || exit 1
echo "$(grep -cvE '^ *(#|$|sound)' "$list") planted faults were found"
