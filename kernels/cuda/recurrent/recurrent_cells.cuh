/*
 * A step of lstm, gru or rnn, element by element: from the products of the state with u to the new
 * state. Steps that are launches and those of one launch share it.
 */
#ifndef KERNELS_CUDA_RECURRENT_CELLS_CUH
#define KERNELS_CUDA_RECURRENT_CELLS_CUH

#include "kernels/cuda/recurrent/resident.cuh"

namespace {

struct forward_call {
  recurrent_call c;
  const void *x, *w, *u, *bias, *h0, *c0, *p;
  void *y, *y_h, *y_c, *reserve;
  /* Workspace, in the computing type: [d, s n, gates h], two of [d, n, h], then lstm's cells, or
   * gru's first two gates and what the reset multiplies. */
  void *products, *h[2], *cell, *gates, *q;
  /* Where somebody else multiplies: the state's products [d, n, gates h], without x's bias in
   * `products`, and u widened, or u itself. */
  void *sums, *wide;
  /* Where all steps are one launch: its words, of h and then of gru's q. */
  resident_plan plan;
  uint2 *words;
};

/* The bias of a gate row: both halves, but for what gru's reset multiplies. */
template <class T> __device__ compute_t<T> bias_at(const forward_call &f, int d, int64_t g) {
  const int64_t n = f.c.gates * f.c.hidden;
  const T *bias = (const T *)f.bias + d * 2 * n;
  const bool apart = f.c.gates == 3 && f.c.k.coupled && g >= 2 * f.c.hidden;
  return load(bias[g]) + (apart ? (compute_t<T>)0 : (compute_t<T>)load(bias[n + g]));
}

/* One element of a step: where it is, and what each of its parts is at. */
template <class T> struct step_place {
  using C = compute_t<T>;
  recurrent_place at;
  int64_t t, state; /* -1: behind the sequence's end; in [d, n, h] */
  C *reserve;       /* part g at reserve[g h]; NULL: none is kept */
  C x[4], h, cell;  /* what the input gives the gates; what was before */
};

/* What the input gives gate g, x being that of the first. */
template <class T>
__device__ compute_t<T> input_of(const forward_call &f, const recurrent_place &at,
                                 const compute_t<T> *x, int64_t g) {
  const int64_t n = f.c.hidden;
  return f.sums && f.bias ? x[g * n] + bias_at<T>(f, at.d, g * n + at.j) : x[g * n];
}

/* Begins to read what a step takes besides products. False for threads outside the states. */
template <class T>
__device__ bool find_place(const forward_call &f, const recurrent_place &at, int64_t step, int now,
                           step_place<T> *s) {
  using C = compute_t<T>;
  const recurrent_call &c = f.c;
  s->at = at;
  const int d = s->at.d;
  const int64_t b = s->at.b, j = s->at.j;
  if (b >= c.sequences || j >= c.hidden) return false;
  s->t = recurrent_at(c, d, b, step);
  s->state = recurrent_state_row(c, d, b) * c.hidden + j;
  const int64_t t = s->t < 0 ? step : s->t; /* of zeros, each step behind the end once */
  const C *x =
      (const C *)f.products + ((d * c.steps + t) * c.sequences + b) * c.gates * c.hidden + j;
#pragma unroll
  for (int g = 0; g < 4; g++)
    if (g < c.gates) s->x[g] = input_of<T>(f, at, x, g);
  s->h = ((const C *)f.h[now])[s->state];
  if (f.cell) s->cell = ((const C *)f.cell)[s->state];
  s->reserve = f.reserve
                   ? (C *)f.reserve + recurrent_gate_row(c, d, t, b) * c.reserved * c.hidden + j
                   : NULL;
  return true;
}

/* A step behind a sequence's end: zeros, and the state as it was. */
template <class T>
__device__ compute_t<T> write_rest(const forward_call &f, const step_place<T> &s, int64_t step,
                                   int now) {
  using C = compute_t<T>;
  const recurrent_call &c = f.c;
  ((T *)f.y)[recurrent_y_row(c, s.at.d, step, s.at.b) * c.hidden + s.at.j] = stored<T>::from((C)0);
  for (int64_t g = 0; g < c.reserved && s.reserve; g++) s.reserve[g * c.hidden] = 0;
  return ((C *)f.h[1 - now])[s.state] = s.h;
}

template <class T>
__device__ compute_t<T> write_state(const forward_call &f, const step_place<T> &s, compute_t<T> h,
                                    int now) {
  using C = compute_t<T>;
  ((T *)f.y)[recurrent_y_row(f.c, s.at.d, s.t, s.at.b) * f.c.hidden + s.at.j] = stored<T>::from(h);
  return ((C *)f.h[1 - now])[s.state] = h;
}

/* The new state of an element, from its products z with the gates of u. */
template <class T>
__device__ compute_t<T> lstm_end(const forward_call &f, const step_place<T> &s, compute_t<T> *z,
                                 int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  for (int g = 0; g < 4; g++) z[g] += s.x[g];
  C p[3] = {}, cell = s.cell;
  for (int g = 0; g < 3 && f.p; g++) p[g] = load(((const T *)f.p)[(s.at.d * 3 + g) * n + s.at.j]);
  const C h = cell_lstm_step(&z[0], &z[1], &z[2], z[3], p[0], p[1], p[2], &cell, (C)f.c.k.clip,
                             f.c.k.gate, f.c.k.enter, f.c.k.leave, f.c.k.coupled);
  ((C *)f.cell)[s.state] = cell;
  for (int g = 0; g < 4 && s.reserve; g++) s.reserve[g * n] = z[g];
  if (s.reserve) s.reserve[4 * n] = s.cell;
  if (s.reserve) s.reserve[5 * n] = s.h;
  return write_state(f, s, h, now);
}

template <class T>
__device__ compute_t<T> rnn_end(const forward_call &f, const step_place<T> &s, compute_t<T> *z,
                                int now) {
  using C = compute_t<T>;
  z[0] += s.x[0];
  if (s.reserve) s.reserve[0] = z[0];
  if (s.reserve) s.reserve[f.c.hidden] = s.h;
  return write_state(f, s, cell_activate(f.c.k.enter, z[0], (C)f.c.k.clip), now);
}

/* The end of gru's step, z and h being its gates with all in them. */
template <class T>
__device__ compute_t<T> gru_end(const forward_call &f, const step_place<T> &s,
                                const compute_t<T> *z, compute_t<T> q, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  for (int g = 0; g < 3 && s.reserve; g++) s.reserve[g * n] = z[g];
  if (s.reserve) s.reserve[3 * n] = s.h;
  if (s.reserve) s.reserve[4 * n] = q;
  const C h = cell_gru_step(z[0], z[2], s.h, (C)f.c.k.clip, f.c.k.gate, f.c.k.enter);
  return write_state(f, s, h, now);
}

/* Linear before reset: all in one. */
template <class T>
__device__ compute_t<T> gru_linear_end(const forward_call &f, const step_place<T> &s,
                                       compute_t<T> *z, int now) {
  using C = compute_t<T>;
  z[0] += s.x[0];
  z[1] += s.x[1];
  const C q =
      z[2] + (f.bias ? load(((const T *)f.bias)[(s.at.d * 6 + 5) * f.c.hidden + s.at.j]) : (C)0);
  z[2] = s.x[2] + q * cell_activate(f.c.k.gate, z[1], (C)f.c.k.clip);
  return gru_end(f, s, z, q, now);
}

/* The gates z and r, and the state reset. */
template <class T>
__device__ compute_t<T> gru_reset(const forward_call &f, const step_place<T> &s, compute_t<T> *z) {
  z[0] += s.x[0];
  z[1] += s.x[1];
  return s.h * cell_activate(f.c.k.gate, z[1], (compute_t<T>)f.c.k.clip);
}

/* The step's end, z[2] being the product of the state reset, which is q. */
template <class T>
__device__ compute_t<T> gru_reset_end(const forward_call &f, const step_place<T> &s, int64_t step,
                                      compute_t<T> *z, compute_t<T> q, int now) {
  if (s.t < 0) return write_rest(f, s, step, now);
  z[2] += s.x[2];
  return gru_end(f, s, z, q, now);
}

/* A step whose products are all of the state. */
template <class T>
__device__ compute_t<T> end_of(const forward_call &f, const step_place<T> &s, int64_t step,
                               compute_t<T> *z, int now) {
  if (s.t < 0) return write_rest(f, s, step, now);
  if (f.c.gates == 4) return lstm_end(f, s, z, now);
  return f.c.gates == 1 ? rnn_end(f, s, z, now) : gru_linear_end(f, s, z, now);
}

} // namespace

#endif /* KERNELS_CUDA_RECURRENT_CELLS_CUH */
