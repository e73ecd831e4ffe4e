/*
 * Plans: oneDNN primitives made for one shape, with the reorders between the layouts that
 * tensors have and those that the primitive wants. Making one takes milliseconds and using
 * one microseconds, so plans are kept, the least recently used one going first. A plan may
 * serve several threads at once; what a thread needs of its own is a runner.
 */
#ifndef TENON_ONEDNN_PLAN_H
#define TENON_ONEDNN_PLAN_H

#include <stdatomic.h>

#include "compat.h"
#include "tenon/plugin.h"

/* Tensors of a primitive, the last one being its output. */
enum { SLOT_A, SLOT_B, SLOT_BIAS, SLOT_Y, SLOTS };

/* What a plan is for: all that its primitive depends on. Zeroed before it is filled. */
typedef struct plan_key {
  int64_t kind, type, numbers[36];
} plan_key;

typedef struct step {
  dnnl_primitive_desc_t desc;
  dnnl_primitive_t primitive;
  size_t scratch;    /* bytes */
  bool leaves_stack; /* signals must wait while it runs; see plans.c */
} step;

typedef struct slot {
  bool present;
  int arg;        /* DNNL_ARG_* of the main step */
  layout user;    /* as the tensor, or the piece of it, lies in memory */
  layout_ref own; /* as the primitive wants it; the main step's */
  size_t bytes;   /* of `own`, a multiple of 64 */
  step reorder;   /* between the two; primitive NULL where they are the same */
} slot;

/* oneDNN's objects for one use of a plan at a time: a stream, and memory without an address. */
typedef struct handles handles;

/* What a plan keeps of them for its next uses: as many as threads that take part, up to here. */
enum { SPARE_HANDLES = 8 };

typedef struct plan {
  plan_key key;
  uint64_t hash;
  bool usable; /* false: oneDNN has nothing fast for it */
  step main;
  slot slots[SLOTS];
  bool zero_points[2]; /* the call passes zero points of a and b */
  _Atomic(handles *) spare[SPARE_HANDLES];
  uint32_t users; /* guarded by the plans' mutex, as are the links */
  struct plan *chain, *newer, *older;
} plan;

/* A runtime's plans: the plugin's context. */
typedef struct plans plans;

tn_status plans_open(const tn_host *host, void **context);
void plans_close(void *context);
dnnl_engine_t plans_engine(const plans *p);
/* TENON_ONEDNN=all: every call that oneDNN can do, for measuring and checking. */
bool plans_take_all(const tn_kernel_args *args);

/* Fills a plan whose key is set; its steps and slots are freed by the caller whatever it
 * returns. A status but dnnl_success makes the plan unusable. */
typedef dnnl_status_t (*plan_build)(dnnl_engine_t engine, plan *p, const void *ctx);

/* The plan for a key, made by `build` if it is new; NULL without a message where oneDNN has
 * nothing fast for it or there is no memory. To be given back. */
plan *plan_take(const tn_kernel_args *args, const plan_key *key, plan_build build, const void *ctx);
void plan_give_back(const tn_kernel_args *args, plan *p);

/* For builders. The main step is made from its descriptor; the slot's own layout follows,
 * and a reorder where it is not the tensor's or `always`. The type is that of the inputs; where
 * signals would have to wait for too many multiplications the plan is unusable. */
dnnl_status_t plan_finish_main(plan *p, dnnl_primitive_desc_t desc, dnnl_data_type_t type,
                               double multiplications);
dnnl_status_t plan_finish_slot(dnnl_engine_t engine, plan *p, int slot, dnnl_query_t query, int arg,
                               bool always);
/* Scratch memory comes from us: that is what lets threads share a primitive. */
dnnl_status_t plan_attr(dnnl_primitive_attr_t *attr);

/* runner.c: frees a plan's spare ones. */
void handles_free_spare(const tn_host *host, plan *p);

/* One thread's use of a plan: memory objects, scratch memory, and one thread of OpenMP. */
typedef struct runner {
  const tn_host *host;
  plan *plan;
  handles *at;
  int32_t *zeros; /* zero points of a and b */
  unsigned lent;
  char *room;
  int threads_before;
} runner;

/* `lent`, bits by slot: reordered, these lie where runner_use says and nowhere else. On failure
 * nothing is left open. */
tn_status runner_open(runner *r, const tn_kernel_args *args, plan *p, unsigned lent);
void runner_close(runner *r);

/* The tensor, or piece, of an input: reordered to the primitive's layout if need be. */
tn_status runner_load(runner *r, int slot, const void *data);
/* The same for one that lies in the primitive's layout already, or an output that shall. */
tn_status runner_use(runner *r, int slot, const void *data);
/* Reorders an input into `to`, in the primitive's layout, and nothing else. */
tn_status runner_convert(runner *r, int slot, const void *data, void *to);
/* Runs the primitive; its output goes to `data`, or to where runner_use said where NULL. */
tn_status runner_run(runner *r, void *data);
/* Reorders an output from `from`, in the primitive's layout, to `data`. */
tn_status runner_store(runner *r, const void *from, void *data);

#endif
