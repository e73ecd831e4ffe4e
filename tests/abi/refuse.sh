#!/bin/sh
# Each gate of the ABI refuses what it is there for: a fault is planted into a copy of what it
# looks at, and it must fail and name it.
#
# usage: refuse.sh SOURCE_ROOT BUILD_ROOT LIBTENON CC
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$3"
root=$1 build=$2 library=$(realpath "$3") cc=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

die() {
  echo "failed: $*" >&2
  [ ! -e out ] || cat out >&2
  exit 1
}
fails_with() { # PATTERN COMMAND...
  pattern=$1
  shift
  if "$@" >out 2>&1; then die "not refused: $*"; fi
  grep -q -- "$pattern" out || die "'$pattern' is not among the reasons"
}
# Changes a copy of a file with a sed script, which must change something.
plant() { # FROM TO SCRIPT
  sed "$3" "$1" >"$2"
  ! cmp -s "$1" "$2" || die "the fault '$3' finds no place in $1"
}

# --- layouts ---
mkdir -p api/tenon
fresh() { cp "$root"/api/tenon/*.h "$build"/api/tenon/*.h api/tenon; }
compiles() { "$cc" -std=c11 -fsyntax-only -I"$scratch/api" "$here/$1"; }
layout() { # LIST HEADER SCRIPT PATTERN
  fresh
  plant "api/tenon/$2" planted "$3"
  mv planted "api/tenon/$2"
  fails_with "$4" compiles "$1"
}
fresh
for list in "$here"/layout_*.c; do compiles "${list##*/}" || die "the headers as they are"; done
layout layout_0_9.c plugin.h 's/^  int32_t priority;/  int64_t planted;\n&/' 'tn_kernel.priority was at byte 32'
layout layout_0_9.c plugin.h 's/^  uint64_t memory_bytes;/  uint32_t memory_bytes;/' 'tn_device_props.memory_bytes'
layout layout_0_9.c plugin.h 's/^  TN_ARG_IN = 0,/  TN_ARG_IN = 3,/; s/^  TN_ARG_OUT = 3,/  TN_ARG_OUT = 0,/' 'TN_ARG_OUT was 3'
layout layout_0_9.c plugin.h '/(\*close)(void \*layer);/d' 'tn_layer.*close'
layout layout_0_9.c tenon.h 's/^  uint32_t skip_out;/  uint64_t skip_out;/' 'tn_call.skip_out was at byte 44'
layout layout_0_9.c base.h 's/^#define TN_MAX_RANK 8/#define TN_MAX_RANK 9/' 'TN_MAX_RANK was 8'
layout layout_0_9.c base.h 's/^  TN_U8 = 2,/  TN_U8 = 3,/; s/^  TN_I8 = 3,/  TN_I8 = 2,/' 'TN_U8 was 2'
layout layout_0_9_ops.c op_types.h 's/^  TN_OP_ADD = 10,/  TN_OP_ADD = 11,/' 'TN_OP_ADD was 10'
layout layout_0_9_ops.c op_types.h 's/^  int64_t axis;/  int32_t axis;/' 'tn_softmax_attrs.axis'

# --- symbols ---
{ cat "$here/symbols.txt"; echo tn_zz_gone; } >symbols
fails_with '^tn_zz_gone$' sh "$here/symbols.sh" symbols "$library"
grep -v '^tn_runtime_open$' "$here/symbols.txt" >symbols
fails_with 'lacks the above' sh "$here/symbols.sh" symbols "$library"

# --- operators ---
operators() { # SCRIPT PATTERN: the printed list, changed
  plant "$root/tests/ops.abi" ops "$1"
  fails_with "$2" sh "$here/../lint/abi.sh" "$root/tests/ops.abi" ops
}
operators 's/^10 add since 1 shape broadcast/10 add since 1 shape same/' 'operator 10: .*became'
operators '/^12 mul arg i T b$/d' 'operator 12'
operators 's/^\(2 cast attr dtype dtype at 4 size 4 =\).*/\1 TN_F64/' 'operator 2: .*became'
operators 's/^10 add arg o T y$/&\n10 add arg q T z/' 'operator 10: new argument'
operators 's/^10 add arg o T y$/&\n10 add attr f64 planted at 8 size 8 = 0/' 'operator 10: .*has no attributes'
operators 's/^\(53 argmax\) attr flag keepdims .*/&\n\1 attr flag planted at 20 size 4 = 0/' \
  'operator 53: .*padding'
operators 's/^\(53 argmax\) attr flag keepdims .*/&\n\1 attr f64 planted at 24 size 8 = 0/' \
  'operator 53: .*lacks TN_APPENDED'
operators 's/^\(448 bernoulli attr f64\) probability /\1 p /' 'operator 448: .*became'
operators '/^448\.renamed /d' 'operator 448.renamed'
operators '/^85\.or_one /d' 'operator 85.or_one'
operators "\$a9999 planted since 2 shape same" 'lacks what is new'

# --- the dump ---
dump() { # STATUS SCRIPT PATTERN: the committed dump, changed
  plant "$here/libtenon.abi" dump "$2"
  status=0
  sh "$here/abidiff.sh" "$library" dump "$root/api/tenon" "$build/api/tenon" >out 2>&1 || status=$?
  [ "$status" -ne 77 ] || return 0
  [ "$status" -eq "$1" ] || die "the dump with '$2': status $status, not $1"
  grep -q "$3" out || die "the dump with '$2': no '$3'"
}
dump 1 "s/name='tn_runtime_open'/name='tn_runtime_gone'/g; s/mangled-name='tn_runtime_open'/mangled-name='tn_runtime_gone'/; s/elf-symbol-id='tn_runtime_open'/elf-symbol-id='tn_runtime_gone'/" 'tn_runtime_gone'
dump 1 "/class-decl name='tn_call'/,/<\/class-decl>/s/layout-offset-in-bits='320'/layout-offset-in-bits='352'/" 'offset changed'
dump 2 "/class-decl name='tn_call'/{s/size-in-bits='384'/size-in-bits='352'/}; /class-decl name='tn_call'/,/<\/class-decl>/{/layout-offset-in-bits='352'/,/<\/data-member>/d}" 'lacks what was appended'
echo "every gate refuses what was planted"
