/*
 * Programs that take turns in one stream's memory: how much they take together, that each has its
 * own numbers whoever ran before, and programs that several threads run on one stream at once.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tenon/graph.h"
#include "tests/every_device.h"

enum { WIDTH = 16, LINKS = 4 };

/* y = relu(...relu(x w) w...) of `rows` rows: values of which two at least live at once. */
static tn_status chain(const tn_tensor *x, const tn_tensor *w, tn_tensor **y) {
  tn_tensor *h = NULL;
  tn_status status = tn_relu(NULL, x, &h);
  for (int i = 0; !status && i < LINKS; ++i) {
    tn_tensor *product = NULL, *next = NULL;
    status = tn_matmul(NULL, h, w, NULL, NULL, &product);
    if (!status) status = tn_relu(NULL, product, &next);
    tn_tensor_release(product);
    tn_tensor_release(h);
    h = next;
  }
  if (!status) status = tn_neg(NULL, h, y);
  tn_tensor_release(h);
  return status;
}

/* A program, what it is given, and what its outputs must be. */
typedef struct turn {
  tn_program *program;
  tn_tensor *x, *wanted;
  uint64_t planned;
} turn;

static tn_tensor *numbers(tn_device *on, int64_t rows, int64_t columns, float first) {
  float *values = malloc((size_t)(rows * columns) * sizeof *values);
  for (int i = 0; i < rows * columns; ++i) values[i] = (first + (float)((i * 37) % 11) - 5) / 64;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(on, TN_F32, 2, SHAPE(rows, columns), values, &t));
  free(values);
  return t;
}

static turn make_turn(tn_device *device, tn_tensor *w, int64_t rows, float first) {
  turn t = {.x = numbers(device, rows, WIDTH, first)};
  tn_graph *g = NULL;
  tn_tensor *x = NULL, *y = NULL, *parameter = NULL;
  ok(tn_graph_create(tn_device_runtime(device), "turn", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(rows, WIDTH), &x));
  ok(tn_graph_parameter(g, "w", w, &parameter));
  ok(chain(x, parameter, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, device, NULL, &t.program));
  ok(chain(t.x, w, &t.wanted));
  tn_program_info info = {.struct_size = sizeof info};
  ok(tn_program_report(t.program, &info));
  t.planned = info.planned_bytes;
  ck_assert_uint_ge(t.planned, (uint64_t)rows * WIDTH * sizeof(float));
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(parameter);
  tn_graph_destroy(g);
  return t;
}

static void end_turn(turn *t) {
  tn_program_destroy(t->program);
  tn_tensor_release(t->x);
  tn_tensor_release(t->wanted);
}

/* Whether a run gave what it must. Reads results only where `look`, since that waits. */
static bool run(const turn *t, tn_stream *stream, bool look) {
  const tn_tensor *in[] = {t->x};
  tn_tensor *y = NULL;
  bool right = !tn_program_run(t->program, stream, 1, in, 1, &y);
  size_t bytes = right ? tn_tensor_bytes(y) : 0;
  float *got = malloc(bytes + 1), *wanted = malloc(bytes + 1);
  if (right && look)
    right = !tn_tensor_to_host(y, got, bytes) && !tn_tensor_to_host(t->wanted, wanted, bytes);
  for (size_t i = 0; right && look && i < bytes / sizeof *got; ++i)
    right = got[i] - wanted[i] <= 1e-6f && wanted[i] - got[i] <= 1e-6f;
  free(got);
  free(wanted);
  tn_tensor_release(y);
  return right;
}

static uint64_t in_use(tn_device *device) {
  ok(tn_device_synchronize(device));
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(device, &stats));
  return stats.in_use;
}

/* What a turn takes beside its tensors. */
static uint64_t taken(tn_device *device, tn_tensor *w, int64_t rows, float first, turn *made) {
  uint64_t before = in_use(device);
  *made = make_turn(device, w, rows, first);
  uint64_t tensors = tn_tensor_bytes(made->x) + tn_tensor_bytes(made->wanted);
  return in_use(device) - before - tensors;
}

START_TEST(the_largest_serves_all) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, WIDTH, WIDTH, 1);
  enum { ROWS = 512, SLACK = 8192 };
  uint64_t before = in_use(device);
  turn large, small, middle;
  uint64_t first = taken(device, w, ROWS, 1, &large);
  ck_assert_uint_ge(first, large.planned);
  ck_assert_uint_le(taken(device, w, 3, 2, &small), SLACK);
  ck_assert_uint_le(taken(device, w, ROWS / 2, 3, &middle), SLACK);
  for (int k = 0; k < 4; ++k) {
    ck_assert(run(&large, NULL, k & 1));
    ck_assert(run(&small, NULL, true));
    ck_assert(run(&middle, NULL, k & 1));
    ck_assert(run(&large, NULL, true));
  }
  end_turn(&large); /* what it made stays for the others */
  ck_assert(run(&middle, NULL, true));
  ck_assert(run(&small, NULL, true));
  end_turn(&middle);
  end_turn(&small);
  ck_assert_uint_eq(in_use(device), before);
  tn_tensor_release(w);
  tn_runtime_close(rt);
}
END_TEST

/* Streams that come and go, and other programs' streams, get memory of their own. */
START_TEST(streams_are_apart) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, WIDTH, WIDTH, 1);
  turn a = make_turn(device, w, 70, 1), b = make_turn(device, w, 50, 2);
  ok(tn_device_synchronize(device));
  for (int round = 0; round < 2; ++round) {
    tn_stream *stream[2];
    for (int s = 0; s < 2; ++s) ok(tn_stream_create(device, &stream[s]));
    for (int k = 0; k < 6; ++k) {
      ck_assert(run(&a, stream[k & 1], false));
      ck_assert(run(&b, stream[k & 1], false));
      ck_assert(run(&a, stream[!(k & 1)], false));
      ck_assert(run(k & 1 ? &b : &a, NULL, true));
    }
    for (int s = 0; s < 2; ++s) {
      ok(tn_stream_synchronize(stream[s]));
      ck_assert(run(&a, stream[s], true));
      tn_stream_destroy(stream[s]);
    }
  }
  end_turn(&a);
  end_turn(&b);
  tn_tensor_release(w);
  tn_runtime_close(rt);
}
END_TEST

enum { THREADS = 4, RUNS = 25 };

typedef struct worker {
  turn turn;
  tn_stream *stream;
  pthread_barrier_t *start;
  int wrong;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  pthread_barrier_wait(w->start);
  for (int k = 0; k < RUNS; ++k) w->wrong += !run(&w->turn, w->stream, true);
  return NULL;
}

START_TEST(threads_share_a_stream) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, WIDTH, WIDTH, 1);
  worker workers[THREADS];
  pthread_t threads[THREADS];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, THREADS);
  for (int i = 0; i < THREADS; ++i)
    workers[i] = (worker){.turn = make_turn(device, w, 20 + 10 * i, (float)i), .start = &start};
  ok(tn_device_synchronize(device));
  for (int i = 0; i < THREADS; ++i)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(workers[i].wrong, 0);
  }
  for (int i = 0; i < THREADS; ++i) end_turn(&workers[i].turn);
  pthread_barrier_destroy(&start);
  tn_tensor_release(w);
  tn_runtime_close(rt);
}
END_TEST

/* A thread that runs its program until it is told to stop. */
typedef struct runner {
  turn turn;
  atomic_bool started, stop;
  int wrong;
} runner;

static void *run_on(void *argument) {
  runner *r = argument;
  while (!atomic_load(&r->stop)) {
    r->wrong += !run(&r->turn, NULL, true);
    atomic_store(&r->started, true);
  }
  return NULL;
}

/* Programs are compiled while others run in the memory that they are to share: runs go on in it,
 * and do not make themselves more. */
START_TEST(compiling_takes_nothing_from_runs) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = numbers(device, WIDTH, WIDTH, 1);
  runner r = {.turn = make_turn(device, w, 64, 1)};
  ck_assert(run(&r.turn, NULL, true));
  const uint64_t before = in_use(device);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, run_on, &r), 0);
  while (!atomic_load(&r.started)) sched_yield();
  for (int k = 0; k < RUNS; ++k) {
    turn other = make_turn(device, w, 60, 2);
    end_turn(&other);
  }
  atomic_store(&r.stop, true);
  pthread_join(thread, NULL);
  ck_assert_int_eq(r.wrong, 0);
  ck_assert_uint_eq(in_use(device), before);
  end_turn(&r.turn);
  tn_tensor_release(w);
  tn_runtime_close(rt);
}
END_TEST

/* y = sum(relu(x)), compiled and never run: one value is planned. */
static tn_program *unrun(tn_device *device, int64_t size) {
  tn_graph *g = NULL;
  tn_tensor *x = NULL, *h = NULL, *y = NULL;
  tn_program *program = NULL;
  ok(tn_graph_create(tn_device_runtime(device), "unrun", &g));
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(size), &x));
  ok(tn_relu(NULL, x, &h));
  ok(tn_sum(NULL, h, NULL, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, device, NULL, &program));
  tn_tensor_release(x);
  tn_tensor_release(h);
  tn_tensor_release(y);
  tn_graph_destroy(g);
  return program;
}

/* A small program would keep a large one's memory for itself when that is gone. */
START_TEST(small_programs_keep_no_large_memory) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  const uint64_t before = in_use(device), large_bytes = UINT64_C(80) << 20;
  tn_program *large = unrun(device, (int64_t)(large_bytes / sizeof(float)));
  ck_assert_uint_ge(in_use(device), before + large_bytes);
  tn_program *small = unrun(device, 1000), *near = unrun(device, 3 << 20);
  ck_assert_uint_le(in_use(device), before + large_bytes + (1 << 16)); /* near in large */
  tn_program_destroy(near);
  tn_program_destroy(large);
  ck_assert_uint_le(in_use(device), before + (1 << 16));
  tn_program_destroy(small);
  ck_assert_uint_eq(in_use(device), before);
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, the_largest_serves_all, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, streams_are_apart, 0, EVERY_DEVICE);
  for (int i = 0; i < EVERY_DEVICE; ++i) /* the lazy devices' queues are for one thread at a time */
    if (i < 2 || strcmp(every_device[i].plugin, LAZY_PLUGIN) != 0) {
      tcase_add_loop_test(t, threads_share_a_stream, i, i + 1);
      tcase_add_loop_test(t, compiling_takes_nothing_from_runs, i, i + 1);
    }
  tcase_add_test(t, small_programs_keep_no_large_memory);
}

int main(void) { return run_suite("turns", add_tests); }
