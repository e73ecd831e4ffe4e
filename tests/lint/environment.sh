#!/bin/sh
# The page of environment variables is complete: what the product's sources read stands on it
# with its reader, and what stands on it is read there. Plugins and the library read it with
# secure_getenv. Variables that take certain words take those of the page.
#
# usage: environment.sh SOURCE_ROOT PAGE TENON
set -eu
export LC_ALL=C
page=$(realpath "$2") tenon=$(realpath "$3")
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sources_in() { find "$@" -name '*.c' -o -name '*.cu' -o -name '*.inc' -o -name '*.hpp'; }

# Whose variables a folder's are: "reader|folder".
readers() {
  echo "libtenon|dispatcher"
  echo "libtenon|api"
  echo "tenon|tools"
  echo "libtenon-blas|tools/blas"
  for folder in backends/*/ plugins/*/ kernels/*/; do
    [ ! -d "$folder" ] || echo "plugin $(basename "$folder")|${folder%/}"
  done
}

# Without what is another reader's.
of_folder() { if [ "$1" = tools ]; then grep -v '^tools/blas/'; else cat; fi; }

# "name|reader": names of ours as whole strings, and what getenv is asked for by name. The
# template of plugins and the sources of the page are no readers.
readers | while IFS='|' read -r reader folder; do
  for file in $(sources_in "$folder" | of_folder "$folder" | grep -vE '^(plugins/template/|tools/(manual|help)\.c|api/opgen/)'); do
    grep -ohE '"TENON_[A-Z0-9_]+"|getenv\("[A-Za-z0-9_]+"' "$file" || true
  done | sed 's/^getenv(//; s/"//g' | sort -u | sed "s/\$/|$reader/"
done | sort -u >"$scratch/read"

# The same of the page: | <a id="NAME"></a>`NAME` | values | default | text | reader, reader |
sed -n 's/^| <a id="\([A-Z0-9_]*\)">.*| \([^|]*\) |$/\1|\2/p' "$page" |
  awk -F'|' '{ n = split($2, reader, ", "); for (i = 1; i <= n; i++) print $1 "|" reader[i] }' |
  sort -u >"$scratch/told"

if [ ! -s "$scratch/read" ] || [ ! -s "$scratch/told" ]; then echo "nothing to compare"; exit 1; fi
comm -23 "$scratch/read" "$scratch/told" | awk -F'|' '{
  print $1 " is read by " $2 ", which the page does not say: tools/environment.def" }' >"$scratch/faults"
comm -13 "$scratch/read" "$scratch/told" | awk -F'|' '{
  print $1 " stands on the page as read by " $2 ", which does not" }' >>"$scratch/faults"
sources_in dispatcher backends plugins kernels |
  xargs grep -nE '(^|[^_a-z])getenv\(' | sed 's/$/   use secure_getenv/' >>"$scratch/faults" || true

# The words that a variable takes, as it says itself where it is given another one.
words_taken() { # NAME
  layer=$(echo "$1" | sed -n 's/^TENON_\(VALIDATE\|TRACE\).*/\1/p' | tr '[:upper:]' '[:lower:]')
  env TENON_LAYERS="$layer" TENON_TRACE_FILE=/dev/null "$1=nosuch" "$tenon" info 2>&1 >/dev/null |
    sed -n '1{s/ (TN_ERR_.*//; s/.*\(it takes\|is none of\) //; s/,//g; s/ or / /; p;}' | xargs -n 1 | sort | xargs
}
words_told() { # NAME
  # shellcheck disable=SC2016 # backquotes of Markdown
  sed -n "s/^| <a id=\"$1\">[^|]*| \([^|]*\)|.*/\1/p" "$page" | grep -oE '`[a-z0-9]+`' | tr -d '`' |
    sort | xargs
}
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
for name in TENON_CPU_ISA TENON_DETERMINISTIC TENON_FALLBACK TENON_LOG TENON_MATH TENON_SCAN \
  TENON_TRACE_KEEP TENON_VALIDATE; do
  taken=$(words_taken "$name") told=$(words_told "$name")
  [ -n "$taken" ] || { [ "$name" = TENON_CPU_ISA ] && continue; } # a build without that plugin
  [ "$taken" = "$told" ] || echo "$name takes '$taken', the page says '$told'" >>"$scratch/faults"
done
cat "$scratch/faults"
[ ! -s "$scratch/faults" ] || exit 1
echo "$(wc -l <"$scratch/told") pairs of a variable and its reader"
