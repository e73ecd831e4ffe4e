#!/bin/sh
# tenon run, as a user at a shell: its output, its files, what it refuses; and the real models that
# are here.
#
# usage: run.sh TENON CASES FOLDERS...
# CASES: ONNX's node cases. FOLDERS: where models may be, one folder each.
set -eu
tenon=$1 cases=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_LAYERS TENON_TRACE_FILE TENON_TRACE_SUMMARY
export TENON_DEVICE=reference
fail() { echo "FAIL $*"; exit 1; }
says() { # FILE WORDS: the output so far has them
  grep -q -- "$2" "$1" || { cat "$1"; fail "no '$2'"; }
}
out=$scratch/out

"$tenon" run --help >"$out"; says "$out" 'usage: tenon run MODEL.onnx'
"$tenon" run --list-operators >"$out"; says "$out" '^| Conv | 1 to 21 | ai.onnx |'
for wrong in '' '--repeat 0 x.onnx' '--mean 1,2 x.onnx' '--resize 3 x.onnx' '--frobnicate x.onnx'; do
  # shellcheck disable=SC2086
  if "$tenon" run $wrong >"$out" 2>&1; then fail "taken: $wrong"; else [ $? -eq 2 ] || fail "$wrong"; fi
done
if "$tenon" run "$scratch/none.onnx" >"$out" 2>&1; then fail "a model that is not there"; fi
says "$out" 'No such file'
printf 'no model' >"$scratch/bad.onnx"
if "$tenon" run "$scratch/bad.onnx" >"$out" 2>&1; then fail "a file that is no model"; fi
says "$out" 'damaged'

if [ -d "$cases/test_gemm_all_attributes" ]; then
  # Inputs by name and order, from .pb; outputs to .npy and .pb, and compared from both.
  case=$cases/test_gemm_all_attributes set=$case/test_data_set_0
  "$tenon" run "$case/model.onnx" -i "$set/input_0.pb" -i "c=$set/input_2.pb" -i "b=$set/input_1.pb" \
    --compare "$set" -o "$scratch/gemm" --repeat 3 >"$out"
  says "$out" '^agrees: output y'
  says "$out" '^3 runs: median'
  "$tenon" run "$case/model.onnx" -i "a=$set/input_0.pb" -i "$set/input_1.pb" >/dev/null 2>&1 || true
  mv "$scratch/gemm/output_0.pb" "$scratch/x.pb"
  "$tenon" run "$case/model.onnx" -i "a=$set/input_0.pb" -i "b=$set/input_1.pb" \
    -i "c=$set/input_2.pb" --compare "$scratch/gemm" --by-node >"$out"
  says "$out" 'runs go node by node: TN_ONNX_BY_NODE'
  says "$out" '^agrees: output y'
  if "$tenon" run "$case/model.onnx" --compare "$set" >"$out"; then fail "random inputs agree"; fi
  says "$out" '^differs: output y'
  # Outputs are inputs of another run: a .npy comes back as it was written.
  relu=$cases/test_relu
  "$tenon" run "$relu/model.onnx" -i "$relu/test_data_set_0/input_0.pb" -o "$scratch/relu" >/dev/null
  "$tenon" run "$relu/model.onnx" -i "$scratch/relu/y.npy" --compare "$scratch/relu" --tolerance 0 \
    --top 2 >"$out"
  says "$out" '^agrees: output y: greatest difference 0,'
  says "$out" '   1. class'
  head -c 100 "$scratch/relu/y.npy" >"$scratch/short.npy"
  if "$tenon" run "$relu/model.onnx" -i "$scratch/short.npy" >"$out" 2>&1; then fail "half a file"; fi
  says "$out" 'short.npy'
  # Random integers are indices that are there.
  "$tenon" run "$cases/test_gather_0/model.onnx" >"$out" || fail "random indices"
  says "$out" 'i64 \[3\], random'
  # All that is not served at once.
  if "$tenon" run --list "$cases/test_sequence_insert_at_back/model.onnx" >"$out" 2>&1; then
    fail "sequences are served"
  fi
  says "$out" '^input   sequence: ? \[...\], no tensor: sequences'
  says "$out" '^not served: node .*: SequenceInsert of opset'
  if "$tenon" run "$cases/test_sequence_insert_at_back/model.onnx" >"$out" 2>&1; then
    fail "a sequence as an input"
  fi
  says "$out" 'sequence is no tensor'
  # A trace, and a table.
  "$tenon" run "$relu/model.onnx" --profile "$scratch/trace.json" >"$out" 2>&1
  says "$out" relu
  says "$scratch/trace.json" relu
fi

models=0
for folder in "$@"; do
  [ -d "$folder" ] || continue
  for model in "$folder"/*/model.onnx; do
    here=${model%/model.onnx}
    models=$((models + 1))
    set=$here/test_data_set_0
    if [ -d "$set" ]; then
      "$tenon" run "$model" -i "$set/input_0.pb" --compare "$set" --tolerance 1e-5 >"$out" || {
        cat "$out"; fail "$model"; }
      continue
    fi
    "$tenon" run "$model" -d reference -o "$scratch/reference" >/dev/null
    "$tenon" run "$model" -d cpu --compare "$scratch/reference" --tolerance 5e-3 >"$out" 2>&1 || {
      cat "$out"; fail "$model"; }
  done
done
echo "$models models"
