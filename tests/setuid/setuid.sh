#!/bin/sh
# A set-user-id program takes nothing from the user who starts it: no variable, no plugin, no
# cache of verdicts. Needs root, who alone can make such a program of another user.
#
# usage: setuid.sh HOST REFERENCE SCANNER PLUGIN: the host of this folder, the reference plugin,
#        tenon-scan and any plugin
set -eu
if [ "$(id -u)" -ne 0 ]; then
  echo "only root can make set-user-id programs of another user"
  exit 77
fi
if ! command -v setpriv >/dev/null; then
  echo "setpriv (util-linux) is missing"
  exit 77
fi
owner=12345 caller=12346 # neither is known to the system, or needs to be
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/mine" "$work/theirs" "$work/cache"
cp "$1" "$work/host"
cp "$2" "$3" "$work" # beside the program, where its own plugins are looked for
cp "$4" "$work/mine/libtenon-mine.so"
cp "$4" "$work/theirs/libtenon-theirs.so"
chown "$owner" "$work/host" "$work/mine" "$work/mine/"*
chown "$caller" "$work/theirs" "$work/theirs/"* "$work/cache"
chmod 4755 "$work/host"

status=0
setpriv --reuid "$caller" --regid "$caller" --clear-groups env -i \
  TENON_PLUGIN_PATH="$work/theirs" TENON_PLUGINS=nothing TENON_DEVICE=nowhere TENON_LAYERS=none \
  TENON_FALLBACK=never TENON_LOG=loud TENON_MATH=fuzzy TENON_DETERMINISTIC=perhaps TENON_SCAN=off \
  TENON_NUM_THREADS=few HOME="$work/cache" XDG_CACHE_HOME="$work/cache" \
  "$work/host" "$work/mine/libtenon-mine.so" "$work/theirs/libtenon-theirs.so" || status=$?
[ "$status" -eq 0 ] || exit "$status"
if [ -n "$(ls -A "$work/cache")" ]; then
  echo "verdicts were left in the caller's folder"
  exit 1
fi
