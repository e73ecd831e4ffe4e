/*
 * Attention and its gradient on the BLAS, tile by tile: scores of a block of queries and a
 * block of keys stay in cache, and a row's softmax goes on from block to block with its
 * maximum and sum (Milakov and Gimelshein 2018, arXiv 1805.02867). The gradient goes over
 * the tiles twice, once for dq and once for dk and dv, so that no two threads add to one
 * number.
 */
#include <math.h>
#include <string.h>

#include "kernels/common/broadcast.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/matmul/gemm.h"

enum { QUERIES = 64, KEYS = 256 /* of a tile */ };

typedef struct attention_call {
  const tn_host *host;
  const void *dy, *q, *k, *v, *y, *lse_in;
  void *out, *lse, *dk, *dv; /* out: y, or dq */
  const uint8_t *mask;       /* or NULL */
  const void *bias;          /* or NULL */
  int64_t mask_step[4], bias_step[4];
  int64_t batch, heads, groups, s, t, d;
  double scale;
  bool causal;
  int64_t shift; /* of a causal call: query i sees keys up to i + shift */
} attention_call;

static attention_call attention_call_of(const tn_kernel_args *args, int first, int hides) {
  const tn_scaled_dot_product_attention_attrs *attrs = args->attrs;
  const DLTensor *q = args->in[first], *k = args->in[first + 1];
  attention_call c = {.host = args->host,
                      .q = q->data,
                      .k = k->data,
                      .v = args->in[first + 2]->data,
                      .batch = q->shape[0],
                      .heads = q->shape[1],
                      .groups = k->shape[1],
                      .s = q->shape[2],
                      .t = k->shape[2],
                      .d = q->shape[3],
                      .causal = attrs->causal};
  c.shift = TN_FIELD_OR(attrs, tn_scaled_dot_product_attention_attrs, causal_upper_left, 0)
                ? 0
                : c.t - c.s;
  c.scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)cpu_max(1, c.d));
  c.mask = scores_like(args->in[hides], c.mask_step);
  c.bias = scores_like(args->in[hides + 1], c.bias_step);
  return c;
}

/* Where a tile lies: queries i <= .. < i + m of head h, keys j <= .. < j + n. */
typedef struct tile {
  int64_t b, h, i, m, j, n;
} tile;

/* Row r of a tile within a tensor shaped or broadcast as the scores. */
static int64_t tile_offset(const tile *at, const int64_t *step, int64_t r) {
  return at->b * step[0] + at->h * step[1] + (at->i + r) * step[2] + at->j * step[3];
}

/* The keys that some query before `end` sees. */
static int64_t visible(const attention_call *c, int64_t end) {
  return c->causal ? cpu_max(0, cpu_min(c->t, end + c->shift)) : c->t;
}

/* The other extents of a product are those of a tile: what passes here, the BLAS takes. */
static tn_status attention_run(attention_call *c, int64_t units, double work, tn_range_fn fn) {
  if (units == 0) return TN_OK;
  if (!blas_counts(c->d, QUERIES, KEYS)) return blas_refuses(c->host);
  if (work < 1e6 || units == 1) return fn(c, 0, units);
  return c->host->parallel_for(c->host, units, 1, fn, c);
}

static double attention_work(const attention_call *c) {
  return (double)c->batch * (double)c->heads * (double)c->s * (double)c->t * (double)(c->d + 1);
}

#define BODY "kernels/cpu/attention/attention.inc"
#include "kernels/cpu/base/stamp_float.inc"
