/* Cases: their attributes by name, and how they read in a message. */
#include "op_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

static const tn_attr *attr_find(const tn_operator *op, const char *name) {
  for (uint32_t i = 0; i < op->num_attrs; i++)
    if (!strcmp(op->attrs[i].name, name)) return &op->attrs[i];
  return NULL;
}

static void attr_store(unsigned char *attrs, const tn_attr *a, int index, double value) {
  unsigned char *at = attrs + a->offset;
  switch (a->type) {
  case TN_ATTR_I64:
    *(int64_t *)(void *)at = (int64_t)value;
    break;
  case TN_ATTR_U64:
    *(uint64_t *)(void *)at = (uint64_t)value;
    break;
  case TN_ATTR_F64:
    *(double *)(void *)at = value;
    break;
  case TN_ATTR_FLAG:
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    *(int32_t *)(void *)at = (int32_t)value;
    break;
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    if (index < (a->type == TN_ATTR_PAIR ? 2 : 3)) ((int64_t *)(void *)at)[index] = (int64_t)value;
    break;
  case TN_ATTR_DIMS: {
    tn_dims *dims = (void *)at;
    dims->dim[index] = (int64_t)value;
    if (dims->count <= index) dims->count = index + 1;
    break;
  }
  default:
    break;
  }
}

static double attr_load(const unsigned char *attrs, const tn_attr *a, int index) {
  const unsigned char *at = attrs + a->offset;
  switch (a->type) {
  case TN_ATTR_I64:
    return (double)*(const int64_t *)(const void *)at;
  case TN_ATTR_U64:
    return (double)*(const uint64_t *)(const void *)at;
  case TN_ATTR_F64:
    return *(const double *)(const void *)at;
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    return (double)((const int64_t *)(const void *)at)[index];
  case TN_ATTR_DIMS:
    return (double)((const tn_dims *)(const void *)at)->dim[index];
  default:
    return *(const int32_t *)(const void *)at;
  }
}

/* A schema written out, with the names of its arguments. */
typedef struct written_out {
  struct written_out *next;
  const tn_operator *from;
  uint32_t length;
  tn_operator op;
  tn_arg args[CASE_ARGS];
  char names[CASE_ARGS][32];
} written_out;

static void write_out(written_out *w) {
  uint32_t n = 0;
  w->op = *w->from;
  for (uint32_t i = 0; i < w->from->num_args; i++) {
    const tn_arg *a = &w->from->args[i];
    bool list = a->flags & TN_ARG_LIST;
    for (uint32_t k = 0; k < (list ? w->length : 1) && n < CASE_ARGS; k++, n++) {
      w->args[n] = *a;
      if (!list) continue;
      snprintf(w->names[n], sizeof w->names[n], "%s[%u]", a->name, k);
      w->args[n].name = w->names[n];
    }
  }
  w->op.args = w->args;
  w->op.num_args = n;
}

const tn_operator *op_of_length(const tn_operator *op, uint32_t length) {
  static written_out *all;
  bool lists = false;
  for (uint32_t i = 0; i < op->num_args; i++) lists = lists || op->args[i].flags & TN_ARG_LIST;
  if (!lists) return op;
  for (written_out *w = all; w; w = w->next)
    if (w->from == op && w->length == length) return &w->op;
  written_out *w = calloc(1, sizeof *w);
  if (!w) abort();
  *w = (written_out){.next = all, .from = op, .length = length};
  write_out(w);
  all = w;
  return &w->op;
}

/* The type that an attribute of kind dtype says: the first output's. */
static tn_dtype asked_dtype(const tn_operator *op, const tn_dtype *types) {
  uint32_t i = 0;
  while (i + 1 < op->num_args && !arg_is_output(&op->args[i])) i++;
  return types[op->args[i].type & (TN_MAX_TYPE_VARS - 1)];
}

op_case case_begin(const tn_operator *op, const tn_dtype *types) {
  op_case c = {.op = op, .variants = VARIANTS_ALL, .seed = op->id * 1000u};
  memcpy(c.types, types, sizeof c.types);
  uint32_t size = op->attrs_size;
  memcpy(c.attrs, &size, sizeof size);
  for (uint32_t i = 0; i < op->num_attrs; i++)
    if (op->attrs[i].type == TN_ATTR_TENSOR) c.variants |= VARIANT_TOLD;
  for (uint32_t i = 0; i < op->num_attrs; i++)
    for (int k = 0; k < 3 && op->attrs[i].type != TN_ATTR_DIMS; k++)
      attr_store(c.attrs, &op->attrs[i], k, op->attrs[i].default_value);
  if (case_has(&c, "dtype")) case_set(&c, "dtype", 0, asked_dtype(op, types));
  case_widen(&c, 0);
  return c;
}

void case_widen(op_case *c, unsigned round) {
  tn_dtype choices[TN_F64 + 1];
  unsigned count = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    const tn_attr *result = case_result(c, i);
    if (!result) continue;
    const tn_dtype own = c->types[c->op->args[i].type & (TN_MAX_TYPE_VARS - 1)];
    if (tn_dtype_widens(own, own)) choices[count++] = TN_DTYPE_NONE;
    for (int d = TN_BOOL; d <= TN_F64; d++)
      if ((tn_dtype)d != own && tn_dtype_widens(own, (tn_dtype)d)) choices[count++] = (tn_dtype)d;
    case_set(c, result->name, 0, choices[round % count]);
  }
}

void case_shape(op_case *c, uint32_t arg, int32_t rank, const int64_t *shape) {
  c->arg[arg].rank = rank;
  for (int32_t i = 0; i < rank; i++) c->arg[arg].shape[i] = shape[i];
}

void case_set(op_case *c, const char *attr, int index, double value) {
  const tn_attr *a = attr_find(c->op, attr);
  if (a) attr_store(c->attrs, a, index, value);
}

void case_set_pair(op_case *c, const char *attr, const int64_t *pair) {
  case_set(c, attr, 0, (double)pair[0]);
  case_set(c, attr, 1, (double)pair[1]);
}

bool case_has(const op_case *c, const char *attr) { return attr_find(c->op, attr) != NULL; }

double case_get(const op_case *c, const char *attr, int index) {
  const tn_attr *a = attr_find(c->op, attr);
  return a ? attr_load(c->attrs, a, index) : 0;
}

tn_axes *case_axes(op_case *c) {
  const tn_attr *a = attr_find(c->op, "axes");
  return a ? (tn_axes *)(void *)(c->attrs + a->offset) : NULL;
}

bool arg_is_input(const tn_arg *arg) {
  return arg->kind == TN_ARG_IN || arg->kind == TN_ARG_OPTIONAL_IN;
}

bool arg_is_output(const tn_arg *arg) {
  return arg->kind == TN_ARG_OUT || arg->kind == TN_ARG_OPTIONAL_OUT;
}

const tn_attr *case_result(const op_case *c, uint32_t arg) {
  if (!arg_is_output(&c->op->args[arg]) || (arg && arg_is_output(&c->op->args[arg - 1])))
    return NULL;
  for (uint32_t i = 0; i < c->op->num_attrs; i++)
    if (c->op->attrs[i].type == TN_ATTR_RESULT) return &c->op->attrs[i];
  return NULL;
}

tn_dtype case_dtype(const op_case *c, uint32_t arg) {
  const tn_attr *result = case_result(c, arg);
  if (result && attr_load(c->attrs, result, 0) != TN_DTYPE_NONE)
    return (tn_dtype)attr_load(c->attrs, result, 0);
  uint8_t type = c->op->args[arg].type;
  if (TN_TYPE_IS_FIXED(type)) return (tn_dtype)TN_TYPE_OPERAND(type);
  tn_dtype bound = c->types[TN_TYPE_OPERAND(type)];
  return TN_TYPE_IS_WIDE(type) ? tn_dtype_wide(bound) : bound;
}

/* Wraps only where sizes are absurd on purpose, beside a 0. */
int64_t case_elements(const case_arg *arg) {
  uint64_t n = 1;
  for (int32_t i = 0; i < arg->rank; i++) n *= (uint64_t)arg->shape[i];
  return (int64_t)n;
}

uint32_t op_inputs(const tn_operator *op) {
  uint32_t n = 0;
  while (n < op->num_args && arg_is_input(&op->args[n])) n++;
  return n;
}

typedef struct writer {
  char *text;
  size_t size, used;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(w->text + w->used, w->size - w->used, format, list);
  va_end(list);
  if (n > 0) w->used = w->used + (size_t)n < w->size ? w->used + (size_t)n : w->size - 1;
}

static void put_arg(writer *w, const op_case *c, uint32_t i) {
  const case_arg *a = &c->arg[i];
  put(w, " %s=%s", c->op->args[i].name, tn_dtype_name(case_dtype(c, i)));
  if (a->absent) put(w, "(absent)");
  if (a->absent || arg_is_output(&c->op->args[i])) return;
  put(w, "[");
  for (int32_t k = 0; k < a->rank; k++) {
    put(w, "%s%lld", k ? "," : "", (long long)a->shape[k]);
    if (a->expanded >> k & 1) put(w, "*");
  }
  put(w, "]");
}

/* Counts may be absurd on purpose. */
static int32_t listed(int32_t count) { return count > TN_MAX_RANK ? TN_MAX_RANK : count; }

static void put_attr(writer *w, const op_case *c, const tn_attr *a) {
  if (a->type == TN_ATTR_TENSOR) return; /* the variant says it */
  if (a->type == TN_ATTR_AXES) {
    const tn_axes *axes = (const tn_axes *)(const void *)(c->attrs + a->offset);
    put(w, " %s=(", a->name);
    for (int32_t i = 0; i < listed(axes->count); i++) put(w, "%s%d", i ? "," : "", axes->axis[i]);
    put(w, ")");
    return;
  }
  int count = a->type == TN_ATTR_PAIR ? 2 : a->type == TN_ATTR_TRIPLE ? 3 : 1;
  if (a->type == TN_ATTR_DIMS)
    count = listed(((const tn_dims *)(const void *)(c->attrs + a->offset))->count);
  put(w, " %s=", a->name);
  for (int i = 0; i < count; i++) put(w, "%s%.17g", i ? "," : "", attr_load(c->attrs, a, i));
}

/* Words, which a line that is read again has between spaces. */
static const char *const value_names[VALUE_KINDS] = {
    "plain",      "range", "exp",       "wide",     "special", "sparse",   "bits",
    "ties",       "far",   "logits",    "huge",     "tiny",    "denormal", "cancel",
    "two-scales", "fine",  "near-most", "positive", "weighted"};

value_kind values_named(const char *name) {
  for (unsigned i = 0; i < sizeof value_names / sizeof *value_names; i++)
    if (!strcmp(value_names[i], name)) return (value_kind)i;
  return VALUES_PLAIN;
}

void case_describe(const op_case *c, char *text, size_t size) {
  writer w = {text, size, 0};
  put(&w, "%s", c->op->name);
  for (uint32_t i = 0; i < c->op->num_args; i++) put_arg(&w, c, i);
  for (uint32_t i = 0; i < c->op->num_attrs; i++) put_attr(&w, c, &c->op->attrs[i]);
  put(&w, " values=%s seed=%llu", value_names[c->values], (unsigned long long)c->seed);
}

static bool is_default(const op_case *c, const tn_attr *a) {
  const unsigned char *at = c->attrs + a->offset;
  if (a->type == TN_ATTR_AXES) return ((const tn_axes *)(const void *)at)->count == 0;
  if (a->type == TN_ATTR_DIMS) return ((const tn_dims *)(const void *)at)->count == 0;
  if (a->type == TN_ATTR_TENSOR) return true; /* as put_attr */
  const int count = a->type == TN_ATTR_PAIR ? 2 : a->type == TN_ATTR_TRIPLE ? 3 : 1;
  for (int i = 0; i < count; i++)
    if (attr_load(c->attrs, a, i) != a->default_value) return false;
  return true;
}

void case_describe_given(const op_case *c, char *text, size_t size) {
  writer w = {text, size, 0};
  *text = 0;
  for (uint32_t i = 0; i < c->op->num_attrs; i++)
    if (!is_default(c, &c->op->attrs[i])) put_attr(&w, c, &c->op->attrs[i]);
}

const char *variant_name(uint32_t variant) {
  static const char *const names[VARIANTS] = {
      "made",          "given",    "permuted", "sliced",         "in place", "in place, sliced",
      "channels last", "prepared", "trapped",  "from the device"};
  for (int i = 0; i < VARIANTS; i++)
    if (variant == 1u << i) return names[i];
  return "?";
}
