#!/bin/sh
# tenon check as a test: nothing to check (status 3) is a test skipped (77). What stands behind -- takes
# a sample, and is left out where TENON_TEST_ALL=1 (./dev test --all).
#
# usage: operators.sh TENON [OPTIONS] [-- OPTIONS]
tenon=$1
shift
count=$# sampled=
while [ "$count" -gt 0 ]; do
  if [ "$1" = -- ]; then sampled=1; elif [ -z "$sampled" ] || [ "${TENON_TEST_ALL:-0}" != 1 ]; then set -- "$@" "$1"; fi
  shift
  count=$((count - 1))
done
unset TENON_DEVICE
status=0
"$tenon" check "$@" || status=$?
[ "$status" -ne 3 ] || status=77
exit "$status"
