#!/bin/sh
# tenon check and tenon bench: their arguments and exit statuses.
#
# usage: arguments.sh TENON A_PLUGIN
set -eu
tenon=$1 plugin=$2
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
export TENON_PLUGINS=reference,cpu,guard # others would be loaded for nothing, in every run

expect 0 check --help
for option in device op dtype slots seed case every large list complete expect junit json jobs timeout no-fork all minutes \
  fuzz-step sequence; do
  grep -q -- "--$option" "$scratch/out" || die "--help does not explain --$option"
done
expect 2 check --nosuch
expect 2 check --seed
expect 2 check --seed twelve
expect 2 check --case -1
expect 2 check --every -1
expect 2 check --jobs 1000
expect 2 check one.so two.so
expect 2 check --slots nosuch
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
grep -q '^FAIL .*was not taken' "$scratch/out" || die "the refused plugin is not reported"

expect 0 check --device reference --op neg --dtype f16 --list
grep -qE '^neg +f16 +[0-9]+ cases  reference\.neg' "$scratch/out" || die "--list"
grep -qE '^reference:0 .* [0-9]+ cases of 1 operators in 1 choices' "$scratch/out" || die "--list sums nothing up"
[ "$(wc -l <"$scratch/out")" -eq 2 ] || die "--list lists more than was asked for"
expect 0 check --device reference --op 'r*' --dtype f32 --list --json
if command -v python3 >/dev/null; then
  python3 - "$scratch" <<'PYTHON' || die "not what --list --json should be"
import json, sys
*ops, totals = [json.loads(l) for l in open(sys.argv[1] + "/out", encoding="utf-8")]
assert all(o["op"][0] == "r" and o["types"][0] == "f32" and o["kernels"] for o in ops)
assert sum(o["cases"] for o in ops) == totals["cases"] and totals["totals"]
PYTHON
fi
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
expect 2 bench --once --json
expect 2 bench memory --once
expect 3 bench --device reference --op neg --case 'neg f64 *'
grep -q 'no such case' "$scratch/err" || die "bench --case does not say that nothing was meant"
expect 0 bench --device reference --op sum --case 'sum * axes=*' --once
grep -q '^begin sum f32 .*x.* axes=(1) ' "$scratch/out" || die "bench does not print attributes"
expect 0 bench --device reference --op neg --case 'neg f32 1000' --once
[ "$(tr '\n' ' ' <"$scratch/out")" = "begin neg f32 1000 end " ] || die "bench --once does more than one call"
expect 2 bench memory more
expect 2 bench memory --op exp
expect 2 bench memory --tensors none
expect 1 bench memory --device nosuch
MALLOC_PERTURB_=0 expect 0 bench memory --device reference --tensors 500 --seed 2 --svg "$scratch/memory.svg"
grep -q 'short of memory .* served' "$scratch/out" || die "bench memory says nothing of shortages"
grep -q '^</svg>' "$scratch/memory.svg" || die "bench memory draws nothing"
MALLOC_PERTURB_=0 expect 0 bench memory --device reference --tensors 500 --json
grep -q '"bench": "memory".*"reserved_over_live": [1-9]' "$scratch/out" || die "bench memory --json"
expect 0 bench --device reference --op exp --dtype f64 --json
grep -q '"op": "exp", "dtype": "f64"' "$scratch/out" || die "bench --json"
grep -q '"least_us": .*"most_us": .*"cached": ' "$scratch/out" || die "bench --json has no spread"
expect 0 bench --device reference --op neg --dtype f32
awk 'NR == 1 { if ($0 !~ /^call .*least us .*median us .*most us .*GB\/s .*copy .*GFLOP\/s .*peak .*kernel/) exit 1; next }
     $1 == "neg" { ++n; if ($4 > $5 || $5 > $6) exit 1 }
     END { exit !n }' "$scratch/out" || die "bench: heads and spread"
expect 0 bench --device reference --op copy --dtype f32
! grep -qE '[0-9]{4}%|1[1-9][0-9]%' "$scratch/out" || die "bench: more than all of the memory's speed"
expect 0 bench --device reference --op multi_sgd --dtype f32 --json
! grep -q '"case": "multi_sgd f32,f16' "$scratch/out" || die "bench: a state narrower than parameters"
expect 3 bench --device reference --op nothing
grep -q 'no operator is called nothing' "$scratch/err" || die "bench --op nothing: not a word"
expect 2 bench --device reference --dtype zz
grep -q 'there are: bool u8 .* f64 f8_e4m3 f8_e5m2$' "$scratch/err" || die "bench --dtype zz: not a word"
expect 3 bench --device reference --op exp --dtype i8
grep -q 'nothing to time' "$scratch/err" || die "bench without a kernel: not a word"
for command in 'bench --op neg' 'check --op neg --dtype f16' 'check --op neg --list' 'info -v' \
  'info --kernels' 'info --json' help; do
  # shellcheck disable=SC2086
  if [ -w /dev/full ] && TENON_PLUGINS=reference "$tenon" $command >/dev/full 2>/dev/null; then
    die "$command: a full disk went unnoticed"
  fi
done
if [ -w /dev/full ] && "$tenon" check --device reference --op neg --junit /dev/full >/dev/null 2>&1; then
  die "check --junit: a full disk went unnoticed"
fi
# Where it is, on a terminal alone, and not a trace of it at the end.
if command -v script >/dev/null; then
  script -qec "'$tenon' check --device reference --op 'conv1d' --dtype f32 -j 1" /dev/null >"$scratch/seen" </dev/null ||
    die "check on a terminal"
  grep -q 'reference:0: [0-9]* of [0-9]* operators, at conv' "$scratch/seen" || die "check shows no progress"
fi
expect 0 check --device reference --op neg --dtype f16
! grep -q 'of [0-9]* operators, at' "$scratch/err" || die "progress where there is no terminal"
expect 0 info --kernels
grep -qE '^\| neg \|' "$scratch/out" || die "info --kernels lacks neg"
echo "arguments and statuses as they should be"
