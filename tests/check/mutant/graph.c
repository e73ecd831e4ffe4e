/* Graphs: what was put into a queue while it recorded, to be put there again. */
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

typedef struct node {
  struct node *next;
  mutant_work work;
  _Alignas(16) unsigned char params[];
} node;

struct mutant_graph {
  mutant_device *device;
  node *first, **last;
  uint64_t launches;
};

tn_status mutant_graph_add(mutant_graph *g, const mutant_work *work) {
  node *n = malloc(sizeof *n + work->params_bytes);
  if (!n) return g->device->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
  *n = (node){NULL, *work};
  n->work.wait = mutant_point_share(work->wait);
  n->work.pass = mutant_point_share(work->pass);
  n->work.params = n->params;
  if (work->params_bytes) memcpy(n->params, work->params, work->params_bytes);
  *g->last = n;
  g->last = &n->next;
  return TN_OK;
}

tn_status mutant_capture_begin(void *device, void *queue) {
  mutant_device *d = device;
  mutant_graph *g = calloc(1, sizeof *g);
  if (!g) return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
  g->device = d;
  g->last = &g->first;
  mutant_queue_record(queue, g);
  return TN_OK;
}

tn_status mutant_capture_end(void *device, void *queue, void **graph) {
  (void)device;
  *graph = mutant_queue_record(queue, NULL);
  return TN_OK;
}

tn_status mutant_graph_launch(void *device, void *graph, void *queue) {
  const mutant_fault fault = ((mutant_device *)device)->fault;
  mutant_graph *g = graph;
  tn_status status = TN_OK;
  if (fault == FAULT_GRAPH_EMPTY || (fault == FAULT_GRAPH_ONCE && g->launches)) return TN_OK;
  g->launches++;
  for (const node *n = g->first; n && status == TN_OK; n = n->next) {
    if (fault == FAULT_GRAPH_AT_ONCE && n->work.run)
      n->work.run(n->params);
    else
      status = mutant_put(queue, n->work);
  }
  return status;
}

void mutant_graph_destroy(void *device, void *graph) {
  mutant_graph *g = graph;
  (void)device;
  for (node *n = g->first, *next; n; n = next) {
    next = n->next;
    mutant_point_drop(n->work.wait);
    mutant_point_drop(n->work.pass);
    free(n);
  }
  free(g);
}
