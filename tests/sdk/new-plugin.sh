#!/bin/sh
# tenon new-plugin: what it refuses, that it leaves nothing behind, and that it renames exactly.
#
# usage: new-plugin.sh TENON SOURCE_ROOT
set -eu
tenon=$(realpath "$1") template=$2/plugins/template
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENON_DEVICE TENON_PLUGIN_PATH TENON_PLUGINS TENON_LAYERS
cd "$scratch"

die() {
  echo "failed: $*" >&2
  exit 1
}
expect() { # STATUS WORDS ARGUMENTS...
  wanted=$1 words=$2 status=0
  shift 2
  "$tenon" new-plugin "$@" >out 2>err || status=$?
  [ "$status" -eq "$wanted" ] || die "new-plugin $*: status $status, not $wanted: $(cat err)"
  grep -qF -- "$words" out err || die "new-plugin $*: no '$words' in: $(cat out err)"
}

# Bad names, which make no folder.
expect 2 usage
expect 2 usage one two
expect 2 usage one --nosuch
expect 2 'is empty' ''
long=$(printf 'n%031d' 0)
for bad in Acme ac-me 'ac me' ../acme acme.so naïve; do expect 2 "the name '$bad' may have a-z" "$bad"; done
for bad in 3dfx _acme; do expect 2 "the name '$bad' must begin with a letter" "$bad"; done
expect 2 "may have 31 characters" "$long"
expect 2 "is Tenon's own" tn
expect 2 "the device type 'Chip' may have" acme --device Chip
expect 1 "there is a plugin 'reference' already" reference
expect 1 "has the device type 'reference' already" acme --device reference
[ "$(find . -type d)" = . ] || die "a refused name left a folder"

# Folders that are there, and places that cannot be written.
mkdir mine
echo precious >mine/README.md
expect 1 'mine exists already' mine
expect 1 'mine exists already' acme --dir mine
[ "$(ls mine)$(cat mine/README.md)" = README.mdprecious ] || die "a folder was written into"
expect 1 'No such file or directory' acme --dir no/such
expect 1 'README.md/acme: Not a directory' acme --dir mine/README.md/acme
if [ "$(id -u)" -ne 0 ]; then
  mkdir shut && chmod a-w shut
  expect 1 'Permission denied' acme --dir shut/acme
fi
# A disk that is full: what was written is taken back.
(
  trap '' XFSZ
  ulimit -f 1
  ! "$tenon" new-plugin acme >out 2>&1
) || die "a full disk went unnoticed"
grep -q 'cannot write acme/.*: File too large' out || die "a full disk: $(cat out)"
[ ! -e acme ] || die "a failure left a folder"

# Under its own name the template comes out as it is.
expect 0 'ninja -C build' template --device sim
diff -r template "$template" || die "the command holds another template than plugins/template"

# Renamed: every file has the words replaced, in every form, and nothing else.
letters='a-zA-Z0-9'
for names in 'acme acme' 'acme_2 npu_7b' 'x y'; do
  name=${names% *} device=${names#* }
  upper=$(echo "$device" | tr '[:lower:]' '[:upper:]')
  expect 0 "'$name' with the device type '$device'" "$name" --device "$device" --dir "as-$name"
  ! grep -rnE "(^|[^$letters])(template|sim|SIM|Template|TEMPLATE|Sim)([^$letters]|\$)" "as-$name" ||
    die "words of the template are left"
  mkdir back
  for file in "as-$name"/*; do
    # Twice each: neighbours share the character between them.
    sed -E -e "s/(^|[^$letters])template([^$letters]|\$)/\\1$name\\2/g" \
      -e "s/(^|[^$letters])sim([^$letters]|\$)/\\1$device\\2/g" \
      -e "s/(^|[^$letters])sim([^$letters]|\$)/\\1$device\\2/g" \
      -e "s/(^|[^$letters])SIM([^$letters]|\$)/\\1$upper\\2/g" \
      "$template/$(basename "$file")" >"back/$(basename "$file")"
  done
  diff -r "as-$name" back || die "$name: not what renaming gives"
  rm -r back
done
echo "refuses what it should, and renames exactly"
