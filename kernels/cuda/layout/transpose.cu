/*
 * Copies between tensors that do not lie alike in memory. Where both run along the same
 * axis, elements join into accesses of up to 16 bytes. Where they run along different axes,
 * a tile goes through shared memory, so that both sides see whole lines.
 */
#include "kernels/cuda/base/map.cuh"
#include "kernels/cuda/base/turned_bytes.cuh"

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

/* The block's tile: moves x and y to its matrices, and sets where it begins there. */
template <class U>
__device__ __forceinline__ void go_to_tile(U *&y, const U *&x, const tiling &t, int64_t *row,
                                           int64_t *column) {
  uint32_t q = quotient(blockIdx.x, t.across), rest = quotient(q, t.down);
  *column = blockIdx.x - q * t.across.value;
  *row = q - rest * t.down.value;
#pragma unroll 1
  for (int d = t.rank - 1; d >= 0; d--) {
    q = quotient(rest, t.size[d]);
    int64_t at = rest - q * t.size[d].value;
    rest = q;
    x += at * t.x_stride[d];
    y += at * t.y_stride[d];
  }
}

template <class U>
__global__ void __launch_bounds__(TILE *ROWS)
    tiles(U *y, const U *x, const __grid_constant__ tiling t) {
  __shared__ U tile[TILE][TILE + 1];
  int64_t row, column;
  go_to_tile(y, x, t, &row, &column);
  row *= TILE;
  column *= TILE;
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

/* Tiles in accesses A of several elements on both sides: 128 bytes along x by 256 along y. Elements
 * that lie together in y join into words before they go to shared memory. */
enum { tile_words = 64, wide_threads = TILE * ROWS };
template <class U, class A> struct wide_tile {
  static constexpr int unit = sizeof(A) / sizeof(U); /* elements of an access */
  static constexpr int access_words = sizeof(A) / 4;
  static constexpr int lanes = 128 / sizeof(A); /* that read along x */
  static constexpr int per_word = 4 / sizeof(U);
  static constexpr int rows = lanes * unit, columns = tile_words * per_word;
  unsigned v[rows][tile_words];

  /* Exchanges whole accesses of a row, so that both who writes columns and who reads rows take
   * different banks. */
  static __device__ __forceinline__ int place(int row, int word) {
    return word ^ row / unit * access_words;
  }
};

/* A word of x from each of the elements that join: as many words along y. */
__device__ __forceinline__ void join_words(const unsigned (&from)[1], unsigned (&to)[1]) {
  to[0] = from[0];
}
__device__ __forceinline__ void join_words(const unsigned (&from)[2], unsigned (&to)[2]) {
  to[0] = __byte_perm(from[0], from[1], 0x5410);
  to[1] = __byte_perm(from[0], from[1], 0x7632);
}
__device__ __forceinline__ void join_words(const unsigned (&from)[4], unsigned (&to)[4]) {
  turn_bytes(from, to);
}

template <class U, class A>
__device__ __forceinline__ void read_wide(wide_tile<U, A> &tile, const U *x, const tiling &t,
                                          int64_t row, int64_t column) {
  using W = wide_tile<U, A>;
  constexpr int together = wide_threads / W::lanes, steps = tile_words / together;
  const int lane = threadIdx.x % W::lanes, word = threadIdx.x / W::lanes, r = lane * W::unit;
  pack<unsigned, W::access_words> v[steps][W::per_word] = {};
#pragma unroll
  for (int s = 0; s < steps; s++) {
    const int64_t c = column + (word + s * together) * W::per_word;
    if (row + r >= t.rows || c >= t.columns) continue;
#pragma unroll
    for (int e = 0; e < W::per_word; e++)
      v[s][e] = *(const pack<unsigned, W::access_words> *)(x + row + r + (c + e) * t.x_column);
  }
#pragma unroll
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int k = 0; k < W::access_words; k++) {
      unsigned from[W::per_word], to[W::per_word];
#pragma unroll
      for (int e = 0; e < W::per_word; e++) from[e] = v[s][e].v[k];
      join_words(from, to);
#pragma unroll
      for (int e = 0; e < W::per_word; e++) {
        const int at = r + k * W::per_word + e;
        tile.v[at][W::place(at, word + s * together)] = to[e];
      }
    }
  }
}

template <class U, class A>
__global__ void __launch_bounds__(wide_threads)
    wide_tiles(U *y, const U *x, const __grid_constant__ tiling t) {
  using W = wide_tile<U, A>;
  constexpr int across = tile_words / W::access_words;
  __shared__ alignas(16) W tile;
  int64_t row, column;
  go_to_tile(y, x, t, &row, &column);
  row *= W::rows;
  column *= W::columns;
  read_wide(tile, x, t, row, column);
  __syncthreads();
  const int word = threadIdx.x % across * W::access_words;
  const int64_t c = column + word * W::per_word;
#pragma unroll
  for (int i = 0; i < W::rows; i += wide_threads / across) {
    const int r = i + threadIdx.x / across;
    if (row + r < t.rows && c < t.columns)
      *(A *)(y + (row + r) * t.y_row + c) = *(const A *)&tile.v[r][W::place(r, word)];
  }
}

/* Whether the shape (y is operand 0, x operand 1) wants tiles, and of what. */
bool tiling_of(const cuda_shape *s, tiling *t) {
  int column = s->rank - 1, row = -1;
  for (int d = 0; d < column; d++)
    if (s->stride[1][d] == 1) row = d;
  if (row < 0 || s->stride[0][column] != 1 || s->stride[1][column] == 1) return false;
  if (s->size[row] < LEAST || s->size[column] < LEAST) return false;
  *t = tiling{};
  t->rows = s->size[row];
  t->columns = s->size[column];
  t->x_column = s->stride[1][column];
  t->y_row = s->stride[0][row];
  for (int d = 0; d < column; d++) {
    if (d == row) continue;
    if (s->size[d] > CUDA_MAX_INDEX) return false;
    t->size[t->rank] = cuda_divisor_of((uint32_t)s->size[d]);
    t->x_stride[t->rank] = s->stride[1][d];
    t->y_stride[t->rank++] = s->stride[0][d];
  }
  return true;
}

/* Cuts the matrices into tiles of a size; returns how many, 0 where they are too many. */
unsigned cut(tiling *t, int rows, int columns) {
  const int64_t across = ceil_div(t->columns, columns), down = ceil_div(t->rows, rows);
  if (across > CUDA_MAX_INDEX || down > CUDA_MAX_INDEX / across) return 0;
  int64_t count = across * down;
  for (int d = 0; d < t->rank; d++) {
    if (count > CUDA_MAX_INDEX / t->size[d].value) return 0;
    count *= t->size[d].value;
  }
  t->across = cuda_divisor_of((uint32_t)across);
  t->down = cuda_divisor_of((uint32_t)down);
  return (unsigned)count;
}

/* Whether both tensors lie in whole accesses of `bytes` along their dense axes. */
bool is_whole(const tiling &t, const tn_kernel_args *args, int64_t size, int64_t bytes) {
  const int64_t n = bytes / size;
  bool whole = t.rows % n == 0 && t.columns % n == 0 && t.x_column % n == 0 && t.y_row % n == 0 &&
               is_aligned(args->out[0]->data, (size_t)bytes) &&
               is_aligned(args->in[0]->data, (size_t)bytes);
  for (int d = 0; d < t.rank; d++)
    whole = whole && t.x_stride[d] % n == 0 && t.y_stride[d] % n == 0;
  return whole;
}

template <class U>
tn_status run_kernel(const tn_kernel_args *args, void (*kernel)(U *, const U *, tiling),
                     const tiling &t, unsigned count, dim3 threads) {
  return launch(args, kernel, count, threads, 0, (U *)args->out[0]->data,
                (const U *)args->in[0]->data, t);
}

template <class U, class A> bool run_wide(const tn_kernel_args *args, tiling t, tn_status *status) {
  using W = wide_tile<U, A>;
  if (!is_whole(t, args, sizeof(U), sizeof(A))) return false;
  const unsigned count = cut(&t, W::rows, W::columns);
  if (count > 0) *status = run_kernel<U>(args, wide_tiles<U, A>, t, count, wide_threads);
  return count > 0;
}

template <class U> bool run_single(const tn_kernel_args *args, tiling t, tn_status *status) {
  const unsigned count = cut(&t, TILE, TILE);
  if (count > 0) *status = run_kernel<U>(args, tiles<U>, t, count, dim3(TILE, ROWS));
  return count > 0;
}

bool run_tiles(const tn_kernel_args *args, const tiling &t, int64_t size, tn_status *status) {
  switch (size) {
  case 1:
    return run_wide<uint8_t, uint4>(args, t, status) || run_single<uint8_t>(args, t, status);
  case 2:
    return run_wide<uint16_t, uint4>(args, t, status) ||
           run_wide<uint16_t, uint2>(args, t, status) || run_single<uint16_t>(args, t, status);
  case 4:
    return run_wide<uint32_t, uint4>(args, t, status) || run_single<uint32_t>(args, t, status);
  default:
    return run_single<uint64_t>(args, t, status);
  }
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
  int64_t size = args->out[0]->dtype.bits / 8;
  cuda_shape s;
  tiling t;
  cuda_shape_of(&s, 2, tensors, true);
  if (cuda_shape_count(&s) == 0 || cuda_shape_is_flat(&s, 2)) return false;
  if (tiling_of(&s, &t) && run_tiles(args, t, size, status)) return true;
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
