/* Programs that order the work of those with a race, of race_programs.h. */
#ifndef TENON_TESTS_ORDERED_PROGRAMS_H
#define TENON_TESTS_ORDERED_PROGRAMS_H

#include "race_world.h"

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
enum { ORDERED = sizeof ordered / sizeof *ordered };

#endif
