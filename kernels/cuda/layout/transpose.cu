/*
 * Copies between tensors that do not lie alike in memory. Where both run along the same
 * axis, elements join into accesses of up to 16 bytes. Where they run along different axes,
 * a tile goes through shared memory, so that both sides see whole lines.
 */
#include "kernels/cuda/base/map.cuh"

namespace {

/* A tile is TILE x TILE elements, moved by TILE x ROWS threads. */
enum { TILE = 32, ROWS = 8, LEAST = 16 };

/* Elements that move together, as bits. */
typedef pack<uint64_t, 2> wide_t;

/* Columns run along the axis dense in y, rows along the one dense in x; the other axes are
 * walked outside. Strides count elements. */
struct tiling {
  int64_t rows, columns;
  int64_t x_column, y_row;   /* strides */
  cuda_divisor across, down; /* tiles along columns, along rows */
  int rank;
  cuda_divisor size[TN_MAX_RANK];
  int64_t x_stride[TN_MAX_RANK], y_stride[TN_MAX_RANK];
};

template <class U>
__global__ void __launch_bounds__(TILE *ROWS)
    tiles(U *y, const U *x, const __grid_constant__ tiling t) {
  __shared__ U tile[TILE][TILE + 1];
  uint32_t q = quotient(blockIdx.x, t.across);
  int64_t column = (int64_t)(blockIdx.x - q * t.across.value) * TILE;
  uint32_t rest = quotient(q, t.down);
  int64_t row = (int64_t)(q - rest * t.down.value) * TILE;
#pragma unroll 1
  for (int d = t.rank - 1; d >= 0; d--) {
    q = quotient(rest, t.size[d]);
    int64_t at = rest - q * t.size[d].value;
    rest = q;
    x += at * t.x_stride[d];
    y += at * t.y_stride[d];
  }
  int64_t r = row + threadIdx.x, c = column + threadIdx.y;
#pragma unroll
  for (int i = 0; i < TILE; i += ROWS)
    if (r < t.rows && c + i < t.columns)
      tile[threadIdx.y + i][threadIdx.x] = x[r + (c + i) * t.x_column];
  __syncthreads();
  r = row + threadIdx.y;
  c = column + threadIdx.x;
#pragma unroll
  for (int i = 0; i < TILE; i += ROWS)
    if (r + i < t.rows && c < t.columns)
      y[(r + i) * t.y_row + c] = tile[threadIdx.x][threadIdx.y + i];
}

/* Whether the shape (y is operand 0, x operand 1) wants tiles, and which. */
bool tiling_of(const cuda_shape *s, tiling *t, int64_t *count) {
  int column = s->rank - 1, row = -1;
  for (int d = 0; d < column; d++)
    if (s->stride[1][d] == 1) row = d;
  if (row < 0 || s->stride[0][column] != 1 || s->stride[1][column] == 1) return false;
  if (s->size[row] < LEAST || s->size[column] < LEAST) return false;
  int64_t across = ceil_div(s->size[column], TILE), down = ceil_div(s->size[row], TILE);
  *t = tiling{};
  t->rows = s->size[row];
  t->columns = s->size[column];
  t->x_column = s->stride[1][column];
  t->y_row = s->stride[0][row];
  *count = across * down;
  for (int d = 0; d < column; d++) {
    if (d == row) continue;
    *count *= s->size[d];
    if (*count > CUDA_MAX_INDEX) return false;
    t->size[t->rank] = cuda_divisor_of((uint32_t)s->size[d]);
    t->x_stride[t->rank] = s->stride[1][d];
    t->y_stride[t->rank++] = s->stride[0][d];
  }
  if (*count > CUDA_MAX_INDEX) return false;
  t->across = cuda_divisor_of((uint32_t)across);
  t->down = cuda_divisor_of((uint32_t)down);
  return true;
}

template <class U> tn_status run_tiles(const tn_kernel_args *args, const tiling &t, int64_t count) {
  return launch(args, tiles<U>, (unsigned)count, dim3(TILE, ROWS), 0, (U *)args->out[0]->data,
                (const U *)args->in[0]->data, t);
}

/* The most elements of `size` bytes that can always move together; 1 for no gain. */
int64_t join(const cuda_shape *s, const tn_kernel_args *args, int64_t size) {
  int last = s->rank - 1;
  if (s->stride[0][last] != 1 || s->stride[1][last] != 1) return 1;
  int64_t n = 16 / size;
  for (; n > 1; n /= 2) {
    bool fits = s->size[last] % n == 0 && is_aligned(args->out[0]->data, (size_t)(n * size)) &&
                is_aligned(args->in[0]->data, (size_t)(n * size));
    for (int d = 0; d < last; d++)
      fits = fits && s->stride[0][d] % n == 0 && s->stride[1][d] % n == 0;
    if (fits) break;
  }
  return n;
}

template <class T> struct moved {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const { return a; }
};

template <class T> tn_status run_joined(const tn_kernel_args *args, const cuda_shape *s) {
  const moved<T> f{};
  const map_form form = map_form_of(&f);
  char *data[CUDA_MAX_OPERANDS] = {(char *)args->out[0]->data, (char *)args->in[0]->data};
  return cuda_map_run_strided(args, &form, data, s);
}

} // namespace

bool cuda_copy_apart(const tn_kernel_args *args, tn_status *status) {
  const DLTensor *tensors[] = {args->out[0], args->in[0]};
  int64_t size = args->out[0]->dtype.bits / 8, count;
  cuda_shape s;
  tiling t;
  cuda_shape_of(&s, 2, tensors, true);
  if (cuda_shape_count(&s) == 0 || cuda_shape_is_flat(&s, 2)) return false;
  if (tiling_of(&s, &t, &count)) {
    *status = size == 1   ? run_tiles<uint8_t>(args, t, count)
              : size == 2 ? run_tiles<uint16_t>(args, t, count)
              : size == 4 ? run_tiles<uint32_t>(args, t, count)
                          : run_tiles<uint64_t>(args, t, count);
    return true;
  }
  int64_t joined = join(&s, args, size);
  if (joined == 1) return false;
  s.size[s.rank - 1] /= joined;
  for (int d = 0; d < s.rank - 1; d++) {
    s.stride[0][d] /= joined;
    s.stride[1][d] /= joined;
  }
  size *= joined;
  *status = size == 2   ? run_joined<uint16_t>(args, &s)
            : size == 4 ? run_joined<uint32_t>(args, &s)
            : size == 8 ? run_joined<uint64_t>(args, &s)
                        : run_joined<wide_t>(args, &s);
  return true;
}
