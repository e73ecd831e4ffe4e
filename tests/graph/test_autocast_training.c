/* Autocast of graphs that train: gradients by what was cast, and the scale of the loss. */
#include <math.h>

#include "tests/graph/casts.h"

/* mean((relu(x w) v - t)^2), and its gradients by w and v. */
static void gradients_of(tn_dtype autocast, float *dw, float *dv, uint32_t *casts) {
  tn_graph *g = make_graph();
  tn_tensor *real[4] = {numbers(device, 8, 8, -1), numbers(device, 8, 8, -0.7f),
                        numbers(device, 8, 1, -0.9f), numbers(device, 8, 1, 1)};
  tn_tensor *x = parameter(g, "x", real[0]), *w = parameter(g, "w", real[1]),
            *v = parameter(g, "v", real[2]), *t = parameter(g, "t", real[3]), *by[2] = {w, v};
  tn_tensor *a, *h = NULL, *y, *off = NULL, *square = NULL, *loss = NULL, *grad[2], *got[2] = {0};
  ok(tn_graph_autocast(g, autocast));
  a = product(x, w);
  ok(tn_relu(NULL, a, &h));
  y = product(h, v);
  ok(tn_sub(NULL, y, t, &off));
  ok(tn_mul(NULL, off, off, &square));
  ok(tn_mean(NULL, square, NULL, &loss));
  is(loss, TN_F32);
  *casts = casts_of(g);
  ok(tn_graph_gradient(g, loss, 2, by, grad));
  is(grad[0], TN_F32);
  is(grad[1], TN_F32);
  ok(tn_graph_output(g, "dw", grad[0]));
  ok(tn_graph_output(g, "dv", grad[1]));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 0, NULL, 2, got));
  ok(tn_tensor_to_host(got[0], dw, 64 * sizeof *dw));
  ok(tn_tensor_to_host(got[1], dv, 8 * sizeof *dv));
  tn_program_destroy(p);
  for (int i = 0; i < 4; ++i) tn_tensor_release(real[i]);
  RELEASE(x, w, v, t, a, h, y, off, square, loss, grad[0], grad[1], got[0], got[1]);
  tn_graph_destroy(g);
}

static double off_by(const float *a, const float *b, int n) {
  double error = 0, norm = 0;
  for (int i = 0; i < n; ++i) {
    error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    norm += (double)a[i] * a[i];
  }
  return sqrt(error / norm);
}

START_TEST(gradients_pass_through_casts) {
  float dw[64], dv[8], low_dw[64], low_dv[8];
  uint32_t casts;
  gradients_of(TN_DTYPE_NONE, dw, dv, &casts);
  ck_assert_uint_eq(casts, 0);
  gradients_of(TN_BF16, low_dw, low_dv, &casts);
  ck_assert_uint_eq(casts, 4); /* x, w, v; y to float32 */
  double w = off_by(dw, low_dw, 64), v = off_by(dv, low_dv, 8);
  ck_assert_msg(w > 0 && w < 0.03, "%g", w);
  ck_assert_msg(v > 0 && v < 0.03, "%g", v);
}
END_TEST

/* What was called in float32 is differentiated in float32, whatever has been said since. */
START_TEST(gradients_have_the_types_of_their_calls) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 4), *w = input(g, "w", 4, 4), *y = product(x, w);
  tn_tensor *loss = NULL, *dw = NULL;
  ok(tn_sum(NULL, y, NULL, &loss));
  ok(tn_graph_autocast(g, TN_BF16));
  ok(tn_graph_gradient(g, loss, 1, &w, &dw));
  ck_assert_uint_eq(casts_of(g), 0);
  tn_tensor *z = product(dw, w); /* and then it goes on */
  is(z, TN_BF16);
  RELEASE(x, w, y, loss, dw, z);
  tn_graph_destroy(g);
}
END_TEST

/*
 * The scale of the loss, all on the device: gradients of the scaled loss in float16 overflow while
 * the scale is too large, found_inf says so, the scale comes down, and then w gets its step.
 */
typedef struct scaling {
  tn_graph *graph;
  tn_tensor *w, *scale, *good; /* real */
} scaling;

static tn_tensor *real_scalar(tn_dtype dtype, double value) {
  tn_tensor *t = NULL;
  ok(tn_scalar_f64(device, NULL, dtype, value, &t));
  tn_tensor *own = NULL;
  ok(tn_copy(NULL, t, &own));
  tn_tensor_release(t);
  return own;
}

static scaling scaled_step(double first_scale) {
  scaling s = {make_graph(), numbers(device, 4, 4, 0.5f), real_scalar(TN_F32, first_scale),
               real_scalar(TN_I64, 0)};
  tn_graph *g = s.graph;
  tn_device *symbolic = tn_graph_device(g);
  tn_tensor *w = parameter(g, "w", s.w), *scale = parameter(g, "scale", s.scale);
  tn_tensor *good = parameter(g, "good_steps", s.good), *x = input(g, "x", 4, 4);
  tn_tensor *loss = NULL, *scaled = NULL, *grad = NULL, *found = NULL, *velocity = NULL;
  tn_tensor *stepped = NULL, *chosen = NULL;
  ok(tn_graph_autocast(g, TN_F16));
  tn_tensor *y = product(x, w);
  ok(tn_mean(NULL, y, NULL, &loss));
  ok(tn_mul(NULL, loss, scale, &scaled));
  ok(tn_graph_gradient(g, scaled, 1, &w, &grad));
  ok(tn_zeros(symbolic, NULL, TN_BOOL, 0, NULL, &found));
  ok(tn_unscale_grads(NULL, scale, &grad, 1, found));
  ok(tn_zeros(symbolic, NULL, TN_F32, 2, SHAPE(4, 4), &velocity));
  ok(tn_copy(NULL, w, &stepped));
  ok(tn_sgd_step(NULL, grad, stepped, velocity, NULL));
  ok(tn_where(NULL, found, w, stepped, &chosen));
  ok(tn_copy(NULL, chosen, &w));
  tn_update_loss_scale_attrs attrs = TN_UPDATE_LOSS_SCALE_DEFAULTS;
  attrs.interval = 3;
  ok(tn_update_loss_scale(NULL, found, scale, good, &attrs));
  ok(tn_graph_output(g, "loss", loss));
  RELEASE(w, scale, good, x, loss, scaled, grad, found, velocity, stepped, chosen, y);
  return s;
}

START_TEST(the_scale_of_the_loss_adapts_on_the_device) {
  scaling s = scaled_step(0x1p24);
  tn_program *p = compiled(s.graph);
  tn_tensor *x = numbers(device, 4, 4, 1), *loss = NULL;
  float scale[1], first[16], last[16];
  int64_t good[1];
  ok(tn_tensor_to_host(s.w, first, sizeof first));
  int skipped = 0;
  for (int step = 0; step < 20; ++step) {
    float before = 0;
    ok(tn_tensor_to_host(s.scale, &before, sizeof before));
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &loss));
    ok(tn_tensor_to_host(s.scale, scale, sizeof scale));
    ok(tn_tensor_to_host(s.w, last, sizeof last));
    if (scale[0] < before) {
      ++skipped;
      ck_assert_float_eq(scale[0], before / 2);
    }
    for (int i = 0; i < 16; ++i) ck_assert(isfinite(last[i]));
    if (skipped == step + 1) ck_assert(memcmp(first, last, sizeof first) == 0);
  }
  ok(tn_tensor_to_host(s.good, good, sizeof good));
  ck_assert_msg(skipped >= 2 && skipped < 20, "%d steps skipped", skipped);
  ck_assert(good[0] >= 0 && good[0] < 3);
  ck_assert(memcmp(first, last, sizeof first) != 0);
  RELEASE(x, loss, s.w, s.scale, s.good);
  tn_program_destroy(p);
  tn_graph_destroy(s.graph);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, gradients_pass_through_casts);
  tcase_add_test(t, gradients_have_the_types_of_their_calls);
  tcase_add_test(t, the_scale_of_the_loss_adapts_on_the_device);
}

int main(void) { return run_suite("autocast_training", add_tests); }
