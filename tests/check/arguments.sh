#!/bin/sh
# tenon check and tenon bench: their arguments and exit statuses.
#
# usage: arguments.sh TENON A_PLUGIN
set -eu
tenon=$1 plugin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS

die() {
  echo "failed: $*" >&2
  exit 1
}
expect() { # STATUS ARGUMENTS...
  wanted=$1 status=0
  shift
  "$tenon" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  [ "$status" -eq "$wanted" ] || die "tenon $*: status $status, not $wanted: $(cat "$scratch/err")"
}

expect 0 check --help
for option in device op dtype seed case large list complete expect junit json jobs timeout no-fork; do
  grep -q -- "--$option" "$scratch/out" || die "--help does not explain --$option"
done
expect 2 check --nosuch
expect 2 check --seed
expect 2 check --seed twelve
expect 2 check --case -1
expect 2 check --jobs 1000
expect 2 check one.so two.so
expect 2 check "$scratch/none.so"
expect 3 check --device nosuch
grep -q nosuch "$scratch/err" || die "the unknown device is not named"
expect 3 check --device reference --op nosuch
expect 2 check --device reference --op neg --expect "$scratch/none"
echo 'neg f32' >"$scratch/short"
expect 2 check --device reference --op neg --expect "$scratch/short"
grep -q 'short:1' "$scratch/err" || die "the malformed line is not named"

# A file that is no plugin is a failure with its reason.
head -c 500 "$plugin" >"$scratch/libtenon-cut.so"
expect 1 check "$scratch/libtenon-cut.so"
grep -q 'was not taken' "$scratch/err" || die "the refused plugin is not reported"

expect 0 check --device reference --op neg --dtype f16 --list
grep -qE '^neg +f16 +[0-9]+ cases$' "$scratch/out" || die "--list"
[ "$(wc -l <"$scratch/out")" -eq 1 ] || die "--list lists more than was asked for"
expect 0 check --device reference --op neg --dtype '*f*' --seed 7
grep -q '^ok *neg *f16 bf16 f32 f64' "$scratch/out" || die "--dtype"
expect 0 check --device reference --op cast --dtype f32,i8 --case 3 --no-fork
grep -q '^1 cases' "$scratch/out" || die "--case"
expect 0 check --device reference --op 'ne[g]' --json --junit "$scratch/junit.xml"
if command -v python3 >/dev/null; then
  python3 - "$scratch" <<'PYTHON' || die "not what JSON and XML should be"
import json, sys, xml.etree.ElementTree as tree
lines = [json.loads(l) for l in open(sys.argv[1] + "/out", encoding="utf-8")]
assert lines[0]["op"] == "neg" and lines[0]["failures"] == 0 and lines[0]["runs"] > 100
assert lines[-1]["totals"] and lines[-1]["runs"] == lines[0]["runs"]
suite = tree.parse(sys.argv[1] + "/junit.xml").getroot().find("testsuite")
assert suite.get("failures") == "0" and suite.find("testcase").get("name") == "neg"
PYTHON
fi
expect 0 bench --help
expect 2 bench --nosuch
expect 2 bench more
expect 1 bench --device nosuch
expect 0 bench --device reference --op exp --dtype f64 --json
grep -q '"op": "exp", "dtype": "f64"' "$scratch/out" || die "bench --json"
expect 0 info --kernels
grep -qE '^\| neg \|' "$scratch/out" || die "info --kernels lacks neg"
echo "arguments and statuses as they should be"
