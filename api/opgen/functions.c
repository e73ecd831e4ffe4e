/* tenon/ops.h: one documented function per operator. */
#include "opgen.h"

void print_functions(void) {
  printf("%s#ifndef TENON_OPS_H\n#define TENON_OPS_H\n\n#include \"tenon/tenon.h\"\n\n"
         "/*\n * One function per operator; the rules are in tenon.h under \"Operators\".\n"
         " * Every function is thread-safe as far as its tensors and stream are.\n */\n"
         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n#pragma GCC visibility push(default)\n",
         banner);
  for (int i = 0; i < num_rows; ++i) {
    printf("\n/* %s\n *     %s\n", rows[i].doc, rows[i].maths);
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf(" * %s: %s%s (%s)\n", a->name, kind_word(a), a->doc, type_text(i, a));
    if (last_list(i)) puts(" * count: tensors in each list");
    for (const attr *a = lists[i].attrs; a->name; ++a)
      printf(" * attrs->%s: %s (default %s)\n", a->name, a->doc, a->value);
    for (int t = 0; t < 4 && rows[i].types[t]; ++t)
      printf(" * %c: %s\n", "TUVW"[t], rows[i].types[t]);
    if (rows[i].source) printf(" * Source: %s.\n", rows[i].source);
    printf(" * Since ABI %d. */\n", rows[i].since);
    print_prototype(i);
  }
  puts("\n#pragma GCC visibility pop\n#ifdef __cplusplus\n}\n#endif\n#endif /* TENON_OPS_H */");
}
