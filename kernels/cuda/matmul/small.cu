/*
 * Products so small that a launch is all they take: a block computes a 16 by 16 tile of y, a thread
 * an element of it, from panels of a and b in shared memory.
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

namespace {

enum { side = 16, panel = 64, threads = side * side, small_side = 64, small_sum = 128 };

/* Multiplications and additions up to which this is the quickest. */
const int64_t small_terms = (int64_t)1 << 19;

/* Of an operand: matrices of rows and columns. */
struct small_operand {
  int64_t row, column;        /* strides */
  int64_t batch[TN_MAX_RANK]; /* of y's batch axes */
};

struct small_call {
  const void *a, *b, *bias;
  void *y;
  small_operand of_a, of_b, of_y;
  int64_t bias_step;
  int m, n, k, tiles_m, tiles_n, rank, activation;
  int size[TN_MAX_RANK];
  bool brain;
};

/* Puts `rows` by `columns` elements from (row, column) on into a panel, zeros beyond the matrix'
 * end; threads side by side take elements that lie side by side. */
template <class T, int rows, int columns, class C>
__device__ __forceinline__ void read_panel(C (*to)[columns + 1], const T *from,
                                           const small_operand &o, int row, int column,
                                           int most_row, int most_column, bool brain) {
  const bool down = o.row == 1 && o.column != 1;
#pragma unroll
  for (int k = 0; k < rows * columns / threads; k++) {
    const int i = k * threads + threadIdx.x;
    const int r = down ? i % rows : i / columns, c = down ? i / rows : i % columns;
    const bool there = row + r < most_row && column + c < most_column;
    to[r][c] = there ? (C)load(from[(row + r) * o.row + (column + c) * o.column], brain) : (C)0;
  }
}

template <class T>
__global__ void __launch_bounds__(threads) small_product(const __grid_constant__ small_call c) {
  using C = accumulator_t<T>;
  __shared__ C left[side][panel + 1], right[panel][side + 1];
  const T *a = (const T *)c.a, *b = (const T *)c.b;
  T *y = (T *)c.y;
  int item = blockIdx.x / c.tiles_n, x = threadIdx.x % side, z = threadIdx.x / side;
  const int column = (blockIdx.x - item * c.tiles_n) * side;
  const int row = item % c.tiles_m * side;
  item /= c.tiles_m;
  for (int d = c.rank - 1; d >= 0; d--) {
    const int64_t at = item % c.size[d];
    item /= c.size[d];
    a += at * c.of_a.batch[d];
    b += at * c.of_b.batch[d];
    y += at * c.of_y.batch[d];
  }
  C sum = 0;
  for (int p = 0; p < c.k; p += panel) {
    if (p > 0) __syncthreads(); /* all have used the panels before */
    read_panel<T, side, panel>(left, a, c.of_a, row, p, c.m, c.k, c.brain);
    read_panel<T, panel, side>(right, b, c.of_b, p, column, c.k, c.n, c.brain);
    __syncthreads();
    const int count = least(panel, c.k - p);
#pragma unroll 8
    for (int e = 0; e < count; e++) sum += left[z][e] * right[e][x];
  }
  if (row + z >= c.m || column + x >= c.n) return;
  if (c.bias) sum += (C)load(((const T *)c.bias)[(column + x) * c.bias_step], c.brain);
  y[(row + z) * c.of_y.row + (column + x) * c.of_y.column] =
      rounded<T>(simply_activated(c.activation, sum), c.brain);
}

/* An operand stored with its axes swapped has its strides swapped. */
small_operand operand_of(const DLTensor *t, const DLTensor *y, bool swapped) {
  small_operand o = {};
  const int last = t->ndim - 1;
  o.row = t->strides[swapped ? last : last - 1];
  o.column = t->strides[swapped ? last - 1 : last];
  for (int d = 0; d < y->ndim - 2; d++) {
    const int axis = d - (y->ndim - t->ndim);
    o.batch[d] = axis < 0 || t->shape[axis] == 1 ? 0 : t->strides[axis];
  }
  return o;
}

int64_t summed(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0];
  return a->shape[a->ndim - (((const tn_matmul_attrs *)args->attrs)->trans_a ? 2 : 1)];
}

} // namespace

bool cuda_matmul_small_supports(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  const int64_t m = y->shape[y->ndim - 2], n = y->shape[y->ndim - 1], k = summed(args);
  if (m > small_side || n > small_side || k > small_sum || m < 1 || n < 1 || k < 1) return false;
  if (!is_simple_activation((int)((const tn_matmul_attrs *)args->attrs)->activation)) return false;
  const int64_t items = cuda_size(y, 0, y->ndim - 2);
  return items > 0 && items <= small_terms / (m * n * k);
}

tn_status cuda_run_matmul_small(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *bias = args->in[2], *y = args->out[0];
  const tn_matmul_attrs *attrs = (const tn_matmul_attrs *)args->attrs;
  small_call c = {};
  c.a = a->data;
  c.b = b->data;
  c.y = y->data;
  c.bias = bias ? bias->data : NULL;
  c.bias_step = bias && bias->shape[0] > 1 ? bias->strides[0] : 0;
  c.of_a = operand_of(a, y, attrs->trans_a);
  c.of_b = operand_of(b, y, attrs->trans_b);
  c.of_y = operand_of(y, y, false);
  c.m = (int)y->shape[y->ndim - 2];
  c.n = (int)y->shape[y->ndim - 1];
  c.k = (int)summed(args);
  c.tiles_m = (int)ceil_div(c.m, side);
  c.tiles_n = (int)ceil_div(c.n, side);
  c.rank = y->ndim - 2;
  for (int d = 0; d < c.rank; d++) c.size[d] = (int)y->shape[d];
  c.activation = (int)attrs->activation;
  c.brain = is_brain(y);
  const int64_t blocks = cuda_size(y, 0, c.rank) * c.tiles_m * c.tiles_n;
  return for_class(args, y, [&](auto t) {
    return launch(args, small_product<decltype(t)>, (unsigned)blocks, threads, 0, c);
  });
}
