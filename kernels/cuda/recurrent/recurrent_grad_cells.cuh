/*
 * A step of the gradient of lstm, gru or rnn, element by element: from gradients by the states to
 * those by the gates, which u is multiplied by. Steps that are launches and those of one launch
 * share it.
 */
#ifndef KERNELS_CUDA_RECURRENT_GRAD_CELLS_CUH
#define KERNELS_CUDA_RECURRENT_GRAD_CELLS_CUH

#include "kernels/cuda/recurrent/resident.cuh"

namespace {

struct backward_call {
  recurrent_call c;
  const void *u, *reserve, *dy, *dy_h, *dy_c, *dreserve, *p;
  void *dgates, *dh0, *dc0, *dp;
  /* Workspace, in the computing type: two of [d, n, h], lstm's by the cell or gru's by what is
   * reset, [d, n, gates h] of what u is multiplied by; [d, n, 3 h] doubles of lstm's peepholes. */
  void *dh[2], *dc, *du;
  double *peepholes;
  /* Where somebody else multiplies: what gru's gate h passes back, [d, n, h], and u widened, or u
   * itself. */
  void *back, *wide;
  /* Where all steps are one launch: its words, of what u is multiplied by. */
  resident_plan plan;
  uint2 *words;
};

/* One element of a step. */
template <class T> struct back_place {
  using C = compute_t<T>;
  recurrent_place at;
  int64_t t, state, gates; /* -1: behind the end; in [d, n, h]; in dgates, part g at gates + g h */
  const C *dr;             /* gradients of the reserve's parts likewise, or NULL */
  C row[6], dy;            /* the reserve's parts */
};

/* What steps pass on: gradients by the state and by lstm's cell, or by what gru's reset multiplies,
 * and the peepholes' sums. */
template <class T> struct back_state {
  compute_t<T> dh, dc;
  double sums[3];
};

template <class T>
__device__ bool find_place(const backward_call &f, const recurrent_place &at, int64_t step,
                           back_place<T> *s) {
  using C = compute_t<T>;
  const recurrent_call &c = f.c;
  s->at = at;
  const int d = s->at.d;
  const int64_t b = s->at.b, j = s->at.j;
  if (b >= c.sequences || j >= c.hidden) return false;
  s->t = recurrent_at(c, d, b, step);
  const int64_t row = recurrent_gate_row(c, d, s->t < 0 ? step : s->t, b);
  const int64_t part = row * c.reserved * c.hidden + j;
  const C *reserve = (const C *)f.reserve + part;
  s->state = recurrent_state_row(c, d, b) * c.hidden + j;
  s->gates = row * c.grad_gates * c.hidden + j;
  s->dr = f.dreserve ? (const C *)f.dreserve + part : NULL;
#pragma unroll
  for (int i = 0; i < 6; i++)
    if (i < c.reserved) s->row[i] = reserve[i * c.hidden];
  s->dy = f.dy && s->t >= 0 ? load(((const T *)f.dy)[recurrent_y_row(c, d, s->t, b) * c.hidden + j])
                            : (C)0;
  return true;
}

template <class T>
__device__ back_state<T> back_state_of(const backward_call &f, const back_place<T> &s, int side) {
  using C = compute_t<T>;
  back_state<T> w = {((const C *)f.dh[side])[s.state], ((const C *)f.dc)[s.state]};
  for (int g = 0; g < 3 && f.peepholes; g++) w.sums[g] = f.peepholes[3 * s.state + g];
  return w;
}
template <class T>
__device__ void keep_state(const backward_call &f, const back_place<T> &s, const back_state<T> &w,
                           int side) {
  using C = compute_t<T>;
  ((C *)f.dh[side])[s.state] = w.dh;
  ((C *)f.dc)[s.state] = w.dc;
  for (int g = 0; g < 3 && f.peepholes; g++) f.peepholes[3 * s.state + g] = w.sums[g];
}

/* What the reserve's own gradient adds to a part. */
template <class T>
__device__ compute_t<T> added(const backward_call &f, const back_place<T> &s, int part) {
  return s.dr ? s.dr[part * f.c.hidden] : (compute_t<T>)0;
}

template <class T>
__device__ void write_gate(const backward_call &f, const back_place<T> &s, int g, compute_t<T> dz) {
  ((T *)f.dgates)[s.gates + g * f.c.hidden] = stored<T>::from(dz);
}

/* Zeros behind a sequence's end; what is passed on stays as it was. */
template <class T>
__device__ void write_rest(const backward_call &f, const back_place<T> &s, compute_t<T> *u) {
  for (int g = 0; g < f.c.grad_gates; g++) write_gate(f, s, g, (compute_t<T>)0);
  u[0] = u[1] = u[2] = u[3] = 0;
}

/* What an element's u is multiplied by, and what passes it by. */
template <class T>
__device__ void lstm_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                          back_state<T> &w) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  C p[3] = {};
  for (int g = 0; g < 4; g++) u[g] = s.row[g];
  for (int g = 0; g < 3 && f.p; g++) p[g] = load(((const T *)f.p)[(s.at.d * 3 + g) * n + s.at.j]);
  const C before = s.row[4];
  const C cell =
      cell_lstm_back(&u[0], &u[1], &u[2], &u[3], before, w.dh + s.dy, &w.dc, p[1], added(f, s, 1),
                     (C)f.c.k.clip, f.c.k.gate, f.c.k.enter, f.c.k.leave, f.c.k.coupled);
  u[0] += added(f, s, 0);
  u[2] += added(f, s, 2);
  u[3] += added(f, s, 3);
  w.dc += added(f, s, 4) + u[0] * p[0] + u[2] * p[2];
  w.sums[0] += (double)u[0] * before;
  w.sums[1] += (double)u[1] * cell;
  w.sums[2] += (double)u[2] * before;
  for (int g = 0; g < 4; g++) write_gate(f, s, g, u[g]);
  w.dh = added(f, s, 5);
}

template <class T>
__device__ void rnn_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                         back_state<T> &w) {
  using C = compute_t<T>;
  const int code = f.c.k.enter;
  const C clip = (C)f.c.k.clip, z = s.row[0];
  u[0] = (w.dh + s.dy) * cell_slope(code, cell_activate(code, z, clip), z, clip) + added(f, s, 0);
  write_gate(f, s, 0, u[0]);
  w.dh = added(f, s, 1);
}

/* gru's gates z and h, in places 0 and 2. Of the reset, in place 1, later. */
template <class T>
__device__ void gru_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                         back_state<T> &w) {
  using C = compute_t<T>;
  C z = s.row[0], h = s.row[2];
  const C kept =
      cell_gru_back(&z, &h, s.row[3], w.dh + s.dy, (C)f.c.k.clip, f.c.k.gate, f.c.k.enter);
  write_gate(f, s, 0, u[0] = z + added(f, s, 0));
  write_gate(f, s, 2, u[2] = h + added(f, s, 2));
  u[1] = 0;
  w.dh = kept + added(f, s, 3);
  w.dc = added(f, s, 4);
}

/* The reset's gradient. Where the state was reset before the product, `back` is what the gate h
 * passes back. */
template <class T>
__device__ void gru_reset_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                               compute_t<T> back, back_state<T> &w) {
  using C = compute_t<T>;
  const bool linear = f.c.k.coupled;
  const C dq = w.dc + back, h = u[2], z = s.row[1];
  const C reset = cell_activate(f.c.k.gate, z, (C)f.c.k.clip);
  const C by_reset = linear ? h * s.row[4] : dq * s.row[3];
  u[1] = by_reset * cell_slope(f.c.k.gate, reset, z, (C)f.c.k.clip) + added(f, s, 1);
  write_gate(f, s, 1, u[1]);
  write_gate(f, s, 3, linear ? h * reset + dq : h);
  if (linear) /* what u is multiplied by for the gate h is what its product gets */
    u[2] = h * reset + dq;
  else
    w.dh += dq * reset;
}

/* A step up to gru's reset. */
template <class T>
__device__ void begin_of(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                         back_state<T> &w) {
  if (s.t < 0) return write_rest(f, s, u);
  if (f.c.gates == 4) return lstm_back(f, s, u, w);
  return f.c.gates == 1 ? rnn_back(f, s, u, w) : gru_back(f, s, u, w);
}

} // namespace

#endif /* KERNELS_CUDA_RECURRENT_GRAD_CELLS_CUH */
