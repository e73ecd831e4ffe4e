/*
 * tenon check --complete: what operators lack before they can be checked at all. An
 * operator wants a sentence and a formula, a reference kernel for every element type that
 * it takes, cases for every one of them with a typical one among them, and a size at which
 * the bench times it.
 */
#include <stdio.h>
#include <string.h>

#include "../plain.h"
#include "check.h"

typedef struct found {
  uint64_t cases, typical;
  tn_dtype_set seen[TN_MAX_TYPE_VARS];
} found;

static void note_case(void *ctx, const op_case *c) {
  found *f = ctx;
  f->cases++;
  f->typical += c->typical;
  for (int i = 0; i < TN_MAX_TYPE_VARS; i++) f->seen[i] |= TN_SET(c->types[i]);
}

/* Emits for every choice of types from variable `var` on. */
static void each(const tn_operator *op, int var, tn_dtype *types, int64_t large, found *f) {
  if (var == TN_MAX_TYPE_VARS || !op->types[var]) {
    case_sink sink = {note_case, f};
    large ? sizes_emit(op, types, large, sink) : cases_emit(op, types, sink);
    return;
  }
  for (int t = 1; t < TN_DTYPE_SLOTS; t++) {
    if (!(op->types[var] >> t & 1)) continue;
    types[var] = (tn_dtype)t;
    each(op, var + 1, types, large, f);
  }
  types[var] = TN_DTYPE_NONE;
}

static found look(const tn_operator *op, int64_t large) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  found f = {.cases = 0};
  each(op, 0, types, large, &f);
  return f;
}

static uint64_t lacks(const tn_operator *op, bool it_does, const char *what) {
  if (it_does) printf("%s lacks %s\n", plain(op->name), what);
  return it_does;
}

static uint64_t lacks_types(const tn_operator *op, tn_dtype_set set, const char *what) {
  char text[200];
  if (set == 0) return 0;
  dtypes_text(set, text, sizeof text);
  printf("%s lacks %s for %s\n", plain(op->name), what, text);
  return 1;
}

static tn_dtype_set referenced(const workbench *w, const tn_operator *op) {
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_dtype_set set = 0;
  for (int t = 0; t < TN_DTYPE_SLOTS; t++)
    if (tn_kernel_find(w->reference, op->id, (tn_dtype)t, 0, &info) == TN_OK) set |= TN_SET(t);
  return set;
}

static uint64_t lacks_docs(const tn_operator *op) {
  uint64_t count = lacks(op, !op->doc || !*op->doc, "a sentence of what it does");
  count += lacks(op, !op->maths || !*op->maths, "its maths");
  for (uint32_t i = 0; i < op->num_args; i++)
    count += lacks(op, !op->args[i].doc || !*op->args[i].doc, op->args[i].name);
  for (uint32_t i = 0; i < op->num_attrs; i++)
    count += lacks(op, !op->attrs[i].doc || !*op->attrs[i].doc, op->attrs[i].name);
  return count;
}

uint64_t complete_operator(const workbench *w, const tn_operator *op) {
  tn_dtype_set all = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE);
  found cases = look(op, 0), sizes = look(op, 1 << 16);
  uint64_t count = lacks_docs(op);
  count += lacks_types(op, all & ~referenced(w, op), "a reference kernel");
  for (int i = 0; i < TN_MAX_TYPE_VARS; i++)
    count += lacks_types(op, (i ? op->types[i] : all) & ~cases.seen[i], "a case");
  count += lacks(op, !cases.typical, "a typical case, which bad calls start from");
  count += lacks(op, !sizes.cases, "a size for the bench");
  return count;
}
