/* What the tests of replayed programs share: the device that records, a step on it, its numbers. */
#ifndef TENON_TESTS_REPLAYS_H
#define TENON_TESTS_REPLAYS_H

#include <pthread.h>
#include <unistd.h>

#include "tests/fixtures/capturing.h"
#include "tests/graph/tensors.h"

static tn_runtime *rt;
static tn_device *device;
static capturing_ledger *ledger;

static inline tn_runtime *open_capturing(const char *layers, const tn_allocator *allocator) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = CAPTURING_PLUGIN,
                                .device = "capturing",
                                .layers = layers,
                                .allocator = allocator,
                                .fallback = TN_FALLBACK_ALLOW};
  return open_runtime(&options);
}

static inline void setup(void) {
  rt = open_capturing(NULL, NULL);
  device = tn_runtime_device(rt);
  ledger = tn_stream_native(tn_device_default_stream(device));
}
static inline void teardown(void) { tn_runtime_close(rt); }

/* [rows, columns] of numbers from `first` on. */
static inline tn_tensor *numbers(int64_t rows, int64_t columns, float first) {
  int64_t n = rows * columns;
  float *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) values[i] = first + (float)(i % 29) / 4;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 2, SHAPE(rows, columns), values, &t));
  free(values);
  return t;
}

/* w += b; y = x * w; z = -(y + b): a parameter that is updated, a row that is repeated, a
 * workspace, a view that is returned beside what it shows, and more calls than tensors come. */
static inline tn_status step(tn_stream *stream, const tn_tensor *x, const tn_tensor *b,
                             tn_tensor *w, tn_tensor **y, tn_tensor **z, tn_tensor **turned) {
  tn_tensor *sum = NULL, *more = NULL;
  tn_status status = tn_add(stream, w, b, &w);
  if (!status) status = tn_mul(stream, x, w, y);
  if (!status) status = tn_add(stream, *y, b, &sum);
  if (!status) status = tn_add(stream, sum, sum, &more);
  if (!status) status = tn_neg(stream, more, z);
  if (!status && turned) status = tn_tensor_permute(*z, (int32_t[]){1, 0}, turned);
  RELEASE(sum, more);
  return status;
}

static inline tn_status build(tn_runtime *runtime, tn_tensor *real_w, int64_t rows, int64_t columns,
                              bool turned, tn_graph **graph) {
  tn_tensor *x = NULL, *b = NULL, *w = NULL, *y = NULL, *z = NULL, *t = NULL;
  tn_graph *g = NULL;
  tn_status status = tn_graph_create(runtime, "step", &g);
  if (!status) status = tn_graph_input(g, "x", TN_F32, 2, SHAPE(rows, columns), &x);
  if (!status) status = tn_graph_input(g, "b", TN_F32, 2, SHAPE(1, columns), &b);
  if (!status) status = tn_graph_parameter(g, "w", real_w, &w);
  if (!status) status = step(NULL, x, b, w, &y, &z, turned ? &t : NULL);
  if (!status) status = tn_graph_output(g, "y", y);
  if (!status) status = tn_graph_output(g, "z", z);
  if (!status && turned) status = tn_graph_output(g, "turned", t);
  RELEASE(x, b, w, y, z, t);
  if (status)
    tn_graph_destroy(g);
  else
    *graph = g;
  return status;
}

static inline tn_program *compiled(tn_tensor *w, int64_t rows, int64_t columns, bool turned,
                                   uint32_t flags) {
  tn_compile_options options = {.struct_size = sizeof options, .flags = flags};
  tn_graph *g = NULL;
  tn_program *p = NULL;
  ok(build(tn_device_runtime(tn_tensor_device(w)), w, rows, columns, turned, &g));
  ok(tn_graph_compile(g, tn_tensor_device(w), &options, &p));
  tn_graph_destroy(g);
  return p;
}

/* A program of the step beside eager calls: each has a w of its own. */
typedef struct pair {
  int64_t rows, columns;
  tn_tensor *w, *kept;
  tn_program *program;
  bool turned;
} pair;

static inline pair make_pair(int64_t rows, int64_t columns, bool turned, uint32_t flags) {
  pair p = {rows, columns, numbers(rows, columns, 0.5f), numbers(rows, columns, 0.5f),
            NULL, turned};
  p.program = compiled(p.w, rows, columns, turned, flags);
  return p;
}

static inline void free_pair(pair *p) {
  tn_program_destroy(p->program);
  RELEASE(p->w, p->kept);
}

/* One run of the program into y and z, NULL or given, and of the calls: they agree. */
static inline void run_both(pair *p, tn_stream *stream, tn_tensor *x, tn_tensor *b, tn_tensor **y,
                            tn_tensor **z) {
  tn_tensor *out[3] = {*y, *z, NULL}, *want[3] = {NULL, NULL, NULL};
  ok(step(stream, x, b, p->kept, &want[0], &want[1], p->turned ? &want[2] : NULL));
  ok(tn_program_run(p->program, stream, 2, (const tn_tensor *[]){x, b}, p->turned ? 3 : 2, out));
  ok(tn_stream_synchronize(stream ? stream : tn_device_default_stream(device)));
  same(out[0], want[0]);
  same(out[1], want[1]);
  same(p->w, p->kept);
  if (p->turned) same(out[2], want[2]);
  RELEASE(want[0], want[1], want[2], out[2]);
  *y = out[0];
  *z = out[1];
}

#endif
