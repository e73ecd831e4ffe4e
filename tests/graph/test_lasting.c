/*
 * Programs and functions that last: thousands of runs, several threads and streams, memory that
 * runs out in the middle, plugins that are unloaded, devices that are lost, a process that forks.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/graph.h"
#include "tests/every_device.h"
#include "tests/scarce.h"

/* --- a step: a product with a parameter that is updated, a view, two outputs --- */

static tn_status step(const tn_tensor *x, tn_tensor *w, tn_tensor **y, tn_tensor **sum) {
  tn_tensor *h = NULL, *t = NULL;
  tn_status status = tn_matmul(NULL, x, w, NULL, NULL, &h);
  if (!status) status = tn_relu(NULL, h, y);
  if (!status) status = tn_tensor_permute(*y, (int32_t[]){1, 0}, &t);
  if (!status) status = tn_sum(NULL, t, NULL, sum);
  if (!status) status = tn_neg(NULL, w, &w);
  tn_tensor_release(h);
  tn_tensor_release(t);
  return status;
}

static tn_status build_step(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  tn_tensor *w = NULL, *y = NULL, *sum = NULL;
  tn_status status = num_in == 1 ? tn_graph_parameter(g, "w", context, &w) : TN_ERR_INTERNAL;
  if (!status) status = step(in[0], w, &y, &sum);
  if (!status) status = tn_graph_output(g, "y", y);
  if (!status) status = tn_graph_output(g, "sum", sum);
  tn_tensor_release(w);
  tn_tensor_release(y);
  tn_tensor_release(sum);
  return status;
}

static tn_status make_program(tn_device *device, tn_tensor *w, int64_t rows, tn_program **program) {
  tn_graph *g = NULL;
  tn_tensor *x = NULL;
  tn_status status = tn_graph_create(tn_device_runtime(device), "step", &g);
  if (!status) status = tn_graph_input(g, "x", TN_F32, 2, SHAPE(rows, tn_tensor_shape(w)[0]), &x);
  if (!status) status = build_step(w, g, 1, &x);
  if (!status) status = tn_graph_compile(g, device, NULL, program);
  tn_tensor_release(x);
  tn_graph_destroy(g);
  return status;
}

static tn_tensor *numbers(tn_device *on, int64_t rows, int64_t columns, float first) {
  float values[512];
  ck_assert_int_le(rows * columns, 512);
  for (int i = 0; i < rows * columns; ++i) values[i] = first + (float)((i * 37) % 11) / 8;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(on, TN_F32, 2, SHAPE(rows, columns), values, &t));
  return t;
}

static void same(const tn_tensor *a, const tn_tensor *b) {
  float x[512], y[512];
  ck_assert_uint_eq(tn_tensor_bytes(a), tn_tensor_bytes(b));
  ok(tn_tensor_to_host(a, x, tn_tensor_bytes(a)));
  ok(tn_tensor_to_host(b, y, tn_tensor_bytes(b)));
  ck_assert(memcmp(x, y, tn_tensor_bytes(a)) == 0);
}

#define RELEASE(...)                                                                               \
  do {                                                                                             \
    tn_tensor *all_[] = {__VA_ARGS__};                                                             \
    for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; ++i_) tn_tensor_release(all_[i_]);        \
  } while (0)

static int count_descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  ck_assert_ptr_nonnull(folder);
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

/* What a process holds. */
typedef struct held {
  long blocks, bytes;
  uint64_t reserved, in_use;
  int descriptors;
} held;

static held holds(tn_device *device) {
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(device, &stats));
  return (held){scarce.live, scarce.bytes, stats.reserved, stats.in_use, count_descriptors()};
}

static void holds_no_more(tn_device *device, const held *before) {
  held now = holds(device);
  ck_assert_int_eq(now.blocks, before->blocks);
  ck_assert_int_le(now.bytes, before->bytes + 4096); /* a C library rounds as it likes */
  ck_assert_uint_eq(now.reserved, before->reserved);
  ck_assert_uint_eq(now.in_use, before->in_use);
  ck_assert_int_eq(now.descriptors, before->descriptors);
}

/* --- thousands of runs --- */

START_TEST(ten_thousand_runs_of_a_program) {
  tn_runtime *rt = open_scarce();
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, 3, 4, -1), *in[5], *turned[5];
  tn_program *p = NULL;
  ok(make_program(device, w, 5, &p));
  for (int i = 0; i < 5; ++i) {
    tn_tensor *wide = numbers(device, 3, 5, (float)i);
    in[i] = numbers(device, 5, 3, (float)i);
    ok(tn_tensor_permute(wide, (int32_t[]){1, 0}, &turned[i]));
    tn_tensor_release(wide);
  }
  held before = {0};
  for (int run = 0; run < 10000; ++run) {
    tn_tensor *out[2] = {NULL, NULL}, *x = run % 3 ? in[run % 5] : turned[run % 5];
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 2, out));
    RELEASE(out[0], out[1]);
    if (run == 100) before = holds(device);
  }
  holds_no_more(device, &before);
  for (int i = 0; i < 5; ++i) RELEASE(in[i], turned[i]);
  tn_program_destroy(p);
  tn_tensor_release(w);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

/* Shapes that are all kept, or of which some are dropped and built anew again and again. */
START_TEST(thousands_of_runs_of_a_function) {
  static const struct {
    uint32_t kept;
    int runs;
  } cases[] = {{16, 10000}, {3, 700}};
  tn_runtime *rt = open_scarce();
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, 3, 4, -1), *in[10];
  tn_function *f = NULL;
  tn_function_options options = {.struct_size = sizeof options, .max_programs = cases[_i].kept};
  tn_function_info info = {.struct_size = sizeof info};
  ok(tn_function_create(rt, device, "step", build_step, w, &options, &f));
  for (int i = 0; i < 10; ++i) in[i] = numbers(device, i, 3, (float)i);
  held before = {0};
  for (int run = 0; run < cases[_i].runs; ++run) {
    tn_tensor *out[2] = {NULL, NULL};
    ok(tn_function_run(f, NULL, 1, (const tn_tensor *[]){in[run % 10]}, 2, out));
    RELEASE(out[0], out[1]);
    if (run == 99) before = holds(device);
  }
  holds_no_more(device, &before);
  ok(tn_function_report(f, &info));
  ck_assert_uint_eq(info.built, cases[_i].kept >= 10 ? 10 : cases[_i].runs);
  ck_assert_uint_eq(info.programs, cases[_i].kept >= 10 ? 10 : cases[_i].kept);
  for (int i = 0; i < 10; ++i) tn_tensor_release(in[i]);
  tn_function_destroy(f);
  tn_tensor_release(w);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

/* --- memory that runs out --- */

/* A copy of a graph and runs of a function, each request for host memory failing once. */
static tn_status copy_and_run(tn_device *device, tn_tensor *w, const tn_tensor *const *in) {
  const tn_function_input declared = {.name = "x",
                                      .rank = 2,
                                      .shape = (const int64_t[]){TN_SIZE_OPEN, 3},
                                      .symbols = (const char *const[]){"rows", NULL}};
  const tn_function_options options = {.struct_size = sizeof options,
                                       .max_programs = 1,
                                       .inputs = &declared,
                                       .num_inputs = 1,
                                       .input_size = sizeof declared};
  tn_runtime *rt = tn_device_runtime(device);
  tn_graph *g = NULL, *copy = NULL;
  tn_function *f = NULL;
  tn_tensor *x = NULL, *last = NULL, *y = NULL;
  tn_status status = tn_graph_create(rt, "step", &g);
  if (!status) status = tn_graph_input(g, "x", TN_F32, 2, SHAPE(2, 3), &x);
  if (!status) status = build_step(w, g, 1, &x);
  if (!status) status = tn_graph_copy(g, &copy);
  if (!status) status = tn_graph_tensor_at(copy, tn_graph_num_values(copy) - 1, &last);
  if (!status) status = tn_neg(NULL, last, &y);
  if (!status) status = tn_function_create(rt, device, "f", build_step, w, &options, &f);
  for (int i = 0; !status && i < 3; ++i) {
    tn_tensor *out[2] = {NULL, NULL};
    status = tn_function_run(f, NULL, 1, &in[i % 2], 2, out);
    ck_assert(!status || (!out[0] && !out[1]));
    RELEASE(out[0], out[1]);
  }
  RELEASE(x, last, y);
  tn_function_destroy(f);
  tn_graph_destroy(copy);
  tn_graph_destroy(g);
  return status;
}

START_TEST(every_request_for_memory_fails_once) {
  tn_runtime *rt = open_scarce();
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, 3, 4, -1);
  const tn_tensor *in[2] = {numbers(device, 2, 3, 1), numbers(device, 5, 3, 1)};
  long failed = 0, before = 0;
  for (long at = 0;; ++at) {
    scarce_begin(at, false);
    tn_status status = copy_and_run(device, w, in);
    bool enough = !scarce_end();
    ok_or_scarce(status, at);
    ok(tn_device_trim(device));
    failed += status != TN_OK;
    if (enough) break;
    before = at > 200 ? (before ? before : scarce.live) : 0;
    ck_assert_msg(!before || scarce.live < before + 40, "request %ld: %ld blocks, %ld before", at,
                  scarce.live, before);
  }
  ck_assert_int_gt(failed, 100);
  RELEASE(w, (tn_tensor *)(uintptr_t)in[0], (tn_tensor *)(uintptr_t)in[1]);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

/* Each stream needs memory of its own: where there is none left, the streams that have theirs run
 * on, and another has its turn when one of them is gone. */
START_TEST(device_memory_runs_out) {
  enum { STREAMS = 24 };
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "reference", .memory_limit = 16 << 20};
  tn_runtime *rt = open_runtime(&options);
  tn_device *device = tn_runtime_device(rt);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_stream *streams[STREAMS];
  tn_tensor *x = NULL, *a = NULL, *b = NULL, *sum = NULL, *in = NULL;
  ok(tn_graph_create(rt, "wide", &g));
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(1), &x));
  ok(tn_tensor_expand(x, 1, SHAPE(1 << 18), &a));
  ok(tn_neg(NULL, a, &b));
  ok(tn_sum(NULL, b, NULL, &sum));
  ok(tn_graph_output(g, "sum", sum));
  ok(tn_graph_compile(g, device, NULL, &p));
  ok(tn_full_f64(device, NULL, TN_F32, 1, SHAPE(1), 1, &in));
  int ran = 0;
  tn_status status = TN_OK;
  for (int i = 0; i < STREAMS; ++i) {
    tn_tensor *out = NULL;
    ok(tn_stream_create(device, &streams[i]));
    status = tn_program_run(p, streams[i], 1, (const tn_tensor *[]){in}, 1, &out);
    ck_assert(!status || status == TN_ERR_DEVICE_OUT_OF_MEMORY);
    ck_assert(!status == (out != NULL));
    ran += !status;
    tn_tensor_release(out);
  }
  ck_assert_int_eq(status, TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "program wide"));
  ck_assert(ran > 2 && ran < STREAMS);
  for (int i = 0; i < 20; ++i) {
    tn_tensor *out = NULL;
    float value = 0;
    ok(tn_program_run(p, streams[i % ran], 1, (const tn_tensor *[]){in}, 1, &out));
    ok(tn_stream_synchronize(streams[i % ran]));
    ok(tn_tensor_to_host(out, &value, sizeof value));
    ck_assert_float_eq(value, -(float)(1 << 18));
    tn_tensor_release(out);
  }
  tn_stream_destroy(streams[0]);
  tn_tensor *out = NULL;
  ok(tn_program_run(p, streams[STREAMS - 1], 1, (const tn_tensor *[]){in}, 1, &out));
  for (int i = 1; i < STREAMS; ++i) tn_stream_destroy(streams[i]);
  RELEASE(x, a, b, sum, in, out);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_runtime_close(rt);
}
END_TEST

/* --- several threads --- */

typedef struct worker {
  tn_device *device;
  tn_program *program;
  float first;
} worker;

static void *run_often(void *context) {
  const worker *job = context;
  tn_stream *stream = NULL;
  ok(tn_stream_create(job->device, &stream));
  for (int i = 0; i < 25; ++i) {
    float values[12], got[12];
    tn_tensor *in = NULL, *out = NULL;
    for (int k = 0; k < 12; ++k) values[k] = job->first + (float)(i * 12 + k);
    ok(tn_tensor_from_host(job->device, TN_F32, 2, SHAPE(4, 3), values, &in));
    ok(tn_device_synchronize(job->device)); /* that was on another stream */
    ok(tn_program_run(job->program, stream, 1, (const tn_tensor *[]){in}, 1, &out));
    ok(tn_stream_synchronize(stream));
    ok(tn_tensor_to_host(out, got, sizeof got));
    for (int k = 0; k < 12; ++k) ck_assert_float_eq(got[k], 4 * values[k]);
    RELEASE(in, out);
  }
  tn_stream_destroy(stream);
  return NULL;
}

/* Those of every_device that several threads may use at once: host memory, and queues with threads
 * of their own. */
static const int for_threads[] = {0, 1, 7, 8};

START_TEST(threads_on_streams_of_their_own) {
  enum { THREADS = 4 };
  tn_runtime *rt = open_every(for_threads[_i]);
  tn_device *device = tn_runtime_device(rt);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *twice = NULL, *y = NULL;
  pthread_t threads[THREADS];
  worker workers[THREADS];
  ok(tn_graph_create(rt, "shared", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(4, 3), &x));
  ok(tn_add(NULL, x, x, &twice));
  ok(tn_add(NULL, twice, twice, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, device, NULL, &p));
  for (int i = 0; i < THREADS; ++i) {
    workers[i] = (worker){device, p, (float)(1000 * i)};
    pthread_create(&threads[i], NULL, run_often, &workers[i]);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  RELEASE(x, twice, y);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_runtime_close(rt);
}
END_TEST

/* --- plugins, devices and processes that go --- */

typedef struct pair {
  tn_runtime *rt;
  tn_device *sim;
  tn_tensor *w, *x;
  tn_program *program;
  tn_function *function;
} pair;

static pair pair_make(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = SIM_PLUGIN,
                                .device = "reference",
                                .fallback = TN_FALLBACK_ALLOW};
  pair p = {.rt = open_runtime(&options)};
  ok(tn_device_find(p.rt, "sim", &p.sim));
  p.w = numbers(p.sim, 3, 4, -1);
  p.x = numbers(p.sim, 5, 3, 1);
  ok(make_program(p.sim, p.w, 5, &p.program));
  ok(tn_function_create(p.rt, p.sim, "f", build_step, p.w, NULL, &p.function));
  return p;
}

/* Both ways, whose parameter is back after them. */
static void runs_well(pair *p) {
  tn_tensor *a[2] = {NULL}, *b[2] = {NULL}, *y = NULL, *sum = NULL;
  ok(step(p->x, p->w, &y, &sum));
  ok(tn_neg(NULL, p->w, &p->w));
  ok(tn_program_run(p->program, NULL, 1, (const tn_tensor *[]){p->x}, 2, a));
  ok(tn_neg(NULL, p->w, &p->w));
  ok(tn_function_run(p->function, NULL, 1, (const tn_tensor *[]){p->x}, 2, b));
  ok(tn_neg(NULL, p->w, &p->w));
  same(a[0], y);
  same(a[1], sum);
  same(b[0], y);
  same(b[1], sum);
  RELEASE(a[0], a[1], b[0], b[1], y, sum);
}

static void runs_never(const pair *p, tn_status status, const char *why) {
  tn_tensor *out[2] = {NULL, NULL};
  refused(tn_program_run(p->program, NULL, 1, (const tn_tensor *[]){p->x}, 2, out), status, why);
  refused(tn_function_run(p->function, NULL, 1, (const tn_tensor *[]){p->x}, 2, out), status, why);
  ck_assert(!out[0] && !out[1]);
}

static void pair_free(pair *p) {
  tn_program_destroy(p->program);
  tn_function_destroy(p->function);
  RELEASE(p->w, p->x);
}

START_TEST(its_plugin_is_unloaded) {
  pair p = pair_make();
  tn_program_info info = {.struct_size = sizeof info};
  runs_well(&p);
  ok(tn_runtime_unload_plugin(p.rt, "sim"));
  runs_never(&p, TN_ERR_CLOSED, "unloaded");
  ok(tn_program_report(p.program, &info));
  ck_assert_uint_eq(info.runs, 1);
  ok(tn_runtime_load_plugin(p.rt, SIM_PLUGIN));
  runs_well(&p);
  ok(tn_runtime_unload_plugin(p.rt, "sim"));
  pair_free(&p);
  tn_runtime_close(p.rt);
}
END_TEST

/* tn_log kills the simulated device. */
START_TEST(its_device_is_lost) {
  pair p = pair_make();
  tn_graph *g = NULL;
  tn_program *deadly = NULL;
  tn_tensor *x = NULL, *y = NULL, *out = NULL;
  runs_well(&p);
  ok(tn_graph_create(p.rt, "deadly", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(5, 3), &x));
  ok(tn_log(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, p.sim, NULL, &deadly));
  refused(tn_program_run(deadly, NULL, 1, (const tn_tensor *[]){p.x}, 1, &out), TN_ERR_DEVICE_LOST,
          "program deadly, node 0, after 0 of 1 had run: tn_log");
  runs_never(&p, TN_ERR_DEVICE_LOST, "sim:0 is lost");
  RELEASE(x, y, out);
  tn_program_destroy(deadly);
  tn_graph_destroy(g);
  pair_free(&p);
  tn_runtime_close(p.rt);
}
END_TEST

START_TEST(the_process_forks) {
  pair p = pair_make();
  runs_well(&p);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    tn_tensor *out[2] = {NULL, NULL};
    const tn_tensor *in[1] = {p.x};
    bool well = tn_program_run(p.program, NULL, 1, in, 2, out) == TN_ERR_FORKED &&
                tn_function_run(p.function, NULL, 1, in, 2, out) == TN_ERR_FORKED;
    pair_free(&p);
    _exit(well && !out[0] && !out[1] ? 0 : 1);
  }
  int ended = -1;
  ck_assert_int_eq(waitpid(child, &ended, 0), child);
  ck_assert_int_eq(ended, 0);
  runs_well(&p);
  pair_free(&p);
  tn_runtime_close(p.rt);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, ten_thousand_runs_of_a_program);
  tcase_add_loop_test(tcase, thousands_of_runs_of_a_function, 0, 2);
  tcase_add_test(tcase, every_request_for_memory_fails_once);
  tcase_add_test(tcase, device_memory_runs_out);
  tcase_add_loop_test(tcase, threads_on_streams_of_their_own, 0,
                      sizeof for_threads / sizeof *for_threads);
  tcase_add_test(tcase, its_plugin_is_unloaded);
  tcase_add_test(tcase, its_device_is_lost);
  tcase_add_test(tcase, the_process_forks);
}

int main(void) { return run_suite("graph_lasting", add_tests); }
