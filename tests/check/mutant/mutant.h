/*
 * A fixture: device type "mutant", a sound asynchronous backend in software into which one fault
 * can be planted (faults.def), so that a test sees whether `tenon check` finds it.
 *
 *   TENON_MUTANT=name        the fault; an unknown name makes open fail
 *   TENON_MUTANT_OPAQUE=1    memory handles are no addresses (TN_BACKEND_OPAQUE_MEMORY)
 *   TENON_MUTANT_DELAY_US=n  every queued action first sleeps so long, so that a wait that is
 *                            missing shows
 *   TENON_MUTANT_PAGEABLE=1  copies take pinned memory for pageable, which is sound and slow
 *   TENON_MUTANT_UNPINNED=1  there is no pinned memory
 *   TENON_MUTANT_SILENT=1    no message where there is no memory left, which is allowed
 *   TENON_MUTANT_POOL_MIB=n  memory_info counts in pieces of so much, the first from the beginning
 *   TENON_MUTANT_GIB=n       memory, of which only what is used is there
 *
 * The device has 256 MiB of memory of its own, a thread for every queue that does what was put
 * there in order, events, and pinned memory. Kernels find the memory behind a handle with
 * mutant_reach when they are launched and compute when the queue gets there.
 */
#ifndef TENON_TESTS_MUTANT_H
#define TENON_TESTS_MUTANT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tenon/plugin.h"

#define MUTANT_TYPE "mutant"
enum { MUTANT_ALIGNMENT = 256 };

typedef enum mutant_fault {
  FAULT_NONE,
#define FAULT(name, what) FAULT_##name,
#include "faults.def"
#undef FAULT
} mutant_fault;

/* False when no fault has the name; NULL and "" are none. */
bool mutant_fault_find(const char *name, mutant_fault *fault);

/* Memory in use, in order of address; the very handle where memory is opaque. */
typedef struct mutant_block {
  struct mutant_block *next;
  uint64_t offset, bytes;
  uint64_t skew; /* of the address that is told, by a fault */
} mutant_block;

typedef struct mutant_pinned {
  struct mutant_pinned *next;
  char *ptr;
  size_t bytes;
} mutant_pinned;

/* A point in a queue, shared by events and by queues that wait for it. */
typedef struct mutant_point mutant_point;
typedef struct mutant_queue mutant_queue;
typedef struct mutant_graph mutant_graph;

typedef struct mutant_device {
  const tn_host *host;
  uint32_t index;
  mutant_fault fault;
  bool opaque, pageable, unpinned;
  uint64_t delay_ns;
  char *memory;         /* the host's view of it, which nobody outside is told */
  uint64_t bytes;       /* of it */
  pthread_mutex_t lock; /* of what follows */
  mutant_block *blocks;
  uint64_t used, allocations;
  bool broken; /* by a fault */
  mutant_pinned *pinned;
  /* for faults of queues and events */
  mutant_queue *newest;
  _Atomic(mutant_queue *) noted;
  _Atomic uint64_t queues, events, dropped, natives;
  char stage[1 << 16];
} mutant_device;

/* --- memory.c --- */

uint64_t mutant_memory_bytes(void);
tn_status mutant_memory_open(mutant_device *d);
void mutant_memory_close(mutant_device *d);
tn_status mutant_alloc(void *device, uint32_t kind, size_t bytes, void **ptr);
void mutant_free(void *device, uint32_t kind, void *ptr);
tn_status mutant_memory_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes);
/* What lies `offset` bytes behind a handle; NULL where that is not the device's memory. */
char *mutant_reach(mutant_device *d, const void *handle, uint64_t offset);
bool mutant_is_pinned(mutant_device *d, const void *ptr);
/* Whether both are of one allocation. */
bool mutant_is_one_block(mutant_device *d, const char *a, const char *b);

/* --- leaks.c: the slots that leave something behind, and do not where no fault says so --- */

tn_status mutant_leaky_alloc(void *device, uint32_t kind, size_t bytes, void **ptr);
tn_status mutant_leaky_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes);
tn_status mutant_leaky_copy(void *device, void *queue, uint32_t direction, void *dst,
                            uint64_t dst_offset, const void *src, uint64_t src_offset,
                            size_t bytes);
tn_status mutant_leaky_queue_create(void *device, void **queue);
tn_status mutant_leaky_event_create(void *device, void **event);
tn_status mutant_leaky_event_record(void *device, void *event, void *queue);
void mutant_leaky_close(mutant_device *d);

/* --- copy.c --- */

tn_status mutant_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes);

/* --- queue.c --- */

/* Work for a queue: what it shall do, with parameters that are taken along, after `wait` has
 * passed; `pass` passes then. Points are shared, not taken over. */
typedef struct mutant_work {
  void (*run)(const void *params);
  const void *params;
  size_t params_bytes;
  mutant_point *wait, *pass;
} mutant_work;

tn_status mutant_put(mutant_queue *q, mutant_work work);
/* The same, and waits until this very work is done. */
tn_status mutant_put_and_wait(mutant_queue *q, mutant_work work);

/* For a fault: the wait is put behind the next piece of work. */
void mutant_put_late(mutant_queue *q, mutant_point *wait);
/* Queues count from 1. */
uint64_t mutant_queue_number(const mutant_queue *q);

tn_status mutant_queue_create(void *device, void **queue);
void mutant_queue_destroy(void *device, void *queue);
tn_status mutant_queue_wait(void *device, void *queue);
void *mutant_queue_native(void *device, void *queue);
/* The handle that queue_native gives is the queue, which has a holder more then. */
tn_status mutant_queue_wrap(void *device, void *native, void **queue);

bool mutant_queue_records(mutant_queue *q);
/* Begins to record into a graph, or ends; the graph of before. */
mutant_graph *mutant_queue_record(mutant_queue *q, mutant_graph *graph);

/* --- graph.c --- */

tn_status mutant_graph_add(mutant_graph *graph, const mutant_work *work);
tn_status mutant_capture_begin(void *device, void *queue);
tn_status mutant_capture_end(void *device, void *queue, void **graph);
tn_status mutant_graph_launch(void *device, void *graph, void *queue);
void mutant_graph_destroy(void *device, void *graph);

/* --- point.c --- */

mutant_point *mutant_point_make(void); /* NULL: no host memory */
mutant_point *mutant_point_share(mutant_point *p);
void mutant_point_drop(mutant_point *p);
void mutant_point_pass(mutant_point *p);
bool mutant_point_passed(mutant_point *p, bool wait, uint64_t *time_ns);

/* --- event.c --- */

tn_status mutant_event_create(void *device, void **event);
void mutant_event_destroy(void *device, void *event);
tn_status mutant_event_record(void *device, void *event, void *queue);
tn_status mutant_event_query(void *device, void *event);
tn_status mutant_event_wait(void *device, void *event);
tn_status mutant_queue_wait_event(void *device, void *queue, void *event);
tn_status mutant_event_elapsed(void *device, void *begin, void *end, uint64_t *ns);

/* --- kernels.c --- */

enum { MUTANT_KERNELS = 6 };
extern const tn_kernel mutant_kernels[MUTANT_KERNELS];

#endif
