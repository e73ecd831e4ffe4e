/*
 * The CPU kernels, every table that this processor can run: float functions swept against libm in
 * double, strides, sums, and what the host lacks. Products are test_cpu_products.c's.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu_tables.h"

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

/* --------------------------------------------------------- what the host lacks --- */

static void *host_alloc_nothing(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  (void)bytes;
  (void)align;
  return NULL;
}

static const tn_host poor_host = {.struct_size = sizeof(tn_host),
                                  .num_threads = 3,
                                  .fail = host_fail,
                                  .alloc = host_alloc_nothing,
                                  .free = host_free,
                                  .parallel_for = host_parallel_for};

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

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, tables_have_the_same_rows);
  tcase_add_test(tcase, float_functions_keep_their_bounds);
  tcase_add_test(tcase, elementwise_takes_any_strides);
  tcase_add_test(tcase, sums_over_any_axes);
  tcase_add_test(tcase, a_host_without_memory_is_an_error);
  tcase_add_test(tcase, attributes_of_a_host_of_before_are_enough);
}

int main(void) { return run_tables_suite("cpu_kernels", add_tests); }
