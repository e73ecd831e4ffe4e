/* matmul_integer, matmul_zero_points and qlinear_matmul: tiles of integer_tiles.cuh over matrices
 * of any strides. */
#include "kernels/cuda/matmul/integer_tiles.cuh"

namespace {

matrix_operand operand_of(const DLTensor *t, const DLTensor *zero, bool columns,
                          const DLTensor *y) {
  const int row = t->ndim - 2, col = t->ndim - 1;
  matrix_operand x = {};
  x.data = (const unsigned char *)t->data;
  x.zero = numbers_of<unsigned char>(zero);
  x.flip = flip_of(t);
  x.vectors = t->shape[columns ? col : row];
  x.step = t->strides[columns ? col : row];
  x.along = t->strides[columns ? row : col];
  x.batch = matrix_batch_of(t, y);
  return x;
}

template <class Sink>
tn_status multiply(const tn_kernel_args *args, const DLTensor *a, const DLTensor *a_zero,
                   const DLTensor *b, const DLTensor *b_zero, Sink sink) {
  const DLTensor *y = args->out[0];
  tiles_call<matrix_operand, matrix_operand, Sink> c = {};
  c.a = operand_of(a, a_zero, false, y);
  c.b = operand_of(b, b_zero, true, y);
  c.k = a->shape[a->ndim - 1];
  c.y = sink;
  c.y.batch = matrix_batch_of(y, y);
  c.y.row = y->strides[y->ndim - 2];
  c.y.col = y->strides[y->ndim - 1];
  return run_tiles(args, c, cuda_size(y, 0, y->ndim - 2));
}

} // namespace

tn_status cuda_run_matmul_zero_points(const tn_kernel_args *args) {
  sum_sink sink = {};
  sink.y = (int32_t *)args->out[0]->data;
  return multiply(args, args->in[0], args->in[2], args->in[1], args->in[3], sink);
}

tn_status cuda_run_matmul_integer(const tn_kernel_args *args) {
  return cuda_run_matmul_zero_points(args);
}

tn_status cuda_run_qlinear_matmul(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  requantising_sink sink = requantising_sink_of(args);
  sink.row_scale = numbers_of<float>(in[QUANT_A_SCALE]);
  sink.col_scale = numbers_of<float>(in[QUANT_B_SCALE]);
  return multiply(args, in[QUANT_A], in[QUANT_A_ZERO], in[QUANT_B], in[QUANT_B_ZERO], sink);
}
