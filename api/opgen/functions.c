/* tenon/ops.h: one documented function per operator. */
#include "opgen.h"

void print_functions(void) {
  printf("%s#ifndef TENON_OPS_H\n#define TENON_OPS_H\n\n", banner);
  puts("/*\n * One function per operator; the rules are in tenon.h under \"Operators\".\n"
       " * Every function is thread-safe as far as its tensors and stream are.\n */\n"
       "/* Calls of functions that take a tn_tensor_list are pedantically not C. */\n"
       "#ifdef __GNUC__\n#pragma GCC system_header\n#endif\n"
       "#include \"tenon/tenon.h\"\n\n"
       "#ifdef __cplusplus\nextern \"C\" {\n#endif\n#pragma GCC visibility push(default)\n");
  puts(
      "/* A list of inputs: an array of tn_tensor * as well as of const tn_tensor *. C++ converts "
      "one\n"
      " * to the other by itself and C does not. In C the parameter is therefore a union of both,\n"
      " * which GCC and clang pass as the one pointer that it is: callers write no cast, and the "
      "ABI\n"
      " * is the pointer's. Generators of bindings, which may not know that, define\n"
      " * TN_LISTS_ARE_POINTERS. */\n"
      "#if defined(__GNUC__) && !defined(__cplusplus) && !defined(TN_LISTS_ARE_POINTERS)\n"
      "typedef union tn_tensor_list {\n"
      "  const tn_tensor *const *inputs;\n"
      "  tn_tensor *const *tensors;\n"
      "} tn_tensor_list __attribute__((transparent_union));\n"
      "/* The same for tn_call.in: call.in = tn_inputs(list). */\n"
      "static inline const tn_tensor *const *tn_inputs(tn_tensor_list list) { return list.inputs; "
      "}\n"
      "#else\n"
      "typedef const tn_tensor *const *tn_tensor_list;\n"
      "static inline const tn_tensor *const *tn_inputs(tn_tensor_list list) { return list; }\n"
      "#endif");
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
