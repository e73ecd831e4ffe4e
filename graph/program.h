/* A program as a struct: its record and plan, and what runs of it work with. */
#ifndef TENON_GRAPH_PROGRAM_H
#define TENON_GRAPH_PROGRAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "graph/memory_plan.h"
#include "graph/objects.h"
#include "graph/replay/replay.h"
#include "graph/stream_memory.h"

/* Random operators: where a node's offset is, and what the record says it is. */
typedef struct random_node {
  uint32_t place;       /* among the nodes that run */
  uint32_t attr_offset; /* bytes from the beginning of the attributes */
  uint64_t offset;
  const tn_attr *from; /* the tensor that is added to the offset, NULL if it has none */
} random_node;

/* A value whose memory each run brings. */
typedef struct bound_value {
  uint32_t value;
  bool is_output;
  uint32_t place; /* of the input, or the output */
  uint64_t offset;
} bound_value;

/* All that one run at a time works with, on one stream: memory, headers of tensors and prepared
 * calls. */
typedef struct instance {
  struct instance *next;
  bool busy;
  tn_stream *stream;
  uint64_t serial;               /* of the stream: another may come to lie where it did */
  stream_memory *values;         /* planned_bytes of it, at least one */
  tn_tensor **headers;           /* by value; NULL where nothing that runs uses it */
  stream_memory *scratch_memory; /* that all calls share, NULL where none has any */
  uint64_t workspace_bytes;      /* of it */
  tn_tensor *dense;              /* memory of the copies that kernels want, NULL where none does */
  tn_tensor *drawn;       /* i64, added to random nodes' offsets; NULL where attributes say it */
  tn_prepared **expanded; /* those of them that a run must refresh */
  uint32_t num_expanded;
  tn_prepared **calls; /* one for each node that runs, and copies in front of some */
  uint32_t *node_of;   /* by call */
  uint32_t *call_of;   /* by place among the nodes that run: the node's own, behind its copies */
  size_t *scratch;     /* by call: bytes of its workspace */
  uint32_t num_calls;
  replayer *replay; /* NULL until there is something to replay */
} instance;

/* What became of the graph's nodes, but for those that run. */
typedef struct node_counts {
  uint32_t left_out, merged, folded, fused;
  uint32_t recomputed, parts; /* nodes that there are beside the graph's */
} node_counts;

struct tn_program {
  record record;
  memory_plan plan;
  tn_runtime *runtime; /* held weakly */
  tn_device *device;
  char *name;
  tn_tensor **real; /* by buffer: parameters and constants on the device */
  uint32_t *inputs; /* buffers, by place */
  uint32_t *reals;  /* buffers of `real` that there are, those that runs update first */
  uint32_t num_reals, num_updated;
  uint32_t *running; /* the nodes that run, in their order */
  uint32_t *numbers; /* in the graph, by node; NULL where they are the same */
  random_node *random;
  bound_value *bound;
  uint32_t num_random, num_bound;
  node_counts counts;
  uint64_t random_first;   /* the least offset in the record */
  uint64_t random_step;    /* counters that one run takes */
  _Atomic uint64_t *drawn; /* by the runs before: own_drawn, or what programs of a function share */
  _Atomic uint64_t own_drawn;
  uint64_t draw_shift;   /* added to all offsets */
  bool draws_by_tensor;  /* device memory says what runs before have drawn, not attributes */
  pthread_mutex_t mutex; /* guards the list of instances */
  instance *instances;
  _Atomic uint64_t runs;
  replay replay;
};

/* A run under way. */
typedef struct program_run {
  tn_program *program;
  instance *at;
  tn_stream *stream;
  const tn_tensor **in; /* as the calls see them: given, or copies */
  tn_tensor **out;      /* made or given, or what stands for one given; NULL where it is copied */
  tn_tensor **copies;   /* of inputs, to be released */
} program_run;

/* run.c: shows the calls this run's tensors, or, with `shown` false, takes them away. */
void run_show(const program_run *r, bool shown);
/* run.c: brings calls that see inputs expanded up to date with their headers. */
void run_refresh(const program_run *r);
/* run.c: `status`, with the node in front of its message. */
tn_status run_failed_at(const program_run *r, uint32_t call, tn_status status);
/* What people call a node: its number in the graph. */
static inline uint32_t program_number(const tn_program *p, uint32_t node) {
  return p->numbers ? p->numbers[node] : node;
}

/* run.c: whether an output's buffer is written by the calls themselves. */
bool program_output_is_direct(const tn_program *program, uint32_t output);

/* program.c: a program's runs draw from a sequence that begins at `first` and of which `drawn` are
 * taken. pre: it has not run. */
void program_share_draws(tn_program *program, uint64_t first, _Atomic uint64_t *drawn);

/* instance.c: the one that the default stream's runs take. pre: nobody else knows the program. */
tn_status instance_make_first(tn_program *program, instance **made);
/* instance.c: one for the stream that nobody runs, made if there is none. TN_OK; else as
 * tn_graph_compile. */
tn_status instance_take(tn_program *program, tn_stream *stream, instance **taken);
void instance_give(tn_program *program, instance *i);
void instances_free(tn_program *program);

/* instance.c: lets a header show other memory, which stays its owner's; `at` in bytes from there.
 * NULL: the instance's own, as between runs. */
void header_show(const instance *i, tn_tensor *header, const tn_tensor *memory, uint64_t at);

/* instance.c: prepares a node on headers of its values. */
tn_status node_prepare(const tn_program *p, uint32_t index, tn_stream *stream,
                       tn_tensor *const *headers, tn_prepared **prepared);

/* instance.c: prepares a node on the instance's headers, and on those in `in`, by input, where
 * there are some. */
tn_status instance_prepare(const tn_program *p, const instance *i, uint32_t index,
                           tn_tensor *const *in, tn_prepared **prepared);

/* instance.c: appends a call of a node, whose workspace it gives back. pre: there is room. */
void instance_add(instance *i, uint32_t node, tn_prepared *call);

/* dense.c: gives nodes row-major copies of inputs that their kernels want so. pre: each node that
 * runs has a call. On failure the instance has those that are left. */
tn_status dense_inputs(const tn_program *p, instance *i);

/* program.c: the memory of a parameter or constant, the program's; it is there at once for work in
 * the device's default stream. */
tn_status program_real(tn_program *p, uint32_t buffer, tn_tensor **real);

#endif
