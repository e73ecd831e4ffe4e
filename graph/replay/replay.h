/*
 * Runs as launches of device graphs. A device graph is what a backend recorded of an instance's
 * calls; it holds the addresses that they had. So an instance keeps a few, each for one set of
 * addresses of the tensors that runs bring, and a run at none of these goes call by call.
 */
#ifndef TENON_GRAPH_REPLAY_H
#define TENON_GRAPH_REPLAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "graph/objects.h"

enum {
  DEVICE_GRAPHS = 4,       /* kept by an instance, the one launched least lately goes */
  FIXED_BYTES = 64 * 1024, /* of tensors that are copied to fixed places, the most */
  STRANGERS = 8,           /* runs at unknown addresses before they are */
};

struct program_run;
struct instance;

/* A tensor that runs bring and calls use. */
typedef struct replay_slot {
  bool is_output;
  uint32_t place;
  uint64_t bytes;
} replay_slot;

/* Of a program. */
typedef struct replay {
  _Atomic uint32_t state; /* tn_capture_state */
  char why[512];          /* of TN_CAPTURE_OFF and _FAILED, which say no more afterwards */
  replay_slot *slots;
  uint32_t num_slots;
  bool copies_outputs;   /* some output is no buffer of its own */
  pthread_mutex_t mutex; /* guards who is first to fail */
  _Atomic uint64_t recorded, launched;
} replay;

typedef struct device_graph {
  void *graph;     /* the backend's, NULL: none */
  const void **at; /* by slot */
  uint64_t used;
} device_graph;

/* Addresses that came and are not recorded. */
typedef struct sighting {
  const void **at;
  uint32_t times;
} sighting;

/* Of an instance, whose runs come one at a time. */
typedef struct replayer {
  const void **now, **before; /* by slot: of this run, and of the last that met no device graph */
  const void **fixed;         /* as `now`, with fixed places where there are any */
  bool *changed;              /* by slot, from stranger to stranger */
  device_graph graphs[DEVICE_GRAPHS];
  sighting seen[DEVICE_GRAPHS];
  uint32_t next_seen, strangers, dropped;
  uint64_t clock;
  tn_tensor *memory; /* of the fixed places */
  tn_tensor **fixes; /* by slot; NULL where the run's own tensor is used */
} replayer;

/* recordable.c: whether device and options allow runs to be recorded; `flags` are the options'. If
 * not, the program keeps the reason. */
bool replay_allowed(tn_program *program, uint32_t flags);
/* recordable.c: whether the nodes can be, where replay_allowed says that runs may. pre: the first
 * instance is made. TN_ERR_OUT_OF_MEMORY. */
tn_status replay_init(tn_program *program, const struct instance *first);

/* replay.c: replays the run, whose tensors are placed and not shown. False: it is to go call by
 * call, and nothing has been done. */
bool replay_run(const struct program_run *r, tn_status *status);
void replayer_free(const tn_program *program, struct instance *i);
/* pre: nobody runs the program, and its instances hold the device. */
void replay_free(tn_program *program);

/* recorder.c: records the calls on what their headers show. TN_ERR_DEVICE_LOST; all else is a
 * reason not to try again. */
tn_status recorder_record(const struct program_run *r, void **graph);

/* fixed.c: gives the small tensors whose addresses change fixed places, if that is of use. */
void fixed_take(const struct program_run *r, replayer *a);
/* Shows the calls these in place of the run's tensors. */
void fixed_show(const struct program_run *r, const replayer *a);
/* Copies of what the run brings, before the launch, or of what it returns, after. */
tn_status fixed_copy(const struct program_run *r, const replayer *a, bool outputs);
void fixed_free(const tn_program *program, replayer *a);

/* The run's tensor in a slot. */
const tn_tensor *slot_tensor(const struct program_run *r, const replay_slot *s);

#endif
