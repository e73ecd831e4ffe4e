/*
 * The host's floating-point mode: rounding, and subnormal numbers flushed as -ffast-math has it.
 * A call computes in its caller's mode in every thread, so that its bits depend neither on the
 * number of threads nor on whose they are; with `deterministic` it computes in the default mode,
 * so that they do not depend on the caller's either. No thread's mode is changed.
 */
#include <fenv.h>
#include <pthread.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/support.h"

enum { COUNT = 300000, ROWS = 96, DEPTH = 200, FEW = 50 };

/* ------------------------------------------------------------------- the modes --- */

typedef struct mode {
  int rounding;
  bool flush;
} mode;

static const mode modes[] = {{FE_TONEAREST, false},  {FE_UPWARD, false},   {FE_DOWNWARD, false},
                             {FE_TOWARDZERO, false}, {FE_TONEAREST, true}, {FE_UPWARD, true}};
#ifdef __SANITIZE_THREAD__ /* threads have them alike, whichever they are */
enum { MODES = 2 };
#else
enum { MODES = sizeof modes / sizeof *modes };
#endif

#if defined(__x86_64__)
static void set_flush(bool on) { _mm_setcsr((_mm_getcsr() & ~0x8040u) | (on ? 0x8040u : 0)); }
static bool get_flush(void) { return (_mm_getcsr() & 0x8040u) == 0x8040u; }
#elif defined(__aarch64__)
enum { FZ = 1 << 24 }; /* of FPCR */
static uint64_t get_fpcr(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
static void set_flush(bool on) {
  uint64_t word = (get_fpcr() & ~(uint64_t)FZ) | (on ? FZ : 0);
  __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory");
}
static bool get_flush(void) { return get_fpcr() & FZ; }
#else
static _Thread_local bool flushes;
static void set_flush(bool on) { flushes = on; }
static bool get_flush(void) { return flushes; }
#endif

static void set_mode(mode m) {
  fesetround(m.rounding);
  set_flush(m.flush);
}

static bool has_mode(mode m) { return fegetround() == m.rounding && get_flush() == m.flush; }

/* ------------------------------------------------- threads of an embedder's own --- */

typedef struct share {
  void (*body)(void *ctx, int64_t begin, int64_t end);
  void *ctx;
  int64_t begin, end;
  bool kept;
} share;

static const mode others = {FE_DOWNWARD, true};

static void *run_one(void *arg) {
  share *s = arg;
  set_mode(others);
  s->body(s->ctx, s->begin, s->end);
  s->kept = has_mode(others);
  return NULL;
}

/* Halves, in threads whose mode is another one. */
static void run_halves(void *user, int64_t n, int64_t grain,
                       void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx) {
  share s[2] = {{body, ctx, 0, n / 2, false}, {body, ctx, n / 2, n, false}};
  pthread_t threads[2];
  (void)grain;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_one, &s[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  if (!s[0].kept || !s[1].kept) *(bool *)user = true;
}

static bool embedder_lost_mode;
static const tn_parallel halves = {run_halves, &embedder_lost_mode, 2};

static tn_runtime *open_with(const char *device, int32_t deterministic, uint32_t threads) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference",
                                .device = device,
                                .deterministic = deterministic,
                                .num_threads = threads,
                                .parallel = threads ? NULL : &halves};
  return open_runtime(&options);
}

/* --------------------------------------------------------------------- results --- */

typedef struct results {
  float product[COUNT], quotient[COUNT], exp[COUNT], few[FEW], sums[ROWS], softmax[ROWS * DEPTH],
      matmul[ROWS * ROWS];
} results;

static float values[COUNT];

/* Of all magnitudes, subnormal ones and those whose products are subnormal among them. */
static void make_values(void) {
  uint32_t state = 1;
  for (int i = 0; i < COUNT; i++) {
    state = state * 1664525u + 1013904223u;
    float unit = 0.5f + (float)(state >> 8) / (1 << 24);
    values[i] = i % 3 == 0 ? unit * 1e-39f : i % 3 == 1 ? unit * 1e-19f : unit;
  }
}

static void take(tn_tensor *y, void *to, size_t bytes) {
  ok(tn_tensor_to_host(y, to, bytes));
  tn_tensor_release(y);
}

static void compute(tn_runtime *runtime, results *r) {
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x, *few, *rows, *y = NULL;
  const tn_sum_attrs last = {.struct_size = sizeof last, .axes = {.count = 1, .axis = {1}}};
  const tn_matmul_attrs transposed = {.struct_size = sizeof transposed, .trans_b = 1};
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(COUNT), values, &x));
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(FEW), values, &few));
  ok(tn_tensor_from_host(device, TN_F32, 2, SHAPE(ROWS, DEPTH), values, &rows));
  ok(tn_mul(NULL, x, x, &y)), take(y, r->product, sizeof r->product), y = NULL;
  ok(tn_div(NULL, x, x, &y)), take(y, r->quotient, sizeof r->quotient), y = NULL;
  ok(tn_exp(NULL, x, &y)), take(y, r->exp, sizeof r->exp), y = NULL;
  ok(tn_mul(NULL, few, few, &y)), take(y, r->few, sizeof r->few), y = NULL;
  ok(tn_sum(NULL, rows, &last, &y)), take(y, r->sums, sizeof r->sums), y = NULL;
  ok(tn_softmax(NULL, rows, NULL, &y)), take(y, r->softmax, sizeof r->softmax), y = NULL;
  ok(tn_matmul(NULL, rows, rows, NULL, &transposed, &y)), take(y, r->matmul, sizeof r->matmul);
  tn_tensor_release(x), tn_tensor_release(few), tn_tensor_release(rows);
}

/* Computes in a mode, which the calls leave as it is. */
static results *compute_in(mode m, const char *device, int32_t deterministic, uint32_t threads) {
  results *r = calloc(1, sizeof *r);
  tn_runtime *runtime = open_with(device, deterministic, threads);
  set_mode(m);
  compute(runtime, r);
  const bool kept = has_mode(m);
  set_mode(modes[0]);
  tn_runtime_close(runtime);
  ck_assert_msg(kept, "the caller's mode was changed");
  ck_assert_msg(!embedder_lost_mode, "a thread's mode was changed");
  return r;
}

static void same(const results *a, const results *b, const char *device, int m, uint32_t threads) {
#define SAME(field)                                                                                \
  ck_assert_msg(!memcmp(a->field, b->field, sizeof a->field), "%s on %s, mode %d, %u threads",     \
                #field, device, m, (unsigned)threads)
  SAME(product), SAME(quotient), SAME(exp), SAME(few), SAME(sums), SAME(softmax);
#undef SAME
}

/* The BLAS rounds by where an element stands in its block, and blocks are for the threads there
 * are, unless bits are to be deterministic. */
static void same_product(const results *a, const results *b, const char *device, int m) {
  ck_assert_msg(!memcmp(a->matmul, b->matmul, sizeof a->matmul), "matmul on %s, mode %d", device,
                m);
}

static const char *const devices[] = {"cpu", "reference"};
static const uint32_t thread_counts[] = {1, 2, 4, 0}; /* 0: the embedder's */

static bool has(const char *device) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cpu,reference", .device = device};
  tn_runtime *runtime = NULL;
  if (tn_runtime_open(&options, &runtime)) return false;
  tn_runtime_close(runtime);
  return true;
}

START_TEST(a_call_computes_in_its_callers_mode) {
  const char *device = devices[_i];
  if (!has(device)) return;
  make_values();
  results *plain = compute_in(modes[0], device, -1, 1);
  for (int m = 0; m < MODES; m++) {
    results *alone = compute_in(modes[m], device, -1, 1);
    results *two = NULL;
    for (size_t t = 1; t < sizeof thread_counts / sizeof *thread_counts; t++) {
      results *r = compute_in(modes[m], device, -1, thread_counts[t]);
      same(alone, r, device, m, thread_counts[t]);
      if (thread_counts[t] == 2)
        two = r;
      else if (thread_counts[t] == 0) /* two of the embedder's */
        same_product(two, r, device, m);
      if (r != two) free(r);
    }
    free(two);
    if (m)
      ck_assert_msg(memcmp(alone->product, plain->product, sizeof plain->product), "mode %d", m);
    ck_assert(!memcmp(alone->few, alone->product, sizeof alone->few));
    free(alone);
  }
  free(plain);
}
END_TEST

START_TEST(deterministic_bits_do_not_depend_on_it) {
  const char *device = devices[_i];
  if (!has(device)) return;
  make_values();
  results *plain = compute_in(modes[0], device, 1, 1);
  for (int m = 0; m < MODES; m++)
    for (size_t t = 0; t < sizeof thread_counts / sizeof *thread_counts; t++) {
      results *r = compute_in(modes[m], device, 1, thread_counts[t]);
      same(plain, r, device, m, thread_counts[t]);
      same_product(plain, r, device, m);
      free(r);
    }
  free(plain);
}
END_TEST

/* A layer stands between the table and the kernels. */
START_TEST(nor_do_they_with_a_layer_on) {
  float product[FEW], plain[FEW];
  make_values();
  for (int i = 0; i < 2; i++) {
    tn_runtime_options options = {.struct_size = sizeof options,
                                  .plugin_path = NOTES_PLUGIN,
                                  .plugins = "reference,notes",
                                  .device = "reference",
                                  .layers = i ? "notes" : NULL,
                                  .deterministic = 1};
    tn_runtime *runtime = open_runtime(&options);
    tn_tensor *x, *y = NULL;
    ok(tn_tensor_from_host(tn_runtime_device(runtime), TN_F32, 1, SHAPE(FEW), values, &x));
    if (i) set_mode(modes[5]);
    ok(tn_mul(NULL, x, x, &y));
    set_mode(modes[0]);
    take(y, i ? product : plain, sizeof plain);
    tn_tensor_release(x);
    tn_runtime_close(runtime);
  }
  ck_assert(!memcmp(product, plain, sizeof plain));
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, a_call_computes_in_its_callers_mode, 0, 2);
  tcase_add_loop_test(tc, deterministic_bits_do_not_depend_on_it, 0, 2);
  tcase_add_test(tc, nor_do_they_with_a_layer_on);
}

int main(void) { return run_suite("float_mode", add_tests); }
