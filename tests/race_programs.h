/* Programs with one race planted in each. Those that order the same work: ordered_programs.h. */
#ifndef TENON_TESTS_RACE_PROGRAMS_H
#define TENON_TESTS_RACE_PROGRAMS_H

#include "race_world.h"

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

static void rate_of_another_stream(world *w) { step_by(w, false); }

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
enum { RACY = sizeof racy / sizeof *racy };

#endif
