/*
 * Recurrent networks on the BLAS: what the operators and their gradients share. Sequences do not
 * know of each other, so that a unit of work is some of them in one direction, through all steps;
 * the input's product with w is one over all steps, made before.
 */
#ifndef TENON_KERNELS_CPU_RECURRENT_H
#define TENON_KERNELS_CPU_RECURRENT_H

#include <string.h>

#include "kernels/common/recurrent.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/matmul/gemm.h"

#define CELL_FN static inline __attribute__((always_inline, unused))
#define C float
#define CELL(name) name##_f
#define CELL_SIGMOID sigmoid_f
#define CELL_TANH tanh_f
#include "kernels/common/recurrent_cell.inc"
#undef C
#undef CELL
#undef CELL_SIGMOID
#undef CELL_TANH
#define C double
#define CELL(name) name##_d
#define CELL_SIGMOID sigmoid_d
#define CELL_TANH tanh_d
#include "kernels/common/recurrent_cell.inc"
#undef C
#undef CELL
#undef CELL_SIGMOID
#undef CELL_TANH

/* So many rows are faster one by one than together, for which the BLAS packs all weights. */
enum { FEW_ROWS = 3 };

typedef struct recurrent {
  const tn_host *host;
  recurrent_sizes s;
  recurrent_cell k;
  const DLTensor *lengths;
  int64_t chunk, chunks;                      /* sequences of a unit, units of a direction */
  const void *x, *w, *u, *bias, *h0, *c0, *p; /* of the element type */
  const void *reserve_in, *dy, *dy_h, *dy_c, *dreserve; /* of the gradient */
  void *y, *y_h, *y_c, *reserve, *dgates, *dh0, *dc0;
  const void *wide_u; /* u in the computing type */
  void *products;     /* of x and w, in the computing type: [d, s n, gates h] */
  double *peepholes;  /* of each unit what it adds to dp: [d, chunks, 3 h] */
} recurrent;

/* The sequences of a unit. */
typedef struct recurrent_unit {
  int64_t direction, first, count;
  bool reversed;
} recurrent_unit;

static inline int64_t recurrent_threads(const tn_host *host) {
  if (host->deterministic) return 16; /* blocks decide how the BLAS rounds */
  return host->num_threads ? host->num_threads : 1;
}

/* Sequences enough to use each row of u for several of them, where there are. */
static inline void recurrent_divide(recurrent *r) {
  const int64_t pieces = cpu_ceil_div(recurrent_threads(r->host), r->s.directions);
  r->chunk = cpu_max(1, cpu_max(cpu_min(4, r->s.sequences), cpu_ceil_div(r->s.sequences, pieces)));
  r->chunks = cpu_ceil_div(r->s.sequences, r->chunk);
}

static inline recurrent_unit recurrent_unit_of(const recurrent *r, int64_t unit) {
  recurrent_unit v = {.direction = unit / r->chunks, .first = unit % r->chunks * r->chunk};
  v.count = cpu_min(r->chunk, r->s.sequences - v.first);
  v.reversed = r->s.direction == 1 || v.direction == 1;
  return v;
}

static inline int64_t recurrent_length(const recurrent *r, int64_t sequence) {
  if (!r->lengths) return r->s.steps;
  const int64_t n = r->lengths->dtype.bits == 64 ? ((const int64_t *)r->lengths->data)[sequence]
                                                 : ((const int32_t *)r->lengths->data)[sequence];
  return cpu_max(0, cpu_min(n, r->s.steps));
}

/* Where a sequence is at a step of its own count; -1 behind its end. */
static inline int64_t recurrent_at(const recurrent *r, const recurrent_unit *v, int64_t sequence,
                                   int64_t step) {
  const int64_t length = recurrent_length(r, sequence);
  if (step >= length) return -1;
  return v->reversed ? length - 1 - step : step;
}

/* Rows of [s, d, n, h] and of [s, n, d, ...]. */
static inline int64_t recurrent_state_row(const recurrent *r, const recurrent_unit *v, int64_t t,
                                          int64_t sequence) {
  return (t * r->s.directions + v->direction) * r->s.sequences + sequence;
}
static inline int64_t recurrent_gate_row(const recurrent *r, const recurrent_unit *v, int64_t t,
                                         int64_t sequence) {
  return (t * r->s.sequences + sequence) * r->s.directions + v->direction;
}

static inline tn_status recurrent_run(recurrent *r, tn_range_fn fn) {
  const int64_t units = r->s.directions * r->chunks;
  const double work = (double)r->s.steps * (double)r->s.sequences * (double)r->s.directions *
                      (double)r->s.gates * (double)r->s.hidden * (double)(r->s.hidden + 16);
  if (units == 0) return TN_OK;
  if (units == 1 || work < 3e5) return fn(r, 0, units);
  return r->host->parallel_for(r->host, units, 1, fn, r);
}

static inline tn_status recurrent_no_memory(const tn_host *host, int64_t count) {
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld numbers of a recurrent network",
                    (long long)count);
}

#endif
