/*
 * opgen: prints what people read, from the operator table ops.def.
 *
 *   opgen types      tenon/op_types.h: operator numbers and attribute structs
 *   opgen functions  tenon/ops.h: one documented function per operator
 *   opgen docs       docs/operators.md
 *   opgen abi        the ABI list: a line per operator, argument and attribute
 *   opgen schema     a C file with the operators' schemas, for the dispatcher
 *   opgen bodies     a C file with the functions of tenon/ops.h, for the dispatcher
 *
 * A build-time program; nothing of it is installed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TN_SET_FLOAT "f16 bf16 f32 f64"
#define TN_SET_INT "u8 i8 i16 i32 i64"
#define TN_SET_BYTE "u8 i8"
#define TN_SET_INDEX "i32 i64"
#define TN_SET_NUMBER TN_SET_INT " " TN_SET_FLOAT
#define TN_SET_BITS "bool " TN_SET_INT
#define TN_SET_ALL "bool " TN_SET_NUMBER
#define TN_OPERATOR_ELEMENTWISE 1
#define TN_OPERATOR_RANDOM 2
#define TN_OPERATOR_ACCUMULATES 4
#define TN_OPERATOR_DATA_DEPENDENT 8
#define TN_OPERATOR_TYPED 16
#define TN_OPERATOR_ZERO_SIGN_OPEN 32
#define TN_OPERATOR_NEEDS_ELEMENTS 64
#define TN_ARG_LIST 1
enum { TN_BOUND_NONE, TN_BOUND_CLOSED, TN_BOUND_OPEN };

typedef struct row {
  int id;
  const char *name, *NAME;
  int since, flags;
  double tolerance;
  const char *types[4];
  int shape;
  const char *doc, *maths, *source;
  const char *fields; /* as written in ops.def */
} row;

typedef struct arg {
  char kind; /* i input, p optional input, u in-out, o output, q optional output */
  const char *name, *type, *doc;
  int flags;
  double low, high;
} arg;

typedef struct attr {
  const char *kind, *name, *value, *doc;
  double low, high;
  int low_bound, high_bound;
} attr;

enum {
#define SHAPE(number, name, NAME, ...) TN_SHAPE_##NAME = number,
#include "shapes.def"
};

static const struct {
  int number;
  const char *name, *NAME, *doc;
} shapes[] = {
#define SHAPE(number, name, NAME, family, doc) {number, #name, #NAME, doc},
#include "shapes.def"
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

#define OP(ID, n, N, ...) {.id = ID, .name = #n, .NAME = #N, .fields = #__VA_ARGS__, __VA_ARGS__},
static const row written_rows[] = {
#include "ops.def"
};
enum { ROWS = sizeof written_rows / sizeof *written_rows };

#define ARG_IN(n, t, ...) {'i', #n, #t, __VA_ARGS__},
#define ARG_OPT(n, t, ...) {'p', #n, #t, __VA_ARGS__},
#define ARG_INOUT(n, t, ...) {'u', #n, #t, __VA_ARGS__},
#define ARG_OUT(n, t, ...) {'o', #n, #t, __VA_ARGS__},
#define ARG_OPTOUT(n, t, ...) {'q', #n, #t, __VA_ARGS__},
#define ATTR(k, n, v, ...) {#k, #n, #v, __VA_ARGS__},
#define OP(ID, n, N, ...)                                                                          \
  static const arg n##_args[] = {                                                                  \
      TN_ARGS_##n(ARG_IN, ARG_OPT, ARG_INOUT, ARG_OUT, ARG_OPTOUT){0, "", "", "", 0, 0, 0}};       \
  static const attr n##_attrs[] = {TN_ATTRS_##n(ATTR){"", NULL, "", "", 0, 0, 0, 0}};
#include "ops.def"

typedef struct row_lists {
  const arg *args;
  const attr *attrs;
} row_lists;

static const row_lists written_lists[] = {
#define OP(ID, n, N, ...) {n##_args, n##_attrs},
#include "ops.def"
};

/* The table in the order of its numbers, whatever files its rows stand in. */
static row rows[ROWS];
static row_lists lists[ROWS];

/* Fills both; false where two rows have one number. */
static bool sort_rows(void) {
  for (int n = 0; n < ROWS; ++n) {
    int at = n;
    for (; at > 0 && rows[at - 1].id > written_rows[n].id; --at) {
      rows[at] = rows[at - 1];
      lists[at] = lists[at - 1];
    }
    rows[at] = written_rows[n];
    lists[at] = written_lists[n];
    if (at > 0 && rows[at - 1].id == rows[at].id)
      return fprintf(stderr, "ops.def: %s and %s have one number\n", rows[at - 1].name,
                     rows[at].name),
             false;
  }
  return true;
}

static const char banner[] =
    "/* Printed by opgen from ops.def: change that file, not this one. */\n";

static const char *c_type(const char *kind) {
  static const char *const types[][2] = {
      {"i64", "int64_t"},  {"u64", "uint64_t"},   {"f64", "double"},
      {"flag", "int32_t"}, {"dtype", "int32_t"},  {"pair", "int64_t"},
      {"axes", "tn_axes"}, {"triple", "int64_t"}, {"dims", "tn_dims"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i][0], kind) == 0) return types[i][1];
  return "?";
}

static bool is_output(char kind) { return kind == 'o' || kind == 'q'; }

static void print_default(const attr *a) {
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
}

static const char *extent(const attr *a) {
  return strcmp(a->kind, "pair") == 0 ? "[2]" : strcmp(a->kind, "triple") == 0 ? "[3]" : "";
}

static void print_attr_struct(const row *op, const attr *attrs) {
  if (!attrs->name) return;
  printf("\n/* Attributes of tn_%s. */\ntypedef struct tn_%s_attrs {\n"
         "  uint32_t struct_size; /* sizeof(tn_%s_attrs) */\n",
         op->name, op->name, op->name);
  for (const attr *a = attrs; a->name; ++a)
    printf("  %s %s%s; /* %s */\n", c_type(a->kind), a->name, extent(a), a->doc);
  printf("} tn_%s_attrs;\n#define TN_%s_DEFAULTS {sizeof(tn_%s_attrs)", op->name, op->NAME,
         op->name);
  for (const attr *a = attrs; a->name; ++a) {
    printf(", ");
    print_default(a);
  }
  puts("}");
}

static void print_types(void) {
  printf("%s#ifndef TENON_OP_TYPES_H\n#define TENON_OP_TYPES_H\n\n#include <math.h>\n\n#include "
         "\"tenon/base.h\"\n\n"
         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
         "/* The operators' numbers: ABI, appended only. */\ntypedef enum tn_op {\n",
         banner);
  for (int i = 0; i < ROWS; ++i) printf("  TN_OP_%s = %d,\n", rows[i].NAME, rows[i].id);
  printf("} tn_op;\n\n"
         "/* How output shapes follow from inputs and attributes. */\n"
         "typedef enum tn_shape_rule {\n");
  int rules = 0;
  for (int i = 0; i < SHAPES; ++i) {
    printf("  TN_SHAPE_%s = %d, /* %s */\n", shapes[i].NAME, shapes[i].number, shapes[i].doc);
    if (shapes[i].number >= rules) rules = shapes[i].number + 1;
  }
  printf("  TN_SHAPE_RULES = %d\n} tn_shape_rule;\n\n", rules);
  printf("/* Attribute structs. Start from the operator's TN_<NAME>_DEFAULTS and change fields:\n"
         " *     tn_softmax_attrs attrs = TN_SOFTMAX_DEFAULTS;\n"
         " *     attrs.axis = 1;\n"
         " * A NULL pointer in place of the struct means the defaults. */\n");
  for (int i = 0; i < ROWS; ++i) print_attr_struct(&rows[i], lists[i].attrs);
  puts("\n#ifdef __cplusplus\n}\n#endif\n#endif /* TENON_OP_TYPES_H */");
}

static bool is_list(const arg *a) { return a->flags & TN_ARG_LIST; }

/* The last list among an operator's arguments, NULL if there is none. */
static const arg *last_list(int i) {
  const arg *last = NULL;
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_list(a)) last = a;
  return last;
}

static void print_signature(int i) {
  printf("tn_status tn_%s(tn_stream *stream", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_output(a->kind)) continue;
    printf(", %stn_tensor *%s%s", a->kind == 'u' ? "" : "const ", is_list(a) ? "const *" : "",
           a->name);
    if (a == last_list(i)) printf(", size_t count");
  }
  if (lists[i].attrs->name) printf(", const tn_%s_attrs *attrs", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_output(a->kind)) printf(", tn_tensor **%s", a->name);
  putchar(')');
}

static void print_prototype(int i) {
  print_signature(i);
  puts(";");
}

static const char *kind_word(const arg *a) {
  bool optional = a->kind == 'p' || a->kind == 'q', updated = a->kind == 'u';
  if (is_list(a)) return updated ? "list, updated, " : "list, ";
  return optional ? "optional, " : updated ? "updated, " : "";
}

static void print_functions(void) {
  printf("%s#ifndef TENON_OPS_H\n#define TENON_OPS_H\n\n#include \"tenon/tenon.h\"\n\n"
         "/*\n * One function per operator; the rules are in tenon.h under \"Operators\".\n"
         " * Every function is thread-safe as far as its tensors and stream are.\n */\n"
         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n#pragma GCC visibility push(default)\n",
         banner);
  for (int i = 0; i < ROWS; ++i) {
    printf("\n/* %s\n *     %s\n", rows[i].doc, rows[i].maths);
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf(" * %s: %s%s (%s)\n", a->name, kind_word(a), a->doc, a->type);
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

static void print_docs(void) {
  puts("# Operators\n\nPrinted by `opgen` from `api/ops.def`; `./dev docs` prints it anew. Types:\n"
       "`T` and `U` stand for one element type each out of the sets given, `WIDE_T` for\n"
       "float32 where `T` is a 16-bit float and for `T` where it is not.\n");
  for (int i = 0; i < ROWS; ++i) {
    printf("## %s\n\n%s `%s`\n\n```c\n", rows[i].name, rows[i].doc, rows[i].maths);
    print_prototype(i);
    puts("```\n");
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf("- `%s` (%s): %s%s\n", a->name, a->type, kind_word(a), a->doc);
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

static const char *shape_name(int number) {
  for (int i = 0; i < SHAPES; ++i)
    if (shapes[i].number == number) return shapes[i].name;
  return "?";
}

/* Bytes and alignment of an attribute's field. */
static int attr_size(const attr *a, int *align) {
  static const struct {
    const char *kind;
    int size, align;
  } fields[] = {{"i64", 8, 8},   {"u64", 8, 8},   {"f64", 8, 8},
                {"flag", 4, 4},  {"dtype", 4, 4}, {"pair", 16, 8},
                {"axes", 36, 4}, {"dims", 72, 8}, {"triple", 24, 8}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i)
    if (strcmp(fields[i].kind, a->kind) == 0) return *align = fields[i].align, fields[i].size;
  return *align = 1, 0;
}

/* Where it lies in its struct: behind the struct's size and the attributes before it. */
static int attr_offset(const attr *attrs, const attr *a) {
  int end = 4, align;
  for (;; ++attrs) {
    int size = attr_size(attrs, &align);
    end = (end + align - 1) / align * align;
    if (attrs == a) return end;
    end += size;
  }
}

static void print_abi(void) {
  int align;
  for (int i = 0; i < ROWS; ++i) {
    printf("%d %s since %d shape %s\n", rows[i].id, rows[i].name, rows[i].since,
           shape_name(rows[i].shape));
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf("%d %s arg %c %s %s%s\n", rows[i].id, rows[i].name, a->kind, a->type, a->name,
             a->flags & TN_ARG_LIST ? " list" : "");
    for (const attr *a = lists[i].attrs; a->name; ++a)
      printf("%d %s attr %s %s at %d size %d = %s\n", rows[i].id, rows[i].name, a->kind, a->name,
             attr_offset(lists[i].attrs, a), attr_size(a, &align), a->value);
  }
}

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
      {"i64", "TN_ATTR_I64"},   {"u64", "TN_ATTR_U64"},       {"f64", "TN_ATTR_F64"},
      {"flag", "TN_ATTR_FLAG"}, {"dtype", "TN_ATTR_DTYPE"},   {"pair", "TN_ATTR_PAIR"},
      {"axes", "TN_ATTR_AXES"}, {"triple", "TN_ATTR_TRIPLE"}, {"dims", "TN_ATTR_DIMS"}};
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

static int print_schema_attrs(int i) {
  int count = 0;
  if (!lists[i].attrs->name) return 0;
  printf("static const tn_attr %s_attrs[] = {\n", rows[i].name);
  for (const attr *a = lists[i].attrs; a->name; ++a, ++count) {
    printf("  {\"%s\", %s, offsetof(tn_%s_attrs, %s), %s, ", a->name, attr_constant(a->kind),
           rows[i].name, a->name, a->value);
    print_quoted(a->doc);
    printf(", %.17g, %.17g, %d, %d, {0}, 0},\n", a->low, a->high, a->low_bound, a->high_bound);
  }
  puts("};");
  for (const attr *a = lists[i].attrs; a->name; ++a)
    printf("_Static_assert(offsetof(tn_%s_attrs, %s) == %d, \"tests/ops.abi says otherwise\");\n",
           rows[i].name, a->name, attr_offset(lists[i].attrs, a));
  return count;
}

static void print_schema(void) {
  printf("%s#include \"dispatcher/schema.h\"\n\n", banner);
  int args[ROWS], attrs[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    args[i] = print_schema_args(i);
    attrs[i] = print_schema_attrs(i);
  }
  puts("\nconst tn_operator builtin_operators[] = {");
  for (int i = 0; i < ROWS; ++i) {
    printf("  {.struct_size = sizeof(tn_operator), .id = %d, .name = \"%s\", %s,\n"
           "   .num_args = %d, .args = %s_args, .arg_size = sizeof(tn_arg), .num_attrs = %d",
           rows[i].id, rows[i].name, rows[i].fields, args[i], rows[i].name, attrs[i]);
    if (attrs[i])
      printf(",\n   .attrs = %s_attrs, .attr_size = sizeof(tn_attr), .attrs_size = "
             "sizeof(tn_%s_attrs)",
             rows[i].name, rows[i].name);
    puts("},");
  }
  printf("};\nconst size_t builtin_operator_count = %d;\n", ROWS);
}

/* Prints the names of the arguments whose kind is in `kinds`; returns how many. */
static int print_names(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (strchr(kinds, a->kind)) printf("%s%s", count++ ? ", " : "", a->name);
  if (count == 0) printf("NULL");
  return count;
}

static int count_args(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a) count += strchr(kinds, a->kind) != NULL;
  return count;
}

static void print_list_body(int i) {
  int inputs = count_args(i, "ip"), inouts = count_args(i, "u"), results = count_args(i, "oq");
  printf(" {\n  const list_arg args[] = {");
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_list(a))
      printf("{\"%s\", NULL, (const tn_tensor *const *)%s, true}, ", a->name, a->name);
    else if (!is_output(a->kind))
      printf("{\"%s\", %s, NULL, false}, ", a->name, a->name);
  printf("};\n  tn_tensor **const results[] = {");
  print_names(i, "oq");
  printf(
      "};\n  const tn_call call = {.struct_size = sizeof call, .op = TN_OP_%s, .stream = stream,\n"
      "    .attrs = %s, .num_in = %d, .num_out = %d};\n"
      "  return call_operator_of_lists(&call, \"%s\", args, %d, count, results);\n}\n",
      rows[i].NAME, lists[i].attrs->name ? "attrs" : "NULL", inputs, inouts + results, rows[i].name,
      inouts);
}

static void print_bodies(void) {
  printf("%s#include \"dispatcher/ops_call.h\"\n", banner);
  for (int i = 0; i < ROWS; ++i) {
    puts("");
    print_signature(i);
    if (last_list(i)) {
      print_list_body(i);
      continue;
    }
    printf(" {\n  const tn_tensor *const in[] = {");
    int inputs = print_names(i, "ip");
    printf("};\n  tn_tensor *out[TN_MAX_ARGS] = {");
    int inouts = print_names(i, "u");
    printf("};\n  tn_tensor **const results[] = {");
    int results = print_names(i, "oq");
    printf("};\n  return call_operator(TN_OP_%s, stream, in, %d, out, %d, results, %d, %s);\n}\n",
           rows[i].NAME, inputs, inouts, results, lists[i].attrs->name ? "attrs" : "NULL");
  }
}

int main(int argc, char **argv) {
  const char *what = argc == 2 ? argv[1] : "";
  if (!sort_rows()) return 1;
  if (strcmp(what, "types") == 0)
    print_types();
  else if (strcmp(what, "functions") == 0)
    print_functions();
  else if (strcmp(what, "docs") == 0)
    print_docs();
  else if (strcmp(what, "abi") == 0)
    print_abi();
  else if (strcmp(what, "schema") == 0)
    print_schema();
  else if (strcmp(what, "bodies") == 0)
    print_bodies();
  else
    return fprintf(stderr, "usage: opgen types|functions|docs|abi|schema|bodies\n"), 2;
  return fflush(stdout) != 0 || ferror(stdout);
}
