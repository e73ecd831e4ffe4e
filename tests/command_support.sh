# shellcheck shell=sh
# What the tests of the command share: a scratch folder, and runs whose status and words are looked
# at. Sourced by those that have set $tenon; they unset what variables of Tenon's they go without.
# shellcheck disable=SC2154 # tenon is set by who includes this
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
touch "$scratch/out" "$scratch/err"

die() {
  echo "failed: $*" >&2
  cat "$scratch/out" "$scratch/err" >&2
  exit 1
}
expect() { # STATUS ARGUMENTS...
  wanted=$1 status=0
  shift
  "$tenon" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  [ "$status" -eq "$wanted" ] || die "tenon $*: status $status, not $wanted"
}
check() { # STATUS ARGUMENTS...
  wanted=$1
  shift
  expect "$wanted" check "$@"
}
# The lines of one operator's report.
lines_of() { awk -v op="$1" '/^[^ ]+ +[a-z0-9_]+ .* runs/ { on = $2 == op } on' "$2"; }
