#!/bin/sh
# In a user namespace that knows one user, what root installed seems to belong to nobody. Tenon's
# own plugins are taken there all the same, and the user's.
#
# usage: sandbox.sh TENON PLUGIN: any plugin, its name being good
set -eu
caller=12346 # unknown to the system
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/mine"
cp "$2" "$work/mine/libtenon-mine.so"
inside="unshare --user --map-root-user"
if [ "$(id -u)" -eq 0 ]; then
  chown "$caller" "$work/mine" "$work/mine/"*
  inside="setpriv --reuid $caller --regid $caller --clear-groups $inside"
fi
if ! $inside true 2>/dev/null; then
  echo "there are no user namespaces for users here"
  exit 77
fi
$inside env HOME="$work/mine" TENON_PLUGINS=reference,good \
  TENON_PLUGIN_PATH="$work/mine/libtenon-mine.so" "$1" info >"$work/log" 2>&1 || true
for name in reference good; do
  if ! grep -q "^  $name  *taken" "$work/log"; then
    cat "$work/log"
    exit 1
  fi
done
