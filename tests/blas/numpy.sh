#!/bin/sh
# numpy's own tests (Debian: python3-numpy, whose BLAS is libblas.so.3; python3-pytest,
# python3-hypothesis) with libtenon-blas as its BLAS: those of linear algebra and products; all of
# them with --all or TENON_TEST_ALL. Exit status 77: they are not installed.
#
# usage: numpy.sh TENON DEVICE [--all]
set -u
tenon=$(realpath "$1") device=$2 all=${3:-}
if [ "${TENON_TEST_ALL:-0}" = 1 ]; then all=--all; fi
python=/usr/bin/python3
$python -c 'import numpy, pytest, hypothesis' 2>/dev/null ||
  { echo "Debian's python3-numpy, python3-pytest and python3-hypothesis are not installed"; exit 77; }
ldd "$($python -c 'import numpy.core._multiarray_umath as m; print(m.__file__)')" | grep -q 'libblas\.so\.3' ||
  { echo "numpy has a BLAS of its own"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OPENBLAS_NUM_THREADS=1 TENON_PLUGINS="${TENON_PLUGINS:--onednn}"
unset TENON_DEVICE TENON_BLAS_MIN TENON_BLAS_HOST LD_LIBRARY_PATH
if [ "$all" = --all ]; then
  # Those of typing want one more package, and compute nothing.
  tests='None' arguments="['-p', 'no:cacheprovider', '--ignore-glob=' + numpy.__path__[0] + '/typing/*']"
else
  tests="['numpy.linalg.tests.test_linalg', 'numpy.core.tests.test_multiarray']"
  arguments="['-p', 'no:cacheprovider', '-k', 'linalg or matmul or Matmul or MatMul or dot or Dot']"
fi
"$tenon" blas --device "$device" --min 0 --report -- $python -c "
import sys, numpy
sys.exit(not numpy.test(tests=$tests, extra_argv=$arguments))" >out 2>err
status=$?
tail -5 out
grep tenon-blas err
[ $status -eq 0 ] && grep -qE "level 3: [1-9][0-9]* on $device" err
