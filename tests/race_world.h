/*
 * What programs with a race and programs without work on: two streams and tensors; the streams of
 * the simulated device have no order but what a program gives them.
 */
#ifndef TENON_TESTS_RACE_WORLD_H
#define TENON_TESTS_RACE_WORLD_H

#include "validate_support.h"

typedef struct world {
  tn_runtime *runtime;
  tn_device *device;
  tn_stream *a, *b;
  tn_event *e, *f;
  tn_tensor *x, *y, *z; /* f32 [8], ready for every stream */
  float values[8];
} world;

static world world_open(const char *device) {
  world w = {.runtime = open_validated(device, "races")};
  w.device = tn_runtime_device(w.runtime);
  ok(tn_stream_create(w.device, &w.a));
  ok(tn_stream_create(w.device, &w.b));
  ok(tn_event_create(w.device, &w.e));
  ok(tn_event_create(w.device, &w.f));
  w.x = counting(w.device, 8);
  w.y = counting(w.device, 8);
  w.z = counting(w.device, 8);
  ok(tn_device_synchronize(w.device));
  return w;
}

static void world_close(world *w) {
  tn_tensor_release(w->x);
  tn_tensor_release(w->y);
  tn_tensor_release(w->z);
  tn_event_destroy(w->e);
  tn_event_destroy(w->f);
  if (w->a) tn_stream_destroy(w->a);
  tn_stream_destroy(w->b);
  tn_runtime_close(w->runtime);
}

/* --- steps --- */

static void add(tn_stream *stream, const tn_tensor *p, const tn_tensor *q, tn_tensor *out) {
  ok(tn_add(stream, p, q, &out));
}

static void copy(tn_stream *stream, const tn_tensor *from, tn_tensor *to) {
  ok(tn_copy(stream, from, &to));
}

/* The signal: what the first stream did comes before what the second will do. */
static void order(tn_stream *first, tn_stream *second, tn_event *event) {
  ok(tn_event_record(event, first));
  ok(tn_stream_wait_event(second, event));
}

static tn_tensor *part(const tn_tensor *t, int64_t begin, int64_t end, int64_t step) {
  tn_tensor *view;
  ok(tn_tensor_slice(t, 0, begin, end, step, &view));
  return view;
}

/* Copies x's first elements to the part of z on the stream. */
static void write_part(world *w, tn_stream *stream, int64_t begin, int64_t end, int64_t step) {
  tn_tensor *to = part(w->z, begin, end, step);
  tn_tensor *from = part(w->x, 0, tn_tensor_elements(to), 1);
  copy(stream, from, to);
  tn_tensor_release(from);
  tn_tensor_release(to);
}

static void read_part(world *w, tn_stream *stream, int64_t begin, int64_t end, int64_t step) {
  tn_tensor *from = part(w->z, begin, end, step), *to = part(w->y, 0, tn_tensor_elements(from), 1);
  copy(stream, from, to);
  tn_tensor_release(from);
  tn_tensor_release(to);
}

static tn_prepared *prepare_add(tn_stream *stream, const tn_tensor *p, const tn_tensor *q,
                                tn_tensor *out) {
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_ADD, .stream = stream};
  call.in = (const tn_tensor *[]){p, q};
  call.out = &out;
  call.num_in = 2;
  call.num_out = 1;
  tn_prepared *made;
  ok(tn_prepare(&call, &made));
  return made;
}

/* Writes a rate on one stream for a step on another. */
static void step_by(world *w, bool ordered) {
  const float rate = 0.5f;
  tn_sgd_step_attrs attrs = TN_SGD_STEP_DEFAULTS;
  tn_tensor *lr = NULL;
  ok(tn_tensor_from_host(w->device, TN_F32, 0, NULL, &rate, &lr));
  ok(tn_device_synchronize(w->device));
  attrs.lr_from = lr;
  add(w->a, lr, lr, lr);
  if (ordered) order(w->a, w->b, w->e);
  ok(tn_sgd_step(w->b, w->x, w->y, w->z, &attrs));
  ok(tn_stream_synchronize(w->a));
  tn_tensor_release(lr);
}

/* --- programs, by name --- */

typedef struct program {
  const char *name;
  void (*run)(world *w);
} program;
#define PROGRAM(name)                                                                              \
  { #name, name }

#endif
