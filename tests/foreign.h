/*
 * Shared by the tests of streams around handles of the vendor's. The template of backends stands
 * for a vendor: its native handle is a queue that works by itself.
 */
#ifndef TENON_TESTS_FOREIGN_H
#define TENON_TESTS_FOREIGN_H

#include <time.h>

#include "tests/every_device.h"

static tn_runtime *rt;
static tn_device *dev;

static inline tn_runtime *open_template(const char *device) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = device,
                                .plugin_path = TEMPLATE_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  return open_runtime(&options);
}
static inline void setup(void) { rt = open_template("sim"), dev = tn_runtime_device(rt); }
static inline void teardown(void) { tn_runtime_close(rt); }

static inline tn_stream *new_stream(void) {
  tn_stream *stream = NULL;
  ok(tn_stream_create(dev, &stream));
  return stream;
}

/* Sanitizers make the chip ten to thirty times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SIDE = 64 };
#else
enum { SIDE = 160 };
#endif

/* Work that takes the chip a while; every element of the result is SIDE. */
static inline tn_tensor *busy(tn_stream *stream) {
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_ones(dev, stream, TN_F32, 2, SHAPE(SIDE, SIDE), &x));
  ok(tn_matmul(stream, x, x, NULL, NULL, &y));
  tn_tensor_release(x);
  return y;
}

/* Until a machine that does other work as well shows what must be possible, and of what must not.
 */
enum { CHANCES = 300, TRIES = 20 };

static inline tn_event *mark(tn_stream *stream) {
  tn_event *event = NULL;
  ok(tn_event_create(dev, &event));
  ok(tn_event_record(event, stream));
  return event;
}

static inline bool has_passed(tn_event *event) {
  tn_status status = tn_event_query(event);
  ck_assert(status == TN_OK || status == TN_ERR_NOT_READY);
  return status == TN_OK;
}

/* Whether work put into the stream now is done before the event passes: never, if it is ordered
 * behind that, however busy the machine is. Destroys the event. */
static inline bool overtakes(tn_stream *stream, tn_event *before) {
  tn_event *behind = mark(stream);
  while (!has_passed(behind)) nanosleep(&(struct timespec){0, 20000}, NULL);
  bool first = !has_passed(before);
  tn_event_destroy(before), tn_event_destroy(behind);
  return first;
}

static inline void expect_sums(const tn_tensor *t, tn_stream *stream) {
  static float got[SIDE * SIDE];
  ok(tn_tensor_read(stream, t, got, sizeof got));
  ok(tn_stream_synchronize(stream));
  for (int i = 0; i < SIDE * SIDE; ++i) ck_assert_msg(got[i] == SIDE, "%d is %g", i, got[i]);
}

#endif
