/* What slots hold: numbers in host memory, a tensor, or both. Belongs to one evaluation's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib.h"

static value *value_new(evaluation *e) {
  value *v = calloc(1, sizeof *v);
  if (v)
    v->refs = 1;
  else
    eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a value");
  return v;
}

value *value_keep(value *v) {
  if (v) v->refs++;
  return v;
}

void value_release(value *v) {
  if (!v || --v->refs) return;
  tn_tensor_release(v->tensor);
  if (v->known) *v->known -= host_bytes(&v->host);
  if (v->owned) free(v->host.data);
  free(v);
}

value *value_of_weight(evaluation *e, onnx_weight *w) {
  value **made = &e->weights[w->index];
  if (!*made && (*made = value_new(e))) {
    (*made)->host = w->host;
    (*made)->weight = w;
  }
  return value_keep(*made);
}

value *value_of_tensor(evaluation *e, tn_tensor *tensor) {
  value *v = value_new(e);
  if (!v) {
    tn_tensor_release(tensor);
    return NULL;
  }
  v->tensor = tensor;
  v->host = (onnx_tensor){.present = true,
                          .dtype = tn_tensor_dtype(tensor),
                          .rank = tn_tensor_rank(tensor),
                          .elements = tn_tensor_elements(tensor)};
  for (int32_t i = 0; i < v->host.rank; i++) v->host.shape[i] = tn_tensor_shape(tensor)[i];
  return v;
}

/* A small file could otherwise have loops and fills that come to any amount. */
static bool known_fits(evaluation *e, size_t bytes) {
  uint64_t most = 4 * e->model->read_all + KNOWN_ROOM;
  if (bytes <= most && e->known <= most - bytes) return true;
  eval_fail(e, TN_ERR_UNSUPPORTED,
            "numbers known before the run that come to more than %llu MB for a file of %.1f MB",
            (unsigned long long)most >> 20, (double)e->model->read_all / (1 << 20));
  return false;
}

value *value_of_numbers(evaluation *e, tn_dtype dtype, int32_t rank, const int64_t *shape,
                        const void *data) {
  value *v = value_new(e);
  if (!v) return NULL;
  v->host = (onnx_tensor){.present = true, .dtype = dtype, .rank = rank, .elements = 1};
  for (int32_t i = 0; i < rank; i++) v->host.elements *= v->host.shape[i] = shape[i];
  size_t bytes = host_bytes(&v->host);
  if (!known_fits(e, bytes)) {
    value_release(v);
    return NULL;
  }
  e->known += bytes;
  v->known = &e->known;
  v->host.data = calloc(bytes + 1, 1);
  v->owned = true;
  if (!v->host.data) {
    eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    value_release(v);
    return NULL;
  }
  if (data && bytes) memcpy(v->host.data, data, bytes);
  return v;
}

/* A weight of a graph: a constant that shares the model's tensor, where there is one. */
static tn_status constant_make(evaluation *e, value *v) {
  char name[64];
  tn_tensor *real = NULL;
  if (v->host.data) { /* small: the graph keeps a copy of its own */
    if (!known_fits(e, host_bytes(&v->host))) return e->status;
    e->known += host_bytes(&v->host);
    return tn_tensor_from_host(e->device, v->host.dtype, v->host.rank, v->host.shape, v->host.data,
                               &v->tensor);
  }
  tn_status status = weight_tensor(e->model, v->weight, &real);
  snprintf(name, sizeof name, "weight%llu", (unsigned long long)v->weight->index);
  return status ? status : tn_graph_constant(e->graph, name, real, &v->tensor);
}

tn_tensor *value_tensor(evaluation *e, value *v) {
  if (v->tensor || e->status) return v->tensor;
  tn_status status;
  if (e->graph) {
    status = constant_make(e, v);
  } else if (v->weight) {
    status = weight_tensor(e->model, v->weight, &v->tensor);
    if (!status) tn_tensor_retain(v->tensor);
  } else {
    status = tn_tensor_from_host(e->device, v->host.dtype, v->host.rank, v->host.shape,
                                 v->host.data, &v->tensor);
  }
  if (status && !e->status) eval_fail(e, status, "a constant: %s", tn_last_error());
  return v->tensor;
}

bool value_fetch(evaluation *e, value *v) {
  if (v->host.data) return true;
  if (e->graph || e->status) return false;
  size_t bytes = host_bytes(&v->host);
  void *data = malloc(bytes + 1);
  if (!data) return eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for numbers"), false;
  tn_tensor *tensor = value_tensor(e, v);
  tn_status status = tensor ? TN_OK : e->status;
  if (!status)
    status = tn_stream_synchronize(e->stream ? e->stream : tn_device_default_stream(e->device));
  if (!status) status = tn_tensor_to_host(tensor, data, bytes);
  if (status) {
    free(data);
    return eval_fail(e, status, "reading numbers: %s", tn_last_error()), false;
  }
  v->host.data = data;
  v->owned = true;
  return true;
}
