/*
 * Attention and its gradient as cuDNN's engines know them: operations in the very order and
 * types that NVIDIA's cudnn-frontend emits for them (its scaled_dot_product_flash_attention.h),
 * for the engines match patterns and refuse what only means the same.
 */
#include "backends/cuda/attention.h"
#include "tenon/plugin.h"

/* A graph being described. */
typedef struct sketch {
  dnn_graph *graph;
  const attention *a;
  cudnnDataType_t type;     /* of the call's tensors */
  dnn_tensor queries, keys; /* lengths; NULL unless padded */
} sketch;

static const cudnnDataType_t FLOAT = CUDNN_DATA_FLOAT, INT = CUDNN_DATA_INT32,
                             TRUTH = CUDNN_DATA_BOOLEAN;

/* ------------------------------------------------------------------- tensors --- */

static bool is_of_queries(int place) {
  return place != ATTN_K && place != ATTN_V && place != ATTN_DK && place != ATTN_DV;
}

/* A tensor of the call, or with its last two axes swapped. */
static dnn_tensor given(const sketch *k, int place, bool swapped) {
  const attention *a = k->a;
  const bool mine = is_of_queries(place);
  const int64_t *stride = a->stride[place], length = mine ? a->s : a->t;
  const int64_t size[] = {a->b, mine ? a->h : a->g, swapped ? a->d : length,
                          swapped ? length : a->d};
  const int64_t step[] = {stride[0], stride[1], swapped ? 1 : stride[2], swapped ? stride[2] : 1};
  return dnn_graph_memory(k->graph, 1 + place, k->type, 4, size, step);
}

/* A tensor between operations, row-major. */
static dnn_tensor between(const sketch *k, cudnnDataType_t type, int64_t heads, int64_t rows,
                          int64_t columns) {
  const int64_t size[] = {k->a->b, heads, rows, columns};
  const int64_t stride[] = {heads * rows * columns, rows * columns, columns, 1};
  return dnn_graph_between(k->graph, type, 4, size, stride);
}

static dnn_tensor scores(const sketch *k, cudnnDataType_t type) {
  return between(k, type, k->a->h, k->a->s, k->a->t);
}

static dnn_tensor per_query(const sketch *k) { return between(k, FLOAT, k->a->h, k->a->s, 1); }

/* Float32 of our own, row-major: [b, h, s, columns]. */
static dnn_tensor own(const sketch *k, int64_t id, int64_t columns) {
  const attention *a = k->a;
  const int64_t size[] = {a->b, a->h, a->s, columns};
  const int64_t stride[] = {a->h * a->s * columns, a->s * columns, columns, 1};
  return dnn_graph_memory(k->graph, id, FLOAT, 4, size, stride);
}

static dnn_tensor lengths(const sketch *k, int64_t id) {
  const int64_t size[] = {k->a->b, 1, 1, 1}, stride[] = {1, 1, 1, 1};
  return dnn_graph_memory(k->graph, id, INT, 4, size, stride);
}

/* ---------------------------------------------------------------- operations --- */

static dnn_tensor apply_to(const sketch *k, cudnnPointwiseMode_t mode, dnn_tensor x, dnn_tensor b,
                           dnn_tensor y) {
  dnn_graph_pointwise(k->graph, mode, FLOAT, x, b, NULL, y);
  return y;
}

static dnn_tensor apply(const sketch *k, cudnnPointwiseMode_t mode, dnn_tensor x, dnn_tensor b) {
  return apply_to(k, mode, x, b, scores(k, FLOAT));
}

static dnn_tensor reduce_to(const sketch *k, cudnnReduceTensorOp_t mode, dnn_tensor x,
                            dnn_tensor y) {
  dnn_graph_reduce(k->graph, mode, x, y);
  return y;
}

/* With a type of its own: indexes, and what is compared of them. */
static dnn_tensor apply_typed(const sketch *k, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                              dnn_tensor x, dnn_tensor b) {
  dnn_tensor y = scores(k, type);
  dnn_graph_pointwise(k->graph, mode, type, x, b, NULL, y);
  return y;
}

static dnn_tensor index_of(const sketch *k, int64_t axis, cudnnDataType_t compute, dnn_tensor x) {
  dnn_tensor y = scores(k, INT);
  dnn_graph_index(k->graph, axis, compute, x, y);
  return y;
}

static dnn_tensor select_seen(const sketch *k, dnn_tensor x, dnn_tensor hidden, dnn_tensor seen) {
  dnn_tensor y = scores(k, FLOAT);
  dnn_graph_pointwise(k->graph, CUDNN_POINTWISE_BINARY_SELECT, FLOAT, x, hidden, seen, y);
  return y;
}

/* The product of queries and keys, or of dy and values: [b, h, s, t]. */
static dnn_tensor products(const sketch *k, dnn_tensor rows, dnn_tensor columns) {
  dnn_tensor y = scores(k, FLOAT);
  dnn_graph_matmul(k->graph, rows, columns, y, k->queries, k->keys, NULL);
  return y;
}

/* Hides keys behind the lengths. */
static dnn_tensor hide_padding(const sketch *k, dnn_tensor x, dnn_tensor hidden) {
  if (!k->a->padded) return x;
  dnn_tensor row = index_of(k, 2, INT, x), column = index_of(k, 3, INT, x);
  row = apply_typed(k, CUDNN_POINTWISE_CMP_LT, TRUTH, row, k->queries);
  column = apply_typed(k, CUDNN_POINTWISE_CMP_LT, TRUTH, column, k->keys);
  return select_seen(k, x, hidden, apply_typed(k, CUDNN_POINTWISE_LOGICAL_AND, TRUTH, row, column));
}

/* Hides keys from the queries before them. */
static dnn_tensor hide_later(const sketch *k, dnn_tensor x, dnn_tensor hidden) {
  if (k->a->causal == ATTN_ALL) return x;
  dnn_tensor row = index_of(k, 2, FLOAT, x), column = index_of(k, 3, FLOAT, x);
  if (k->a->causal == ATTN_LOWER_RIGHT) {
    dnn_tensor t = k->keys ? k->keys : dnn_graph_number(k->graph, ATTN_ID_T, INT);
    dnn_tensor s = k->queries ? k->queries : dnn_graph_number(k->graph, ATTN_ID_S, INT);
    row = apply_typed(k, CUDNN_POINTWISE_ADD, INT, row, t);
    row = apply_typed(k, CUDNN_POINTWISE_SUB, INT, row, s);
  }
  return select_seen(k, x, hidden, apply_typed(k, CUDNN_POINTWISE_CMP_GE, TRUTH, row, column));
}

/* The number for hidden scores, where some are. */
static dnn_tensor hidden_score(const sketch *k) {
  const bool hides = k->a->padded || k->a->causal != ATTN_ALL;
  return hides ? dnn_graph_number(k->graph, ATTN_ID_HIDDEN, FLOAT) : NULL;
}

/* ------------------------------------------------------------------ operators --- */

static dnn_tensor soften(const sketch *k, dnn_tensor x) {
  dnn_tensor most = reduce_to(k, CUDNN_REDUCE_TENSOR_MAX, x, per_query(k));
  x = apply(k, CUDNN_POINTWISE_SUB, x, most);
  x = apply(k, CUDNN_POINTWISE_EXP, x, NULL);
  dnn_tensor sum = reduce_to(k, CUDNN_REDUCE_TENSOR_ADD, x, per_query(k));
  /* The pattern has the logarithm even where nobody asked for it. */
  dnn_tensor log = apply_to(k, CUDNN_POINTWISE_LOG, sum, NULL, per_query(k));
  (void)apply_to(k, CUDNN_POINTWISE_ADD, most, log,
                 k->a->has_lse ? own(k, ATTN_ID_LSE, 1) : per_query(k));
  /* The second product wants its left side in the type of its right one. */
  return apply_to(k, CUDNN_POINTWISE_DIV, x, sum, scores(k, k->type));
}

static void describe_forward(const sketch *k) {
  dnn_tensor q = given(k, ATTN_Q, false), keys = given(k, ATTN_K, true),
             v = given(k, ATTN_V, false), y = given(k, ATTN_Y, false);
  dnn_tensor scale = dnn_graph_number(k->graph, ATTN_ID_SCALE, FLOAT), hidden = hidden_score(k);
  dnn_tensor x = products(k, q, keys);
  x = apply(k, CUDNN_POINTWISE_MUL, x, scale);
  x = hide_padding(k, x, hidden);
  x = hide_later(k, x, hidden);
  x = soften(k, x);
  dnn_graph_matmul(k->graph, x, v, y, k->queries, NULL, k->keys);
}

/* sum dy y of each query. */
static dnn_tensor sum_deltas(const sketch *k, dnn_tensor dy) {
  const attention *a = k->a;
  dnn_tensor y = given(k, ATTN_Y, false), one = dnn_graph_number(k->graph, ATTN_ID_ONE, FLOAT);
  dnn_tensor x = apply_to(k, CUDNN_POINTWISE_MUL, dy, y, between(k, FLOAT, a->h, a->s, a->d));
  x = reduce_to(k, CUDNN_REDUCE_TENSOR_ADD, x, per_query(k));
  /* The pattern has dropout's factor here. */
  return apply_to(k, CUDNN_POINTWISE_MUL, x, one, own(k, ATTN_ID_DELTA, 1));
}

/* result = x' other, summed over the heads that share keys: dk and dv. */
static void add_transposed(const sketch *k, dnn_tensor x, dnn_tensor other, int place) {
  const attention *a = k->a;
  const int64_t size[] = {a->b, a->h, a->t, a->s};
  const int64_t stride[] = {a->h * a->s * a->t, a->s * a->t, 1, a->t};
  dnn_tensor turned = dnn_graph_between(k->graph, k->type, 4, size, stride);
  dnn_graph_reshape(k->graph, x, turned);
  dnn_tensor result = given(k, place, false);
  dnn_tensor all = a->h == a->g ? result : between(k, k->type, a->h, a->t, a->d);
  dnn_graph_matmul(k->graph, turned, other, all, k->keys, NULL, k->queries);
  if (all != result) dnn_graph_reduce(k->graph, CUDNN_REDUCE_TENSOR_ADD, all, result);
}

/* dq = x k, summed in float32 first. */
static void add_queries(const sketch *k, dnn_tensor x, dnn_tensor keys) {
  const attention *a = k->a;
  const int64_t size[] = {a->b, a->g, a->t, a->d};
  const int64_t stride[] = {a->stride[ATTN_K][0], a->stride[ATTN_K][1], a->stride[ATTN_K][2], 1};
  dnn_tensor turned = dnn_graph_between(k->graph, k->type, 4, size, stride);
  dnn_graph_reshape(k->graph, keys, turned);
  dnn_tensor sum = own(k, ATTN_ID_DQ_SUM, a->d);
  dnn_graph_matmul(k->graph, x, turned, sum, k->queries, NULL, k->keys);
  (void)apply_to(k, CUDNN_POINTWISE_IDENTITY, sum, NULL, given(k, ATTN_DQ, false));
}

static void describe_gradient(const sketch *k) {
  dnn_tensor q = given(k, ATTN_Q, false), keys = given(k, ATTN_K, true), v = given(k, ATTN_V, true),
             dy = given(k, ATTN_DY, false);
  dnn_tensor scale = dnn_graph_number(k->graph, ATTN_ID_SCALE, FLOAT), hidden = hidden_score(k);
  dnn_tensor delta = sum_deltas(k, dy);
  dnn_tensor x = products(k, q, keys);
  x = apply(k, CUDNN_POINTWISE_MUL, x, scale);
  x = hide_padding(k, x, hidden);
  x = apply(k, CUDNN_POINTWISE_SUB, x, own(k, ATTN_ID_LSE, 1));
  x = hide_later(k, x, hidden);
  dnn_tensor weights = apply(k, CUDNN_POINTWISE_EXP, x, NULL);
  add_transposed(k, weights, dy, ATTN_DV);
  x = products(k, dy, v);
  x = apply(k, CUDNN_POINTWISE_SUB, x, delta);
  x = apply(k, CUDNN_POINTWISE_MUL, x, weights);
  x = apply(k, CUDNN_POINTWISE_MUL, x, scale);
  add_transposed(k, x, q, ATTN_DK);
  add_queries(k, x, keys);
}

void cuda_attention_describe(dnn_graph *graph, const attention *a) {
  sketch k = {.graph = graph, .a = a};
  k.type = a->dtype == TN_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  if (a->padded) {
    k.queries = lengths(&k, ATTN_ID_QUERIES);
    k.keys = lengths(&k, ATTN_ID_KEYS);
  }
  if (a->gradient)
    describe_gradient(&k);
  else
    describe_forward(&k);
}
