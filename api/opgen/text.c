/* What several printers say. */
#include "opgen.h"

const char banner[] = "/* Printed by opgen from ops.def: change that file, not this one. */\n";

const char *c_type(const char *kind) {
  static const char *const types[][2] = {{"i64", "int64_t"},
                                         {"u64", "uint64_t"},
                                         {"f64", "double"},
                                         {"flag", "int32_t"},
                                         {"dtype", "int32_t"},
                                         {"pair", "int64_t"},
                                         {"axes", "tn_axes"},
                                         {"triple", "int64_t"},
                                         {"dims", "tn_dims"},
                                         {"result", "int32_t"},
                                         {"tensor", "const struct tn_tensor *"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i][0], kind) == 0) return types[i][1];
  return "?";
}

bool is_output(char kind) { return kind == 'o' || kind == 'q'; }

const char *extent(const attr *a) {
  return strcmp(a->kind, "pair") == 0 ? "[2]" : strcmp(a->kind, "triple") == 0 ? "[3]" : "";
}

bool is_list(const arg *a) { return a->flags & TN_ARG_LIST; }

/* The last list among an operator's arguments, NULL if there is none. */
const arg *last_list(int i) {
  const arg *last = NULL;
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_list(a)) last = a;
  return last;
}

const char *type_text(int i, const arg *a) {
  static char text[96];
  const arg *first = lists[i].args;
  while (first->kind && !is_output(first->kind)) ++first;
  for (const attr *t = lists[i].attrs; t->name && a == first; ++t)
    if (strcmp(t->kind, "result") == 0) {
      snprintf(text, sizeof text, "%s, or what attrs->%s says", a->type, t->name);
      return text;
    }
  return a->type;
}

void print_signature(int i) {
  printf("tn_status tn_%s(tn_stream *stream", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_output(a->kind)) continue;
    if (is_list(a) && a->kind != 'u')
      printf(", tn_tensor_list %s", a->name);
    else
      printf(", %stn_tensor *%s%s", a->kind == 'u' ? "" : "const ", is_list(a) ? "const *" : "",
             a->name);
    if (a == last_list(i)) printf(", size_t count");
  }
  if (lists[i].attrs->name) printf(", const tn_%s_attrs *attrs", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_output(a->kind)) printf(", tn_tensor **%s", a->name);
  putchar(')');
}

void print_prototype(int i) {
  print_signature(i);
  puts(";");
}

const char *kind_word(const arg *a) {
  bool optional = a->kind == 'p' || a->kind == 'q', updated = a->kind == 'u';
  if (is_list(a)) return updated ? "list, updated, " : "list, ";
  if (a->flags & TN_ARG_OR_ONE) return "optional where it is a scalar (then 1), ";
  return optional ? "optional, " : updated ? "updated, " : "";
}
