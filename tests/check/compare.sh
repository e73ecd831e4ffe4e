#!/bin/sh
# tenon bench --compare: what counts as slower and faster, what is missing, and files that are bad.
#
# usage: compare.sh TENON
set -eu
tenon=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_LAYERS
export TENON_PLUGINS=reference

die() {
  echo "failed: $*: $(cat "$scratch/out" "$scratch/err")" >&2
  exit 1
}
expect() { # STATUS ARGUMENTS...
  wanted=$1 status=0
  shift
  "$tenon" bench "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  [ "$status" -eq "$wanted" ] || die "tenon bench $*: status $status, not $wanted"
}
says() { # the whole output; lines of blanks are one blank
  tr -s ' ' <"$scratch/out" >"$scratch/plain"
  cat >"$scratch/said"
  cmp -s "$scratch/plain" "$scratch/said" || die "not what was to be said"
}
row() { # DEVICE OP DTYPE CASE KERNEL MEDIAN LEAST MOST
  printf '{"bench": "ops", "device": "%s", "op": "%s", "dtype": "%s", "case": "%s", "kernel": "%s", ' \
    "$1" "$2" "$3" "$4" "$5"
  printf '"time_us": %s, "least_us": %s, "most_us": %s, "cached": false, "of_copy": null}\n' "$6" "$7" "$8"
}
# `what` twice: calls that differ in what is not printed, which pair in their order.
{
  row x:0 sum f32 'sum f32 8x8' k 10 9 11
  row x:0 sum f32 'sum f32 8x8' k 100 99 101
  row x:0 neg f32 'neg f32 5' k.old 10 9 11
  row x:0 neg f16 'neg f16 5' k 10 9 11
  row x:0 exp f32 'exp f32 5' k 10 9 11
  row x:0 log f32 'log f32 5' k 10 9 11
  row x:0 abs f32 'abs f32 "\é' k 10 9 11 | sed 's/"\\/\\"\\\\/'
  row x:1 neg f32 'neg f32 5' k 10 9 11
} >"$scratch/old.json"
{
  echo '{"bench": "dispatch", "case": "of another bench"}'
  row x:1 neg f32 'neg f32 5' k 10.9 10.5 11  # within the threshold
  row x:0 exp f32 'exp f32 5' k 20 9.9 30     # slower, but its best round is as fast as before
  row x:0 sum f32 'sum f32 8x8' k 10 9 11
  row x:0 sum f32 'sum f32 8x8' k 300 299 301
  row x:0 neg f16 'neg f16 5' k 5 4 6
  row x:0 neg f32 'neg f32 5' k.new 12 11 13
  row x:0 abs f32 'abs f32 "\é' k 10 9 11 | sed 's/"\\/\\"\\\\/'
  echo
  row x:0 tan f32 'tan f32 5' k 10 9 11
} >"$scratch/new.json"

expect 1 --compare "$scratch/old.json" "$scratch/new.json"
says <<'TEXT'
slower by more than 10%
ratio was us is us
3.00 100.00 300.00 x:0 sum f32 8x8 k
1.20 10.00 12.00 x:0 neg f32 5 k.new, was k.old
faster by more than 10%
ratio was us is us
0.50 10.00 5.00 x:0 neg f16 5 k
missing now
x:0 log f32 5
7 calls compared: 2 slower, 1 faster, 4 alike; 1 missing, 1 new
their times are 1.216 of what they were (geometric mean)
TEXT
expect 1 --compare "$scratch/old.json" "$scratch/new.json" --threshold 25%
grep -q '^7 calls compared: 1 slower, 1 faster, 5 alike' "$scratch/out" || die "--threshold 25%"
expect 0 --compare "$scratch/old.json" "$scratch/new.json" --threshold 200
expect 0 --compare "$scratch/old.json" "$scratch/old.json" --threshold 0
grep -q '^8 calls compared: 0 slower, 0 faster, 8 alike; 0 missing, 0 new' "$scratch/out" || die "a file with itself"
expect 0 --compare "$scratch/old.json" "$scratch/new.json" --dtype f16
grep -q '^1 calls compared: 0 slower, 1 faster, 0 alike; 0 missing, 0 new' "$scratch/out" || die "--dtype"
expect 1 --compare "$scratch/old.json" "$scratch/new.json" --op 'n*'
grep -q '^3 calls compared: 1 slower' "$scratch/out" || die "--op"
expect 1 --compare "$scratch/old.json" "$scratch/new.json" --case 'sum * 8x8'
grep -q '^2 calls compared: 1 slower, 0 faster, 1 alike; 0 missing, 0 new' "$scratch/out" || die "--case"
expect 3 --compare "$scratch/old.json" "$scratch/new.json" --op 'cos'

# A run beside a file: what it times, and nothing else, can be missing.
expect 0 --device reference --op neg --dtype f32 --json
sed 's/"time_us": [^,]*, "least_us": [^,]*, "most_us": [^,]*/"time_us": 1e9, "least_us": 1e9, "most_us": 1e9/' \
  "$scratch/out" >"$scratch/slow.json"
sed 's/"time_us": [^,]*, "least_us": [^,]*, "most_us": [^,]*/"time_us": 1e-9, "least_us": 1e-9, "most_us": 1e-9/' \
  "$scratch/out" >"$scratch/fast.json"
row reference:0 exp f32 'exp f32 7' k 1 1 1 >>"$scratch/slow.json"
expect 0 --device reference --op neg --dtype f32 --compare "$scratch/slow.json"
grep -qE '^[1-9] calls compared: 0 slower, [1-9] faster, 0 alike; 0 missing, 0 new' "$scratch/out" || die "a faster run"
expect 0 --device reference --op neg --case 'neg f32 1000' --compare "$scratch/slow.json"
grep -q '^1 calls compared: 0 slower, 1 faster, 0 alike; 0 missing, 0 new' "$scratch/out" || die "a run of one case"
expect 1 --device reference --op neg --dtype f32 --json --compare "$scratch/fast.json"
grep -qv '^{' "$scratch/out" && die "the JSON has more than rows"
grep -q '^slower by more than 10%' "$scratch/err" || die "a slower run, with JSON"

bad() { # FILE TEXT: is refused, and nothing is timed
  expect 1 --device reference --op neg --dtype f32 --compare "$1"
  grep -q "$2" "$scratch/err" || die "$1: not '$2'"
  [ ! -s "$scratch/out" ] || die "$1: timed before the file was read"
}
bad "$scratch/none.json" 'No such file'
bad "$scratch" 'Is a directory'
: >"$scratch/empty.json"
bad "$scratch/empty.json" 'has no figures'
echo '{"bench": "dispatch", "case": "a", "time_ns": 1}' >"$scratch/other.json"
bad "$scratch/other.json" 'has no figures'
{ cat "$scratch/old.json"; head -c 90 "$scratch/new.json" | tail -n 1; } >"$scratch/cut.json"
bad "$scratch/cut.json" 'line 9 is no JSON object'
for line in '{"bench": "ops", "case": "a' '["a"]' '{"a": {}}' '{"a": 1,}' '{"a": 1} 2' '{"a": "\x"}' '{"a": "\u12' \
  'ratio' '{"a" 1}'; do
  printf '%s\n' "$line" >"$scratch/odd.json"
  bad "$scratch/odd.json" 'line 1 is no JSON object'
done
row x:0 neg f32 'neg f32 5' k 0 0 0 >"$scratch/zero.json"
bad "$scratch/zero.json" 'line 1 lacks'
row x:0 neg f32 'neg f32 5' k null null null >"$scratch/null.json"
bad "$scratch/null.json" 'line 1 lacks'
row x:0 neg f32 'neg f32 5' k 1 1 1 | sed 's/"device": "x:0", //' >"$scratch/nowhere.json"
bad "$scratch/nowhere.json" 'line 1 lacks device'
for percent in ten -1 nan inf '' 10x; do
  expect 2 --compare "$scratch/old.json" "$scratch/new.json" --threshold "$percent"
done
expect 2 --compare
expect 2 --compare "$scratch/old.json" "$scratch/new.json" "$scratch/old.json"
