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
  /* Where all steps are one launch: its words of h, and of gru's q. */
  resident_plan plan;
  uint2 *words, *q_words;
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
  const C *x;       /* gate g at x[g h] */
  C *reserve;       /* part g at reserve[g h]; NULL: none is kept */
};

/* False for threads outside the states. */
template <class T>
__device__ bool find_place(const forward_call &f, const recurrent_place &at, int64_t step,
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
  s->x = (const C *)f.products + ((d * c.steps + t) * c.sequences + b) * c.gates * c.hidden + j;
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
  return ((C *)f.h[1 - now])[s.state] = ((const C *)f.h[now])[s.state];
}

template <class T>
__device__ compute_t<T> write_state(const forward_call &f, const step_place<T> &s, compute_t<T> h,
                                    int now) {
  using C = compute_t<T>;
  ((T *)f.y)[recurrent_y_row(f.c, s.at.d, s.t, s.at.b) * f.c.hidden + s.at.j] = stored<T>::from(h);
  return ((C *)f.h[1 - now])[s.state] = h;
}

/* What the input gives gate g. */
template <class T>
__device__ compute_t<T> input_of(const forward_call &f, const step_place<T> &s, int64_t g) {
  const compute_t<T> x = s.x[g * f.c.hidden];
  return f.sums && f.bias ? x + bias_at<T>(f, s.at.d, g * f.c.hidden + s.at.j) : x;
}

/* The new state of an element, from its products z with the gates of u. */
template <class T>
__device__ compute_t<T> lstm_end(const forward_call &f, const step_place<T> &s, compute_t<T> *z,
                                 int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  C *cell = (C *)f.cell + s.state;
  const C before = *cell, state = ((const C *)f.h[now])[s.state], clip = (C)f.c.k.clip;
  for (int g = 0; g < 4; g++) z[g] += input_of(f, s, g);
  C p[3] = {};
  for (int g = 0; g < 3 && f.p; g++) p[g] = load(((const T *)f.p)[(s.at.d * 3 + g) * n + s.at.j]);
  const C h = cell_lstm_step(&z[0], &z[1], &z[2], z[3], p[0], p[1], p[2], cell, clip, f.c.k.gate,
                             f.c.k.enter, f.c.k.leave, f.c.k.coupled);
  for (int g = 0; g < 4 && s.reserve; g++) s.reserve[g * n] = z[g];
  if (s.reserve) s.reserve[4 * n] = before;
  if (s.reserve) s.reserve[5 * n] = state;
  return write_state(f, s, h, now);
}

template <class T>
__device__ compute_t<T> rnn_end(const forward_call &f, const step_place<T> &s, compute_t<T> *z,
                                int now) {
  using C = compute_t<T>;
  z[0] += input_of(f, s, 0);
  if (s.reserve) s.reserve[0] = z[0];
  if (s.reserve) s.reserve[f.c.hidden] = ((const C *)f.h[now])[s.state];
  return write_state(f, s, cell_activate(f.c.k.enter, z[0], (C)f.c.k.clip), now);
}

/* The end of gru's step, z and h being its gates with all in them. */
template <class T>
__device__ compute_t<T> gru_end(const forward_call &f, const step_place<T> &s,
                                const compute_t<T> *z, compute_t<T> q, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  const C before = ((const C *)f.h[now])[s.state];
  for (int g = 0; g < 3 && s.reserve; g++) s.reserve[g * n] = z[g];
  if (s.reserve) s.reserve[3 * n] = before;
  if (s.reserve) s.reserve[4 * n] = q;
  const C h = cell_gru_step(z[0], z[2], before, (C)f.c.k.clip, f.c.k.gate, f.c.k.enter);
  return write_state(f, s, h, now);
}

/* Linear before reset: all in one. */
template <class T>
__device__ compute_t<T> gru_linear_end(const forward_call &f, const step_place<T> &s,
                                       compute_t<T> *z, int now) {
  using C = compute_t<T>;
  z[0] += input_of(f, s, 0);
  z[1] += input_of(f, s, 1);
  const C q =
      z[2] + (f.bias ? load(((const T *)f.bias)[(s.at.d * 6 + 5) * f.c.hidden + s.at.j]) : (C)0);
  z[2] = input_of(f, s, 2) + q * cell_activate(f.c.k.gate, z[1], (C)f.c.k.clip);
  return gru_end(f, s, z, q, now);
}

/* The gates z and r, and the state reset. */
template <class T>
__device__ compute_t<T> gru_reset(const forward_call &f, const step_place<T> &s, compute_t<T> *z,
                                  int now) {
  using C = compute_t<T>;
  z[0] += input_of(f, s, 0);
  z[1] += input_of(f, s, 1);
  ((C *)f.gates)[2 * s.state] = z[0];
  ((C *)f.gates)[2 * s.state + 1] = z[1];
  return ((C *)f.q)[s.state] =
             ((const C *)f.h[now])[s.state] * cell_activate(f.c.k.gate, z[1], (C)f.c.k.clip);
}

/* The gate h from the reset state's product, and the step's end. */
template <class T>
__device__ compute_t<T> gru_reset_end(const forward_call &f, const step_place<T> &s, compute_t<T> h,
                                      int now) {
  using C = compute_t<T>;
  const C *gates = (const C *)f.gates + 2 * s.state;
  const C z[3] = {gates[0], gates[1], h + input_of(f, s, 2)};
  return gru_end(f, s, z, ((const C *)f.q)[s.state], now);
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
