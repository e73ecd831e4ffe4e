# Prints what meson's testlog.txt has of each test that failed or timed out: name, result, and the
# last lines of each of its streams.
#
# usage: awk -v lines=40 -f failures.awk testlog.txt testlog.txt
#
# The first reading finds which tests those are: the summary behind them says so, and how each ended,
# where a run that was cut off has none.
function tell_stream(  i) {
  if (count > lines) printf "(%d lines before)\n", count - lines
  for (i = count > lines ? count - lines : 0; i < count; i++) print kept[i % lines]
  count = 0
}

FNR == 1 { reading++; number = 0; summary = 0; telling = 0 }

# "=== 12/160 ===": tests follow each other in the order of their numbers; others like it are output.
/^=+ [0-9]+\/[0-9]+ =+$/ && $2 + 0 == number + 1 && (!total || substr($2, index($2, "/")) == total) {
  number++
  total = substr($2, index($2, "/"))
  tell_stream()
  head = 1
  telling = reading == 2 && number in bad
  if (telling) print ""
  next
}
/^Summary of Failures:$/ { tell_stream(); telling = head = 0; summary = 1; next }

reading == 1 && head && /^result: / { head = 0; if (!/exit status (0|77)$/) bad[number] = 1 }
reading == 1 && summary && $1 ~ /^[0-9]+\/[0-9]+$/ { bad[$1 + 0] = 1 }
!telling { next }

/^-+ (stdout|stderr|output) -+$/ { tell_stream(); head = 0; print; next }
head && /^(test|duration|result): / { print; next }
head || /^=*$/ { next }
{ kept[count++ % lines] = substr($0, 1, 400) }
END { tell_stream() }
