#!/bin/sh
# The tenon command: exit statuses, and JSON that parses whatever a path is called.
#
# usage: command.sh TENON A_PLUGIN
set -eu
tenon=$1 plugin=$2
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
unset TENON_PLUGINS

expect 0 help
grep -q 'tenon info' "$scratch/out" || die "help does not name info"
# shellcheck disable=SC2013 # names of commands are words
for name in $(sed -n 's/^  tenon \([a-z-]*\) .*/\1/p' "$scratch/out"); do
  expect 0 "$name" --help
  expect 0 help "$name"
done
[ "$name" = version ] || die "help does not end with version"
expect 0 help info
grep -q '^usage: tenon info' "$scratch/out" || die "help info"
expect 0 help env
grep -q '^  TENON_DEVICE ' "$scratch/out" || die "help env"
! grep -qE '`|.{81}' "$scratch/out" || die "help env is no text for a terminal"
expect 0 help version
expect 2 help nosuch
expect 2 help info more
expect 0 --version
grep -qE '^tenon [0-9]+\.[0-9]+\.[0-9]+$' "$scratch/out" || die "--version"
expect 2
expect 2 nosuch
grep -q nosuch "$scratch/err" || die "the unknown command is not named"
expect 2 info --nosuch
expect 2 info more
expect 0 info
grep -q '^Devices' "$scratch/out" || die "info lists no devices"

TENON_DEVICE=nosuch expect 1 info
[ ! -s "$scratch/out" ] || die "output in spite of failure"
grep -q nosuch "$scratch/err" || die "the unknown device is not named"

if [ -w /dev/full ] && "$tenon" info >/dev/full 2>/dev/null; then die "a full disk went unnoticed"; fi

# A refused file in a folder whose name wants escapes: quotes, control, no UTF-8.
odd=$(printf '%s/a"b\\c\td\377\033[31m\302\233' "$scratch")
mkdir "$odd"
head -c 500 "$plugin" >"$odd/libtenon-cut.so"
cp "$plugin" "$odd/"
export TENON_PLUGIN_PATH="$odd"
expect 0 info -v --json
grep -q '"taken": false' "$scratch/out" || die "the cut plugin is not reported"
if command -v python3 >/dev/null; then
  python3 - "$scratch/out" <<'PYTHON' || die "not what JSON should be"
import json, sys
info = json.load(open(sys.argv[1], encoding="utf-8"))
odd = [p for p in info["plugins"] if 'a"b\\c\td\ufffd\x1b[31m\x9b' in p["path"]]
assert any(p["reason"] for p in odd) and any(p["taken"] for p in odd), info["plugins"]
assert sum(d["default"] for d in info["devices"]) == 1
assert all(d["kernels"] for d in info["devices"] if d["available"])
PYTHON
fi
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177\233]')" "$scratch/out" || die "control characters in JSON"
expect 0 info -v
! LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177\233]')" "$scratch/out" || die "control characters in info"
grep -qF 'c\x09d\xff\x1b[31m\xc2\x9b' "$scratch/out" || die "the odd path is not escaped"
unset TENON_PLUGIN_PATH

echo "-- words that name nothing are told, and change nothing"
expect 0 info
if grep -q '^. cpu:0' "$scratch/out"; then
  used=$(grep '^\* ' "$scratch/out")
  TENON_CPU_ISA=z80 expect 0 info
  grep -q 'TENON_CPU_ISA=z80 is not known.*baseline, avx2, avx512 or amx' "$scratch/err" ||
    die "TENON_CPU_ISA=z80: not a word"
  [ "$(grep '^\* ' "$scratch/out")" = "$used" ] || die "TENON_CPU_ISA=z80 changes the device"
fi

echo "-- filters"
expect 0 info -v
all=$(wc -l <"$scratch/out")
expect 0 info --op add --device reference
[ "$(wc -l <"$scratch/out")" -lt $((all / 4)) ] || die "--op and --device leave out too little"
grep -qE '^  add ' "$scratch/out" || die "--op shows no kernels"
! grep -qE '^  (sub|mul) ' "$scratch/out" || die "--op shows other operators"
grep -q '^  *reference ' "$scratch/out" || die "the plugin of the device is missing"
! grep -q 'Operators of cpu' "$scratch/out" || die "--device shows other devices"
expect 0 info -v --plugin reference --op 'conv?d' --json
if command -v python3 >/dev/null; then
  python3 - "$scratch/out" <<'PYTHON' || die "info --plugin --op --json"
import json, sys
info = json.load(open(sys.argv[1], encoding="utf-8"))
assert [p["name"] for p in info["plugins"]] == ["reference"], info["plugins"]
kernels = [k for d in info["devices"] for k in d["kernels"]]
assert kernels and all(k["operator"] in ("conv1d", "conv2d", "conv3d") for k in kernels)
assert all(any(c["plugin"] == "reference" for c in k["candidates"]) for k in kernels)
PYTHON
fi
for wrong in '--op nosuch' '--device nosuch' '--plugin nosuch'; do
  # shellcheck disable=SC2086
  expect 1 info $wrong
  grep -q 'nothing here fits.*nosuch' "$scratch/err" || die "$wrong: not a word"
done
expect 2 info --kernels --op add
expect 2 info --kernels --missing
expect 0 info --kernels
grep -qE '^\| add \| .* \| all \|' "$scratch/out" || die "info --kernels"
grep -qE '^\| matmul_scaled \| .* \| all \|' "$scratch/out" || die "info --kernels lacks 8-bit floats"
expect 0 info --op 'c*t' --device reference
grep -qE '^  cast .* f8_e4m3 f8_e5m2 .*reference.cast' "$scratch/out" || die "info --op lacks 8-bit floats"
expect 0 info --op cast --device reference --json
grep -q '"f8_e5m2"' "$scratch/out" || die "info --json lacks 8-bit floats"
expect 0 info --missing
grep -q '^## reference$' "$scratch/out" || die "info --missing"
! grep -q '^| add ' "$scratch/out" || die "info --missing has what is not missing"
# Rows of kernels that name no element types take no 8-bit floats.
if [ -e "$(dirname "$plugin")/libtenon-opencl.so" ]; then
  grep -q '^| copy | f8_e4m3 f8_e5m2 |$' "$scratch/out" || die "info --missing passes over 8-bit floats"
fi
echo "statuses and JSON as they should be"
