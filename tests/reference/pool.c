/* Pooling against windows written out, and its gradients against differences. */
#include <string.h>

#include "harness.h"

typedef struct window {
  int64_t h, w, kernel[2], stride[2], padding[2];
} window;

static const window windows[] = {
    {4, 4, {2, 2}, {0, 0}, {0, 0}}, {5, 7, {3, 3}, {2, 2}, {1, 1}}, {6, 5, {3, 2}, {1, 1}, {1, 0}},
    {3, 3, {3, 3}, {1, 1}, {1, 1}}, {1, 9, {1, 4}, {0, 3}, {0, 2}}, {2, 2, {2, 2}, {5, 5}, {1, 1}},
    {8, 8, {8, 8}, {0, 0}, {4, 4}}, {7, 7, {2, 2}, {3, 3}, {0, 0}}, {1, 1, {2, 2}, {1, 1}, {1, 1}},
};
enum { WINDOWS = sizeof windows / sizeof *windows, N = 2, C = 3 };

static int64_t step(const window *s, int axis) {
  return s->stride[axis] ? s->stride[axis] : s->kernel[axis];
}

static int64_t out_size(const window *s, int axis) {
  return ((axis ? s->w : s->h) + 2 * s->padding[axis] - s->kernel[axis]) / step(s, axis) + 1;
}

/* What one window holds, written out. */
typedef struct content {
  double sum, most;
  int count;
  int64_t first;
} content;

static content look(const window *s, const tensor *x, int64_t o) {
  int64_t ow = out_size(s, 1), oh = out_size(s, 0), plane = o / (ow * oh);
  content r = {0, -INFINITY, 0, -1};
  for (int64_t e = 0; e < s->kernel[0] * s->kernel[1]; ++e) {
    int64_t row = o / ow % oh * step(s, 0) - s->padding[0] + e / s->kernel[1];
    int64_t col = o % ow * step(s, 1) - s->padding[1] + e % s->kernel[1];
    if (row < 0 || row >= s->h || col < 0 || col >= s->w) continue;
    double v = get(x, plane * s->h * s->w + row * s->w + col);
    r.sum += v, ++r.count;
    if (r.most == r.most && (r.first < 0 || v != v || v > r.most))
      r.most = v, r.first = row * s->w + col;
  }
  return r;
}

#define SET_WINDOW(attrs, s)                                                                       \
  memcpy((attrs)->kernel, (s)->kernel, sizeof(s)->kernel);                                         \
  memcpy((attrs)->stride, (s)->stride, sizeof(s)->stride);                                         \
  memcpy((attrs)->padding, (s)->padding, sizeof(s)->padding)

static tensor *input_of(const window *s, tn_dtype t) {
  return random_tensor(t, 7, -1, 1, SHAPE(N, C, s->h, s->w));
}

static tensor *output_of(const window *s, tn_dtype t) {
  return random_tensor(t, 8, -1, 1, SHAPE(N, C, out_size(s, 0), out_size(s, 1)));
}

START_TEST(maxima) {
  const window *s = &windows[_i / 4];
  tn_dtype t = (tn_dtype)(TN_F16 + _i % 4);
  tn_max_pool2d_attrs attrs = TN_MAX_POOL2D_DEFAULTS;
  SET_WINDOW(&attrs, s);
  tensor *x = input_of(s, t), *y = output_of(s, t), *index = make_like(y, TN_I32, DENSE);
  for (int64_t i = 0; i < x->count; i += 5) set(x, i, 1); /* ties */
  if (x->count > 10) set(x, 3, NAN), set(x, 4, NAN), set(x, x->count - 1, -INFINITY);
  call c = {reference_max_pool2d, &attrs, 1, 2, {x}, {y, index}};
  check_layouts(&c);
  tensor *alone = make_like(y, t, DENSE);
  call no_index = {reference_max_pool2d, &attrs, 1, 2, {x}, {alone, NULL}};
  check_layouts(&no_index);
  check_same(alone, y);
  for (int64_t o = 0; o < y->count; ++o) {
    content wanted = look(s, x, o);
    check_near(get(y, o), wanted.most, 0);
    ck_assert_int_eq(get_i64(index, o), wanted.first);
  }
}
END_TEST

START_TEST(means) {
  const window *s = &windows[_i / 4];
  tn_dtype t = (tn_dtype)(TN_F16 + _i % 4);
  tn_avg_pool2d_attrs attrs = TN_AVG_POOL2D_DEFAULTS;
  SET_WINDOW(&attrs, s);
  tensor *x = input_of(s, t), *y = output_of(s, t), *wanted = make_like(y, t, DENSE);
  call c = {reference_avg_pool2d, &attrs, 1, 1, {x}, {y}};
  for (attrs.count_padding = 0; attrs.count_padding < 2; ++attrs.count_padding) {
    check_layouts(&c);
    for (int64_t o = 0; o < y->count; ++o) {
      content r = look(s, x, o);
      double count = attrs.count_padding ? (double)(s->kernel[0] * s->kernel[1]) : r.count;
      set(wanted, o, r.sum / count);
      check_near(get(y, o), get(wanted, o), 1e-15);
    }
  }
}
END_TEST

START_TEST(gradients_are_derivatives) {
  const window *s = &windows[_i];
  tn_max_pool2d_attrs max = TN_MAX_POOL2D_DEFAULTS;
  tn_max_pool2d_grad_attrs max_grad = TN_MAX_POOL2D_GRAD_DEFAULTS;
  tn_avg_pool2d_attrs avg = TN_AVG_POOL2D_DEFAULTS;
  tn_avg_pool2d_grad_attrs avg_grad = TN_AVG_POOL2D_GRAD_DEFAULTS;
  SET_WINDOW(&max, s), SET_WINDOW(&max_grad, s), SET_WINDOW(&avg, s), SET_WINDOW(&avg_grad, s);
  max_grad.size[0] = avg_grad.size[0] = s->h, max_grad.size[1] = avg_grad.size[1] = s->w;
  tensor *x = input_of(s, TN_F64), *y = make_like(output_of(s, TN_F64), TN_F64, DENSE);
  tensor *dy = output_of(s, TN_F64), *dx = make_like(x, TN_F64, DENSE);
  tensor *index = make_like(y, TN_I32, DENSE);
  call forward = {reference_max_pool2d, &max, 1, 2, {x}, {y, index}};
  call backward = {reference_max_pool2d_grad, &max_grad, 2, 1, {dy, index}, {dx}};
  must(&forward), check_layouts(&backward);
  check_gradient(&forward, x, dy, dx);
  forward = (call){reference_avg_pool2d, &avg, 1, 1, {x}, {y}};
  backward = (call){reference_avg_pool2d_grad, &avg_grad, 1, 1, {dy}, {dx}};
  for (int count = 0; count < 2; ++count) {
    avg.count_padding = avg_grad.count_padding = count;
    check_layouts(&backward);
    check_gradient(&forward, x, dy, dx);
  }
}
END_TEST

/* Not what the contract allows, but no reason to write outside dx. */
START_TEST(wild_indexes_are_passed_over) {
  tn_max_pool2d_grad_attrs attrs = TN_MAX_POOL2D_GRAD_DEFAULTS;
  attrs.size[0] = attrs.size[1] = 2;
  tensor *dy = with(TN_F32, VALUES(1, 2, 4), SHAPE(3, 1, 1, 1));
  tensor *index = with(TN_I32, VALUES(-1, 4, 3), SHAPE(3, 1, 1, 1));
  tensor *dx = make(TN_F32, DENSE, SHAPE(3, 1, 2, 2));
  call c = {reference_max_pool2d_grad, &attrs, 2, 1, {dy, index}, {dx}};
  must(&c);
  check_values(dx, VALUES(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4), 0);
}
END_TEST

START_TEST(no_images) {
  tn_max_pool2d_attrs max = TN_MAX_POOL2D_DEFAULTS;
  tn_avg_pool2d_attrs avg = TN_AVG_POOL2D_DEFAULTS;
  tensor *x = make(TN_F32, DENSE, SHAPE(0, 3, 4, 4)), *y = make(TN_F32, DENSE, SHAPE(0, 3, 2, 2));
  call c = {reference_max_pool2d, &max, 1, 2, {x}, {y, make_like(y, TN_I32, DENSE)}};
  check_layouts(&c);
  c = (call){reference_avg_pool2d, &avg, 1, 1, {x}, {y}};
  check_layouts(&c);
}
END_TEST

Suite *pool_suite(void) {
  Suite *s = suite_create("pooling");
  TCase *c = add_case(s, "pooling");
  tcase_add_loop_test(c, maxima, 0, 4 * WINDOWS);
  tcase_add_loop_test(c, means, 0, 4 * WINDOWS);
  tcase_add_loop_test(c, gradients_are_derivatives, 0, WINDOWS);
  tcase_add_test(c, wild_indexes_are_passed_over);
  tcase_add_test(c, no_images);
  return s;
}
