/*
 * Recurrent networks, indexes and activations as no case of ONNX's has them: layouts, directions,
 * lengths, what Tenon does not serve, and forms of before.
 */
#include <math.h>

#include "tests/onnx/trial.h"

enum { S = 3, N = 2, I = 2, H = 2 };
enum { MOST = 2 * 4 * H * 8 };

static float ramp[MOST];

static void fill_ramp(void) {
  for (int i = 0; i < MOST; i++) ramp[i] = (float)((i * 37) % 23 - 11) / 16;
}

static void activations(trial *t, size_t count, const char *const *names) {
  static ProtobufCBinaryData list[8];
  Onnx__Attribute *a = attribute(t, "activations");
  for (size_t i = 0; i < count; i++)
    list[i] = (ProtobufCBinaryData){strlen(names[i]), (uint8_t *)(uintptr_t)names[i]};
  a->n_strings = count;
  a->strings = list;
}

/* A network of `gates` over x; states and lengths are left out. */
static void recurrent_begin(trial *t, const char *type, int64_t gates, int64_t d, float *x) {
  trial_begin(t, type, 3, 3);
  input(t, 0, TN_F32, 3, SHAPE(S, N, I), x);
  input(t, 1, TN_F32, 3, SHAPE(d, gates * H, I), ramp);
  input(t, 2, TN_F32, 3, SHAPE(d, gates * H, H), ramp + 3);
}

/* The reference by hand: a plain network with the identity as weights of x and none of the state
 * gives tanh(x), reversed or not, 0 behind a sequence's end and the last state beside. */
START_TEST(sequences_end_where_their_lengths_say) {
  static float x[S * N * I], one[2 * H * I], none[2 * H * H], y[S * 2 * N * H], last[2 * N * H];
  int32_t lengths[N] = {3, 1};
  for (int i = 0; i < S * N * I; i++) x[i] = ramp[i];
  for (int d = 0; d < 2; d++) one[d * 4] = one[d * 4 + 3] = 1;
  trial t;
  trial_begin(&t, "RNN", 5, 2);
  input(&t, 0, TN_F32, 3, SHAPE(S, N, I), x);
  input(&t, 1, TN_F32, 3, SHAPE(2, H, I), one);
  input(&t, 2, TN_F32, 3, SHAPE(2, H, H), none);
  input(&t, 4, TN_I32, 1, SHAPE(N), lengths);
  word(&t, "direction", "bidirectional");
  gives(&t, S * 2 * N * H, y);
  for (int s = 0; s < S; s++)
    for (int k = 0; k < 2 * N * H; k++) {
      const int n = k / H % N, h = k % H;
      const float want = s < lengths[n] ? tanhf(x[(s * N + n) * I + h]) : 0;
      ck_assert_float_eq_tol(y[s * 2 * N * H + k], want, 1e-6f);
    }
  ok(tn_tensor_to_host(t.at.y[1], last, sizeof last));
  for (int k = 0; k < 2 * N * H; k++) {
    const int d = k / (N * H), n = k / H % N, h = k % H, s = d ? 0 : lengths[n] - 1;
    ck_assert_float_eq_tol(last[k], tanhf(x[(s * N + n) * I + h]), 1e-6f);
  }
  trial_end(&t);
}
END_TEST

/* Layout 1 turned by hand is layout 0. */
START_TEST(layouts_differ_in_the_order_of_axes) {
  static const char *const types[] = {"LSTM", "GRU", "RNN"};
  static const int64_t gates[] = {4, 3, 1};
  enum { ALL = S * 2 * N * H };
  float x[S * N * I], turned[S * N * I], y[ALL], other[ALL], last[2 * N * H], own[2 * N * H];
  for (int i = 0; i < S * N * I; i++) x[i] = ramp[40 + i];
  for (int s = 0; s < S; s++)
    for (int k = 0; k < N * I; k++) turned[(k / I * S + s) * I + k % I] = x[s * N * I + k];
  for (int i = 0; i < 3; i++) {
    trial t;
    recurrent_begin(&t, types[i], gates[i], 2, x);
    word(&t, "direction", "bidirectional");
    gives(&t, ALL, y);
    ok(tn_tensor_to_host(t.at.y[1], last, sizeof last));
    trial_end(&t);
    recurrent_begin(&t, types[i], gates[i], 2, turned);
    t.at.in[0].shape[0] = N, t.at.in[0].shape[1] = S;
    tn_tensor_release(t.at.x[0]);
    ok(tn_tensor_from_host(device, TN_F32, 3, SHAPE(N, S, I), turned, &t.at.x[0]));
    word(&t, "direction", "bidirectional");
    attribute(&t, "layout")->i = 1;
    gives(&t, ALL, other);
    ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[0], N);
    ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[1], S);
    ok(tn_tensor_to_host(t.at.y[1], own, sizeof own));
    trial_end(&t);
    for (int k = 0; k < ALL; k++) { /* [s, d, n, h] and [n, s, d, h] */
      const int h = k % H, n = k / H % N, d = k / (H * N) % 2, s = k / (H * N * 2);
      ck_assert(y[k] == other[((n * S + s) * 2 + d) * H + h]);
    }
    for (int k = 0; k < 2 * N * H; k++)
      ck_assert(last[k] == own[(k / H % N * 2 + k / (H * N)) * H + k % H]);
  }
}
END_TEST

START_TEST(activations_are_named) {
  static const char *const known[] = {"sigmoid", "RELU", "Tanh"};
  static const char *const unknown[] = {"Sigmoid", "Affine", "Tanh"};
  static const char *const twice[] = {"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Relu"};
  float y[S * N * H];
  trial t;
  recurrent_begin(&t, "LSTM", 4, 1, ramp);
  activations(&t, 3, known);
  gives(&t, S * N * H, y);
  trial_end(&t);

  recurrent_begin(&t, "LSTM", 4, 1, ramp);
  activations(&t, 3, unknown);
  refuses(&t, "the activation Affine");

  recurrent_begin(&t, "LSTM", 4, 1, ramp);
  activations(&t, 2, known);
  refuses(&t, "2 activations of 1 directions");

  recurrent_begin(&t, "LSTM", 4, 2, ramp);
  word(&t, "direction", "bidirectional");
  activations(&t, 6, twice);
  refuses(&t, "other activations backward");

  recurrent_begin(&t, "GRU", 3, 1, ramp);
  word(&t, "direction", "sideways");
  refuses(&t, "a direction");
}
END_TEST

START_TEST(conditions_may_be_shorter) {
  float x[] = {1, 2, 3, 4, 5, 6}, y[4];
  uint8_t condition[] = {0, 1, 0, 1};
  trial t;
  trial_begin(&t, "Compress", 2, 1);
  input(&t, 0, TN_F32, 2, SHAPE(3, 2), x);
  input(&t, 1, TN_BOOL, 1, SHAPE(4), condition);
  gives(&t, 2, y);
  ck_assert(y[0] == 2 && y[1] == 4);
  trial_end(&t);

  trial_begin(&t, "Compress", 2, 1);
  input(&t, 0, TN_F32, 2, SHAPE(3, 2), x);
  input(&t, 1, TN_BOOL, 1, SHAPE(2), condition);
  attribute(&t, "axis")->i = -2;
  gives(&t, 2, y);
  ck_assert(y[0] == 3 && y[1] == 4);
  trial_end(&t);

  trial_begin(&t, "Compress", 2, 1);
  input(&t, 0, TN_F32, 1, SHAPE(2), x);
  input(&t, 1, TN_BOOL, 1, SHAPE(4), condition);
  refuses(&t, "a condition longer");
}
END_TEST

START_TEST(reductions_leave_the_input) {
  static const char *const names[] = {"none", "add", "mul", "min", "max"};
  static const float want[] = {3, 7, 6, 2, 3};
  float data[] = {1, 2, 3}, updates[] = {2, 3}, y[3];
  int64_t places[] = {1, -2};
  for (int i = 0; i < 5; i++)
    for (int nd = 0; nd < 2; nd++) {
      trial t;
      trial_begin(&t, nd ? "ScatterND" : "ScatterElements", 3, 1);
      input(&t, 0, TN_F32, 1, SHAPE(3), data);
      input(&t, 1, TN_I64, nd ? 2 : 1, SHAPE(2, 1), places);
      input(&t, 2, TN_F32, 1, SHAPE(2), updates);
      word(&t, "reduction", names[i]);
      gives(&t, 3, y);
      ck_assert(y[0] == 1 && y[1] == (i == 2 ? 12 : want[i]) && y[2] == 3);
      ok(tn_tensor_to_host(t.at.x[0], y, sizeof y));
      ck_assert_mem_eq(y, data, sizeof y);
      trial_end(&t);
    }
}
END_TEST

START_TEST(slopes_were_by_channel) {
  float x[] = {-1, -1, -1, -1}, slope[] = {2, 3}, y[4];
  trial t;
  trial_begin(&t, "PRelu", 2, 1);
  t.at.opset = 6;
  input(&t, 0, TN_F32, 3, SHAPE(1, 2, 2), x);
  input(&t, 1, TN_F32, 1, SHAPE(2), slope);
  gives(&t, 4, y);
  ck_assert(y[0] == -2 && y[1] == -2 && y[2] == -3 && y[3] == -3);
  trial_end(&t);

  trial_begin(&t, "PRelu", 2, 1);
  input(&t, 0, TN_F32, 3, SHAPE(1, 2, 2), x);
  input(&t, 1, TN_F32, 1, SHAPE(2), slope);
  gives(&t, 4, y);
  ck_assert(y[0] == -2 && y[1] == -3 && y[2] == -2 && y[3] == -3);
  trial_end(&t);
}
END_TEST

static void add_tests(TCase *t) {
  fill_ramp();
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, sequences_end_where_their_lengths_say);
  tcase_add_test(t, layouts_differ_in_the_order_of_axes);
  tcase_add_test(t, activations_are_named);
  tcase_add_test(t, conditions_may_be_shorter);
  tcase_add_test(t, reductions_leave_the_input);
  tcase_add_test(t, slopes_were_by_channel);
}

int main(void) { return run_suite("onnx recurrent", add_tests); }
