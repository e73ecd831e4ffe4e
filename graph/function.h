/* A function as a struct: what its inputs must be, and its programs by what they were built for. */
#ifndef TENON_GRAPH_FUNCTION_H
#define TENON_GRAPH_FUNCTION_H

#include "graph/program.h"

/* A program for one combination of inputs, or the building of it. */
typedef struct function_program {
  struct function_program *next; /* on the list of its hash */
  tn_program *program;           /* NULL until it is built, and where that failed */
  uint64_t hash, last_used;
  uint32_t users;   /* threads that build it, wait for it or run it: while there are any it stays */
  bool done;        /* building has ended */
  tn_status status; /* of building */
  char message[512]; /* why that failed, for those that waited */
  size_t num_in;
  int64_t key[]; /* of each input its type and rank, then its shape */
} function_program;

struct tn_function {
  host_memory memory;
  tn_runtime *runtime; /* held weakly */
  tn_device *device;
  char *name;
  tn_function_build build;
  void *context;
  tn_function_input *inputs; /* NULL: anything goes; names and arrays are the function's */
  size_t num_inputs;
  tn_compile_options compile; /* struct_size 0: none were given */
  uint32_t max_programs;
  pthread_mutex_t mutex;    /* guards all below; nothing of the host's runs under it */
  pthread_cond_t done;      /* some building has ended */
  function_program **lists; /* by hash */
  size_t num_lists;         /* a power of two */
  uint32_t num_programs;    /* that are built */
  uint64_t clock;           /* runs begun */
  uint64_t built, failed, dropped;
  bool draws;             /* some program does */
  uint64_t first_draw;    /* where the first of those begins */
  _Atomic uint64_t drawn; /* by all runs */
};

/* --- function_inputs.c: what inputs must be --- */

/* A copy of the declarations, checked. What it made before it failed, function_undeclare frees. */
tn_status function_declare(tn_function *f, const tn_function_options *options);
void function_undeclare(tn_function *f);
/* Whether a run's inputs are as declared. pre: they are as many tensors of the
 * function's device. */
tn_status function_check_inputs(const tn_function *f, size_t num_in, const tn_tensor *const *in);
/* The name of an input; `room` is for one that has none of its own. */
const char *function_input_name(const tn_function *f, size_t index, char room[32]);

#endif
