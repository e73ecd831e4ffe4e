/*
 * Autocast, operator by operator: the conformance kit's cases as graphs of one call, without and
 * with autocast, from float32 and from tensors of which some are 16 bits wide already. Types are
 * those of the operator's class, and numbers those of float32 as far as 16 bits go; equal, where no
 * 16 bits are computed in.
 */
#include "tools/check/cases/op_case.h" /* before SHAPE is a macro of the tests' */

#include <math.h>

#include "dispatcher/objects/runtime.h"
#include "graph/autocast/autocast.h"
#include "tests/graph/graphs.h"

enum { CASES = 3, FIRST_OF_PLUGINS = 512 };

typedef struct search {
  op_case kept[CASES];
  int found;
} search;

/* The first cases whose tensors are small and not empty. */
static void keep_first(void *ctx, const op_case *c) {
  search *s = ctx;
  bool plain = c->values == VALUES_PLAIN || c->values == VALUES_RANGE || c->values == VALUES_TIES;
  if (s->found == CASES || !plain) return;
  for (uint32_t i = 0; i < c->op->num_args; ++i)
    if (case_elements(&c->arg[i]) > 4096 || !case_elements(&c->arg[i])) return;
  s->kept[s->found++] = *c;
}

/* Which float32 inputs come as 16 bits: the same numbers, so that nothing else changes. */
enum { NONE, FIRST, ALL };

/* A graph of one call. */
typedef struct trial {
  const op_case *c;
  tn_dtype dtype; /* of autocast; TN_DTYPE_NONE: without */
  tn_dtype narrow;
  int narrowed;
  tn_tensor *given[CASE_ARGS], *symbols[CASE_ARGS], *out[CASE_ARGS], *results[CASE_ARGS];
  tn_graph *graph;
  uint32_t num_in, num_out, casts;
} trial;

static tn_tensor *drawn(const op_case *c, uint32_t i) {
  const case_arg *a = &c->arg[i];
  tn_tensor *made = shaped(device, case_dtype(c, i), a->rank, a->shape);
  size_t bytes = tn_tensor_bytes(made);
  void *data = calloc(bytes + 1, 1);
  if (bytes) case_fill(c, i, data);
  ok(tn_tensor_write(NULL, made, data, bytes));
  free(data);
  return made;
}

/* Rounded to 16 bits, in 16 bits or in 32. */
static tn_tensor *rounded(tn_tensor *t, tn_dtype narrow, bool stays) {
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  tn_tensor *small = NULL, *wide = NULL;
  attrs.dtype = (int32_t)narrow;
  ok(tn_cast(NULL, t, &attrs, &small));
  tn_tensor_release(t);
  if (stays) return small;
  attrs.dtype = TN_F32;
  ok(tn_cast(NULL, small, &attrs, &wide));
  tn_tensor_release(small);
  return wide;
}

/* Of argument `i`, whose type is a variable that float32 was chosen for. */
static bool is_float_input(const op_case *c, uint32_t i) {
  uint8_t type = c->op->args[i].type;
  return i < op_inputs(c->op) && TN_TYPE_IS_VAR(type) && c->types[type] == TN_F32;
}

static void make_inputs(trial *t) {
  const tn_operator *op = t->c->op;
  bool first = true;
  for (uint32_t i = 0; i < op->num_args; ++i) {
    char name[16];
    if (t->c->arg[i].absent || arg_is_output(&op->args[i])) continue;
    t->given[i] = drawn(t->c, i);
    if (is_float_input(t->c, i) && t->narrowed) {
      bool stays = t->dtype && (t->narrowed == ALL || first);
      t->given[i] = rounded(t->given[i], t->narrow, stays);
      first = false;
    }
    snprintf(name, sizeof name, "%u", i);
    ok(tn_graph_parameter(t->graph, name, t->given[i], &t->symbols[i]));
  }
}

static tn_status call(trial *t) {
  const tn_operator *op = t->c->op;
  t->num_in = op_inputs(op);
  t->num_out = op->num_args - t->num_in;
  tn_call call = {.struct_size = sizeof call,
                  .op = op->id,
                  .in = (const tn_tensor *const *)(const void *)t->symbols,
                  .out = t->out,
                  .attrs = op->num_attrs ? t->c->attrs : NULL,
                  .num_in = (uint16_t)t->num_in,
                  .num_out = (uint16_t)t->num_out};
  for (uint32_t i = 0; i < t->num_out; ++i) {
    t->out[i] = t->symbols[t->num_in + i];
    if (t->c->arg[t->num_in + i].absent) call.skip_out |= 1u << i;
  }
  return tn_invoke(&call);
}

static void run(trial *t) {
  tn_program *p = NULL;
  uint32_t named = 0;
  t->graph = make_graph();
  make_inputs(t);
  ok(tn_graph_autocast(t->graph, t->dtype));
  tn_status status = call(t);
  char text[600];
  case_describe(t->c, text, sizeof text);
  ck_assert_msg(!status, "%s: %s", text, tn_last_error());
  t->casts = (uint32_t)tn_graph_num_nodes(t->graph) - 1;
  for (uint32_t i = 0; i < t->num_out; ++i) {
    char name[16];
    snprintf(name, sizeof name, "o%u", i);
    if (t->out[i]) ok(tn_graph_output(t->graph, name, t->out[i])), ++named;
  }
  ok(tn_graph_compile(t->graph, device, NULL, &p));
  ok(tn_program_run(p, NULL, 0, NULL, named, t->results));
  tn_program_destroy(p);
}

static void end(trial *t) {
  for (uint32_t i = 0; i < t->num_out; ++i) {
    if (t->out[i] != t->symbols[t->num_in + i]) tn_tensor_release(t->out[i]);
    tn_tensor_release(t->results[i]);
  }
  for (uint32_t i = 0; i < CASE_ARGS; ++i) RELEASE(t->given[i], t->symbols[i]);
  tn_graph_destroy(t->graph);
}

/* --- comparing --- */

static float *as_f32(const tn_tensor *t) {
  tn_tensor *wide = NULL;
  float *values = malloc((size_t)tn_tensor_elements(t) * sizeof *values + 1);
  ok(tn_cast(NULL, t, NULL, &wide));
  ok(tn_tensor_to_host(wide, values, tn_tensor_bytes(wide)));
  tn_tensor_release(wide);
  return values;
}

/* |a - b| / |a|; what is not finite counts where it differs. */
static double distance(const tn_tensor *a, const tn_tensor *b) {
  float *x = as_f32(a), *y = as_f32(b);
  double error = 0, norm = 0;
  ck_assert_int_eq(tn_tensor_elements(a), tn_tensor_elements(b));
  for (int64_t i = 0; i < tn_tensor_elements(a); ++i) {
    double d = isfinite(x[i]) || isfinite(y[i]) ? (double)x[i] - (double)y[i] : 0;
    error += d * d;
    norm += isfinite(x[i]) ? (double)x[i] * (double)x[i] : 0;
  }
  free(x);
  free(y);
  return error == 0 ? 0 : sqrt(error / (norm > 0 ? norm : 1));
}

/* Of an output whose type is the variable of narrowed inputs. */
static tn_dtype expected(const trial *t, uint32_t arg, precision class) {
  uint8_t type = t->c->op->args[arg].type;
  tn_dtype usual = case_dtype(t->c, arg);
  uint32_t inputs = 0, narrow = 0;
  bool first = true;
  for (uint32_t i = 0; i < t->num_in; ++i) {
    if (!is_float_input(t->c, i) || t->c->arg[i].absent) continue;
    inputs += t->c->op->args[i].type == type;
    narrow +=
        t->c->op->args[i].type == type && (t->narrowed == ALL || (t->narrowed == FIRST && first));
    first = false;
  }
  if (!TN_TYPE_IS_VAR(type) || usual != TN_F32 || !inputs || case_result(t->c, arg)) return usual;
  for (uint32_t i = 0; i < t->num_out; ++i) /* in-out ones decide */
    if (t->symbols[t->num_in + i] && t->c->op->args[t->num_in + i].type == type) return usual;
  switch (class) {
  case PRECISION_LOW:
    return t->dtype;
  case PRECISION_F32:
    return TN_F32;
  default:
    return narrow == inputs ? t->narrow : TN_F32;
  }
}

static uint32_t in_low, in_f32, checked;

static void compare(const trial *plain, const trial *cast) {
  const tn_operator *op = plain->c->op;
  precision class = precision_of(op);
  char text[600];
  bool narrow = class == PRECISION_LOW || (class != PRECISION_F32 && cast->narrowed);
  double limit = !narrow ? 0 : cast->dtype == TN_BF16 ? 0x1p-6 : 0x1p-9;
  case_describe(plain->c, text, sizeof text);
  for (uint32_t i = 0, k = 0; i < plain->num_out; ++i) {
    if (!plain->out[i]) continue;
    tn_dtype type = tn_tensor_dtype(cast->out[i]), want = expected(cast, plain->num_in + i, class);
    /* An operator with a result's type may be given one. */
    if (!case_result(plain->c, plain->num_in + i))
      ck_assert_msg(type == want, "%s: output %u is %s, not %s (narrowed %d)", text, i,
                    tn_dtype_name(type), tn_dtype_name(want), cast->narrowed);
    /* Of the largest result that there can be, the count beside it says how much was written. */
    const bool partly = op->flags & TN_OPERATOR_DATA_DEPENDENT && i + 1 < plain->num_out;
    double d = partly ? 0 : distance(plain->results[k], cast->results[k]);
    ck_assert_msg(d <= limit, "%s: output %u is off by %g, at most %g (narrowed %d, %s)", text, i,
                  d, limit, cast->narrowed, tn_dtype_name(cast->dtype));
    in_low += type == cast->dtype;
    in_f32 += type == TN_F32;
    ++checked;
    ++k;
  }
}

static void try_case(const op_case *c, tn_dtype dtype) {
  for (int narrowed = NONE; narrowed <= ALL; ++narrowed) {
    trial plain = {.c = c, .narrow = dtype, .narrowed = narrowed};
    trial cast = {.c = c, .narrow = dtype, .narrowed = narrowed, .dtype = dtype};
    run(&plain);
    run(&cast);
    compare(&plain, &cast);
    end(&plain);
    end(&cast);
  }
}

START_TEST(every_operator) {
  tn_dtype dtype = _i ? TN_F16 : TN_BF16;
  uint32_t operators = 0, all = 0;
  for (size_t k = 0; k < tn_op_count(rt); ++k) {
    const tn_operator *op = tn_op_at(rt, k);
    tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
    search s = {.found = 0};
    if (op->id >= FIRST_OF_PLUGINS) continue;
    ++all;
    ck_assert_msg(precision_of(op) != PRECISION_UNSAID, "%s", op->name);
    for (int v = 0; v < TN_MAX_TYPE_VARS && op->types[v]; v++)
      types[v] = op->types[v] >> TN_F32 & 1 ? TN_F32 : (tn_dtype)__builtin_ctz(op->types[v]);
    cases_emit(op, types, (case_sink){keep_first, &s});
    for (int i = 0; i < s.found; ++i) try_case(&s.kept[i], dtype);
    operators += s.found > 0;
  }
  /* concat has none of plain numbers: test_autocast.c looks at lists. */
  ck_assert_msg(operators + 1 == all, "%u operators of %u", operators, all);
  ck_assert(in_low > 100 && in_f32 > 100 && checked > 1000);
}
END_TEST

/* The double of a vector, of a plugin that says nothing, or says this. */
static tn_tensor *double_of(tn_graph *g, tn_tensor *x, uint32_t said) {
  uint32_t op = 0;
  tn_tensor *y = NULL;
  ok(tn_op_find(rt, "fixture_double", &op));
  const op_entry *entry = registry_op(&rt->registry, op);
  ((op_entry *)(uintptr_t)entry)->row.precision = said;
  ok(tn_graph_autocast(g, TN_BF16));
  const tn_call call = {.struct_size = sizeof call,
                        .op = op,
                        .in = (const tn_tensor *[]){x},
                        .out = &y,
                        .num_in = 1,
                        .num_out = 1};
  ok(tn_invoke(&call));
  return y;
}

START_TEST(plugins_say_how_precise_they_are) {
  static const struct {
    uint32_t said;
    tn_dtype from, to;
  } rows[] = {{TN_PRECISION_UNSAID, TN_F32, TN_F32}, {TN_PRECISION_UNSAID, TN_BF16, TN_BF16},
              {TN_PRECISION_LOW, TN_F32, TN_BF16},   {TN_PRECISION_F32, TN_BF16, TN_F32},
              {TN_PRECISION_WIDEST, TN_F16, TN_F16}, {TN_PRECISION_LOW, TN_F64, TN_F64},
              {PRECISION_AS_GIVEN, TN_F32, TN_F32},  {99, TN_F32, TN_F32}};
  ok(tn_runtime_load_plugin(rt, SIM_PLUGIN));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    tn_graph *g = make_graph();
    tn_tensor *x = NULL;
    ok(tn_graph_input(g, "x", rows[i].from, 1, SHAPE(4), &x));
    tn_tensor *y = double_of(g, x, rows[i].said);
    ck_assert_str_eq(tn_dtype_name(tn_tensor_dtype(y)), tn_dtype_name(rows[i].to));
    ck_assert_uint_eq(tn_graph_num_nodes(g), 1 + (rows[i].from != rows[i].to));
    RELEASE(x, y);
    tn_graph_destroy(g);
  }
}
END_TEST

static void setup_reference(void) {
  rt = open_runtime(&(tn_runtime_options){.struct_size = sizeof(tn_runtime_options),
                                          .device = "reference",
                                          .plugin_path = PLUGINS,
                                          .plugins = "reference"});
  device = tn_runtime_device(rt);
}

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup_reference, teardown);
  tcase_add_loop_test(t, every_operator, 0, 2);
  tcase_add_test(t, plugins_say_how_precise_they_are);
}

int main(void) { return run_suite("autocast_cases", add_tests); }
