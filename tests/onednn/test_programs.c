/*
 * Convolutions of the oneDNN plugin as programs make them: constant weights are reordered once and
 * given back, weights that may change are not kept, and activations are the operators'.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tenon/graph.h"
#include "tests/onednn/onednn.h"

/* --- weights that are kept --- */

/* How often memory for all weights of KEPT_CHANNELS is taken, and what is not given back. */
enum { KEPT_CHANNELS = 64, KEPT_BYTES = KEPT_CHANNELS * KEPT_CHANNELS * 9 * 4 };
static struct { atomic_int large, held; } taken;

static void *counting_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (bytes >= KEPT_BYTES && bytes < 2 * KEPT_BYTES) atomic_fetch_add(&taken.large, 1);
  atomic_fetch_add(&taken.held, 1);
  return aligned_alloc(align, (bytes + align) / align * align);
}

static void counting_free(void *user, void *ptr) {
  (void)user;
  if (ptr) atomic_fetch_sub(&taken.held, 1);
  free(ptr);
}

static tn_runtime *open_counting(const char *plugins, uint32_t threads) {
  static const tn_allocator allocator = {counting_alloc, counting_free, NULL};
  tn_runtime_options o = {.struct_size = sizeof o,
                          .plugins = plugins,
                          .device = "cpu",
                          .num_threads = threads,
                          .allocator = &allocator};
  return open_runtime(&o);
}

static tn_conv2d_attrs kept_attrs(int64_t activation) {
  tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
  a.padding[0] = a.padding[1] = 1;
  a.activation = activation;
  return a;
}

/* relu(conv(x, w)) with w a constant, or a parameter that may be written to. */
static tn_program *conv_program(tn_runtime *rt, tn_tensor *w, bool constant) {
  tn_graph *g;
  tn_program *p;
  tn_tensor *x, *weights, *y = NULL;
  const tn_conv2d_attrs a = kept_attrs(TN_ACTIVATION_RELU);
  ok(tn_graph_create(rt, "kept", &g));
  ok(tn_graph_input(g, "x", TN_F32, 4, SHAPE(1, KEPT_CHANNELS, 8, 8), &x));
  ok((constant ? tn_graph_constant : tn_graph_parameter)(g, "w", w, &weights));
  ok(tn_conv2d(NULL, x, weights, NULL, &a, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, tn_runtime_device(rt), NULL, &p));
  tn_tensor_release(x), tn_tensor_release(weights), tn_tensor_release(y);
  tn_graph_destroy(g);
  return p;
}

/* A run gives the bits of the call alone. */
static void runs_as_call(tn_program *p, const tn_tensor *x, const tn_tensor *w) {
  enum { COUNT = KEPT_CHANNELS * 64 };
  static float got[COUNT], want[COUNT];
  const tn_conv2d_attrs a = kept_attrs(TN_ACTIVATION_RELU);
  tn_tensor *y = NULL, *alone = NULL;
  ok(tn_program_run(p, NULL, 1, &x, 1, &y));
  ok(tn_conv2d(NULL, x, w, NULL, &a, &alone));
  ok(tn_tensor_to_host(y, got, sizeof got));
  ok(tn_tensor_to_host(alone, want, sizeof want));
  ck_assert_mem_eq(got, want, sizeof got);
  tn_tensor_release(y), tn_tensor_release(alone);
}

/* How often such memory is taken by a run; its result is that of the call alone. */
static int large_of_run(tn_program *p, const tn_tensor *x, const tn_tensor *w) {
  tn_tensor *y = NULL;
  const int before = atomic_load(&taken.large);
  ok(tn_program_run(p, NULL, 1, &x, 1, &y));
  const int large = atomic_load(&taken.large) - before;
  tn_tensor_release(y);
  runs_as_call(p, x, w);
  return large;
}

START_TEST(constant_weights_are_reordered_once) {
  if (!__builtin_cpu_supports("avx512bw")) return;
  tn_runtime *rt = open_counting(WITH, 1);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = drawn(device, TN_F32, 4, SHAPE(KEPT_CHANNELS, KEPT_CHANNELS, 3, 3));
  tn_tensor *x = drawn(device, TN_F32, 4, SHAPE(1, KEPT_CHANNELS, 8, 8)), *v = NULL;
  ok(tn_copy(NULL, w, &v));
  tn_program *constant = conv_program(rt, w, true), *parameter = conv_program(rt, v, false);
  int first = large_of_run(constant, x, w);
  large_of_run(parameter, x, v);
  for (int i = 0; i < 3; i++) {
    const int later = large_of_run(constant, x, w), each = large_of_run(parameter, x, v);
    ck_assert_int_lt(later, first);
    ck_assert_int_eq(later, each - 1);
    ok(tn_mul(NULL, x, x, &x)); /* other numbers for the next run */
    ok(tn_add(NULL, v, v, &v));
  }
  tn_program_destroy(constant), tn_program_destroy(parameter);
  tn_tensor_release(w), tn_tensor_release(v), tn_tensor_release(x);
  tn_runtime_close(rt);
  ck_assert_int_eq(atomic_load(&taken.held), 0);
}
END_TEST

typedef struct kept_user {
  pthread_t thread;
  tn_program *program;
  tn_tensor *x, *w;
} kept_user;

static void *run_often(void *ctx) {
  const kept_user *u = ctx;
  enum { COUNT = KEPT_CHANNELS * 64 };
  float *first = malloc(COUNT * sizeof *first), *later = malloc(COUNT * sizeof *later);
  tn_stream *stream;
  ok(tn_stream_create(tn_tensor_device(u->x), &stream));
  for (int i = 0; i < 20; i++) {
    tn_tensor *y = NULL;
    ok(tn_program_run(u->program, stream, 1, (const tn_tensor *const *)&u->x, 1, &y));
    ok(tn_stream_synchronize(stream));
    ok(tn_tensor_to_host(y, i ? later : first, COUNT * sizeof *first));
    if (i) ck_assert_mem_eq(first, later, COUNT * sizeof *first);
    tn_tensor_release(y);
  }
  tn_stream_destroy(stream);
  free(first), free(later);
  return NULL;
}

/* Each stream's calls keep their own, and the program goes after the plugin was taken back. */
START_TEST(streams_keep_weights_apart) {
  enum { USERS = 3 };
  if (!__builtin_cpu_supports("avx512bw")) return;
  tn_runtime *rt = open_counting(WITH, 2);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = drawn(device, TN_F32, 4, SHAPE(KEPT_CHANNELS, KEPT_CHANNELS, 3, 3));
  tn_tensor *x = drawn(device, TN_F32, 4, SHAPE(1, KEPT_CHANNELS, 8, 8));
  tn_program *p = conv_program(rt, w, true);
  kept_user users[USERS];
  for (int i = 0; i < USERS; i++) {
    users[i] = (kept_user){.program = p, .x = x, .w = w};
    ck_assert_int_eq(pthread_create(&users[i].thread, NULL, run_often, &users[i]), 0);
  }
  for (int i = 0; i < USERS; i++) pthread_join(users[i].thread, NULL);
  runs_as_call(p, x, w);
  ok(tn_runtime_unload_plugin(rt, "onednn"));
  tn_tensor *y = NULL;
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *const *)&x, 1, &y));
  tn_tensor_release(y);
  tn_program_destroy(p);
  tn_tensor_release(w), tn_tensor_release(x);
  tn_runtime_close(rt);
  ck_assert_int_eq(atomic_load(&taken.held), 0);
}
END_TEST

/* --- activations --- */

/* What is convolved by 1 is what the operator makes of it, and NaN and infinity are. */
START_TEST(activations_are_the_operators) {
  enum { C = 32, N = C * 400 };
  static float numbers[N], one[C * C], got[N], want[N];
  static const float odd[] = {NAN, INFINITY, -INFINITY, -3, 3, -0.0f, 0, -100, 100, 6, -2.9999f};
  static const int64_t ours[] = {TN_ACTIVATION_RELU, TN_ACTIVATION_RELU6, TN_ACTIVATION_HARDSWISH,
                                 TN_ACTIVATION_SILU, TN_ACTIVATION_SIGMOID};
  const int64_t activation = ours[_i];
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *with = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(with);
  for (int i = 0; i < N; i++) numbers[i] = (float)((i * 7919) % 20011) / 1000 - 10;
  for (int i = 0; i < C; i++) one[i * C + i] = 1;
  /* Numbers that are none spread over the channels of their place, so they are in one of them. */
  for (size_t i = 1; i < sizeof odd / sizeof *odd; i++)
    if (fabsf(odd[i]) <= 100) numbers[5 * 400 + i] = odd[i];
  for (int i = 0; i < C; i++) numbers[i * 400 + 50] = NAN, numbers[i * 400 + 51] = INFINITY;
  tn_tensor *x, *w, *fused = NULL, *plain = NULL, *y = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 4, SHAPE(1, C, 20, 20), numbers, &x));
  ok(tn_tensor_from_host(device, TN_F32, 4, SHAPE(C, C, 1, 1), one, &w));
  tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
  ok(tn_conv2d(NULL, x, w, NULL, &a, &plain));
  a.activation = activation;
  ok(tn_conv2d(NULL, x, w, NULL, &a, &fused));
  tn_clamp_attrs six = TN_CLAMP_DEFAULTS;
  six.min = 0, six.max = 6;
  switch (activation) {
  case TN_ACTIVATION_RELU:
    ok(tn_relu(NULL, plain, &y));
    break;
  case TN_ACTIVATION_RELU6:
    ok(tn_clamp(NULL, plain, &six, &y));
    break;
  case TN_ACTIVATION_HARDSWISH:
    ok(tn_hardswish(NULL, plain, &y));
    break;
  case TN_ACTIVATION_SILU:
    ok(tn_silu(NULL, plain, &y));
    break;
  default:
    ok(tn_sigmoid(NULL, plain, &y));
    break;
  }
  ok(tn_tensor_to_host(fused, got, sizeof got));
  ok(tn_tensor_to_host(y, want, sizeof want));
  for (int i = 0; i < N; i++)
    ck_assert_msg((isnan(got[i]) && isnan(want[i])) || got[i] == want[i] ||
                      fabsf(got[i] - want[i]) <= 2e-6f * fabsf(want[i]) + 1e-35f,
                  "%d: %.9g, not %.9g of %.9g", i, (double)got[i], (double)want[i],
                  (double)numbers[i]);
  tn_tensor_release(x), tn_tensor_release(w), tn_tensor_release(y);
  tn_tensor_release(plain), tn_tensor_release(fused);
  tn_runtime_close(with);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, constant_weights_are_reordered_once);
  tcase_add_test(t, streams_keep_weights_apart);
  tcase_add_loop_test(t, activations_are_the_operators, 0, 5);
}

int main(void) {
  unsetenv("TENON_ONEDNN");
  unsetenv("ONEDNN_MAX_CPU_ISA");
  return run_suite("onednn programs", add_tests);
}
