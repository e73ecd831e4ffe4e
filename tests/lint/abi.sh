#!/bin/sh
# The operator table only grows: no line of the committed ABI list may change or go,
# arguments stay as they are, and attributes are appended. New lines must be committed
# too, so that the next change is held against them.
#
# usage: abi.sh COMMITTED PRINTED
set -eu
awk '
  function wrong(text) { print text; broken = 1 }
  NR == FNR { old[$1, ++old_count[$1]] = $0; ids[$1]; next }
  { new[$1, ++new_count[$1]] = $0 }
  END {
    for (id in ids) {
      for (i = 1; i <= old_count[id]; ++i)
        if (new[id, i] != old[id, i])
          wrong("operator " id ": \"" old[id, i] "\" became \"" new[id, i] "\"")
      for (i = old_count[id] + 1; i <= new_count[id]; ++i)
        if (new[id, i] ~ / arg /) wrong("operator " id ": new argument \"" new[id, i] "\"")
    }
    exit broken
  }' "$1" "$2" || { echo "a released operator changed: give the new one a new id"; exit 1; }
if ! cmp -s "$1" "$2"; then
  diff "$1" "$2" || true
  echo "$1 lacks what is new: ./dev docs appends it"
  exit 1
fi
