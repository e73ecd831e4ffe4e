/*
 * Products of signed bytes that take some microseconds, in one launch, by wgmma: a block has a tile
 * of 64 by 64 of y and adds 128 terms at a time, from panels that come to shared memory some stages
 * ahead. wgmma wants bytes of a column of b side by side: where rows lie so, a panel turns on its
 * way, four by four bytes in registers. Sums of integers are the same in any order.
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/base/turned_bytes.cuh"
#include "kernels/cuda/base/wgmma.cuh"
#include "kernels/cuda/matmul/int8_short.h"
#include "kernels/cuda/matmul/short_panels.cuh"

namespace {

enum {
  side = 64,
  byte_depth = depth_of<signed char>,
  byte_part = part_of<signed char>,
  panel_bytes = side * byte_depth,
  byte_stages = 4,
  room_bytes = (2 * byte_stages + 1) * panel_bytes, /* of a, b and turned b */
  sums_pitch = side + 4
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Brings panels of 64 columns of b whose rows lie in memory's order; parts of 16 bytes are placed
 * so that turn_panel reads them from different banks. */
struct row_reader {
  static constexpr int parts = side / byte_part, rows = threads / parts;
  const signed char *from;
  int64_t step;
  int term, terms;
  bool inside;
  uint32_t to;

  __device__ __forceinline__ row_reader(const short_call &c, int column) {
    const int row = threadIdx.x / parts, first = column + threadIdx.x % parts * byte_part;
    from = (const signed char *)c.b + row * c.of_b.line + first;
    step = rows * c.of_b.line;
    term = row;
    terms = c.k;
    inside = first < c.n;
    to = (threadIdx.x ^ (threadIdx.x / 16 & 7)) * 16;
  }
  __device__ __forceinline__ void read(uint32_t panel) {
#pragma unroll
    for (int j = 0; j < byte_depth / rows; j++, from += step, term += rows)
      copy_part(panel + to + j * threads * 16, from, inside && term < terms);
  }
};

/* A panel of rows as one of columns: a warp has 16 of them, a thread 4 terms of each. */
__device__ __forceinline__ void turn_panel(const char *rows, char *columns) {
  const int group = threadIdx.x / 32, four = threadIdx.x % 32;
  unsigned v[4][4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int at = (16 * four + 4 * j + group) ^ (four & 7);
    const uint4 x = *(const uint4 *)(rows + at * 16);
    v[0][j] = x.x, v[1][j] = x.y, v[2][j] = x.z, v[3][j] = x.w;
  }
#pragma unroll
  for (int q = 0; q < 4; q++) {
    unsigned turned[4];
    turn_bytes(v[q], turned);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int n = 16 * group + 4 * q + e;
      *(unsigned *)(columns + n * 128 + ((four / 4 ^ (n & 7)) * 16 + four % 4 * 4)) = turned[e];
    }
  }
}

/* A tile's sums to y, through shared memory that nobody else uses any more. */
__device__ __forceinline__ void put_sums(const short_call &c, const int (&sum)[side / 2], int *tile,
                                         int row, int column) {
  const int lane = threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < side / 8; j++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      *(int2 *)(tile + (first + 8 * half) * sums_pitch + 8 * j + 2 * (lane % 4)) =
          make_int2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]);
  __syncthreads();
  const int from = threadIdx.x / 16, at = threadIdx.x % 16 * 4;
  if (column + at >= c.n) return;
#pragma unroll
  for (int r = 0; r < side; r += threads / 16)
    if (row + r + from < c.m)
      *(int4 *)((int *)c.y + (row + r + from) * c.line_y + column + at) =
          *(const int4 *)(tile + (r + from) * sums_pitch + at);
}
#endif

template <bool B_ALONG>
__global__ void __launch_bounds__(threads) byte_product(const __grid_constant__ short_call c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char byte_memory[];
  const uint32_t room = shared_address(byte_memory);
  char *turned = byte_memory + 2 * byte_stages * panel_bytes;
  const int row = (int)blockIdx.y * side, column = (int)blockIdx.x * side;
  panel_reader<signed char, side, true> a((const signed char *)c.a, c.of_a, row, c.m, 0, c.k);
  using along = panel_reader<signed char, side, true>;
  auto b = [&] {
    if constexpr (B_ALONG)
      return along((const signed char *)c.b, c.of_b, column, c.n, 0, c.k);
    else
      return row_reader(c, column);
  }();
  const int count = (c.k + byte_depth - 1) / byte_depth;
  auto read = [&](int stage) {
    a.read(room + 2 * stage * panel_bytes);
    b.read(room + (2 * stage + 1) * panel_bytes);
  };
  int sum[side / 2] = {};
  await_earlier();
#pragma unroll 1
  for (int s = 0; s < byte_stages - 1; s++) {
    if (s < count) read(s);
    copies_commit();
  }
#pragma unroll 1
  for (int s = 0; s < count; s++) {
    const int now = s % byte_stages;
    const uint32_t left = room + 2 * now * panel_bytes;
    copies_wait_but<byte_stages - 2>();
    show_to_wgmma();
    wgmma_wait(sum);
    __syncthreads(); /* the panel is there, and all have used the one that is read to now */
    if (!B_ALONG) {
      turn_panel(byte_memory + (2 * now + 1) * panel_bytes, turned);
      show_to_wgmma();
      __syncthreads();
    }
    const uint32_t right = B_ALONG ? left + panel_bytes : room + 2 * byte_stages * panel_bytes;
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < 4; step++)
      wgmma_add(sum, panel_descriptor(left + step * 32, 0), panel_descriptor(right + step * 32, 0));
    wgmma_commit();
    if (s + byte_stages - 1 < count) read((s + byte_stages - 1) % byte_stages);
    copies_commit();
  }
  copies_wait();
  wgmma_wait(sum);
  __syncthreads();
  put_sums(c, sum, (int *)byte_memory, row, column);
#else
  __trap(); /* PTX that the driver was told to prefer */
#endif
}

/* --------------------------------------------------------------- the host --- */

/* What it takes on an H200, in ns, beside a launch: a panel of a block that has a multiprocessor to
 * itself, and of each of several; and the time above which cuBLASLt is as quick. It wants columns
 * of b along the sum, too, so that it is given longer where they turn. */
struct byte_cost {
  int alone, shared, most;
};
constexpr byte_cost along_cost = {200, 185, 10000}, turned_cost = {500, 370, 9500};
enum {
  launch_ns = 1500,
  least_turned_rows = 33, /* fewer are for int8_skinny.cu */
  most_terms = 131071     /* 128 * 128 * k fits 31 bits */
};

bool is_matrix(const DLTensor *t) { return t->ndim >= 2 && cuda_size(t, 0, t->ndim - 2) == 1; }

/* False where it is none of these. */
bool describe(short_call *c, const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  if (args->in[2] || args->in[3] || cuda_dtype(a) != TN_I8 || cuda_dtype(b) != TN_I8) return false;
  if (!is_matrix(a) || !is_matrix(b) || !is_matrix(y)) return false;
  const int64_t m = y->shape[y->ndim - 2], n = y->shape[y->ndim - 1], k = a->shape[a->ndim - 1];
  const int64_t b_row = b->strides[b->ndim - 2], b_column = b->strides[b->ndim - 1];
  if (m < 1 || n < side || k < byte_part || k > most_terms) return false;
  if (m > CUDA_MAX_INDEX / 2 || n > CUDA_MAX_INDEX / 2) return false;
  c->m = (int)m, c->n = (int)n, c->k = (int)k;
  c->of_a.line = a->strides[a->ndim - 2];
  c->of_a.along = true;
  c->of_b.along = b_row == 1;
  c->of_b.line = b_row == 1 ? b_column : b_row;
  c->line_y = y->strides[y->ndim - 2];
  return a->strides[a->ndim - 1] == 1 && (b_row == 1 || b_column == 1) &&
         y->strides[y->ndim - 1] == 1 && k % byte_part == 0 && n % byte_part == 0 &&
         c->of_a.line % byte_part == 0 && c->of_b.line % byte_part == 0 && c->line_y % 4 == 0 &&
         is_aligned(a->data, 16) && is_aligned(b->data, 16) && is_aligned(y->data, 16);
}

bool is_quick(const short_call &c, const cuda_info *info) {
  if (!info->early || !compiled_to_wait() || !compiled_for_wgmma) return false;
  if (!c.of_b.along && c.m < least_turned_rows) return false;
  const byte_cost &cost = c.of_b.along ? along_cost : turned_cost;
  const int64_t down = ceil_div(c.m, side), blocks = down * ceil_div(c.n, side);
  const int64_t beside = ceil_div(blocks, info->multiprocessors) * cost.shared;
  const int64_t panel = beside > cost.alone ? beside : cost.alone;
  return launch_ns + panel * ceil_div(c.k, byte_depth) <= cost.most && down <= 65535;
}

} // namespace

bool cuda_matmul_integer_is_short(const tn_kernel_args *args) {
  short_call c;
  return describe(&c, args) && is_quick(c, (const cuda_info *)args->device);
}

tn_status cuda_run_matmul_integer_short(const tn_kernel_args *args) {
  short_call c = {};
  if (!describe(&c, args))
    return args->host->fail(TN_ERR_INTERNAL, "%s: not a short product", args->kernel->name);
  c.a = args->in[0]->data;
  c.b = args->in[1]->data;
  c.y = args->out[0]->data;
  cuda_start start = {};
  start.grid = dim3((unsigned)ceil_div(c.n, side), (unsigned)ceil_div(c.m, side));
  start.block = dim3(threads);
  start.shared_bytes = c.of_b.along ? 2 * byte_stages * panel_bytes : room_bytes;
  start.most_shared_bytes = start.shared_bytes;
  start.cluster = 1;
  start.early = 1;
  void *list[] = {(void *)&c};
  return cuda_launch_as(
      args, c.of_b.along ? (const void *)byte_product<true> : (const void *)byte_product<false>,
      &start, list);
}
