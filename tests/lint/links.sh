#!/bin/sh
# Every relative link in the Markdown pages below a folder leads to a file or folder that is
# there, and every anchor to a heading of the page it names, by the name that GitHub gives it.
#
# usage: links.sh FOLDER
set -eu
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# "PAGE LINE TARGET" of every link that is not in code and leads to no other place of the net.
links_of() {
  awk '
    /^ *```/ { code = !code; next }
    code { next }
    {
      line = $0
      gsub(/`[^`]*`/, "", line)
      while (match(line, /(\]\([^)]*\)|(src|srcset|href)="[^"]*")/)) {
        target = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/^[^("]*[("]/, "", target); sub(/[)"]$/, "", target); sub(/ .*/, "", target)
        if (target != "" && target !~ /^[a-z]+:/) print FILENAME, FNR, target
      }
      # [name]: target, to which [text][name] leads.
      if (line ~ /^ ? ? ?\[[^]^]+\]: *[^ ]/) {
        sub(/^ *\[[^]]+\]: */, "", line); sub(/[ ].*/, "", line); gsub(/[<>]/, "", line)
        if (line !~ /^[a-z]+:/) print FILENAME, FNR, line
      }
    }' "$1"
}

# The anchors of a page: its headings and its own <a id="">.
anchors_of() {
  awk '
    /^ *```/ { code = !code; next }
    code { next }
    /^#+ / {
      name = tolower($0)
      sub(/^#+ +/, "", name); gsub(/[^a-z0-9 _-]/, "", name); gsub(/ /, "-", name)
      print name (seen[name]++ ? "-" seen[name] - 1 : "")
    }
    {
      line = $0
      while (match(line, / id="[^"]*"/)) {
        print substr(line, RSTART + 5, RLENGTH - 6)
        line = substr(line, RSTART + RLENGTH)
      }
    }' "$1"
}

fault_of() { # PAGE TARGET
  path=${2%%#*} anchor=
  case $2 in *'#'*) anchor=${2#*#} ;; esac
  file=$(dirname "$1")/$path
  [ -n "$path" ] || file=$1
  [ -e "$file" ] || { echo "leads to nothing"; return; }
  if [ -n "$anchor" ] && ! anchors_of "$file" | grep -qxF "$anchor"; then echo "has no such anchor"; fi
}

find . -name '*.md' -not -path './build*' -not -path './.*/*' | sort >"$scratch/pages"
while read -r page; do links_of "$page"; done <"$scratch/pages" >"$scratch/links"
while read -r page line target; do
  fault=$(fault_of "$page" "$target")
  [ -z "$fault" ] || echo "${page#./}:$line: $target $fault"
done <"$scratch/links" >"$scratch/faults"
[ -s "$scratch/links" ] || { echo "no links in $1"; exit 1; }
cat "$scratch/faults"
[ ! -s "$scratch/faults" ] || exit 1
echo "$(wc -l <"$scratch/links") links in $(wc -l <"$scratch/pages") pages"
