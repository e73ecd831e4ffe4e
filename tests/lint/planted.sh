#!/bin/sh
# includes.sh and calls.sh notice what they are for: an include planted in a small tree that is
# in order, a call planted in a small archive.
#
# usage: planted.sh
set -eu
lint=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

put() { # FILE [INCLUDED]...
  mkdir -p "$tree/$(dirname "$1")"
  file=$1
  shift
  : > "$tree/$file"
  for included in "$@"; do echo "#include \"$included\"" >> "$tree/$file"; done
}

put api/tenon/tenon.h
put dispatcher/base/error.h tenon/tenon.h
put dispatcher/registry/registry.h dispatcher/base/error.h
put dispatcher/call/plan.h dispatcher/registry/registry.h
put dispatcher/call/plan.c dispatcher/call/plan.h
put graph/graph.h dispatcher/call/plan.h
put backends/one.c tenon/tenon.h
put tests/test_plan.c dispatcher/call/plan.h
sh "$lint/includes.sh" "$tree" > "$tree/log" || { cat "$tree/log"; echo "refuses what is in order"; exit 1; }

failed=0
expect() { # FILE INCLUDED WORDS
  put "$1" "$2"
  if sh "$lint/includes.sh" "$tree" > "$tree/log" 2>&1 || ! grep -qF "$3" "$tree/log"; then
    cat "$tree/log"
    echo "$1 with \"$2\": passes, or fails without '$3'"
    failed=1
  fi
  rm "$tree/$1"
}
expect dispatcher/base/up.c dispatcher/call/plan.h "leads from dispatcher/base/ to dispatcher/call"
expect dispatcher/memory/aside.c dispatcher/registry/registry.h "leads from dispatcher/memory/ to dispatcher/registry"
expect dispatcher/attic/new.c dispatcher/base/error.h "leads from dispatcher/attic/ to dispatcher/base"
expect dispatcher/loose.c dispatcher/base/error.h "leads from dispatcher/ to dispatcher/base"
expect dispatcher/call/record.c graph/graph.h "leads from dispatcher/call/ to graph"
expect backends/two.c dispatcher/base/error.h "leads from backends/ to dispatcher/base"
expect api/tenon/more.h dispatcher/base/error.h "leads from api/ to dispatcher/base"
expect dispatcher/base/gone.c dispatcher/base/gone.h "to no file of the repository"

# The small archive: its objects are named as Meson names the dispatcher's.
"${CC:-cc}" --version > "$tree/log" 2>&1 || exit $failed
object() { # NAME CODE
  echo "$2" > "$tree/$1.c"
  "${CC:-cc}" -c -o "$tree/$1.c.o" "$tree/$1.c"
}
many=$(i=0; while [ $i -lt 120 ]; do echo "int number_$i;"; i=$((i + 1)); done)
object dispatcher_base_error "$many int low(void) { return number_1; }"
object dispatcher_call_plan "int low(void); int high(void) { return low(); }"
object graph_capture "int high(void); int record(void) { return high(); }"
ar rc "$tree/libgood.a" "$tree"/dispatcher_*.o "$tree"/graph_*.o
object dispatcher_base_log "int high(void); int aside(void) { return high(); }"
ar rc "$tree/libbad.a" "$tree"/dispatcher_*.o
rm "$tree/dispatcher_base_log.c.o"
object dispatcher_call_invoke "int record(void); int into(void) { return record(); }"
ar rc "$tree/libback.a" "$tree"/dispatcher_*.o "$tree"/graph_*.o
ar rc "$tree/libempty.a" "$tree"/dispatcher_call_plan.c.o
sh "$lint/calls.sh" "$tree/libgood.a" || { echo "calls.sh refuses what is in order"; failed=1; }
if sh "$lint/calls.sh" "$tree/libbad.a" > "$tree/log" || ! grep -q 'base uses high of call' "$tree/log"; then
  cat "$tree/log"
  echo "calls.sh passes a call that leads up"
  failed=1
fi
if sh "$lint/calls.sh" "$tree/libback.a" > "$tree/log" || ! grep -q 'call uses record of graph' "$tree/log"; then
  cat "$tree/log"
  echo "calls.sh passes a call into graph/"
  failed=1
fi
if sh "$lint/calls.sh" "$tree/libempty.a" > "$tree/log"; then
  echo "calls.sh passes an archive that it cannot read"
  failed=1
fi
exit $failed
