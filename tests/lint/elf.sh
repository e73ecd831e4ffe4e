# shellcheck shell=sh
# What the tests on built libraries share; sourced.

# Skips where a sanitizer brings symbols and libraries of its own.
skip_if_sanitized() {
  for library in "$@"; do
    if readelf -dW "$library" | grep -qE 'NEEDED.*lib(asan|tsan|ubsan|lsan)' ||
      nm -D "$library" | grep -qE ' U __(asan|tsan|ubsan)_'; then
      echo "skipped: built with a sanitizer"
      exit 77
    fi
  done
}

needed_of() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'; }

exported_by() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $NF); print $NF }'; }
