#!/bin/sh
# How the examples behave: what they print, compute and write, and what they say to
# bad input. Those of gpt: examples_gpt.sh.
#
#     examples.sh EXAMPLES_FOLDER EXAMPLE_DATA [brief]
#
# With `brief`, which sanitizers' builds say, nothing is trained for long.
# Examples whose library was missing at build time are skipped with a word.
set -u
examples=$1
data_tool=$2
brief=${3:-}
fashion=/usr/share/datasets/fashion-mnist
# shellcheck source=tests/examples_support.sh
. "$(dirname "$0")/examples_support.sh"

test_hello() {
  full "hello fails where nothing can be printed" "$examples/hello"
  expect "hello adds" 0 'Hello from .+: 11 22 33 44$' "$examples/hello"
  expect "hello names a device that does not exist and those that do" 1 'nonsense.*' \
    env TENON_DEVICE=nonsense "$examples/hello"
  expect "the message lists a device that exists" 1 'reference|cpu' \
    env TENON_DEVICE=nonsense "$examples/hello"
}

test_line() {
  if [ ! -x "$examples/line" ]; then skipped "line" "no C++ compiler"; return; fi
  full "line fails where nothing can be printed" "$examples/line"
  expect "line finds the line" 0 ' found y = 3\.00 x -2\.00$' "$examples/line"
  expect "line names a device that does not exist" 1 '^line: .*nonsense' \
    env TENON_DEVICE=nonsense "$examples/line"
}

test_train_options() {
  train=$examples/train
  expect "train --help" 0 '^usage: train' "$train" --help
  mistake "$train" '--mode: expected graph or eager' --mode lazy
  mistake "$train" '--amp: expected bf16 or f16' --amp=f8
  expect "train --epochs -1" 2 '^train: --epochs: expected a whole number' "$train" --epochs -1
  expect "train --epochs 1x" 2 '^train: --epochs: expected' "$train" --epochs 1x
  expect "train --batch 0" 2 '^train: --batch: expected' "$train" --batch 0
  expect "train --lr nan" 2 '^train: --lr: expected' "$train" --lr nan
  expect "train --lr 0" 2 '^train: --lr: expected' "$train" --lr 0
  expect "train --lr 1e999" 2 '^train: --lr: expected' "$train" --lr 1e999
  expect "train --seed -1" 2 '^train: --seed: expected' "$train" --seed -1
  expect "train --seed of 65 bits" 2 '^train: --seed' "$train" --seed 18446744073709551616
  expect "train --steps 0" 2 '^train: --steps: expected' "$train" --steps 0
  expect "train --save ''" 2 '^train: --save: expected a path' "$train" --save ''
  expect "train --nonsense" 2 'nonsense' "$train" --nonsense
  expect "train extra" 2 "unexpected argument 'extra'" "$train" extra
  expect "train --seed with --load" 2 'brings its own seed' "$train" --seed 1 --load x
  expect "train --batch above the number of images" 2 '^train: --batch: 201 is more than the 200' \
    "$train" --data "$work/idx" --batch 201
  expect "train on a device that does not exist" 1 'nonsense' \
    env TENON_DEVICE=nonsense "$train" --data "$work/idx"
}

# spoil NAME PATTERN FILE COMMAND: COMMAND gets FILE's bytes, unzipped, and gives others.
spoil() {
  name=$1 pattern=$2 file=$3 command=$4
  rm -rf "$work/bad"
  cp -r "$work/idx" "$work/bad"
  gzip -dc "$work/idx/$file" | sh -c "$command" | gzip -1 >"$work/bad/$file"
  expect "train refuses $name" 1 "$file: $pattern" "$examples/train" --data "$work/bad" --steps 1
  if grep -q -e '--data DIR' "$work/err"; then passed "... and tells the remedy"; else
    failed "... and tells the remedy"; fi
}

test_train_data() {
  images=train-images-idx3-ubyte.gz labels=train-labels-idx1-ubyte.gz
  expect "train without data" 1 'cannot open: No such file' \
    "$examples/train" --data "$work/none" --steps 1
  spoil "images cut short" 'truncated: expected 156800 bytes of images, found 99984' $images \
    'head -c 100000'
  spoil "a cut header" 'truncated: expected 8 bytes of header, found 5' $images 'head -c 5'
  spoil "an empty file" 'truncated' $images 'head -c 0'
  spoil "a wrong magic" 'expected an IDX file of images \(magic 0x00000803\), found magic 0x41' \
    $images 'printf A; tail -c +2'
  spoil "labels for images" 'expected an IDX file of labels' $labels \
    'printf "\000\000\010\003"; tail -c +5'
  spoil "other sizes" 'expected images of 28 x 28, the header says 28 x 29' $images \
    'dd bs=1 count=15 2>/dev/null; printf "\035"; cat'
  spoil "absurd counts" 'expected 1 to 1048576 images, the header says 4294967295' $images \
    'printf "\000\000\010\003\377\377\377\377"; tail -c +9'
  spoil "more labels than images" 'expected 200 labels, .* says 201' $labels \
    'printf "\000\000\010\001\000\000\000\311"; tail -c +9; printf "\001"'
  spoil "a label of 10" 'expected labels from 0 to 9, label 199 is 10' $labels \
    'head -c 207; printf "\012"'
  spoil "a file longer than its header says" 'longer than its header says' $labels \
    'cat; printf "\001"'

  rm -rf "$work/bad" && cp -r "$work/idx" "$work/bad"
  head -c 90000 "$work/idx/$images" >"$work/bad/$images"
  expect "train refuses a gzip file cut short" 1 "$images: truncated" \
    "$examples/train" --data "$work/bad" --steps 1
  cp "$work/idx/$images" "$work/bad/$images"
  size=$(wc -c <"$work/idx/$images")
  head -c $((size - 3)) "$work/idx/$images" >"$work/bad/$images"
  expect "train refuses a gzip file without its end" 1 "$images: truncated" \
    "$examples/train" --data "$work/bad" --steps 1
  { head -c $((size - 8)) "$work/idx/$images"; printf 'abcdefgh'; } >"$work/bad/$images"
  expect "train refuses a wrong gzip checksum" 1 "$images: damaged" \
    "$examples/train" --data "$work/bad" --steps 1
  cp "$work/idx/$images" "$work/bad/$images"
  rm "$work/bad/$labels"
  expect "train misses a file" 1 "$labels: cannot open" \
    "$examples/train" --data "$work/bad" --steps 1
}

test_train_outputs() {
  for option in save plot losses; do
    expect "train --$option into a folder that does not exist" 1 \
      "cannot write $work/none/x: No such file" \
      "$examples/train" --data "$work/idx" --epochs 1000 --$option "$work/none/x"
  done
  expect "train --save onto a folder" 1 "Is a directory" \
    "$examples/train" --data "$work/idx" --epochs 1000 --save "$work/idx"
  expect "a full disk is told" 1 'cannot write /dev/full: No space left' \
    "$examples/train" --data "$work/idx" --steps 1 --losses /dev/full
  verify "devices are written to, not replaced" "$examples/train" --data "$work/idx" --steps 1 \
    --losses /dev/null
  if [ -c /dev/null ]; then passed "/dev/null is still there"; else failed "/dev/null"; fi
  expect "train --json" 0 '^\{"device": ".+", .*"steps": 6, .*"accuracy": [0-9.]+, "peak_bytes": [0-9]+\}$' \
    "$examples/train" --data "$work/idx80" --epochs 2 --batch 32 --json --plot "$work/plot.svg"
  if [ "$(wc -l <"$work/out")" -eq 1 ]; then passed "the JSON stands alone"; else
    failed "the JSON stands alone"; fi
  expect "the plot is complete" 0 '</svg>' tail -n 1 "$work/plot.svg"
  if command -v xmllint >/dev/null; then
    verify "the plot is well-formed" xmllint --noout "$work/plot.svg"
  fi
  expect "the last line is the accuracy" 0 '^test accuracy [0-9]+\.[0-9][0-9] %$' \
    "$examples/train" --data "$work/idx80" --epochs 1
  expect "--epochs 0 only tests" 0 '^test accuracy' "$examples/train" --data "$work/idx" --epochs 0
  if ls "$work"/*.tmp "$work"/idx/*.tmp >/dev/null 2>&1; then failed "temporary files are left"; else
    passed "no temporary files are left"; fi
}

# 5 steps make an epoch of 80 images here; the cuts fall inside and between epochs.
test_train_checkpoints() {
  set -- --data "$work/idx80" --batch 16 --epochs 9
  run 0 "$examples/train" "$@" --steps 12 --losses "$work/whole"
  for cut in 2 5 8; do
    rest=$((12 - cut))
    run 0 "$examples/train" "$@" --steps $cut --losses "$work/a" --save "$work/ckpt"
    run 0 "$examples/train" "$@" --steps $rest --losses "$work/b" --load "$work/ckpt"
    cat "$work/a" "$work/b" >"$work/parts"
    same "saved after step $cut and loaded, training goes on as if nothing had been" \
      "$work/whole" "$work/parts"
  done
  expect "a checkpoint inside an epoch needs data of that length" 1 \
    'stands in the middle of an epoch of 80 images, .* has 200' \
    "$examples/train" --data "$work/idx" --load "$work/ckpt" --steps 1

  head -c 100000 "$work/ckpt" >"$work/short"
  expect "a checkpoint cut short is refused" 1 'no checkpoint: .*short: tensor .* are outside' \
    "$examples/train" "$@" --load "$work/short"
  { head -c 5000 "$work/ckpt"; printf X; tail -c +5002 "$work/ckpt"; } >"$work/flipped"
  expect "a damaged checkpoint is refused" 1 'flipped: damaged' \
    "$examples/train" "$@" --load "$work/flipped"
  expect "something else is refused" 1 'no checkpoint: ' \
    "$examples/train" "$@" --load "$work/idx/train-labels-idx1-ubyte.gz"
  expect "an empty checkpoint is refused" 1 'no checkpoint: .*not a regular file' \
    "$examples/train" "$@" --load /dev/null
  sed 's/tenon train 2/tenon train 3/' "$work/ckpt" >"$work/version"
  expect "another version is refused" 1 'version: no checkpoint of train .*tenon train 2' \
    "$examples/train" "$@" --load "$work/version"
  expect "a missing checkpoint is told" 1 'missing: .*No such file' \
    "$examples/train" "$@" --load "$work/missing"
  expect "a folder is no checkpoint" 1 'idx: it is not a regular file' \
    "$examples/train" "$@" --load "$work/idx"
}

# examples_train_losses.txt is what the hand-written passes gave that train had before there were
# graphs, with the reference kernels.
test_train_modes() {
  for mode in graph eager; do
    run 0 env TENON_DEVICE=cpu,reference "$examples/train" --data "$work/idx" --mode $mode \
      --batch 2 --seed 2 --steps 50 --losses "$work/$mode"
    same "train --mode $mode has the losses of gradients written by hand" \
      "$(dirname "$0")/examples_train_losses.txt" "$work/$mode"
    run 0 env TENON_DEVICE=cpu,reference "$examples/train" --data "$work/idx" --mode $mode --amp \
      --batch 2 --seed 2 --steps 20 --losses "$work/amp"
    head -n 20 "$work/$mode" >"$work/float32"
    a_little_off "train --mode $mode --amp changes them a little" 0.05 "$work/float32" "$work/amp"
  done
}

# a_little_off NAME MOST A B: as many numbers, not all the same, and none further off than this.
a_little_off() {
  if paste "$3" "$4" | awk -v most="$2" 'NF != 2 { exit wrong = 1 }
      { d = $1 / $2 - 1; if (d < 0) d = -d; if (d > m) m = d } END { exit wrong || !(m > 0 && m < most) }'; then
    passed "$1"; else
    failed "$1"; fi
}

# By 16 images, whose gradients the first scale of the loss does not make infinite.
test_train_float16() {
  set -- env TENON_DEVICE=cpu,reference "$examples/train" --data "$work/idx" --batch 16 --seed 2 --steps 4
  run 0 "$@" --losses "$work/float32"
  run 0 "$@" --amp f16 --losses "$work/f16"
  a_little_off "train --amp f16 changes losses a little" 0.01 "$work/float32" "$work/f16"
  run 0 "$@" --amp=f16 --mode eager --losses "$work/f16.eager"
  same "and as much by a tape" "$work/f16" "$work/f16.eager"
  # A batch that is smaller than the others has a program of its own, of which nothing is to be told.
  expect "train tells of its program" 0 '^step: [0-9]+ nodes' \
    "$examples/train" --data "$work/idx" --batch 64 --epochs 1
}

# A save that is killed leaves nothing beside the file, and what others left is swept away.
test_train_killed() {
  "$examples/train" --data "$work/idx" --steps 1 --save "$work/killed" >"$work/out" 2>"$work/err"
  : >"$work/killed.4194305.tmp" # no process has a number that high
  : >"$work/killed.x.tmp"
  caught=0
  for _ in 1 2 3 4 5 6; do # until three were caught, which as a rule are the first
    [ $caught -lt 3 ] || break
    "$examples/train" --data "$work/idx" --epochs 1000000 --steps 1 --save "$work/killed" \
      >"$work/out" 2>"$work/err" &
    pid=$!
    # It is being saved when the epoch has been told and the file is open, with a name or none.
    until ! kill -0 $pid 2>/dev/null || { grep -q '^epoch 1/' "$work/out" &&
      find /proc/$pid/fd \( -lname "$work/killed*" -o -lname "$work/*deleted*" \) 2>/dev/null |
        grep -q .; }; do :; done
    kill -0 $pid 2>/dev/null && caught=$((caught + 1))
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
  done
  "$examples/train" --data "$work/idx" --steps 1 --save "$work/killed" >"$work/out" 2>"$work/err"
  ls "$work" >"$work/out"
  if [ $caught -gt 0 ] && [ -s "$work/killed" ] && ! grep -q 'killed\.[0-9]*\.tmp' "$work/out"; then
    passed "$caught killed saves leave no temporary files"; else failed "killed saves leave no temporary files"; fi
  if [ -e "$work/killed.x.tmp" ]; then passed "another's file is left alone"; else
    failed "another's file is left alone"; fi
  rm -f "$work/killed.x.tmp"
}

test_train_interrupt() {
  "$examples/train" --data "$work/idx" --epochs 1000000 --save "$work/stopped" \
    --plot "$work/stopped.svg" >"$work/out" 2>"$work/err" &
  pid=$!
  # A minute at the most; grep looks before each pause.
  pauses=0
  until grep -q '^epoch 1/' "$work/out" || [ $pauses -eq 600 ]; do
    pauses=$((pauses + 1))
    sleep 0.1
  done
  kill -INT $pid
  wait $pid
  if [ $? -eq 130 ] && [ -s "$work/stopped" ] && [ -s "$work/stopped.svg" ]; then
    passed "Ctrl-C stops, saves and plots"
  else
    failed "Ctrl-C stops, saves and plots"
  fi
}

test_train_learns() {
  if [ ! -d $fashion ]; then
    skipped "training lowers the loss" "the package dataset-fashion-mnist is not installed"
    return
  fi
  verify "30 steps on Fashion-MNIST" "$examples/train" --steps 30 --losses "$work/losses"
  if awk 'NR <= 5 { a += $1 } NR > 25 { b += $1 } END { exit !(NR == 30 && b < 0.6 * a) }' \
    "$work/losses"; then passed "... lower the loss"; else
    cp "$work/losses" "$work/out"
    failed "... lower the loss"
  fi
}

test_sharpen() {
  sharpen=$examples/sharpen
  for kind in gray ga rgb rgba gray16 palette; do
    for size in '1 1' '1 9' '33 17'; do
      # shellcheck disable=SC2086
      "$data_tool" png "$work/in.png" $kind $size
      rm -f "$work/sharp.png"
      run 0 "$sharpen" "$work/in.png" "$work/sharp.png" || cat "$work/err"
      verify "sharpen $kind $size" "$data_tool" sharpened "$work/in.png" "$work/sharp.png"
    done
  done
  verify "sharpen onto its input" "$sharpen" "$work/in.png" "$work/in.png"
  expect "sharpen without arguments" 2 '^usage: sharpen' "$sharpen"
  expect "sharpen a missing file" 1 'cannot read .*missing.png' "$sharpen" "$work/missing.png" "$work/o.png"
  expect "sharpen something else" 1 'cannot read .*PNG' "$sharpen" "$0" "$work/o.png"
  head -c 200 "$work/in.png" >"$work/cut.png"
  expect "sharpen a PNG cut short" 1 'cannot read .*cut.png' "$sharpen" "$work/cut.png" "$work/o.png"
  expect "sharpen into a folder that does not exist" 1 'cannot write' \
    "$sharpen" "$work/in.png" "$work/none/o.png"
  expect "sharpen on a device that does not exist" 1 'nonsense' \
    env TENON_DEVICE=nonsense "$sharpen" "$work/in.png" "$work/o.png"
  if [ -e "$work/o.png" ]; then failed "failures leave no file"; else
    passed "failures leave no file"; fi
}

# What they say to those who use them wrongly; what they do: tests/onnx/wheels.sh.
test_models() {
  for program in blur_faces file_type read_page speak; do
    expect "$program without arguments" 2 "^usage: $program" "$examples/$program"
  done
  "$data_tool" png "$work/in.png" rgb 33 17
  printf 'no model' >"$work/bad.onnx"
  printf '{"phoneme_id_map": {"_": [0], "^": [1], "$": [2]}}' >"$work/bad.onnx.json"
  printf '{"target_labels_space": []}' >"$work/config.min.json"
  expect "blur_faces without a model" 1 'none.onnx: No such file' \
    "$examples/blur_faces" "$work/none.onnx" "$work/in.png" "$work/o.png"
  expect "blur_faces of no picture" 1 'bad.onnx is no PNG or JPEG' \
    "$examples/blur_faces" "$work/bad.onnx" "$work/bad.onnx" "$work/o.png"
  expect "read_page of a damaged model" 1 'No such file' "$examples/read_page" "$work" "$work/in.png"
  expect "file_type without labels" 1 'has no target_labels_space' "$examples/file_type" "$work" "$0"
  expect "speak with a damaged voice" 1 'bad.onnx: this is no ONNX model' \
    "$examples/speak" "$work/bad.onnx" 'a' "$work/o.wav"
  expect "speak into a folder that does not exist" 1 'cannot write' \
    "$examples/speak" "$work/bad.onnx" 'a' "$work/none/o.wav"
  if [ -e "$work/o.png" ] || [ -e "$work/o.wav" ]; then failed "failures leave no file"; else
    passed "failures leave no file"; fi
}

mkdir "$work/idx" "$work/idx80"
"$data_tool" idx "$work/idx" 200 50 || exit 1
"$data_tool" idx "$work/idx80" 80 20 || exit 1
test_hello
test_line
if [ -x "$examples/train" ]; then
  test_train_options
  test_train_data
  test_train_outputs
  test_train_checkpoints
  test_train_modes
  test_train_float16
  test_train_killed
  full "train fails where nothing can be printed" "$examples/train" --data "$work/idx" --steps 1
  full "train --json fails where nothing can be printed" \
    "$examples/train" --data "$work/idx" --steps 1 --json
  full "train --help fails where nothing can be printed" "$examples/train" --help
  test_train_interrupt
  [ -n "$brief" ] || test_train_learns
else
  skipped "train" "it was not built"
fi
if [ -x "$examples/sharpen" ]; then test_sharpen; else skipped "sharpen" "it was not built"; fi
if [ -x "$examples/speak" ]; then test_models; else skipped "models" "they were not built"; fi
finish
