/*
 * The CPU kernels, every table that this processor can run: float functions swept against
 * libm in double, products and convolutions against plain loops, odd sizes and strides.
 * Kernels are called as the dispatcher calls them, with a host that runs loops in shares
 * out of order.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/matmul/blas.h"
#include "tenon/plugin.h"

extern const tn_kernel cpu_kernels_baseline[];
extern const uint32_t cpu_kernels_count_baseline;
#if defined(__x86_64__)
extern const tn_kernel cpu_kernels_avx2[], cpu_kernels_avx512[];
extern const uint32_t cpu_kernels_count_avx2, cpu_kernels_count_avx512;
#endif

/* ------------------------------------------------------------- a small host --- */

static tn_status host_fail(tn_status code, const char *format, ...) {
  (void)format;
  return code;
}

static void *host_alloc(const tn_host *host, size_t bytes, size_t align) {
  void *ptr = NULL;
  (void)host;
  return posix_memalign(&ptr, align, bytes ? bytes : 1) == 0 ? ptr : NULL;
}

static void *host_alloc_nothing(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  (void)bytes;
  (void)align;
  return NULL;
}

static void host_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

/* Shares of seven grains, the last one first. */
static tn_status host_parallel_for(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                                   void *ctx) {
  const int64_t share = 7 * grain;
  tn_status status = TN_OK;
  (void)host;
  for (int64_t begin = (n - 1) / share * share; n > 0 && begin >= 0; begin -= share) {
    const int64_t end = begin + share < n ? begin + share : n;
    const tn_status s = fn(ctx, begin, end);
    if (status == TN_OK) status = s;
  }
  return status;
}

static const tn_host plain_host = {.struct_size = sizeof(tn_host),
                                   .num_threads = 3,
                                   .fail = host_fail,
                                   .alloc = host_alloc,
                                   .free = host_free,
                                   .parallel_for = host_parallel_for};
static const tn_host wide_host = {.struct_size = sizeof(tn_host),
                                  .num_threads = 16,
                                  .fail = host_fail,
                                  .alloc = host_alloc,
                                  .free = host_free,
                                  .parallel_for = host_parallel_for};
static const tn_host poor_host = {.struct_size = sizeof(tn_host),
                                  .num_threads = 3,
                                  .fail = host_fail,
                                  .alloc = host_alloc_nothing,
                                  .free = host_free,
                                  .parallel_for = host_parallel_for};

/* ---------------------------------------------------------- tables and calls --- */

typedef struct table {
  const char *name;
  const tn_kernel *rows;
  uint32_t count;
} table;

static int tables(table *out) {
  int n = 0;
  out[n++] = (table){"baseline", cpu_kernels_baseline, cpu_kernels_count_baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out[n++] = (table){"avx2", cpu_kernels_avx2, cpu_kernels_count_avx2};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    out[n++] = (table){"avx512", cpu_kernels_avx512, cpu_kernels_count_avx512};
#endif
  return n;
}

static const tn_kernel *find(const table *t, uint32_t op, tn_dtype dtype) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->rows[i].op == op && (t->rows[i].types[0] == 0 || t->rows[i].types[0] & TN_SET(dtype)))
      return &t->rows[i];
  ck_abort_msg("%s has no row for operator %u", t->name, op);
  return NULL;
}

/* A tensor over the caller's memory; row-major unless strides are changed afterwards. */
typedef struct view {
  DLTensor t;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} view;

static void view_init(view *v, void *data, int rank, const int64_t *shape) {
  int64_t step = 1;
  memset(v, 0, sizeof *v);
  v->t.data = data;
  v->t.ndim = rank;
  v->t.dtype = (DLDataType){.code = kDLFloat, .bits = 32, .lanes = 1};
  for (int d = rank - 1; d >= 0; d--) {
    v->shape[d] = shape[d];
    v->strides[d] = step;
    step *= shape[d];
  }
  v->t.shape = v->shape;
  v->t.strides = v->strides;
}
#define SHAPE(...) ((int64_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof SHAPE(__VA_ARGS__) / sizeof(int64_t)))
#define VIEW(v, data, ...) view_init(v, data, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static tn_status run_on(const tn_host *host, const table *t, uint32_t op, const void *attrs,
                        int num_in, const DLTensor *const *in, DLTensor *out) {
  const tn_kernel *kernel = find(t, op, TN_F32);
  tn_kernel_args args = {.struct_size = sizeof args,
                         .num_in = (uint16_t)num_in,
                         .num_out = 1,
                         .in = in,
                         .out = &out,
                         .attrs = attrs,
                         .host = host,
                         .kernel = kernel};
  return kernel->run(&args);
}

static void run(const table *t, uint32_t op, const void *attrs, int num_in,
                const DLTensor *const *in, DLTensor *out) {
  ck_assert_int_eq(run_on(&plain_host, t, op, attrs, num_in, in, out), TN_OK);
}

static float noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)*state * 0x1p-31f;
}

static float *noisy(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = noise(&seed);
  return x;
}

/* --------------------------------------------------------------- the sweeps --- */

static double ulp_error(float got, double want) {
  const float nearest = (float)want;
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (isinf(nearest) || isinf(got)) return got == nearest ? 0 : INFINITY;
  int e;
  frexp(nearest == 0 ? 0x1p-149 : (double)nearest, &e);
  return fabs((double)got - want) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

static double exact_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

enum { CHUNK = 4099 };

static double sweep(const table *t, uint32_t op, double (*want)(double), uint32_t step) {
  float x[CHUNK], y[CHUNK];
  double worst = 0;
  view vx, vy;
  VIEW(&vx, x, CHUNK);
  VIEW(&vy, y, CHUNK);
  for (uint64_t u = 0; u < (uint64_t)1 << 32;) {
    for (int i = 0; i < CHUNK; i++, u += step) {
      const uint32_t bits = u < (uint64_t)1 << 32 ? (uint32_t)u : 0x7f800000u;
      memcpy(&x[i], &bits, sizeof bits);
    }
    run(t, op, NULL, 1, (const DLTensor *[]){&vx.t}, &vy.t);
    for (int i = 0; i < CHUNK; i++) worst = fmax(worst, ulp_error(y[i], want((double)x[i])));
  }
  return worst;
}

START_TEST(float_functions_keep_their_bounds) {
  static const struct {
    const char *name;
    uint32_t op;
    double (*want)(double);
    double bound;
  } functions[] = {{"exp", TN_OP_EXP, exp, 1},
                   {"log", TN_OP_LOG, log, 1.5},
                   {"sqrt", TN_OP_SQRT, sqrt, 0.5},
                   {"tanh", TN_OP_TANH, tanh, 2},
                   {"sigmoid", TN_OP_SIGMOID, exact_sigmoid, 2.5}};
  table t[3];
  const int n = tables(t);
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    for (int i = 0; i < n; i++) {
      const double worst = sweep(&t[i], functions[f].op, functions[f].want, 4099);
      printf("%s.%s: %.3f ULP\n", functions[f].name, t[i].name, worst);
      ck_assert_msg(worst <= functions[f].bound, "%s.%s: %g ULP", functions[f].name, t[i].name,
                    worst);
    }
}
END_TEST

START_TEST(tables_have_the_same_rows) {
  table t[3];
  const int n = tables(t);
  for (int i = 1; i < n; i++) {
    ck_assert_uint_eq(t[i].count, t[0].count);
    for (uint32_t r = 0; r < t[0].count; r++) {
      ck_assert_uint_eq(t[i].rows[r].op, t[0].rows[r].op);
      ck_assert_uint_eq(t[i].rows[r].types[0], t[0].rows[r].types[0]);
    }
  }
}
END_TEST

/* Any strides, odd sizes, and an output that is its own input. */
START_TEST(elementwise_takes_any_strides) {
  enum { H = 37, W = 71 };
  table t[3];
  const int n = tables(t);
  float *a = noisy(4 * H * W, 1), *b = noisy(W, 2), *y = noisy(4 * H * W, 3);
  for (int i = 0; i < n; i++) {
    view va, vb, vy;
    VIEW(&va, a, H, W);
    VIEW(&vb, b, H, W);
    VIEW(&vy, y, H, W);
    va.strides[0] = 1, va.strides[1] = H;
    vb.strides[0] = 0;
    vy.strides[0] = 3 * W, vy.strides[1] = 2;
    run(&t[i], TN_OP_SUB, NULL, 2, (const DLTensor *[]){&va.t, &vb.t}, &vy.t);
    for (int r = 0; r < H; r++)
      for (int c = 0; c < W; c++) ck_assert_float_eq(y[r * 3 * W + c * 2], a[c * H + r] - b[c]);
  }
  for (int i = 0; i < n; i++) {
    view va, vy;
    float *z = noisy(H * W, 4), *same = noisy(H * W, 4);
    VIEW(&va, z, H * W);
    vy = va;
    vy.t.shape = vy.shape, vy.t.strides = vy.strides;
    run(&t[i], TN_OP_ADD, NULL, 2, (const DLTensor *[]){&va.t, &va.t}, &vy.t);
    for (int j = 0; j < H * W; j++) ck_assert_float_eq(z[j], same[j] + same[j]);
    free(z);
    free(same);
  }
  free(a);
  free(b);
  free(y);
}
END_TEST

/* ------------------------------------------------------------------ products --- */

static void check_near(const float *got, const double *want, int64_t n, const char *what) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  ck_assert_msg(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-30, "%s: relative error %g", what,
                sqrt(error / norm));
}

static void check_matmul(const tn_host *host, const table *t, int64_t m, int64_t n, int64_t k,
                         int ta, int tb) {
  float *a = noisy(m * k, 5), *b = noisy(k * n, 6), *bias = noisy(n, 7), *y = noisy(m * n, 8);
  double *want = calloc((size_t)(m * n + 1), sizeof *want);
  view va, vb, vbias, vy;
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  attrs.trans_a = ta;
  attrs.trans_b = tb;
  VIEW(&va, a, ta ? k : m, ta ? m : k);
  VIEW(&vb, b, tb ? n : k, tb ? k : n);
  VIEW(&vbias, bias, n);
  VIEW(&vy, y, m, n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      want[i * n + j] = bias[j];
      for (int64_t p = 0; p < k; p++)
        want[i * n + j] += (double)a[ta ? p * m + i : i * k + p] * b[tb ? j * k + p : p * n + j];
    }
  const DLTensor *in[] = {&va.t, &vb.t, &vbias.t};
  ck_assert_int_eq(run_on(host, t, TN_OP_MATMUL, &attrs, 3, in, &vy.t), TN_OK);
  check_near(y, want, m * n, "matmul");
  free(a);
  free(b);
  free(bias);
  free(y);
  free(want);
}

START_TEST(matmul_of_odd_sizes) {
  static const int64_t sizes[][3] = {{1, 1, 1},   {1, 65, 33}, {65, 1, 33},   {3, 5, 0},
                                     {17, 19, 1}, {64, 10, 7}, {127, 129, 65}};
  table t[3];
  const int n = tables(t);
  for (int i = 0; i < n; i++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int trans = 0; trans < 4; trans++)
        check_matmul(&plain_host, &t[i], sizes[s][0], sizes[s][1], sizes[s][2], trans & 1,
                     trans >> 1);
}
END_TEST

/* Blocks in both directions, the last ones smaller, for more threads than there are here. */
START_TEST(matmul_in_blocks) {
  static const int64_t sizes[][3] = {{129, 131, 100}, {250, 170, 130}, {33, 700, 90},
                                     {700, 33, 90},   {1000, 7, 200},  {1, 900, 700}};
  table t[3];
  const int n = tables(t);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int trans = 0; trans < 4; trans++)
      check_matmul(&wide_host, &t[n - 1], sizes[s][0], sizes[s][1], sizes[s][2], trans & 1,
                   trans >> 1);
}
END_TEST

typedef struct geometry {
  int64_t n, c, h, w, k, kh, kw, stride, padding, dilation, groups;
} geometry;

static int64_t out_size(int64_t in, int64_t kernel, const geometry *g) {
  return (in + 2 * g->padding - g->dilation * (kernel - 1) - 1) / g->stride + 1;
}

/* Calls visit for every product: indexes into y, x and w. */
static void each_product(const geometry *g, const float *p, const float *q, double *sum, int what) {
  const int64_t oh = out_size(g->h, g->kh, g), ow = out_size(g->w, g->kw, g);
  const int64_t c = g->c / g->groups, k = g->k / g->groups;
  for (int64_t in = 0; in < g->n; in++)
    for (int64_t ik = 0; ik < g->k; ik++)
      for (int64_t i = 0; i < oh; i++)
        for (int64_t j = 0; j < ow; j++)
          for (int64_t ic = 0; ic < c; ic++)
            for (int64_t r = 0; r < g->kh; r++)
              for (int64_t s = 0; s < g->kw; s++) {
                const int64_t row = i * g->stride + r * g->dilation - g->padding;
                const int64_t col = j * g->stride + s * g->dilation - g->padding;
                if (row < 0 || row >= g->h || col < 0 || col >= g->w) continue;
                const int64_t y = ((in * g->k + ik) * oh + i) * ow + j;
                const int64_t x = ((in * g->c + ik / k * c + ic) * g->h + row) * g->w + col;
                const int64_t w = ((ik * c + ic) * g->kh + r) * g->kw + s;
                if (what == 0) sum[y] += (double)p[x] * q[w];
                if (what == 1) sum[x] += (double)p[y] * q[w];
                if (what == 2) sum[w] += (double)p[y] * q[x];
              }
}

static void check_conv(const table *t, const geometry *g) {
  const int64_t oh = out_size(g->h, g->kh, g), ow = out_size(g->w, g->kw, g);
  const int64_t nx = g->n * g->c * g->h * g->w, ny = g->n * g->k * oh * ow;
  const int64_t nw = g->k * (g->c / g->groups) * g->kh * g->kw;
  float *x = noisy(nx, 9), *w = noisy(nw, 10), *y = noisy(ny, 11);
  float *dx = noisy(nx, 12), *dw = noisy(nw, 13), *dy = noisy(ny, 14);
  double *wx = calloc((size_t)nx + 1, 8), *ww = calloc((size_t)nw + 1, 8);
  double *wy = calloc((size_t)ny + 1, 8);
  const tn_conv2d_attrs a = {sizeof a,
                             {g->stride, g->stride},
                             {g->padding, g->padding},
                             {g->dilation, g->dilation},
                             g->groups};
  tn_conv2d_grad_input_attrs ai = TN_CONV2D_GRAD_INPUT_DEFAULTS;
  tn_conv2d_grad_weight_attrs aw = TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  for (int d = 0; d < 2; d++) {
    ai.stride[d] = aw.stride[d] = g->stride;
    ai.padding[d] = aw.padding[d] = g->padding;
    ai.dilation[d] = aw.dilation[d] = g->dilation;
  }
  ai.groups = aw.groups = g->groups;
  view vx, vw, vy, vdx, vdw, vdy;
  VIEW(&vx, x, g->n, g->c, g->h, g->w);
  VIEW(&vw, w, g->k, g->c / g->groups, g->kh, g->kw);
  VIEW(&vy, y, g->n, g->k, oh, ow);
  VIEW(&vdx, dx, g->n, g->c, g->h, g->w);
  VIEW(&vdw, dw, g->k, g->c / g->groups, g->kh, g->kw);
  VIEW(&vdy, dy, g->n, g->k, oh, ow);
  run(t, TN_OP_CONV2D, &a, 2, (const DLTensor *[]){&vx.t, &vw.t}, &vy.t);
  run(t, TN_OP_CONV2D_GRAD_INPUT, &ai, 2, (const DLTensor *[]){&vdy.t, &vw.t}, &vdx.t);
  run(t, TN_OP_CONV2D_GRAD_WEIGHT, &aw, 2, (const DLTensor *[]){&vdy.t, &vx.t}, &vdw.t);
  each_product(g, x, w, wy, 0);
  each_product(g, dy, w, wx, 1);
  each_product(g, dy, x, ww, 2);
  check_near(y, wy, ny, "conv2d");
  check_near(dx, wx, nx, "conv2d_grad_input");
  check_near(dw, ww, nw, "conv2d_grad_weight");
  free(x), free(w), free(y), free(dx), free(dw), free(dy), free(wx), free(ww), free(wy);
}

START_TEST(convolutions_of_all_kinds) {
  static const geometry cases[] = {
      {2, 1, 28, 28, 32, 3, 3, 1, 0, 1, 1}, {3, 8, 13, 11, 6, 3, 3, 1, 0, 1, 1},
      {1, 4, 9, 10, 6, 3, 2, 2, 1, 1, 2},   {2, 6, 8, 8, 6, 3, 3, 1, 1, 1, 6},
      {1, 3, 15, 15, 4, 3, 3, 2, 3, 2, 1},  {0, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1},
      {19, 2, 5, 5, 3, 1, 1, 1, 0, 1, 1},   {1, 64, 70, 70, 8, 3, 3, 1, 1, 1, 1},
      {1, 2, 4, 4, 2, 3, 3, 5, 4, 1, 1},
  };
  table t[3];
  const int n = tables(t);
  for (int i = 0; i < n; i++)
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) check_conv(&t[i], &cases[c]);
}
END_TEST

/* ---------------------------------------------------------------- reductions --- */

START_TEST(sums_over_any_axes) {
  static const int64_t shapes[][3] = {{5, 7, 11}, {2, 300, 3}, {1, 1, 200003}, {70000, 2, 3}};
  static const tn_axes axes[] = {{1, {0}}, {1, {1}}, {1, {2}}, {2, {0, 2}}, {2, {0, -1}}, {0, {0}}};
  table t[3];
  const int tn = tables(t);
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
      const int64_t *shape = shapes[s], n = shape[0] * shape[1] * shape[2];
      float *x = noisy(n, 20), *y = noisy(n, 21);
      double *want = calloc((size_t)n, sizeof *want);
      bool drop[3] = {false, false, false};
      int64_t kept[3] = {1, 1, 1};
      for (int i = 0; i < axes[a].count; i++) drop[(axes[a].axis[i] + 3) % 3] = true;
      for (int d = 0; d < 3; d++) kept[d] = drop[d] || axes[a].count == 0 ? 1 : shape[d];
      for (int64_t i = 0; i < n; i++) {
        const int64_t at[3] = {i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]};
        const int64_t o = (at[0] % kept[0] * kept[1] + at[1] % kept[1]) * kept[2] + at[2] % kept[2];
        want[o] += x[i];
      }
      for (int i = 0; i < tn; i++) {
        view vx, vy;
        tn_sum_attrs attrs = {sizeof attrs, axes[a], 1};
        VIEW(&vx, x, shape[0], shape[1], shape[2]);
        VIEW(&vy, y, kept[0], kept[1], kept[2]);
        run(&t[i], TN_OP_SUM, &attrs, 1, (const DLTensor *[]){&vx.t}, &vy.t);
        check_near(y, want, kept[0] * kept[1] * kept[2], "sum");
      }
      free(x), free(y), free(want);
    }
}
END_TEST

START_TEST(a_host_without_memory_is_an_error) {
  table t[3];
  const int n = tables(t);
  float *x = noisy(3 * 128 * 128, 30), *y = noisy(128 * 128, 31);
  const tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  for (int i = 0; i < n; i++) {
    view vx, vw, vy;
    VIEW(&vx, x, 1, 1, 8, 8);
    VIEW(&vw, x, 1, 1, 3, 3);
    VIEW(&vy, y, 1, 1, 6, 6);
    ck_assert_int_eq(run_on(&poor_host, &t[i], TN_OP_CONV2D, &attrs, 2,
                            (const DLTensor *[]){&vx.t, &vw.t}, &vy.t),
                     TN_ERR_OUT_OF_MEMORY);
    tn_matmul_attrs product = TN_MATMUL_DEFAULTS;
    VIEW(&vx, x, 128, 128); /* too large for products in registers */
    vx.strides[1] = 3, vx.strides[0] = 384;
    VIEW(&vy, y, 128, 128);
    ck_assert_int_eq(run_on(&poor_host, &t[i], TN_OP_MATMUL, &product, 2,
                            (const DLTensor *[]){&vx.t, &vx.t}, &vy.t),
                     TN_ERR_OUT_OF_MEMORY);
  }
  free(x);
  free(y);
}
END_TEST

/* The first `size` bytes of attributes, as a host that knows no more of them has them; reading on
 * ends the process. */
static void *attrs_of_before(const void *attrs, uint32_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(room, MAP_FAILED);
  ck_assert_int_eq(mprotect(room + page, page, PROT_NONE), 0);
  char *shorter = room + page - size;
  memcpy(shorter, attrs, size);
  memcpy(shorter, &size, sizeof size);
  return shorter;
}

START_TEST(attributes_of_a_host_of_before_are_enough) {
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  tn_quantize_linear_attrs quantize = TN_QUANTIZE_LINEAR_DEFAULTS;
  float x[] = {1, 2.6f, -3}, scale = 1;
  uint8_t bytes[3];
  view vx, vs, vy;
  table t[3];
  cast.dtype = TN_U8;
  const void *casts = attrs_of_before(&cast, offsetof(tn_cast_attrs, overflow));
  const void *quantizes = attrs_of_before(&quantize, offsetof(tn_quantize_linear_attrs, overflow));
  VIEW(&vx, x, 3);
  VIEW(&vs, &scale, 1);
  VIEW(&vy, bytes, 3);
  vy.t.dtype = (DLDataType){.code = kDLUInt, .bits = 8, .lanes = 1};
  for (int i = tables(t); i-- > 0;) {
    run(&t[i], TN_OP_CAST, casts, 1, (const DLTensor *[]){&vx.t}, &vy.t);
    ck_assert(bytes[0] == 1 && bytes[1] == 2 && bytes[2] == 0);
    run(&t[i], TN_OP_QUANTIZE_LINEAR, quantizes, 3, (const DLTensor *[]){&vx.t, &vs.t, NULL},
        &vy.t);
    ck_assert(bytes[0] == 1 && bytes[1] == 3 && bytes[2] == 0);
  }
}
END_TEST

int main(void) {
  if (cpu_blas_open(&plain_host)) return EXIT_FAILURE;
  Suite *suite = suite_create("cpu_kernels");
  TCase *tcase = tcase_create("cpu_kernels");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, tables_have_the_same_rows);
  tcase_add_test(tcase, float_functions_keep_their_bounds);
  tcase_add_test(tcase, elementwise_takes_any_strides);
  tcase_add_test(tcase, matmul_of_odd_sizes);
  tcase_add_test(tcase, matmul_in_blocks);
  tcase_add_test(tcase, convolutions_of_all_kinds);
  tcase_add_test(tcase, sums_over_any_axes);
  tcase_add_test(tcase, a_host_without_memory_is_an_error);
  tcase_add_test(tcase, attributes_of_a_host_of_before_are_enough);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  const int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
