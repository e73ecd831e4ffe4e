/* A graph as a struct, and its parts. Not named as the public header: tools take it for that. */
#ifndef TENON_GRAPH_OBJECTS_H
#define TENON_GRAPH_OBJECTS_H

#include "dispatcher/objects/device.h"
#include "graph/record.h"

struct tn_graph {
  host_memory memory;
  tn_runtime *runtime; /* held weakly */
  tn_device *device;
  char *name;
  record record;
  tn_tensor **kept; /* a tensor of each buffer, so that its storage is nobody else's; of a copy
                        NULL before somebody wants it */
  size_t max_kept;
  struct graph_casts *casts; /* NULL before autocast */
};

/* --- symbolic.c: the device that symbolic tensors are on --- */

/* A device of its own for the graph, and its return, after which it refuses calls until another
 * graph takes it. */
tn_status symbolic_take(tn_graph *graph);
void symbolic_give(tn_graph *graph);
/* The graph of a symbolic device, NULL of others and where it is gone. */
tn_graph *symbolic_graph(const tn_device *device);

/* --- autocast/graph_casts.c --- */

/* What is appended from here on is recorded as it is called, or cast again; gives what was before.
 * Around calls that somebody else makes than who builds the graph. */
bool graph_casts_pause(tn_graph *graph, bool paused);
void graph_casts_free(tn_graph *graph);

/* --- capture.c: from calls to nodes --- */

/* What the device's calls go to. */
tn_status capture_call(struct plan *p);
/* Refuses a valid call that the graph refuses. */
tn_status capture_check(const struct plan *p);
/* What is written to its tensors from host memory goes there: whole ones that no call has used. */
tn_status capture_write(tn_tensor *t, const void *data, size_t bytes);
/* Makes the symbolic tensor of a buffer that the graph did not compute. */
tn_status capture_source(tn_graph *graph, const char *function, const record_buffer *wanted,
                         tn_tensor **tensor);
/* The value that a tensor of the graph has now. */
tn_status capture_value(tn_graph *graph, const tn_tensor *tensor, uint32_t *value);
/* A tensor that shows a buffer, the graph's own; the graph of a copied record has none of a buffer
 * before somebody asks. */
tn_status capture_kept(tn_graph *graph, uint32_t buffer, const tn_tensor **kept);
/* Room for those of a record that was copied. */
tn_status capture_begin_copy(tn_graph *graph);
/* Forgets the tensors. */
void capture_end(tn_graph *graph);

/* --- header.c: tensors that show values --- */

/* A header of a value in `memory`, whose storage it keeps; `at` bytes from where that begins. */
tn_status header_make(const record_value *v, const tn_tensor *memory, uint64_t at,
                      tn_tensor **header);
/* One that stands for the value where nothing is read or written: `memory` may be too small. */
tn_status header_stand_in(const record_value *v, const tn_tensor *memory, tn_tensor **header);
/* Points a header to other memory, as far as data goes. */
void header_place(tn_tensor *header, const tn_tensor *memory, uint64_t at);

#endif
