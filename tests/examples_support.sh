# shellcheck shell=sh
# What scripts that test the examples have in common: a scratch folder $work, checks that print a
# line each in the form of TAP, and their count. To be sourced; scripts end with finish.
LC_ALL=C
export LC_ALL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
count=0

passed() { count=$((count + 1)); echo "ok $count - $1"; }
failed() {
  count=$((count + 1)) failures=$((failures + 1))
  echo "not ok $count - $1"
  sed 's/^/#   /' "$work/out" "$work/err" | head -20
}
skipped() { count=$((count + 1)); echo "ok $count - $1 # SKIP $2"; }

# run STATUS COMMAND...: runs it, output to $work/out and $work/err; true if it ends so.
run() {
  wanted=$1
  shift
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  [ $got -eq "$wanted" ] && return 0
  echo "status $got, not $wanted: $*" >>"$work/err"
  return 1
}
# expect NAME STATUS PATTERN COMMAND...: the status, and PATTERN in what it prints.
expect() {
  name=$1 status=$2 pattern=$3
  shift 3
  if run "$status" "$@" && cat "$work/out" "$work/err" | grep -Eq -e "$pattern"; then
    passed "$name"
  else
    echo "expected status $status and /$pattern/" >>"$work/err"
    failed "$name"
  fi
}
# verify NAME COMMAND...: the command succeeds.
verify() {
  name=$1
  shift
  if run 0 "$@"; then passed "$name"; else failed "$name"; fi
}
# same NAME A B: two lists of losses agree to 1e-5, line by line.
same() {
  if paste "$2" "$3" | awk 'NF != 2 { exit 1 } { d = $1 - $2; m = $1 < 0 ? -$1 : $1
      if (d < 0) d = -d; if (!(d <= 1e-5 * m)) exit 1 } END { if (NR == 0) exit 1 }'; then
    passed "$1"
  else
    paste "$2" "$3" >"$work/out"
    : >"$work/err"
    failed "$1"
  fi
}

# full NAME COMMAND...: a standard output that takes nothing fails the program.
full() {
  name=$1
  shift
  : >"$work/out"
  if [ ! -w /dev/full ]; then skipped "$name" "no /dev/full"; return; fi
  if "$@" >/dev/full 2>"$work/err" </dev/null; then failed "$name"; else passed "$name"; fi
}

# option PROGRAM PATTERN ARGUMENTS...: a mistake on the command line, told with its name.
mistake() {
  program=$1 pattern=$2
  shift 2
  expect "$(basename "$program") $*" 2 "^$(basename "$program"): $pattern" "$program" "$@"
}

finish() {
  echo "1..$count"
  [ $failures -eq 0 ]
}
