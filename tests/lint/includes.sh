#!/bin/sh
# Includes go one way: tools, examples, tests, bench -> api <- dispatcher; backends ->
# api + kernels; plugins -> api alone; api -> api. Unit tests may also look into the headers
# of the dispatcher, the kernels and the tools, whose parts they test one by one. Inside the
# dispatcher rooms.sh says which room may include from which.
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
    kernels | plugins | tools | examples | bench) echo "api" ;;
    backends) echo "api kernels" ;;
    tests) echo "api $all_of_dispatcher kernels tools" ;;
  esac
}

all_of_dispatcher=$(echo "$dispatcher_rooms" | sed -n 's@^\([a-z]*\):.*@dispatcher/\1@p' | tr '\n' ' ')

# The room of a file: its folder, and in the dispatcher that and the next.
room() {
  case $1 in
    dispatcher/*/*) inner=${1#*/}; echo "dispatcher/${inner%%/*}" ;;
    *) echo "${1%%/*}" ;;
  esac
}

# Where `#include "$2"` written in file $1 leads: a room, or nothing if to no file.
room_of() {
  case $2 in
    tenon/* | ops.def | shapes.def) echo api; return ;;
    *.pb-c.h) room "$1"; return ;; # printed into the build folder
  esac
  if [ -f "$(dirname "$1")/$2" ]; then
    path=$(realpath --relative-to=. "$(dirname "$1")/$2")
  elif [ -f "$2" ]; then
    path=$2
  else
    return 0
  fi
  room "$path"
}

# Headers of vendors must not reach the parts that every program carries.
vendor_headers() {
  include='^[[:space:]]*#[[:space:]]*include[[:space:]]*<'
  case $1 in
    api/tenon/*pp) grep -HnE "$include" "$1" | grep -vE '<[a-z_]+>' ;; # C++'s own have no suffix
    # A host may have tensors printed to a FILE; plugins see nothing of that.
    api/tenon/tenon.h) grep -HnE "$include" "$1" | grep -vE '<(stdbool|stddef|stdint|stdio)\.h>' ;;
    api/tenon/*) grep -HnE "$include" "$1" | grep -vE '<(stdbool|stddef|stdint)\.h>' ;;
    dispatcher/*) grep -HnE "$include(cu|nv|CL/|hip|vulkan|cblas|openblas|mkl|omp)" "$1" ;;
  esac
}

complaints() {
  for file in $files; do
    room=$(room "$file")
    allowed=$(allowed "$room")
    # shellcheck disable=SC2013 # names of headers are words
    for included in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file"); do
      target=$(room_of "$file" "$included")
      case " $room $allowed " in
        *" ${target:-(none)} "*) ;;
        *) echo "$file: \"$included\" leads from $room/ to ${target:-no file of the repository}" ;;
      esac
    done
    vendor_headers "$file" || true
  done
}

files=$(for room in api dispatcher kernels backends plugins tools examples bench tests; do
  [ ! -d "$room" ] || find "$room" -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc'
done | sort)
[ -n "$files" ] || exit 1
wrong=$(misplaced_rooms; complaints)
echo "$(echo "$files" | wc -l) files looked at"
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
