/*
 * Attention in float32 on tensor cores (kernels/cuda/attention/attention_float.cuh and its
 * gradient) against the same numbers in float64: sizes beside those of tiles and of vectors, rows
 * that allow no wide accesses, shared heads, hidden keys and biases; how exact it is; and
 * infinities and numbers that TF32 does not have. Skipped where no GPU is.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/gpu.h"

static tn_runtime *rt;
static tn_device *gpu;

static void setup(void) {
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

typedef struct shape {
  int64_t b, h, g, s, t, d;
  bool causal, upper_left, mask, bias;
  bool apart; /* data begin 4 bytes behind a multiple of 16 */
  bool least; /* a bias of the least float hides all keys from the first query */
  double scale;
} shape;

static const shape shapes[] = {
    {1, 2, 2, 64, 64, 64},
    {1, 1, 1, 1, 1, 1},
    {2, 2, 1, 65, 97, 33},
    {1, 4, 2, 63, 200, 64, .causal = true},
    {1, 2, 2, 200, 63, 40, .causal = true},
    {1, 2, 1, 130, 70, 65, .causal = true, .upper_left = true},
    {1, 3, 3, 77, 33, 128, .mask = true},
    {2, 2, 2, 129, 31, 100, .bias = true},
    {1, 2, 2, 48, 161, 124, .causal = true, .mask = true, .bias = true},
    {1, 2, 1, 70, 90, 64, .apart = true},
    {1, 2, 1, 70, 90, 128, .causal = true, .apart = true},
    {1, 1, 1, 32, 2048, 64},
    {1, 1, 1, 2048, 40, 128},
    {1, 2, 2, 17, 19, 129},
    {1, 2, 1, 66, 90, 64, .bias = true, .least = true},
    {1, 2, 2, 30, 50, 128, .bias = true, .least = true, .scale = 0.7},
    {2, 2, 2, 100, 100, 48, .causal = true, .scale = 0.3},
};

static unsigned seed;

static float drawn(void) {
  seed = seed * 1664525 + 1013904223;
  return (float)(int32_t)seed * 0x1p-31f;
}

static float *numbers(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < n; i++) x[i] = drawn();
  return x;
}

/* A tensor of those numbers, [b, h, n, d]; `apart` as in a shape. */
static tn_tensor *tensor_of(const float *x, int64_t b, int64_t h, int64_t n, int64_t d,
                            bool apart) {
  tn_tensor *t = NULL, *line = NULL, *part = NULL;
  if (!apart) {
    ok(tn_tensor_from_host(gpu, TN_F32, 4, SHAPE(b, h, n, d), x, &t));
    return t;
  }
  const int64_t count = b * h * n * d;
  float *behind = malloc((size_t)(count + 1) * sizeof *behind);
  ck_assert_ptr_nonnull(behind);
  behind[0] = 0;
  memcpy(behind + 1, x, (size_t)count * sizeof *x);
  ok(tn_tensor_from_host(gpu, TN_F32, 1, SHAPE(count + 1), behind, &line));
  free(behind);
  ok(tn_tensor_slice(line, 0, 1, count + 1, 1, &part));
  ok(tn_tensor_reshape(part, 4, SHAPE(b, h, n, d), &t));
  tn_tensor_release(line), tn_tensor_release(part);
  return t;
}

static tn_tensor *drawn_tensor(int64_t b, int64_t h, int64_t n, int64_t d, bool apart) {
  float *x = numbers(b * h * n * d);
  tn_tensor *t = tensor_of(x, b, h, n, d, apart);
  free(x);
  return t;
}

static tn_tensor *in_double(const tn_tensor *x) {
  tn_cast_attrs to = TN_CAST_DEFAULTS;
  tn_tensor *y = NULL;
  if (!x) return NULL;
  to.dtype = TN_F64;
  ok(tn_cast(NULL, x, &to, &y));
  return y;
}

static double *numbers_of(const tn_tensor *x, int64_t *count) {
  tn_tensor *wide = in_double(x);
  *count = tn_tensor_elements(x);
  double *y = malloc((size_t)*count * sizeof *y);
  ck_assert_ptr_nonnull(y);
  ok(tn_tensor_to_host(wide, y, (size_t)*count * sizeof *y));
  tn_tensor_release(wide);
  return y;
}

/* The same infinities and NaN, and all else within `bound` of the root of the mean of squares, and
 * on average within a tenth of that. */
static void compare(const char *what, const tn_tensor *got, const tn_tensor *wanted, double bound) {
  int64_t n, m, finite = 0;
  double *a = numbers_of(got, &n), *b = numbers_of(wanted, &m), squares = 0, off = 0, worst = 0;
  ck_assert_int_eq(n, m);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(b[i])) {
      if (isnan(b[i]) ? !isnan(a[i]) : a[i] != b[i])
        ck_abort_msg("%s %lld is %g and not %g", what, (long long)i, a[i], b[i]);
      continue;
    }
    const double apart = fabs(a[i] - b[i]);
    ck_assert_msg(isfinite(a[i]), "%s %lld is %g and not %g", what, (long long)i, a[i], b[i]);
    worst = fmax(worst, apart);
    squares += b[i] * b[i];
    off += apart * apart;
    finite++;
  }
  if (finite) {
    const double unit = sqrt(squares / (double)finite), mean = sqrt(off / (double)finite);
    ck_assert_msg(worst <= bound * unit && mean <= bound / 10 * unit,
                  "%s: off by %g at most and %g on average, of %g", what, worst, mean, unit);
  }
  free(a), free(b);
}

typedef struct call {
  tn_tensor *q, *k, *v, *dy, *mask, *bias, *y, *lse, *dq, *dk, *dv;
} call;

static void release(call *c) {
  tn_tensor **all[] = {&c->q, &c->k,   &c->v,  &c->dy, &c->mask, &c->bias,
                       &c->y, &c->lse, &c->dq, &c->dk, &c->dv};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tn_tensor_release(*all[i]);
}

static void run(call *c, const shape *z) {
  tn_scaled_dot_product_attention_attrs attrs = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  attrs.causal = z->causal;
  attrs.causal_upper_left = z->upper_left;
  attrs.scale = z->scale;
  tn_scaled_dot_product_attention_grad_attrs grad = TN_SCALED_DOT_PRODUCT_ATTENTION_GRAD_DEFAULTS;
  grad.causal = attrs.causal;
  grad.scale = attrs.scale;
  grad.causal_upper_left = attrs.causal_upper_left;
  ok(tn_scaled_dot_product_attention(NULL, c->q, c->k, c->v, c->mask, c->bias, &attrs, &c->y,
                                     &c->lse));
  if (c->dy)
    ok(tn_scaled_dot_product_attention_grad(NULL, c->dy, c->q, c->k, c->v, c->y, c->lse, c->mask,
                                            c->bias, &grad, &c->dq, &c->dk, &c->dv));
}

static call widened(const call *c) {
  call wide = {.q = in_double(c->q),
               .k = in_double(c->k),
               .v = in_double(c->v),
               .dy = in_double(c->dy),
               .bias = in_double(c->bias)};
  wide.mask = c->mask;
  if (wide.mask) tn_tensor_retain(wide.mask);
  return wide;
}

START_TEST(as_in_double) {
  const shape *z = &shapes[_i];
  seed = (unsigned)_i;
  call c = {.q = drawn_tensor(z->b, z->h, z->s, z->d, z->apart),
            .k = drawn_tensor(z->b, z->g, z->t, z->d, z->apart),
            .v = drawn_tensor(z->b, z->g, z->t, z->d, z->apart),
            .dy = drawn_tensor(z->b, z->h, z->s, z->d, z->apart)};
  if (z->mask) {
    uint8_t *bytes = malloc((size_t)(z->s * z->t));
    ck_assert_ptr_nonnull(bytes);
    for (int64_t i = 0; i < z->s * z->t; i++) bytes[i] = drawn() > -0.4f;
    memset(bytes, 0, (size_t)z->t); /* the first query sees no key */
    ok(tn_tensor_from_host(gpu, TN_BOOL, 4, SHAPE(1, 1, z->s, z->t), bytes, &c.mask));
    free(bytes);
  }
  if (z->least) {
    float *bias = numbers(z->s * z->t);
    for (int64_t i = 0; i < z->t; i++) bias[i] = -FLT_MAX;
    c.bias = tensor_of(bias, 1, 1, z->s, z->t, false);
    free(bias);
  } else if (z->bias) {
    c.bias = drawn_tensor(1, z->h, 1, z->t, false);
  }
  call wide = widened(&c);
  run(&c, z);
  run(&wide, z);
  compare("y", c.y, wide.y, 2e-5);
  compare("lse", c.lse, wide.lse, 2e-6);
  compare("dq", c.dq, wide.dq, 2e-5);
  compare("dk", c.dk, wide.dk, 2e-5);
  compare("dv", c.dv, wide.dv, 2e-5);
  release(&c), release(&wide);
}
END_TEST

/* What TF32's high parts do not have: the largest floats, and infinities; and what they cut to 0.
 */
START_TEST(beyond_tf32) {
  const shape z = {.b = 1, .h = 1, .g = 1, .s = 40, .t = 70, .d = _i % 2 ? 128 : 64};
  const int64_t rows = z.t, d = z.d;
  seed = 5;
  float *v = numbers(rows * d), *k = numbers(rows * d);
  v[3 * d + 1] = FLT_MAX;
  v[4 * d + 2] = INFINITY;
  v[5 * d + 3] = -INFINITY;
  v[6 * d + 4] = NAN;
  v[7 * d + 5] = INFINITY;
  v[8 * d + 5] = -INFINITY; /* whose sum is none */
  v[69 * d + 6] = -FLT_MAX;
  for (int64_t i = 0; i < rows; i++) v[i * d + 7] = 1e-40f, v[i * d + 8] *= 1e-37f;
  /* A key that no query gives any weight, of a query whose numbers are all above 0. */
  k[9 * d + 3] = -INFINITY;
  float *q = numbers(z.s * d);
  for (int64_t i = 0; i < z.s * d; i++) q[i] = fabsf(q[i]) + 0.125f;
  k[10 * d + 4] = -FLT_MAX;
  call c = {.q = tensor_of(q, 1, 1, z.s, d, false),
            .k = tensor_of(k, 1, 1, z.t, d, false),
            .v = tensor_of(v, 1, 1, z.t, d, false)};
  call wide = widened(&c);
  run(&c, &z);
  run(&wide, &z);
  compare("lse", c.lse, wide.lse, 2e-6);
  int64_t n, m;
  double *got = numbers_of(c.y, &n), *wanted = numbers_of(wide.y, &m);
  for (int64_t i = 0; i < n; i++) {
    const double is = got[i], should = wanted[i];
    if (isnan(should) ? isnan(is) : is == should) continue;
    /* Each column has numbers of a size of its own; of the least, multiples of 2^-136 are kept. */
    const int64_t column = i % d;
    const double unit = column == 1 || column == 6 ? FLT_MAX / 70 : column == 8 ? 1e-38 : 0.1;
    const double bound = (column == 7 ? 0 : 2e-5 * unit) + 0x1p-136;
    ck_assert_msg(fabs(is - should) <= bound, "y %lld is %g and not %g", (long long)i, is, should);
  }
  free(got), free(wanted), free(v), free(k), free(q);
  release(&c), release(&wide);
}
END_TEST

/* A key that has an infinity and so no weight, of queries whose last tile is not full: that number
 * times none is NaN, and all others are what they are without it. */
START_TEST(infinite_key) {
  const shape z = {.b = 1, .h = 1, .g = 1, .s = 40, .t = 70, .d = _i % 2 ? 128 : 64};
  seed = 6;
  float *q = numbers(z.s * z.d), *k = numbers(z.t * z.d);
  for (int64_t i = 0; i < z.s * z.d; i++) q[i] = fabsf(q[i]) + 0.125f;
  k[9 * z.d + 3] = -INFINITY;
  call c = {.q = tensor_of(q, 1, 1, z.s, z.d, false),
            .k = tensor_of(k, 1, 1, z.t, z.d, false),
            .v = drawn_tensor(1, 1, z.t, z.d, false),
            .dy = drawn_tensor(1, 1, z.s, z.d, false)};
  call wide = widened(&c);
  run(&c, &z);
  run(&wide, &z);
  compare("y", c.y, wide.y, 2e-5);
  compare("dq", c.dq, wide.dq, 2e-5);
  compare("dk", c.dk, wide.dk, 2e-5);
  compare("dv", c.dv, wide.dv, 2e-5);
  free(q), free(k);
  release(&c), release(&wide);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, as_in_double, 0, (int)(sizeof shapes / sizeof *shapes));
  tcase_add_loop_test(t, beyond_tf32, 0, 2);
  tcase_add_loop_test(t, infinite_key, 0, 2);
}

int main(void) { return run_suite_on_gpu("cuda-attention", add_tests); }
