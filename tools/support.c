/*
 * What runs natively where, from the rows that plugins register, so that devices which are not
 * there are listed too: for every operator which element types run on which type of device, and
 * the page docs/support.md, which has the exceptions alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "info.h"
#include "plain.h"
#include "tenon/plugin.h"

enum { COLUMNS = 8 };

/* The types of device that some kernel is for, by name. */
typedef struct columns {
  const char *type[COLUMNS];
  size_t count;
} columns;

static bool row_at(tn_runtime *runtime, size_t i, tn_kernel_row *row) {
  *row = (tn_kernel_row){.struct_size = sizeof *row};
  return tn_kernel_at(runtime, i, row) == TN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "*host" sorts first. */
static columns find_columns(tn_runtime *runtime) {
  columns c = {.count = 0};
  tn_kernel_row row;
  for (size_t i = 0; row_at(runtime, i, &row); ++i) {
    bool seen = false;
    for (size_t k = 0; k < c.count; ++k) seen |= !strcmp(c.type[k], row.device_type);
    if (!seen && c.count < COLUMNS) c.type[c.count++] = row.device_type;
  }
  qsort(c.type, c.count, sizeof *c.type, by_name);
  return c;
}

/* The element types for which some kernel of the device type exists. A kernel for no type in
 * particular is for all of TN_SET_ALL. */
static tn_dtype_set natives(tn_runtime *runtime, const tn_operator *op, const char *type) {
  const tn_dtype_set all = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE);
  const tn_dtype_set unnamed = TN_SET_ALL | TN_SET(TN_DTYPE_NONE);
  tn_dtype_set set = 0;
  tn_kernel_row row;
  for (size_t i = 0; row_at(runtime, i, &row); ++i)
    if (row.op == op->id && !strcmp(row.device_type, type))
      set |= all & (row.types[0] ? row.types[0] : unnamed);
  return set;
}

static void print_set(const tn_operator *op, tn_dtype_set set) {
  tn_dtype_set all = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE);
  if (!set || set == all) {
    printf(" %s |", set ? "all" : "");
    return;
  }
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; ++t)
    if (set >> t & 1) printf(" %s", tn_dtype_name((tn_dtype)t));
  fputs(" |", stdout);
}

static void print_allowed(const tn_operator *op) {
  if (!op->types[0]) fputs(" fixed", stdout);
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; ++t)
    if (op->types[0] >> t & 1) printf(" %s", tn_dtype_name((tn_dtype)t));
  fputs(" |", stdout);
}

static void print_head(const columns *c) {
  puts("# What runs natively where\n\n"
       "Printed by `tenon info --kernels` from the rows that plugins register.\n"
       "\"all\" means every element type that the operator takes; an empty field that there is\n"
       "no kernel of the device's own. The reference kernels serve every device in host memory;\n"
       "on others `TENON_FALLBACK` says what happens. Element types are those of the\n"
       "operator's first type variable.\n");
  fputs("| operator | element types |", stdout);
  for (size_t i = 0; i < c->count; ++i)
    printf(" %s |", c->type[i][0] == '*' ? "reference" : plain(c->type[i]));
  fputs("\n|---|---|", stdout);
  for (size_t i = 0; i < c->count; ++i) fputs("---|", stdout);
  putchar('\n');
}

int info_print_support(tn_runtime *runtime) {
  columns c = find_columns(runtime);
  print_head(&c);
  for (size_t i = 0; i < tn_op_count(runtime); ++i) {
    const tn_operator *op = tn_op_at(runtime, i);
    printf("| %s |", plain(op->name));
    print_allowed(op);
    for (size_t k = 0; k < c.count; ++k) print_set(op, natives(runtime, op, c.type[k]));
    putchar('\n');
  }
  return EXIT_OK;
}

/* --- the exceptions --- */

static void print_missing_head(void) {
  puts("# What does not run natively\n\n"
       "Printed by `tenon info --missing` (`./dev docs`) from the rows that plugins register: the\n"
       "operators, or element types of theirs, for which a type of device has no kernel of its\n"
       "own. Devices in host memory run them by the reference kernels, more slowly; on others\n"
       "[`TENON_FALLBACK`](environment.md#TENON_FALLBACK) says what happens. Element types are\n"
       "those of the operator's first type variable. `tenon info --kernels` has the whole table,\n"
       "`tenon info -v` the kernels.");
}

/* A row where the device type lacks something of the operator; false where it does not. */
static bool print_missing_row(tn_runtime *runtime, const tn_operator *op, const char *type) {
  tn_dtype_set all = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE);
  tn_dtype_set missing = all & ~natives(runtime, op, type);
  if (!missing) return false;
  printf("| %s |", plain(op->name));
  if (missing == all) fputs(" every type", stdout);
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS && missing != all; ++t)
    if (missing >> t & 1) printf(" %s", tn_dtype_name((tn_dtype)t));
  puts(" |");
  return true;
}

int info_print_missing(tn_runtime *runtime) {
  columns c = find_columns(runtime);
  print_missing_head();
  for (size_t k = 0; k < c.count; ++k) {
    bool any = false;
    printf("\n## %s\n\n", c.type[k][0] == '*' ? "reference" : plain(c.type[k]));
    puts("| operator | no kernel for |\n|---|---|");
    for (size_t i = 0; i < tn_op_count(runtime); ++i)
      any |= print_missing_row(runtime, tn_op_at(runtime, i), c.type[k]);
    if (!any) puts("| none | |");
  }
  return EXIT_OK;
}
