# shellcheck shell=bash disable=SC2154 # variables of dev
# The chore gpu of ./dev, which sources this: everything that needs an NVIDIA GPU, in parts. Each part
# is a function gpu_NAME; it leaves its output in a log, returns 77 where it has nothing to work on,
# and does not keep the others from running.

# Runs one part of the GPU chore, keeping its output and its verdict; other parts go on.
part() { # NAME [ARGUMENTS]
  local name=$1 log begin=$SECONDS status=0 verdict=ok
  log=$logs/$name.log
  say "gpu: $name"
  shift
  "gpu_$name" "$@" >"$log" 2>&1 || status=$?
  case $status in
    0) ;;
    77) verdict=skipped ;;
    *) verdict="FAILED ($status)" gpu_failed=$((gpu_failed + 1)) ;;
  esac
  # The table is what it is for; of the others the end says enough.
  if [ "$name" = table ]; then cat "$log"; else tail -n 12 "$log" | sed 's/^/    /'; fi
  gpu_table+=$(printf '%-10s %-12s %5d s  %s' "$name" "$verdict" $((SECONDS - begin)) \
    "$(tail -n 1 "$log" | cut -c1-90)")$'\n'
}

gpu_build() {
  widen_cuda
  configure build -Dcuda=enabled && meson configure build -Dcuda=enabled &&
    refresh_cuda build && ninja -C build -j "$jobs" && ls -l build/libtenon-cuda.so
}

gpu_info() { TENON_DEVICE=cuda build/tools/tenon info -v; }

gpu_suite() { TENON_TEST_DEVICES=cuda:0 run_tests build --timeout-multiplier 10; }

gpu_ops() { build/tools/tenon check --device cuda; }

# One process, which compute-sanitizer can follow.
sanitized() { # TOOL ARGUMENTS of tenon check...
  local options=(--tool "$1" --error-exitcode 86)
  if [ "$1" = memcheck ]; then options+=(--report-api-errors no); fi
  shift
  compute-sanitizer "${options[@]}" build/tools/tenon check --device cuda --no-fork "$@"
}

gpu_memcheck() {
  has compute-sanitizer || { echo "no compute-sanitizer here"; return 77; }
  sanitized memcheck --dtype f32
}

# The four tools over the operators whose names begin with every Nth letter from the SLICE-th on, a
# process for each letter: time on a GPU comes in pieces. TOOLS and DTYPE (a glob) choose fewer. Says
# which letters failed, and goes on.
gpu_sanitizers() { # SLICE/N
  local slice=${1:-1/1} tool letter letters failed='' ran=0 status
  has compute-sanitizer || { echo "no compute-sanitizer here"; return 77; }
  if ! [[ $slice =~ ^[0-9]+/[0-9]+$ ]] || [ "${slice%/*}" -lt 1 ] || [ "${slice%/*}" -gt "${slice#*/}" ]; then
    echo "sanitizers takes SLICE/N: 1/8 to 8/8"
    return 2
  fi
  mapfile -t letters < <(build/tools/tenon check --device cuda --list --json --dtype "${DTYPE:-f32}" |
    sed -n 's/.*"op": "\(.\).*/\1/p' | sort -u |
    awk -v slice="${slice%/*}" -v of="${slice#*/}" 'NR % of == slice % of')
  [ "${#letters[@]}" -gt 0 ] || { echo "slice $slice has no operators"; return 2; }
  for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
    for letter in "${letters[@]}"; do
      status=0
      sanitized "$tool" --op "$letter*" --dtype "${DTYPE:-f32}" >"$logs/sanitizer.txt" 2>&1 || status=$?
      ran=$((ran + 1))
      [ "$status" -ne 0 ] || continue
      failed+=" $tool:$letter"
      echo "== $tool $letter*: status $status"
      grep -m 60 -E '=========|FAIL' "$logs/sanitizer.txt" || tail -n 20 "$logs/sanitizer.txt"
    done
  done
  echo "slice $slice, $ran runs over ${letters[*]}:${failed:- clean}"
  [ -z "$failed" ]
}

# The first losses of one seed must be those of every device. The seed is one of those for
# which rounding is not amplified past the bound within 50 steps; docs/training.md says
# why most are not.
gpu_losses() {
  local device data
  data=$(find_data mnist)
  data=${data:-$(find_data fashion-mnist)}
  [ -n "$data" ] || { echo "no data set here"; return 77; }
  for device in reference cpu cuda; do
    echo "training on $device"
    TENON_PLUGINS=-onednn TENON_DEVICE=$device build/examples/train --data "$data" --seed 2 --steps 50 \
      --losses "$logs/losses-$device.txt" || return
  done
  paste "$logs"/losses-{reference,cpu,cuda}.txt | awk '
    function apart(a, b) { return (a > b ? a - b : b - a) / (b > 0 ? b : -b) }
    {
      for (i = 2; i <= 3; ++i) if (apart($i, $1) > worst[i]) worst[i] = apart($i, $1)
      if (NF != 3) broken = 1
    }
    END {
      printf "%d losses; worst relative difference to reference: cpu %.1e, cuda %.1e\n",
             NR, worst[2], worst[3]
      exit broken || NR != 50 || worst[2] > 1e-3 || worst[3] > 1e-3
    }'
}

gpu_train() {
  local data
  data=$(find_data mnist)
  data=${data:-$(find_data fashion-mnist)}
  [ -n "$data" ] || { echo "no data set here"; return 77; }
  TENON_DEVICE=cuda build/examples/train --data "$data" --epochs 1
}

# The device's own times must be there, of kernels of the device, and no longer than the run.
gpu_trace() {
  local data trace=$logs/trace.json
  data=$(find_data mnist)
  data=${data:-$(find_data fashion-mnist)}
  [ -n "$data" ] || { echo "no data set here"; return 77; }
  TENON_DEVICE=cuda build/tools/tenon trace -o "$trace" --summary="$logs/trace.txt" -- \
    build/examples/train --data "$data" --steps 50 || return
  cat "$logs/trace.txt"
  build/tests/trace/check_trace "$trace" cuda. >"$logs/trace.figures" || return
  if has python3; then python3 -m json.tool "$trace" /dev/null || return; fi
  awk '
    { figure[$1] = $2; text = text " " $0 }
    END {
      print text
      exit figure["calls"] < 1000 || figure["failed"] || figure["fallback"] ||
        figure["kernels"] != figure["calls"] || figure["copies"] < 4 ||
        figure["device_us"] <= 0 || figure["device_us"] > figure["wall_us"]
    }' "$logs/trace.figures"
}

gpu_bench() {
  local name
  for name in $(benches); do
    echo "bench $name"
    TENON_DEVICE=cuda "build/bench/$name" --table || return
  done
  build/tools/tenon bench --device cuda
}

# What the benches are compared with: bare CUDA, and PyTorch where it is installed.
gpu_peers() {
  local peer status=77
  for peer in build/bench/peers/*; do
    if [ -f "$peer" ] && [ -x "$peer" ]; then "$peer" || return; status=0; fi
  done
  if python3 -c 'import torch' 2>/dev/null; then
    for peer in bench/peers/*.py; do python3 "$peer" || return; status=0; done
  else
    echo "no PyTorch here"
  fi
  return "$status"
}

# Tenon, PyTorch and bare libraries in one table; its sections, where named, alone.
gpu_table() {
  has python3 || { echo "no python3 here"; return 77; }
  [ -x build/bench/table/serve ] || { echo "build/bench/table/serve was not built"; return 1; }
  python3 bench/table/table.py --json "$logs/table.json" "$@"
}

# The page of the manual, from what gpu_table measured last.
gpu_pages() {
  has python3 || { echo "no python3 here"; return 77; }
  [ -s "$logs/table.json" ] || { echo "no $logs/table.json: run ./dev gpu table first"; return 77; }
  python3 bench/table/pages.py "$logs/table.json"
}

# What bounds the operators that are slower than a copy; writes their page of the manual.
gpu_bounds() {
  has python3 || { echo "no python3 here"; return 77; }
  has ncu || { echo "no ncu here"; return 77; }
  [ -x build/tools/tenon ] || { echo "build/tools/tenon was not built: run ./dev gpu build first"; return 1; }
  build/tools/tenon bench --device cuda --json >"$logs/ops.json" || return
  python3 bench/table/bounds.py "$logs/ops.json" --json "$logs/bounds.json" --page docs/performance-cuda-bounds.md
}

chore_gpu() {
  local logs=${OUT:-build/gpu-logs} gpu_failed=0 gpu_table='' name
  local parts=("$@") arguments=()
  # These take arguments, and are run alone then.
  if [ "${1:-}" = table ] || [ "${1:-}" = sanitizers ]; then
    parts=("$1")
    arguments=("${@:2}")
  fi
  [ $# -gt 0 ] || parts=(build info suite ops memcheck losses train trace bench peers table)
  for name in "${parts[@]}"; do
    declare -F "gpu_$name" >/dev/null || die "gpu has no part '$name'"
  done
  if [[ " ${parts[*]} " != *" build "* ]] && { [ -e build/cuda-for-tests ] || has_option sm_code '"ptx"'; }; then
    die "build/ has CUDA kernels for tests alone; run ./dev gpu build first"
  fi
  need
  mkdir -p "$logs"
  for name in "${parts[@]}"; do part "$name" "${arguments[@]}"; done
  say "gpu: summary, logs in $logs"
  printf '%s' "$gpu_table" | tee "$logs/summary.txt"
  [ "$gpu_failed" -eq 0 ] || die "$gpu_failed parts failed"
}
