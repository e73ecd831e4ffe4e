/*
 * cuDNN's graphs: a few operations over tensors, described one by one, which cuDNN fuses into
 * one plan that runs without storing what lies between them. The first call that cuDNN refuses
 * is kept with its words, and everything after it does nothing; so one look at the end is
 * enough, and the log says which operation it was.
 */
#ifndef BACKENDS_CUDA_DNN_GRAPH_H
#define BACKENDS_CUDA_DNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { dnn_most_operations = 48, dnn_most_descriptors = 192 };

typedef cudnnBackendDescriptor_t dnn_tensor;

/* Zeroed, it is empty. Not thread-safe. */
typedef struct dnn_graph {
  cudnnBackendDescriptor_t made[dnn_most_descriptors]; /* all of them, freed with the graph */
  cudnnBackendDescriptor_t operation[dnn_most_operations];
  int num_made, num_operations;
  cudnnStatus_t status; /* of the first call that failed */
  char failed[512];     /* what it was, and cuDNN's words */
} dnn_graph;

/* What runs. The caller's to destroy. */
typedef struct dnn_plan {
  cudnnBackendDescriptor_t config, plan;
  size_t workspace_bytes;
  int64_t engine; /* its number */
  uint32_t notes; /* a bit for each cudnnNumericalNote_t of the engine */
} dnn_plan;

/* What a convolution computes of x, w and y, and its numbers along the spatial axes. */
typedef enum dnn_conv_result { DNN_CONV_Y, DNN_CONV_X, DNN_CONV_W } dnn_conv_result;
typedef struct dnn_conv {
  dnn_conv_result result;
  cudnnDataType_t compute; /* CUDNN_DATA_FLOAT */
  int axes;                /* 2 or 3 */
  int64_t stride[3], padding[3], dilation[3];
} dnn_conv;

/* Tensors of four or five axes with strides in elements. Those in memory have an id, above 0, by
 * which dnn_plan_execute finds their addresses, multiples of 16; the others lie between operations.
 */
dnn_tensor dnn_graph_memory(dnn_graph *g, int64_t id, cudnnDataType_t type, int axes,
                            const int64_t *size, const int64_t *stride);
dnn_tensor dnn_graph_between(dnn_graph *g, cudnnDataType_t type, int axes, const int64_t *size,
                             const int64_t *stride);
/* A number that the host gives at each execution. */
dnn_tensor dnn_graph_number(dnn_graph *g, int64_t id, cudnnDataType_t type);

/* Operations, with the type they compute in. y = mode(x, b, t); b and t may be NULL. */
void dnn_graph_pointwise(dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                         dnn_tensor x, dnn_tensor b, dnn_tensor t, dnn_tensor y);
/* y = x between 0 and `most`, INFINITY for no such bound. */
void dnn_graph_relu(dnn_graph *g, cudnnDataType_t compute, double most, dnn_tensor x, dnn_tensor y);
/* y = the index along `axis` of each element of x. */
void dnn_graph_index(dnn_graph *g, int64_t axis, cudnnDataType_t compute, dnn_tensor x,
                     dnn_tensor y);
/* c = a b over the last two axes, in float32. `rows`, `columns` and `inner` may be NULL, or say
 * for each batch how many rows of a, columns of b and products of each sum count. */
void dnn_graph_matmul(dnn_graph *g, dnn_tensor a, dnn_tensor b, dnn_tensor c, dnn_tensor rows,
                      dnn_tensor columns, dnn_tensor inner);
/* y = x reduced, in float32, over the axes that are shorter in y. */
void dnn_graph_reduce(dnn_graph *g, cudnnReduceTensorOp_t mode, dnn_tensor x, dnn_tensor y);
/* y = x seen with y's sizes and strides. */
void dnn_graph_reshape(dnn_graph *g, dnn_tensor x, dnn_tensor y);

/* One of the three from the others; w is [k, c / groups, h, w] or [k, c / groups, d, h, w]. */
void dnn_graph_conv(dnn_graph *g, const dnn_conv *conv, dnn_tensor x, dnn_tensor w, dnn_tensor y);

/* What a caller has no use for. */
typedef struct dnn_limits {
  uint32_t notes; /* of engines, a bit for each */
  size_t workspace_bytes;
  int64_t engine; /* a number that no engine may have, -1 for none */
} dnn_limits;

/* Plans within the limits for what the heuristic names, best first, and behind those for what it
 * falls back to; at most `most`, as many as it returns, each the caller's. */
int dnn_graph_plans(dnn_graph *g, cudnnHandle_t handle, const dnn_limits *limits, dnn_plan *plans,
                    int most);

/* The first plan of the heuristics that cuDNN can build; false, with g->failed, where there is
 * none. The graph may be freed afterwards. */
bool dnn_graph_plan(dnn_graph *g, cudnnHandle_t handle, dnn_plan *plan);
void dnn_graph_free(dnn_graph *g);

/* Puts the plan's work into the handle's stream. `address` are device addresses, and host
 * addresses of numbers, whose ids are `id`. Allocates host memory only. */
cudnnStatus_t dnn_plan_execute(const dnn_plan *plan, cudnnHandle_t handle, int count,
                               const int64_t *id, void *const *address, void *workspace);
void dnn_plan_destroy(dnn_plan *plan);

#endif /* BACKENDS_CUDA_DNN_GRAPH_H */
