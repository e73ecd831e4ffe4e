/*
 * opgen: prints what people read, from the operator table ops.def.
 *
 *   opgen types      tenon/op_types.h: operator numbers and attribute structs
 *   opgen functions  tenon/ops.h: one documented function per operator
 *   opgen cpp        tenon/ops.hpp: the same for C++
 *   opgen docs       docs/operators.md, the index
 *   opgen docs PAGE  docs/operators/PAGE.md; pages.c lists them
 *   opgen abi        the ABI list: a line per operator, argument and attribute
 *   opgen schema     a C file with the operators' schemas, for the dispatcher
 *   opgen bodies     a C file with the functions of tenon/ops.h, for the dispatcher
 *   opgen rows       tenon/op_rows.h: what rows of kernels need to know of operators
 *   opgen elementwise  tenon/elementwise.def: a line per elementwise operator
 *   opgen reductions   tenon/reductions.def: a line per reduction over axes
 *   opgen expressions  graph/gradient/expressions.h: operators as gradient rules call them
 *   opgen gradients  a C file with the gradient rules of gradients.def
 *   opgen rules      docs/gradient-rules.md, the list of them
 *
 * A build-time program; nothing of it is installed.
 */
#include "opgen.h"

static const page *find_page(const char *name) {
  for (int i = 0; i < num_pages; ++i)
    if (strcmp(pages[i].name, name) == 0) return &pages[i];
  fprintf(stderr, "opgen: no page '%s'; pages.c lists them\n", name);
  return NULL;
}

static int finish(void) { return fflush(stdout) != 0 || ferror(stdout); }

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(void);
  } printers[] = {
      {"types", print_types},  {"functions", print_functions},     {"docs", print_index},
      {"abi", print_abi},      {"schema", print_schema},           {"bodies", print_bodies},
      {"rows", print_op_rows}, {"elementwise", print_elementwise}, {"reductions", print_reductions},
      {"cpp", print_cpp},      {"expressions", print_expressions}, {"gradients", print_gradients},
      {"rules", print_rules},
  };
  if (!table_sort() || !pages_check()) return 1;
  if (argc == 3 && strcmp(argv[1], "docs") == 0) {
    const page *p = find_page(argv[2]);
    if (p) print_page(p);
    return p ? finish() : 1;
  }
  for (size_t i = 0; argc == 2 && i < sizeof printers / sizeof *printers; ++i) {
    if (strcmp(argv[1], printers[i].name) != 0) continue;
    printers[i].print();
    return finish();
  }
  fprintf(stderr, "usage: opgen");
  for (size_t i = 0; i < sizeof printers / sizeof *printers; ++i)
    fprintf(stderr, "%s%s", i ? "|" : " ", printers[i].name);
  fprintf(stderr, "\n");
  return 2;
}
