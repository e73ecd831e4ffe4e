/*
 * Recurrent networks on CUDA: what the operators and their gradients share. A step is a launch, or
 * two for gru; both directions go side by side. States and products are kept in the type that is
 * computed in, whatever the element type.
 */
#ifndef KERNELS_CUDA_RECURRENT_CUH
#define KERNELS_CUDA_RECURRENT_CUH

#include "kernels/common/recurrent.h"
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/recurrent/products.h"

#define CELL_FN static __device__ __forceinline__
#define CELL(name) cell_##name

CELL_FN float recurrent_sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
CELL_FN double recurrent_sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

#define CELL_SIGMOID recurrent_sigmoid
#define CELL_TANH tanh
#define C float
#include "kernels/common/recurrent_cell.inc"
#undef C
#define C double
#include "kernels/common/recurrent_cell.inc"
#undef C
#undef CELL_SIGMOID
#undef CELL_TANH

/* A block's share of a step: units of the state times sequences, and how deep it goes at once. */
enum { recurrent_tile = 16, recurrent_depth = 32, recurrent_threads = 256 };

/* A call as kernels see it. Pointers are NULL where there is no tensor. */
struct recurrent_call {
  int64_t steps, sequences, hidden, inputs;
  int64_t gates, grad_gates, reserved;
  int directions, direction;
  recurrent_cell k;
  const void *lengths;
  int wide_lengths;
};

static inline recurrent_call recurrent_call_of(uint32_t op, const tn_kernel_args *args,
                                               const DLTensor *u, const DLTensor *rows,
                                               const DLTensor *lengths) {
  const recurrent_sizes s = recurrent_sizes_of(op, args->attrs, u, rows);
  recurrent_call c = {};
  c.steps = s.steps;
  c.sequences = s.sequences;
  c.hidden = s.hidden;
  c.inputs = s.inputs;
  c.gates = s.gates;
  c.grad_gates = s.grad_gates;
  c.reserved = s.reserved;
  c.directions = (int)s.directions;
  c.direction = (int)s.direction;
  c.k = recurrent_cell_of(op, args->attrs);
  c.lengths = lengths ? lengths->data : NULL;
  c.wide_lengths = lengths && lengths->dtype.bits == 64;
  return c;
}

static inline void *recurrent_data(const DLTensor *t) { return t ? t->data : NULL; }

/* Where a sequence is at a step of its own count; -1 behind its end. */
CELL_FN int64_t recurrent_at(const recurrent_call &c, int d, int64_t sequence, int64_t step) {
  int64_t length = c.steps;
  if (c.lengths) {
    length = c.wide_lengths ? ((const int64_t *)c.lengths)[sequence]
                            : (int64_t)((const int32_t *)c.lengths)[sequence];
    length = length < 0 ? 0 : length > c.steps ? c.steps : length;
  }
  if (step >= length) return -1;
  return c.direction == 1 || d == 1 ? length - 1 - step : step;
}

/* Rows of [s, d, n, h], of [s, n, d, ...] and of [d, n, h]. */
CELL_FN int64_t recurrent_y_row(const recurrent_call &c, int d, int64_t t, int64_t b) {
  return (t * c.directions + d) * c.sequences + b;
}
CELL_FN int64_t recurrent_gate_row(const recurrent_call &c, int d, int64_t t, int64_t b) {
  return (t * c.sequences + b) * c.directions + d;
}
CELL_FN int64_t recurrent_state_row(const recurrent_call &c, int d, int64_t b) {
  return d * c.sequences + b;
}

/* The element that a thread of a step's kernel is for. */
struct recurrent_place {
  int d;
  int64_t b, j;
};
CELL_FN recurrent_place recurrent_place_of() {
  return {(int)blockIdx.z, (int64_t)blockIdx.y * recurrent_tile + threadIdx.x / recurrent_tile,
          (int64_t)blockIdx.x * recurrent_tile + threadIdx.x % recurrent_tile};
}

/* The same grid for every step: units by sequences by directions. */
static inline dim3 recurrent_grid(const recurrent_call &c) {
  return dim3((unsigned)ceil_div(c.hidden, recurrent_tile),
              (unsigned)ceil_div(c.sequences, recurrent_tile), (unsigned)c.directions);
}

/* --- products that somebody else computes --- */

/* Pieces of the workspace begin at multiples of this many bytes. */
static inline size_t recurrent_padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static inline cuda_recurrent_matrix recurrent_matrix(const void *at, int64_t ld, int64_t step) {
  const uint64_t bits = (uint64_t)(uintptr_t)at | 16;
  return {ld, step, (int32_t)(bits & -bits)};
}

/* The type that states and their products have. */
static inline tn_dtype recurrent_wide(tn_dtype dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

/* Of 16 bits, u is widened once a call: states are not rounded for products of 16 bits. */
template <class T>
__global__ void __launch_bounds__(recurrent_threads)
    recurrent_widen(const T *from, compute_t<T> *to, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * recurrent_threads + threadIdx.x;
  if (i < n) to[i] = load(from[i]);
}

/* pre: there is something to widen. */
template <class T>
static tn_status recurrent_widen_all(const tn_kernel_args *args, const recurrent_call &c,
                                     const void *u, void *to) {
  const int64_t n = c.directions * c.gates * c.hidden * c.hidden;
  return launch(args, recurrent_widen<T>, (unsigned)ceil_div(n, recurrent_threads),
                recurrent_threads, 0, (const T *)u, (compute_t<T> *)to, n);
}

/* From 2^16 terms a step on, cuBLASLt's product and the launch beside it are faster than going
 * through u tile by tile. */
static inline bool recurrent_is_large(const recurrent_call &c) {
  const double terms = (double)c.sequences * (double)(c.gates * c.hidden) * (double)c.hidden;
  return c.steps > 0 && c.hidden >= 64 && terms >= 65536;
}

/* acc[g] += sum over k of rows[b, k] u[(g units + j), k], or u[k, j] where it is not turned. Rows
 * are `pitch` apart. All threads of the block take part. */
template <class C, class T, int G, bool turned>
CELL_FN void recurrent_products(C (&acc)[G], const C *rows, int64_t pitch, const T *u,
                                int64_t units, int64_t depth, int64_t sequences) {
  __shared__ C row[recurrent_tile][recurrent_depth + 1];
  __shared__ C weight[G][recurrent_tile][recurrent_depth + 1];
  const int jj = threadIdx.x % recurrent_tile, bb = threadIdx.x / recurrent_tile;
  const int64_t first_b = (int64_t)blockIdx.y * recurrent_tile;
  const int64_t first_j = (int64_t)blockIdx.x * recurrent_tile;
  for (int64_t k0 = 0; k0 < depth; k0 += recurrent_depth) {
#pragma unroll 1
    for (int i = threadIdx.x; i < recurrent_tile * recurrent_depth; i += recurrent_threads) {
      const int kk = i % recurrent_depth, r = i / recurrent_depth;
      const bool inside = first_b + r < sequences && k0 + kk < depth;
      row[r][kk] = inside ? rows[(first_b + r) * pitch + k0 + kk] : (C)0;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < G * recurrent_tile * recurrent_depth; i += recurrent_threads) {
      const int g = i / (recurrent_tile * recurrent_depth),
                rest = i % (recurrent_tile * recurrent_depth);
      const int kk = turned ? rest % recurrent_depth : rest / recurrent_tile;
      const int r = turned ? rest / recurrent_depth : rest % recurrent_tile;
      const bool inside = first_j + r < units && k0 + kk < depth;
      const int64_t at =
          turned ? (g * units + first_j + r) * depth + k0 + kk : (k0 + kk) * units + first_j + r;
      weight[g][r][kk] = inside ? load(u[at]) : (C)0;
    }
    __syncthreads();
#pragma unroll 8
    for (int kk = 0; kk < recurrent_depth; kk++)
#pragma unroll
      for (int g = 0; g < G; g++) acc[g] += row[bb][kk] * weight[g][jj][kk];
    __syncthreads();
  }
}

#endif /* KERNELS_CUDA_RECURRENT_CUH */
