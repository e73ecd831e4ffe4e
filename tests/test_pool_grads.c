/*
 * Gradients of averages over windows: many of a row and of a plane, ones that meet, that leave
 * elements out, that a border cuts, and so many to an element that kernels go another way. All
 * devices against the definition.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

typedef struct problem {
  int64_t size[2], kernel[2], stride[2], padding[2];
  int32_t count_padding, ceil_mode;
} problem;

enum { PLANES = 3 };

static int64_t windows(const problem *p, int d) {
  const int64_t room = p->size[d] + 2 * p->padding[d] - p->kernel[d];
  const int64_t count = (room + (p->ceil_mode ? p->stride[d] - 1 : 0)) / p->stride[d] + 1;
  return count - (p->ceil_mode && (count - 1) * p->stride[d] >= p->size[d] + p->padding[d]);
}

typedef struct span {
  int64_t begin, end, count;
} span;

static span span_of(const problem *p, int d, int64_t o) {
  const int64_t begin = o * p->stride[d] - p->padding[d], most = p->size[d] + p->padding[d];
  const int64_t end = begin + p->kernel[d] < most ? begin + p->kernel[d] : most;
  span s = {begin < 0 ? 0 : begin, end < p->size[d] ? end : p->size[d], end - begin};
  if (!p->count_padding) s.count = s.end - s.begin;
  return s;
}

static double *gradient_of(const problem *p, const double *dy) {
  const int64_t h = p->size[0], w = p->size[1];
  double *dx = calloc((size_t)(PLANES * h * w), sizeof *dx);
  for (int64_t n = 0; n < PLANES; ++n)
    for (int64_t i = 0; i < windows(p, 0); ++i)
      for (int64_t j = 0; j < windows(p, 1); ++j, ++dy) {
        const span r = span_of(p, 0, i), c = span_of(p, 1, j);
        for (int64_t k = r.begin; k < r.end; ++k)
          for (int64_t l = c.begin; l < c.end; ++l)
            dx[(n * h + k) * w + l] += *dy / (double)(r.count * c.count);
      }
  return dx;
}

static tn_tensor *grad_on(int d, tn_dtype dtype, const problem *p, const double *dy) {
  tn_avg_pool2d_grad_attrs attrs = TN_AVG_POOL2D_GRAD_DEFAULTS;
  for (int k = 0; k < 2; ++k) {
    attrs.kernel[k] = p->kernel[k], attrs.stride[k] = p->stride[k];
    attrs.padding[k] = p->padding[k], attrs.size[k] = p->size[k];
  }
  attrs.count_padding = p->count_padding, attrs.ceil_mode = p->ceil_mode;
  const int64_t *shape = SHAPE(1, PLANES, windows(p, 0), windows(p, 1));
  tn_tensor *x = numbers(b.devices[d], dtype, 4, shape, dy), *y = NULL;
  ok(tn_avg_pool2d_grad(NULL, x, &attrs, &y));
  tn_tensor_release(x);
  return y;
}

START_TEST(each_element_gets_its_share_of_every_window) {
  static const problem problems[] = {
      {{24, 24}, {2, 2}, {2, 2}, {0, 0}, 1, 0},  {{40, 300}, {3, 3}, {2, 2}, {1, 1}, 1, 0},
      {{40, 300}, {3, 3}, {2, 2}, {1, 1}, 0, 1}, {{33, 61}, {2, 3}, {5, 4}, {0, 1}, 1, 0},
      {{70, 9}, {4, 4}, {1, 1}, {2, 2}, 0, 0},   {{5, 90}, {2, 16}, {1, 1}, {1, 8}, 0, 0},
      {{5, 90}, {2, 17}, {1, 1}, {1, 8}, 0, 0},  {{3, 80}, {3, 40}, {1, 1}, {0, 20}, 1, 0},
      {{1, 1300}, {1, 2}, {1, 1}, {0, 0}, 1, 0}, {{7, 7}, {7, 7}, {7, 7}, {0, 0}, 1, 0},
      {{600, 3}, {1, 1}, {2, 2}, {0, 0}, 1, 0},  {{9, 11}, {3, 5}, {2, 3}, {1, 2}, 0, 1},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
    const problem *p = &problems[i];
    const int64_t n = PLANES * windows(p, 0) * windows(p, 1);
    double *dy = malloc((size_t)n * sizeof *dy);
    for (int64_t k = 0; k < n; ++k) dy[k] = (double)(k * 37 % 64) - 31;
    double *want = gradient_of(p, dy);
    for (int d = 0; d < b.count; ++d) {
      const int64_t elements = PLANES * p->size[0] * p->size[1];
      must_be(&b, "f32", d, grad_on(d, TN_F32, p, dy), elements, want, 1e-6);
      must_be(&b, "f64", d, grad_on(d, TN_F64, p, dy), elements, want, 1e-14);
      must_be(&b, "f16", d, grad_on(d, TN_F16, p, dy), elements, want, 1e-3);
      must_be(&b, "bf16", d, grad_on(d, TN_BF16, p, dy), elements, want, 8e-3);
    }
    free(dy), free(want);
  }
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, each_element_gets_its_share_of_every_window);
}

int main(void) { return run_suite("gradients of pooling", add_tests); }
