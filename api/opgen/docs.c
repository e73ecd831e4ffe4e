/* docs/operators.md. */
#include "opgen.h"

/* " (at least 0, less than 1)" */
static void print_bounds(const attr *a) {
  if (!a->low_bound && !a->high_bound) return;
  printf(" (");
  if (a->low_bound) printf(a->low_bound == TN_BOUND_OPEN ? "more than %g" : "at least %g", a->low);
  if (a->low_bound && a->high_bound) printf(", ");
  if (a->high_bound)
    printf(a->high_bound == TN_BOUND_OPEN ? "less than %g" : "at most %g", a->high);
  printf(")");
}

void print_docs(void) {
  puts("# Operators\n\nPrinted by `opgen` from `api/ops.def`; `./dev docs` prints it anew. Types:\n"
       "`T` and `U` stand for one element type each out of the sets given, `WIDE_T` for\n"
       "float32 where `T` is a 16-bit float and for `T` where it is not.\n");
  for (int i = 0; i < num_rows; ++i) {
    printf("## %s\n\n%s `%s`\n\n```c\n", rows[i].name, rows[i].doc, rows[i].maths);
    print_prototype(i);
    puts("```\n");
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf("- `%s` (%s): %s%s\n", a->name, type_text(i, a), kind_word(a), a->doc);
    if (last_list(i)) puts("- `count`: tensors in each list");
    for (const attr *a = lists[i].attrs; a->name; ++a) {
      printf("- `attrs->%s` (%s%s, default `%s`): %s", a->name, c_type(a->kind), extent(a),
             a->value, a->doc);
      print_bounds(a);
      puts("");
    }
    for (int t = 0; t < 4 && rows[i].types[t]; ++t)
      printf("- `%c`: %s\n", "TUVW"[t], rows[i].types[t]);
    printf("- error bound in float32: %g %s\n", rows[i].tolerance,
           rows[i].flags & TN_OPERATOR_ACCUMULATES ? "relative norm" : "ULP");
    if (rows[i].flags & TN_OPERATOR_DATA_DEPENDENT)
      puts("- waits for the stream; outputs that the call makes are cut along axis 0 to the count, "
           "which is the last output; outputs given have the largest shape");
    if (rows[i].source) printf("- source: %s\n", rows[i].source);
    puts("");
  }
}
