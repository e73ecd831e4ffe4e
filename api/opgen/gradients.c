/*
 * Gradient rules: what api/gradients/ says of each row of the operator table, as C. `expressions`
 * prints each operator as a function of a rule's tensors, `gradients` the rules themselves, made of
 * such functions, and their table.
 */
#include <ctype.h>

#include "opgen.h"

/* What a row says of its gradient; several GRADs, or one of the others. */
typedef struct part {
  char kind; /* g GRAD, f FUNCTION, a ACTIVATED, s STOPS, r REFUSES, n NOTE */
  const char *arg, *text;
} part;

#define GRAD(arg, ...) {'g', #arg, #__VA_ARGS__},
#define FUNCTION(name, ...) {'f', #name, "" #__VA_ARGS__},
#define ACTIVATED(...) {'a', NULL, #__VA_ARGS__},
#define STOPS(why) {'s', NULL, why},
#define REFUSES(why) {'r', NULL, why},
#define NOTE(text) {'n', NULL, text},
#include "gradients.def"

/* Each rule as a list under its operator's name; a row without one does not compile. */
#define OP(id, name, NAME, ...) static const part name##_parts[] = {TN_GRAD_##name{0, NULL, NULL}};
#include "ops.def"

static const struct {
  int id;
  const part *parts;
} written[] = {
#define OP(id, name, NAME, ...) {id, name##_parts},
#include "ops.def"
};

static const part *parts_of(int i) {
  for (size_t k = 0; k < sizeof written / sizeof *written; ++k)
    if (written[k].id == rows[i].id) return written[k].parts;
  return NULL;
}

/* --- which tensors a rule reads --- */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Past the bracket that closes the one at `text`. */
static const char *behind_brackets(const char *text) {
  int depth = 0;
  do {
    depth += *text == '(';
    depth -= *text == ')';
    ++text;
  } while (*text && depth > 0);
  return text;
}

/* Whether the text names the tensor itself; its shape alone, shape_of(x), and fields do not. */
static bool reads(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *at = text; *at;) {
    if (!is_word(*at)) {
      ++at;
      continue;
    }
    const char *end = at;
    while (is_word(*end)) ++end;
    bool field = at > text && (at[-1] == '.' || at[-1] == '>');
    bool same = (size_t)(end - at) == length && memcmp(at, name, length) == 0;
    if (same && !field && *end != '(') return true;
    at = end - at == 8 && memcmp(at, "shape_of", 8) == 0 ? behind_brackets(end) : end;
  }
  return false;
}

static bool any_reads(const part *parts, const char *name) {
  for (const part *p = parts; p->kind; ++p)
    if ((p->kind == 'g' || p->kind == 'f') && reads(p->text, name)) return true;
  return false;
}

static bool is_input(const arg *a) { return !is_output(a->kind); }

/* Bits of the inputs, in-out tensors as they were last. */
static unsigned needs_in(int i, const part *parts) {
  unsigned bits = 0;
  int at = 0;
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_input(a)) bits |= (unsigned)any_reads(parts, a->name) << at++;
  return bits;
}

/* Bits of the tensors after the call: in-out ones, after_<name>, and outputs. */
static unsigned needs_out(int i, const part *parts) {
  unsigned bits = 0;
  int at = 0;
  char after[96];
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_input(a) && a->kind != 'u') continue;
    snprintf(after, sizeof after, "%s%s", a->kind == 'u' ? "after_" : "", a->name);
    bits |= (unsigned)any_reads(parts, after) << at++;
  }
  return bits;
}

/* --- the rules --- */

static int count_kind(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a) count += strchr(kinds, a->kind) != NULL;
  return count;
}

static void print_local(const part *parts, const char *prefix, const char *name, const char *list,
                        int at) {
  char whole[96];
  snprintf(whole, sizeof whole, "%s%s", prefix, name);
  if (any_reads(parts, whole)) printf("  const tn_tensor *%s = r->%s[%d];\n", whole, list, at);
}

static void print_locals(int i, const part *parts) {
  int in = 0, inout = 0, out = count_kind(i, "u");
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (is_input(a)) {
      print_local(parts, "", a->name, "in", in++);
      if (a->kind == 'u') print_local(parts, "after_", a->name, "out", inout);
      if (a->kind == 'u') print_local(parts, "d", a->name, "out_gradient", inout++);
      continue;
    }
    print_local(parts, "", a->name, "out", out);
    print_local(parts, "d", a->name, "out_gradient", out++);
  }
  if (lists[i].attrs->name && any_reads(parts, "attrs"))
    printf("  const tn_%s_attrs *attrs = r->attrs;\n", rows[i].name);
}

static int input_number(int i, const char *name) {
  int at = 0;
  for (const arg *a = lists[i].args; a->kind; ++a) {
    if (!is_input(a)) continue;
    if (strcmp(a->name, name) == 0) return at;
    ++at;
  }
  fprintf(stderr, "gradients.def: tn_%s has no input %s\n", rows[i].name, name);
  exit(1);
}

/* shape_of(x) of an input becomes its number. */
static void print_expression(int i, const char *text) {
  for (const char *at = text; *at;) {
    if (strncmp(at, "shape_of(", 9) != 0 || (at > text && is_word(at[-1]))) {
      putchar(*at++);
      continue;
    }
    char name[64] = "";
    const char *end = behind_brackets(at + 8);
    snprintf(name, sizeof name, "%.*s", (int)(end - at - 10), at + 9);
    printf("(&r->in_shape[%d])", input_number(i, name));
    at = end;
  }
}

static void print_rule(int i, const part *parts) {
  if (parts->kind == 'f') return; /* written in graph/gradient/ */
  printf("\nstatic void %s_rule(rule *r) {\n", rows[i].name);
  print_locals(i, parts);
  for (const part *p = parts; p->kind == 'g'; ++p) {
    int at = input_number(i, p->arg);
    printf("  if (rule_wants(r, %d)) rule_give(r, %d, ", at, at);
    print_expression(i, p->text);
    puts(");");
  }
  puts("}");
}

/* What each gradient reads, where a row says it by input. */
static void print_needs(int i, const part *parts) {
  int count = 0;
  printf("0x%x, 0x%x", needs_in(i, parts), needs_out(i, parts));
  for (const part *p = parts; p->kind == 'g'; ++p) ++count;
  if (parts->kind == 'f' && parts[1].kind == 'a') {
    const part more[] = {{'f', NULL, parts[1].text}, {0, NULL, NULL}};
    printf(", .activation = offsetof(tn_%s_attrs, activation)", rows[i].name);
    printf(", .activated_in = 0x%x, .activated_out = 0x%x", needs_in(i, more), needs_out(i, more));
  }
  if (count < 2) return;
  printf(", NULL, NULL, %d, (const gradient_part[]){", count);
  for (const part *p = parts; p->kind == 'g'; ++p) {
    const part one[] = {*p, {0, NULL, NULL}};
    printf("{%d, 0x%x, 0x%x}, ", input_number(i, p->arg), needs_in(i, one), needs_out(i, one));
  }
  printf("}");
}

void print_gradients(void) {
  printf("%s#include <stddef.h>\n\n#include \"graph/gradient/expressions.h\"\n", banner);
  for (int i = 0; i < num_rows; ++i)
    if (strchr("gf", parts_of(i)->kind)) print_rule(i, parts_of(i));
  puts("\n/* By operator number. */\nconst gradient_rule gradient_rules[] = {");
  for (int i = 0; i < num_rows; ++i) {
    const part *p = parts_of(i);
    printf("  [%d] = {", rows[i].id);
    if (p->kind == 's' || p->kind == 'r') {
      printf(".%s = \"%s\"},\n", p->kind == 's' ? "stops" : "refuses", p->text);
      continue;
    }
    if (p->kind == 'f')
      printf("%s, ", p->arg);
    else
      printf("%s_rule, ", rows[i].name);
    print_needs(i, p);
    puts("},");
  }
  puts("};\nconst uint32_t num_gradient_rules = sizeof gradient_rules / sizeof *gradient_rules;");
}

/* --- operators as expressions --- */

static void print_expression_of(int i) {
  int inputs = count_kind(i, "ip"), outputs = count_kind(i, "oq");
  bool has_attrs = lists[i].attrs->name != NULL;
  printf("\n/* %s */\nstatic inline %s expr_%s(rule *r", rows[i].maths,
         outputs == 1 ? "const tn_tensor *" : "void", rows[i].name);
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_input(a)) printf(", const tn_tensor *%s", a->name);
  if (has_attrs) printf(", const void *attrs");
  for (const arg *a = lists[i].args; a->kind && outputs > 1; ++a)
    if (is_output(a->kind)) printf(", const tn_tensor **%s", a->name);
  printf(") {\n  const tn_tensor *in[] = {");
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_input(a)) printf("%s, ", a->name);
  printf("NULL}, *out[%d] = {NULL};\n  rule_call(r, TN_OP_%s, %s, %d, in, %d, out, ", outputs,
         rows[i].NAME, has_attrs ? "attrs" : "NULL", inputs, outputs);
  int at = 0;
  printf("0u");
  for (const arg *a = lists[i].args; a->kind && outputs > 1; ++a)
    if (is_output(a->kind)) printf(" | (%s ? 0u : 1u << %d)", a->name, at++);
  puts(");");
  at = 0;
  if (outputs == 1) puts("  return out[0];");
  for (const arg *a = lists[i].args; a->kind && outputs > 1; ++a)
    if (is_output(a->kind)) printf("  if (%s) *%s = out[%d];\n", a->name, a->name, at++);
  puts("}");
}

static bool is_expression(int i) { return !last_list(i) && !count_kind(i, "u"); }

void print_expressions(void) {
  printf(
      "%s/*\n * Operators as expressions of a gradient rule's tensors: mul(dy, b) is a tensor of "
      "the rule.\n * Where something failed, in the rule or in an input, all that follows is "
      "NULL and does\n * nothing; operators with several outputs take where to put them, NULL "
      "for those unwanted.\n */\n#ifndef TENON_GRAPH_GRADIENT_EXPRESSIONS_H\n"
      "#define TENON_GRAPH_GRADIENT_EXPRESSIONS_H\n\n#include \"graph/gradient/rule.h\"\n"
      "#include \"tenon/ops.h\"\n",
      banner);
  for (int i = 0; i < num_rows; ++i)
    if (is_expression(i)) print_expression_of(i);
  puts("\n/* Rules that are functions, in graph/gradient/. */");
  for (int i = 0; i < num_rows; ++i)
    if (parts_of(i)->kind == 'f') printf("void %s(rule *r);\n", parts_of(i)->arg);
  puts("\n/* Short names, for rules alone: `r` is the rule. */");
  for (int i = 0; i < num_rows; ++i)
    if (is_expression(i))
      printf("#undef %s\n#define %s(...) expr_%s(r, __VA_ARGS__)\n", rows[i].name, rows[i].name,
             rows[i].name);
  puts("\n#endif");
}

/* --- the list of rules --- */

static const struct {
  const char *written, *read;
} words[] = {
    {", SAME", ""},   {"&attrs->", ""},     {"attrs->", ""},
    {"LN_2", "ln 2"}, {"LN_10", "ln 10"},   {"TWO_BY_ROOT_PI", "2 / sqrt(pi)"},
    {"rule_", ""},    {"shape_of(x)", "x"},
};

/* num(x, 2) is 2: where the 2 begins, NULL where there is no number. */
static const char *number_in(const char *text) {
  if (strncmp(text, "num(", 4) != 0) return NULL;
  const char *comma = strchr(text, ',');
  return comma ? comma + strspn(comma, ", ") : NULL;
}

/* An expression as people read it. */
static void print_readable(const char *text, const char *end) {
  for (const char *begin = text, *next; text < end; text = next) {
    const char *number = text > begin && is_word(text[-1]) ? NULL : number_in(text);
    next = number ? behind_brackets(text + 3) : text + 1;
    if (number) {
      print_readable(number, next - 1);
      continue;
    }
    size_t i = 0, count = sizeof words / sizeof *words;
    while (i < count && strncmp(text, words[i].written, strlen(words[i].written)) != 0) ++i;
    if (i < count) {
      printf("%s", words[i].read);
      next = text + strlen(words[i].written);
    } else {
      putchar(*text);
    }
  }
}

static void print_entry(const page *on, int i) {
  const char *before = ":";
  printf("- [%s](operators/%s.md#%s)", rows[i].name, on->name, rows[i].name);
  for (const part *p = parts_of(i); p->kind; ++p) {
    if (p->kind == 'f') continue; /* its note says it */
    if (p->kind == 'g') {
      printf("%s by %s `", before, p->arg);
      print_readable(p->text, p->text + strlen(p->text));
      printf("`");
    } else {
      printf("%s %s%s", before,
             p->kind == 's'   ? "none: "
             : p->kind == 'r' ? "refused: "
                              : "",
             p->text);
    }
    before = p->kind == 'g' ? "," : ";";
  }
  puts("");
}

static const char rules_head[] =
    "# Gradient rules\n"
    "\n"
    "Printed by `opgen` from `api/gradients/`; `./dev docs` prints it anew. What gradients are "
    "and\n"
    "how they are had says [gradients.md](gradients.md). `dy` is the gradient of the loss by an\n"
    "operator's output y, `dx` that by its input x; where x was broadcast, its gradient is "
    "summed.\n"
    "Calls are of operators, with the attributes of the call; `spread` repeats what a reduction "
    "gave\n"
    "along its axes. *None* is an operator that lets no gradient through, for there is none or it "
    "is\n"
    "0; *refused* one that has a gradient and no rule, so that asking for it is an error.\n";

void print_rules(void) {
  fputs(rules_head, stdout);
  for (int k = 0; k < num_pages; ++k) {
    printf("\n## %s\n\n", pages[k].title);
    for (int i = 0; i < num_rows; ++i)
      if (page_has(&pages[k], &rows[i])) print_entry(&pages[k], i);
  }
}
