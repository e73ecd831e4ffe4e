#!/bin/sh
# libtenon-onnx exports tn_onnx_* alone and needs libtenon, protobuf-c and the C library; the page of
# its operators says what it says itself.
#
# usage: onnx.sh symbols LIBTENON_ONNX | onnx.sh page COMMITTED TENON | onnx.sh print TENON
set -eu
. "$(dirname "$0")/elf.sh"

print_page() { # TENON
  echo "# ONNX's operators"
  echo
  # shellcheck disable=SC2016 # Markdown's marks
  echo 'Printed by `tenon run --list-operators`; `./dev docs` prints it anew. What a front end makes of'
  echo 'them: [ONNX models](onnx.md).'
  echo
  "$1" run --list-operators
}

case $1 in
print) print_page "$2" ;;
page)
  scratch=$(mktemp)
  trap 'rm -f "$scratch"' EXIT
  print_page "$3" >"$scratch"
  grep -q '^| Conv |' "$scratch" || { echo "nothing was printed"; exit 1; }
  diff -u "$2" "$scratch" || { echo "$2 is stale: ./dev docs prints it anew"; exit 1; }
  ;;
symbols)
  skip_if_sanitized "$2"
  wrong=$(exported_by "$2" | grep -vE '^tn_onnx_[a-z0-9_]+$' || true
    needed_of "$2" | grep -vE '^(lib(c|m|tenon|protobuf-c)\.so\.[0-9]+|ld-linux.*)$' || true)
  [ -z "$wrong" ] || { echo "$2 exports or needs: $wrong"; exit 1; }
  exported_by "$2" | grep -q '^tn_onnx_run$' || { echo "$2 exports nothing of Tenon"; exit 1; }
  ;;
esac
