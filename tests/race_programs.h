/*
 * Programs with one race planted in each, and programs that order the same work. Each works on
 * a world of two streams; those of the simulated device have no order but what the program gives
 * them.
 */
#ifndef TENON_TESTS_RACE_PROGRAMS_H
#define TENON_TESTS_RACE_PROGRAMS_H

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

/* --- programs with a race --- */

static void write_then_read(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->z, w->x, w->y);
}
static void read_then_write(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->y, w->y, w->x);
}
static void write_then_write(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->y, w->y, w->z);
}
static void default_stream_is_a_stream(world *w) {
  add(NULL, w->x, w->x, w->z);
  add(w->b, w->z, w->x, w->y);
}
static void host_writes_what_is_read(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_tensor_write(w->b, w->x, w->values, sizeof w->values));
}
static void host_write_then_read(world *w) {
  ok(tn_tensor_write(w->a, w->x, w->values, sizeof w->values));
  add(w->b, w->x, w->y, w->z);
}
static void read_to_pinned_is_pending(world *w) {
  void *pinned;
  ok(tn_pinned_alloc(w->device, 32, &pinned));
  ok(tn_tensor_read(w->a, w->x, pinned, 32));
  add(w->b, w->y, w->y, w->x);
  ok(tn_device_synchronize(w->device));
  tn_pinned_free(w->device, pinned);
}
static void event_too_early(world *w) {
  ok(tn_event_record(w->e, w->a));
  add(w->a, w->x, w->x, w->z);
  ok(tn_stream_wait_event(w->b, w->e));
  add(w->b, w->z, w->x, w->y);
}
static void event_recorded_again_elsewhere(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_event_record(w->e, w->a));
  ok(tn_event_record(w->e, NULL));
  ok(tn_stream_wait_event(w->b, w->e));
  add(w->b, w->z, w->x, w->y);
}
static void wrong_stream_waits(world *w) {
  add(w->a, w->x, w->x, w->z);
  order(w->a, NULL, w->e);
  add(w->b, w->z, w->x, w->y);
}
static void host_waits_for_the_wrong_stream(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_stream_synchronize(w->b));
  add(w->b, w->z, w->x, w->y);
}
static void event_waited_for_before_it_is_recorded(world *w) {
  ok(tn_stream_wait_event(w->b, w->e));
  add(w->a, w->x, w->x, w->z);
  ok(tn_event_record(w->e, w->a));
  add(w->b, w->z, w->x, w->y);
}
static void host_waits_too_early(world *w) {
  ok(tn_event_record(w->e, w->a));
  ok(tn_event_synchronize(w->e));
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->z, w->x, w->y);
}
static void through_a_view(world *w) {
  tn_tensor *view;
  ok(tn_tensor_reshape(w->z, 2, SHAPE(2, 4), &view));
  add(w->a, w->x, w->x, w->z);
  tn_tensor *made = NULL;
  ok(tn_add(w->b, view, view, &made));
  tn_tensor_release(made);
  tn_tensor_release(view);
}
static void parts_that_meet(world *w) {
  write_part(w, w->a, 0, 4, 1);
  write_part(w, w->b, 3, 7, 1);
}
static void every_other_meets_a_run(world *w) {
  write_part(w, w->a, 0, 8, 2);
  read_part(w, w->b, 4, 6, 1);
}
static void strides_that_meet_once(world *w) {
  write_part(w, w->a, 0, 8, 3); /* 0 3 6 */
  read_part(w, w->b, 1, 8, 5);  /* 1 6 */
}
static void prepared_calls_too(world *w) {
  tn_prepared *p = prepare_add(w->a, w->x, w->x, w->z);
  ok(tn_run(p));
  add(w->b, w->z, w->x, w->y);
  tn_prepared_release(p);
}
static void fresh_from_the_host(world *w) {
  tn_tensor *t = counting(w->device, 8); /* written on the default stream */
  add(w->b, t, w->x, w->y);
  tn_tensor_release(t);
}
static void chain_with_a_missing_link(world *w) {
  add(w->a, w->x, w->x, w->z);
  order(w->a, NULL, w->e);
  ok(tn_event_record(w->f, w->a)); /* of a, which b does not wait for */
  ok(tn_event_record(w->f, w->b));
  ok(tn_stream_wait_event(w->b, w->f));
  add(w->b, w->z, w->x, w->y);
}
static void in_place(world *w) {
  add(w->a, w->x, w->x, w->x);
  add(w->b, w->x, w->y, w->z);
}
static void one_of_two_readers_is_not_waited_for(world *w) {
  tn_tensor *made = NULL, *other = NULL;
  ok(tn_add(w->a, w->x, w->x, &made));
  ok(tn_add(w->b, w->x, w->x, &other));
  order(w->a, NULL, w->e);
  add(NULL, w->y, w->y, w->x);
  ok(tn_device_synchronize(w->device));
  tn_tensor_release(made);
  tn_tensor_release(other);
}
static void memory_of_a_released_tensor(world *w) {
  tn_tensor *t = NULL, *again;
  ok(tn_add(NULL, w->x, w->x, &t));
  const void *was = tn_tensor_data(t);
  tn_tensor_release(t);
  again = shaped(w->device, TN_F32, 1, SHAPE(8)); /* for work on the default stream */
  ck_assert_ptr_eq(tn_tensor_data(again), was);
  add(w->b, w->y, w->y, again);
  tn_tensor_release(again);
}
static void read_back_on_its_home_stream(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_tensor_to_host(w->z, w->values, sizeof w->values));
}
static void kernels_with_workspace(world *w) {
  tn_tensor *z = w->z, *y = w->y;
  ok(tn_mul(w->a, w->x, w->x, &z));
  ok(tn_mul(w->b, w->z, w->x, &y));
}
static void broadcast_operand(world *w) {
  tn_tensor *one = part(w->z, 5, 6, 1), *y = w->y;
  add(w->a, w->x, w->x, w->z);
  ok(tn_add(w->b, w->x, one, &y));
  tn_tensor_release(one);
}
static void falls_back_without_waiting(world *w) {
  tn_tensor *made = NULL;
  add(w->a, w->x, w->x, w->z);
  ok(tn_neg(w->b, w->z, &made)); /* runs on a host device, and waits for b alone */
  tn_tensor_release(made);
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
static void rate_of_another_stream(world *w) { step_by(w, false); }

/* --- the same, ordered --- */

static void rate_that_is_waited_for(world *w) { step_by(w, true); }

static void same_stream(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->a, w->z, w->x, w->y);
  add(w->a, w->y, w->y, w->x);
}
static void event_orders(world *w) {
  add(w->a, w->x, w->x, w->z);
  order(w->a, w->b, w->e);
  add(w->b, w->z, w->x, w->y);
}
static void host_waits_for_the_stream(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_stream_synchronize(w->a));
  add(w->b, w->z, w->x, w->y);
}
static void host_waits_for_the_device(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_device_synchronize(w->device));
  add(w->b, w->y, w->y, w->z);
}
static void host_waits_for_the_event(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_event_record(w->e, w->a));
  ok(tn_event_synchronize(w->e));
  add(w->b, w->z, w->x, w->y);
}
static void host_sees_the_event_passed(world *w) {
  add(w->a, w->x, w->x, w->z);
  ok(tn_event_record(w->e, w->a));
  ok(tn_event_query(w->e));
  add(w->b, w->z, w->x, w->y);
}
static void two_readers(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->x, w->x, w->y);
}
static void parts_side_by_side(world *w) {
  write_part(w, w->a, 0, 4, 1);
  write_part(w, w->b, 4, 8, 1);
}
static void even_and_odd(world *w) {
  write_part(w, w->a, 0, 8, 2);
  write_part(w, w->b, 1, 8, 2);
}
static void strides_that_never_meet(world *w) {
  write_part(w, w->a, 0, 8, 4); /* 0 4 */
  read_part(w, w->b, 1, 8, 2);  /* 1 3 5 7 */
}
static void columns_of_a_matrix(world *w) {
  tn_tensor *m, *left, *right;
  tn_tensor *from = shaped(w->device, TN_F32, 2, SHAPE(2, 2));
  ok(tn_tensor_reshape(w->z, 2, SHAPE(2, 4), &m));
  ok(tn_tensor_slice(m, 1, 0, 2, 1, &left));
  ok(tn_tensor_slice(m, 1, 2, 4, 1, &right));
  copy(w->a, from, left);
  copy(w->b, from, right);
  tn_tensor_release(from);
  tn_tensor_release(left);
  tn_tensor_release(right);
  tn_tensor_release(m);
}
static void through_a_third_stream(world *w) {
  add(w->a, w->x, w->x, w->z);
  order(w->a, NULL, w->e);
  order(NULL, w->b, w->f);
  add(w->b, w->z, w->x, w->y);
}
static void event_recorded_again_later(world *w) {
  ok(tn_event_record(w->e, w->a));
  add(w->a, w->x, w->x, w->z);
  order(w->a, w->b, w->e);
  add(w->b, w->z, w->x, w->y);
}
static void stream_destroyed(world *w) {
  add(w->a, w->x, w->x, w->z);
  tn_stream_destroy(w->a);
  w->a = NULL;
  add(w->b, w->z, w->x, w->y);
}
static void read_to_pageable_memory_waits(world *w) {
  ok(tn_tensor_read(w->a, w->x, w->values, sizeof w->values));
  add(w->b, w->y, w->y, w->x);
}
static void memory_reused_on_its_stream(world *w) {
  for (int i = 0; i < 20; ++i) {
    tn_tensor *t = NULL;
    ok(tn_add(i % 2 ? w->a : w->b, w->x, w->x, &t));
    tn_tensor_release(t);
  }
}
static void memory_used_by_others_waits(world *w) {
  for (int i = 0; i < 20; ++i) {
    tn_tensor *t = NULL, *u = NULL;
    ok(tn_add(w->a, w->x, w->x, &t));
    order(w->a, w->b, w->e);
    ok(tn_add(w->b, t, t, &u));
    tn_tensor_release(t);
    tn_tensor_release(u);
  }
}
static void ping_pong(world *w) {
  for (int i = 0; i < 10; ++i) {
    add(w->a, w->x, w->z, w->z);
    order(w->a, w->b, w->e);
    add(w->b, w->z, w->z, w->z);
    order(w->b, w->a, w->f);
  }
}
static void fallback_on_one_stream(world *w) {
  tn_tensor *made = NULL, *sum = NULL;
  add(w->a, w->x, w->x, w->z);
  ok(tn_neg(w->a, w->z, &made));
  order(w->a, w->b, w->e);
  ok(tn_add(w->b, made, made, &sum));
  tn_tensor_release(made);
  tn_tensor_release(sum);
}
static void fresh_from_the_host_and_waited_for(world *w) {
  tn_tensor *t = counting(w->device, 8);
  order(NULL, w->b, w->e);
  add(w->b, t, w->x, w->y);
  tn_tensor_release(t);
}
static void prepared_again_and_again(world *w) {
  tn_prepared *p = prepare_add(w->a, w->z, w->x, w->z);
  for (int i = 0; i < 10; ++i) ok(tn_run(p));
  order(w->a, w->b, w->e);
  add(w->b, w->z, w->z, w->y);
  tn_prepared_release(p);
}
static void both_readers_are_waited_for(world *w) {
  add(w->a, w->x, w->x, w->z);
  add(w->b, w->x, w->x, w->y);
  order(w->a, NULL, w->e);
  order(w->b, NULL, w->f);
  ok(tn_tensor_write(NULL, w->x, w->values, sizeof w->values));
}
static void copied_to_the_host_device(world *w) {
  tn_device *host;
  tn_tensor *t, *back;
  ok(tn_device_find(w->runtime, "reference:0", &host));
  ok(tn_tensor_to_device(w->x, host, &t));
  ok(tn_tensor_to_device(t, w->device, &back));
  ok(tn_device_synchronize(w->device));
  add(w->b, back, w->x, w->y);
  tn_tensor_release(t);
  tn_tensor_release(back);
}
static void cache_emptied(world *w) {
  for (int i = 0; i < 3; ++i) {
    tn_tensor *t = NULL;
    ok(tn_add(NULL, w->x, w->x, &t));
    tn_tensor_release(t);
    ok(tn_device_trim(w->device));
    t = shaped(w->device, TN_F32, 1, SHAPE(300000));
    order(NULL, w->b, w->e);
    ok(tn_add(w->b, t, t, &t));
    tn_tensor_release(t);
  }
}
static void many_streams(world *w) {
  tn_stream *s[100];
  for (int i = 0; i < 100; ++i) {
    tn_tensor *t = NULL;
    ok(tn_stream_create(w->device, &s[i]));
    ok(tn_add(s[i], w->x, w->x, &t));
    tn_tensor_release(t);
  }
  for (int i = 0; i < 100; ++i) tn_stream_destroy(s[i]);
}

typedef struct program {
  const char *name;
  void (*run)(world *w);
} program;
#define PROGRAM(name)                                                                              \
  { #name, name }

static const program racy[] = {
    PROGRAM(write_then_read),
    PROGRAM(read_then_write),
    PROGRAM(write_then_write),
    PROGRAM(default_stream_is_a_stream),
    PROGRAM(host_writes_what_is_read),
    PROGRAM(host_write_then_read),
    PROGRAM(read_to_pinned_is_pending),
    PROGRAM(event_too_early),
    PROGRAM(event_recorded_again_elsewhere),
    PROGRAM(wrong_stream_waits),
    PROGRAM(host_waits_for_the_wrong_stream),
    PROGRAM(event_waited_for_before_it_is_recorded),
    PROGRAM(host_waits_too_early),
    PROGRAM(through_a_view),
    PROGRAM(parts_that_meet),
    PROGRAM(every_other_meets_a_run),
    PROGRAM(strides_that_meet_once),
    PROGRAM(prepared_calls_too),
    PROGRAM(fresh_from_the_host),
    PROGRAM(chain_with_a_missing_link),
    PROGRAM(in_place),
    PROGRAM(one_of_two_readers_is_not_waited_for),
    PROGRAM(memory_of_a_released_tensor),
    PROGRAM(read_back_on_its_home_stream),
    PROGRAM(kernels_with_workspace),
    PROGRAM(broadcast_operand),
    PROGRAM(falls_back_without_waiting),
    PROGRAM(rate_of_another_stream),
};
static const program ordered[] = {
    PROGRAM(same_stream),
    PROGRAM(rate_that_is_waited_for),
    PROGRAM(event_orders),
    PROGRAM(host_waits_for_the_stream),
    PROGRAM(host_waits_for_the_device),
    PROGRAM(host_waits_for_the_event),
    PROGRAM(host_sees_the_event_passed),
    PROGRAM(two_readers),
    PROGRAM(parts_side_by_side),
    PROGRAM(even_and_odd),
    PROGRAM(strides_that_never_meet),
    PROGRAM(columns_of_a_matrix),
    PROGRAM(through_a_third_stream),
    PROGRAM(event_recorded_again_later),
    PROGRAM(stream_destroyed),
    PROGRAM(read_to_pageable_memory_waits),
    PROGRAM(memory_reused_on_its_stream),
    PROGRAM(memory_used_by_others_waits),
    PROGRAM(ping_pong),
    PROGRAM(fallback_on_one_stream),
    PROGRAM(fresh_from_the_host_and_waited_for),
    PROGRAM(prepared_again_and_again),
    PROGRAM(both_readers_are_waited_for),
    PROGRAM(copied_to_the_host_device),
    PROGRAM(cache_emptied),
    PROGRAM(many_streams),
};
enum { RACY = sizeof racy / sizeof *racy, ORDERED = sizeof ordered / sizeof *ordered };

#endif
