/*
 * lstm, gru and rnn. The input's product with w is one launch over all steps; then each step takes
 * the state's product with u and goes on from there. See recurrent.cuh.
 */
#include "kernels/cuda/recurrent/recurrent_cells.cuh"

namespace {

enum { product_threads = 256, product_side = 16 };

/* Threads compute EACH by EACH results: one where larger tiles would leave most multiprocessors
 * idle. */
template <int EACH> struct product_tile {
  static constexpr int side = product_side * EACH, depth = 64 / EACH, unrolled = EACH == 1 ? 4 : 1;
};

/* --- products[d] = x w[d]^T + bias --- */

template <class T, int EACH>
__global__ void __launch_bounds__(product_threads)
    multiply_input(const __grid_constant__ forward_call f) {
  using C = compute_t<T>;
  constexpr int tile = product_tile<EACH>::side, depth = product_tile<EACH>::depth;
  __shared__ C left[depth][tile + 1], right[depth][tile + 1];
  const int64_t rows = f.c.steps * f.c.sequences, columns = f.c.gates * f.c.hidden, k = f.c.inputs;
  const int64_t first_row = (int64_t)blockIdx.y * tile, first_column = (int64_t)blockIdx.x * tile;
  const int d = (int)blockIdx.z, tx = threadIdx.x % product_side, ty = threadIdx.x / product_side;
  const T *x = (const T *)f.x, *w = (const T *)f.w + d * columns * k;
  C acc[EACH][EACH] = {};
  for (int64_t k0 = 0; k0 < k; k0 += depth) {
#pragma unroll(product_tile <EACH>::unrolled)
    for (int part = 0; part < tile * depth / product_threads; part++) {
      const int i = part * product_threads + (int)threadIdx.x, kk = i % depth, r = i / depth;
      const bool deep = k0 + kk < k;
      left[kk][r] = deep && first_row + r < rows ? load(x[(first_row + r) * k + k0 + kk]) : (C)0;
      right[kk][r] =
          deep && first_column + r < columns ? load(w[(first_column + r) * k + k0 + kk]) : (C)0;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < depth; kk++)
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
          acc[i][j] += left[kk][ty + i * product_side] * right[kk][tx + j * product_side];
    __syncthreads();
  }
  C *to = (C *)f.products + d * rows * columns;
  for (int i = 0; i < EACH; i++)
    for (int j = 0; j < EACH; j++) {
      const int64_t row = first_row + ty + i * product_side;
      const int64_t column = first_column + tx + j * product_side;
      if (row < rows && column < columns)
        to[row * columns + column] = acc[i][j] + (f.bias ? bias_at<T>(f, d, column) : (C)0);
    }
}

/* --- steps --- */

/* Where a number's word is: in the first half, or the second. */
__device__ int64_t word_at(const forward_call &f, const recurrent_place &at, int side) {
  return ((side * f.c.directions + at.d) * f.c.sequences + at.b) * resident_row(f.c.hidden) + at.j;
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    begin_states(const __grid_constant__ forward_call f) {
  using C = compute_t<T>;
  const recurrent_place at = recurrent_place_of();
  if (at.b >= f.c.sequences || at.j >= f.c.hidden) return;
  const int64_t i = recurrent_state_row(f.c, at.d, at.b) * f.c.hidden + at.j;
  ((C *)f.h[0])[i] = f.h0 ? load(((const T *)f.h0)[i]) : (C)0;
  if (f.cell) ((C *)f.cell)[i] = f.c0 ? load(((const T *)f.c0)[i]) : (C)0;
  if (f.plan.units == 0) return;
  for (int side = 0; side < 2; side++) {
    const int64_t word = word_at(f, at, side);
    resident_clear(f.words + word, at.j, f.c.hidden);
    if (f.q_words) resident_clear(f.q_words + word, at.j, f.c.hidden);
  }
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    end_states(const __grid_constant__ forward_call f, int last) {
  using C = compute_t<T>;
  const recurrent_place at = recurrent_place_of();
  if (at.b >= f.c.sequences || at.j >= f.c.hidden) return;
  const int64_t i = recurrent_state_row(f.c, at.d, at.b) * f.c.hidden + at.j;
  if (f.y_h) ((T *)f.y_h)[i] = stored<T>::from(((const C *)f.h[last])[i]);
  if (f.y_c) ((T *)f.y_c)[i] = stored<T>::from(((const C *)f.cell)[i]);
}

/* Products of the states h[now], or of q, with gates `first` on of u. */
template <class T, int G>
__device__ void products_of(const forward_call &f, const void *rows, int64_t first,
                            compute_t<T> (&acc)[G]) {
  using C = compute_t<T>;
  const int64_t n = f.c.hidden, d = blockIdx.z;
  if (f.sums) {
    const recurrent_place at = recurrent_place_of();
    if (at.b >= f.c.sequences || at.j >= n) return;
    const C *sums =
        (const C *)f.sums + (recurrent_state_row(f.c, at.d, at.b) * f.c.gates + first) * n + at.j;
#pragma unroll
    for (int g = 0; g < G; g++) acc[g] = sums[g * n];
    return;
  }
  recurrent_products<C, T, G, true>(acc, (const C *)rows + d * f.c.sequences * n, n,
                                    (const T *)f.u + (d * f.c.gates + first) * n * n, n, n,
                                    f.c.sequences);
}

template <class T, int G>
__global__ void __launch_bounds__(recurrent_threads)
    whole_step(const __grid_constant__ forward_call f, int64_t step, int now) {
  step_place<T> s;
  compute_t<T> z[G] = {};
  products_of<T, G>(f, f.h[now], 0, z);
  if (!find_place(f, recurrent_place_of(), step, &s)) return;
  if (s.t < 0)
    (void)write_rest(f, s, step, now);
  else if constexpr (G == 4)
    (void)lstm_end(f, s, z, now);
  else if constexpr (G == 1)
    (void)rnn_end(f, s, z, now);
  else
    (void)gru_linear_end(f, s, z, now);
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    gru_gates(const __grid_constant__ forward_call f, int64_t step, int now) {
  step_place<T> s;
  compute_t<T> z[2] = {};
  products_of<T, 2>(f, f.h[now], 0, z);
  if (find_place(f, recurrent_place_of(), step, &s)) (void)gru_reset(f, s, z, now);
}

template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    gru_step(const __grid_constant__ forward_call f, int64_t step, int now) {
  step_place<T> s;
  compute_t<T> h[1] = {};
  products_of<T, 1>(f, f.q, 2, h);
  if (!find_place(f, recurrent_place_of(), step, &s)) return;
  if (s.t < 0)
    (void)write_rest(f, s, step, now);
  else
    (void)gru_reset_end(f, s, h[0], now);
}

/* --- all steps in one launch --- */

/* What a block's vectors are before the first step. */
__device__ void gather_first(const forward_call &f, const resident_room &m, int d) {
  const float *h = (const float *)f.h[0] + d * f.c.sequences * f.c.hidden;
  const int n = (int)f.c.hidden;
  for (int x = threadIdx.x; x < (int)f.c.sequences * n; x += resident_threads)
    m.v[x / n * f.plan.pitch + x % n] = h[x];
}

/* A block is some units of a direction; each of its first threads has one of a sequence. */
template <class T>
__global__ void __launch_bounds__(resident_threads)
    all_steps(const __grid_constant__ forward_call f) {
  extern __shared__ __align__(16) float memory[];
  const int d = blockIdx.y, units = f.plan.units, gates = (int)f.c.gates;
  const int sequences = (int)f.c.sequences, n = (int)f.c.hidden, pitch = f.plan.pitch;
  const int of_state = f.q_words ? 2 : gates; /* gates that multiply it */
  const int64_t first = (int64_t)blockIdx.x * units;
  const int unit = (int)threadIdx.x % units, b = (int)threadIdx.x / units;
  const recurrent_place at = {d, b, first + unit}, begin = {d, 0, 0};
  const resident_room m = resident_room_of(memory, f.c, f.plan, 1);
  const float *own = m.z + unit * sequences + b;
  resident_load<T, true>(m.weight, (const T *)f.u + (int64_t)d * gates * n * n, f.c, f.plan, first);
  __syncthreads();
  for (int64_t step = 0; step < f.c.steps; step++) {
    const int now = (int)(step % 2);
    step_place<T> s;
    const bool active = find_place(f, at, step, &s);
    for (int g = 0; g < gates && active; g++) resident_touch(s.x + g * n);
    if (step == 0)
      gather_first(f, m, d);
    else
      resident_gather(m.v, pitch, f.words + word_at(f, begin, now), n, sequences, (uint32_t)step);
    __syncthreads();
    resident_products(m, f.plan, 0, of_state * units, sequences, false);
    __syncthreads();
    float z[4];
#pragma unroll
    for (int g = 0; g < 4; g++)
      if (g < of_state && active) z[g] = own[g * units * sequences];
    const uint32_t tag = (uint32_t)step + 1;
    if (f.q_words) {
      if (active) resident_put(f.q_words + word_at(f, at, now), gru_reset(f, s, z, now), tag);
      resident_gather(m.v, pitch, f.q_words + word_at(f, begin, now), n, sequences, tag);
      __syncthreads();
      resident_products(m, f.plan, 2 * units, 3 * units, sequences, false);
      __syncthreads();
    }
    if (!active) continue;
    const float h = !f.q_words ? end_of(f, s, step, z, now)
                    : s.t < 0  ? write_rest(f, s, step, now)
                               : gru_reset_end(f, s, own[2 * units * sequences], now);
    resident_put(f.words + word_at(f, at, 1 - now), h, tag);
  }
}

/* --- calls --- */

/* Lays the workspace out, from `base` on; its size in bytes. `apart`: somebody else multiplies. */
size_t lay_out(forward_call *f, char *base, tn_dtype dtype, bool apart) {
  const recurrent_call &c = f->c;
  const size_t size = dtype == TN_F64 ? 8 : 4;
  const size_t states = (size_t)(c.directions * c.sequences * c.hidden) * size;
  const size_t gates = (size_t)c.gates * states;
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    void *piece = base + at;
    at += recurrent_padded(bytes);
    return piece;
  };
  f->products = take((size_t)c.steps * gates);
  for (int i = 0; i < 2; i++) f->h[i] = take(states);
  if (c.gates == 4) f->cell = take(states);
  if (c.gates == 3) {
    f->gates = take(2 * states);
    f->q = take(states);
  }
  if (f->plan.units) {
    f->words = (uint2 *)take(resident_bytes(c, 1));
    if (c.gates == 3 && !c.k.coupled) f->q_words = (uint2 *)take(resident_bytes(c, 1));
  }
  if (!apart) return at;
  f->sums = take(gates);
  const bool wide = recurrent_wide(dtype) == dtype;
  f->wide =
      wide ? (void *)f->u : take((size_t)(c.directions * c.gates * c.hidden * c.hidden) * size);
  return at;
}

forward_call forward_of(const tn_kernel_args *args, uint32_t op) {
  forward_call f = {};
  f.c = recurrent_call_of(op, args, args->in[2], args->in[0], args->in[4]);
  f.x = args->in[0]->data;
  f.w = args->in[1]->data;
  f.u = args->in[2]->data;
  f.bias = recurrent_data(args->in[3]);
  f.h0 = recurrent_data(args->in[5]);
  f.y = args->out[0]->data;
  f.y_h = recurrent_data(args->out[1]);
  f.reserve = recurrent_data(args->out[op == TN_OP_LSTM ? 3 : 2]);
  if (op == TN_OP_LSTM) {
    f.c0 = recurrent_data(args->in[6]);
    f.p = recurrent_data(args->in[7]);
    f.y_c = recurrent_data(args->out[2]);
  }
  f.plan = resident_plan_of(args, f.c, cuda_dtype(args->out[0]), 1);
  return f;
}

/* Asks for the product of `rows` with the gates of u from `first` on. */
tn_status multiply_state(const forward_call &f, const cuda_recurrent_multiplier *by, int number,
                         const void *rows, int64_t first, size_t size) {
  if (!by) return TN_OK;
  const int64_t n = f.c.hidden;
  return by->multiply(by, number, (char *)f.sums + (size_t)(first * n) * size, rows,
                      (const char *)f.wide + (size_t)(first * n * n) * size);
}

template <class T>
tn_status run_step(const tn_kernel_args *args, const forward_call &f,
                   const cuda_recurrent_multiplier *by, int64_t step, int now) {
  const dim3 grid = recurrent_grid(f.c);
  const size_t size = sizeof(compute_t<T>);
  tn_status status = multiply_state(f, by, 1, f.h[now], 0, size);
  if (status != TN_OK) return status;
  if (f.c.gates == 4)
    return launch(args, whole_step<T, 4>, grid, recurrent_threads, 0, f, step, now);
  if (f.c.gates == 1)
    return launch(args, whole_step<T, 1>, grid, recurrent_threads, 0, f, step, now);
  if (f.c.k.coupled)
    return launch(args, whole_step<T, 3>, grid, recurrent_threads, 0, f, step, now);
  status = launch(args, gru_gates<T>, grid, recurrent_threads, 0, f, step, now);
  if (status == TN_OK) status = multiply_state(f, by, 2, f.q, 2, size);
  if (status != TN_OK) return status;
  return launch(args, gru_step<T>, grid, recurrent_threads, 0, f, step, now);
}

template <class T>
tn_status run_steps(const tn_kernel_args *args, const forward_call &f,
                    const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  tn_status status = TN_ERR_UNSUPPORTED;
  if constexpr (std::is_same_v<compute_t<T>, float>)
    if (f.plan.units) status = resident_launch(args, all_steps<T>, f.plan, c.directions, f);
  if (status != TN_ERR_UNSUPPORTED) return status;
  status = by && f.wide != f.u ? recurrent_widen_all<T>(args, c, f.u, f.wide) : TN_OK;
  for (int64_t step = 0; step < c.steps && status == TN_OK; step++)
    status = run_step<T>(args, f, by, step, (int)(step % 2));
  return status;
}

/* products = x w^T. */
template <class T>
tn_status run_input(const tn_kernel_args *args, const forward_call &f,
                    const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  const int64_t rows = c.steps * c.sequences;
  if (by) return by->multiply(by, 0, f.products, f.x, f.w);
  if (rows == 0) return TN_OK;
  const auto tiles = [&](int side) {
    return dim3((unsigned)ceil_div(c.gates * c.hidden, side), (unsigned)ceil_div(rows, side),
                (unsigned)c.directions);
  };
  const dim3 large = tiles(product_tile<4>::side), small = tiles(product_tile<1>::side);
  const int64_t blocks = (int64_t)large.x * large.y * large.z;
  if (4 * blocks <= ((const cuda_info *)args->device)->multiprocessors)
    return launch(args, multiply_input<T, 1>, small, product_threads, 0, f);
  return launch(args, multiply_input<T, 4>, large, product_threads, 0, f);
}

template <class T>
tn_status run_all(const tn_kernel_args *args, forward_call f, const cuda_recurrent_multiplier *by) {
  const recurrent_call &c = f.c;
  if (c.sequences * c.hidden == 0) return TN_OK;
  lay_out(&f, (char *)args->workspace, cuda_dtype(args->out[0]), by != NULL);
  const dim3 grid = recurrent_grid(c);
  tn_status status = launch(args, begin_states<T>, grid, recurrent_threads, 0, f);
  if (status == TN_OK) status = run_input<T>(args, f, by);
  if (status == TN_OK) status = run_steps<T>(args, f, by);
  if (status != TN_OK || !(f.y_h || f.y_c)) return status;
  return launch(args, end_states<T>, grid, recurrent_threads, 0, f, (int)(c.steps % 2));
}

tn_status run(const tn_kernel_args *args, uint32_t op, const cuda_recurrent_multiplier *by) {
  const forward_call f = forward_of(args, op);
  return for_float(args, args->out[0], [&](auto t) { return run_all<decltype(t)>(args, f, by); });
}

tn_status workspace(const tn_kernel_args *args, uint32_t op, size_t *bytes) {
  forward_call f = forward_of(args, op);
  *bytes = lay_out(&f, NULL, cuda_dtype(args->out[0]), false);
  return TN_OK;
}

/* The product of `rows` with `count` gates of u from `first` on. */
cuda_recurrent_product state_product(const forward_call &f, const void *rows, int64_t first,
                                     int64_t count, tn_dtype wide) {
  const int64_t n = f.c.hidden, b = f.c.sequences, pitch = f.c.gates * n;
  const size_t size = wide == TN_F64 ? 8 : 4;
  cuda_recurrent_product p = {};
  p.m = b;
  p.n = count * n;
  p.k = n;
  p.directions = f.c.directions;
  p.y = recurrent_matrix((char *)f.sums + (size_t)(first * n) * size, pitch, b * pitch);
  p.a = recurrent_matrix(rows, n, b * n);
  p.b = recurrent_matrix((char *)f.wide + (size_t)(first * n * n) * size, n, pitch * n);
  p.operands = p.result = wide;
  p.turned = true;
  return p;
}

cuda_recurrent_product input_product(const forward_call &f, tn_dtype dtype) {
  const recurrent_call &c = f.c;
  const int64_t rows = c.steps * c.sequences, columns = c.gates * c.hidden;
  cuda_recurrent_product p = {};
  p.m = rows;
  p.n = columns;
  p.k = c.inputs;
  p.directions = c.directions;
  p.y = recurrent_matrix(f.products, columns, rows * columns);
  p.a = recurrent_matrix(f.x, c.inputs, 0);
  p.b = recurrent_matrix(f.w, c.inputs, columns * c.inputs);
  p.operands = dtype;
  p.result = recurrent_wide(dtype);
  p.turned = true;
  return p;
}

} // namespace

int cuda_recurrent_products(const tn_kernel_args *args, cuda_recurrent_product *list,
                            size_t *bytes) {
  const tn_dtype dtype = cuda_dtype(args->out[0]), wide = recurrent_wide(dtype);
  forward_call f = forward_of(args, args->kernel->op);
  *bytes = lay_out(&f, (char *)args->workspace, dtype, true);
  const bool twice = f.c.gates == 3 && !f.c.k.coupled;
  list[0] = input_product(f, dtype);
  list[1] = state_product(f, f.h[0], 0, twice ? 2 : f.c.gates, wide);
  if (twice) list[2] = state_product(f, f.q, 2, 1, wide);
  return twice ? 3 : 2;
}

tn_status cuda_run_recurrent(const tn_kernel_args *args, const cuda_recurrent_multiplier *by) {
  return run(args, args->kernel->op, by);
}

bool cuda_recurrent_is_large(const tn_kernel_args *args) {
  const recurrent_call c = forward_of(args, args->kernel->op).c;
  return c.inputs > 0 && c.sequences <= 1 << 20 && recurrent_is_large(c);
}

/* Blocks are counted in 16 bits along all axes of a grid but the first. */
bool cuda_recurrent_supports(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  return x->shape[1] <= 1 << 20 &&
         x->shape[0] * x->shape[1] <= (int64_t)product_tile<4>::side * 65535;
}

tn_status cuda_lstm_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_LSTM, bytes);
}
tn_status cuda_gru_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_GRU, bytes);
}
tn_status cuda_rnn_workspace(const tn_kernel_args *args, size_t *bytes) {
  return workspace(args, TN_OP_RNN, bytes);
}
tn_status cuda_run_lstm(const tn_kernel_args *args) { return run(args, TN_OP_LSTM, NULL); }
tn_status cuda_run_gru(const tn_kernel_args *args) { return run(args, TN_OP_GRU, NULL); }
tn_status cuda_run_rnn(const tn_kernel_args *args) { return run(args, TN_OP_RNN, NULL); }
