/*
 * The state of the layer `trace` for one runtime, and what its files do:
 *
 *   plugin.c   the layer: calls, notices, opening and closing
 *   tables.c   devices, lanes (a stream's track) and rows (a kernel on a device)
 *   timing.c   how long devices took, by events of their backends
 *   memory.c   what tensors take
 *   slice.c    the events of the trace as JSON
 *   summary.c  the table at the end
 *   writer.c   the file;  place.c  its name;  limit.c  its size;  text.c  text for it
 *
 * Threads: devices, lanes and rows are linked in under trace.lock and stay until the end, so
 * that looking them up locks nothing. Locks are taken in the order device, trace, memory,
 * writer.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "tenon/plugin.h"
#include "writer.h"

enum {
  TRACE_BUCKETS = 256,
  TRACE_THREADS = 1024,
  TRACE_SHARES = 4096,
  SLICE_BYTES = 4096,
  HEAD_BYTES = 512
};

/* A device as the trace shows it: a process whose threads are its streams. */
typedef struct device {
  struct device *next;
  const char *type;
  int32_t index;
  uint32_t pid;
  _Atomic uint32_t num_lanes;
  uint64_t in_use, most_in_use; /* bytes in tensors: trace.memory_lock */
  const tn_backend *backend;    /* with events to time by, and what it takes; or NULL */
  void *handle;
  pthread_mutex_t lock; /* guards what follows, and the samples of its lanes */
  struct anchor *anchor;
  struct sample *spare;
} device;

/* A stream of a device that computes beside the host; of one that computes in the caller, a
 * stream as one thread uses it. */
typedef struct lane {
  struct lane *next;
  const void *stream;
  pid_t thread; /* 0 where the device computes beside the host */
  device *device;
  uint32_t number;
  void *queue;
  struct sample *first, *last; /* calls whose time is not known yet, in order */
  uint32_t pending, unlooked;  /* how many; calls so far, to look for their times now and then */
  uint64_t end_ns;             /* of the last slice */
} lane;

/* A piece of an event that is always the same. */
typedef struct fragment {
  size_t length;
  char bytes[HEAD_BYTES];
} fragment;

/* A kernel on a device, with what its slices say each time and the sums of its calls. */
typedef struct row {
  struct row *next;
  const tn_kernel *kernel;
  const void *handle;
  device *device;
  const tn_operator *op;
  const char *plugin;
  const char *fallback_from; /* the device that lacks a kernel for these calls, or NULL */
  const char *stand_in_for;  /* the call that Tenon makes these copies for, or NULL */
  uint32_t results;          /* outputs that are not updated in place */
  char range[HEAD_BYTES];    /* "add[cpu.add.f32]" */
  fragment head;             /* of a call's slice, up to the thread's number */
  fragment args;             /* the beginning of its arguments */
  fragment kernel_head;      /* of a device's slice, up to the number of bytes */
  _Atomic uint64_t calls, failed, timed, bytes, host_ns, device_ns, longest_ns;
} row;

/* Memory that tensors share, from the first to be made to the last to be released. */
typedef struct share {
  struct share *next;
  const void *memory;
  uint64_t bytes;
} share;

typedef struct trace {
  const tn_host *host;
  pid_t pid;
  unsigned number; /* among the traces of the process, from 1 */
  uint64_t opened_ns;
  writer writer;
  char summary[4096]; /* the file for the table, "-" for standard error, "" for none */
  _Atomic bool finished;
  _Atomic uint64_t next_id; /* ties the slice of a call to that of its kernel: the process,
                               its trace and a count, so that traces can be put together */
  _Atomic uint64_t lost;    /* calls not traced for want of host memory */
  pthread_mutex_t lock;     /* guards additions to what follows */
  _Atomic(device *) devices;
  pthread_mutex_t memory_lock; /* guards shares, spare_shares and what devices have in use */
  share *shares[TRACE_SHARES], *spare_shares;
  _Atomic(lane *) lanes[TRACE_BUCKETS];
  _Atomic(row *) rows[TRACE_BUCKETS];
  pid_t threads[TRACE_THREADS]; /* those that have been named: a hash set */
} trace;

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One more call of which the device's time is known. */
static inline void row_timed(row *r, uint64_t ns) {
  uint64_t longest = atomic_load_explicit(&r->longest_ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&r->timed, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&r->device_ns, ns, memory_order_relaxed);
  while (ns > longest && !atomic_compare_exchange_weak(&r->longest_ns, &longest, ns)) continue;
}

/* tables.c: each finds or makes, NULL if there is no memory to. */
device *device_of(trace *t, const char *type, int32_t index);
row *row_of(trace *t, const tn_layer_call *call);
/* The lane of a stream that has been called on and computes beside the host, else NULL. */
lane *lane_find(const trace *t, const void *stream, const device *d);
/* `thread` is the calling one. */
lane *lane_of(trace *t, const tn_layer_call *call, device *d, pid_t thread);
/* The calling thread's number, after a line for its name. */
pid_t thread_of(trace *t);
void tables_free(trace *t);

/* What a call was and when. */
typedef struct span {
  uint64_t begin_ns, end_ns; /* of the host */
  uint64_t id;               /* ties it to the slice of the device; 0 where that is the same */
  uint64_t bytes;            /* read and written */
  pid_t thread;
} span;

/* timing.c: begins to time a call on a lane without a thread; NULL where that cannot be. */
struct sample *timing_begin(trace *t, lane *l);
/* The call is on its way; its slice follows when the device has got there. */
void timing_end(trace *t, lane *l, struct sample *s, row *r, const span *call);
/* The call failed. */
void timing_abandon(trace *t, lane *l, struct sample *s);
/* The host has waited for the stream: writes the slices of calls that are done. */
void timing_waited(trace *t, lane *l);
/* The same for all calls of the lane, waiting for them. */
void timing_finish(trace *t, lane *l);
/* Gives the events back. pre: the lanes are finished. */
void timing_close(trace *t, device *d);

/* slice.c */
void slice_process(trace *t, uint32_t pid, const char *name, uint32_t order);
void slice_thread(trace *t, uint32_t pid, uint32_t thread, const char *name);
void slice_row(const trace *t, row *r);
/* With the kernel's slice where that is the same. */
void slice_call(trace *t, const row *r, const lane *l, const tn_layer_call *call, const span *s,
                tn_status status);
/* Where it is not. */
void slice_kernel(trace *t, const row *r, const lane *l, const span *s, uint64_t begin_ns,
                  uint64_t ns);

/* `what` the host did with the device from the time that the notice names until now. */
void slice_notice(trace *t, const device *d, const tn_layer_event *event, const char *category,
                  const char *what);
/* Bytes in tensors of the device from now on. */
void slice_memory(trace *t, const device *d, uint64_t bytes);

/* memory.c */
void memory_made(trace *t, const tn_layer_event *event);
void memory_released(trace *t, const tn_layer_event *event);
void memory_free(trace *t);

/* summary.c */
void summary_print(const trace *t);

#endif
