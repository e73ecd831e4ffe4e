#!/bin/sh
# Every flag of operators in plugin.h is known to opgen by the same number, and explained in the
# manual; so a flag cannot be added in one place alone.
#
# usage: flags.sh SOURCE_ROOT
set -eu
cd "$1"
flags=$(sed -nE 's/^  TN_OPERATOR_([A-Z_]+) = 1u << ([0-9]+),.*/\1 \2/p' api/tenon/plugin.h)
[ -n "$flags" ] || { echo "plugin.h has no TN_OPERATOR_ flags"; exit 1; }
echo "$flags" | while read -r name bit; do
  grep -qx "#define TN_OPERATOR_$name $((1 << bit))" api/opgen/opgen.h ||
    { echo "api/opgen/opgen.h has no TN_OPERATOR_$name of $((1 << bit))"; exit 1; }
  grep -q "^- \`$name\`: ." docs/operators.md || { echo "docs/operators.md does not explain $name"; exit 1; }
done
echo "$(echo "$flags" | wc -l) flags"
