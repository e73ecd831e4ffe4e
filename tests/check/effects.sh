#!/bin/sh
# tenon check finds what kernels do beside what they compute, and says what it is: with their
# workspace, with memory that their calls share, to the thread and the process.
#
# usage: effects.sh TENON libtenon-effects.so libtenon-short.so
set -eu
tenon=$1 plugin=$2 short=$3
# shellcheck source=tests/command_support.sh
. "$(dirname "$0")/../command_support.sh"
unset EFFECTS_OPEN
export TENON_PLUGINS=-onednn,-opencl,-cuda # others would be loaded for nothing
export TENON_SCAN=off # the scan has tests of its own
export MALLOC_PERTURB_=0 # what is leaked, or asked for absurdly, shall stay untouched

planted=0
found() { # OPERATOR WHAT
  planted=$((planted + 1))
  lines_of "$1" "$scratch/all" >"$scratch/out"
  grep -q "^FAILED *$1 " "$scratch/out" || die "$1: its effect was not found"
  grep -qE "^FAIL  .*$2" "$scratch/out" || die "$1: no '$2' in the report"
}

check 1 "$plugin" --dtype f32 --no-thresholds
cp "$scratch/out" "$scratch/all"
lines_of hypot "$scratch/all" | grep -q '^ok' || die "hypot is sound"

# Workspaces.
found neg 'wrote byte 100 of its 100 bytes of workspace'
found abs 'wrote byte -1 of its 100 bytes of workspace'
found log2 'signal 11'
found square 'y: element'
found floor 'wrote byte 4 of its 4 bytes of workspace'
found ceil 'asks for [0-9]+ bytes of workspace, and for [0-9]+ when asked again'
found trunc 'asks for 3221225472 bytes of workspace'
# What shows when calls meet, or signals come amid them: where others have the processors that may
# not be, in one run, and they get another.
again() { # OPERATOR LINE
  for _ in 1 2 3 4 5; do
    ! lines_of "$1" "$scratch/all" | grep -qE "$2" || break
    "$tenon" check "$plugin" --dtype f32 --no-thresholds --op "$1" >"$scratch/all" 2>"$scratch/err" || true
  done
}
met() { # OPERATOR WHAT
  again "$1" "^FAIL  .*$2"
  found "$1" "$2"
  cp "$scratch/whole" "$scratch/all"
}
cp "$scratch/all" "$scratch/whole"
met relu 'static_scratch, in 4 threads at once: y is not as when the call is made alone'
met reciprocal 'two_scratches, in 4 threads at once'
met tan 'hidden_scratch, in 4 threads at once'
# What was not tried, or fails for the timers' signals alone, is said and is no failure.
noted() { # OPERATOR WHAT
  lines_of "$1" "$scratch/all" >"$scratch/out"
  grep -q "^ok *$1 " "$scratch/out" || die "$1 is sound"
  grep -qE "^ +$2" "$scratch/out" || die "$1: no '$2' in the report"
}
noted exp2 'f32: threads not tried: a call takes [0-9.]+ ms'
interrupted='f32: effects.waits_once fails where signals come amid its calls, and not without'
again log10 "$interrupted"
noted log10 "$interrupted"
cp "$scratch/whole" "$scratch/all"
# The thread.
found sqrt "left the thread's rounding mode as toward zero"
machine=$("$tenon" info | grep -owE 'x86-64|aarch64' | head -n 1) || true
if [ -n "$machine" ]; then
  found add 'left the thread flushing subnormal results to zero'
  met asinh 'in 4 threads at once: left the thread flushing subnormal results to zero'
  found sub 'left the floating-point mode of a thread of its parallel loop changed'
fi
if [ "$machine" = x86-64 ]; then
  found expm1 'left the thread reading subnormal numbers as zero'
  found cosh "left the thread's x87 control word as"
fi
found tanh 'left signal 10 .*blocked in the thread'
if [ "$(nproc)" -gt 1 ]; then found acos 'left the thread bound to 1 processors'; fi
# The process.
found mul 'left another handler for signal 8'
found div 'changed the working directory to /'
found log "changed the process's umask to 000"
if locale -a | grep -qi '^c\.utf-*8$'; then found cos "changed the process's locale to C"; fi
found exp 'changed the environment'
found asin 'left a timer running'
found log1p 'changed a limit of the process'
found sin 'wrote to standard output or error: "entering the kernel"'
found sinh 'wrote to standard output or error: "slow path"'
# With every call.
found atan 'leaves 1 descriptors behind with every call'
found sigmoid 'leaves 1 threads behind with every call'
found maximum 'leaves 1.05e\+06 bytes .* behind with every call'
found minimum 'leaves [45][0-9](\.[0-9])? bytes .* behind with every call'

# A call that fails only when it is made often.
found erf 'many calls.*effects.tires fails when it is called again and again: TN_ERR_BACKEND: .*no handle'

# In the memory of a device.
check 1 "$short" --device sim --dtype f32 --op softmax --no-thresholds
planted=$((planted + 1))
grep -qE '^FAIL .*wrote byte ([0-9]+) of its \1 bytes of workspace' "$scratch/out" ||
  die "softmax: that it writes past its workspace is not said"

# What was changed was put back: nothing is said of the sound operator behind the others, and the
# line behind "again" finds the same.
again=$(lines_of div "$scratch/all" | sed -n 's/.*again: tenon //p' | head -n 1)
# shellcheck disable=SC2086 # the words of a command
check 1 ${again#check }
grep -q 'changed the working directory' "$scratch/out" || die "'tenon $again' finds something else"

# What a plugin does as it is opened.
opening() { # WHAT TEXT
  planted=$((planted + 1))
  EFFECTS_OPEN=$1 check 1 "$plugin" --dtype f32 --op hypot --no-thresholds
  [ "$(grep -c '^FAIL ' "$scratch/out")" -eq 1 ] || die "opening: $1: not one failure"
  grep -q "^FAIL .*(opening): .*$2" "$scratch/out" || die "opening: $1: no '$2'"
}
opening prints 'hello from the driver'
opening folder 'changed the working directory'
opening umask 'changed the process.s umask'
opening alarm 'left a timer running'
# What it prints spoils no report that programs read.
for how in '--json' '--json --no-fork' '--json --list'; do
  # shellcheck disable=SC2086 # words
  EFFECTS_OPEN=prints "$tenon" check "$plugin" --dtype f32 --op hypot --no-thresholds $how \
    >"$scratch/out" 2>"$scratch/err" || true
  grep -q '^{.*"totals": *true' "$scratch/out" || die "$how: no totals"
  ! grep -qv '^{.*}$' "$scratch/out" || die "$how: what a plugin prints stands in the report"
  planted=$((planted + 1))
done
# Of several things each is said, as the device's own.
EFFECTS_OPEN=much check 1 "$plugin" --dtype f32 --op hypot --no-thresholds
for what in 'hello from the driver' 'changed the working directory' 'changed the process.s umask'; do
  planted=$((planted + 1))
  grep -q "^FAIL .*(opening): .*$what" "$scratch/out" || die "opening: much: no '$what'"
done
grep -q '^ok *hypot' "$scratch/out" || die "an operator fails for what opening does"

# Without the layer the rest is checked, and that it is missing is said.
TENON_PLUGINS=reference,cpu check 0 --device cpu --dtype f32 --op neg
grep -q '^workspaces are not guarded' "$scratch/out" || die "that nothing guards workspaces is not said"
echo "$planted planted effects were found"
