#!/bin/sh
# Shell scripts are sound, as shellcheck sees it.
#
# usage: shell.sh ROOT
set -eu
cd "$1"
command -v shellcheck >/dev/null || { echo "skipped: no shellcheck"; exit 77; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: no git checkout, which lists the scripts"; exit 77; }
shellcheck -x dev .ci/run
# shellcheck disable=SC2046
shellcheck -x -P tests/lint $(git ls-files '*.sh')
