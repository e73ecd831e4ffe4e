#!/bin/sh
# Includes go one way: tools, examples, tests, bench -> api <- dispatcher <- graph; backends ->
# api + kernels; plugins -> api alone; api -> api. Benches may time the base's thread pool by itself, and
# call oneDNN through the header that hides its versions. Unit tests may also look into the headers
# of the dispatcher, the kernels, the tools and the examples, whose parts they test one by one;
# examples read and write pictures as the tools do. Inside the dispatcher rooms.sh says which room
# may include from which.
#
# usage: includes.sh SOURCE_ROOT
set -eu
. "$(dirname "$0")/rooms.sh"
cd "$1"

# The rooms that a room may include from, besides itself.
allowed() {
  case $1 in
    api) echo "" ;;
    dispatcher/*) echo "api $(rooms_below "${1#*/}" | sed 's@[^ ]*@dispatcher/&@g')" ;;
    kernels | plugins | tools | examples) echo "api" ;;
    bench) echo "api dispatcher/base plugins" ;;
    graph) echo "api $all_of_dispatcher" ;;
    backends) echo "api kernels" ;;
    tests) echo "api $all_of_dispatcher graph kernels tools examples" ;;
  esac
}

all_of_dispatcher=$(echo "$dispatcher_rooms" | sed -n 's@^\([a-z]*\):.*@dispatcher/\1@p' | tr '\n' ' ')

rooms="api graph kernels plugins tools examples bench backends tests $all_of_dispatcher"

# Headers of vendors must not reach the parts that every program carries.
vendor_headers() {
  include='^[[:space:]]*#[[:space:]]*include[[:space:]]*<'
  case $1 in
    api/tenon/*pp) grep -HnE "$include" "$1" | grep -vE '<[a-z_]+>' ;; # C++'s own have no suffix
    # A host may have tensors printed to a FILE; plugins see nothing of that.
    api/tenon/tenon.h) grep -HnE "$include" "$1" | grep -vE '<(stdbool|stddef|stdint|stdio)\.h>' ;;
    api/tenon/*) grep -HnE "$include" "$1" | grep -vE '<(stdbool|stddef|stdint)\.h>' ;;
    dispatcher/* | graph/*) grep -HnE "$include(cu|nv|CL/|hip|vulkan|cblas|openblas|mkl|omp)" "$1" ;;
  esac
}

# Every line "FILE:#include "HEADER"" of standard input that leads where it may not. The file that
# is given names all there are.
complaints() {
  ALLOWED=$(for room in $rooms; do echo "$room $(allowed "$room")"; done) awk '
    BEGIN {
      n = split(ENVIRON["ALLOWED"], line, "\n")
      for (i = 1; i <= n; i++) {
        split(line[i], word, " ")
        allowed[word[1]] = " " line[i] " "
      }
    }
    # The room of a file: its folder, and in the dispatcher that and the next.
    function room(path, part) {
      n = split(path, part, "/")
      return part[1] (part[1] == "dispatcher" && n > 2 ? "/" part[2] : "")
    }
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
    function room_of(file, folder, header, path) {
      if (header ~ /^tenon\// || ("api/" header) in there) return "api"
      if (header ~ /\.pb-c\.h$|\/expressions\.h$/) return room(file) # printed into the build folder
      path = plain(folder "/" header)
      if (path in there) return room(path)
      return header in there ? room(header) : ""
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
      target = room_of(file, folder, header)
      if (room(file) == "examples" && header == "tools/picture.h") next
      if (target != "" && index(allowed[room(file)], " " target " ")) next
      print file ": \"" header "\" leads from " room(file) "/ to " \
        (target == "" ? "no file of the repository" : target)
    }' "$1" -
}

files=$(for room in api dispatcher graph kernels backends plugins tools examples bench tests; do
  [ ! -d "$room" ] || find "$room" -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc'
done | sort)
[ -n "$files" ] || exit 1
there=$(mktemp)
trap 'rm -f "$there"' EXIT
find . -path './build*' -prune -o -type f -print | sed 's,^\./,,' >"$there"
# shellcheck disable=SC2086 # names of files are words
wrong=$(misplaced_rooms
  grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' $files | complaints "$there"
  for file in $(echo "$files" | grep -E '^(api/tenon|dispatcher|graph)/'); do vendor_headers "$file" || true; done)
echo "$(echo "$files" | wc -l) files looked at"
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
