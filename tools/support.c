/*
 * The table of docs/support.md: for every operator, which element types run natively on
 * which type of device. It comes from the rows that plugins register, so that devices
 * which are not there are listed too.
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

/* The element types for which some kernel of the device type exists. A kernel for no
 * type in particular is for all. */
static tn_dtype_set natives(tn_runtime *runtime, const tn_operator *op, const char *type) {
  tn_dtype_set all = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE), set = 0;
  tn_kernel_row row;
  for (size_t i = 0; row_at(runtime, i, &row); ++i)
    if (row.op == op->id && !strcmp(row.device_type, type))
      set |= row.types[0] ? row.types[0] & all : all;
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
       "Printed by `tenon info --kernels` (`./dev docs`) from the rows that plugins register.\n"
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
