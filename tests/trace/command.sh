#!/bin/sh
# tenon trace: exit statuses, signals, files and their names, and the training example traced.
#
# usage: command.sh TENON CHECK_TRACE EXAMPLES [EXAMPLE_DATA]
set -eu
tenon=$(realpath "$1") check_trace=$(realpath "$2") examples=$(realpath "$3") data_tool=${4:-}
[ -z "$data_tool" ] || data_tool=$(realpath "$data_tool")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS TENON_TRACE_FILE TENON_TRACE_SUMMARY

die() {
  echo "failed: $*" >&2
  cat "$work/err" >&2
  exit 1
}
expect() { # STATUS ARGUMENTS...: runs tenon trace
  wanted=$1 status=0
  shift
  "$tenon" trace "$@" >"$work/out" 2>"$work/err" || status=$?
  [ "$status" -eq "$wanted" ] || die "tenon trace $*: status $status, not $wanted"
}
says() { grep -qE "$1" "$work/err" || die "no word of '$1'"; }
figure() { awk -v name="$2" '$1 == name { print $2 }' "$1"; }

echo "-- statuses"
expect 2
says 'which program'
expect 2 --nosuch
expect 0 --help
expect 127 -- nosuch-program
says 'cannot run nosuch-program: No such file'
expect 126 -- "$work"
says 'Permission denied'
expect 7 -- sh -c 'exit 7'
says 'wrote no trace'
expect 0 -- true
says 'true wrote no trace'
expect 143 -- sh -c 'kill -TERM $$'
says 'died: Terminated'
expect 1 -o /nosuch/t.json -- "$examples/hello"
grep -q 'nosuch/t.json: No such file' err || die "the message of the layer is lost"

# ThreadSanitizer keeps a signal back until a call that it knows; waiting for a child is none.
if ! grep -q __tsan_init "$tenon"; then
  echo "-- signals are passed on"
  "$tenon" trace -- sh -c 'trap "exit 9" TERM; : >ready; while :; do sleep 0.1; done' 2>err &
  pid=$!
  while [ ! -e ready ]; do sleep 0.1; done
  kill -TERM $pid
  status=0
  wait $pid || status=$?
  [ $status -eq 9 ] || die "status $status after SIGTERM, not 9"
fi

echo "-- files"
mkdir folder
expect 0 -o folder/t.json --summary=table -- "$examples/hello"
says 'folder/t.json \('
grep -q 'Hello from' out || die "the program's output is lost"
grep -q '^add ' table || die "no table"
"$check_trace" folder/t.json >figures || die "folder/t.json"
[ "$(figure figures calls) $(figure figures kernels)" = "1 1" ] || die "not one call"
grep -q '"name":"process_name".*"name":"hello"' folder/t.json || die "the process has no name"
expect 0 -- "$examples/hello"
says '^add '
ls tenon-trace-*.json >/dev/null || die "no file by the default name"
expect 0 -o twice.json --no-summary -- sh -c "cd /; '$examples/hello'; '$examples/hello'"
! grep -q '^operator' err || die "a table in spite of --no-summary"
says 'twice.json \(.*, 2 traces in one\)'
"$check_trace" twice.json >figures || die "two traces in one file"
[ "$(figure figures calls) $(figure figures kernels)" = "2 2" ] || die "a process overwrote another's trace"
expect 0 -o 'at once%p.json' --no-summary -- sh -c \
  "'$examples/hello' & '$examples/hello' & '$examples/hello' & wait"
"$check_trace" 'at once%p.json' >figures || die "three traces in one file"
[ "$(figure figures calls)" -eq 3 ] || die "a process at the same time lost its trace"
expect 0 --no-summary -- sh -c "'$examples/hello'; sh -c '\"\$0\"; exit 0' '$examples/hello'"
says 'tenon-trace-[0-9]*.json \(.*, 2 traces in one'
# A process that goes on keeps its file, and the others are put together all the same.
expect 0 -o later.json --no-summary -- sh -c \
  "'$examples/hello'; (exec 3>>\"\$(dirname \"\$TENON_TRACE_FILE\")/99.json\"; flock 3; exec sleep 5) >/dev/null 2>&1 &
   while [ ! -e \"\$(dirname \"\$TENON_TRACE_FILE\")/99.json\" ]; do sleep 0.1; done; sleep 0.3"
says 'process 99 goes on and writes .*99.json'
"$check_trace" later.json >/dev/null || die "the trace beside one that goes on"
rm -r later.json.parts-*
for left in *.parts-*; do [ ! -e "$left" ] || die "$left is left"; done
expect 0 -o short.json --limit 1M --keep last --no-summary -- "$examples/hello"
"$check_trace" short.json >/dev/null || die "a trace with a limit"
expect 1 -o short.json --limit lots -- "$examples/hello"
says 'TENON_TRACE_LIMIT'
expect 0 --layers trace -o named.json -- "$examples/hello"
[ -s named.json ] || die "a layer named twice"
TENON_LAYERS=nosuch expect 1 -o other.json -- "$examples/hello"
says "no plugin brings a layer 'nosuch'"
mkfifo pipe
cat pipe >piped.json &
expect 0 -o pipe --no-summary -- "$examples/hello"
wait
"$check_trace" piped.json >figures || die "what came through a pipe"
[ "$(figure figures calls)" -eq 1 ] || die "not one call through the pipe"
if command -v python3 >/dev/null; then
  python3 -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' ./*.json ||
    die "Python's reader refuses a trace"
fi

if [ ! -x "$data_tool" ] || [ ! -x "$examples/train" ]; then
  echo "skipped: training, which was not built"
  exit 0
fi
echo "-- training"
mkdir idx
"$data_tool" idx idx 200 50
# On the processor: beside opening a GPU, three steps are nothing.
export TENON_DEVICE=cpu,reference
expect 0 -o train.json --summary=steps -- "$examples/train" --data idx --batch 16 --steps 3
"$check_trace" train.json >figures || die "train.json"
cat figures
[ "$(figure figures calls)" -gt 50 ] || die "few calls"
[ "$(figure figures calls)" -eq "$(figure figures kernels)" ] || die "a call without its kernel"
# The kernels are most of what training does, and no more than all of it.
awk '{ n[$1] = $2 } END { exit !(n["device_us"] <= n["wall_us"] && n["device_us"] > n["wall_us"] / 4) }' \
  figures || die "the device's time is not plausible"
unset TENON_DEVICE
awk '/^all / { all = $2 } /calls in/ { said = $6 } END { exit !(all == said && all > 50) }' steps ||
  die "the table does not add up"
echo "traced"
