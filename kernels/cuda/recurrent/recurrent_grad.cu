/*
 * Gradients of lstm, gru and rnn, from the last step to the first. A step takes the gradients by
 * its states apart into those by the gates, element by element, and then the product of these with
 * u, which is what the step before it gets. See recurrent.cuh.
 */
#include "kernels/cuda/recurrent/recurrent_grad_cells.cuh"

namespace {

/* The element's gradients before the first step. */
template <class T> __device__ void begin_state(const backward_call &f, const recurrent_place &at) {
  using C = compute_t<T>;
  const int64_t i = recurrent_state_row(f.c, at.d, at.b) * f.c.hidden + at.j;
  ((C *)f.dh[0])[i] = f.dy_h ? load(((const T *)f.dy_h)[i]) : (C)0;
  ((C *)f.dc)[i] = f.dy_c ? load(((const T *)f.dy_c)[i]) : (C)0;
  for (int g = 0; g < 3 && f.peepholes; g++) f.peepholes[3 * i + g] = 0;
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    begin_back(const __grid_constant__ backward_call f) {
  const recurrent_place at = recurrent_place_of();
  if (at.b >= f.c.sequences || at.j >= f.c.hidden) return;
  begin_state<T>(f, at);
  if (f.words) resident_clear(f.c, f.plan, f.words, at);
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

/* What u is multiplied by, gate g at [g h]. */
template <class T>
__device__ compute_t<T> *passed_of(const backward_call &f, const back_place<T> &s) {
  return (compute_t<T> *)f.du + recurrent_state_row(f.c, s.at.d, s.at.b) * f.c.gates * f.c.hidden +
         s.at.j;
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    begin_step(const __grid_constant__ backward_call f, int64_t step, int now) {
  back_place<T> s;
  compute_t<T> u[4];
  if (!find_place(f, recurrent_place_of(), step, &s)) return;
  back_state<T> w = back_state_of(f, s, now);
  begin_of(f, s, u, w);
  keep_state(f, s, w, 1 - now);
#pragma unroll
  for (int g = 0; g < 4; g++)
    if (g < f.c.gates) passed_of(f, s)[g * f.c.hidden] = u[g];
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
  C *passed = passed_of(f, s);
  back_state<T> w = back_state_of(f, s, 1 - now);
  u[2] = passed[2 * n];
  gru_reset_back(f, s, u, back[0], w);
  keep_state(f, s, w, 1 - now);
  passed[n] = u[1];
  passed[2 * n] = u[2];
}

/* What the products with u pass back, of the first `used` gates. */
template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    pass_back(const __grid_constant__ backward_call f, int64_t used, int now) {
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

/* Products of `count` gates from `first` on with u, of which all blocks give theirs. */
__device__ void resident_exchange(const backward_call &f, const resident_room &m,
                                  const resident_words &words, const recurrent_place &at,
                                  bool active, const float *u, int first, int count, int side,
                                  uint32_t tag) {
  const int sequences = (int)f.c.sequences, units = f.plan.units;
#pragma unroll
  for (int g = 0; g < 4; g++)
    if (active && g >= first && g < first + count)
      resident_put(words, side, g * sequences + (int)at.b, at.j, u[g], tag);
  resident_gather(m.v + first * sequences * f.plan.pitch, f.plan.pitch, words, side,
                  first * sequences, count * sequences, (int)f.c.hidden, tag);
  __syncthreads();
  resident_products(m, f.plan, first * units, (first + count) * units, sequences, true);
  __syncthreads();
}

/* A block is some units of a direction; each of its first threads has one of a sequence. */
template <class T>
__global__ void __launch_bounds__(resident_threads, 1)
    all_steps(const __grid_constant__ backward_call f) {
  extern __shared__ __align__(16) float memory[];
  const int d = blockIdx.y, units = f.plan.units, gates = (int)f.c.gates;
  const int sequences = (int)f.c.sequences, n = (int)f.c.hidden;
  const bool twice = gates == 3 && !f.c.k.coupled;
  const int64_t first = (int64_t)blockIdx.x * units;
  const int unit = (int)threadIdx.x % units, b = (int)threadIdx.x / units;
  const recurrent_place at = {d, b, first + unit};
  const resident_room m = resident_room_of(memory, f.c, f.plan);
  const resident_words words = resident_words_of(f.c, f.plan, f.words, m.words);
  const float *own = m.z + unit * sequences + b;
  resident_load<T, false>(m.weight, (const T *)f.u + (int64_t)d * gates * n * n, f.c, f.plan,
                          first);
  __syncthreads();
  back_place<T> s;
  back_state<T> w = {};
  const bool active = find_place(f, at, f.c.steps - 1, &s);
  if (active) begin_state<T>(f, at);
  if (active) w = back_state_of(f, s, 0);
  for (int64_t step = f.c.steps - 1; step >= 0; step--) {
    const uint32_t tag = (uint32_t)(f.c.steps - step);
    const int side = (int)(tag % 2);
    float u[4] = {};
    if (active) begin_of(f, s, u, w);
    if (twice) resident_exchange(f, m, words, at, active, u, 2, 1, side, tag);
    if (active && gates == 3 && s.t >= 0)
      gru_reset_back(f, s, u, twice ? own[2 * units * sequences] : 0.0f, w);
    if (active && step > 0) (void)find_place(f, at, step - 1, &s);
    resident_exchange(f, m, words, at, active, u, 0, twice ? 2 : gates, side, tag);
    for (int g = 0; g < (twice ? 2 : gates) && active; g++) w.dh += own[g * units * sequences];
  }
  if (active) keep_state(f, s, w, (int)(f.c.steps % 2));
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
  if (f->plan.units) f->words = (uint2 *)take(resident_bytes(c, f->plan));
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
  f.plan = resident_plan_of(args, f.c, cuda_dtype(args->out[0]), (int)f.c.gates, (int)f.c.gates);
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

/* Gates of which pass_back passes the products back; gru's gate h goes by way of its reset. */
int64_t gates_back(const recurrent_call &c) { return c.gates == 3 && !c.k.coupled ? 2 : c.gates; }

template <class T>
tn_status run_step(const tn_kernel_args *args, const backward_call &f,
                   const cuda_recurrent_multiplier *by, int64_t step, int now) {
  const tn_status status = run_gates<T>(args, f, by, step, now);
  if (status != TN_OK) return status;
  if (by) return by->multiply(by, 0, f.dh[1 - now], f.du, f.wide);
  return launch(args, pass_back<T>, recurrent_grid(f.c), recurrent_threads, 0, f, gates_back(f.c),
                now);
}

/* All steps by one launch; TN_ERR_UNSUPPORTED where they are no such call's. */
template <class T> tn_status run_resident(const tn_kernel_args *args, const backward_call &f) {
  if constexpr (std::is_same_v<compute_t<T>, float>)
    if (f.plan.units) return resident_launch(args, all_steps<T>, f.c.directions, f);
  return TN_ERR_UNSUPPORTED;
}

template <class T>
tn_status run_steps(const tn_kernel_args *args, const backward_call &f,
                    const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  tn_status status = launch(args, begin_back<T>, recurrent_grid(c), recurrent_threads, 0, f);
  if (status == TN_OK && by && f.wide != f.u) status = recurrent_widen_all<T>(args, c, f.u, f.wide);
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
  tn_status status = TN_OK;
  if (f.plan.units && !f.plan.cluster) /* clears the words */
    status = launch(args, begin_back<T>, grid, recurrent_threads, 0, f);
  if (status == TN_OK) status = run_resident<T>(args, f);
  if (status == TN_ERR_UNSUPPORTED) status = run_steps<T>(args, f, by);
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
