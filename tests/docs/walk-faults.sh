#!/bin/sh
# walk.sh itself: it takes a document that is right, and fails where a document is wrong.
#
# usage: walk-faults.sh BUILD_ROOT LIBTENON
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/lint/elf.sh
. "$here/../lint/elf.sh"
skip_if_sanitized "$2"
build=$1 libtenon=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Walks through standard input: the status and a line of what it says must be these.
walk() { # STATUS PATTERN
  cat >"$scratch/page.md"
  status=0
  sh "$here/walk.sh" "$build" "$libtenon" "$scratch/page.md" >"$scratch/out" 2>&1 || status=$?
  if [ "$status" -ne "$1" ] || ! grep -q "$2" "$scratch/out"; then
    cat "$scratch/page.md" "$scratch/out" >&2
    echo "failed: status $status, not $1 with '$2'" >&2
    exit 1
  fi
}

walk 0 '5 steps' <<'EOF'
```c
int a_fragment;
```
```c
/* file: sub/mine.c */
#include <stdio.h>
int main(void) {
```
```c
/* add to: sub/mine.c */
  puts("a \\ [x] (3.5)   ok");
}
```
```sh
where=$PWD
cd sub
cc mine.c -o mine
./mine
! false
echo more
```
```text
a \ [x] (...) ok
more
```
```sh
[ "$PWD" = "$where/sub" ]
tenon info
pkg-config --exists tenon-plugin
```
EOF
walk 1 'page.md:1: .*fails' <<'EOF'
```sh
echo before
cc nosuch.c
echo after
```
EOF
walk 1 'not found in what was printed: one' <<'EOF'
```sh
echo one; echo two
```
```text
two
one
```
EOF
walk 1 'does not end' <<'EOF'
```sh
echo one
EOF
walk 1 'nothing to walk' </dev/null
echo "right pages pass, wrong ones do not"
