#!/bin/sh
# tenon new-plugin: what it refuses, that it leaves nothing behind, and that it renames exactly, in
# every kind of plugin. kinds.sh builds them.
#
# usage: new-plugin.sh TENON SOURCE_ROOT
set -eu
tenon=$(realpath "$1") template=$2/plugins/template skeletons=$2/plugins/skeletons
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
# Kinds and build systems that there are not, devices that a kind has not or that do not fit.
expect 2 "'driver' is no kind of plugin; there are backend, kernels, operator and layer" acme --kind driver
expect 2 "--build is meson or cmake, not 'make'" acme --build make
for kind in operator layer; do expect 2 'leave out --device' acme --kind $kind --device cpu; done
expect 2 "the name 'Acme' may have a-z" Acme --kind layer
expect 1 "there is a plugin 'reference' already" reference --kind operator
expect 1 "no device 'nosuch' for which kernels could be" acme --kind kernels --device nosuch
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

# Under its own name the template comes out as it is, with one of its two build files.
expect 0 'ninja -C build' template --device sim
diff -r -x CMakeLists.txt template "$template" || die "the command holds another template than plugins/template"
[ ! -e template/CMakeLists.txt ] || die "both build files are there"
expect 0 'cmake --build build' template --device sim --build cmake --dir by-cmake
diff -r -x meson.build -x README.md by-cmake "$template" || die "with CMake other sources come out"
[ ! -e by-cmake/meson.build ] || die "both build files are there, meson's and CMake's"
diff by-cmake/README.md template/README.md >differ && die "README.md names meson's commands"
! grep '^> ' differ | grep -vE 'meson|ninja|PKG_CONFIG_PATH' || die "README.md differs elsewhere, too"

# Renamed: every file has the words replaced, in every form, and nothing else.
letters='a-zA-Z0-9'
for names in 'backend acme acme' 'backend acme_2 npu_7b' 'backend x y' 'kernels acme reference' \
  'kernels acme_2 cpu' 'operator acme_2' 'layer x'; do
  # shellcheck disable=SC2086 # a kind, a name, a device or none
  set -- $names
  kind=$1 name=$2 device=${3:-}
  upper=$(echo "$device" | tr '[:lower:]' '[:upper:]') NAME=$(echo "$name" | tr '[:lower:]' '[:upper:]')
  from=$skeletons/$kind
  [ "$kind" != backend ] || from=$template
  expect 0 "the plugin '$name'" "$name" --kind "$kind" ${device:+--device "$device"} --dir "as-$name"
  [ -z "$device" ] || grep -q "the device type '$device'" out || die "$name: no device: $(cat out)"
  ! grep -rnE "(^|[^$letters])(template|sim|SIM|Template|TEMPLATE|Sim)([^$letters]|\$)" "as-$name" ||
    die "words of the template are left"
  mkdir back
  for file in "as-$name"/*; do
    # Twice each: neighbours share the character between them.
    sed -E -e "s/(^|[^$letters])template([^$letters]|\$)/\\1$name\\2/g" \
      -e "s/(^|[^$letters])sim([^$letters]|\$)/\\1$device\\2/g" \
      -e "s/(^|[^$letters])sim([^$letters]|\$)/\\1$device\\2/g" \
      -e "s/(^|[^$letters])SIM([^$letters]|\$)/\\1$upper\\2/g" \
      -e "s/(^|[^$letters])TEMPLATE([^$letters]|\$)/\\1$NAME\\2/g" \
      "$from/$(basename "$file")" >"back/$(basename "$file")"
  done
  diff -r "as-$name" back || die "$name: not what renaming gives"
  rm -r back "as-$name"
done
echo "refuses what it should, and renames exactly"
