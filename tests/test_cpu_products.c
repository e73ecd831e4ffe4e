/*
 * Products and convolutions by every table of CPU kernels, against plain loops: odd sizes, blocks,
 * strides, padding and groups.
 */
#include "cpu_tables.h"

static const tn_host wide_host = {.struct_size = sizeof(tn_host),
                                  .num_threads = 16,
                                  .fail = host_fail,
                                  .alloc = host_alloc,
                                  .free = host_free,
                                  .parallel_for = host_parallel_for};

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

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, matmul_of_odd_sizes);
  tcase_add_test(tcase, matmul_in_blocks);
  tcase_add_test(tcase, convolutions_of_all_kinds);
}

int main(void) { return run_tables_suite("cpu_products", add_tests); }
