#!/bin/sh
# tenon check --minutes finds faults at sizes that the kit's cases have not, makes them small, and
# prints commands that show them again; what is sound passes.
#
# usage: fuzz.sh TENON libtenon-rare.so
set -eu
tenon=$1 plugin=$2
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
export TENON_PLUGINS=reference,cpu,guard,rare TENON_SCAN=off

found() { # OPERATOR WHAT TIMEOUT: alone, which ends when it is found, and again by its command
  is_found "$@" || die "$1: no '$2', or not again by 'tenon $again'"
}
is_found() {
  again=
  check 1 "$plugin" --op "$1" --dtype f32 --minutes 2 --seed 3 --timeout "$3" -j 2
  grep -q "^FAIL .*$2" "$scratch/out" || return 1
  again=$(sed -n 's/^ *again: tenon //p' "$scratch/out" | head -n 1)
  status=0 && eval "\"$tenon\" $again --timeout $3" >"$scratch/out" 2>"$scratch/err" || status=$?
  [ "$status" -eq 1 ] && grep -q "^FAIL .*$2" "$scratch/out"
}

found add 'add a=f32\[\(1,\)*[13]*\] b=f32\[\(1,\)*[13]*\] .*\[.*12\] is 42' 30
found mul '6.*element' 30
found sub 'sub .*\[29\].*signal 11 .* in plugin rare, kernel rare.crashes' 30
# One second is little for all that does not hang, where others have the machine.
hangs() { is_found neg "neg x=f32\[37\].*did not end within $1 s\|neg x=f32\[37\].*signal 14" "$1"; }
hangs 1 || hangs 20 || die "neg: that it hangs is not found"

# What is sound passes; the same seed makes the same steps; a step can be had alone.
check 0 "$plugin" --op abs --dtype f32 --minutes 0.02 --seed 5
grep -q 'random steps with --seed 5' "$scratch/out" || die "the seed is not said"
check 0 --device reference --op abs --fuzz-step 7 --seed 5
grep -q ' 1 random steps' "$scratch/out" || die "--fuzz-step runs more than one"
check 0 --device cpu --sequence 'chain f32 seed=1; 0 = new [3,4]; 1 = neg 0 @1; 2 = add 0 1 @2 prepared; 3 = free 1; 4 = turn 0; 5 = matmul 0 4'
check 0 --device cpu --sequence 'add a=f32[3,1*] b=f32[4] y=f32 values=wide seed=5' --json
grep -q '"totals": true.*"failures": 0' "$scratch/out" || die "--sequence --json"
# Found so: many updates of one place, all alike, whose sum in float32 drifts past the bound.
for op in scatter_add index_add; do
  check 0 --device cpu --sequence "$op updates=f32[138*] index=i64[138*] y=f32[1] axis=0 values=plain seed=11065680875596834238"
done
check 0 --device cpu --sequence 'scatter_add updates=f32[5000*,3] index=i32[5000*,3] y=f32[4,3] axis=0 values=positive seed=1'
check 1 --device cpu --sequence 'add a=f32'
check 1 --device cpu --sequence 'nosuch x=f32[3]'
check 2 --device cpu --minutes 0
check 2 --device cpu --minutes soon
echo "rare faults were found and made small"
