/*
 * Calls that must fail and change nothing: a good call, spoiled in one place at a time.
 * Whatever is spoiled, the status is no success, the message names the operator, tensors
 * that were given hold what they held, and outputs that were to be made stay NULL.
 */
#include "bad_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/number.h"
#include "placed.h"

typedef struct bad {
  const op_case *c;
  tn_device *device, *other;
  tally *tally;
  uint32_t num_in;
  tn_tensor *good[CASE_ARGS]; /* every argument, outputs given and poisoned */
  tn_tensor *arg[CASE_ARGS];  /* what the next call passes */
  _Alignas(16) unsigned char attrs[256];
  const char *what; /* how the call is spoiled, for messages */
} bad;

static tn_call call_of(const bad *b, const tn_tensor **in, tn_tensor **out) {
  uint32_t num_args = b->c->op->num_args;
  for (uint32_t i = 0; i < b->num_in; i++) in[i] = b->arg[i];
  for (uint32_t i = b->num_in; i < num_args; i++) out[i - b->num_in] = b->arg[i];
  return (tn_call){.struct_size = sizeof(tn_call),
                   .op = b->c->op->id,
                   .in = in,
                   .out = out,
                   .attrs = b->c->op->num_attrs ? b->attrs : NULL,
                   .num_in = (uint16_t)b->num_in,
                   .num_out = (uint16_t)(num_args - b->num_in)};
}

static void complain(bad *b, const char *arg, const char *why) {
  char text[600];
  case_describe(b->c, text, sizeof text);
  tally_fail(b->tally, "bad call (%s%s%s): %s: %s", b->what, *arg ? " " : "", arg, text, why);
}

static void *bytes_of(const tn_tensor *t) {
  void *bytes = malloc(tn_tensor_bytes(t) + 1);
  if (tn_tensor_to_host(t, bytes, tn_tensor_bytes(t)) != TN_OK)
    memset(bytes, 0, tn_tensor_bytes(t));
  return bytes;
}

static void begin(bad *b, const char *what) {
  b->what = what;
  memcpy(b->arg, b->good, sizeof b->arg);
  memcpy(b->attrs, b->c->attrs, sizeof b->attrs);
}

static void check_status(bad *b, const char *arg, tn_status status) {
  if (status == TN_OK)
    complain(b, arg, "succeeded");
  else if (!strstr(tn_last_error(), b->c->op->name)) {
    char why[400];
    snprintf(why, sizeof why, "message lacks the operator's name: %.300s", tn_last_error());
    complain(b, arg, why);
  }
}

/* Makes the call as it is spoiled now. */
static void expect_failure(bad *b, const char *arg) {
  const tn_tensor *in[CASE_ARGS] = {0};
  tn_tensor *out[CASE_ARGS] = {0};
  void *before[CASE_ARGS] = {0};
  char how[100];
  snprintf(how, sizeof how, "bad call (%s%s%s)", b->what, *arg ? " " : "", arg);
  if (!tally_begin(b->tally, b->c, how)) return;
  tn_call call = call_of(b, in, out);
  for (uint32_t i = 0; i < call.num_out; i++)
    if (out[i]) before[i] = bytes_of(out[i]);
  check_status(b, arg, tn_invoke(&call));
  tn_prepared *prepared = NULL;
  check_status(b, arg, tn_prepare(&call, &prepared));
  tn_prepared_release(prepared);
  for (uint32_t i = 0; i < call.num_out; i++) {
    tn_tensor *given = b->arg[b->num_in + i];
    if (out[i] != given)
      complain(b, arg, "changed an output's handle");
    else if (given) {
      void *after = bytes_of(given);
      if (memcmp(before[i], after, tn_tensor_bytes(given))) complain(b, arg, "changed an output");
      free(after);
    }
    free(before[i]);
  }
  b->tally->bad_calls++;
}

static const char *name_of(const bad *b, uint32_t i) { return b->c->op->args[i].name; }

static bool is_optional(const tn_arg *a) {
  return a->kind == TN_ARG_OPTIONAL_IN || a->kind == TN_ARG_OPTIONAL_OUT;
}

/* Calls with argument `i` replaced; the tensor is released. */
static void with_argument(bad *b, const char *what, uint32_t i, tn_tensor *t) {
  if (!t) return;
  begin(b, what);
  b->arg[i] = t;
  expect_failure(b, name_of(b, i));
  tn_tensor_release(t);
}

/* A poisoned tensor. */
static tn_tensor *tensor_like(tn_device *device, tn_dtype dtype, int32_t rank,
                              const int64_t *shape) {
  placed p;
  if (placed_make(device, dtype, rank, shape, LAYOUT_ROW_MAJOR, 0, NULL, &p) != TN_OK) return NULL;
  tn_tensor_release(p.base);
  return p.view;
}

static void missing(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_args; i++) {
    const tn_arg *a = &b->c->op->args[i];
    if (is_optional(a) || a->kind == TN_ARG_OUT) continue;
    if (a->flags & TN_ARG_OR_ONE && b->c->arg[i].rank == 0) continue;
    begin(b, "NULL");
    b->arg[i] = NULL;
    expect_failure(b, a->name);
  }
}

/* Whether other arguments have the type of argument `arg`, whatever the attributes say. */
static bool var_is_shared(const op_case *c, uint32_t arg) {
  const tn_arg *args = c->op->args;
  uint32_t users = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    users += args[i].type == args[arg].type && !case_result(c, i);
  return users > 1;
}

/* A type that argument `i` cannot have beside the others. */
static tn_dtype wrong_dtype(const bad *b, uint32_t i) {
  const tn_operator *op = b->c->op;
  uint8_t type = op->args[i].type;
  bool follows = !TN_TYPE_IS_VAR(type); /* fixed, or from another argument's */
  tn_dtype_set allowed = follows ? TN_SET(case_dtype(b->c, i)) : op->types[type];
  for (int d = TN_BOOL; d < TN_DTYPE_SLOTS && tn_dtype_size((tn_dtype)d); d++) {
    bool fits = allowed >> d & 1;
    bool clash = var_is_shared(b->c, i) || (arg_is_output(&op->args[i]) && case_has(b->c, "dtype"));
    if ((tn_dtype)d != case_dtype(b->c, i) && (!fits || clash)) return (tn_dtype)d;
  }
  return TN_DTYPE_NONE;
}

static void wrong_dtypes(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_args; i++) {
    tn_dtype dtype = wrong_dtype(b, i);
    const tn_tensor *g = b->good[i];
    if (dtype)
      with_argument(b, "wrong dtype", i,
                    tensor_like(b->device, dtype, tn_tensor_rank(g), tn_tensor_shape(g)));
  }
}

/* Whether the operator takes any shape for the argument, whatever the others have. */
static bool shape_is_free(const tn_operator *op, uint32_t i) {
  if (op->shape == TN_SHAPE_CUSTOM) return !arg_is_output(&op->args[i]);
  return op->shape == TN_SHAPE_SCALARS && op->args[i].flags & TN_ARG_LIST;
}

/* Arguments that others need only be no larger than. */
static bool may_be_larger(const bad *b, uint32_t i) {
  uint32_t rule = b->c->op->shape;
  return (rule == TN_SHAPE_TAKE_ALONG_AXIS && i == 0) || (rule == TN_SHAPE_SCATTER && i == 2);
}

static void wrong_shapes(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_args; i++) {
    if (shape_is_free(b->c->op, i)) continue;
    const tn_tensor *g = b->good[i];
    int32_t rank = tn_tensor_rank(g);
    int64_t shape[TN_MAX_RANK + 1];
    if (b->c->op->num_args == 1) return;
    for (int32_t k = 0; k < rank; k++) shape[k] = tn_tensor_shape(g)[k];
    shape[rank] = 7;
    with_argument(b, "extra axis", i, tensor_like(b->device, tn_tensor_dtype(g), rank + 1, shape));
    for (int32_t k = 0; k < rank; k++) shape[k]++;
    if (rank && !may_be_larger(b, i))
      with_argument(b, "larger", i, tensor_like(b->device, tn_tensor_dtype(g), rank, shape));
  }
}

/* Input i and output k in one piece of memory, `shift` elements apart. */
static void overlap(bad *b, uint32_t i, uint32_t k, int64_t shift) {
  const tn_tensor *in = b->good[i], *out = b->good[k];
  int64_t a = tn_tensor_elements(in), n = tn_tensor_elements(out), whole = shift + (a > n ? a : n);
  tn_tensor *base = tensor_like(b->device, tn_tensor_dtype(in), 1, &whole);
  tn_tensor *part[2] = {0}, *view[2] = {0};
  bool ok =
      base && tn_tensor_slice(base, 0, 0, a, 1, &part[0]) == TN_OK &&
      tn_tensor_slice(base, 0, shift, shift + n, 1, &part[1]) == TN_OK &&
      tn_tensor_reshape(part[0], tn_tensor_rank(in), tn_tensor_shape(in), &view[0]) == TN_OK &&
      tn_tensor_reshape(part[1], tn_tensor_rank(out), tn_tensor_shape(out), &view[1]) == TN_OK;
  if (ok) {
    begin(b, shift ? "partial overlap" : "overlap");
    b->arg[i] = view[0];
    b->arg[k] = view[1];
    expect_failure(b, name_of(b, k));
  }
  for (int v = 0; v < 2; v++) {
    tn_tensor_release(part[v]);
    tn_tensor_release(view[v]);
  }
  tn_tensor_release(base);
}

static void overlaps(bad *b) {
  const tn_operator *op = b->c->op;
  for (uint32_t i = 0; i < op->num_args; i++)
    for (uint32_t k = b->num_in; k < op->num_args; k++) {
      bool same = i < k && tn_tensor_dtype(b->good[i]) == tn_tensor_dtype(b->good[k]);
      if (same && tn_tensor_elements(b->good[i]) > 1) overlap(b, i, k, 1);
      if (same && (i >= b->num_in || !(op->flags & TN_OPERATOR_ELEMENTWISE))) overlap(b, i, k, 0);
    }
}

/* Outputs in which elements coincide. */
static void repeated_outputs(bad *b) {
  for (uint32_t k = b->num_in; k < b->c->op->num_args; k++) {
    const tn_tensor *g = b->good[k];
    int64_t one[TN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    tn_tensor *view = NULL;
    if (tn_tensor_elements(g) < 2) continue;
    tn_tensor *t = tensor_like(b->device, tn_tensor_dtype(g), tn_tensor_rank(g), one);
    if (t && tn_tensor_expand(t, tn_tensor_rank(g), tn_tensor_shape(g), &view) == TN_OK)
      with_argument(b, "stride 0", k, view);
    tn_tensor_release(t);
  }
}

static void two_devices(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_args && b->other && b->c->op->num_args > 1; i++) {
    const tn_tensor *g = b->good[i];
    with_argument(b, "another device", i,
                  tensor_like(b->other, tn_tensor_dtype(g), tn_tensor_rank(g), tn_tensor_shape(g)));
  }
}

typedef struct bad_attr {
  const char *name;
  double value;
  uint32_t except; /* a shape rule for which the value is right */
} bad_attr;

static const bad_attr bad_attrs[] = {
    {"axis", 7, 0},
    {"axis", -8, 0},
    {"stride", -1, 0},
    {"stride", -1e18, 0},
    {"padding", -1, 0},
    {"dilation", 0, 0},
    {"dilation", -2, 0},
    {"groups", 0, 0},
    {"groups", -1, 0},
    {"groups", 5, 0},
    {"p", 1, TN_SHAPE_GIVEN_RANDOM},
    {"p", -0.25, 0},
    {"p", 2, 0},
    {"p", NAN, 0},
    {"reduction", 3, 0},
    {"reduction", -1, 0},
    {"dtype", 31, 0},
    {"dtype", -1, 0},
    {"std", -1, 0},
    {"low", 1e9, 0},
    {"step", 0, 0},
    {"kernel", 0, 0},
    {"kernel", -3, 0},
    {"size", -1, 0},
    {"size", 77, 0},
    {"kernel", 1e9, 0},
    {"padding", 4e18, 0},
    {"dilation", 4e18, 0},
    {"stride", 0, TN_SHAPE_POOL2D},
    {"mode", 77, 0},
    {"mode", -1, 0},
    {"before", -1, 0},
    {"before", 3, 0},
    {"after", -1, 0},
    {"after", 9e18, 0},
    {"reps", -1, 0},
    {"reps", 4e18, 0},
    {"repeats", -1, 0},
    {"repeats", 4e18, 0},
    {"classes", -1, 0},
    {"classes", 4e18, 0},
    {"ord", 3, 0},
    {"ord", NAN, 0},
    {"ord", 0.5, 0},
    {"output", 0, 0},
    {"output", -1, 0},
    {"output_padding", -1, 0},
    {"ceil_mode", 2, 0},
    {"output_padding", 77, 0},
};

/* Names that operators of plugins may have for something else. */
static const bad_attr bad_own_attrs[] = {
    {"filter", 6, 0},    {"stretch", 0.5, 0}, {"stretch", NAN, 0},
    {"shift", 1e300, 0}, {"shift", NAN, 0},   {"cubic", INFINITY, 0},
    {"samples", -1, 0},  {"scale", NAN, 0},   {"most", -1, 0},
};

/* Where a value that is bad elsewhere is good: strides of 0 that mean the kernel, and
 * sizes that any other fits. */
static bool is_right(const tn_operator *op, const bad_attr *a) {
  uint32_t rule = op->shape;
  bool pool = rule == TN_SHAPE_POOL || rule == TN_SHAPE_POOL2D || rule == TN_SHAPE_POOL_GRAD ||
              rule == TN_SHAPE_POOL2D_GRAD;
  bool any_size = rule == TN_SHAPE_ADAPTIVE_POOL_GRAD || rule == TN_SHAPE_RESIZE_GRAD ||
                  rule == TN_SHAPE_RESAMPLE_GRAD || rule == TN_SHAPE_GRID_SAMPLE_GRAD_INPUT ||
                  rule == TN_SHAPE_ROI_ALIGN_GRAD || rule == TN_SHAPE_LOCAL_RESPONSE_NORM;
  return (a->except && a->except == rule) ||
         (pool && !strcmp(a->name, "stride") && a->value == 0) ||
         (any_size && !strcmp(a->name, "size") && a->value > 0);
}

static void spoil_attr(bad *b, const bad_attr *bad_one) {
  op_case spoiled = *b->c;
  char what[64];
  if (!case_has(b->c, bad_one->name) || is_right(b->c->op, bad_one)) return;
  for (int made = 0; made < 2; made++) {
    snprintf(what, sizeof what, "%s=%g", bad_one->name, bad_one->value);
    case_set(&spoiled, bad_one->name, 0, bad_one->value);
    begin(b, what);
    memcpy(b->attrs, spoiled.attrs, sizeof b->attrs);
    for (uint32_t i = b->num_in; made && i < b->c->op->num_args; i++)
      if (b->c->op->args[i].kind == TN_ARG_OUT) b->arg[i] = NULL;
    expect_failure(b, made ? "made" : "");
  }
}

/* One number of an attribute set to what its schema says it cannot be. */
static void spoil_number(bad *b, const tn_attr *a, int index, double value) {
  op_case spoiled = *b->c;
  char what[96];
  snprintf(what, sizeof what, "%s[%d]=%g", a->name, index, value);
  case_set(&spoiled, a->name, index, value);
  begin(b, what);
  memcpy(b->attrs, spoiled.attrs, sizeof b->attrs);
  expect_failure(b, "out of bounds");
}

/* The nearest number outside a bound. */
static double beyond(const tn_attr *a, double bound, uint8_t kind, double direction) {
  if (kind == TN_BOUND_OPEN) return bound;
  return a->type == TN_ATTR_F64 ? nextafter(bound, direction * INFINITY) : bound + direction;
}

/* Every bound that the schema states, from just outside it. */
static void spoil_bounds(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_attrs; i++) {
    const tn_attr *a = &b->c->op->attrs[i];
    int count = a->type == TN_ATTR_PAIR ? 2 : a->type == TN_ATTR_TRIPLE ? 3 : 1;
    bool number = a->type != TN_ATTR_AXES && a->type != TN_ATTR_DTYPE && a->type != TN_ATTR_RESULT;
    bool below_zero = a->type == TN_ATTR_U64 && beyond(a, a->low, a->low_bound, -1) < 0;
    for (int k = 0; k < count && number; k++) {
      if (a->low_bound && !below_zero) spoil_number(b, a, k, beyond(a, a->low, a->low_bound, -1));
      if (a->high_bound) spoil_number(b, a, k, beyond(a, a->high, a->high_bound, 1));
      if (a->type == TN_ATTR_F64 && (a->low_bound || a->high_bound)) spoil_number(b, a, k, NAN);
    }
  }
}

/* A type that the attribute must name: none is wrong. */
static void spoil_dtypes(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_attrs; i++) {
    const tn_attr *a = &b->c->op->attrs[i];
    if (a->type == TN_ATTR_DTYPE) spoil_attr(b, &(bad_attr){a->name, TN_DTYPE_NONE, 0});
  }
}

/* Types that the output cannot have over inputs of theirs, and numbers that are no types. */
static void spoil_results(bad *b) {
  for (uint32_t i = 0; i < b->c->op->num_args; i++) {
    const tn_attr *a = case_result(b->c, i);
    if (!a) continue;
    const tn_dtype own = b->c->types[b->c->op->args[i].type & (TN_MAX_TYPE_VARS - 1)];
    for (int d = -1; d <= TN_DTYPE_SLOTS; d++)
      if (d < 0 || d > TN_F64 || !tn_dtype_widens(own, (tn_dtype)(d ? d : (int)own)))
        spoil_number(b, a, 0, d);
  }
}

static void spoil_axes(bad *b) {
  static const tn_axes wrong[] = {{1, {2}},     {1, {-3}}, {2, {0, 0}},
                                  {2, {1, -1}}, {9, {0}},  {-1, {0}}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    op_case spoiled = *b->c;
    tn_axes *axes = case_axes(&spoiled);
    if (!axes) return;
    *axes = wrong[i];
    begin(b, "axes");
    memcpy(b->attrs, spoiled.attrs, sizeof b->attrs);
    expect_failure(b, (const char *[]){"2", "-3", "0,0", "1,-1", "nine", "count -1"}[i]);
  }
}

static void attributes(bad *b) {
  for (size_t i = 0; i < sizeof bad_attrs / sizeof *bad_attrs; i++) spoil_attr(b, &bad_attrs[i]);
  const size_t own = strchr(b->c->op->name, '.') ? 0 : sizeof bad_own_attrs / sizeof *bad_own_attrs;
  for (size_t i = 0; i < own; i++) spoil_attr(b, &bad_own_attrs[i]);
  spoil_bounds(b);
  spoil_dtypes(b);
  spoil_results(b);
  spoil_axes(b);
  for (uint32_t size = 0; size < 4 && b->c->op->num_attrs; size += 3) {
    begin(b, "struct_size");
    memcpy(b->attrs, &size, sizeof size);
    expect_failure(b, size ? "3" : "0");
  }
}

/* A tensor of `n` rows that are one and the same element, NULL where views so large are
 * refused already. */
static tn_tensor *endless(bad *b, uint32_t arg, int32_t rank, int32_t axis, int64_t n) {
  int64_t shape[TN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  tn_tensor *one = tensor_like(b->device, case_dtype(b->c, arg), rank, shape), *view = NULL;
  shape[axis] = n;
  if (one && tn_tensor_expand(one, rank, shape, &view) != TN_OK) view = NULL;
  tn_tensor_release(one);
  return view;
}

/* Outputs too large to count or to hold. */
static void overflow(bad *b) {
  uint32_t rule = b->c->op->shape;
  bool product = rule == TN_SHAPE_MATMUL || rule == TN_SHAPE_BROADCAST;
  if (!product && rule != TN_SHAPE_SAME) return;
  begin(b, "overflow");
  b->arg[0] = endless(b, 0, product ? 2 : 1, 0, product ? (int64_t)1 << 40 : (int64_t)1 << 59);
  if (product) b->arg[1] = endless(b, 1, 2, 1, (int64_t)1 << 40);
  bool ready = b->arg[0] && (!product || b->arg[1]);
  for (uint32_t i = 1 + product; i < b->num_in; i++) b->arg[i] = NULL;
  for (uint32_t i = b->num_in; i < b->c->op->num_args; i++) b->arg[i] = NULL;
  tn_tensor *made[2] = {b->arg[0], product ? b->arg[1] : NULL};
  if (ready) expect_failure(b, "");
  tn_tensor_release(made[0]);
  tn_tensor_release(made[1]);
}

/* Every argument of the good call; the outputs' shapes from the call itself. */
static bool make_good(bad *b) {
  const op_case *c = b->c;
  const tn_tensor *in[CASE_ARGS] = {0};
  tn_tensor *out[CASE_ARGS] = {0};
  memcpy(b->attrs, c->attrs, sizeof b->attrs);
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    if (arg_is_output(&c->op->args[i])) continue;
    void *values = malloc((size_t)case_elements(&c->arg[i]) * 8 + 1);
    case_fill(c, i, values);
    if (tn_tensor_from_host(b->device, case_dtype(c, i), c->arg[i].rank, c->arg[i].shape, values,
                            &b->good[i]) != TN_OK)
      b->good[i] = NULL;
    free(values);
    b->arg[i] = b->good[i];
  }
  tn_call call = call_of(b, in, out);
  tn_prepared *prepared = NULL; /* not run: outputs keep their largest shape */
  if (tn_prepare(&call, &prepared) != TN_OK) return false;
  tn_prepared_release(prepared);
  for (uint32_t i = b->num_in; i < c->op->num_args; i++) {
    tn_tensor *made = out[i - b->num_in];
    if (b->good[i]) continue;
    b->good[i] =
        tensor_like(b->device, tn_tensor_dtype(made), tn_tensor_rank(made), tn_tensor_shape(made));
    tn_tensor_release(made);
  }
  return true;
}

void bad_calls(const op_case *c, tn_device *device, tn_device *other, tally *t) {
  bad b = {.c = c, .device = device, .other = other, .tally = t, .num_in = op_inputs(c->op)};
  if (make_good(&b)) {
    missing(&b);
    wrong_dtypes(&b);
    wrong_shapes(&b);
    overlaps(&b);
    repeated_outputs(&b);
    two_devices(&b);
    attributes(&b);
    overflow(&b);
  } else
    t->unsupported++;
  for (uint32_t i = 0; i < c->op->num_args; i++) tn_tensor_release(b.good[i]);
}
