/*
 * The oneDNN plugin through the public door: which kernel a call gets, that it brings no
 * threads beside Tenon's and leaves the host's OpenMP as it was, that bits do not depend on
 * the threads, and that plans are shared between threads and dropped in turn. That its
 * results are right is the conformance kit's business.
 */
#include <dirent.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

#include "tenon/plugin.h"
#include "tests/onednn/onednn.h"

#define OURS "cpu,reference"

static size_t count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  size_t count = 0;
  ck_assert_ptr_nonnull(tasks);
  for (struct dirent *e; (e = readdir(tasks));) count += e->d_name[0] != '.';
  closedir(tasks);
  return count;
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
  const int64_t depth = kind == PRODUCT_BF16 ? 512 : integer ? 61 : 513;
  j->in[0] = drawn(device, t, 2, SHAPE(30, depth));
  j->in[1] = drawn(device, integer ? TN_I8 : t, 2, SHAPE(depth, 1000));
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

/* --- sums of integers --- */

enum { SIDE = 16 };

typedef struct integers {
  tn_dtype type_a;
  int64_t depth;
  bool zeros;
  int16_t *a, *b, zero_a, zero_b; /* rows, columns */
} integers;

/* Mostly the greatest numbers, so that sums pass 2^24, and now and then their neighbour, so
 * that they are odd. */
static int16_t extreme(bool unsigned_, int64_t i, bool least) {
  const int16_t most = unsigned_ ? 255 : 127, low = unsigned_ ? 0 : -128;
  const int16_t step = i % 7 == 3;
  return least ? (int16_t)(low + step) : (int16_t)(most - step);
}

static integers make_integers(tn_dtype type_a, int64_t depth, bool zeros, bool low_a, bool low_b) {
  integers i = {.type_a = type_a, .depth = depth, .zeros = zeros};
  const size_t count = (size_t)(SIDE * depth);
  i.a = calloc(count, sizeof *i.a), i.b = calloc(count, sizeof *i.b);
  for (int64_t e = 0; e < SIDE * depth; e++) {
    i.a[e] = extreme(type_a == TN_U8, e + e / depth, low_a);
    i.b[e] = extreme(false, e, low_b);
  }
  if (zeros) i.zero_a = extreme(type_a == TN_U8, 3, !low_a), i.zero_b = extreme(false, 3, !low_b);
  return i;
}

static tn_tensor *bytes_tensor(tn_device *device, tn_dtype type, const int16_t *from, int32_t rank,
                               const int64_t *shape) {
  tn_tensor *t = NULL;
  size_t count = 1;
  for (int32_t d = 0; d < rank; d++) count *= (size_t)shape[d];
  uint8_t *bytes = malloc(count);
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)from[i];
  ok(tn_tensor_from_host(device, type, rank, shape, bytes, &t));
  free(bytes);
  return t;
}

static void judge_integers(const integers *w, const tn_tensor *y) {
  int32_t got[SIDE * SIDE];
  ok(tn_tensor_to_host(y, got, sizeof got));
  for (int64_t i = 0; i < SIDE; i++)
    for (int64_t j = 0; j < SIDE; j++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < w->depth; k++)
        sum += (w->a[i * w->depth + k] - w->zero_a) * (w->b[k * SIDE + j] - w->zero_b);
      ck_assert_msg(got[i * SIDE + j] == sum, "%s, depth %lld, zeros %d: %d for %lld",
                    tn_dtype_name(w->type_a), (long long)w->depth, w->zeros, got[i * SIDE + j],
                    (long long)sum);
    }
}

static void check_integers(tn_runtime *runtime, const integers *w, const char *plugin) {
  tn_device *device = tn_runtime_device(runtime);
  job *j = calloc(1, sizeof *j);
  j->in[0] = bytes_tensor(device, w->type_a, w->a, 2, SHAPE(SIDE, w->depth));
  j->in[1] = bytes_tensor(device, TN_I8, w->b, 2, SHAPE(w->depth, SIDE));
  if (w->zeros) j->in[2] = bytes_tensor(device, w->type_a, &w->zero_a, 0, NULL);
  if (w->zeros) j->in[3] = bytes_tensor(device, TN_I8, &w->zero_b, 0, NULL);
  j->call = (tn_call){.struct_size = sizeof j->call, .op = TN_OP_MATMUL_INTEGER, .num_in = 4};
  j->call.in = (const tn_tensor *const *)(const void *)j->in;
  j->call.out = &j->y;
  j->call.num_out = 1;
  ck_assert_str_eq(kernel_of(j).plugin, plugin);
  ok(tn_invoke(&j->call));
  judge_integers(w, j->y);
  free_job(j);
}

/* Around every bound at which float32, in which oneDNN makes up for signs and zero points, or
 * a slice of the product could be at its end. */
static void check_depths(const char *plugin) {
  static const int64_t depths[] = {1,    63,   64,   255,  256,  257,  258,  259,  260,
                                   511,  512,  513,  514,  515,  768,  1023, 1024, 1025,
                                   1040, 1041, 1056, 1057, 2047, 2048, 2049, 4103, 9001};
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *runtime = open_with(WITH, 2);
  for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
    for (int kind = 0; kind < 16; kind++) {
      integers w = make_integers(kind & 1 ? TN_U8 : TN_I8, depths[d], kind & 2, kind & 4, kind & 8);
      check_integers(runtime, &w, plugin);
      free(w.a), free(w.b);
    }
  tn_runtime_close(runtime);
}

START_TEST(sums_of_integers_are_exact) { check_depths(has_feature(INTEGER) ? "onednn" : "cpu"); }
END_TEST

/* Without VNNI oneDNN adds pairs of products in 16 bits, and saturates: whatever the processor
 * has, what oneDNN may use of it decides. */
START_TEST(oneDNN_is_asked_what_it_may_use) {
  setenv("ONEDNN_MAX_CPU_ISA", _i ? "AVX2" : "AVX512_CORE", 1);
  check_depths("cpu");
}
END_TEST

/* Stride and padding along the depth: oneDNN's kernels read the wrong slices, whatever the rules
 * of speed. */
START_TEST(deep_gradients_stay_with_ours) {
  const tn_dtype type = _i ? TN_F32 : TN_BF16;
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *with = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(with);
  job *j = calloc(1, sizeof *j);
  tn_conv3d_grad_weight_attrs a = TN_CONV3D_GRAD_WEIGHT_DEFAULTS;
  const int64_t numbers[][3] = {{2, 1, 2}, {1, 3, 1}, {3, 7, 3}};
  memcpy(a.stride, numbers[0], sizeof a.stride);
  memcpy(a.padding, numbers[1], sizeof a.padding);
  memcpy(a.kernel, numbers[2], sizeof a.kernel);
  j->in[0] = drawn(device, type, 5, SHAPE(2, 32, 3, 2, 3));
  j->in[1] = drawn(device, type, 5, SHAPE(2, 16, 6, 2, 5));
  j->call = (tn_call){.struct_size = sizeof j->call, .op = TN_OP_CONV3D_GRAD_WEIGHT};
  j->call.in = (const tn_tensor *const *)(const void *)j->in;
  j->call.out = &j->y;
  j->call.attrs = &a;
  j->call.num_in = 2;
  j->call.num_out = 1;
  ck_assert_str_eq(kernel_of(j).plugin, "cpu");
  free_job(j);
  tn_runtime_close(with);
}
END_TEST

/* oneDNN has plain loops alone for f32 of one axis. */
START_TEST(means_along_one_axis_stay_with_ours) {
  static const int64_t shape[] = {16, 64, 40, 40};
  if (!has_feature(PRODUCT)) return;
  tn_runtime *with = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(with);
  const tn_avg_pool1d_attrs line = TN_AVG_POOL1D_DEFAULTS;
  const tn_avg_pool2d_attrs area = TN_AVG_POOL2D_DEFAULTS;
  for (int axes = 1; axes <= 2; axes++) {
    job *j = calloc(1, sizeof *j);
    j->in[0] = drawn(device, TN_F32, 2 + axes, axes == 1 ? SHAPE(16, 64, 1600) : shape);
    j->call.struct_size = sizeof j->call;
    j->call.op = axes == 1 ? TN_OP_AVG_POOL1D : TN_OP_AVG_POOL2D;
    j->call.in = (const tn_tensor *const *)(const void *)j->in;
    j->call.out = &j->y;
    j->call.attrs = axes == 1 ? (const void *)&line : &area;
    j->call.num_in = j->call.num_out = 1;
    ck_assert_str_eq(kernel_of(j).plugin, axes == 1 ? "cpu" : "onednn");
    free_job(j);
  }
  tn_runtime_close(with);
}
END_TEST

/* One infinite factor makes a sum infinite, whatever oneDNN fills an odd depth up with. */
START_TEST(infinite_sums_stay_infinite) {
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *with = open_with(WITH, 1);
  tn_device *device = tn_runtime_device(with);
  for (int64_t k = 63; k < 68; k++) {
    tn_tensor *a = shaped(device, TN_BF16, 2, SHAPE(40, k)), *y = NULL;
    tn_tensor *b = shaped(device, TN_BF16, 2, SHAPE(k, 30));
    tn_fill_attrs one = TN_FILL_DEFAULTS, infinite = one;
    one.value = 1, infinite.value = (double)INFINITY;
    ok(tn_fill(NULL, a, &infinite));
    ok(tn_fill(NULL, b, &one));
    ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
    uint16_t got[40 * 30];
    ok(tn_tensor_to_host(y, got, sizeof got));
    for (int i = 0; i < 40 * 30; i++) ck_assert_msg(got[i] == 0x7f80, "k %lld", (long long)k);
    tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
  }
  tn_runtime_close(with);
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
  tcase_add_test(t, sums_of_integers_are_exact);
  tcase_add_loop_test(t, oneDNN_is_asked_what_it_may_use, 0, 2);
  tcase_add_test(t, infinite_sums_stay_infinite);
  tcase_add_loop_test(t, deep_gradients_stay_with_ours, 0, 2);
  tcase_add_test(t, means_along_one_axis_stay_with_ours);
}

int main(void) {
  unsetenv("TENON_ONEDNN");
  unsetenv("ONEDNN_MAX_CPU_ISA");
  return run_suite("onednn", add_tests);
}
