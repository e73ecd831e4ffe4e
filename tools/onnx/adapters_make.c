/* ONNX's operators that make tensors from shapes and numbers alone. */
#include "adapters.h"

#include <math.h>

/* The type that attribute dtype names, else that of the input, else float32. */
static tn_dtype made_type(onnx_node *c) {
  tn_dtype dtype = node_has(c, "dtype") ? onnx_dtype((int32_t)node_int(c, "dtype", 0))
                   : node_given(c, 0)   ? c->in[0].dtype
                                        : TN_F32;
  if (!dtype) node_cannot(c, "a tensor of a type that Tenon lacks");
  return dtype;
}

/* Seeds are float bits to ONNX; without one each node has its own, and each run goes on. */
static void set_seed(op_call *k) {
  static uint64_t nodes;
  uint64_t number = __atomic_add_fetch(&nodes, 1, __ATOMIC_RELAXED);
  double seed = node_float(k->c, "seed", (double)(number & 0xffffff));
  call_set(k, "seed", 0, fabs(seed) < 0x1p53 ? floor(fabs(seed)) : 0);
}

/* "name low=attribute:default high=..." would say it too; there are only two. */
static tn_status draw(op_call *k, bool uniform, int32_t rank, const int64_t *shape) {
  onnx_node *c = k->c;
  call_set(k, uniform ? "low" : "mean", 0, node_float(c, uniform ? "low" : "mean", 0));
  call_set(k, uniform ? "high" : "std", 0, node_float(c, uniform ? "high" : "scale", 1));
  set_seed(k);
  tn_tensor *y = node_empty(c, made_type(c), rank, shape);
  if (!y) return c->status;
  call_update(k, y);
  if (!node_check(c, call_run(k, NULL, 0))) return c->status;
  return node_give(c, 0, y);
}

static tn_status random_like(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  return draw(&k, op[0] == 'u', c->in[0].rank, c->in[0].shape);
}

static tn_status random_of_shape(onnx_node *c, const char *op) {
  const int64_t *shape;
  int rank = node_ints(c, "shape", &shape);
  if (rank > TN_MAX_RANK) return node_cannot(c, "a tensor of more than %d axes", TN_MAX_RANK);
  op_call k = call_begin(c, op);
  return draw(&k, op[0] == 'u', rank, shape);
}

const adapter_row adapters_make[] = {
    {"RandomNormal", random_of_shape, "normal", 0, 0, NULL},
    {"RandomNormalLike", random_like, "normal", 0, 0, NULL},
    {"RandomUniform", random_of_shape, "uniform", 0, 0, NULL},
    {"RandomUniformLike", random_like, "uniform", 0, 0, NULL},
    {0},
};
