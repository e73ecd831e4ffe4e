#!/bin/sh
# Includes go one way: tools, examples, tests, bench -> api <- dispatcher; backends ->
# api + kernels; plugins -> api alone; api -> api. Unit tests may also look into the headers
# of the dispatcher, the kernels and the tools, whose parts they test one by one.
#
# usage: includes.sh SOURCE_ROOT
set -eu
cd "$1"

# Headers of vendors must not reach the parts that every program carries.
vendor_headers() {
  include='^[[:space:]]*#[[:space:]]*include[[:space:]]*<'
  case $1 in
    api/tenon/*) grep -HnE "$include" "$1" | grep -vE '<(stdbool|stddef|stdint)\.h>' ;;
    dispatcher/*) grep -HnE "$include(cu|nv|CL/|hip|vulkan|cblas|openblas|mkl|omp)" "$1" ;;
  esac
}

# Every line "FILE:#include "HEADER"" of standard input that leads where it may not. The file that
# is given names all there are.
complaints() {
  awk '
    BEGIN {
      # The rooms that a room may include from, besides itself.
      split("dispatcher kernels plugins tools examples bench", rooms, " ")
      for (i in rooms) allowed[rooms[i]] = " api "
      allowed["backends"] = " api kernels "
      allowed["tests"] = " api dispatcher kernels tools "
    }
    function top(path) { sub(/\/.*/, "", path); return path }
    # Without "." and "..".
    function plain(path, part, kept, n, k, i) {
      n = split(path, part, "/")
      k = 0
      for (i = 1; i <= n; i++)
        if (part[i] == ".." && k) k--
        else if (part[i] != "." && part[i] != "") kept[++k] = part[i]
      path = kept[1]
      for (i = 2; i <= k; i++) path = path "/" kept[i]
      return path
    }
    # Where `header` in a file of `folder` leads: a room, or nothing if to no file.
    function room_of(folder, header, path) {
      if (header ~ /^tenon\// || header == "ops.def" || header == "shapes.def") return "api"
      if (header ~ /\.pb-c\.h$/) return top(folder) # printed into the build folder
      path = plain(folder "/" header)
      if (path in there) return top(path)
      return header in there ? top(header) : ""
    }
    NR == FNR { there[$0]; next }
    {
      file = $0
      sub(/:.*/, "", file)
      header = substr($0, length(file) + 2)
      sub(/^[^"]*"/, "", header)
      sub(/".*/, "", header)
      folder = file
      sub(/\/[^\/]*$/, "", folder)
      target = room_of(folder, header)
      if (target != "" && (target == top(file) || index(allowed[top(file)], " " target " "))) next
      print file ": \"" header "\" leads from " top(file) "/ to " \
        (target == "" ? "no file of the repository" : target)
    }' "$1" -
}

files=$(for room in api dispatcher kernels backends plugins tools examples bench tests; do
  [ ! -d "$room" ] || find "$room" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc'
done | sort)
[ -n "$files" ] || exit 1
there=$(mktemp)
trap 'rm -f "$there"' EXIT
find . -path './build*' -prune -o -type f -print | sed 's,^\./,,' >"$there"
# shellcheck disable=SC2086 # names of files are words
wrong=$(grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' $files | complaints "$there"
  for file in $(echo "$files" | grep -E '^(api/tenon|dispatcher)/'); do vendor_headers "$file" || true; done)
echo "$(echo "$files" | wc -l) files looked at"
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
