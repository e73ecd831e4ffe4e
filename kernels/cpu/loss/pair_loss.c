/*
 * Losses of elements in pairs and their gradients. Elements go through a small buffer:
 * losses or slopes first, weights next, then out or into a sum. Sums are taken over parts
 * of fixed size, so that they do not depend on the number of threads.
 */
#include "kernels/common/wide/log.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/cpu.h"

enum { PAIR_BLOCK = 256, PAIR_PART = 16384 };

typedef struct pair_call {
  const void *x, *target, *weight, *pos, *dy;
  void *y;
  double *sums; /* of parts; NULL without reduction */
  double option, scale;
  int64_t n, c; /* elements, and the length of pos */
  bool spread;  /* dy is one number for all */
  void (*block)(const struct pair_call *k, int64_t at, int64_t m, const void *pos, void *out);
} pair_call;

static pair_call pair_open(const DLTensor *const *in, uint32_t num_in, DLTensor *out) {
  const DLTensor *x = in[0];
  pair_call k = {.x = x->data, .target = in[1]->data, .y = out->data, .n = cpu_count(x)};
  if (num_in > 2 && in[2]) k.weight = in[2]->data;
  if (num_in > 3 && in[3]) k.pos = in[3]->data;
  k.c = x->ndim ? x->shape[x->ndim - 1] : 1;
  return k;
}

static tn_status pair_parallel(const tn_host *host, pair_call *k, tn_range_fn fn) {
  const int64_t parts = cpu_ceil_div(k->n, PAIR_PART);
  if (parts <= 1) return fn(k, 0, parts);
  return host->parallel_for(host, parts, 1, fn, k);
}

/* (1 - t) ln(1 + e^x) + p t ln(1 + e^-x), whose parts do not cancel; both are ln(1 + e^-|x|), and
 * one of them |x| more. */
static inline float bce_f(float x, float t, float p) {
  const float e = exp_f(-fabsf(x)), u = 1.0f + e, d = u - 1.0f;
  const float l = d == 0.0f ? e : log_f(u) * (e / d);
  return (1.0f - t) * (x > 0.0f ? x + l : l) + p * t * (x < 0.0f ? l - x : l);
}
static inline double bce_d(double x, double t, double p) {
  const double l = log1p(exp(-fabs(x)));
  return (1 - t) * (x > 0 ? x + l : l) + p * t * (x < 0 ? l - x : l);
}

static inline float huber_f(float d, float delta) {
  const float a = fabsf(d);
  return a <= delta ? 0.5f * a * a : delta * (a - 0.5f * delta);
}
static inline double huber_d(double d, double delta) {
  const double a = fabs(d);
  return a <= delta ? 0.5 * a * a : delta * (a - 0.5 * delta);
}

#define BODY "kernels/cpu/loss/pair_loss.inc"
#include "kernels/cpu/base/stamp_float.inc"
