/*
 * A host of its own for one device: the kit drives a backend's slots as the dispatcher would,
 * with no runtime, pool or stream between. What slot is being called, in what situation, stands
 * in memory that the watching process shares, so that a slot that crashes or never returns is
 * reported by its name.
 */
#ifndef TENON_CHECK_DIRECT_H
#define TENON_CHECK_DIRECT_H

#include <stdatomic.h>

#include "tenon/plugin.h"

enum { DIRECT_LANES = 32, DIRECT_FAILURES = 4 };

/* What one thread of the process that checks is at. */
typedef struct direct_lane {
  _Atomic uint64_t began_ns; /* of CLOCK_MONOTONIC; 0: no slot is being called */
  _Atomic bool opens;        /* a device, which takes long where drivers begin */
  char slot[32];             /* "event_wait" */
  char where[160];           /* "two queues, 3rd event" */
} direct_lane;

/* How a check goes. Zeroed and shared with the process that watches. */
typedef struct direct_watch {
  direct_lane lane[DIRECT_LANES];
  _Atomic uint32_t threads;  /* that have taken a lane; the first has lane 0 to itself */
  _Atomic uint32_t last;     /* the lane whose thread called a slot last */
  _Atomic uint64_t calls;    /* of slots, ended */
  _Atomic uint32_t failures; /* all; the first DIRECT_FAILURES are kept */
  char failure[DIRECT_FAILURES][800];
  char note[256]; /* what could not be looked at, and why */
} direct_watch;

/* One device, opened. */
typedef struct direct {
  tn_host host; /* its `impl` is this struct */
  const tn_plugin *plugin;
  tn_backend slots; /* the whole struct: what the plugin's ends before is NULL */
  void *context;    /* of tn_plugin.open */
  void *device;
  tn_device_props props;
  const char *path, *type; /* of the plugin's file; "cuda" */
  uint32_t index;
  char id[48]; /* "cuda:0" */
  uint64_t seed;
  uint64_t limit_ns; /* for what never comes: a slot's return, an event that does not pass */
  direct_watch *watch;
} direct;

/* What to open. */
typedef struct direct_choice {
  const char *path; /* of the plugin's file, absolute */
  const char *type; /* "cuda" */
  uint32_t index;
  uint64_t seed;
  uint64_t limit_ns;
} direct_choice;

/* Loads the plugin and opens the device. On a failure direct_error says why and nothing is open. */
tn_status direct_open(const direct_choice *choice, direct_watch *watch, direct *d);
/* Opens the device once more, as another runtime in this process would; not `d` itself. */
tn_status direct_open_again(const direct *d, direct *other);
void direct_close(direct *d);

/* What the calling thread's last failing slot said, "" if nothing. */
const char *direct_error(void);

/* Says in what situation the calling thread's next slots are called: "two queues, 3rd event". */
void direct_where(direct *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Around what may never return, as each slot below has it by itself: the calling thread is in
 * `slot` until then. Returns the status. */
void direct_enter(direct *d, const char *slot);
void direct_enter_opening(direct *d, const char *slot);
tn_status direct_leave(direct *d, tn_status status);
/* Records a failure; thread-safe. */
void direct_fail(direct *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says what could not be looked at. */
void direct_note(direct *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True for TN_OK, else records that the slot failed, with its message. */
bool direct_ok(direct *d, const char *slot, tn_status status);
/* Whether nothing has failed so far. */
bool direct_is_sound(const direct *d);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t direct_now(void);
void direct_sleep_us(uint64_t us);

/* Numbers from a seed: splitmix64 (Steele, Lea and Flood 2014). */
uint64_t direct_random(uint64_t *state);

/* --- the slots, by their names; pre: the backend has the slot --- */

tn_status direct_alloc(direct *d, uint32_t kind, size_t bytes, void **ptr);
void direct_free(direct *d, uint32_t kind, void *ptr);
tn_status direct_memory_info(direct *d, uint64_t *free_bytes, uint64_t *total_bytes);
tn_status direct_copy(direct *d, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes);

tn_status direct_queue_create(direct *d, void **queue);
void direct_queue_destroy(direct *d, void *queue);
tn_status direct_queue_wait(direct *d, void *queue);
void *direct_queue_native(direct *d, void *queue);
tn_status direct_queue_wrap(direct *d, void *native, void **queue);

tn_status direct_event_create(direct *d, void **event);
void direct_event_destroy(direct *d, void *event);
tn_status direct_event_record(direct *d, void *event, void *queue);
tn_status direct_event_query(direct *d, void *event);
tn_status direct_event_wait(direct *d, void *event);
tn_status direct_queue_wait_event(direct *d, void *queue, void *event);
tn_status direct_event_elapsed(direct *d, void *begin, void *end, uint64_t *ns);

tn_status direct_capture_begin(direct *d, void *queue);
tn_status direct_capture_end(direct *d, void *queue, void **graph);
tn_status direct_graph_launch(direct *d, void *graph, void *queue);
void direct_graph_destroy(direct *d, void *graph);

#endif
