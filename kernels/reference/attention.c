/*
 * Attention and its gradient, a query or a key at a time: the scores of a row are computed
 * whole, then summed over. A key whose score is -infinity is hidden; a query that sees no
 * key gives 0 and has an lse of -infinity.
 */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

typedef struct attention_call {
  const tn_host *host;
  view dy, q, k, v, y, lse, dq, dk, dv;
  view mask, bias;                /* broadcast to the scores, or without data */
  int64_t heads, shared, s, t, d; /* shared: heads of q per head of k */
  double scale;
  bool causal;
  int64_t shift; /* of a causal call: query i sees keys up to i + shift */
} attention_call;

static view scores_view(const DLTensor *tensor, const attention_call *c) {
  int64_t shape[4] = {c->q.shape[0], c->heads, c->s, c->t};
  return tensor ? view_broadcast(view_of(tensor), 4, shape) : (view){.data = NULL};
}

/* `first` is the place of q among the inputs, `hides` that of mask. */
static attention_call attention_call_of(const tn_kernel_args *args, int first, int hides) {
  const tn_scaled_dot_product_attention_attrs *attrs = args->attrs; /* the gradient's too */
  attention_call c = {.host = args->host, .causal = attrs->causal};
  c.q = view_of(args->in[first]);
  c.k = view_of(args->in[first + 1]);
  c.v = view_of(args->in[first + 2]);
  c.heads = c.q.shape[1];
  c.shared = c.k.shape[1] ? c.heads / c.k.shape[1] : 1;
  c.s = c.q.shape[2];
  c.t = c.k.shape[2];
  c.d = c.q.shape[3];
  c.mask = scores_view(args->in[hides], &c);
  c.bias = scores_view(args->in[hides + 1], &c);
  c.shift = TN_FIELD_OR(attrs, tn_scaled_dot_product_attention_attrs, causal_upper_left, 0)
                ? 0
                : c.t - c.s;
  c.scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt(c.d ? (double)c.d : 1);
  return c;
}

/* The vector at [b, h, i] of a tensor of rank 4. */
static void vector(const view *v, int64_t b, int64_t h, int64_t i, double *to) {
  int64_t offset = b * v->stride[0] + h * v->stride[1] + i * v->stride[2];
  load_f64(v->dtype, view_at(v, offset), v->stride[3], v->shape[3], to);
}

static void put_vector(const view *v, int64_t b, int64_t h, int64_t i, const double *from) {
  int64_t offset = b * v->stride[0] + h * v->stride[1] + i * v->stride[2];
  store_f64(v->dtype, view_at(v, offset), v->stride[3], v->shape[3], from);
}

static double number_at(const view *v, int64_t b, int64_t h, int64_t i, int64_t j) {
  double x;
  int64_t offset = b * v->stride[0] + h * v->stride[1] + i * v->stride[2];
  if (v->ndim > 3) offset += j * v->stride[3];
  load_f64(v->dtype, view_at(v, offset), 1, 1, &x);
  return x;
}

static double dot(int64_t n, const double *a, const double *b) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

static void add(int64_t n, double factor, const double *x, double *sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

/* The score of query i, in q, and key j, in k; -infinity where the key is hidden. */
static double score(const attention_call *c, int64_t b, int64_t h, int64_t i, int64_t j,
                    const double *q, const double *k) {
  if (c->causal && j > i + c->shift) return -INFINITY;
  if (c->mask.data && number_at(&c->mask, b, h, i, j) == 0) return -INFINITY;
  double s = c->scale * dot(c->d, q, k);
  return c->bias.data ? s + number_at(&c->bias, b, h, i, j) : s;
}

/* Sums of one query, given its scores; room holds a value. Returns the lse. */
static double attend(const attention_call *c, int64_t b, int64_t h, double *scores, double *y,
                     double *room) {
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < c->d; ++k) y[k] = 0;
  for (int64_t j = 0; j < c->t; ++j)
    if (!(scores[j] <= most)) most = scores[j];
  for (int64_t j = 0; j < c->t; ++j) {
    double p = exp(scores[j] - (most == -INFINITY ? 0 : most));
    sum += p;
    vector(&c->v, b, h / c->shared, j, room);
    add(c->d, p, room, y);
  }
  for (int64_t k = 0; k < c->d; ++k) y[k] *= sum == 0 ? 0 : 1 / sum;
  return sum == 0 ? -INFINITY : most + log(sum);
}

/* One index is one query of one head. */
static tn_status attention_range(void *ctx, int64_t begin, int64_t end) {
  const attention_call *c = ctx;
  double *q = scratch_alloc(c->host, 3 * c->d + c->t);
  if (!q) return TN_ERR_OUT_OF_MEMORY;
  double *room = q + c->d, *y = room + c->d, *scores = y + c->d;
  for (int64_t item = begin; item < end; ++item) {
    int64_t i = item % c->s, h = item / c->s % c->heads, b = item / c->s / c->heads;
    vector(&c->q, b, h, i, q);
    for (int64_t j = 0; j < c->t; ++j) {
      vector(&c->k, b, h / c->shared, j, room);
      scores[j] = score(c, b, h, i, j, q, room);
    }
    double lse = attend(c, b, h, scores, y, room);
    put_vector(&c->y, b, h, i, y);
    int64_t offset = c->lse.data ? b * c->lse.stride[0] + h * c->lse.stride[1] : 0;
    if (c->lse.data)
      store_f64(c->lse.dtype, view_at(&c->lse, offset + i * c->lse.stride[2]), 1, 1, &lse);
  }
  c->host->free(c->host, q);
  return TN_OK;
}

tn_status reference_scaled_dot_product_attention(const tn_kernel_args *args) {
  attention_call c = attention_call_of(args, 0, 3);
  c.y = view_of(args->out[0]);
  if (args->out[1]) c.lse = view_of(args->out[1]);
  int64_t queries = c.q.shape[0] * c.heads * c.s;
  return queries ? c.host->parallel_for(c.host, queries, 1, attention_range, &c) : TN_OK;
}

/* ---------------------------------------------------------------- gradient --- */

/* What the gradients of one query and one key have in common. */
typedef struct pair {
  double p, ds; /* the probability, and the gradient by the score */
} pair;

static pair pair_of(const attention_call *c, int64_t b, int64_t h, int64_t i, int64_t j,
                    const double *dy, const double *q, const double *y, const double *k,
                    const double *v) {
  double s = score(c, b, h, i, j, q, k);
  if (s == -INFINITY) return (pair){0, 0};
  double p = exp(s - number_at(&c->lse, b, h, i, 0));
  return (pair){p, p * (dot(c->d, dy, v) - dot(c->d, dy, y))};
}

enum { DY, Q, Y, K, V, SUM, SUM2, VECTORS };

/* One index is one query of one head. */
static tn_status query_grad_range(void *ctx, int64_t begin, int64_t end) {
  const attention_call *c = ctx;
  double *room = scratch_alloc(c->host, VECTORS * c->d), *at[VECTORS];
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int x = 0; x < VECTORS; ++x) at[x] = room + x * c->d;
  for (int64_t item = begin; item < end; ++item) {
    int64_t i = item % c->s, h = item / c->s % c->heads, b = item / c->s / c->heads;
    vector(&c->dy, b, h, i, at[DY]);
    vector(&c->q, b, h, i, at[Q]);
    vector(&c->y, b, h, i, at[Y]);
    for (int64_t x = 0; x < c->d; ++x) at[SUM][x] = 0;
    for (int64_t j = 0; j < c->t; ++j) {
      vector(&c->k, b, h / c->shared, j, at[K]);
      vector(&c->v, b, h / c->shared, j, at[V]);
      pair p = pair_of(c, b, h, i, j, at[DY], at[Q], at[Y], at[K], at[V]);
      add(c->d, c->scale * p.ds, at[K], at[SUM]);
    }
    put_vector(&c->dq, b, h, i, at[SUM]);
  }
  c->host->free(c->host, room);
  return TN_OK;
}

/* One index is one key of one head of k. */
static tn_status key_grad_range(void *ctx, int64_t begin, int64_t end) {
  const attention_call *c = ctx;
  int64_t groups = c->k.shape[1];
  double *room = scratch_alloc(c->host, VECTORS * c->d), *at[VECTORS];
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int x = 0; x < VECTORS; ++x) at[x] = room + x * c->d;
  for (int64_t item = begin; item < end; ++item) {
    int64_t j = item % c->t, g = item / c->t % groups, b = item / c->t / groups;
    vector(&c->k, b, g, j, at[K]);
    vector(&c->v, b, g, j, at[V]);
    for (int64_t x = 0; x < c->d; ++x) at[SUM][x] = at[SUM2][x] = 0;
    for (int64_t h = g * c->shared; h < (g + 1) * c->shared; ++h)
      for (int64_t i = 0; i < c->s; ++i) {
        vector(&c->dy, b, h, i, at[DY]);
        vector(&c->q, b, h, i, at[Q]);
        vector(&c->y, b, h, i, at[Y]);
        pair p = pair_of(c, b, h, i, j, at[DY], at[Q], at[Y], at[K], at[V]);
        add(c->d, c->scale * p.ds, at[Q], at[SUM]);
        add(c->d, p.p, at[DY], at[SUM2]);
      }
    put_vector(&c->dk, b, g, j, at[SUM]);
    put_vector(&c->dv, b, g, j, at[SUM2]);
  }
  c->host->free(c->host, room);
  return TN_OK;
}

tn_status reference_scaled_dot_product_attention_grad(const tn_kernel_args *args) {
  attention_call c = attention_call_of(args, 1, 6);
  c.dy = view_of(args->in[0]);
  c.y = view_of(args->in[4]);
  c.lse = view_of(args->in[5]);
  c.dq = view_of(args->out[0]);
  c.dk = view_of(args->out[1]);
  c.dv = view_of(args->out[2]);
  int64_t queries = c.q.shape[0] * c.heads * c.s, keys = c.k.shape[0] * c.k.shape[1] * c.t;
  tn_status status = TN_OK;
  if (queries) status = c.host->parallel_for(c.host, queries, 1, query_grad_range, &c);
  if (keys && !status) status = c.host->parallel_for(c.host, keys, 1, key_grad_range, &c);
  return status;
}
