#!/bin/sh
# The worked example of docs/adding-an-operator.md: each of its pieces is put where its
# heading says, into a copy of the sources; the table must print the operator, and the
# kernels must compile.
#
# usage: adding-an-operator.sh SOURCE_ROOT CC
set -eu
root=$1 cc=$2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/api" "$root/kernels" "$copy"
cd "$copy"

# Cuts the page's pieces of C into files 1, 2, ... whose first line is "FILE PLACE".
awk '/^```c / { n++; inside = 1; file = "piece." n; sub(/^```c /, ""); print > file; next }
     /^```/ { inside = 0; next }
     inside { print >> file }' "$root/docs/adding-an-operator.md"

for piece in piece.*; do
  read -r file place <"$piece"
  [ -f "$file" ] || { echo "the page names $file, which does not exist"; exit 1; }
  tail -n +2 "$piece" >text
  case $place in
    arguments) line=$(grep -n '^#endif' "$file" | head -1) ;;
    before*) line=$(grep -n "^${place#before }" "$file" | head -1) ;;
    end) line=$(($(wc -l <"$file") + 1)): ;;
    *) echo "the page puts a piece at '$place' of $file"; exit 1 ;;
  esac
  [ -n "$line" ] || { echo "$file has no place '$place'"; exit 1; }
  { head -n $((${line%%:*} - 1)) "$file"; cat text; tail -n "+${line%%:*}" "$file"; } >whole
  mv whole "$file"
done

"$cc" -std=c11 -Iapi -o opgen api/opgen/*.c
mkdir printed printed/tenon
./opgen types >printed/tenon/op_types.h
./opgen functions >printed/tenon/ops.h
./opgen docs functions | grep -q '^## softsign$' || { echo "the page of operators lacks softsign"; exit 1; }

flags="-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wno-missing-field-initializers -Werror -I. -Iapi -Iprinted"
# shellcheck disable=SC2086 # flags are words
"$cc" $flags -O1 -c -o reference.o kernels/reference/unit.c
# shellcheck disable=SC2086
"$cc" $flags -O1 -fno-math-errno -DTN_ISA=baseline -DTN_ISA_LEVEL=0 -c -o cpu.o kernels/cpu/elementwise/activation.c
nm reference.o cpu.o | grep ' T ' | grep softsign || { echo "no kernel was compiled"; exit 1; }
