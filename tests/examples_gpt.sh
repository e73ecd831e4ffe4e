#!/bin/sh
# How the example gpt behaves: that it learns, goes on from checkpoints bit by bit, writes the same
# text with and without a cache, and what it says to bad input.
#
#     examples_gpt.sh EXAMPLES_FOLDER [brief]
#
# With `brief`, which sanitizers' builds say, steps are too few to learn from.
set -u
gpt=$1/gpt
brief=${2:-}
steps=${brief:+6}
steps=${steps:-120}
# shellcheck source=tests/examples_support.sh
. "$(dirname "$0")/examples_support.sh"
if [ ! -x "$gpt" ]; then
  skipped "gpt" "it was not built"
  finish
  exit
fi

# A licence text is on every Debian; elsewhere a page of this manual must do.
text=/usr/share/common-licenses/GPL-3
[ -r "$text" ] || text=$(dirname "$0")/../docs/embedding.md

# column NUMBER FILE: of a table of losses, without its heading.
column() { tail -n +2 "$2" | cut -d , -f "$1"; }
# alike NAME A B: two files have the same bytes.
alike() {
  if cmp "$2" "$3" >"$work/out" 2>"$work/err"; then passed "$1"; else failed "$1"; fi
}
# below NAME LIMIT NUMBER
below() {
  if awk -v x="$3" -v limit="$2" 'BEGIN { exit !(x != "" && x + 0 < limit) }'; then passed "$1"; else
    echo "$3 is not below $2" >"$work/out"
    : >"$work/err"
    failed "$1"
  fi
}

test_options() {
  expect "gpt --help" 0 '^usage: gpt' "$gpt" --help
  mistake "$gpt" '--size: expected tiny or 124M' --size small
  mistake "$gpt" '--mode: expected graph or eager' --mode lazy
  mistake "$gpt" '--steps: expected a whole number' --steps -1
  mistake "$gpt" '--batch: expected' --batch 0
  mistake "$gpt" '--length: expected' --length 1x
  mistake "$gpt" '--lr: expected a finite number above 0' --lr nan
  mistake "$gpt" '--decay: expected a finite number, 0 or more' --decay -1
  mistake "$gpt" '--clip: expected' --clip 0
  mistake "$gpt" '--temperature: expected' --temperature inf
  mistake "$gpt" '--top-k: expected a whole number from 1 to 256' --top-k 257
  mistake "$gpt" '--seed: expected' --seed -1
  mistake "$gpt" '--save: expected a path' --save ''
  mistake "$gpt" '--save-every: where to is missing' --save-every 5
  mistake "$gpt" "unexpected argument 'b'" a b
  mistake "$gpt" '--seed and --load: a checkpoint brings its own seed' --seed 1 --load x
  expect "gpt --nonsense" 2 'nonsense' "$gpt" --nonsense
  expect "gpt with windows longer than the context" 1 '^gpt: --length: the context of tiny is 64' \
    "$gpt" --length 65 "$text"
  expect "gpt on a device that does not exist" 1 'nonsense' env TENON_DEVICE=nonsense "$gpt" "$text"
}

test_texts() {
  set -- --steps 1 --batch 1 --length 16 --sample 0
  expect "gpt without its text" 1 "cannot learn from $work/none: No such file" "$gpt" "$@" "$work/none"
  expect "gpt refuses a folder" 1 "cannot learn from $work: it is no file" "$gpt" "$@" "$work"
  : >"$work/empty"
  expect "gpt refuses an empty text" 1 'empty: it is empty' "$gpt" "$@" "$work/empty"
  head -c 169 "$text" >"$work/short"
  expect "gpt refuses a text that is too short" 1 \
    'short: it has 169 bytes, and of a context of 16 .* wants 170; take a longer text or' \
    "$gpt" "$@" "$work/short"
  head -c 170 "$text" >"$work/just"
  verify "gpt takes the shortest text" "$gpt" "$@" "$work/just"
  expect "gpt takes a text from a pipe" 0 "bytes to learn from" sh -c "cat '$text' | '$gpt' $* /dev/stdin"
  head -c 20000 /dev/urandom >"$work/noise"
  verify "gpt takes any bytes" "$gpt" "$@" "$work/noise"
  for option in save losses logprobs; do
    expect "gpt --$option into a folder that does not exist" 1 \
      "cannot write $work/none/x: No such file" "$gpt" "$@" --$option "$work/none/x" "$text"
  done
}

# What small steps must reach: less than the frequencies of bytes alone allow, which is 3.17 of the
# licence and 3.5 of the page.
test_learning() {
  verify "gpt trains" "$gpt" --steps "$steps" --batch 8 --length 32 --lr 0.003 --sample 40 \
    --losses "$work/curve" --save "$work/learnt" "$text"
  if [ "$(sed -n 1p "$work/curve")" = step,loss,held_out_loss,rate,gradient_norm ] &&
    [ "$(wc -l <"$work/curve")" -eq $((steps + 1)) ]; then passed "the table has a line for each step"; else
    failed "the table has a line for each step"; fi
  column 2 "$work/curve" >"$work/losses"
  below "it begins at ln 256" 0.03 \
    "$(awk 'NR == 1 { d = $1 - log(256); print d < 0 ? -d : d }' "$work/losses")"
  if [ -z "$brief" ]; then
    below "it learns" 3.05 "$(tail -n 20 "$work/losses" | awk '{ s += $1 } END { print s / NR }')"
    below "and not by heart" 3.17 "$(column 3 "$work/curve" | tail -n 1)"
  fi
  expect "gpt --json" 0 '^\{"device": ".+", .*"steps": '"$steps"', .*"held_out_loss": null, "peak_bytes": [0-9]+\}$' \
    "$gpt" --load "$work/learnt" --steps "$steps" --batch 8 --length 32 --sample 0 --json "$text"
  if [ "$(wc -l <"$work/out")" -eq 1 ]; then passed "the JSON stands alone"; else
    failed "the JSON stands alone"; fi
}

# A run in two parts is the run in one, to the last bit: losses, norms, weights and moments.
test_going_on() {
  set -- --steps 12 --batch 4 --length 24 --sample 0 "$text"
  run 0 "$gpt" --seed 7 --losses "$work/whole" --save "$work/whole.ckpt" "$@"
  run 0 "$gpt" --seed 7 --stop 5 --losses "$work/a" --save "$work/part.ckpt" "$@"
  expect "it says where a checkpoint stands" 0 '^5 steps taken$' \
    "$gpt" --load "$work/part.ckpt" --losses "$work/b" --save "$work/rest.ckpt" "$@"
  for what in 2 4 5; do column $what "$work/whole" >"$work/whole.$what"; done
  for what in 2 4 5; do { column $what "$work/a"; column $what "$work/b"; } >"$work/parts.$what"; done
  alike "losses go on as if nothing had been" "$work/whole.2" "$work/parts.2"
  alike "rates too" "$work/whole.4" "$work/parts.4"
  alike "gradients too" "$work/whole.5" "$work/parts.5"
  alike "the last checkpoints are the same" "$work/whole.ckpt" "$work/rest.ckpt"
  run 0 "$gpt" --seed 7 --save-every 4 --stop 4 --save "$work/every" "$@"
  run 0 "$gpt" --seed 7 --stop 4 --save "$work/once" "$@"
  alike "--save-every saves the same" "$work/every" "$work/once"
}

# Call by call on a tape, a run is what it is as a program.
test_modes() {
  set -- --steps 6 --batch 4 --length 24 --sample 0 "$text"
  run 0 "$gpt" --losses "$work/graph.csv" --save "$work/graph.ckpt" "$@"
  run 0 "$gpt" --mode eager --losses "$work/eager.csv" --save "$work/eager.ckpt" "$@"
  for what in 2 3 5; do column $what "$work/graph.csv" >"$work/graph.$what"; done
  for what in 2 3 5; do column $what "$work/eager.csv" >"$work/eager.$what"; done
  same "losses by a tape are those of a program" "$work/graph.2" "$work/eager.2"
  same "and of the text held out" "$work/graph.3" "$work/eager.3"
  same "and the gradients" "$work/graph.5" "$work/eager.5"
  for mode in graph eager; do
    for type in bf16 f16; do
      run 0 "$gpt" --mode $mode --amp $type --losses "$work/amp.csv" "$@"
      column 2 "$work/amp.csv" | paste - "$work/graph.2" >"$work/amp"
      below "--amp $type of mode $mode changes losses a little" 0.02 \
        "$(awk '{ d = $1 / $2 - 1; if (d < 0) d = -d; if (d > m) m = d } END { if (m > 0) print m }' "$work/amp")"
    done
  done
}

test_checkpoints() {
  set -- --steps 13 --batch 4 --length 24 --sample 0 "$text"
  ckpt=$work/part.ckpt
  head -c 100000 "$ckpt" >"$work/short"
  expect "a checkpoint cut short is refused" 1 'no checkpoint: .*short: tensor .* are outside' \
    "$gpt" --load "$work/short" "$@"
  { head -c 50000 "$ckpt"; printf X; tail -c +50002 "$ckpt"; } >"$work/flipped"
  expect "a damaged checkpoint is refused" 1 'flipped: damaged' "$gpt" --load "$work/flipped" "$@"
  sed 's/tenon gpt 1/tenon gpt 9/' "$ckpt" >"$work/version"
  expect "another version is refused" 1 'version: no checkpoint of gpt .*tenon gpt 1' \
    "$gpt" --load "$work/version" "$@"
  sed 's/"width":"128"/"width":"129"/' "$ckpt" >"$work/wider"
  expect "a model of another size is refused" 1 'wider: of a model of another size' \
    "$gpt" --load "$work/wider" "$@"
  expect "--size must be the checkpoint's" 1 '--size 124M: .* has a model of size tiny' \
    "$gpt" --load "$ckpt" --size 124M "$@"
  expect "a text is no checkpoint" 1 'no checkpoint: ' "$gpt" --load "$text" "$@"
  expect "a missing checkpoint is told" 1 'missing: .*No such file' "$gpt" --load "$work/missing" "$@"
}

# Further than the context, so that it is begun anew on the way.
test_sampling() {
  set -- --load "$work/learnt" --steps 0 --sample 300 --prompt 'The '
  for kind in cache no-cache; do
    [ $kind = cache ] && no='' || no=--no-cache
    # shellcheck disable=SC2086 # no word or one
    run 0 "$gpt" "$@" $no --logprobs "$work/$kind.logprobs"
    tail -n +3 "$work/out" >"$work/$kind.text"
  done
  alike "the cache does not change the text" "$work/cache.text" "$work/no-cache.text"
  if paste "$work/cache.logprobs" "$work/no-cache.logprobs" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(NF == 2 && d <= 2e-5)) exit 1 } END { exit NR != 300 }'; then
    passed "nor what the model expects"; else failed "nor what the model expects"; fi
  expect "the text begins with the prompt" 0 '^The ' cat "$work/cache.text"
  run 0 "$gpt" "$@" --temperature 0 && cp "$work/out" "$work/likeliest"
  run 0 "$gpt" "$@" --top-k 1 && cp "$work/out" "$work/first"
  alike "the likeliest byte is the first of the likeliest" "$work/likeliest" "$work/first"
  verify "a prompt may be longer than the context" "$gpt" --load "$work/learnt" --steps 0 \
    --sample 3 --prompt "$(head -c 1000 "$text")"
  run 0 "$gpt" --steps 0 --sample 400
  if iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null 2>"$work/err"; then
    passed "what a model without training writes is UTF-8"; else
    failed "what a model without training writes is UTF-8"; fi
}

test_interrupt() {
  "$gpt" --steps 100000 --batch 1 --length 16 --save-every 1 --save "$work/stopped" \
    --losses "$work/stopped.csv" "$text" >"$work/out" 2>"$work/err" &
  pid=$!
  while [ ! -s "$work/stopped" ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
  kill -INT $pid
  wait $pid
  if [ $? -eq 130 ] && [ "$(wc -l <"$work/stopped.csv")" -gt 1 ] &&
    grep -q '^stopped by Ctrl-C' "$work/out"; then
    passed "Ctrl-C stops and saves"; else failed "Ctrl-C stops and saves"; fi
}

test_options
test_texts
test_learning
test_going_on
test_modes
test_checkpoints
test_sampling
test_interrupt
full "gpt fails where nothing can be printed" "$gpt" --steps 0 --sample 3
full "gpt --help fails where nothing can be printed" "$gpt" --help
finish
