#!/bin/sh
# A committed page equals what the build prints.
#
# usage: same.sh COMMITTED PRINTED
if diff -u "$1" "$2"; then exit 0; fi
echo "$1 is stale: ./dev docs prints it anew"
exit 1
