#!/bin/sh
# The library reads the environment through secure_getenv alone.
#
# usage: getenv.sh LIBTENON
set -eu
if nm -D --undefined-only "$1" | sed 's/@.*//' | grep -wE 'getenv|environ|__environ'; then
  echo "$1 must use secure_getenv"
  exit 1
fi
