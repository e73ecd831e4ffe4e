#!/bin/sh
# Counts the instructions that one call takes, per way of bench/dispatch: the difference
# of two runs under callgrind, divided by the difference of their calls. Needs valgrind.
#
#   bench/instructions.sh [FOLDER]
#
# FOLDER holds another build's libtenon.so.0 and plugins, to be counted in place of this
# build's: a change that should cost nothing shows the same numbers for both.
set -eu
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
  LD_LIBRARY_PATH=$1
  export LD_LIBRARY_PATH
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The reference device: its kernels are alike in every build, and dispatch is the same.
count() { # WAY CALLS
  if ! TENON_DEVICE=reference TENON_NUM_THREADS=1 valgrind --tool=callgrind \
    --callgrind-out-file=/dev/null build/bench/dispatch --loop "$1" "$2" > "$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  sed -n 's/.*Collected : //p' "$log"
}

for way in given made planned prepared empty view retain scalar product; do
  few=$(count "$way" 1000)
  many=$(count "$way" 11000)
  awk -v way="$way" -v n="$((many - few))" \
    'BEGIN { printf "%-10s %8.2f instructions a call\n", way, n / 10000 }'
done
