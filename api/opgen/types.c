/* tenon/op_types.h: numbers of operators and shape rules, attribute structs. */
#include "opgen.h"

static void print_default(const attr *a) {
  if (a->was) putchar('{');
  if (strcmp(a->kind, "pair") == 0)
    printf("{%s, %s}", a->value, a->value);
  else if (strcmp(a->kind, "triple") == 0)
    printf("{%s, %s, %s}", a->value, a->value, a->value);
  else if (strcmp(a->kind, "axes") == 0)
    printf("{0, {0}}");
  else if (strcmp(a->kind, "dims") == 0)
    printf("{0, 0, {0}}");
  else
    printf("%s", a->value);
  if (a->was) putchar('}');
}

/* A field that had another name keeps it beside the new one. */
static void print_field(const attr *a) {
  const char *indent = a->was ? "    " : "  ";
  if (a->was) puts("  union {");
  const char *type = c_type(a->kind), *gap = strchr(type, '*') ? "" : " ";
  printf("%s%s%s%s%s; /* %s */\n", indent, type, gap, a->name, extent(a), a->doc);
  if (a->was)
    printf("    %s %s%s; /* its former name */\n  };\n", c_type(a->kind), a->was, extent(a));
}

static void print_attr_struct(const row *op, const attr *attrs) {
  if (!attrs->name) return;
  printf("\n/* Attributes of tn_%s. */\ntypedef struct tn_%s_attrs {\n"
         "  uint32_t struct_size; /* sizeof(tn_%s_attrs) */\n",
         op->name, op->name, op->name);
  for (const attr *a = attrs; a->name; ++a) print_field(a);
  printf("} tn_%s_attrs;\n#define TN_%s_DEFAULTS {sizeof(tn_%s_attrs)", op->name, op->NAME,
         op->name);
  for (const attr *a = attrs; a->name; ++a) {
    printf(", ");
    print_default(a);
  }
  puts("}");
}

void print_types(void) {
  printf("%s#ifndef TENON_OP_TYPES_H\n#define TENON_OP_TYPES_H\n\n#include <math.h>\n\n#include "
         "\"tenon/base.h\"\n\n"
         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
         "/* The operators' numbers: ABI, appended only. */\ntypedef enum tn_op {\n",
         banner);
  for (int i = 0; i < num_rows; ++i) printf("  TN_OP_%s = %d,\n", rows[i].NAME, rows[i].id);
  printf("} tn_op;\n\n"
         "/* How output shapes follow from inputs and attributes. */\n"
         "typedef enum tn_shape_rule {\n");
  int rules = 0;
  for (int i = 0; i < num_shapes; ++i) {
    printf("  TN_SHAPE_%s = %d, /* %s */\n", shapes[i].NAME, shapes[i].number, shapes[i].doc);
    if (shapes[i].number >= rules) rules = shapes[i].number + 1;
  }
  printf("  TN_SHAPE_RULES = %d\n} tn_shape_rule;\n\n", rules);
  puts("struct tn_tensor; /* tenon.h; kernels see it through tn_attr_view of plugin.h */\n");
  printf("/* Attribute structs. Start from the operator's TN_<NAME>_DEFAULTS and change fields:\n"
         " *     tn_softmax_attrs attrs = TN_SOFTMAX_DEFAULTS;\n"
         " *     attrs.axis = 1;\n"
         " * A NULL pointer in place of the struct means the defaults. */\n");
  for (int i = 0; i < num_rows; ++i) print_attr_struct(&rows[i], lists[i].attrs);
  puts("\n#ifdef __cplusplus\n}\n#endif\n#endif /* TENON_OP_TYPES_H */");
}
