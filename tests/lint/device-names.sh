#!/bin/sh
# The dispatcher and the examples name no device: not in an identifier, not in a
# string. Comments may. Names come from the folders of backends/ and plugins/ and from
# a list of vendors' words.
#
# usage: device-names.sh SOURCE_ROOT
set -eu
cd "$1"

all_names=$(for folder in backends/*/ plugins/*/; do [ ! -d "$folder" ] || basename "$folder"; done | tr '\n' '|')
vendors='cublas|cudnn|nvidia|opencl|vulkan|metal|rocm|hip|sycl|openblas|cblas|onednn'

# Drops comments, keeps strings and line numbers.
code_of() {
  awk '
    {
      line = $0; out = ""
      while (line != "") {
        if (comment) {
          at = index(line, "*/")
          if (!at) { line = ""; break }
          line = substr(line, at + 2); comment = 0
        } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
          out = out substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
        } else if (substr(line, 1, 2) == "/*") {
          comment = 1; line = substr(line, 3)
        } else if (substr(line, 1, 2) == "//") {
          line = ""
        } else {
          out = out substr(line, 1, 1); line = substr(line, 2)
        }
      }
      print NR ": " out
    }' "$1"
}

complaints() {
  for file in $(find dispatcher examples -name '*.[ch]' | sort); do
    case $file in
      # These ask the operating system for processors, their time and their sets.
      dispatcher/base/placement.[ch] | dispatcher/base/processors.c | dispatcher/scanner/process_snapshot.c)
        word='' names=$(echo "$all_names" | sed 's/cpu|//') ;;
      *) word='cpu|' names=$all_names ;;
    esac
    code_of "$file" | grep -iE \
      -e "\"(${names}${vendors})([\":, .]|\\\\)" \
      -e "(^|[^A-Za-z])(${word}cuda|gpu|${vendors})([^A-Za-z]|\$)" \
      -e "kDL(CUDA|OpenCL|Vulkan|Metal|ROCM|OneAPI|WebGPU|Hexagon)" |
      sed "s@^@$file:@" || true
  done
}

wrong=$(complaints)
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
