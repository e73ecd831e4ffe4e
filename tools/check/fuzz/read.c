/* From the line that case_describe writes back to the case. What the line does not say, where the
 * indexes of a gather point and the like, the operator's own cases do. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

typedef struct reader {
  const char *at;
  char *why;
  size_t size;
  bool failed;
} reader;

static void refuse(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(reader *r, const char *format, ...) {
  va_list list;
  if (r->failed) return;
  r->failed = true;
  va_start(list, format);
  vsnprintf(r->why, r->size, format, list);
  va_end(list);
}

/* The next word, up to a space. */
static bool word(reader *r, char *text, size_t size) {
  while (*r->at == ' ') r->at++;
  size_t length = strcspn(r->at, " ");
  if (!length || length >= size) return false;
  memcpy(text, r->at, length);
  text[length] = 0;
  r->at += length;
  return true;
}

/* "name=value": where the value begins. */
static const char *value_of(char *text) {
  char *equals = strchr(text, '=');
  if (!equals) return NULL;
  *equals = 0;
  return equals + 1;
}

/* --- arguments --- */

static tn_dtype dtype_named(const char *text, size_t length) {
  for (int t = 1; t < TN_DTYPE_SLOTS; t++) {
    const char *name = tn_dtype_name((tn_dtype)t);
    if (strlen(name) == length && !strncmp(name, text, length)) return (tn_dtype)t;
  }
  return TN_DTYPE_NONE;
}

/* "[3,5*]", a star where elements repeat. */
static void read_shape(reader *r, const char *text, case_arg *a) {
  for (text++; *text && *text != ']';) {
    char *end;
    if (a->rank == TN_MAX_RANK) break;
    a->shape[a->rank] = strtoll(text, &end, 10);
    if (end == text || a->shape[a->rank] < 0 || a->shape[a->rank] > 1 << 24) break;
    if (*end == '*') a->expanded |= 1u << a->rank, end++;
    a->rank++;
    text = *end == ',' ? end + 1 : end;
  }
  if (strcmp(text, "]") != 0) refuse(r, "no shape: '%s'", text);
}

static void read_arg(reader *r, op_case *c, uint32_t i) {
  char text[300];
  const tn_arg *arg = &c->op->args[i];
  const char *value = word(r, text, sizeof text) ? value_of(text) : NULL;
  if (!value || strcmp(text, arg->name) != 0) {
    refuse(r, "argument %s of %s is not where it should be", arg->name, c->op->name);
    return;
  }
  size_t length = strcspn(value, "([");
  tn_dtype dtype = dtype_named(value, length);
  bool variable = TN_TYPE_IS_VAR(arg->type) && !TN_TYPE_IS_FIXED(arg->type);
  if (!dtype) refuse(r, "no element type: '%s'", value);
  c->arg[i] = (case_arg){.absent = value[length] == '('};
  if (value[length] == '[') read_shape(r, value + length, &c->arg[i]);
  if (variable && !c->types[TN_TYPE_OPERAND(arg->type)])
    c->types[TN_TYPE_OPERAND(arg->type)] = dtype;
}

/* --- attributes --- */

static const tn_attr *attr_named(const tn_operator *op, const char *name) {
  for (uint32_t i = 0; i < op->num_attrs; i++)
    if (!strcmp(op->attrs[i].name, name)) return &op->attrs[i];
  return NULL;
}

static void read_axes(const char *value, tn_axes *axes) {
  axes->count = 0;
  for (const char *at = value + (*value == '('); *at && *at != ')' && axes->count < TN_MAX_RANK;) {
    char *end;
    axes->axis[axes->count++] = (int32_t)strtol(at, &end, 10);
    at = *end == ',' ? end + 1 : *end == ')' ? end : "";
  }
}

static void read_attr(op_case *c, const tn_attr *a, const char *value) {
  if (a->type == TN_ATTR_AXES) {
    read_axes(value, (tn_axes *)(void *)(c->attrs + a->offset));
    return;
  }
  if (a->type == TN_ATTR_DIMS) ((tn_dims *)(void *)(c->attrs + a->offset))->count = 0;
  int most = a->type == TN_ATTR_PAIR     ? 2
             : a->type == TN_ATTR_TRIPLE ? 3
             : a->type == TN_ATTR_DIMS   ? TN_MAX_RANK
                                         : 1;
  for (int i = 0; *value && i < most; i++) {
    char *end;
    double number = strtod(value, &end);
    if (end == value) return;
    case_set(c, a->name, i, number);
    value = *end == ',' ? end + 1 : end;
  }
}

static void read_rest(reader *r, op_case *c) {
  char text[400];
  while (!r->failed && word(r, text, sizeof text)) {
    const char *value = value_of(text);
    const tn_attr *a = value ? attr_named(c->op, text) : NULL;
    if (!value)
      refuse(r, "'%s' is no name=value", text);
    else if (a)
      read_attr(c, a, value);
    else if (!strcmp(text, "values"))
      c->values = values_named(value);
    else if (!strcmp(text, "seed"))
      c->seed = strtoull(value, NULL, 10);
    else
      refuse(r, "%s has no attribute %s", c->op->name, text);
  }
}

/* --- what the line does not say --- */

static void borrow(void *ctx, const op_case *from) {
  op_case *c = ctx;
  c->variants |= from->variants;
  if (from->op != c->op) return;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (from->arg[i].index && !c->arg[i].index) c->arg[i].index = from->arg[i].index;
}

/* How many tensors the lists of a call have: "x[3]=" is the last. */
static uint32_t list_length(const char *text) {
  uint32_t length = 1;
  for (const char *at = text; (at = strstr(at, "]=")); at++) {
    const char *digit = at;
    while (digit > text && digit[-1] >= '0' && digit[-1] <= '9') digit--;
    uint32_t n = digit < at ? (uint32_t)strtoul(digit, NULL, 10) + 1 : 0;
    if (n > length && n <= 16) length = n;
  }
  return length;
}

static const tn_operator *op_named(tn_runtime *runtime, const char *name) {
  for (size_t i = 0; i < tn_op_count(runtime); i++)
    if (!strcmp(tn_op_at(runtime, i)->name, name)) return tn_op_at(runtime, i);
  return NULL;
}

bool read_case(tn_runtime *runtime, const char *text, op_case *c, char *why, size_t size) {
  reader r = {.at = text, .why = why, .size = size};
  const tn_dtype none[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  char name[80] = "";
  const tn_operator *op = word(&r, name, sizeof name) ? op_named(runtime, name) : NULL;
  if (!op) return refuse(&r, "no operator is called '%s'", name), false;
  op_case read = {.op = op_of_length(op, list_length(text))};
  for (uint32_t i = 0; i < read.op->num_args && !r.failed; i++) read_arg(&r, &read, i);
  if (r.failed) return false;
  *c = case_begin(read.op, none);
  memcpy(c->types, read.types, sizeof c->types);
  memcpy(c->arg, read.arg, sizeof c->arg);
  c->variants = 0;
  c->invented = true;
  read_rest(&r, c);
  if (!r.failed) cases_emit(op, c->types, (case_sink){borrow, c});
  return !r.failed;
}
