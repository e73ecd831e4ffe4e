/*
 * Signals while oneDNN computes: a handler must find itself on its thread's stack. oneDNN's sgemm
 * points the stack pointer into the heap up to 3.11.1, where a signal's frame breaks what lies
 * there; the first test says whether this oneDNN does, by itself, the others that the plugin's
 * calls do not. Handlers leave the process at once, before what is broken is used.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tenon/tenon.h"
#include "tests/support.h"

enum { OFF_STACK = 7 };

static const char *lowest, *highest; /* of the stack of the thread that computes */
static volatile sig_atomic_t signals_seen;

static void handler(int number) {
  const char *at = __builtin_frame_address(0);
  (void)number;
  if (at < lowest || at >= highest) _exit(OFF_STACK);
  signals_seen++;
}

static void find_stack(void) {
  pthread_attr_t attributes;
  void *begin = NULL;
  size_t bytes = 0;
  ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
  ck_assert_int_eq(pthread_attr_getstack(&attributes, &begin, &bytes), 0);
  (void)pthread_attr_destroy(&attributes);
  lowest = begin, highest = lowest + bytes;
}

/* Every 50 microseconds, to this process's only thread. */
static void signals_begin(void) {
  const struct itimerval often = {{0, 50}, {0, 50}};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  find_stack();
  ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
  ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void signals_end(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
}

/* Whether `count` signals have come, or time is up. */
static bool seen_enough(int count, time_t begin) {
  return signals_seen >= count || time(NULL) > begin + 20;
}

/* --- oneDNN by itself --- */

enum { M = 50, N = 64, K = 4096 };

static void multiply_alone(void) {
  float *a = calloc((size_t)M * K, sizeof *a), *b = calloc((size_t)K * N, sizeof *b);
  float *c = calloc((size_t)M * N, sizeof *c);
  const time_t begin = time(NULL);
  signals_begin();
  while (!seen_enough(2000, begin))
    if (dnnl_sgemm('N', 'T', M, N, K, 1, a, K, b, K, 0, c, N) != dnnl_success) _exit(1);
  _exit(0);
}

static int version(void) {
  const dnnl_version_t *v = dnnl_version();
  return v->major * 10000 + v->minor * 100 + v->patch;
}

/* A oneDNN that is said to be mended is; one that is not, is not, or the rule is out of date. */
START_TEST(the_rule_knows_this_oneDNN) {
  int status = 0;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bw")) return;
  const pid_t child = fork();
  if (child == 0) multiply_alone();
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), version() < 31102 ? OFF_STACK : 0);
}
END_TEST

/* --- the plugin's calls --- */

enum { PRODUCT, PRODUCT_BIAS, PRODUCT_BF16, INTEGER, CONV, CONV_INPUT, CONV_WEIGHT, POOL, CALLS };

typedef struct job {
  tn_tensor *in[4], *y;
  tn_conv2d_attrs conv;
  tn_conv2d_grad_input_attrs grad_input;
  tn_conv2d_grad_weight_attrs grad_weight;
  tn_avg_pool2d_attrs pool;
  tn_call call;
} job;

static tn_tensor *drawn(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape) {
  tn_tensor *real = shaped(device, TN_F32, rank, shape), *t = NULL;
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  attrs.low = 0, attrs.high = 100, attrs.seed = 5;
  cast.dtype = dtype;
  ok(tn_uniform(NULL, real, &attrs));
  ok(tn_cast(NULL, real, &cast, &t));
  tn_tensor_release(real);
  return t;
}

static void shape_product(job *j, tn_device *device, int kind) {
  const tn_dtype type = kind == INTEGER ? TN_U8 : kind == PRODUCT_BF16 ? TN_BF16 : TN_F32;
  j->in[0] = drawn(device, type, 2, SHAPE(30, 512));
  j->in[1] = drawn(device, kind == INTEGER ? TN_I8 : type, 2, SHAPE(512, 1000));
  if (kind == PRODUCT_BIAS) j->in[2] = drawn(device, type, 1, SHAPE(1000));
  j->call.op = kind == INTEGER ? TN_OP_MATMUL_INTEGER : TN_OP_MATMUL;
  j->call.num_in = kind == INTEGER ? 4 : 3;
}

/* Groups of odd numbers of channels, for which oneDNN has nothing but its sgemm. */
static void shape_conv(job *j, tn_device *device, int kind) {
  tn_tensor *x = drawn(device, TN_F32, 4, SHAPE(4, 26, 40, 40));
  tn_tensor *w = drawn(device, TN_F32, 4, SHAPE(22, 13, 3, 3));
  tn_tensor *dy = drawn(device, TN_F32, 4, SHAPE(4, 22, 38, 38));
  j->call.num_in = kind == CONV ? 3 : 2;
  j->call.op = kind == CONV         ? TN_OP_CONV2D
               : kind == CONV_INPUT ? TN_OP_CONV2D_GRAD_INPUT
                                    : TN_OP_CONV2D_GRAD_WEIGHT;
  j->conv = (tn_conv2d_attrs)TN_CONV2D_DEFAULTS;
  j->grad_input = (tn_conv2d_grad_input_attrs)TN_CONV2D_GRAD_INPUT_DEFAULTS;
  j->grad_weight = (tn_conv2d_grad_weight_attrs)TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  j->conv.groups = j->grad_input.groups = j->grad_weight.groups = 2;
  j->grad_input.size[0] = j->grad_input.size[1] = 40;
  j->grad_weight.kernel[0] = j->grad_weight.kernel[1] = 3;
  j->call.attrs = kind == CONV         ? (const void *)&j->conv
                  : kind == CONV_INPUT ? (const void *)&j->grad_input
                                       : &j->grad_weight;
  j->in[0] = kind == CONV ? x : dy;
  j->in[1] = kind == CONV_WEIGHT ? x : w;
  tn_tensor_release(kind == CONV ? dy : kind == CONV_INPUT ? x : w);
}

static void shape_pool(job *j, tn_device *device) {
  j->in[0] = drawn(device, TN_F32, 4, SHAPE(4, 16, 40, 40));
  j->pool = (tn_avg_pool2d_attrs)TN_AVG_POOL2D_DEFAULTS;
  j->pool.kernel[0] = j->pool.kernel[1] = 3;
  j->call.op = TN_OP_AVG_POOL2D;
  j->call.attrs = &j->pool;
  j->call.num_in = 1;
}

static void make_job(job *j, tn_device *device, int kind) {
  memset(j, 0, sizeof *j);
  if (kind == POOL)
    shape_pool(j, device);
  else
    kind >= CONV ? shape_conv(j, device, kind) : shape_product(j, device, kind);
  j->call.struct_size = sizeof j->call;
  j->call.in = (const tn_tensor *const *)(const void *)j->in;
  j->call.out = &j->y;
  j->call.num_out = 1;
}

static char *bits_of(const job *j) {
  char *bits = malloc(tn_tensor_bytes(j->y));
  ok(tn_tensor_to_host(j->y, bits, tn_tensor_bytes(j->y)));
  return bits;
}

static bool is_oneDNNs(const job *j) {
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_prepared *p = NULL;
  ok(tn_prepare(&j->call, &p));
  ok(tn_prepared_kernel(p, &info));
  const bool is = strcmp(info.plugin, "onednn") == 0;
  tn_prepared_release(p);
  return is;
}

static void compare(const job *j, const char *want) {
  char *got = bits_of(j);
  ck_assert_mem_eq(got, want, tn_tensor_bytes(j->y));
  free(got);
}

static void hold(int number) {
  sigset_t one;
  ck_assert(sigemptyset(&one) == 0 && sigaddset(&one, number) == 0);
  ck_assert_int_eq(sigprocmask(SIG_BLOCK, &one, NULL), 0);
}

static bool is_held(int number) {
  sigset_t held;
  ck_assert_int_eq(sigprocmask(SIG_SETMASK, NULL, &held), 0);
  return sigismember(&held, number) == 1;
}

/* Signals come while the calls run, find the stack, and none is lost for good. */
static void compute_among_signals(job *j) {
  const time_t begin = time(NULL);
  ok(tn_invoke(&j->call));
  char *want = bits_of(j);
  hold(SIGUSR1);
  signals_begin();
  while (!seen_enough(1000, begin)) ok(tn_invoke(&j->call));
  signals_end();
  ck_assert(!is_held(SIGALRM) && is_held(SIGUSR1));
  ck_assert_int_ge(signals_seen, 1000);
  compare(j, want);
  free(want);
}

static tn_runtime *open_with_oneDNN(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference,onednn",
                                .device = "cpu",
                                .num_threads = 1};
  return open_runtime(&options);
}

START_TEST(handlers_find_the_stack) {
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *runtime = open_with_oneDNN();
  job j;
  make_job(&j, tn_runtime_device(runtime), _i);
  if (is_oneDNNs(&j)) compute_among_signals(&j);
  for (int i = 0; i < 4; i++) tn_tensor_release(j.in[i]);
  tn_tensor_release(j.y);
  tn_runtime_close(runtime);
}
END_TEST

/* Products of `depth` whose results are cut by columns, which leaves oneDNN its sgemm alone. */
static bool takes_depth(tn_device *device, int64_t depth) {
  job j = {.in = {shaped(device, TN_F32, 2, SHAPE(64, depth)),
                  shaped(device, TN_F32, 2, SHAPE(depth, 100))}};
  j.call = (tn_call){.struct_size = sizeof j.call,
                     .op = TN_OP_MATMUL,
                     .in = (const tn_tensor *const *)(const void *)j.in,
                     .out = &j.y,
                     .num_in = 3,
                     .num_out = 1};
  const bool taken = is_oneDNNs(&j);
  tn_tensor_release(j.in[0]), tn_tensor_release(j.in[1]), tn_tensor_release(j.y);
  return taken;
}

/* Ctrl-C shall not wait for seconds: from 2 * 10^9 terms in a block on, another kernel computes.
 * Later versions may have more than their sgemm for it. */
START_TEST(signals_do_not_wait_long) {
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *runtime = open_with_oneDNN();
  ck_assert(takes_depth(tn_runtime_device(runtime), 480000));
  if (version() < 20700) ck_assert(!takes_depth(tn_runtime_device(runtime), 500000));
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, the_rule_knows_this_oneDNN);
  tcase_add_test(t, signals_do_not_wait_long);
  tcase_add_loop_test(t, handlers_find_the_stack, 0, CALLS);
}

int main(void) {
  unsetenv("ONEDNN_MAX_CPU_ISA");
  return run_suite("onednn signals", add_tests);
}
