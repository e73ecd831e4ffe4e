/*
 * The oneDNN plugin through the public door: which kernel a call gets, that it brings no
 * threads beside Tenon's and leaves the host's OpenMP as it was, that bits do not depend on
 * the threads, and that plans are shared between threads and dropped in turn. That its
 * results are right is the conformance kit's business.
 */
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

#include "tenon/plugin.h"
#include "tests/support.h"

static tn_runtime *open_with(const char *plugins, uint32_t threads) {
  tn_runtime_options o = {
      .struct_size = sizeof o, .plugins = plugins, .device = "cpu", .num_threads = threads};
  return open_runtime(&o);
}

#define OURS "cpu,reference"
#define WITH "cpu,reference,onednn"

static size_t count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  size_t count = 0;
  ck_assert_ptr_nonnull(tasks);
  for (struct dirent *e; (e = readdir(tasks));) count += e->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static tn_tensor *drawn(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape) {
  tn_tensor *real = shaped(device, TN_F32, rank, shape), *t = NULL;
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  attrs.low = dtype == TN_I8 ? -128 : dtype == TN_U8 ? 0 : -1;
  attrs.high = dtype == TN_I8 ? 127 : dtype == TN_U8 ? 255 : 1;
  attrs.seed = 7 + (uint64_t)rank;
  cast.dtype = dtype;
  ok(tn_uniform(NULL, real, &attrs));
  ok(tn_cast(NULL, real, &cast, &t));
  tn_tensor_release(real);
  return t;
}

/* --- calls that oneDNN is faster at --- */

enum { CONV, CONV_INPUT, CONV_WEIGHT, CONV_BF16, PRODUCT, PRODUCT_BF16, INTEGER, CALLS };

typedef struct job {
  tn_tensor *in[4], *y;
  tn_conv2d_grad_weight_attrs attrs; /* its beginning serves all three */
  tn_call call;
} job;

static void shape_conv(job *j, tn_device *device, int kind) {
  const tn_dtype t = kind == CONV_BF16 ? TN_BF16 : TN_F32;
  const int64_t groups = kind == CONV_BF16 ? 4 : 1;
  tn_tensor *x = drawn(device, t, 4, SHAPE(5, 32, 20, 20));
  tn_tensor *w = drawn(device, t, 4, SHAPE(64, 32 / groups, 3, 3));
  tn_tensor *dy = drawn(device, t, 4, SHAPE(5, 64, 20, 20));
  tn_conv2d_attrs a = {sizeof a, {1, 1}, {1, 1}, {1, 1}, groups};
  memcpy(&j->attrs, &a, sizeof a);
  j->call.op = TN_OP_CONV2D;
  j->call.num_in = 3;
  if (kind == CONV_INPUT || kind == CONV_WEIGHT) {
    j->call.op = kind == CONV_INPUT ? TN_OP_CONV2D_GRAD_INPUT : TN_OP_CONV2D_GRAD_WEIGHT;
    j->call.num_in = 2;
    j->attrs.struct_size = sizeof j->attrs;
    j->attrs.kernel[0] = j->attrs.kernel[1] = kind == CONV_INPUT ? 20 : 3; /* or size */
  }
  j->in[0] = j->call.num_in == 2 ? dy : x;
  j->in[1] = kind == CONV_WEIGHT ? x : w;
  for (tn_tensor **t_ = (tn_tensor *[]){x, w, dy, NULL}; *t_; t_++)
    if (*t_ != j->in[0] && *t_ != j->in[1]) tn_tensor_release(*t_);
  j->call.attrs = &j->attrs;
}

static void shape_product(job *j, tn_device *device, int kind) {
  const bool integer = kind == INTEGER;
  const tn_dtype t = kind == PRODUCT ? TN_F32 : integer ? TN_U8 : TN_BF16;
  j->in[0] = drawn(device, t, 2, SHAPE(30, 513));
  j->in[1] = drawn(device, integer ? TN_I8 : t, 2, SHAPE(513, 1000));
  if (integer) j->in[2] = drawn(device, TN_U8, 0, NULL);
  if (integer) j->in[3] = drawn(device, TN_I8, 0, NULL);
  j->call.op = integer ? TN_OP_MATMUL_INTEGER : TN_OP_MATMUL;
  j->call.num_in = integer ? 4 : 3;
}

static job *make_job(tn_device *device, int kind) {
  job *j = calloc(1, sizeof *j);
  kind >= PRODUCT ? shape_product(j, device, kind) : shape_conv(j, device, kind);
  j->call.struct_size = sizeof j->call;
  j->call.in = (const tn_tensor *const *)(const void *)j->in;
  j->call.out = &j->y;
  j->call.num_out = 1;
  return j;
}

static void free_job(job *j) {
  for (int i = 0; i < 4; i++) tn_tensor_release(j->in[i]);
  tn_tensor_release(j->y);
  free(j);
}

static tn_kernel_info kernel_of(const job *j) {
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_prepared *p = NULL;
  ok(tn_prepare(&j->call, &p));
  ok(tn_prepared_kernel(p, &info));
  tn_prepared_release(p);
  return info;
}

static bool has_feature(int kind) {
  __builtin_cpu_init();
  return kind == INTEGER ? __builtin_cpu_supports("avx512vnni")
                         : __builtin_cpu_supports("avx512bw");
}

/* --- the tests --- */

START_TEST(calls_get_the_faster_kernel) {
  if (!has_feature(_i)) return;
  tn_runtime *ours = open_with(OURS, 1), *with = open_with(WITH, 1), *off = open_with("-onednn", 1);
  job *a = make_job(tn_runtime_device(ours), _i), *b = make_job(tn_runtime_device(with), _i);
  job *c = make_job(tn_runtime_device(off), _i);
  tn_kernel_info before = kernel_of(a), after = kernel_of(b), again = kernel_of(c);
  ck_assert_str_eq(before.plugin, "cpu");
  ck_assert_str_eq(after.plugin, "onednn");
  ck_assert(after.note[0] && after.some_calls && after.priority > before.priority);
  ck_assert_str_eq(again.name, before.name);
  free_job(a), free_job(b), free_job(c);
  tn_runtime_close(ours), tn_runtime_close(with), tn_runtime_close(off);
}
END_TEST

START_TEST(small_calls_stay_with_ours) {
  tn_runtime *with = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(with);
  tn_tensor *a = drawn(device, TN_F32, 2, SHAPE(8, 8)), *y = NULL;
  const tn_tensor *in[] = {a, a, NULL};
  job j = {.call = {sizeof j.call, TN_OP_MATMUL, NULL, in, &y, NULL, 3, 1, 0}};
  ck_assert_str_eq(kernel_of(&j).plugin, "cpu");
  tn_tensor_release(a), tn_tensor_release(y);
  tn_runtime_close(with);
}
END_TEST

/* Computes every call; their results one behind the other. */
static char *compute_all(tn_runtime *runtime, size_t *bytes) {
  char *all = NULL;
  *bytes = 0;
  for (int kind = 0; kind < CALLS; kind++) {
    job *j = make_job(tn_runtime_device(runtime), kind);
    ok(tn_invoke(&j->call));
    const size_t size = tn_tensor_bytes(j->y);
    all = realloc(all, *bytes + size);
    ok(tn_tensor_to_host(j->y, all + *bytes, size));
    *bytes += size;
    free_job(j);
  }
  return all;
}

/* While a runtime that has computed everything is open; a BLAS may have threads that sleep. */
static size_t threads_at_work(const char *plugins) {
  tn_runtime *runtime = open_with(plugins, 3);
  size_t bytes;
  free(compute_all(runtime, &bytes));
  const size_t count = count_threads();
  tn_runtime_close(runtime);
  return count;
}

START_TEST(there_are_no_threads_but_tenons) {
  omp_set_num_threads(5);
  const size_t ours = threads_at_work(OURS);
  ck_assert_uint_ge(ours, 3);
  ck_assert_uint_eq(threads_at_work(WITH), ours);
  ck_assert_int_eq(omp_get_max_threads(), 5);
}
END_TEST

START_TEST(threads_do_not_change_the_bits) {
  tn_runtime *one = open_with(WITH, 1), *two = open_with(WITH, 2), *four = open_with(WITH, 4);
  size_t bytes, same, again;
  char *a = compute_all(one, &bytes), *b = compute_all(two, &same), *c = compute_all(four, &again);
  ck_assert(bytes == same && bytes == again);
  ck_assert(memcmp(a, b, bytes) == 0 && memcmp(a, c, bytes) == 0);
  free(a), free(b), free(c);
  tn_runtime_close(one), tn_runtime_close(two), tn_runtime_close(four);
}
END_TEST

typedef struct worker {
  tn_runtime *runtime;
  const char *want;
  bool same;
} worker;

static void *work(void *ctx) {
  worker *w = ctx;
  w->same = true;
  for (int i = 0; i < 3; i++) {
    size_t bytes;
    char *got = compute_all(w->runtime, &bytes);
    w->same = w->same && memcmp(got, w->want, bytes) == 0;
    free(got);
  }
  return NULL;
}

START_TEST(threads_of_the_host_share_plans) {
  enum { WORKERS = 4 };
  tn_runtime *runtime = open_with(WITH, 2);
  size_t bytes;
  char *want = compute_all(runtime, &bytes);
  pthread_t threads[WORKERS];
  worker workers[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){runtime, want, false};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert(workers[i].same);
  }
  free(want);
  tn_runtime_close(runtime);
}
END_TEST

/* More shapes than plans are kept, twice: every product of ones is its depth. */
START_TEST(plans_are_dropped_and_made_again) {
  tn_runtime *runtime = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(runtime);
  tn_fill_attrs one = TN_FILL_DEFAULTS;
  one.value = 1;
  for (int64_t round = 0; round < 2; round++)
    for (int64_t i = 0; i < 600; i++) {
      tn_tensor *a = shaped(device, TN_F32, 2, SHAPE(20, 500)), *y = NULL;
      tn_tensor *b = shaped(device, TN_F32, 2, SHAPE(500, 101 + i));
      float got = 0;
      ok(tn_fill(NULL, a, &one));
      ok(tn_fill(NULL, b, &one));
      ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
      memcpy(&got, (const char *)tn_tensor_data(y) + tn_tensor_bytes(y) - sizeof got, sizeof got);
      ck_assert(got == 500);
      tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
    }
  tn_runtime_close(runtime);
}
END_TEST

static char logged[2048];
static void keep_log(void *user, tn_log_level level, const char *line) {
  (void)user;
  if (level <= TN_LOG_WARN) strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

/* It does nothing, and that is said where nobody asked for more than warnings. */
START_TEST(a_wrong_word_is_told) {
  setenv("TENON_ONEDNN", "most", 1);
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = WITH, .log = keep_log};
  tn_runtime *runtime = open_runtime(&options);
  tn_plugin_info info = {.struct_size = sizeof info};
  bool taken = false;
  for (size_t i = 0; tn_plugin_report(runtime, i, &info) == TN_OK; i++)
    taken |= info.taken && strcmp(info.name, "onednn") == 0;
  ck_assert(taken);
  ck_assert_msg(strstr(logged, "TENON_ONEDNN=most is not known") && strstr(logged, "takes all"),
                "%s", logged);
  tn_runtime_close(runtime);
  unsetenv("TENON_ONEDNN");
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, calls_get_the_faster_kernel, 0, CALLS);
  tcase_add_test(t, small_calls_stay_with_ours);
  tcase_add_test(t, there_are_no_threads_but_tenons);
  tcase_add_test(t, threads_do_not_change_the_bits);
  tcase_add_test(t, threads_of_the_host_share_plans);
  tcase_add_test(t, plans_are_dropped_and_made_again);
  tcase_add_test(t, a_wrong_word_is_told);
}

int main(void) {
  unsetenv("TENON_ONEDNN");
  return run_suite("onednn", add_tests);
}
