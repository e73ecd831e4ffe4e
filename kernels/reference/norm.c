/*
 * Normalisation: x is seen as [n, c, inner]. Every element belongs to one set, over which
 * mean and variance are taken, and to one channel, which has a weight. Batch norm's sets
 * are the channels; the others' are `groups` runs of channels of each of the n samples
 * (layer norm: one group, the normalised axes are c).
 */
#include <math.h>
#include <string.h>

#include "iterate.h"
#include "kernels.h"

enum { BATCH = -1 };

typedef struct norm {
  const tn_host *host;
  int64_t n, c, inner, groups; /* groups: of each sample, or BATCH */
  int64_t elements, sets, per_set;
  bool centred; /* rms_norm is not */
  double eps;
} norm;

static norm norm_of(const tn_kernel_args *args, const DLTensor *x, int first, int last) {
  norm s = {.host = args->host, .n = 1, .c = 1, .inner = 1, .groups = 1, .centred = true};
  for (int a = 0; a < x->ndim; ++a) *(a < first ? &s.n : a < last ? &s.c : &s.inner) *= x->shape[a];
  return s;
}

static void norm_count(norm *s, int64_t groups) {
  s->groups = groups;
  s->elements = s->n * s->c * s->inner;
  s->sets = groups == BATCH ? s->c : s->n * groups;
  s->per_set = s->sets ? s->elements / s->sets : 0;
}

static int64_t channel_of(const norm *s, int64_t i) { return i / s->inner % s->c; }

static int64_t set_of(const norm *s, int64_t i) {
  int64_t channel = channel_of(s, i);
  if (s->groups == BATCH) return channel;
  return i / (s->inner * s->c) * s->groups + channel / (s->c / s->groups);
}

/* An argument as dense doubles; `otherwise` repeated where it is absent. */
static double *dense(const tn_host *host, const DLTensor *t, int64_t n, double otherwise) {
  double *values = scratch_alloc(host, n);
  for (int64_t i = 0; values && !t && i < n; ++i) values[i] = otherwise;
  if (values && t) gather(view_of(t), values);
  return values;
}

/* Means of x over the sets. Distances from a set's first element are summed, so that equal
 * elements have exactly themselves as mean, unless that element is no number. */
static void means(const norm *s, const double *x, double *mean, double *first) {
  for (int64_t i = s->elements - 1; i >= 0; --i) first[set_of(s, i)] = isfinite(x[i]) ? x[i] : 0;
  for (int64_t k = 0; k < s->sets; ++k) mean[k] = 0;
  for (int64_t i = 0; i < s->elements; ++i) mean[set_of(s, i)] += x[i] - first[set_of(s, i)];
  for (int64_t k = 0; k < s->sets; ++k)
    mean[k] = s->per_set ? first[k] + mean[k] / (double)s->per_set : NAN;
}

static void variances(const norm *s, const double *x, const double *mean, double *var) {
  for (int64_t k = 0; k < s->sets; ++k) var[k] = 0;
  for (int64_t i = 0; i < s->elements; ++i) {
    double d = x[i] - mean[set_of(s, i)];
    var[set_of(s, i)] += d * d;
  }
  for (int64_t k = 0; k < s->sets; ++k) var[k] /= (double)s->per_set;
}

/* x becomes y. */
static void transform(const norm *s, double *x, const double *mean, const double *rstd,
                      const double *gamma, const double *beta) {
  for (int64_t i = 0; i < s->elements; ++i) {
    int64_t k = set_of(s, i), c = channel_of(s, i);
    x[i] = (x[i] - mean[k]) * rstd[k] * gamma[c] + beta[c];
  }
}

static void put(DLTensor *t, const double *values) {
  if (t) scatter(view_of(t), values);
}

static void move_running(const norm *s, double momentum, DLTensor *running, const double *now) {
  view v = view_of(running);
  for (int64_t k = 0; k < s->sets && s->per_set; ++k) {
    double old;
    void *at = view_at(&v, k * v.stride[0]);
    load_f64(v.dtype, at, 1, 1, &old);
    old += momentum * (now[k] - old);
    store_f64(v.dtype, at, 1, 1, &old);
  }
}

/* Running statistics are in-out arguments, so they stand first in out. One value has no
 * unbiased variance to move towards. */
static void update_running(const tn_kernel_args *args, const norm *s, const double *mean,
                           double *var) {
  const tn_batch_norm_attrs *attrs = args->attrs;
  move_running(s, attrs->momentum, args->out[0], mean);
  if (s->per_set <= 1) return;
  double unbias = (double)s->per_set / (double)(s->per_set - 1);
  for (int64_t k = 0; k < s->sets; ++k) var[k] *= unbias;
  move_running(s, attrs->momentum, args->out[1], var);
}

/* Scratch that one call works in. */
enum { X, DY, GAMMA, BETA, MEAN, VAR, RSTD, SCRATCHES };

static tn_status forward(const tn_kernel_args *args, const norm *s, double **at) {
  bool batch = s->groups == BATCH, rms = !s->centred;
  int first_out = batch ? 2 : 0;
  at[X] = dense(s->host, args->in[0], s->elements, 0);
  /* Channels beside a 0 may be more than there is memory for. */
  const int64_t weights = s->elements ? s->c : 0;
  at[GAMMA] = dense(s->host, weights ? args->in[1] : NULL, weights, 1);
  at[BETA] = dense(s->host, rms || !weights ? NULL : args->in[2], weights, 0);
  at[MEAN] = dense(s->host, NULL, s->sets, 0);
  at[VAR] = dense(s->host, NULL, s->sets, 0);
  at[RSTD] = dense(s->host, NULL, s->sets, 0);
  if (!at[X] || !at[GAMMA] || !at[BETA] || !at[MEAN] || !at[VAR] || !at[RSTD])
    return TN_ERR_OUT_OF_MEMORY;
  if (!rms) means(s, at[X], at[MEAN], at[VAR]);
  variances(s, at[X], at[MEAN], at[VAR]);
  for (int64_t k = 0; k < s->sets; ++k) at[RSTD][k] = 1 / sqrt(at[VAR][k] + s->eps);
  if (batch) update_running(args, s, at[MEAN], at[VAR]);
  transform(s, at[X], at[MEAN], at[RSTD], at[GAMMA], at[BETA]);
  put(args->out[first_out], at[X]);
  if (!rms) put(args->out[first_out + 1], at[MEAN]);
  put(args->out[first_out + (rms ? 1 : 2)], at[RSTD]);
  return TN_OK;
}

/* Sums over each channel of dy z and of dy, into the places of gamma's and beta's scratch. */
static void weight_grads(const norm *s, const double *dy, const double *z, double *dgamma,
                         double *dbeta) {
  for (int64_t c = 0; c < s->c; ++c) dgamma[c] = dbeta[c] = 0;
  for (int64_t i = 0; i < s->elements; ++i) {
    dgamma[channel_of(s, i)] += dy[i] * z[i];
    dbeta[channel_of(s, i)] += dy[i];
  }
}

/* z becomes dx. A set's sums are its channels' sums of dy and of dy z, times gamma: two are
 * kept for each of `parts` channels of sets and, behind those, for each set. */
static void input_grad(const norm *s, const double *dy, const double *gamma, const double *rstd,
                       double *z, int64_t parts, double *sums) {
  double *of_set = sums + 2 * parts;
  for (int64_t i = 0; i < 2 * (parts + s->sets); ++i) sums[i] = 0;
  for (int64_t i = 0; i < s->elements; ++i) {
    sums[2 * (i / s->inner % parts)] += dy[i];
    sums[2 * (i / s->inner % parts) + 1] += dy[i] * z[i];
  }
  for (int64_t p = 0; p < parts; ++p) {
    double share = gamma[p % s->c] / (double)s->per_set;
    of_set[2 * set_of(s, p * s->inner)] += sums[2 * p] * share;
    of_set[2 * set_of(s, p * s->inner) + 1] += sums[2 * p + 1] * share;
  }
  for (int64_t i = 0; i < s->elements; ++i) {
    const double *mean = &of_set[2 * set_of(s, i)];
    double g = dy[i] * gamma[channel_of(s, i)];
    z[i] = rstd[set_of(s, i)] * (g - (s->centred ? mean[0] : 0) - z[i] * mean[1]);
  }
}

static tn_status backward(const tn_kernel_args *args, const norm *s, double **at) {
  bool rms = !s->centred;
  at[DY] = dense(s->host, args->in[0], s->elements, 0);
  at[X] = dense(s->host, args->in[1], s->elements, 0);
  at[MEAN] = dense(s->host, rms ? NULL : args->in[2], s->sets, 0);
  at[RSTD] = dense(s->host, args->in[rms ? 2 : 3], s->sets, 0);
  at[GAMMA] = dense(s->host, args->in[rms ? 3 : 4], s->c, 1);
  int64_t parts = s->elements == 0 ? 0 : s->groups == BATCH ? s->c : s->n * s->c;
  at[VAR] = scratch_alloc(s->host, 2 * (parts + s->sets) + s->c);
  at[BETA] = scratch_alloc(s->host, s->c);
  if (!at[DY] || !at[X] || !at[GAMMA] || !at[MEAN] || !at[RSTD] || !at[VAR] || !at[BETA])
    return TN_ERR_OUT_OF_MEMORY;
  double *z = at[X], *dgamma = at[VAR];
  for (int64_t i = 0; i < s->elements; ++i)
    z[i] = (z[i] - at[MEAN][set_of(s, i)]) * at[RSTD][set_of(s, i)];
  weight_grads(s, at[DY], z, dgamma, at[BETA]);
  put(args->out[1], dgamma);
  if (!rms) put(args->out[2], at[BETA]);
  input_grad(s, at[DY], at[GAMMA], at[RSTD], z, parts, at[VAR]);
  put(args->out[0], z);
  return TN_OK;
}

static tn_status with_scratch(const tn_kernel_args *args, const norm *s,
                              tn_status (*work)(const tn_kernel_args *, const norm *, double **)) {
  double *at[SCRATCHES] = {NULL};
  tn_status status = work(args, s, at);
  for (int i = 0; i < SCRATCHES; ++i) s->host->free(s->host, at[i]);
  return status;
}

static norm by_channel(const tn_kernel_args *args, const DLTensor *x, int64_t groups) {
  norm s = norm_of(args, x, 1, 2);
  norm_count(&s, groups);
  return s;
}

static norm by_row(const tn_kernel_args *args, const DLTensor *x, int64_t axis) {
  norm s = norm_of(args, x, axis_index(axis, x->ndim), x->ndim);
  norm_count(&s, 1);
  return s;
}

tn_status reference_batch_norm(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[0], BATCH);
  s.eps = ((const tn_batch_norm_attrs *)args->attrs)->eps;
  return with_scratch(args, &s, forward);
}

static tn_status infer(const tn_kernel_args *args, const norm *s, double **at) {
  at[X] = dense(s->host, args->in[0], s->elements, 0);
  at[MEAN] = dense(s->host, args->in[1], s->c, 0);
  at[RSTD] = dense(s->host, args->in[2], s->c, 0);
  at[GAMMA] = dense(s->host, args->in[3], s->c, 1);
  at[BETA] = dense(s->host, args->in[4], s->c, 0);
  if (!at[X] || !at[GAMMA] || !at[BETA] || !at[MEAN] || !at[RSTD]) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t k = 0; k < s->c; ++k) at[RSTD][k] = 1 / sqrt(at[RSTD][k] + s->eps);
  transform(s, at[X], at[MEAN], at[RSTD], at[GAMMA], at[BETA]);
  put(args->out[0], at[X]);
  return TN_OK;
}

tn_status reference_batch_norm_inference(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[0], BATCH);
  s.eps = ((const tn_batch_norm_inference_attrs *)args->attrs)->eps;
  return with_scratch(args, &s, infer);
}

tn_status reference_batch_norm_grad(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[1], BATCH);
  return with_scratch(args, &s, backward);
}

tn_status reference_layer_norm(const tn_kernel_args *args) {
  const tn_layer_norm_attrs *attrs = args->attrs;
  norm s = by_row(args, args->in[0], attrs->axis);
  s.eps = attrs->eps;
  return with_scratch(args, &s, forward);
}

tn_status reference_layer_norm_grad(const tn_kernel_args *args) {
  norm s = by_row(args, args->in[1], ((const tn_layer_norm_grad_attrs *)args->attrs)->axis);
  return with_scratch(args, &s, backward);
}

tn_status reference_group_norm(const tn_kernel_args *args) {
  const tn_group_norm_attrs *attrs = args->attrs;
  norm s = by_channel(args, args->in[0], attrs->groups);
  s.eps = attrs->eps;
  return with_scratch(args, &s, forward);
}

tn_status reference_group_norm_grad(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[1], ((const tn_group_norm_grad_attrs *)args->attrs)->groups);
  return with_scratch(args, &s, backward);
}

tn_status reference_instance_norm(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[0], args->in[0]->shape[1]);
  s.eps = ((const tn_instance_norm_attrs *)args->attrs)->eps;
  return with_scratch(args, &s, forward);
}

tn_status reference_instance_norm_grad(const tn_kernel_args *args) {
  norm s = by_channel(args, args->in[1], args->in[1]->shape[1]);
  return with_scratch(args, &s, backward);
}

tn_status reference_rms_norm(const tn_kernel_args *args) {
  const tn_rms_norm_attrs *attrs = args->attrs;
  norm s = by_row(args, args->in[0], attrs->axis);
  s.centred = false;
  s.eps = attrs->eps;
  return with_scratch(args, &s, forward);
}

tn_status reference_rms_norm_grad(const tn_kernel_args *args) {
  norm s = by_row(args, args->in[1], ((const tn_rms_norm_grad_attrs *)args->attrs)->axis);
  s.centred = false;
  return with_scratch(args, &s, backward);
}
