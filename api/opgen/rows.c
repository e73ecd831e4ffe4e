/*
 * What a row of tn_kernel needs to know of its operator, so that no backend says it again:
 * tenon/op_rows.h, tenon/elementwise.def and tenon/reductions.def.
 */
#include "opgen.h"

/* Element types as they stand in names and in TN_<NAME>. */
static const struct {
  const char *word, *name, *NAME;
} types[] = {{"bool", "b8", "BOOL"},
             {"u8", "u8", "U8"},
             {"i8", "i8", "I8"},
             {"i16", "i16", "I16"},
             {"i32", "i32", "I32"},
             {"i64", "i64", "I64"},
             {"f16", "f16", "F16"},
             {"bf16", "bf16", "BF16"},
             {"f32", "f32", "F32"},
             {"f64", "f64", "F64"},
             {"f8_e4m3", "f8_e4m3", "F8_E4M3"},
             {"f8_e5m2", "f8_e5m2", "F8_E5M2"}};
enum { TYPES = sizeof types / sizeof *types };

static bool is_in(const char *set, const char *word) {
  size_t length = strlen(word);
  for (const char *at = set; (at = strstr(at, word)); at += length)
    if ((at == set || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

static const char *set_name(const char *words) {
  for (int i = 0; i < num_sets; ++i)
    if (strcmp(sets[i].types, words) == 0) return sets[i].NAME;
  fprintf(stderr, "ops.def: the types \"%s\" have no TN_SET_ name\n", words);
  return "UNNAMED";
}

static void print_each(const type_set *set) {
  printf("#define TN_EACH_%s(ROW, ...)", set->NAME);
  for (int i = 0; i < TYPES; ++i)
    if (is_in(set->types, types[i].word))
      printf(" \\\n  ROW(__VA_ARGS__, %s, %s)", types[i].name, types[i].NAME);
  puts("");
}

static void print_op(const row *op) {
  printf("#define TN_TYPES_%s ", op->name);
  for (int v = 0; v < 4 && op->types[v]; ++v)
    printf("%sTN_SET_%s", v ? ", " : "", set_name(op->types[v]));
  printf("\n#define TN_EACH_TYPE_%s TN_EACH_%s\n", op->name, set_name(op->types[0]));
}

void print_op_rows(void) {
  printf("%s", banner);
  puts(
      "/*\n"
      " * Names and element types of the operators, for those who write rows of tn_kernel: a row "
      "is\n"
      " * then one macro given the operator's name, once. Of an operator `add` there are\n"
      " *   TN_OP_add                      TN_OP_ADD\n"
      " *   TN_TYPES_add                   its element types, for tn_kernel.types: a set per type\n"
      " *                                  variable\n"
      " *   TN_EACH_TYPE_add(ROW, ...)     ROW(..., u8, U8) ROW(..., i8, I8) and so on, for each\n"
      " *                                  type of its first type variable; bool is b8, BOOL\n"
      " * TN_EACH_FLOAT(ROW, ...) and its like do that for the types of TN_SET_FLOAT and its "
      "like.\n"
      " * elementwise.def lists the elementwise operators.\n"
      " */\n"
      "#ifndef TENON_OP_ROWS_H\n#define TENON_OP_ROWS_H\n\n#include \"tenon/op_types.h\"\n\n"
      "/* The operators' numbers by the names of their functions. */\nenum {");
  for (int i = 0; i < num_rows; ++i) printf("  TN_OP_%s = TN_OP_%s,\n", rows[i].name, rows[i].NAME);
  puts("};\n");
  for (int i = 0; i < num_sets; ++i) print_each(&sets[i]);
  puts("");
  for (int i = 0; i < num_rows; ++i) print_op(&rows[i]);
  puts("\n#endif /* TENON_OP_ROWS_H */");
}

/* A file with a line for each operator of a kind. */
static void print_list(const char *what, const char *macro, bool (*is_one)(const row *)) {
  printf("%s/*\n * The %s: a line each of\n *   %s(name)\n", banner, what, macro);
  puts(" * Define that, include this file, and a backend has a row for every one of them; those "
       "that\n"
       " * come later too. TN_WITHOUT_<name>, defined to be anything, leaves one out. Nothing of "
       "both\n"
       " * is left defined at the end, so that the file can be included again.\n"
       " */");
  for (int i = 0; i < num_rows; ++i)
    if (is_one(&rows[i]))
      printf("#ifndef TN_WITHOUT_%s\n%s(%s)\n#endif\n#undef TN_WITHOUT_%s\n", rows[i].name, macro,
             rows[i].name, rows[i].name);
  printf("#undef %s\n", macro);
}

static bool is_elementwise(const row *op) {
  return (op->flags & (TN_OPERATOR_ELEMENTWISE | TN_OPERATOR_RANDOM)) == TN_OPERATOR_ELEMENTWISE;
}

static bool is_reduction(const row *op) {
  for (int i = 0; i < num_shapes; ++i)
    if (shapes[i].number == op->shape) return strcmp(shapes[i].name, "reduce") == 0;
  return false;
}

void print_elementwise(void) {
  print_list("elementwise operators, but for those that draw random numbers", "TN_ELEMENTWISE",
             is_elementwise);
}

void print_reductions(void) {
  print_list("reductions over axes, those of the shape rule TN_SHAPE_REDUCE", "TN_REDUCTION",
             is_reduction);
}
