/*
 * Programs on a device that records: whatever addresses runs come with, they give what the calls
 * give, and as many of them as promised are one launch.
 */
#include "tests/graph/replays.h"

enum { RUNS = 100 };

/* --- addresses --- */

/* The same tensors in every run, of all sizes, none at all among them. */
START_TEST(fixed_addresses) {
  static const int64_t shapes[][2] = {{3, 5}, {1, 1}, {0, 4}, {4, 0}, {64, 300}};
  const int64_t rows = shapes[_i][0], columns = shapes[_i][1];
  pair p = make_pair(rows, columns, false, 0);
  tn_tensor *x = numbers(rows, columns, 1), *b = numbers(1, columns, 2);
  tn_tensor *y = numbers(rows, columns, 0), *z = numbers(rows, columns, 0);
  ck_assert_uint_eq(report(p.program).capture, TN_CAPTURE_WAITS);
  for (int i = 0; i < RUNS; ++i) run_both(&p, NULL, x, b, &y, &z);
  const tn_program_info info = report(p.program);
  ck_assert_uint_eq(info.capture, TN_CAPTURE_ON);
  ck_assert_str_eq(info.capture_reason, "");
  ck_assert_uint_eq(info.runs, RUNS);
  ck_assert_uint_eq(info.captures, 1);
  ck_assert_uint_eq(info.replays, RUNS - 1);
  ck_assert_int_eq(ledger->launched, RUNS - 1);
  ck_assert_int_eq(ledger->made, 1);
  long before = ledger->kernels;
  tn_tensor *out[2] = {y, z};
  ok(tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, out));
  if (rows && columns) /* empty outputs are copied */
    ck_assert_int_eq(ledger->kernels, before);
  ck_assert_int_eq(ledger->wrong, 0);
  ok(tn_device_synchronize(device));
  RELEASE(x, b, y, z);
  free_pair(&p);
  ck_assert_int_eq(ledger->destroyed, 1);
}
END_TEST

/* Outputs that runs make come to lie where those of before lay. */
START_TEST(made_outputs) {
  pair p = make_pair(7, 9, _i, 0);
  tn_tensor *x = numbers(7, 9, 1), *b = numbers(1, 9, 2);
  for (int i = 0; i < RUNS; ++i) {
    tn_tensor *y = NULL, *z = NULL;
    run_both(&p, NULL, x, b, &y, &z);
    RELEASE(y, z);
  }
  ck_assert_uint_ge(report(p.program).replays, RUNS / 2);
  ck_assert_uint_le(report(p.program).captures, 6);
  RELEASE(x, b);
  free_pair(&p);
}
END_TEST

/* Several sets of tensors by turns, with the same input in two places of the call at times. */
START_TEST(alternating_addresses) {
  enum { MOST = 4 };
  const int sets = 2 + _i % 3;
  const int64_t rows = _i < 3 ? 5 : 300, columns = 90;
  pair p = make_pair(rows, columns, false, 0);
  tn_tensor *x[MOST], *b[MOST], *y[MOST], *z[MOST];
  for (int i = 0; i < sets; ++i) {
    x[i] = numbers(rows, columns, (float)i);
    b[i] = numbers(1, columns, (float)(i - 2));
    y[i] = numbers(rows, columns, 0);
    z[i] = numbers(rows, columns, 0);
  }
  for (int i = 0; i < RUNS; ++i) {
    int k = i % sets;
    run_both(&p, NULL, x[k], b[k], &y[k], &z[k]);
  }
  const tn_program_info info = report(p.program);
  ck_assert_uint_eq(info.captures, sets);
  ck_assert_uint_eq(info.replays, RUNS - sets);
  ck_assert_int_eq(ledger->copies, 0);
  for (int i = 0; i < sets; ++i) RELEASE(x[i], b[i], y[i], z[i]);
  free_pair(&p);
}
END_TEST

/* No address comes twice: small tensors get fixed places, larger ones cost nothing. */
START_TEST(new_addresses) {
  enum { MANY = 60 };
  const bool small = _i < 2;
  const int64_t rows = small ? 8 : 300, columns = small ? 16 : 400;
  pair p = make_pair(rows, columns, _i % 2, 0);
  tn_tensor *all[MANY][4];
  for (int i = 0; i < MANY; ++i) {
    all[i][0] = numbers(rows, columns, (float)i);
    all[i][1] = numbers(1, columns, (float)-i);
    all[i][2] = all[i][3] = NULL;
    run_both(&p, NULL, all[i][0], all[i][1], &all[i][2], &all[i][3]);
  }
  for (int i = 0; i + 1 < MANY; ++i) /* what was returned is still what it was */
    for (int k = 2; k < 4; ++k) ck_assert_ptr_ne(all[i][k], all[i + 1][k]);
  const tn_program_info info = report(p.program);
  if (small) {
    ck_assert_uint_eq(info.capture, TN_CAPTURE_ON);
    ck_assert_uint_eq(info.captures, 1);
    ck_assert_uint_ge(info.replays, MANY - 10);
    ck_assert_int_eq(ledger->copies, 4 * (long)info.replays);
  } else {
    ck_assert_uint_eq(info.capture, TN_CAPTURE_WAITS);
    ck_assert_uint_eq(info.captures, 0);
    ck_assert_int_eq(ledger->copies, 0);
  }
  for (int i = 0; i < MANY; ++i) RELEASE(all[i][0], all[i][1], all[i][2], all[i][3]);
  free_pair(&p);
}
END_TEST

/* The large input stays where it is, the small one is new each time: that alone is copied. */
START_TEST(one_new_address) {
  enum { MANY = 60 };
  pair p = make_pair(100, 200, false, 0);
  tn_tensor *x = numbers(100, 200, 1), *y = numbers(100, 200, 0), *z = numbers(100, 200, 0);
  tn_tensor *b[MANY];
  for (int i = 0; i < MANY; ++i) {
    b[i] = numbers(1, 200, (float)i);
    run_both(&p, NULL, x, b[i], &y, &z);
  }
  ck_assert_uint_eq(report(p.program).captures, 1);
  ck_assert_uint_ge(report(p.program).replays, MANY - 10);
  ck_assert_int_eq(ledger->copies, (long)report(p.program).replays);
  for (int i = 0; i < MANY; ++i) tn_tensor_release(b[i]);
  RELEASE(x, y, z);
  free_pair(&p);
}
END_TEST

/* First one small input changes, then the other as well: there are new places, and graphs that know
 * the old ones do no harm. */
START_TEST(more_new_addresses) {
  enum { MANY = 40 };
  pair p = make_pair(4, 4, false, 0);
  tn_tensor *y = numbers(4, 4, 0), *z = numbers(4, 4, 0), *b[MANY], *x[MANY];
  for (int i = 0; i < MANY; ++i) {
    b[i] = numbers(1, 4, (float)i);
    x[i] = numbers(4, 4, (float)(2 * i));
  }
  for (int i = 0; i < MANY; ++i) run_both(&p, NULL, x[0], b[i], &y, &z);
  for (int i = 0; i < MANY; ++i) run_both(&p, NULL, x[i], b[i], &y, &z);
  for (int i = 0; i < MANY; ++i) run_both(&p, NULL, x[0], b[MANY - 1 - i], &y, &z);
  ck_assert_uint_ge(report(p.program).replays, 3 * MANY - 30);
  ck_assert_uint_le(report(p.program).captures, 4);
  for (int i = 0; i < MANY; ++i) RELEASE(b[i], x[i]);
  RELEASE(y, z);
  free_pair(&p);
}
END_TEST

/* More sets by turns than are kept, too large to be copied: recording does not become a habit. */
START_TEST(too_many_addresses) {
  enum { SETS = 6, TURNS = 120 };
  const int64_t rows = 100, columns = 90;
  pair p = make_pair(rows, columns, false, 0);
  tn_tensor *x[SETS], *b = numbers(1, columns, 3), *y = numbers(rows, columns, 0);
  tn_tensor *z = numbers(rows, columns, 0);
  for (int i = 0; i < SETS; ++i) x[i] = numbers(rows, columns, (float)i);
  for (int i = 0; i < 40; ++i) run_both(&p, NULL, x[i % 4], b, &y, &z);
  for (int i = 0; i < TURNS; ++i) run_both(&p, NULL, x[i % SETS], b, &y, &z);
  ck_assert_uint_le(report(p.program).captures, 4 + TURNS / 10);
  ck_assert_uint_ge(report(p.program).replays, 36);
  ck_assert_int_le(ledger->made - ledger->destroyed, 4);
  for (int i = 0; i < SETS; ++i) tn_tensor_release(x[i]);
  RELEASE(b, y, z);
  free_pair(&p);
}
END_TEST

/* Inputs and outputs that no header can stand on: strided, and at odd addresses. */
START_TEST(copied_tensors) {
  pair p = make_pair(6, 4, true, 0);
  tn_tensor *wide = numbers(4, 6, 1), *x = NULL, *b = numbers(1, 4, 2);
  tn_tensor *room = numbers(13, 2, 0), *part = NULL, *y = NULL;
  ok(tn_tensor_permute(wide, (int32_t[]){1, 0}, &x));
  ok(tn_tensor_slice(room, 0, 1, 13, 1, &part));
  ok(tn_tensor_reshape(part, 2, SHAPE(6, 4), &y));
  for (int i = 0; i < RUNS; ++i) {
    tn_tensor *z = NULL;
    run_both(&p, NULL, x, b, &y, &z);
    tn_tensor_release(z);
  }
  ck_assert_uint_ge(report(p.program).replays, RUNS / 2);
  RELEASE(wide, x, b, room, part, y);
  free_pair(&p);
}
END_TEST

/* Nothing comes and nothing is returned but by parameters. */
START_TEST(no_tensors) {
  tn_tensor *real = numbers(2, 3, 1), *want = numbers(2, 3, 1), *w = NULL;
  tn_graph *g = NULL;
  tn_program *p = NULL;
  ok(tn_graph_create(rt, "alone", &g));
  ok(tn_graph_parameter(g, "w", real, &w));
  ok(tn_add(NULL, w, w, &w));
  ok(tn_neg(NULL, w, &w));
  ok(tn_graph_compile(g, device, NULL, &p));
  for (int i = 0; i < 20; ++i) {
    ok(tn_program_run(p, NULL, 0, NULL, 0, NULL));
    ok(tn_add(NULL, want, want, &want));
    ok(tn_neg(NULL, want, &want));
    same(real, want);
  }
  ck_assert_uint_eq(report(p).replays, 19);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  RELEASE(real, want, w);
}
END_TEST

/* --- streams, threads --- */

START_TEST(several_streams) {
  enum { STREAMS = 3 };
  tn_stream *streams[STREAMS + 1] = {NULL};
  tn_tensor *x = numbers(5, 6, 1), *b = numbers(1, 6, 2);
  tn_tensor *y = numbers(5, 6, 0), *z = numbers(5, 6, 0);
  pair p = make_pair(5, 6, false, 0);
  for (int i = 0; i < STREAMS; ++i) ok(tn_stream_create(device, &streams[i]));
  for (int i = 0; i < RUNS; ++i) run_both(&p, streams[i % (STREAMS + 1)], x, b, &y, &z);
  ck_assert_uint_eq(report(p.program).captures, STREAMS + 1);
  ck_assert_uint_eq(report(p.program).replays, RUNS - STREAMS - 1);
  for (int i = 0; i < STREAMS; ++i) tn_stream_destroy(streams[i]);
  ok(tn_stream_create(device, &streams[0])); /* the first run on another stream drops the old */
  run_both(&p, streams[0], x, b, &y, &z);
  ck_assert_int_eq(ledger->made - ledger->destroyed, 1);
  RELEASE(x, b, y, z);
  free_pair(&p);
  tn_stream_destroy(streams[0]);
}
END_TEST

/* A program that updates nothing, for threads to run at once. */
static tn_program *make_sum(int64_t rows) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *t[5] = {NULL};
  ok(tn_graph_create(rt, "sum", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(rows, 8), &x));
  ok(tn_add(NULL, x, x, &t[0]));
  for (int i = 1; i < 5; ++i) ok(tn_add(NULL, t[i - 1], x, &t[i]));
  ok(tn_graph_output(g, "sum", t[4]));
  ok(tn_graph_compile(g, device, NULL, &p));
  RELEASE(x, t[0], t[1], t[2], t[3], t[4]);
  tn_graph_destroy(g);
  return p;
}

typedef struct worker {
  pthread_t thread;
  tn_program *program;
  int number;
  bool on_default;
} worker;

static void *run_often(void *context) {
  const worker *job = context;
  tn_stream *stream = NULL;
  if (!job->on_default) ok(tn_stream_create(device, &stream));
  tn_tensor *x[6];
  float values[64];
  for (int i = 0; i < 6; ++i) {
    tn_tensor *t = NULL;
    ok(tn_full_f64(device, stream, TN_F32, 2, SHAPE(8, 8), job->number + i, &t));
    x[i] = t;
  }
  for (int i = 0; i < 300; ++i) {
    tn_tensor *y = NULL;
    int k = i % (1 + job->number % 6);
    ok(tn_program_run(job->program, stream, 1, (const tn_tensor *[]){x[k]}, 1, &y));
    if (i % 3 == 0) {
      ok(tn_tensor_read(stream, y, values, sizeof values));
      ok(tn_stream_synchronize(stream ? stream : tn_device_default_stream(device)));
      for (int e = 0; e < 64; ++e) ck_assert_float_eq(values[e], (float)(6 * (job->number + k)));
    }
    tn_tensor_release(y);
  }
  for (int i = 0; i < 6; ++i) tn_tensor_release(x[i]);
  tn_stream_destroy(stream);
  return NULL;
}

/* Others wait for the whole device, and mark memory on its streams, while programs are recorded:
 * nothing of that reaches what records. */
static void *disturb(void *context) {
  (void)context;
  for (int i = 0; i < 300; ++i) {
    tn_tensor *a = numbers(3, 3, 1), *b = NULL;
    ok(tn_add(NULL, a, a, &b));
    ok(tn_device_synchronize(device));
    RELEASE(a, b);
  }
  return NULL;
}

START_TEST(several_threads) {
  enum { THREADS = 4 };
  worker workers[THREADS + 2];
  pthread_t other;
  tn_program *p = make_sum(8);
  ck_assert_int_eq(pthread_create(&other, NULL, disturb, NULL), 0);
  for (int i = 0; i < THREADS + 2; ++i) {
    workers[i] = (worker){.program = p, .number = i, .on_default = i >= THREADS};
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, run_often, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS + 2; ++i) pthread_join(workers[i].thread, NULL);
  pthread_join(other, NULL);
  ck_assert_int_eq(ledger->wrong, 0);
  ck_assert_uint_eq(report(p).capture, TN_CAPTURE_ON);
  ck_assert_uint_gt(report(p).replays, 300);
  tn_program_destroy(p);
}
END_TEST

/* --- random operators --- */

/* Two draws in each run, from the sequence that ordinary calls draw from. */
static void draw_twice(tn_tensor *y[2], tn_generator *generator) {
  for (int k = 0; k < 2; ++k) {
    tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
    ok(tn_generator_next(generator, TN_OP_UNIFORM, y[k], &attrs));
    ok(tn_uniform(NULL, y[k], &attrs));
  }
}

static tn_program *drawing_program(tn_generator *generator) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *y[2] = {NULL, NULL};
  ok(tn_graph_create(rt, "draws", &g));
  for (int k = 0; k < 2; ++k) {
    ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(3, 5 + k), &y[k]));
  }
  draw_twice(y, generator);
  for (int k = 0; k < 2; ++k) ok(tn_graph_output(g, k ? "b" : "a", y[k]));
  ok(tn_graph_compile(g, device, NULL, &p));
  RELEASE(y[0], y[1]);
  tn_graph_destroy(g);
  return p;
}

/* Replays go on in the sequence, and so do the runs between them that are none. */
START_TEST(random_numbers_go_on) {
  tn_generator *of_graph, *of_calls;
  ok(tn_generator_create(rt, 7, &of_graph));
  ok(tn_generator_create(rt, 7, &of_calls));
  tn_program *p = drawing_program(of_graph);
  tn_tensor *given[2] = {numbers(3, 5, 0), numbers(3, 6, 0)};
  tn_tensor *want[2] = {numbers(3, 5, 0), numbers(3, 6, 0)};
  for (int i = 0; i < 20; ++i) {
    tn_tensor *fresh[2] = {NULL, NULL}, **got = i % 5 == 4 ? fresh : given;
    ok(tn_program_run(p, NULL, 0, NULL, 2, got));
    draw_twice(want, of_calls);
    for (int k = 0; k < 2; ++k) same(got[k], want[k]);
    RELEASE(fresh[0], fresh[1]);
  }
  const tn_program_info info = report(p);
  ck_assert_uint_eq(info.capture, TN_CAPTURE_ON);
  ck_assert_uint_ge(info.replays, 14);
  ck_assert_uint_lt(info.replays, 20);
  ck_assert_int_eq(ledger->wrong, 0);
  RELEASE(given[0], given[1], want[0], want[1]);
  tn_program_destroy(p);
  tn_generator_destroy(of_graph);
  tn_generator_destroy(of_calls);
}
END_TEST

/* --- row-major copies --- */

/* mul's kernel wants row-major tensors: the copies that it gets are part of the program. */
static tn_status strided(tn_stream *stream, const tn_tensor *x, tn_tensor *w, tn_tensor **y) {
  tn_tensor *turned = NULL, *part = NULL, *sum = NULL;
  tn_status status = tn_tensor_permute(x, (int32_t[]){1, 0}, &turned);
  if (!status) status = tn_add(stream, w, turned, &w);
  if (!status) status = tn_mul(stream, turned, w, &sum);
  if (!status) status = tn_tensor_slice(sum, 1, 1, 3, 1, &part);
  if (!status) status = tn_mul(stream, part, part, y);
  RELEASE(turned, part, sum);
  return status;
}

static tn_status compile_strided(tn_runtime *runtime, tn_tensor *real_w, tn_program **p) {
  tn_tensor *x = NULL, *w = NULL, *y = NULL;
  tn_graph *g = NULL;
  tn_status status = tn_graph_create(runtime, "strided", &g);
  if (!status) status = tn_graph_input(g, "x", TN_F32, 2, SHAPE(3, 5), &x);
  if (!status) status = tn_graph_parameter(g, "w", real_w, &w);
  if (!status) status = strided(NULL, x, w, &y);
  if (!status) status = tn_graph_output(g, "y", y);
  if (!status) status = tn_graph_compile(g, tn_tensor_device(real_w), NULL, p);
  RELEASE(x, w, y);
  tn_graph_destroy(g);
  return status;
}

START_TEST(row_major_copies) {
  tn_tensor *w = numbers(5, 3, 1), *own_w = numbers(5, 3, 1), *x = numbers(3, 5, 2);
  tn_tensor *y = numbers(5, 2, 0), *want = numbers(5, 2, 0);
  tn_program *p = NULL;
  ok(compile_strided(rt, own_w, &p));
  for (int i = 0; i < 10; ++i) {
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &y));
    ok(strided(NULL, x, w, &want));
    same(y, want);
    same(own_w, w);
  }
  const tn_program_info info = report(p);
  ck_assert_uint_eq(info.nodes, 3);
  ck_assert_uint_eq(info.capture, TN_CAPTURE_ON);
  ck_assert_uint_eq(info.replays, 9);
  ck_assert_int_eq(ledger->wrong, 0);
  RELEASE(w, own_w, x, y, want);
  tn_program_destroy(p);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, fixed_addresses, 0, 5);
  tcase_add_loop_test(t, made_outputs, 0, 2);
  tcase_add_loop_test(t, alternating_addresses, 0, 6);
  tcase_add_loop_test(t, new_addresses, 0, 4);
  tcase_add_test(t, one_new_address);
  tcase_add_test(t, more_new_addresses);
  tcase_add_test(t, too_many_addresses);
  tcase_add_test(t, copied_tensors);
  tcase_add_test(t, no_tensors);
  tcase_add_test(t, several_streams);
  tcase_add_test(t, several_threads);
  tcase_add_test(t, random_numbers_go_on);
  tcase_add_test(t, row_major_copies);
}

int main(void) { return run_suite("replay", add_tests); }
