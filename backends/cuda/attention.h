/*
 * What attention by cuDNN is made of: the key of its plans, which attention.c fills in from a
 * call, and from which attention_graph.c describes the graph.
 */
#ifndef BACKENDS_CUDA_ATTENTION_H
#define BACKENDS_CUDA_ATTENTION_H

#include "backends/cuda/dnn_graph.h"
#include "backends/cuda/plans.h"

/* The call's tensors; the forward operator has the first four. */
enum { ATTN_Q, ATTN_K, ATTN_V, ATTN_Y, ATTN_DY, ATTN_DQ, ATTN_DK, ATTN_DV, ATTN_TENSORS };

/* Ids of what has an address: the tensors' are 1 + ATTN_*. */
enum {
  ATTN_ID_LSE = 1 + ATTN_TENSORS,
  ATTN_ID_DELTA,   /* sum dy y of each query, float32 */
  ATTN_ID_DQ_SUM,  /* dq as it is summed up, float32 */
  ATTN_ID_QUERIES, /* how many count, for each batch: int32 */
  ATTN_ID_KEYS,
  ATTN_ID_SCALE, /* numbers */
  ATTN_ID_ONE,
  ATTN_ID_HIDDEN, /* the score of a hidden key */
  ATTN_ID_S,
  ATTN_ID_T,
  ATTN_IDS
};

typedef enum attn_causal { ATTN_ALL, ATTN_UPPER_LEFT, ATTN_LOWER_RIGHT } attn_causal;

/* All that the plan depends on. */
typedef struct attention {
  int32_t dtype, gradient, causal;
  int32_t has_lse; /* of a forward call: it is asked for */
  int32_t padded;  /* the gradient tells cuDNN the lengths: s and t, for it gets t wrong that are
                    * no multiples of 128 */
  int32_t reserved;
  int64_t b, h, g, s, t, d;        /* q [b, h, s, d], k and v [b, g, t, d] */
  int64_t stride[ATTN_TENSORS][3]; /* of batch, head and position; in elements, the last is 1 */
} attention;

void cuda_attention_describe(dnn_graph *graph, const attention *a);

#endif /* BACKENDS_CUDA_ATTENTION_H */
