/*
 * Attributes whose numbers lie in the device's memory: calls give the bits that they give with the
 * same numbers as attributes, on kernels that read them there, on kernels of before, which get
 * them all the same, and on a device without a kernel; what cannot be such a number is refused.
 */
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *device; /* of the loop's turn */

static const char *const device_names[] = {"cpu", "reference", "sim"};
enum { DEVICES = 3, SIM = 2 };

static void setup(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference,sim",
                                .plugin_path = SIM_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  rt = open_runtime(&options);
}
static void teardown(void) { tn_runtime_close(rt); }

static void use(int i) { ok(tn_device_find(rt, device_names[i], &device)); }

static tn_tensor *scalar(tn_dtype dtype, const void *value) {
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, dtype, 0, NULL, value, &t));
  return t;
}
static tn_tensor *f64(double x) { return scalar(TN_F64, &x); }
static tn_tensor *f32(float x) { return scalar(TN_F32, &x); }
static tn_tensor *i64(int64_t x) { return scalar(TN_I64, &x); }
static tn_tensor *truth(bool x) { return scalar(TN_BOOL, &(uint8_t){x}); }

static tn_tensor *values(tn_dtype dtype, int64_t n, float first) {
  tn_tensor *t = NULL, *typed = NULL;
  float *list = malloc(((size_t)n + 1) * sizeof *list);
  for (int64_t i = 0; i < n; ++i) list[i] = first + (float)((i * 29) % 53) / 64;
  ok(tn_tensor_from_host(device, TN_F32, 1, &n, list, &t));
  free(list);
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  cast.dtype = dtype;
  ok(tn_cast(NULL, t, &cast, &typed));
  tn_tensor_release(t);
  return typed;
}

static bool alike(const tn_tensor *a, const tn_tensor *b) {
  size_t bytes = tn_tensor_bytes(a);
  unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ck_assert_uint_eq(bytes, tn_tensor_bytes(b));
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  bool same = memcmp(x, y, bytes) == 0;
  free(x);
  free(y);
  return same;
}

static void release_all(size_t count, tn_tensor **all) {
  for (size_t i = 0; i < count; ++i) tn_tensor_release(all[i]);
}
#define RELEASE(...)                                                                               \
  release_all(sizeof((tn_tensor *[]){__VA_ARGS__}) / sizeof(tn_tensor *),                          \
              (tn_tensor *[]){__VA_ARGS__})

/* --- optimisers --- */

/* Lists of two with up to two tensors of state, and the same again. */
enum { LISTS = 3, LENGTH = 2 };
typedef struct lists {
  tn_tensor *grad[LENGTH], *at[LISTS][LENGTH];
} lists;

static lists lists_make(tn_dtype dtype, tn_dtype state) {
  lists l;
  for (int i = 0; i < LENGTH; ++i) {
    l.grad[i] = values(dtype, 5 + 300 * i, -0.25f);
    for (int k = 0; k < LISTS; ++k) l.at[k][i] = values(k ? state : dtype, 5 + 300 * i, 0.5f);
  }
  return l;
}

static void lists_free(lists *l) {
  release_all(LENGTH, l->grad);
  for (int k = 0; k < LISTS; ++k) release_all(LENGTH, l->at[k]);
}

static bool lists_alike(const lists *a, const lists *b) {
  bool same = true;
  for (int k = 0; k < LISTS; ++k)
    for (int i = 0; i < LENGTH; ++i) same = same && alike(a->at[k][i], b->at[k][i]);
  return same;
}

/* The numbers of a step, and where they lie if they lie on the device. */
typedef struct numbers {
  double lr;
  int64_t step;
  tn_tensor *lr_from, *step_from, *skip_if;
} numbers;

typedef void (*step_fn)(lists *l, const numbers *n);

#define SET_RATE(attrs, n)                                                                         \
  if ((n)->lr != 0) (attrs).lr = (n)->lr;                                                          \
  (attrs).lr_from = (n)->lr_from, (attrs).skip_if = (n)->skip_if;
#define SET_STEP(attrs, n)                                                                         \
  if ((n)->step) (attrs).step = (n)->step;                                                         \
  (attrs).step_from = (n)->step_from;

static void sgd(lists *l, const numbers *n) {
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  SET_RATE(a, n)
  for (int i = 0; i < LENGTH; ++i) ok(tn_sgd_step(NULL, l->grad[i], l->at[0][i], l->at[1][i], &a));
}
static void adam(lists *l, const numbers *n) {
  tn_adam_step_attrs a = TN_ADAM_STEP_DEFAULTS;
  SET_RATE(a, n)
  SET_STEP(a, n)
  for (int i = 0; i < LENGTH; ++i)
    ok(tn_adam_step(NULL, l->grad[i], l->at[0][i], l->at[1][i], l->at[2][i], &a));
}
static void multi_sgd(lists *l, const numbers *n) {
  tn_multi_sgd_attrs a = TN_MULTI_SGD_DEFAULTS;
  SET_RATE(a, n)
  a.momentum = 0.5;
  ok(tn_multi_sgd(NULL, l->grad, l->at[0], l->at[1], LENGTH, &a));
}
static void multi_adam(lists *l, const numbers *n) {
  tn_multi_adam_attrs a = TN_MULTI_ADAM_DEFAULTS;
  SET_RATE(a, n)
  SET_STEP(a, n)
  ok(tn_multi_adam(NULL, l->grad, l->at[0], l->at[1], l->at[2], LENGTH, &a));
}
static void multi_adamw(lists *l, const numbers *n) {
  tn_multi_adamw_attrs a = TN_MULTI_ADAMW_DEFAULTS;
  SET_RATE(a, n)
  SET_STEP(a, n)
  ok(tn_multi_adamw(NULL, l->grad, l->at[0], l->at[1], l->at[2], LENGTH, &a));
}
static void multi_rmsprop(lists *l, const numbers *n) {
  tn_multi_rmsprop_attrs a = TN_MULTI_RMSPROP_DEFAULTS;
  SET_RATE(a, n)
  ok(tn_multi_rmsprop(NULL, l->grad, l->at[0], l->at[1], l->at[2], LENGTH, &a));
}
static void multi_adagrad(lists *l, const numbers *n) {
  tn_multi_adagrad_attrs a = TN_MULTI_ADAGRAD_DEFAULTS;
  SET_RATE(a, n)
  SET_STEP(a, n)
  a.lr_decay = 0.125;
  ok(tn_multi_adagrad(NULL, l->grad, l->at[0], l->at[1], LENGTH, &a));
}

static const step_fn optimisers[] = {sgd,         adam,          multi_sgd,    multi_adam,
                                     multi_adamw, multi_rmsprop, multi_adagrad};
enum { OPTIMISERS = sizeof optimisers / sizeof *optimisers };

static void steps_are_alike(step_fn fn, tn_dtype dtype, tn_dtype state) {
  lists by_attr = lists_make(dtype, state), from = lists_make(dtype, state);
  lists before = lists_make(dtype, state);
  numbers plain = {.lr = 0.0625, .step = 7};
  numbers wide = {.lr_from = f64(0.0625), .step_from = i64(7), .skip_if = truth(false)};
  numbers narrow = {.lr_from = f32(0.0625f), .step_from = wide.step_from};
  numbers rate = {.lr_from = wide.lr_from, .step = 7};
  numbers count = {.lr = 0.0625, .step_from = wide.step_from};
  numbers skipped = {.lr = 0.5, .skip_if = truth(true)};
  const numbers *ways[] = {&wide, &narrow, &rate, &count};
  fn(&from, &skipped);
  ck_assert(lists_alike(&from, &before));
  for (size_t i = 0; i < 4; ++i) {
    fn(&by_attr, &plain);
    fn(&from, ways[i]);
    ck_assert(lists_alike(&by_attr, &from));
  }
  ck_assert(!lists_alike(&from, &before));
  lists_free(&by_attr), lists_free(&from), lists_free(&before);
  RELEASE(wide.lr_from, wide.step_from, wide.skip_if, narrow.lr_from, skipped.skip_if);
}

START_TEST(optimisers_read_the_device) {
  use(_i / OPTIMISERS);
  step_fn fn = optimisers[_i % OPTIMISERS];
  steps_are_alike(fn, TN_F32, TN_F32);
  if (_i / OPTIMISERS == SIM) return;
  steps_are_alike(fn, TN_F64, TN_F64);
  steps_are_alike(fn, TN_F16, TN_F16);
  if (fn != sgd && fn != adam) steps_are_alike(fn, TN_BF16, TN_F32);
}
END_TEST

/* --- random numbers --- */

#define FILL(op, OP)                                                                               \
  static void fill_##op(tn_tensor *y, uint64_t seed, uint64_t offset, const tn_tensor *seed_from,  \
                        const tn_tensor *offset_from) {                                            \
    tn_##op##_attrs a = TN_##OP##_DEFAULTS;                                                        \
    a.seed = seed, a.offset = offset;                                                              \
    a.seed_from = seed_from, a.offset_from = offset_from;                                          \
    ok(tn_##op(NULL, y, &a));                                                                      \
  }
FILL(uniform, UNIFORM)
FILL(normal, NORMAL)
FILL(bernoulli, BERNOULLI)
FILL(truncated_normal, TRUNCATED_NORMAL)
FILL(randint, RANDINT)
FILL(randperm, RANDPERM)

static void fill_dropout(tn_tensor *y, uint64_t seed, uint64_t offset, const tn_tensor *seed_from,
                         const tn_tensor *offset_from) {
  tn_dropout_attrs a = TN_DROPOUT_DEFAULTS;
  a.seed = seed, a.offset = offset;
  a.seed_from = seed_from, a.offset_from = offset_from;
  tn_tensor *x = values((tn_dtype)tn_tensor_dtype(y), tn_tensor_elements(y), 1), *mask = NULL;
  ok(tn_dropout(NULL, x, &a, &y, &mask));
  RELEASE(x, mask);
}

static void fill_multinomial(tn_tensor *y, uint64_t seed, uint64_t offset,
                             const tn_tensor *seed_from, const tn_tensor *offset_from) {
  tn_multinomial_attrs a = TN_MULTINOMIAL_DEFAULTS;
  a.seed = seed, a.offset = offset, a.replacement = 1, a.samples = tn_tensor_elements(y);
  a.seed_from = seed_from, a.offset_from = offset_from;
  tn_tensor *weights = values(TN_F32, 97, 1);
  ok(tn_multinomial(NULL, weights, &a, &y));
  tn_tensor_release(weights);
}

static const struct {
  void (*fill)(tn_tensor *, uint64_t, uint64_t, const tn_tensor *, const tn_tensor *);
  tn_dtype dtype;
} random_ops[] = {
    {fill_uniform, TN_F32},          {fill_uniform, TN_F64},    {fill_normal, TN_F32},
    {fill_normal, TN_F16},           {fill_bernoulli, TN_BOOL}, {fill_bernoulli, TN_F64},
    {fill_truncated_normal, TN_F32}, {fill_randint, TN_I64},    {fill_randint, TN_U8},
    {fill_randperm, TN_I32},         {fill_dropout, TN_F32},    {fill_dropout, TN_BF16},
    {fill_multinomial, TN_I64}};
enum { RANDOM_OPS = sizeof random_ops / sizeof *random_ops };

START_TEST(random_operators_read_the_device) {
  use(_i / RANDOM_OPS);
  const int op = _i % RANDOM_OPS;
  const int64_t n = 301;
  tn_tensor *want = shaped(device, random_ops[op].dtype, 1, &n);
  tn_tensor *got = shaped(device, random_ops[op].dtype, 1, &n);
  tn_tensor *seed = i64(-5), *offset = i64(1 << 20);
  random_ops[op].fill(want, (uint64_t)-5, 11 + (1 << 20), NULL, NULL);
  random_ops[op].fill(got, (uint64_t)-5, 11 + (1 << 20), NULL, NULL);
  ck_assert(alike(want, got));
  random_ops[op].fill(got, 3, 11, NULL, NULL);
  ck_assert(!alike(want, got));
  random_ops[op].fill(got, 3, 11, seed, offset);
  ck_assert(alike(want, got));
  random_ops[op].fill(got, (uint64_t)-5, 11, NULL, offset);
  ck_assert(alike(want, got));
  random_ops[op].fill(got, 3, 11 + (1 << 20), seed, NULL);
  ck_assert(alike(want, got));
  RELEASE(want, got, seed, offset);
}
END_TEST

/* --- kernels of before --- */

START_TEST(a_kernel_of_before_gets_the_numbers) {
  use(SIM);
  tn_tensor *grad = counting(device, 3), *param = counting(device, 3), *v = counting(device, 3);
  tn_tensor *lr = f64(0.5), *skip = truth(false);
  float got[3];
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  a.lr_from = lr, a.skip_if = skip;
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_SGD_STEP,
                  .in = (const tn_tensor *[]){grad},
                  .out = (tn_tensor *[]){param, v},
                  .attrs = &a,
                  .num_in = 1,
                  .num_out = 2};
  tn_fallback_stats stats = {.struct_size = sizeof stats};
  ok(tn_invoke(&call)); /* sim.sgd_step leaves the velocity: nobody else does */
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.5f && got[1] == 1 && got[2] == 1.5f);
  ok(tn_tensor_to_host(v, got, sizeof got));
  ck_assert(got[0] == 1 && got[2] == 3);
  ok(tn_fallback_get_stats(device, TN_OP_SGD_STEP, &stats));
  ck_assert_uint_eq(stats.calls, 0);
  /* The same prepared: no kernel of its own takes it as it is, and every run reads anew. */
  tn_prepared *p = NULL;
  tn_kernel_info info = {.struct_size = sizeof info};
  ok(tn_prepare(&call, &p));
  refused(tn_prepared_kernel(p, &info), TN_ERR_UNSUPPORTED, "");
  ok(tn_tensor_write(NULL, lr, &(double){0.25}, sizeof(double)));
  ok(tn_run(p));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.25f);
  ok(tn_tensor_write(NULL, skip, &(uint8_t){1}, 1));
  ok(tn_run(p));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.25f && got[2] == 0.75f);
  tn_prepared_release(p);
  /* Without tensors the call is the kernel's, as ever. */
  a.lr_from = a.skip_if = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_prepared_kernel(p, &info));
  ck_assert_str_eq(info.name, "sim.sgd_step");
  tn_prepared_release(p);
  RELEASE(grad, param, v, lr, skip);
}
END_TEST

/* A program built when the struct was shorter. */
START_TEST(structs_of_before) {
  use(_i);
  tn_tensor *grad = counting(device, 3), *param = counting(device, 3), *v = counting(device, 3);
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  float got[3];
  a.struct_size = offsetof(tn_sgd_step_attrs, lr_from);
  a.lr = 0.5;
  a.lr_from = a.skip_if = (const tn_tensor *)(uintptr_t)1; /* behind it anything may lie */
  ok(tn_sgd_step(NULL, grad, param, v, &a));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.5f);
  RELEASE(grad, param, v);
}
END_TEST

/* --- prepared calls --- */

START_TEST(prepared_calls_keep_and_follow) {
  use(_i);
  tn_tensor *grad = counting(device, 3), *param = counting(device, 3), *v = counting(device, 3);
  tn_tensor *lr = f64(0.5), *other = f64(2);
  float got[3];
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  a.lr_from = lr;
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_SGD_STEP,
                  .in = (const tn_tensor *[]){grad},
                  .out = (tn_tensor *[]){param, v},
                  .attrs = &a,
                  .num_in = 1,
                  .num_out = 2};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  tn_tensor_retain(lr); /* ours for the write; the call has its own */
  tn_tensor_release(lr);
  a.lr_from = other;
  ok(tn_run(p));
  ok(tn_tensor_write(NULL, lr, &(double){0.25}, sizeof(double)));
  tn_tensor_release(lr);
  ok(tn_run(p));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.25f && got[2] == 0.75f);
  /* Other tensors, and none: the old one is given back, or a failure leaves it. */
  a.lr_from = grad;
  refused(tn_prepared_set_attrs(p, &a), TN_ERR_INVALID_ARGUMENT, "attrs->lr_from has shape [3]");
  a.lr_from = other;
  ok(tn_prepared_set_attrs(p, &a));
  tn_tensor_release(other);
  ok(tn_run(p));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == -1.75f);
  ok(tn_prepared_set_attrs(p, NULL));
  ok(tn_run(p));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] > -1.77f && got[0] < -1.75f);
  tn_prepared_release(p);
  RELEASE(grad, param, v);
}
END_TEST

/* --- what is refused --- */

START_TEST(what_cannot_be_such_a_number) {
  use(_i);
  tn_device *elsewhere;
  ok(tn_device_find(rt, device_names[(_i + 1) % DEVICES], &elsewhere));
  tn_tensor *grad = counting(device, 3), *param = counting(device, 3), *kept = counting(device, 3);
  tn_tensor *m = counting(device, 3), *v = counting(device, 3), *part = NULL;
  tn_tensor *half = values(TN_F16, 1, 1), *none = values(TN_F32, 0, 1), *two = values(TN_F64, 2, 1);
  tn_tensor *small = scalar(TN_I32, &(int32_t){1}), *far = NULL, *real = f64(1);
  ok(tn_tensor_from_host(elsewhere, TN_F64, 0, NULL, &(double){1}, &far));
  ok(tn_tensor_slice(param, 0, 1, 2, 1, &part));
  const struct {
    tn_adam_step_attrs attrs;
    const char *words;
  } bad[] = {
      {{.lr_from = half}, "attrs->lr_from is f16, it must be f64 or f32; use tn_cast"},
      {{.lr_from = none}, "attrs->lr_from has shape [0], it must have one element"},
      {{.lr_from = two}, "attrs->lr_from has shape [2], it must have one element"},
      {{.lr_from = far}, "use tn_tensor_to_device"},
      {{.lr_from = part}, "attrs->lr_from shares memory with a tensor that the call writes"},
      {{.step_from = small}, "attrs->step_from is i32, it must be i64"},
      {{.step_from = real}, "attrs->step_from is f64, it must be i64"},
      {{.skip_if = real}, "attrs->skip_if is f64, it must be bool"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    tn_adam_step_attrs a = TN_ADAM_STEP_DEFAULTS;
    a.lr_from = bad[i].attrs.lr_from, a.step_from = bad[i].attrs.step_from;
    a.skip_if = bad[i].attrs.skip_if;
    refused(tn_adam_step(NULL, grad, param, m, v, &a), TN_ERR_INVALID_ARGUMENT, bad[i].words);
    tn_multi_adam_attrs l = TN_MULTI_ADAM_DEFAULTS;
    l.lr_from = a.lr_from, l.step_from = a.step_from, l.skip_if = a.skip_if;
    refused(tn_multi_adam(NULL, &grad, &param, &m, &v, 1, &l), TN_ERR_INVALID_ARGUMENT,
            bad[i].words);
  }
  ck_assert(alike(param, kept));
  RELEASE(grad, param, kept, m, v, part, half, none, two, small, far, real);
}
END_TEST

/* One element of a longer tensor is one element. */
START_TEST(an_element_of_a_table) {
  use(_i);
  const double rates[3] = {1, 0.5, 0.25};
  tn_tensor *table = NULL, *rate = NULL;
  tn_tensor *grad = counting(device, 3), *param = counting(device, 3), *v = counting(device, 3);
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  float got[3];
  ok(tn_tensor_from_host(device, TN_F64, 1, SHAPE(3), rates, &table));
  ok(tn_tensor_slice(table, 0, 2, 3, 1, &rate));
  a.lr_from = rate;
  ok(tn_sgd_step(NULL, grad, param, v, &a));
  ok(tn_tensor_to_host(param, got, sizeof got));
  ck_assert(got[0] == 0.75f && got[2] == 2.25f);
  RELEASE(table, rate, grad, param, v);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, optimisers_read_the_device, 0, DEVICES * OPTIMISERS);
  tcase_add_loop_test(tcase, random_operators_read_the_device, 0, DEVICES * RANDOM_OPS);
  tcase_add_test(tcase, a_kernel_of_before_gets_the_numbers);
  tcase_add_loop_test(tcase, structs_of_before, 0, DEVICES);
  tcase_add_loop_test(tcase, prepared_calls_keep_and_follow, 0, DEVICES);
  tcase_add_loop_test(tcase, what_cannot_be_such_a_number, 0, DEVICES);
  tcase_add_loop_test(tcase, an_element_of_a_table, 0, DEVICES);
}

int main(void) { return run_suite("device_attrs", add_tests); }
