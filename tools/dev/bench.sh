# shellcheck shell=bash
# The chore bench of ./dev, which sources this: one bench, all of them, or what they are for.

benches() { find build/bench -maxdepth 1 -type f -executable -printf '%f\n' | sort; }

# Tenon, PyTorch where TENON_PYTHON has it, and bare libraries on the processor, on one thread and on all,
# by turns; then the page of the manual that tells it.
bench_curves() { # ARGUMENTS of bench/table/table.py
  local logs=${OUT:-build/bench-logs} python=${TENON_PYTHON:-python3} data
  build_for_all
  data=$(find_data mnist)
  data=${data:-$(find_data fashion-mnist)}
  mkdir -p "$logs"
  "$python" bench/table/table.py --device cpu --ms 6 --json "$logs/curves.json" ${data:+--data "$data"} "$@" |
    tee "$logs/curves.txt"
  "$python" bench/table/pages.py "$logs/curves.json"
}

bench_one() { # NAME [ARGUMENTS]
  local name=$1
  shift
  if [ "$name" = ops ]; then
    build/tools/tenon bench "$@"
    return
  fi
  [ -x "build/bench/$name" ] || die "no bench '$name'; there are: ops $(benches | xargs)"
  "build/bench/$name" "$@"
}

chore_bench() {
  local name
  case ${1:-} in
    --curves) bench_curves "${@:2}"; return ;;
    --quick) build_for_tests; run_tests build --suite bench; return ;;
    -*) die "bench takes a name, --curves or --quick" ;;
  esac
  build_for_all
  if [ $# -gt 0 ]; then
    bench_one "$@"
    return
  fi
  for name in $(benches); do
    say "bench $name"
    "build/bench/$name" --table
  done
  say "bench ops"
  build/tools/tenon bench
}
