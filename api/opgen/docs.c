/* docs/operators.md and the pages in docs/operators/. */
#include "opgen.h"

/* Every flag that a row can have, TN_OPERATOR_<NAME>, and what it says in a few words. */
static const struct {
  int flag;
  const char *NAME, *text;
} flags[] = {
    {TN_OPERATOR_ELEMENTWISE, "ELEMENTWISE",
     "each element of the outputs comes from those at its place; kernels see inputs in the "
     "output's shape, and an output may be the very tensor that is an input"},
    {TN_OPERATOR_RANDOM, "RANDOM", "draws random numbers from `attrs->seed` and `attrs->offset`"},
    {TN_OPERATOR_ACCUMULATES, "ACCUMULATES",
     "sums many terms: its error is relative to the norm of the output"},
    {TN_OPERATOR_DATA_DEPENDENT, "DATA_DEPENDENT",
     "the output's shape depends on data: waits for the stream; outputs that the call makes are "
     "cut along axis 0 to the count, which is the last output; outputs given have the largest "
     "shape and keep it"},
    {TN_OPERATOR_TYPED, "TYPED",
     "the result depends on the element type beyond rounding, so that it is judged in the call's "
     "own types and not in float64"},
    {TN_OPERATOR_ZERO_SIGN_OPEN, "ZERO_SIGN_OPEN", "the sign of a result that is zero is open"},
    {TN_OPERATOR_NEEDS_ELEMENTS, "NEEDS_ELEMENTS",
     "there is no result over no elements: that is an error"},
};
enum { FLAGS = sizeof flags / sizeof *flags };

/* "- flags: ELEMENTWISE, TYPED", which the index explains. */
static void print_flags(const row *r) {
  int left = r->flags;
  const char *before = "- flags: ";
  for (int i = 0; i < FLAGS; ++i) {
    if (!(left & flags[i].flag)) continue;
    printf("%s[%s](../operators.md#flags)", before, flags[i].NAME);
    left &= ~flags[i].flag;
    before = ", ";
  }
  if (r->flags) puts("");
  if (!left) return;
  fprintf(stderr, "opgen/docs.c: %s has a flag %#x that the manual does not explain\n", r->name,
          left);
  exit(1);
}

static void print_shape(const row *r) {
  for (int i = 0; i < num_shapes; ++i)
    if (shapes[i].number == r->shape)
      printf("- shape: `TN_SHAPE_%s`: %s\n", shapes[i].NAME, shapes[i].doc);
}

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

static void print_types_of(const row *r) {
  for (int t = 0; t < 4 && r->types[t]; ++t) printf("- `%c`: %s\n", "TUVW"[t], r -> types[t]);
}

static void print_attr(const attr *a) {
  printf("- `attrs->%s` (%s%s, default `%s`): %s", a->name, c_type(a->kind), extent(a), a->value,
         a->doc);
  print_bounds(a);
  if (a->was) printf("; called `%s` before, which goes on working", a->was);
  puts(a->appended ? "; appended: kernels that do not know it get no call that sets it" : "");
}

static void print_operator(int i) {
  const row *r = &rows[i];
  printf("\n## %s\n\n%s `%s`\n\n```c\n", r->name, r->doc, r->maths);
  print_prototype(i);
  puts("```\n");
  for (const arg *a = lists[i].args; a->kind; ++a)
    printf("- `%s` (%s): %s%s\n", a->name, type_text(i, a), kind_word(a), a->doc);
  if (last_list(i)) puts("- `count`: tensors in each list");
  for (const attr *a = lists[i].attrs; a->name; ++a) print_attr(a);
  print_types_of(r);
  printf("- error bound in float32: %g %s\n", r->tolerance,
         r->flags & TN_OPERATOR_ACCUMULATES ? "relative norm" : "ULP");
  print_shape(r);
  print_flags(r);
  printf("- number: `TN_OP_%s` = %d, since version %d of the plugin ABI\n", r->NAME, r->id,
         r->since);
  if (r->source) printf("- source: %s\n", r->source);
}

void print_page(const page *p) {
  printf("# %s\n\n%s Printed from the operator table; what types and bounds mean says the\n"
         "[index of operators](../operators.md).\n",
         p->title, p->about);
  for (int i = 0; i < num_rows; ++i)
    if (page_has(p, &rows[i])) print_operator(i);
}

/* The first sentence: up to a full stop or a colon that a blank follows. */
static int sentence(const char *text) {
  const char *end = strpbrk(text, ".:;");
  while (end && end[1] && end[1] != ' ') end = strpbrk(end + 1, ".:;");
  return end ? (int)(end - text) : (int)strlen(text);
}

/* The anchor is where links to one page of all operators led. */
static void print_entry(const page *p, const row *r) {
  printf("- <a id=\"%s\"></a>[%s](operators/%s.md#%s): %.*s\n", r->name, r->name, p->name, r->name,
         sentence(r->doc), r->doc);
}

static const char index_head[] =
    "# Operators\n"
    "\n"
    "Printed by `opgen` from the operator table (`api/ops.def`); `./dev docs` prints it anew.\n"
    "There is a page for each family, and on it for each operator its function, arguments and\n"
    "attributes. `T` and `U` there stand for one element type each out of the sets given,\n"
    "`WIDE_T` for float32 where `T` is a 16-bit float and for `T` where it is not. An error bound\n"
    "is in units in the last place (ULP), or relative to the norm of the output where terms are\n"
    "summed; it is for float32, and every device is held to it. Axes may be counted from the end,\n"
    "-1 being the last; kernels find them counted from the front.\n"
    "\n"
    "What other libraries do otherwise is in [porting.md](porting.md), what has no kernel of a\n"
    "device's own in [support.md](support.md).\n";

static void print_flags_explained(void) {
  puts("\n## Flags\n\nWhat rows of the operator table promise beside types and shapes; with "
       "`TN_OPERATOR_` in front in\n`tenon/plugin.h`, for operators of plugins too.\n");
  for (int i = 0; i < FLAGS; ++i) printf("- `%s`: %s\n", flags[i].NAME, flags[i].text);
}

void print_index(void) {
  fputs(index_head, stdout);
  print_flags_explained();
  for (int k = 0; k < num_pages; ++k) {
    printf("\n## %s\n\n%s [All of it](operators/%s.md)\n\n", pages[k].title, pages[k].about,
           pages[k].name);
    for (int i = 0; i < num_rows; ++i)
      if (page_has(&pages[k], &rows[i])) print_entry(&pages[k], &rows[i]);
  }
}
