#!/bin/sh
# The site of the manual is built without a warning, every page stands in its navigation, and
# none fetches anything from elsewhere.
#
# usage: site.sh SOURCE_ROOT
set -eu
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for page in docs/*.md docs/operators/*.md; do
  grep -qE "[ :]${page#docs/}\$" mkdocs.yml || { echo "$page is missing in mkdocs.yml"; exit 1; }
done
command -v mkdocs >/dev/null || { echo "skipped: no mkdocs"; exit 77; }
mkdocs build --strict --quiet --site-dir "$scratch/site" 2>"$scratch/faults" ||
  { cat "$scratch/faults"; exit 1; }
[ -s "$scratch/site/search/search_index.json" ] || { echo "nothing to search in"; exit 1; }
if grep -rlE '(src|<link[^>]*href)="(https?:)?//' --include='*.html' "$scratch/site"; then
  echo "the above fetch something from elsewhere"
  exit 1
fi
echo "$(find "$scratch/site" -name '*.html' | wc -l) pages"
