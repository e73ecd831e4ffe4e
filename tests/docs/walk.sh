#!/bin/sh
# Walks through a document as a reader would, with nothing but an installed Tenon, and fails at
# the first step that does not do what the document says.
#
# usage: walk.sh BUILD_ROOT LIBTENON DOCUMENT
#
# The build is installed to a scratch prefix, which pkg-config, the PATH and the loader are
# pointed to, and the document's fenced blocks are taken in order, in an empty folder:
#
#  - A block of any language whose first line is a comment "file: NAME" is written to NAME,
#    that line included; "add to: NAME" appends it:     /* file: mine.c */    # file: meson.build
#  - A block ```sh without such a line is run. All blocks share one shell (sh -eu), so cd and
#    variables last. Where a command is meant to fail, the document writes "! command".
#  - A block ```text right behind an ```sh block shows what that printed, to standard output or
#    error: its lines must be found in the output, in this order. Other lines may lie between,
#    runs of blanks are one, and "..." stands for any text within a line.
#  - Every other block is there to be read.
#
# Exit status 77 where the build has a sanitizer, which a compiler called by hand knows nothing of.
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"
build=$1 document=$(realpath "$3")

umask 022 # plugins that others may write to are refused
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/stage" "$scratch/work" "$scratch/home"

DESTDIR=$scratch/stage meson install -C "$build" --no-rebuild --quiet
pc=$(find "$scratch/stage" -name tenon.pc)
[ -n "$pc" ] || { echo "tenon.pc is not installed" >&2; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$scratch/stage
LD_LIBRARY_PATH=$(dirname "$(find "$scratch/stage" -name 'libtenon.so.0')")
PATH=$(dirname "$(find "$scratch/stage" -path '*/bin/tenon')"):$PATH
HOME=$scratch/home
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH PATH HOME
# Settings of whoever runs the tests are none of the document's.
for name in $(env | sed -n 's/^\(TENON_[A-Z_]*\)=.*/\1/p') XDG_CACHE_HOME; do unset "$name"; done

# Whether the lines of $1 are found in $2 in order.
cat >"$scratch/found" <<'EOS'
awk '
  function squeezed(line) { gsub(/[ \t]+/, " ", line); sub(/^ /, "", line); sub(/ $/, "", line); return line }
  NR == FNR { if ((shown = squeezed($0)) != "") wanted[++count] = shown; next }
  FNR == 1 { at = 1 }
  at <= count {
    pattern = wanted[at]
    gsub(/[][\\.*^$+?(){}|\/]/, "\\\\&", pattern)
    gsub(/\\\.\\\.\\\./, ".*", pattern)
    if (squeezed($0) ~ "^" pattern "$") at++
  }
  END {
    if (count && at <= count) { print "not found in what was printed: " wanted[at ? at : 1]; exit 1 }
  }' "$1" "$2"
EOS

# One script of the whole document. Each step says first where it stands.
awk -v scratch="$scratch" '
  function name_of(line) { sub(/.*(file|add to): */, "", line); sub(/ *\*\/ *$/, "", line); return line }
  function step(line) {
    print "echo " line " >\"" scratch "/line\"; : >\"" scratch "/out\""
    steps++
  }
  /^```/ && !inside {
    inside = 1; first = 1; kind = substr($0, 4); began = FNR; mode = "read"
    if (kind == "text" && after_run) { mode = "shown"; step(FNR); print "cat >\"" scratch "/shown\" <<\"END_OF_WALK\"" }
    else if (kind == "sh") mode = "run"
    after_run = 0
    next
  }
  /^```/ {
    if (mode == "write") print "END_OF_WALK"
    if (mode == "run" && !first) { print "} >\"" scratch "/out\" 2>&1"; print "cp \"" scratch "/out\" \"" scratch "/printed\""; after_run = 1 }
    if (mode == "shown") {
      print "END_OF_WALK"
      print "sh \"" scratch "/found\" \"" scratch "/shown\" \"" scratch "/printed\" >\"" scratch "/out\" || { cat \"" scratch "/printed\" >>\"" scratch "/out\"; exit 1; }"
    }
    inside = 0
    next
  }
  inside && first && mode != "shown" && /^(\/\*|#|\/\/|;|<!--) *(file|add to): [^ ]/ {
    name = name_of($0); how = /add to: / ? ">>" : ">"; mode = "write"; first = 0
    step(began)
    print "case \"" name "\" in */*) mkdir -p \"$(dirname \"" name "\")\" ;; esac"
    print "cat " how "\"" name "\" <<\"END_OF_WALK\""
    if (how == ">") print
    next
  }
  inside && first && mode == "run" { step(began); print "{" }
  inside { first = 0; if (mode != "read") print }
  END {
    if (inside) { print "a block that begins at line " began " does not end" >"/dev/stderr"; exit 1 }
    if (!steps) { print "nothing to walk through" >"/dev/stderr"; exit 1 }
    print "# " steps " steps"
  }' "$document" >"$scratch/script"

cd "$scratch/work"
if ! sh -eu "$scratch/script"; then
  line=$(cat "$scratch/line")
  echo "$document:$line: the step that begins here fails:" >&2
  sed -n "$((line + 1)),/^\`\`\`/p" "$document" | sed '/^```/d; s/^/  | /' >&2
  cat "$scratch/out" >&2
  exit 1
fi
echo "$(sed -n 's/^# \(.* steps\)$/\1/p' "$scratch/script" | tail -n 1) of $(basename "$document") walked"
