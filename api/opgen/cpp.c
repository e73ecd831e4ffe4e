/* tenon/ops.hpp: the operators as functions of C++, over the classes of tenon/tenon.hpp.
 *
 * Per operator: a struct of its attributes, and functions of its name in three namespaces. */
#include "opgen.h"

enum form { RETURNS, RETURNS_ALL, INTO, PREPARE };

/* --- attributes --- */

static bool is_kind(const attr *a, const char *kind) { return strcmp(a->kind, kind) == 0; }

/* A C++ type that takes what users write: 2, {2, 1}, true. */
static const char *cpp_type(const attr *a) {
  static const char *const types[][2] = {
      {"i64", "std::int64_t"}, {"u64", "std::uint64_t"},       {"f64", "double"},
      {"flag", "bool"},        {"dtype", "tn_dtype"},          {"result", "tn_dtype"},
      {"pair", "per_axis<2>"}, {"triple", "per_axis<3>"},      {"axes", "axis_list"},
      {"dims", "dim_list"},    {"tensor", "const tn_tensor *"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (is_kind(a, types[i][0])) return types[i][1];
  return "?";
}

static void print_field(const attr *a) {
  bool list = is_kind(a, "axes") || is_kind(a, "dims");
  const char *value = is_kind(a, "tensor")    ? "nullptr"
                      : !is_kind(a, "flag")   ? a->value
                      : strcmp(a->value, "0") ? "true"
                                              : "false";
  printf("  %s %s = %s; /* %s */\n", cpp_type(a), a->name, list ? "{}" : value, a->doc);
}

/* The field as the C struct has it: one that had another name stands in a union there. */
static void print_converted(const attr *a) {
  printf(a->was ? ", {" : ", ");
  if (is_kind(a, "pair"))
    printf("{%s[0], %s[1]}", a->name, a->name);
  else if (is_kind(a, "triple"))
    printf("{%s[0], %s[1], %s[2]}", a->name, a->name, a->name);
  else if (is_kind(a, "axes") || is_kind(a, "dims"))
    printf("%s.c_list()", a->name);
  else if (is_kind(a, "flag") || is_kind(a, "dtype") || is_kind(a, "result"))
    printf("static_cast<std::int32_t>(%s)", a->name);
  else
    printf("%s", a->name);
  if (a->was) printf("}");
}

static void print_attr_struct(int i) {
  const char *name = rows[i].name;
  if (!lists[i].attrs->name) return;
  printf("/* Attributes of %s. */\nstruct %s_attrs {\n", name, name);
  printf("  static constexpr std::uint32_t c_op = TN_OP_%s;\n", rows[i].NAME);
  for (const attr *a = lists[i].attrs; a->name; ++a) print_field(a);
  for (const attr *a = lists[i].attrs; a->name; ++a)
    printf("  constexpr %s_attrs &with_%s(%s given) { %s = given; return *this; }\n", name, a->name,
           cpp_type(a), a->name);
  printf("  constexpr tn_%s_attrs c_attrs() const { return {sizeof(tn_%s_attrs)", name, name);
  for (const attr *a = lists[i].attrs; a->name; ++a) print_converted(a);
  puts("}; }\n};\n");
}

/* --- signatures --- */

static int count_kinds(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a) count += strchr(kinds, a->kind) != NULL;
  return count;
}

/* Which outputs a form gives back. */
static const char *returned(enum form form) { return form == RETURNS_ALL ? "oq" : "o"; }

/* Whether everything behind a may be left out. */
static bool may_be_left_out(const arg *a) {
  for (; a->kind; ++a)
    if (!is_output(a->kind) && a->kind != 'p') return false;
  return true;
}

static const char *param_type(const arg *a) {
  if (is_list(a)) return "tensor_list ";
  bool optional = a->kind == 'p' || a->flags & TN_ARG_OR_ONE;
  return a->kind == 'u' ? "tensor_inout " : optional ? "tensor_ref " : "const tensor &";
}

static void print_params(int i, enum form form) {
  const char *comma = "";
  printf("(");
  for (const arg *a = lists[i].args; a->kind && form >= INTO; ++a)
    if (is_output(a->kind)) printf("%stensor_out %s", comma, a->name), comma = ", ";
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_output(a->kind)) continue;
    printf("%s%s%s%s", comma, param_type(a), a->name, may_be_left_out(a) ? " = {}" : "");
    comma = ", ";
  }
  if (lists[i].attrs->name) printf("%sconst %s_attrs &attrs = {}", comma, rows[i].name);
  printf(", stream_ref on = stream_ref::current()) {\n");
}

/* The type of what is returned, a struct where it is more than one tensor. */
static void print_result_type(int i, enum form form) {
  int outputs = count_kinds(i, returned(form));
  if (form == INTO || outputs == 0)
    printf("void");
  else if (form == PREPARE)
    printf("prepared");
  else if (outputs == 1)
    printf("tensor");
  else
    printf("%s%s_result", rows[i].name, form == RETURNS_ALL ? "_all" : "");
}

static void print_result_struct(int i, enum form form) {
  if (count_kinds(i, returned(form)) < 2) return;
  printf("struct ");
  print_result_type(i, form);
  puts(" {");
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_output(a->kind) && strchr(returned(form), a->kind))
      printf("  tensor %s; /* %s */\n", a->name, a->doc);
  puts("};\n");
}

/* --- bodies --- */

static void print_c_attrs(int i) {
  if (lists[i].attrs->name)
    printf("  const tn_%s_attrs c_attrs = attrs.c_attrs();\n", rows[i].name);
}

static void print_counts_check(int i) {
  const arg *first = NULL;
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (!is_list(a)) continue;
    if (first)
      printf("  detail::check_counts(\"%s\", %s, %s);\n", rows[i].name, first->name, a->name);
    else
      first = a;
  }
}

static void print_result(const arg *a, enum form form, bool single) {
  if (form == INTO)
    printf(", %s.c_out()", a->name);
  else if (!strchr(returned(form), a->kind))
    printf(", nullptr");
  else
    printf(", %s%s.c_out()", single ? "" : "results.", single ? "result" : a->name);
}

/* The call of the C function. */
static void print_call(int i, enum form form) {
  bool single = count_kinds(i, returned(form)) == 1;
  printf("  check(tn_%s(on.get()", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_output(a->kind)) continue;
    printf(is_list(a) ? ", %s.data()" : ", %s.get()", a->name);
    if (a == last_list(i)) printf(", %s.size()", a->name);
  }
  if (lists[i].attrs->name) printf(", &c_attrs");
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_output(a->kind)) print_result(a, form, single);
  puts("));");
}

static void print_function(int i, enum form form) {
  int outputs = count_kinds(i, returned(form));
  bool gives = form != INTO && outputs > 0;
  printf("%sinline ", gives ? "[[nodiscard]] " : "");
  print_result_type(i, form);
  printf(" %s%s", rows[i].name, form == RETURNS_ALL ? "_all" : "");
  print_params(i, form);
  print_c_attrs(i);
  print_counts_check(i);
  if (gives) {
    printf("  ");
    print_result_type(i, form);
    puts(outputs == 1 ? " result;" : " results;");
  }
  print_call(i, form);
  if (gives) puts(outputs == 1 ? "  return result;" : "  return results;");
  puts("}\n");
}

static void print_prepare(int i) {
  printf("[[nodiscard]] inline prepared %s", rows[i].name);
  print_params(i, PREPARE);
  print_c_attrs(i);
  print_counts_check(i);
  printf("  detail::call call(TN_OP_%s, on, %s);\n", rows[i].NAME,
         lists[i].attrs->name ? "&c_attrs" : "nullptr");
  for (const arg *a = lists[i].args; a->kind; ++a)
    printf("  call.%s(%s);\n",
           is_output(a->kind) ? "result"
           : a->kind == 'u'   ? "inout"
                              : "input",
           a->name);
  puts("  return call.prepare();\n}\n");
}

/* --- the file --- */

static void print_comment(int i) {
  printf("/* %s\n *     %s\n", rows[i].doc, rows[i].maths);
  for (const arg *a = lists[i].args; a->kind; ++a)
    printf(" * %s: %s%s (%s)\n", a->name, is_output(a->kind) ? "returned, " : kind_word(a), a->doc,
           a->type);
  for (int t = 0; t < 4 && rows[i].types[t]; ++t)
    printf(" * %c: %s\n", "TUVW"[t], rows[i].types[t]);
  if (count_kinds(i, "q"))
    printf(" * %s_all returns the optional outputs too; this one does not compute them.\n",
           rows[i].name);
  puts(" */");
}

static void print_returning(int i) {
  print_attr_struct(i);
  print_result_struct(i, RETURNS);
  print_comment(i);
  print_function(i, RETURNS);
  if (count_kinds(i, "q") == 0) return;
  print_result_struct(i, RETURNS_ALL);
  print_function(i, RETURNS_ALL);
}

void print_cpp(void) {
  printf(
      "%s#ifndef TENON_OPS_HPP\n#define TENON_OPS_HPP\n\n#include \"tenon/cpp/arguments.hpp\"\n\n"
      "/* One function per operator; the rules are in tenon.hpp under \"Operators\". */\n"
      "namespace tenon {\ninline namespace TENON_CPP_VERSION {\n\n",
      banner);
  for (int i = 0; i < num_rows; ++i) print_returning(i);
  puts("/* Into tensors that are given, or made where they are empty; {} in place of an optional\n"
       " * output leaves it out. */\nnamespace into {\n");
  for (int i = 0; i < num_rows; ++i)
    if (count_kinds(i, "oq"))
      print_function(i, INTO);
    else
      printf("using tenon::%s;\n\n", rows[i].name);
  puts("} // namespace into\n\n/* The same as prepared calls, to be run many times. */\n"
       "namespace prepare {\n");
  for (int i = 0; i < num_rows; ++i) print_prepare(i);
  puts("} // namespace prepare\n} // namespace TENON_CPP_VERSION\n} // namespace tenon\n\n"
       "#endif /* TENON_OPS_HPP */");
}
