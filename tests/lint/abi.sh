#!/bin/sh
# The operator table only grows: no line of the committed ABI list may change or go,
# arguments stay as they are, and attributes are appended behind the old struct: a program of
# before takes what lies in its struct for padding, and leaves anything there. New lines must be
# committed too, so that the next change is held against them.
#
# usage: abi.sh COMMITTED PRINTED
set -eu
awk '
  function wrong(text) { print text; broken = 1 }
  # The bytes of the struct that ends with attribute `last`: ID NAME attr KIND NAME at N size N = VALUE
  function bytes_of(id, last, i, align, field) {
    align = 4
    for (i = 1; i <= last; ++i) {
      split(old[id, i], field, " ")
      if (field[3] == "attr" && field[4] !~ /^(flag|dtype|axes|result)$/) align = 8
    }
    split(old[id, last], field, " ")
    return field[3] == "attr" ? int((field[7] + field[9] + align - 1) / align) * align : 0
  }
  NR == FNR { old[$1, ++old_count[$1]] = $0; ids[$1]; next }
  { new[$1, ++new_count[$1]] = $0 }
  END {
    for (id in ids) {
      for (i = 1; i <= old_count[id]; ++i)
        if (new[id, i] != old[id, i])
          wrong("operator " id ": \"" old[id, i] "\" became \"" new[id, i] "\"")
      for (i = old_count[id] + 1; i <= new_count[id]; ++i)
        if (new[id, i] !~ / (arg|attr) /) continue
        else if (new[id, i] ~ / arg /) wrong("operator " id ": new argument \"" new[id, i] "\"")
        else {
          split(new[id, i], field, " ")
          if (old[id, old_count[id]] !~ / attr /)
            wrong("operator " id ": \"" new[id, i] "\" would change its function, which has no attributes")
          else if (field[7] < bytes_of(id, old_count[id]))
            wrong("operator " id ": \"" new[id, i] "\" lies in the padding of the struct of before")
          else if (new[id, i] !~ / appended$/)
            wrong("operator " id ": \"" new[id, i] "\" lacks TN_APPENDED, without which kernels of before get calls that set it")
        }
    }
    exit broken
  }' "$1" "$2" || { echo "a released operator changed: give the new one a new id"; exit 1; }
if ! cmp -s "$1" "$2"; then
  diff "$1" "$2" || true
  echo "$1 lacks what is new: ./dev docs appends it"
  exit 1
fi
