/*
 * Making what fails smaller: one thing at a time is made plainer, smaller or left out, and stays
 * so where the rest still fails. Every try is a run of its own, which may crash as the first did.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

typedef struct shrinking {
  char *text, *why;
  size_t why_size;
  uint64_t until_ns;
  shrink_try_fn *fails;
  void *ctx;
} shrinking;

/* Keeps the text where it still fails. */
static bool still(shrinking *s, const char *text) {
  char why[1200];
  if (!strcmp(text, s->text) || clock_ns() > s->until_ns) return false;
  if (!s->fails(s->ctx, text, why, sizeof why)) return false;
  snprintf(s->text, FUZZ_TEXT, "%s", text);
  snprintf(s->why, s->why_size, "%s", why);
  return true;
}

/* --- a case --- */

static bool try_case(shrinking *s, op_case *kept, const op_case *smaller) {
  char text[FUZZ_TEXT];
  case_describe(smaller, text, sizeof text);
  if (!still(s, text)) return false;
  *kept = *smaller;
  return true;
}

static bool has_shape(const op_case *c, uint32_t arg) {
  return !c->arg[arg].absent && !arg_is_output(&c->op->args[arg]);
}

/* Everywhere, and in attributes that are shapes. */
static bool try_size(shrinking *s, op_case *c, int64_t from, int64_t to) {
  op_case smaller = *c;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank; k++)
      if (c->arg[i].shape[k] == from) smaller.arg[i].shape[k] = to;
  for (uint32_t i = 0; i < c->op->num_attrs; i++)
    for (int k = 0; c->op->attrs[i].type == TN_ATTR_DIMS && k < TN_MAX_RANK; k++) {
      tn_dims *dims = (tn_dims *)(void *)(smaller.attrs + c->op->attrs[i].offset);
      if (k < dims->count && dims->dim[k] == from) dims->dim[k] = to;
    }
  return to < from && try_case(s, c, &smaller);
}

/* The least of the first few sizes that still fails, else halves and less. */
static bool shrink_size(shrinking *s, op_case *c, int64_t size) {
  for (int64_t to = 1; to <= 64 && to < size; to++)
    if (try_size(s, c, size, to)) return true;
  return try_size(s, c, size, size / 2) || try_size(s, c, size, size * 3 / 4) ||
         try_size(s, c, size, size - 1);
}

/* The sizes of a case, each once. */
static uint32_t sizes_of(const op_case *c, int64_t *sizes, uint32_t most) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank; k++) {
      uint32_t at = 0;
      while (at < count && sizes[at] != c->arg[i].shape[k]) at++;
      if (at == count && count < most && c->arg[i].shape[k] > 1)
        sizes[count++] = c->arg[i].shape[k];
    }
  return count;
}

static bool shrink_sizes(shrinking *s, op_case *c) {
  int64_t sizes[32];
  uint32_t count = sizes_of(c, sizes, 32);
  bool any = false;
  for (uint32_t i = 0; i < count; i++) any |= shrink_size(s, c, sizes[i]);
  return any;
}

/* One axis of one argument alone. */
static bool shrink_axes(shrinking *s, op_case *c) {
  bool any = false;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank; k++) {
      op_case smaller = *c;
      if (c->arg[i].shape[k] < 2) continue;
      smaller.arg[i].shape[k] = 1;
      any |= try_case(s, c, &smaller);
    }
  return any;
}

/* All arguments without their first axis, where that is 1. */
static bool shrink_rank(shrinking *s, op_case *c) {
  op_case smaller = *c;
  bool any = false;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    case_arg *a = &smaller.arg[i];
    if (!has_shape(c, i) || a->rank == 0 || a->shape[0] != 1) continue;
    memmove(a->shape, a->shape + 1, sizeof *a->shape * (size_t)--a->rank);
    a->expanded >>= 1;
    any = true;
  }
  return any && try_case(s, c, &smaller);
}

/* The first two axes as one, which then may be shorter than any product of two. */
static bool shrink_flat(shrinking *s, op_case *c) {
  op_case smaller = *c;
  bool any = false;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    case_arg *a = &smaller.arg[i];
    if (!has_shape(c, i) || a->rank < 2 || a->expanded) continue;
    a->shape[1] *= a->shape[0];
    memmove(a->shape, a->shape + 1, sizeof *a->shape * (size_t)--a->rank);
    any = true;
  }
  return any && try_case(s, c, &smaller);
}

static bool make_plain(shrinking *s, op_case *c) {
  bool any = false;
  op_case smaller = *c;
  const op_case fresh = case_begin(c->op, c->types);
  for (uint32_t i = 0; i < c->op->num_args; i++) smaller.arg[i].expanded = 0;
  any |= try_case(s, c, &smaller);
  smaller = *c;
  memcpy(smaller.attrs, fresh.attrs, sizeof smaller.attrs);
  any |= try_case(s, c, &smaller);
  smaller = *c;
  smaller.values = VALUES_PLAIN;
  any |= try_case(s, c, &smaller);
  smaller = *c;
  smaller.seed = 1;
  return try_case(s, c, &smaller) || any;
}

/* Attribute by attribute, where not all of them can have their defaults. */
static bool shrink_attributes(shrinking *s, op_case *c) {
  bool any = false;
  const op_case fresh = case_begin(c->op, c->types);
  for (uint32_t i = 0; i < c->op->num_attrs; i++) {
    const tn_attr *a = &c->op->attrs[i];
    op_case smaller = *c;
    if (a->type == TN_ATTR_AXES || a->type == TN_ATTR_DIMS) continue;
    for (int k = 0; k < 3; k++) case_set(&smaller, a->name, k, case_get(&fresh, a->name, k));
    any |= try_case(s, c, &smaller);
  }
  return any;
}

static void shrink_case(shrinking *s, op_case *c) {
  bool any = true;
  make_plain(s, c);
  while (any && clock_ns() < s->until_ns) {
    any = shrink_sizes(s, c);
    any |= shrink_axes(s, c);
    any |= shrink_rank(s, c);
    any |= shrink_flat(s, c);
    any |= shrink_attributes(s, c);
  }
  make_plain(s, c);
}

/* --- a chain --- */

static void shrink_chain(shrinking *s, chain *c) {
  char text[FUZZ_TEXT];
  bool any = true;
  while (any && clock_ns() < s->until_ns) {
    any = false;
    for (uint32_t i = c->count; i-- > 0;) {
      chain less;
      if (i >= c->count || !chain_without(c, i, &less)) continue;
      chain_write(&less, text, sizeof text);
      if (!still(s, text)) continue;
      *c = less;
      any = true;
    }
  }
}

/* Lines on the default stream, made by plain calls, of smaller tensors. */
static void flatten_chain(shrinking *s, chain *c) {
  char text[FUZZ_TEXT];
  for (uint32_t i = 0; i < c->count; i++)
    for (int what = 0; what < 2; what++) {
      chain plainer = *c;
      if (what)
        plainer.line[i].stream = 0;
      else
        plainer.line[i].way = 0;
      chain_write(&plainer, text, sizeof text);
      if (still(s, text)) *c = plainer;
    }
}

static bool try_chain_size(shrinking *s, chain *c, int64_t from, int64_t to) {
  char text[FUZZ_TEXT];
  chain smaller = *c;
  for (uint32_t i = 0; i < c->count; i++)
    for (int k = 0; k < c->line[i].rank; k++)
      if (c->line[i].shape[k] == from) smaller.line[i].shape[k] = to;
  chain_write(&smaller, text, sizeof text);
  if (!still(s, text)) return false;
  *c = smaller;
  return true;
}

static void shrink_chain_sizes(shrinking *s, chain *c) {
  for (uint32_t i = 0; i < c->count; i++)
    for (int k = 0; k < c->line[i].rank; k++)
      for (int64_t to = 1; to < c->line[i].shape[k] && to <= 8; to++)
        if (try_chain_size(s, c, c->line[i].shape[k], to)) break;
}

void shrink_text(tn_runtime *runtime, char *text, char *why, size_t why_size, uint64_t until_ns,
                 shrink_try_fn *fails, void *ctx) {
  shrinking s = {text, why, why_size, until_ns, fails, ctx};
  char unread[200];
  if (chain_is_text(text)) {
    chain c;
    if (!chain_read(text, &c, unread, sizeof unread)) return;
    shrink_chain(&s, &c);
    flatten_chain(&s, &c);
    shrink_chain_sizes(&s, &c);
  } else {
    op_case c;
    if (read_case(runtime, text, &c, unread, sizeof unread)) shrink_case(&s, &c);
  }
}
