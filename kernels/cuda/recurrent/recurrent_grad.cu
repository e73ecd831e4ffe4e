/*
 * Gradients of lstm, gru and rnn, from the last step to the first. A step takes the gradients by
 * its states apart into those by the gates, element by element, and then the product of these with
 * u, which is what the step before it gets. See recurrent.cuh.
 */
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

/* Where a number's word is: in the first half, or the second. */
__device__ int64_t word_at(const backward_call &f, const recurrent_place &at, int gate, int side) {
  const int64_t row = ((side * f.c.directions + at.d) * f.c.gates + gate) * f.c.sequences + at.b;
  return row * resident_row(f.c.hidden) + at.j;
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    begin_back(const __grid_constant__ backward_call f) {
  using C = compute_t<T>;
  const recurrent_place at = recurrent_place_of();
  if (at.b >= f.c.sequences || at.j >= f.c.hidden) return;
  const int64_t i = recurrent_state_row(f.c, at.d, at.b) * f.c.hidden + at.j;
  ((C *)f.dh[0])[i] = f.dy_h ? load(((const T *)f.dy_h)[i]) : (C)0;
  ((C *)f.dc)[i] = f.dy_c ? load(((const T *)f.dy_c)[i]) : (C)0;
  for (int g = 0; g < 3 && f.peepholes; g++) f.peepholes[3 * i + g] = 0;
  for (int g = 0; g < f.c.gates && f.words; g++)
    for (int side = 0; side < 2; side++)
      resident_clear(f.words + word_at(f, at, g, side), at.j, f.c.hidden);
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    end_back(const __grid_constant__ backward_call f, int last) {
  using C = compute_t<T>;
  const recurrent_place at = recurrent_place_of();
  if (at.b >= f.c.sequences || at.j >= f.c.hidden) return;
  const int64_t i = recurrent_state_row(f.c, at.d, at.b) * f.c.hidden + at.j;
  ((T *)f.dh0)[i] = stored<T>::from(((const C *)f.dh[last])[i]);
  if (f.dc0) ((T *)f.dc0)[i] = stored<T>::from(((const C *)f.dc)[i]);
  if (!f.peepholes || at.b != 0) return;
  for (int g = 0; g < 3; g++) { /* in the order of the sequences */
    double sum = 0;
    for (int64_t b = 0; b < f.c.sequences; b++)
      sum += f.peepholes[3 * (recurrent_state_row(f.c, at.d, b) * f.c.hidden + at.j) + g];
    ((T *)f.dp)[(at.d * 3 + g) * f.c.hidden + at.j] = stored<T>::from((C)sum);
  }
}

/* One element of a step. */
template <class T> struct back_place {
  using C = compute_t<T>;
  recurrent_place at;
  int64_t t, state, gates; /* -1: behind the end; in [d, n, h]; in dgates, part g at gates + g h */
  const C *row, *dr;       /* the reserve's parts likewise, and their gradients or NULL */
  C *du;                   /* what u is multiplied by, gate g at du[g h] */
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
  s->state = recurrent_state_row(c, d, b) * c.hidden + j;
  s->gates = row * c.grad_gates * c.hidden + j;
  s->row = (const C *)f.reserve + part;
  s->dr = f.dreserve ? (const C *)f.dreserve + part : NULL;
  s->du = (C *)f.du + recurrent_state_row(c, d, b) * c.gates * c.hidden + j;
  return true;
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

/* Zeros behind a sequence's end, and what is passed on as it was. */
template <class T>
__device__ void write_rest(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                           int now) {
  using C = compute_t<T>;
  for (int g = 0; g < f.c.grad_gates; g++) write_gate(f, s, g, (C)0);
  u[0] = u[1] = u[2] = u[3] = 0;
  ((C *)f.dh[1 - now])[s.state] = ((const C *)f.dh[now])[s.state];
}

template <class T>
__device__ compute_t<T> state_gradient(const backward_call &f, const back_place<T> &s, int now) {
  using C = compute_t<T>;
  const C dh = ((const C *)f.dh[now])[s.state];
  if (!f.dy) return dh;
  return dh +
         load(((const T *)f.dy)[recurrent_y_row(f.c, s.at.d, s.t, s.at.b) * f.c.hidden + s.at.j]);
}

/* What an element's u is multiplied by, and what passes it by. */
template <class T>
__device__ void lstm_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                          int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  C z[4], p[3] = {}, *dc = (C *)f.dc + s.state;
  for (int g = 0; g < 4; g++) z[g] = s.row[g * n];
  for (int g = 0; g < 3 && f.p; g++) p[g] = load(((const T *)f.p)[(s.at.d * 3 + g) * n + s.at.j]);
  const C before = s.row[4 * n];
  const C cell = cell_lstm_back(&z[0], &z[1], &z[2], &z[3], before, state_gradient(f, s, now), dc,
                                p[1], added(f, s, 1), (C)f.c.k.clip, f.c.k.gate, f.c.k.enter,
                                f.c.k.leave, f.c.k.coupled);
  z[0] += added(f, s, 0);
  z[2] += added(f, s, 2);
  z[3] += added(f, s, 3);
  *dc += added(f, s, 4) + z[0] * p[0] + z[2] * p[2];
  double *sums = f.peepholes + 3 * s.state;
  sums[0] += (double)z[0] * before;
  sums[1] += (double)z[1] * cell;
  sums[2] += (double)z[2] * before;
  for (int g = 0; g < 4; g++) write_gate(f, s, g, u[g] = z[g]);
  ((C *)f.dh[1 - now])[s.state] = added(f, s, 5);
}

template <class T>
__device__ void rnn_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u, int now) {
  using C = compute_t<T>;
  const int code = f.c.k.enter;
  const C clip = (C)f.c.k.clip, z = s.row[0];
  u[0] = state_gradient(f, s, now) * cell_slope(code, cell_activate(code, z, clip), z, clip) +
         added(f, s, 0);
  write_gate(f, s, 0, u[0]);
  ((C *)f.dh[1 - now])[s.state] = added(f, s, 1);
}

/* gru's gates z and h, in places 0 and 2. Of the reset, in place 1, later. */
template <class T>
__device__ void gru_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  C z = s.row[0], h = s.row[2 * n];
  const C kept = cell_gru_back(&z, &h, s.row[3 * n], state_gradient(f, s, now), (C)f.c.k.clip,
                               f.c.k.gate, f.c.k.enter);
  write_gate(f, s, 0, u[0] = z + added(f, s, 0));
  write_gate(f, s, 2, u[2] = h + added(f, s, 2));
  u[1] = 0;
  ((C *)f.dh[1 - now])[s.state] = kept + added(f, s, 3);
  ((C *)f.dc)[s.state] = added(f, s, 4);
}

/* The reset's gradient. Where the state was reset before the product, `back` is what the gate h
 * passes back. */
template <class T>
__device__ void gru_reset_back(const backward_call &f, const back_place<T> &s, compute_t<T> *u,
                               compute_t<T> back, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden;
  const bool linear = f.c.k.coupled;
  const C dq = ((const C *)f.dc)[s.state] + back, h = u[2], z = s.row[n];
  const C reset = cell_activate(f.c.k.gate, z, (C)f.c.k.clip);
  const C by_reset = linear ? h * s.row[4 * n] : dq * s.row[3 * n];
  u[1] = by_reset * cell_slope(f.c.k.gate, reset, z, (C)f.c.k.clip) + added(f, s, 1);
  write_gate(f, s, 1, u[1]);
  write_gate(f, s, 3, linear ? h * reset + dq : h);
  if (linear) /* what u is multiplied by for the gate h is what its product gets */
    u[2] = h * reset + dq;
  else
    ((C *)f.dh[1 - now])[s.state] += dq * reset;
}

/* A step up to gru's reset. */
template <class T>
__device__ void begin_of(const backward_call &f, const back_place<T> &s, compute_t<T> *u, int now) {
  if (s.t < 0) return write_rest(f, s, u, now);
  if (f.c.gates == 4) return lstm_back(f, s, u, now);
  return f.c.gates == 1 ? rnn_back(f, s, u, now) : gru_back(f, s, u, now);
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    begin_step(const __grid_constant__ backward_call f, int64_t step, int now) {
  back_place<T> s;
  compute_t<T> u[4];
  if (!find_place(f, recurrent_place_of(), step, &s)) return;
  begin_of(f, s, u, now);
#pragma unroll
  for (int g = 0; g < 4; g++)
    if (g < f.c.gates) s.du[g * f.c.hidden] = u[g];
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    gru_reset(const __grid_constant__ backward_call f, int64_t step, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden, d = blockIdx.z;
  back_place<T> s;
  C back[1] = {}, u[4];
  if (!f.c.k.coupled && !f.back)
    recurrent_products<C, T, 1, false>(back, (const C *)f.du + d * f.c.sequences * 3 * n + 2 * n,
                                       3 * n, (const T *)f.u + (d * 3 + 2) * n * n, n, n,
                                       f.c.sequences);
  if (!find_place(f, recurrent_place_of(), step, &s) || s.t < 0) return;
  if (!f.c.k.coupled && f.back) back[0] = ((const C *)f.back)[s.state];
  u[2] = s.du[2 * n];
  gru_reset_back(f, s, u, back[0], now);
  s.du[n] = u[1];
  s.du[2 * n] = u[2];
}

/* What the products with u pass back, of the first `used` gates. */
template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    back_state(const __grid_constant__ backward_call f, int64_t used, int now) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden, d = blockIdx.z;
  const recurrent_place at = recurrent_place_of();
  C back[1] = {};
  recurrent_products<C, T, 1, false>(back, (const C *)f.du + d * f.c.sequences * f.c.gates * n,
                                     f.c.gates * n, (const T *)f.u + d * f.c.gates * n * n, n,
                                     used * n, f.c.sequences);
  if (at.b >= f.c.sequences || at.j >= n) return;
  ((C *)f.dh[1 - now])[recurrent_state_row(f.c, at.d, at.b) * n + at.j] += back[0];
}

/* --- all steps in one launch --- */

/* Begins to read what a step takes from memory. */
template <class T> __device__ void touch(const backward_call &f, const back_place<T> &s) {
  for (int part = 0; part < f.c.reserved; part++) resident_touch(s.row + part * f.c.hidden);
  for (int part = 0; part < f.c.reserved && s.dr; part++) resident_touch(s.dr + part * f.c.hidden);
  if (f.dy && s.t >= 0)
    resident_touch((const T *)f.dy + recurrent_y_row(f.c, s.at.d, s.t, s.at.b) * f.c.hidden +
                   s.at.j);
}

/* Products of `count` gates from `first` on with u, of which all blocks give theirs. */
__device__ void resident_exchange(const backward_call &f, const resident_room &m,
                                  const recurrent_place &at, bool active, const float *u, int first,
                                  int count, int side, uint32_t tag) {
  const int sequences = (int)f.c.sequences, units = f.plan.units;
#pragma unroll
  for (int g = 0; g < 4; g++)
    if (active && g >= first && g < first + count)
      resident_put(f.words + word_at(f, at, g, side), u[g], tag);
  resident_gather(m.v + first * sequences * f.plan.pitch, f.plan.pitch,
                  f.words + word_at(f, {at.d, 0, 0}, first, side), (int)f.c.hidden,
                  count * sequences, tag);
  __syncthreads();
  resident_products(m, f.plan, first * units, (first + count) * units, sequences, true);
  __syncthreads();
}

/* A block is some units of a direction; each of its first threads has one of a sequence. */
template <class T>
__global__ void __launch_bounds__(resident_threads)
    all_steps(const __grid_constant__ backward_call f) {
  extern __shared__ __align__(16) float memory[];
  const int d = blockIdx.y, units = f.plan.units, gates = (int)f.c.gates;
  const int sequences = (int)f.c.sequences, n = (int)f.c.hidden;
  const bool twice = gates == 3 && !f.c.k.coupled;
  const int64_t first = (int64_t)blockIdx.x * units;
  const int unit = (int)threadIdx.x % units, b = (int)threadIdx.x / units;
  const recurrent_place at = {d, b, first + unit};
  const resident_room m = resident_room_of(memory, f.c, f.plan, gates);
  const float *own = m.z + unit * sequences + b;
  resident_load<T, false>(m.weight, (const T *)f.u + (int64_t)d * gates * n * n, f.c, f.plan,
                          first);
  __syncthreads();
  back_place<T> s;
  bool active = find_place(f, at, f.c.steps - 1, &s);
  for (int64_t step = f.c.steps - 1; step >= 0; step--) {
    const int now = (int)((f.c.steps - 1 - step) % 2);
    const uint32_t tag = (uint32_t)(f.c.steps - step);
    float u[4] = {};
    if (active) begin_of(f, s, u, now);
    if (twice) resident_exchange(f, m, at, active, u, 2, 1, now, tag);
    if (active && gates == 3 && s.t >= 0)
      gru_reset_back(f, s, u, twice ? own[2 * units * sequences] : 0.0f, now);
    float *dh = (float *)f.dh[1 - now] + s.state;
    if (active && step > 0 && find_place(f, at, step - 1, &s)) touch(f, s);
    resident_exchange(f, m, at, active, u, 0, twice ? 2 : gates, now, tag);
    float sum = 0;
    for (int g = 0; g < (twice ? 2 : gates) && active; g++) sum += own[g * units * sequences];
    if (active) *dh += sum;
  }
}

/* --- calls --- */

/* `apart`: somebody else multiplies. */
size_t lay_out(backward_call *f, char *base, tn_dtype dtype, bool apart) {
  const recurrent_call &c = f->c;
  const size_t size = dtype == TN_F64 ? 8 : 4;
  const size_t states = (size_t)(c.directions * c.sequences * c.hidden);
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    void *piece = base + at;
    at += recurrent_padded(bytes);
    return piece;
  };
  f->peepholes = c.gates == 4 ? (double *)take(3 * states * sizeof(double)) : NULL;
  for (int i = 0; i < 2; i++) f->dh[i] = take(states * size);
  f->dc = take(states * size);
  f->du = take((size_t)c.gates * states * size);
  if (f->plan.units) f->words = (uint2 *)take(resident_bytes(c, c.gates));
  if (!apart) return at;
  if (c.gates == 3 && !c.k.coupled) f->back = take(states * size);
  const bool wide = recurrent_wide(dtype) == dtype;
  f->wide =
      wide ? (void *)f->u : take((size_t)(c.directions * c.gates * c.hidden * c.hidden) * size);
  return at;
}

backward_call backward_of(const tn_kernel_args *args, uint32_t op) {
  backward_call f = {};
  f.c = recurrent_call_of(op, args, args->in[0], args->in[1], args->in[2]);
  f.u = args->in[0]->data;
  f.reserve = args->in[1]->data;
  f.dy = recurrent_data(args->in[3]);
  f.dy_h = recurrent_data(args->in[4]);
  f.dreserve = recurrent_data(args->in[5]);
  f.dgates = args->out[0]->data;
  f.dh0 = args->out[1]->data;
  if (op == TN_OP_LSTM_GRAD) {
    f.dy_c = recurrent_data(args->in[6]);
    f.p = recurrent_data(args->in[7]);
    f.dc0 = args->out[2]->data;
    f.dp = args->out[3]->data;
  }
  f.plan = resident_plan_of(args, f.c, cuda_dtype(args->out[0]), f.c.gates);
  return f;
}

template <class T>
tn_status run_gates(const tn_kernel_args *args, const backward_call &f,
                    const cuda_recurrent_multiplier *by, int64_t step, int now) {
  using C = compute_t<T>;
  const dim3 grid = recurrent_grid(f.c);
  const int64_t n = f.c.hidden;
  tn_status status = launch(args, begin_step<T>, grid, recurrent_threads, 0, f, step, now);
  if (f.c.gates != 3) return status;
  if (status == TN_OK && by && !f.c.k.coupled)
    status = by->multiply(by, 1, f.back, (const C *)f.du + 2 * n, (const C *)f.wide + 2 * n * n);
  if (status != TN_OK) return status;
  return launch(args, gru_reset<T>, grid, recurrent_threads, 0, f, step, now);
}

/* Gates of which back_state passes the products back; gru's gate h goes by way of its reset. */
int64_t gates_back(const recurrent_call &c) { return c.gates == 3 && !c.k.coupled ? 2 : c.gates; }

template <class T>
tn_status run_step(const tn_kernel_args *args, const backward_call &f,
                   const cuda_recurrent_multiplier *by, int64_t step, int now) {
  const tn_status status = run_gates<T>(args, f, by, step, now);
  if (status != TN_OK) return status;
  if (by) return by->multiply(by, 0, f.dh[1 - now], f.du, f.wide);
  return launch(args, back_state<T>, recurrent_grid(f.c), recurrent_threads, 0, f, gates_back(f.c),
                now);
}

template <class T>
tn_status run_steps(const tn_kernel_args *args, const backward_call &f,
                    const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  tn_status status = TN_ERR_UNSUPPORTED;
  if constexpr (std::is_same_v<compute_t<T>, float>)
    if (f.plan.units) status = resident_launch(args, all_steps<T>, f.plan, c.directions, f);
  if (status != TN_ERR_UNSUPPORTED) return status;
  status = by && f.wide != f.u ? recurrent_widen_all<T>(args, c, f.u, f.wide) : TN_OK;
  for (int64_t step = c.steps - 1; step >= 0 && status == TN_OK; step--)
    status = run_step<T>(args, f, by, step, (int)((c.steps - 1 - step) % 2));
  return status;
}

/* Sequences there are none of leave dp to be cleared. */
template <class T> __global__ void clear(T *to, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * recurrent_threads + threadIdx.x;
  if (i < n) to[i] = stored<T>::from((compute_t<T>)0);
}

template <class T>
tn_status run_all(const tn_kernel_args *args, backward_call f,
                  const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  const int64_t peepholes = f.dp ? c.directions * 3 * c.hidden : 0;
  if (c.sequences == 0 && peepholes)
    return launch(args, clear<T>, (unsigned)ceil_div(peepholes, recurrent_threads),
                  recurrent_threads, 0, (T *)f.dp, peepholes);
  if (c.sequences * c.hidden == 0) return TN_OK;
  lay_out(&f, (char *)args->workspace, cuda_dtype(args->out[0]), by != NULL);
  const dim3 grid = recurrent_grid(c);
  tn_status status = launch(args, begin_back<T>, grid, recurrent_threads, 0, f);
  if (status == TN_OK) status = run_steps<T>(args, f, by);
  if (status != TN_OK) return status;
  return launch(args, end_back<T>, grid, recurrent_threads, 0, f, (int)(c.steps % 2));
}

tn_status run(const tn_kernel_args *args, uint32_t op, const cuda_recurrent_multiplier *by) {
  const backward_call f = backward_of(args, op);
  return for_float(args, args->out[0], [&](auto t) { return run_all<decltype(t)>(args, f, by); });
}

tn_status workspace(const tn_kernel_args *args, uint32_t op, size_t *bytes) {
  backward_call f = backward_of(args, op);
  *bytes = lay_out(&f, NULL, cuda_dtype(args->out[0]), false);
  return TN_OK;
}

/* What `count` gates from `first` on pass back to y. */
cuda_recurrent_product back_product(const backward_call &f, void *y, int64_t first, int64_t count,
                                    tn_dtype wide) {
  const int64_t n = f.c.hidden, b = f.c.sequences, pitch = f.c.gates * n;
  const size_t size = wide == TN_F64 ? 8 : 4;
  cuda_recurrent_product p = {};
  p.m = b;
  p.n = n;
  p.k = count * n;
  p.directions = f.c.directions;
  p.y = recurrent_matrix(y, n, b * n);
  p.a = recurrent_matrix((char *)f.du + (size_t)(first * n) * size, pitch, b * pitch);
  p.b = recurrent_matrix((char *)f.wide + (size_t)(first * n * n) * size, n, pitch * n);
  p.operands = p.result = wide;
  return p;
}

} // namespace

int cuda_recurrent_grad_products(const tn_kernel_args *args, cuda_recurrent_product *list,
                                 size_t *bytes) {
  const tn_dtype dtype = cuda_dtype(args->out[0]), wide = recurrent_wide(dtype);
  backward_call f = backward_of(args, args->kernel->op);
  *bytes = lay_out(&f, (char *)args->workspace, dtype, true);
  list[0] = back_product(f, f.dh[0], 0, gates_back(f.c), wide);
  list[0].adds = true;
  if (!f.back) return 1;
  list[1] = back_product(f, f.back, 2, 1, wide);
  return 2;
}

tn_status cuda_run_recurrent_grad(const tn_kernel_args *args, const cuda_recurrent_multiplier *by) {
  return run(args, args->kernel->op, by);
}

bool cuda_recurrent_grad_is_large(const tn_kernel_args *args) {
  const recurrent_call c = backward_of(args, args->kernel->op).c;
  return c.sequences <= 1 << 20 && recurrent_is_large(c);
}

bool cuda_recurrent_grad_supports(const tn_kernel_args *args) {
  return args->in[1]->shape[1] <= 1 << 20;
}

tn_status cuda_lstm_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_LSTM_GRAD, bytes);
}
tn_status cuda_gru_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_GRU_GRAD, bytes);
}
tn_status cuda_rnn_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_RNN_GRAD, bytes);
}
tn_status cuda_run_lstm_grad(const tn_kernel_args *args) {
  return run(args, TN_OP_LSTM_GRAD, NULL);
}
tn_status cuda_run_gru_grad(const tn_kernel_args *args) { return run(args, TN_OP_GRU_GRAD, NULL); }
tn_status cuda_run_rnn_grad(const tn_kernel_args *args) { return run(args, TN_OP_RNN_GRAD, NULL); }
