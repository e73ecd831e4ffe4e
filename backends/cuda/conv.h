/*
 * What the files of the convolutions by cuDNN share: conv.c describes calls, conv_plan.c makes and
 * runs plans, conv_engines.c lists engines of cuDNN's graphs, conv_tune.c measures.
 */
#ifndef BACKENDS_CUDA_CONV_H
#define BACKENDS_CUDA_CONV_H

#include "backends/cuda/backend.h"
#include "backends/cuda/dnn_graph.h"

enum { most_algorithms = 8, conv_workspace_limit = 1 << 30 };

/* Tensors of a graph. */
enum { CONV_ID_X = 1, CONV_ID_W, CONV_ID_Y, CONV_ID_BIAS, CONV_ID_ADDEND };

/* All that the plan depends on. Sizes are x [n, c, d, h, w], w [k, c / groups, kd, kh, kw],
 * y [n, k, od, oh, ow]; unless `deep`, depths are 1 and left out of what cuDNN sees. */
typedef struct convolution {
  int32_t role, dtype, math, deterministic, channels_last, deep;
  int32_t x[5], w[5], y[5];
  int32_t stride[3], padding[3], dilation[3], groups;
  int32_t bias, addend, activation; /* of the forward pass: whether there is one; a tn_activation */
} convolution;

/* Where a call's tensors lie: bias and addend, which lies as y does, where it has them. */
typedef struct conv_memory {
  void *x, *w, *y;
  const void *bias, *addend;
  void *workspace;
} conv_memory;

typedef struct conv_plan {
  cuda_plan plan;
  convolution key;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnTensorDescriptor_t bias; /* these two where an algorithm may have the epilogue in it */
  cudnnActivationDescriptor_t activation;
  int algorithm;          /* of the operator's own enumeration */
  bool direct;            /* cuDNN cannot: our kernels do */
  size_t workspace_bytes; /* of the algorithm */
  /* The device's, where it is faster and addresses are multiples of 16; else without a plan. */
  dnn_plan graph;
  bool fused; /* the graph, where there is one, else the algorithm has the epilogue in it */
} conv_plan;

/* What the heuristics of all three operators say of one algorithm. */
typedef struct conv_candidate {
  int algorithm;
  cudnnStatus_t status;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
} conv_candidate;

#define DNN_TRY(host, call)                                                                        \
  do {                                                                                             \
    cudnnStatus_t status_ = (call);                                                                \
    if (status_ != CUDNN_STATUS_SUCCESS) return cuda_dnn_status(host, status_, #call);             \
  } while (0)

/* The plan of a call, made on first sight. The queue's lock is held, as below. */
tn_status cuda_conv_plan_of(cuda_queue *queue, const convolution *key, conv_plan **out);

/* What a call needs as workspace. */
size_t cuda_conv_plan_bytes(const conv_plan *p);

/* Has the plan's descriptors and workspace be those of a candidate; false where it is not within
 * the limits. */
bool cuda_conv_take(cudnnHandle_t dnn, conv_plan *p, const conv_candidate *a);

/* Whether cuda_conv_tune measures, or takes what was measured, for such a convolution. */
bool cuda_conv_is_measured(const tn_host *host, const convolution *c);

/* Takes the fastest of cuDNN's algorithms and engines where there is reason to measure, else the
 * first engine; the plan has the heuristic's first algorithm. */
void cuda_conv_tune(cuda_queue *queue, conv_plan *p, const conv_candidate *list, int count);

/* A numerical note of cuDNN's on an engine, as a bit. */
#define CONV_NOTE(name) (UINT32_C(1) << CUDNN_NUMERICAL_NOTE_##name)

/* The notes that a call cannot do with. */
uint32_t cuda_conv_forbidden_notes(const convolution *c);

/* Puts the plans of at most `most` engines, the heuristic's first in front, that have none of the
 * notes, with the epilogue in them or without, and returns how many; the caller destroys them. None
 * for what no engine is right for. */
int cuda_conv_engines(cuda_queue *queue, const convolution *c, bool fused, uint32_t notes,
                      dnn_plan *out, int most);

/* Whether engines can have the epilogue in them. */
bool cuda_conv_is_fusable(const convolution *c);

/* Whether elements are of 16 bits. */
bool cuda_conv_is_half(const convolution *c);

cudnnDataType_t cuda_conv_data_type(int32_t dtype);

/* Whether the sums have to stay in float32 until the activation: of 16 bits, rounded before it,
 * only that of a relu or relu6 is the one of its sums, rounded. Such a plan is an engine's. */
bool cuda_conv_sums_are_wide(const convolution *c);

/* Whether Winograd's algorithm would take tiles so large that it errs by 1e-3: gradients by weights
 * of 5 x 5. */
bool cuda_conv_has_large_tiles(const convolution *c);

/* Whether bias, addend and activation are the plan's to see to: in one go with the convolution, or
 * in one pass behind it. */
bool cuda_conv_has_epilogue(const convolution *c);

/* Whether the plan can run where a call's tensors lie. */
bool cuda_conv_takes(const conv_plan *p, const conv_memory *m);

/* The result of x, w and y from the others, in the queue's stream. pre: cuda_conv_takes them. */
tn_status cuda_conv_execute(const cuda_queue *queue, const conv_plan *p, const conv_memory *m);

#endif /* BACKENDS_CUDA_CONV_H */
