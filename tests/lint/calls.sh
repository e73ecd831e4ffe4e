#!/bin/sh
# Calls in the dispatcher go down, as includes do: no object refers to a symbol that a room
# defines which its own may not use. Hooks are how a lower room reaches a higher one.
#
# usage: calls.sh DISPATCHER_ARCHIVE [count]
#
# With `count`: how many pairs of rooms use each other, and the symbols that lead up.
set -eu
. "$(dirname "$0")/rooms.sh"
archive=$1

# Lines "ROOM D|U SYMBOL", of objects as Meson names them: dispatcher_ROOM_FILE.c.o; the folder
# graph/, whose objects are graph_FILE.c.o, counts as a room.
symbols() {
  (cd "$(dirname "$archive")" && nm -A "$(basename "$archive")") |
    sed -n -e 's@meson-generated_.._dispatcher_schema@dispatcher_registry_schema@' \
      -e 's@meson-generated_.._dispatcher_ops@dispatcher_call_ops@' \
      -e 's@\(:[^ ]*\)graph_\([a-z_]*\.c\.o:\)@\1dispatcher_graph_\2@' \
      -e 's@^[^ ]*dispatcher_\([a-z]*\)_[a-z_]*\.c\.o:.* \([TDBRVCU]\) \([A-Za-z_][A-Za-z0-9_]*\)$@\1 \2 \3@p'
}

upward() {
  symbols | dispatcher_rooms=$dispatcher_rooms awk '
    BEGIN {
      lines = split(ENVIRON["dispatcher_rooms"], line, "\n")
      for (i = 1; i <= lines; i++) {
        words = split(line[i], word, " ")
        for (w = 2; w <= words; w++) may[substr(word[1], 1, length(word[1]) - 1), word[w]] = 1
        may["graph", substr(word[1], 1, length(word[1]) - 1)] = 1 # above all of them
      }
    }
    $2 != "U" { home[$3] = $1 }
    $2 == "U" { uses[$1 " " $3] = 1 }
    END {
      for (use in uses) {
        split(use, part, " ")
        if (!(part[2] in home) || home[part[2]] == part[1] || may[part[1], home[part[2]]]) continue
        print part[1] " uses " part[2] " of " home[part[2]]
      }
    }' | sort
}

# Pairs of rooms that use symbols of each other.
mutual() {
  symbols | awk '
    $2 != "U" { home[$3] = $1 }
    $2 == "U" { uses[$1 " " $3] = 1 }
    END {
      for (use in uses) {
        split(use, part, " ")
        if (part[2] in home && home[part[2]] != part[1]) edge[part[1], home[part[2]]] = 1
      }
      for (e in edge) {
        split(e, part, SUBSEP)
        if (part[1] < part[2] && edge[part[2], part[1]]) print part[1] " and " part[2]
      }
    }' | sort
}

if [ "${2:-}" = count ]; then
  mutual
  echo "$(mutual | wc -l) pairs of rooms that use each other"
  exit
fi
found=$(symbols | wc -l)
[ "$found" -gt 100 ] || { echo "$archive: only $found symbols read"; exit 1; }
wrong=$(upward)
echo "$found symbols looked at"
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
