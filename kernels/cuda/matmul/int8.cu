/*
 * The steps of int8.h around the product. Packing goes through tiles of 64 by 64 bytes in shared
 * memory, so that both orientations are read and written in words; the last step shares its sinks
 * with integer_tiles.cuh.
 */
#include "kernels/cuda/matmul/int8.h"

#include "kernels/cuda/matmul/int8_turn.cuh"

namespace {

enum {
  pack_side = 64,
  pack_words = pack_side / 4,
  pack_threads = 256,
  finish_threads = 256,
  finish_columns = 4, /* of a thread, in one access */
  unit = 16,          /* bytes that leading dimensions and addresses are multiples of */
  least_side = 16
};

/* Products below this many terms are quicker in one launch of tiles. */
const int64_t least_terms = (int64_t)1 << 21;
/* 255 * 255 * k, and with signed bytes the four terms of int8.h one by one, fit 31 bits. */
const int64_t most_terms_of_zeros = 33025;
/* 128 * 128 * k does: sums on the way must not reach the end of 32 bits, where units may stop. */
const int64_t most_terms_of_bytes = 131071;
const size_t most_workspace = (size_t)4 << 30;

/* ---------------------------------------------------------------- packing --- */

struct pack_operand {
  const unsigned char *data;
  unsigned char *out;
  int *sums;               /* NULL: not wanted */
  int64_t step, along;     /* between vectors, between elements of one */
  int64_t vectors, padded; /* read and written, of each item */
  int64_t tiles_vectors, tiles;
  unsigned flip; /* 128 where bytes are unsigned */
  bool dense;    /* vectors are rows of the tile in memory, else columns */
  bool words;    /* rows of the tile are read in words */
  batch_axes batch;
};

struct pack_call {
  pack_operand x[2];
  int64_t k, padded_k, tiles_k, tiles;
};

/* Four bytes along the tile's rows in memory from (row, column) on; zeros outside. */
__device__ __forceinline__ unsigned read_word(const pack_operand &x, const unsigned char *from,
                                              int64_t row, int64_t column, int64_t rows,
                                              int64_t columns) {
  if (row >= rows) return 0;
  const int64_t down = x.dense ? x.step : x.along, across = x.dense ? x.along : x.step;
  const unsigned char *at = from + row * down + column * across;
  if (x.words && column + 4 <= columns) return *(const unsigned *)at ^ x.flip * 0x01010101u;
  unsigned word = 0;
  for (int e = 0; e < 4; e++)
    if (column + e < columns) word |= ((at[e * across] ^ x.flip) & 255u) << 8 * e;
  return word;
}

__device__ __forceinline__ unsigned packed_word(const unsigned (*tile)[pack_words + 1], int vector,
                                                int word, bool dense) {
  if (dense) return tile[vector][word];
  unsigned packed = 0;
  for (int e = 0; e < 4; e++)
    packed |= (tile[4 * word + e][vector / 4] >> 8 * (vector % 4) & 255u) << 8 * e;
  return packed;
}

/* Writes the tile's vectors and adds up their bytes. Every thread is here. */
__device__ void write_tile(const pack_operand &x, const pack_call &c,
                           const unsigned (*tile)[pack_words + 1], int64_t item, int64_t vector,
                           int64_t first) {
  for (int i = threadIdx.x; i < pack_side * pack_words; i += pack_threads) {
    const int64_t v = vector + i / pack_words, p = first + i % pack_words * 4;
    const unsigned word = packed_word(tile, i / pack_words, i % pack_words, x.dense);
    if (v < x.padded && p < c.padded_k)
      *(unsigned *)(x.out + (item * x.padded + v) * c.padded_k + p) = word;
    if (!x.sums) continue;
    int sum = __dp4a((int)word, 0x01010101, 0);
    for (int mask = pack_words / 2; mask > 0; mask /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (i % pack_words == 0 && v < x.vectors) atomicAdd(&x.sums[item * x.padded + v], sum);
  }
}

__global__ void __launch_bounds__(pack_threads) pack_bytes(const __grid_constant__ pack_call c) {
  __shared__ unsigned tile[pack_side][pack_words + 1];
  for (int64_t t = blockIdx.x; t < c.tiles; t += gridDim.x) {
    const bool second = t >= c.x[0].tiles;
    const pack_operand &x = c.x[second];
    const int64_t at = second ? t - c.x[0].tiles : t, above = at / c.tiles_k;
    const int64_t first = at % c.tiles_k * pack_side;
    const int64_t item = above / x.tiles_vectors, vector = above % x.tiles_vectors * pack_side;
    const unsigned char *from = x.data + x.batch.origin(item);
    const int64_t rows = x.dense ? x.vectors : c.k, columns = x.dense ? c.k : x.vectors;
    const int64_t row = x.dense ? vector : first, column = x.dense ? first : vector;
    for (int i = threadIdx.x; i < pack_side * pack_words; i += pack_threads)
      tile[i / pack_words][i % pack_words] =
          read_word(x, from, row + i / pack_words, column + i % pack_words * 4, rows, columns);
    __syncthreads();
    write_tile(x, c, tile, item, vector, first);
    __syncthreads();
  }
}

/* ------------------------------------------------------------ corrections --- */

/* What zero points add to the sums, on the device. */
struct correction {
  const int *sum_a, *sum_b; /* NULL where the other operand's zero points are all 0 */
  vector_numbers<unsigned char> zero_a, zero_b;
  unsigned flip_a, flip_b, k;
  int64_t step_a, step_b; /* of sums, from item to item: 0 where the batch shares them */
};

/* Of one row. */
struct row_correction {
  unsigned zero, sum; /* a's */
  const int *sum_b;   /* of the row's item, or NULL */
};

__device__ __forceinline__ unsigned signed_zero(const vector_numbers<unsigned char> &zero,
                                                int64_t vector, unsigned flip) {
  return (unsigned)(int)(signed char)(zero.at(vector, 0) ^ flip);
}

__device__ __forceinline__ row_correction correction_of_row(const correction &c, int64_t item,
                                                            int64_t m) {
  return {signed_zero(c.zero_a, m, c.flip_a), c.sum_a ? (unsigned)c.sum_a[item * c.step_a + m] : 0u,
          c.sum_b ? c.sum_b + item * c.step_b : nullptr};
}

__device__ __forceinline__ unsigned correction_at(const correction &c, const row_correction &r,
                                                  int64_t n) {
  const unsigned zero = signed_zero(c.zero_b, n, c.flip_b);
  const unsigned sum = r.sum_b ? (unsigned)r.sum_b[n] : 0u;
  return c.k * r.zero * zero - zero * r.sum - r.zero * sum;
}

struct sums_call {
  int *sums; /* [rows, ld], multiples of 4 columns and of 16 bytes */
  int64_t rows, n, ld;
  cuda_divisor m;
};

struct alignas(16) four_sums {
  int v[finish_columns];
};

/* sums = what zero points add. */
__global__ void __launch_bounds__(finish_threads)
    begin_sums(const __grid_constant__ sums_call c, const __grid_constant__ correction add) {
  const int64_t n = ((int64_t)blockIdx.x * finish_threads + threadIdx.x) * finish_columns;
  if (n >= c.n) return;
  for (int64_t row = blockIdx.y; row < c.rows; row += gridDim.y) {
    const uint32_t item = quotient((uint32_t)row, c.m), m = (uint32_t)row - item * c.m.value;
    const row_correction r = correction_of_row(add, item, m);
    four_sums four = {};
    for (int e = 0; e < finish_columns; e++)
      if (n + e < c.n) four.v[e] = (int)correction_at(add, r, n + e);
    *(four_sums *)(c.sums + row * c.ld + n) = four;
  }
}

/* y of the sums. */
template <class Sink>
__global__ void __launch_bounds__(finish_threads)
    finish_sums(const __grid_constant__ sums_call c, const __grid_constant__ correction add,
                const __grid_constant__ Sink y) {
  const int64_t n = ((int64_t)blockIdx.x * finish_threads + threadIdx.x) * finish_columns;
  if (n >= c.n) return;
  for (int64_t row = blockIdx.y; row < c.rows; row += gridDim.y) {
    const uint32_t item = quotient((uint32_t)row, c.m), m = (uint32_t)row - item * c.m.value;
    const four_sums four = *(const four_sums *)(c.sums + row * c.ld + n);
    const row_correction r = correction_of_row(add, item, m);
    for (int e = 0; e < finish_columns; e++)
      if (n + e < c.n) y.put(item, m, n + e, (unsigned)four.v[e] + correction_at(add, r, n + e));
  }
}

/* The low bytes of sums. */
struct byte_sink {
  unsigned char *y;
  int64_t row, col;
  batch_axes batch;
  __device__ __forceinline__ void put(int64_t item, int64_t m, int64_t n, unsigned sum) const {
    y[batch.origin(item) + m * row + n * col] = (unsigned char)sum;
  }
};

/* --------------------------------------------------------------- the host --- */

/* A call's tensors; zeros are NULL where there are none. */
struct tensors {
  const DLTensor *a, *b, *a_zero, *b_zero, *y;
};

tensors tensors_of(const tn_kernel_args *args, cuda_int8_kind kind) {
  const DLTensor *const *in = args->in;
  if (kind == CUDA_INT8_WRAP) return {in[0], in[1], nullptr, nullptr, args->out[0]};
  if (kind == CUDA_INT8_SUMS) return {in[0], in[1], in[2], in[3], args->out[0]};
  return {in[QUANT_A], in[QUANT_B], in[QUANT_A_ZERO], in[QUANT_B_ZERO], args->out[0]};
}

unsigned sign_flip(const DLTensor *t, cuda_int8_kind kind) {
  return kind == CUDA_INT8_WRAP ? 0u : flip_of(t);
}

/* Whether 0 is not what stands for 0 in a packed operand, as far as the host can tell. */
bool has_zero(const DLTensor *t, const DLTensor *zero, cuda_int8_kind kind) {
  return kind != CUDA_INT8_WRAP && (zero || sign_flip(t, kind));
}

int64_t rounded(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

bool is_shared(const batch_axes &batch) {
  for (int d = 0; d < batch.rank; d++)
    if (batch.size[d] > 1 && batch.stride[d] != 0) return false;
  return true;
}

/* Places an operand whose vectors are `along` in its own strides' order. */
void place(cuda_int8_operand *o, const cuda_int8_call *c, const DLTensor *t, bool columns,
           bool pads) {
  const int row = t->ndim - 2, col = t->ndim - 1;
  const int64_t step = t->strides[columns ? col : row], along = t->strides[columns ? row : col];
  o->vectors = t->shape[columns ? col : row];
  o->padded = pads ? rounded(o->vectors, unit) : o->vectors;
  o->ld = c->padded_k;
  o->in_place = !o->summed && sign_flip(t, c->kind) == 0 && o->items == 1 && along == 1 &&
                step >= c->k && step % unit == 0 && c->k == c->padded_k &&
                is_aligned(t->data, unit) && o->padded == o->vectors;
  if (o->in_place) o->ld = step;
}

/* Takes `bytes` of the workspace. */
size_t take(cuda_int8_call *c, int64_t bytes) {
  const size_t at = c->bytes;
  c->bytes += (size_t)rounded(bytes, 256);
  return at;
}

void take_operand(cuda_int8_call *c, cuda_int8_operand *o) {
  if (!o->in_place) o->at = take(c, o->items * o->padded * c->padded_k);
}

/* Where y's memory can hold the sums as the units write them. */
bool holds_sums(const cuda_int8_call *c, const DLTensor *y) {
  int64_t expected = 1;
  for (int d = y->ndim - 1; d >= 0; d--) {
    if (y->shape[d] != 1 && y->strides[d] != expected) return false;
    expected *= y->shape[d];
  }
  return c->kind == CUDA_INT8_SUMS && c->n % finish_columns == 0 && is_aligned(y->data, unit);
}

bool is_worth_it(const cuda_int8_call *c) {
  if (c->m < least_side || c->n < least_side || c->k < least_side) return false;
  const int64_t most = c->kind == CUDA_INT8_WRAP ? most_terms_of_bytes : most_terms_of_zeros;
  if (c->k > most || c->n > CUDA_MAX_INDEX) return false;
  if (c->items == 0 || c->items > 65535 || c->m > CUDA_MAX_INDEX / c->items) return false;
  return c->items * c->m >= least_terms / c->k / c->n;
}

correction correction_of(const tn_kernel_args *args, const cuda_int8_call *c) {
  const tensors t = tensors_of(args, c->kind);
  const char *w = (const char *)args->workspace;
  correction r = {};
  r.zero_a = numbers_of<unsigned char>(t.a_zero);
  r.zero_b = numbers_of<unsigned char>(t.b_zero);
  r.flip_a = sign_flip(t.a, c->kind);
  r.flip_b = sign_flip(t.b, c->kind);
  r.k = (unsigned)c->k;
  if (c->a.summed) r.sum_a = (const int *)(w + c->a.sums);
  if (c->b.summed) r.sum_b = (const int *)(w + c->b.sums);
  r.step_a = c->a.items == 1 ? 0 : c->a.padded;
  r.step_b = c->b.items == 1 ? 0 : c->b.padded;
  return r;
}

sums_call sums_of(const tn_kernel_args *args, const cuda_int8_call *c) {
  sums_call s = {};
  s.sums = (int *)(c->direct ? args->out[0]->data : (char *)args->workspace + c->at);
  s.rows = c->items * c->m;
  s.n = c->n;
  s.ld = c->ld;
  s.m = cuda_divisor_of((uint32_t)c->m);
  return s;
}

dim3 grid_of(const sums_call &s) {
  const int64_t rows = s.rows < 65535 ? s.rows : 65535;
  return dim3((unsigned)ceil_div(s.n, finish_threads * finish_columns), (unsigned)rows);
}

pack_operand pack_of(const tn_kernel_args *args, const cuda_int8_call *c,
                     const cuda_int8_operand *o, const DLTensor *t, bool columns) {
  const int row = t->ndim - 2, col = t->ndim - 1;
  char *w = (char *)args->workspace;
  pack_operand x = {};
  if (o->in_place) return x;
  x.data = (const unsigned char *)t->data;
  x.out = (unsigned char *)w + o->at;
  x.sums = o->summed ? (int *)(w + o->sums) : nullptr;
  x.step = t->strides[columns ? col : row];
  x.along = t->strides[columns ? row : col];
  x.vectors = o->vectors;
  x.padded = o->padded;
  x.flip = sign_flip(t, c->kind);
  x.dense = x.along == 1 || x.step != 1;
  x.batch = matrix_batch_of(t, args->out[0]);
  if (o->items == 1) x.batch.rank = 0;
  x.words = (x.dense ? x.along : x.step) == 1 && (x.dense ? x.step : x.along) % 4 == 0 &&
            is_aligned(t->data, 4);
  for (int d = 0; d < x.batch.rank; d++) x.words = x.words && x.batch.stride[d] % 4 == 0;
  x.tiles_vectors = ceil_div(o->padded, pack_side);
  x.tiles = o->items * x.tiles_vectors * ceil_div(c->padded_k, pack_side);
  return x;
}

/* Whether an operand's columns lie side by side in whole accesses. */
bool turns(const pack_operand &x, const pack_call &p) {
  bool whole = x.tiles > 0 && !x.dense && x.step == 1 && x.along % turn_columns == 0 &&
               x.vectors % turn_columns == 0 && is_aligned(x.data, turn_columns);
  for (int d = 0; d < x.batch.rank; d++)
    whole = whole && (x.batch.size[d] == 1 || x.batch.stride[d] % turn_columns == 0);
  return whole && x.tiles <= CUDA_MAX_INDEX && p.padded_k <= CUDA_MAX_INDEX;
}

/* Packs such an operand, and takes its tiles out of the call. */
tn_status turn(const tn_kernel_args *args, const cuda_int8_operand *o, pack_operand &x,
               const pack_call &p) {
  turn_call t = {};
  if (!turns(x, p)) return TN_OK;
  const int64_t along = ceil_div(p.padded_k, turn_depth), across = ceil_div(x.padded, turn_side);
  t.data = x.data;
  t.out = x.out;
  t.sums = x.sums;
  t.along = x.along;
  t.k = p.k;
  t.padded_k = p.padded_k;
  t.vectors = x.vectors;
  t.padded = x.padded;
  t.tiles_k = cuda_divisor_of((uint32_t)along);
  t.tiles = cuda_divisor_of((uint32_t)(along * across));
  t.flip = x.flip * 0x01010101u;
  t.batch = x.batch;
  x.tiles = 0;
  return launch(args, turn_columns_of, (unsigned)(o->items * along * across), turn_threads, 0, t);
}

/* Sets both operands' sums, which lie together, to 0. */
tn_status clear_sums(const tn_kernel_args *args, const cuda_int8_call *c) {
  if (!cuda_int8_corrects(c)) return TN_OK;
  const size_t begin = c->a.summed ? c->a.sums : c->b.sums;
  const size_t end = c->b.summed ? c->b.sums + (size_t)(c->b.items * c->b.padded) * sizeof(int)
                                 : c->a.sums + (size_t)(c->a.items * c->a.padded) * sizeof(int);
  const cudaError_t error = cudaMemsetAsync((char *)args->workspace + begin, 0, end - begin,
                                            (cudaStream_t)args->native_stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cudaMemsetAsync");
}

/* A sink's place of y. */
template <class Sink>
tn_status finish(const tn_kernel_args *args, const cuda_int8_call *c, Sink sink) {
  const DLTensor *y = args->out[0];
  sink.batch = matrix_batch_of(y, y);
  sink.row = y->strides[y->ndim - 2];
  sink.col = y->strides[y->ndim - 1];
  const sums_call s = sums_of(args, c);
  return launch(args, finish_sums<Sink>, grid_of(s), finish_threads, 0, s, correction_of(args, c),
                sink);
}

} // namespace

bool cuda_int8_describe(cuda_int8_call *c, cuda_int8_kind kind, const tn_kernel_args *args) {
  const tensors t = tensors_of(args, kind);
  *c = {};
  c->kind = kind;
  c->m = t.y->shape[t.y->ndim - 2];
  c->n = t.y->shape[t.y->ndim - 1];
  c->k = t.a->shape[t.a->ndim - 1];
  c->items = cuda_size(t.y, 0, t.y->ndim - 2);
  if (t.a->dtype.bits != 8 || !is_worth_it(c)) return false;
  c->padded_k = rounded(c->k, unit);
  c->direct = holds_sums(c, t.y);
  c->ld = c->direct ? c->n : rounded(c->n, unit);
  c->a.summed = has_zero(t.b, t.b_zero, kind);
  c->b.summed = has_zero(t.a, t.a_zero, kind);
  c->a.items = is_shared(matrix_batch_of(t.a, t.y)) ? 1 : c->items;
  c->b.items = is_shared(matrix_batch_of(t.b, t.y)) ? 1 : c->items;
  place(&c->a, c, t.a, false, false);
  place(&c->b, c, t.b, true, !c->direct);
  take_operand(c, &c->a);
  take_operand(c, &c->b);
  if (!c->direct) c->at = take(c, c->items * c->m * c->ld * (int64_t)sizeof(int));
  if (c->a.summed) c->a.sums = take(c, c->a.items * c->a.padded * (int64_t)sizeof(int));
  if (c->b.summed) c->b.sums = take(c, c->b.items * c->b.padded * (int64_t)sizeof(int));
  return c->bytes <= most_workspace;
}

tn_status cuda_int8_pack(const tn_kernel_args *args, const cuda_int8_call *c) {
  const tensors t = tensors_of(args, c->kind);
  pack_call p = {};
  p.x[0] = pack_of(args, c, &c->a, t.a, false);
  p.x[1] = pack_of(args, c, &c->b, t.b, true);
  p.k = c->k;
  p.padded_k = c->padded_k;
  p.tiles_k = ceil_div(c->padded_k, pack_side);
  tn_status status = clear_sums(args, c);
  if (status == TN_OK) status = turn(args, &c->a, p.x[0], p);
  if (status == TN_OK) status = turn(args, &c->b, p.x[1], p);
  p.tiles = p.x[0].tiles + p.x[1].tiles;
  if (status == TN_OK && p.tiles > 0) {
    const int64_t blocks = p.tiles < 1 << 20 ? p.tiles : 1 << 20;
    status = launch(args, pack_bytes, (unsigned)blocks, pack_threads, 0, p);
  }
  if (status != TN_OK || !c->direct || !cuda_int8_corrects(c)) return status;
  const sums_call s = sums_of(args, c);
  return launch(args, begin_sums, grid_of(s), finish_threads, 0, s, correction_of(args, c));
}

tn_status cuda_int8_finish(const tn_kernel_args *args, const cuda_int8_call *c) {
  if (c->direct) return TN_OK;
  if (c->kind == CUDA_INT8_SUMS) {
    sum_sink sink = {};
    sink.y = (int32_t *)args->out[0]->data;
    return finish(args, c, sink);
  }
  if (c->kind == CUDA_INT8_WRAP) {
    byte_sink sink = {};
    sink.y = (unsigned char *)args->out[0]->data;
    return finish(args, c, sink);
  }
  requantising_sink sink = requantising_sink_of(args);
  sink.row_scale = numbers_of<float>(args->in[QUANT_A_SCALE]);
  sink.col_scale = numbers_of<float>(args->in[QUANT_B_SCALE]);
  return finish(args, c, sink);
}
