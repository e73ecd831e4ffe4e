/* Matrix products and convolutions against sums written out. */
#include <string.h>

#include "harness.h"

/* ------------------------------------------------------------------- matmul --- */

static void check_matmul(tn_dtype t, int64_t m, int64_t k, int64_t n, int ta, int tb, bool bias) {
  tn_matmul_attrs attrs = {sizeof attrs, ta, tb};
  tensor *a = random_tensor(t, 1, -1, 1, 2, (int64_t[]){ta ? k : m, ta ? m : k});
  tensor *b = random_tensor(t, 2, -1, 1, 2, (int64_t[]){tb ? n : k, tb ? k : n});
  tensor *v = bias ? random_tensor(t, 3, -1, 1, SHAPE(n)) : NULL, *y = make(t, DENSE, SHAPE(m, n));
  call c = {reference_matmul, &attrs, 3, 1, {a, b, v}, {y}};
  tensor *wanted = make_like(y, t, DENSE);
  check_layouts(&c);
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = v ? get(v, i % n) : 0;
    for (int64_t p = 0; p < k; ++p)
      sum +=
          get(a, ta ? p * m + i / n : i / n * k + p) * get(b, tb ? i % n * k + p : p * n + i % n);
    set(wanted, i, sum);
    check_near(get(y, i), get(wanted, i), t == TN_F64 ? 1e-13 : t == TN_F32 ? 1e-7 : 1e-2);
  }
}

START_TEST(products) {
  static const int64_t sizes[][3] = {{1, 1, 1},  {3, 5, 7},    {4, 4, 4},  {70, 9, 6}, {2, 600, 5},
                                     {65, 3, 1}, {1, 1030, 9}, {0, 3, 4},  {3, 0, 4},  {3, 4, 0},
                                     {8, 16, 8}, {67, 513, 3}, {1, 2, 33}, {0, 0, 0}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (int v = 0; v < 8; ++v)
      check_matmul(TN_F64, sizes[s][0], sizes[s][1], sizes[s][2], v & 1, v >> 1 & 1, v >> 2);
  for (tn_dtype t = TN_F16; t <= TN_F32; ++t) check_matmul(t, 9, 21, 6, 0, 1, true);
}
END_TEST

/* y[2, 3, m, n] from a[3, m, k] and b[2, 1, k, n]. */
START_TEST(batches_broadcast) {
  enum { M = 4, K = 5, N = 3 };
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  tensor *a = random_tensor(TN_F64, 1, -1, 1, SHAPE(3, M, K));
  tensor *b = random_tensor(TN_F64, 2, -1, 1, SHAPE(2, 1, K, N));
  tensor *y = make(TN_F64, DENSE, SHAPE(2, 3, M, N));
  call c = {reference_matmul, &attrs, 3, 1, {a, b, NULL}, {y}};
  check_layouts(&c);
  for (int i = 0; i < 6 * M * N; ++i) {
    int item = i / (M * N), row = i / N % M, column = i % N;
    double sum = 0;
    for (int p = 0; p < K; ++p)
      sum += get(a, (item % 3 * M + row) * K + p) * get(b, (item / 3 * K + p) * N + column);
    check_near(get(y, i), sum, 1e-14);
  }
}
END_TEST

START_TEST(infinities_spread) {
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  tensor *a = with(TN_F32, VALUES(INFINITY, 1, 0, 1), SHAPE(2, 2));
  tensor *b = with(TN_F32, VALUES(1, 0, 2, 3), SHAPE(2, 2)), *y = make(TN_F32, DENSE, SHAPE(2, 2));
  call c = {reference_matmul, &attrs, 3, 1, {a, b, NULL}, {y}};
  must(&c);
  check_values(y, VALUES(INFINITY, NAN, 2, 3), 0);
}
END_TEST

/* -------------------------------------------------------------- convolution --- */

typedef struct shape2d {
  int64_t n, c, h, w, k, kernel[2], stride[2], padding[2], dilation[2], groups;
} shape2d;

static const shape2d shapes[] = {
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 3, 5, 6, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 4, 7, 8, 6, {3, 2}, {2, 3}, {1, 0}, {1, 2}, 2},
    {1, 4, 6, 5, 4, {3, 3}, {1, 2}, {2, 3}, {2, 1}, 4}, /* depthwise */
    {3, 2, 4, 9, 5, {1, 5}, {1, 1}, {0, 4}, {1, 1}, 1},
    {1, 2, 9, 9, 3, {2, 2}, {3, 3}, {0, 0}, {4, 5}, 1},
    {1, 1, 3, 3, 2, {3, 3}, {1, 1}, {5, 5}, {1, 1}, 1}, /* windows wholly outside x */
    {2, 6, 3, 3, 9, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 3},
    {0, 2, 4, 4, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 0, 4, 4, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 2, 4, 4, 0, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 2, 3, 3, 1, {3, 4}, {1, 1}, {0, 0}, {1, 1}, 1},    /* ow = 0 */
    {1, 40, 70, 66, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, /* several chunks */
};
enum { SHAPES = sizeof shapes / sizeof *shapes, LARGE = SHAPES - 1 };

static int64_t out_size(const shape2d *s, int axis) {
  int64_t in = axis ? s->w : s->h;
  return (in + 2 * s->padding[axis] - s->dilation[axis] * (s->kernel[axis] - 1) - 1) /
             s->stride[axis] +
         1;
}

/* The attributes that the three operators share. */
#define SET_WINDOW(attrs, s)                                                                       \
  memcpy((attrs)->stride, (s)->stride, sizeof(s)->stride);                                         \
  memcpy((attrs)->padding, (s)->padding, sizeof(s)->padding);                                      \
  memcpy((attrs)->dilation, (s)->dilation, sizeof(s)->dilation);                                   \
  (attrs)->groups = (s)->groups

static tn_conv2d_attrs conv_attrs(const shape2d *s) {
  tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
  SET_WINDOW(&a, s);
  return a;
}

static tn_conv2d_grad_input_attrs grad_input_attrs(const shape2d *s) {
  tn_conv2d_grad_input_attrs a = TN_CONV2D_GRAD_INPUT_DEFAULTS;
  SET_WINDOW(&a, s);
  a.size[0] = s->h;
  a.size[1] = s->w;
  return a;
}

static tn_conv2d_grad_weight_attrs grad_weight_attrs(const shape2d *s) {
  tn_conv2d_grad_weight_attrs a = TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  SET_WINDOW(&a, s);
  memcpy(a.kernel, s->kernel, sizeof a.kernel);
  return a;
}

typedef struct tensors2d {
  tensor *x, *w, *bias, *y;
} tensors2d;

static tensors2d conv_tensors(const shape2d *s, tn_dtype t) {
  tensors2d r;
  r.x = random_tensor(t, 1, -1, 1, SHAPE(s->n, s->c, s->h, s->w));
  r.w = random_tensor(t, 2, -1, 1, SHAPE(s->k, s->c / s->groups, s->kernel[0], s->kernel[1]));
  r.bias = random_tensor(t, 3, -1, 1, SHAPE(s->k));
  r.y = random_tensor(t, 4, -1, 1, SHAPE(s->n, s->k, out_size(s, 0), out_size(s, 1)));
  return r;
}

/* Calls visit for every product x w that goes into a y. */
static void each_product(const shape2d *s,
                         void (*visit)(void *ctx, int64_t x, int64_t w, int64_t y), void *ctx) {
  int64_t oh = out_size(s, 0), ow = out_size(s, 1), cg = s->c / s->groups, kg = s->k / s->groups;
  int64_t taps = s->kernel[0] * s->kernel[1];
  for (int64_t y = 0; y < s->n * s->k * oh * ow; ++y) {
    int64_t image = y / (ow * oh * s->k), k = y / (ow * oh) % s->k;
    for (int64_t e = 0; e < cg * taps; ++e) {
      int64_t c = k / kg * cg + e / taps, p = e / s->kernel[1] % s->kernel[0];
      int64_t row = y / ow % oh * s->stride[0] + p * s->dilation[0] - s->padding[0];
      int64_t col = y % ow * s->stride[1] + e % s->kernel[1] * s->dilation[1] - s->padding[1];
      if (row >= 0 && row < s->h && col >= 0 && col < s->w)
        visit(ctx, ((image * s->c + c) * s->h + row) * s->w + col, k * cg * taps + e, y);
    }
  }
}

typedef struct sums {
  const tensor *x, *w, *y;
  double *dx, *dw, *dy; /* one of them is wanted */
} sums;

static void visit_product(void *ctx, int64_t x, int64_t w, int64_t y) {
  const sums *s = ctx;
  if (s->dy) s->dy[y] += get(s->x, x) * get(s->w, w);
  if (s->dx) s->dx[x] += get(s->y, y) * get(s->w, w);
  if (s->dw) s->dw[w] += get(s->y, y) * get(s->x, x);
}

static double *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

static double tolerance_of(tn_dtype t) { return t == TN_F64 ? 1e-13 : t == TN_F32 ? 1e-6 : 2e-2; }

static void run_conv(const call *c, bool layouts) {
  if (layouts)
    check_layouts(c);
  else
    must(c);
}

START_TEST(convolves) {
  const shape2d *s = &shapes[_i / 4];
  tn_dtype t = (tn_dtype)(TN_F16 + _i % 4);
  if (_i / 4 == LARGE && t != TN_F64) return;
  tn_conv2d_attrs attrs = conv_attrs(s);
  tensors2d r = conv_tensors(s, t);
  call c = {reference_conv2d, &attrs, 3, 1, {r.x, r.w, r.bias}, {r.y}};
  double *wanted = zeros(r.y->count);
  each_product(s, visit_product, &(sums){r.x, r.w, r.y, NULL, NULL, wanted});
  run_conv(&c, _i / 4 != LARGE);
  int64_t windows = out_size(s, 0) * out_size(s, 1);
  for (int64_t i = 0; i < r.y->count; ++i)
    check_near(get(r.y, i), wanted[i] + get(r.bias, i / windows % s->k), tolerance_of(t));
  c.in[2] = NULL;
  run_conv(&c, _i / 4 != LARGE);
  check_values(r.y, wanted, tolerance_of(t));
  /* What stands behind the attributes of an older host is none of them. */
  c.op = TN_OP_CONV2D;
  attrs.activation = TN_ACTIVATION_RELU;
  attrs.struct_size = offsetof(tn_conv2d_attrs, activation);
  run_conv(&c, false);
  check_values(r.y, wanted, tolerance_of(t));
  free(wanted);
}
END_TEST

START_TEST(gradients_by_input) {
  const shape2d *s = &shapes[_i / 4];
  tn_dtype t = (tn_dtype)(TN_F16 + _i % 4);
  if (_i / 4 == LARGE && t != TN_F64) return;
  tn_conv2d_grad_input_attrs attrs = grad_input_attrs(s);
  tensors2d r = conv_tensors(s, t);
  tensor *dx = make_like(r.x, t, DENSE);
  call c = {reference_conv2d_grad_input, &attrs, 2, 1, {r.y, r.w}, {dx}};
  run_conv(&c, _i / 4 != LARGE);
  double *wanted = zeros(dx->count);
  each_product(s, visit_product, &(sums){r.x, r.w, r.y, wanted, NULL, NULL});
  check_values(dx, wanted, tolerance_of(t));
  free(wanted);
}
END_TEST

START_TEST(gradients_by_weight) {
  const shape2d *s = &shapes[_i / 4];
  tn_dtype t = (tn_dtype)(TN_F16 + _i % 4);
  if (_i / 4 == LARGE && t != TN_F64) return;
  tn_conv2d_grad_weight_attrs attrs = grad_weight_attrs(s);
  tensors2d r = conv_tensors(s, t);
  tensor *dw = make_like(r.w, t, DENSE);
  call c = {reference_conv2d_grad_weight, &attrs, 2, 1, {r.y, r.x}, {dw}};
  run_conv(&c, _i / 4 != LARGE);
  double *wanted = zeros(dw->count);
  each_product(s, visit_product, &(sums){r.x, r.w, r.y, NULL, wanted, NULL});
  check_values(dw, wanted, tolerance_of(t));
  free(wanted);
}
END_TEST

/* The gradients once more, without the formula that they share with the naive sums. */
START_TEST(gradients_are_derivatives) {
  const shape2d *s = &shapes[_i];
  tn_conv2d_attrs f = conv_attrs(s);
  tn_conv2d_grad_input_attrs input = grad_input_attrs(s);
  tn_conv2d_grad_weight_attrs weight = grad_weight_attrs(s);
  tensors2d r = conv_tensors(s, TN_F64);
  tensor *dy = relaid(r.y, DENSE), *dx = make_like(r.x, TN_F64, DENSE);
  tensor *dw = make_like(r.w, TN_F64, DENSE);
  call forward = {reference_conv2d, &f, 3, 1, {r.x, r.w, r.bias}, {r.y}};
  call by_input = {reference_conv2d_grad_input, &input, 2, 1, {dy, r.w}, {dx}};
  call by_weight = {reference_conv2d_grad_weight, &weight, 2, 1, {dy, r.x}, {dw}};
  must(&by_input), must(&by_weight);
  check_gradient(&forward, r.x, dy, dx);
  check_gradient(&forward, r.w, dy, dw);
}
END_TEST

Suite *product_suite(void) {
  Suite *s = suite_create("products");
  TCase *c = add_case(s, "matmul");
  tcase_add_test(c, products);
  tcase_add_test(c, batches_broadcast);
  tcase_add_test(c, infinities_spread);
  c = add_case(s, "conv2d");
  tcase_add_loop_test(c, convolves, 0, 4 * SHAPES);
  tcase_add_loop_test(c, gradients_by_input, 0, 4 * SHAPES);
  tcase_add_loop_test(c, gradients_by_weight, 0, 4 * SHAPES);
  tcase_add_loop_test(c, gradients_are_derivatives, 0, LARGE);
  return s;
}
