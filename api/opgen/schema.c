/* A C file with the operators' schemas, for the dispatcher. */
#include "opgen.h"

static const char *kind_constant(char kind) {
  switch (kind) {
  case 'i':
    return "TN_ARG_IN";
  case 'p':
    return "TN_ARG_OPTIONAL_IN";
  case 'u':
    return "TN_ARG_INOUT";
  case 'o':
    return "TN_ARG_OUT";
  default:
    return "TN_ARG_OPTIONAL_OUT";
  }
}

static void print_quoted(const char *text) {
  putchar('"');
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('"');
}

static const char *attr_constant(const char *kind) {
  static const char *const names[][2] = {
      {"i64", "TN_ATTR_I64"},       {"u64", "TN_ATTR_U64"},       {"f64", "TN_ATTR_F64"},
      {"flag", "TN_ATTR_FLAG"},     {"dtype", "TN_ATTR_DTYPE"},   {"pair", "TN_ATTR_PAIR"},
      {"axes", "TN_ATTR_AXES"},     {"triple", "TN_ATTR_TRIPLE"}, {"dims", "TN_ATTR_DIMS"},
      {"result", "TN_ATTR_RESULT"}, {"tensor", "TN_ATTR_TENSOR"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i][0], kind) == 0) return names[i][1];
  return "?";
}

static int print_schema_args(int i) {
  int count = 0;
  printf("static const tn_arg %s_args[] = {\n", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a, ++count) {
    printf("  {\"%s\", %s, ", a->name, kind_constant(a->kind));
    if (a->type[1] == 0)
      printf("TN_TYPE_VAR(%d)", a->type[0] - 'T');
    else if (strncmp(a->type, "WIDE_", 5) == 0)
      printf("TN_TYPE_WIDE(%d)", a->type[5] - 'T');
    else
      printf("TN_TYPE_FIXED(TN_%s)", a->type);
    printf(", %d, {0}, ", a->flags);
    print_quoted(a->doc);
    printf(", %.17g, %.17g, 0},\n", a->low, a->high);
  }
  puts("};");
  return count;
}

/* The place of the attribute that a tensor belongs to; 0 where there is none. */
static int place_of(int i, const char *name) {
  for (int k = 0; name && lists[i].attrs[k].name; ++k)
    if (strcmp(lists[i].attrs[k].name, name) == 0) return k;
  return 0;
}

static int print_schema_attrs(int i) {
  int count = 0;
  if (!lists[i].attrs->name) return 0;
  printf("static const tn_attr %s_attrs[] = {\n", rows[i].name);
  for (const attr *a = lists[i].attrs; a->name; ++a, ++count) {
    printf("  {\"%s\", %s, offsetof(tn_%s_attrs, %s), %s, ", a->name, attr_constant(a->kind),
           rows[i].name, a->name, strcmp(a->kind, "tensor") ? a->value : "0");
    print_quoted(a->doc);
    printf(", %.17g, %.17g, %d, %d, ", a->low, a->high, a->low_bound, a->high_bound);
    if (strcmp(a->kind, "tensor") == 0)
      printf("{.tensor = {%d, %d}}, 0},\n", a->use, place_of(i, a->of));
    else
      puts("{{0}}, 0},");
  }
  puts("};");
  for (const attr *a = lists[i].attrs; a->name; ++a)
    printf("_Static_assert(offsetof(tn_%s_attrs, %s) == %d, \"tests/ops.abi says otherwise\");\n",
           rows[i].name, a->name, attr_offset(lists[i].attrs, a));
  return count;
}

void print_schema(void) {
  printf("%s#include \"dispatcher/registry/schema.h\"\n\n", banner);
  int args[TABLE_MAX], attrs[TABLE_MAX];
  for (int i = 0; i < num_rows; ++i) {
    args[i] = print_schema_args(i);
    attrs[i] = print_schema_attrs(i);
  }
  puts("\nconst tn_operator builtin_operators[] = {");
  for (int i = 0; i < num_rows; ++i) {
    printf("  {.struct_size = sizeof(tn_operator), .id = %d, .name = \"%s\", %s,\n"
           "   .num_args = %d, .args = %s_args, .arg_size = sizeof(tn_arg), .num_attrs = %d",
           rows[i].id, rows[i].name, rows[i].fields, args[i], rows[i].name, attrs[i]);
    if (attrs[i])
      printf(",\n   .attrs = %s_attrs, .attr_size = sizeof(tn_attr), .attrs_size = "
             "sizeof(tn_%s_attrs)",
             rows[i].name, rows[i].name);
    if (attrs_known(lists[i].attrs)) printf(",\n   .attrs_known = %d", attrs_known(lists[i].attrs));
    puts("},");
  }
  printf("};\nconst size_t builtin_operator_count = %d;\n", num_rows);
}
