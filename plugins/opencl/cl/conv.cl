/*
 * Convolution over one to three axes as products of matrices, for some images ("slots") and
 * all groups at a time; an item is one group of one slot. T0 is the type of the tensors.
 *
 * The right factor b of a product is kept in panels: PANEL columns of all its rows, one row
 * after the other, the last panel filled up with zeros. pack_windows and pack_matrix make
 * them, multiply reads them, and fold and collect add up what it gives. See conv.c.
 *
 * Constants: C0 numbers in a vector, C1 rows of one work-item's tile of the product, C2 whether
 * products may have an activation that functions.cl computes.
 */
#pragma OPENCL FP_CONTRACT ON

#define is_double_f16 0
#define is_double_bf16 0
#define is_double_f32 0
#define is_double_f64 1
#if PASTE(is_double_, T0)
typedef double real;
typedef PASTE(double, C0) vector;
#else
typedef float real;
typedef PASTE(float, C0) vector;
#endif
#define LOAD_VECTOR PASTE(vload, C0)
#define STORE_VECTOR PASTE(vstore, C0)
#define LANES C0
#define ROWS C1
#define PANEL (2 * LANES)
#define CONST_SCRATCH(name) __global const real *name##_buffer, ulong name##_first
#define SCRATCH(name) __global real *name##_buffer, ulong name##_first
#define IN(name) (name##_buffer + name##_first)

/* conv_shape of conv.c. */
typedef struct {
  long channels, kernels, groups; /* channels and kernels of one group */
  long size[3], out[3], extent[3], stride[3], padding[3], dilation[3];
  long terms, windows; /* channels times elements of a kernel; elements of out */
} conv_t;

/* A kernel element as a place in the window. */
typedef struct {
  long channel, depth, row, column;
} tap_t;

inline tap_t tap_of(const conv_t *c, long term) {
  tap_t t;
  t.column = term % c->extent[2];
  term /= c->extent[2];
  t.row = term % c->extent[1];
  term /= c->extent[1];
  t.depth = term % c->extent[0];
  t.channel = term / c->extent[0];
  return t;
}

inline long panels_of(long columns) { return (columns + PANEL - 1) / PANEL; }

/* The part of a panel's row that lies in one row of windows: `run` elements of one row of x,
 * from `first` on, 0 outside it. */
inline void pack_run(__global const STORED(T0) *from, long first, long step, long size, int run,
                     __global real *to) {
  if (first >= 0 && first + (run - 1) * step < size) {
    if (step == 1)
      for (int i = 0; i < run; ++i) to[i] = LOAD(T0, from, first + i);
    else
      for (int i = 0; i < run; ++i) to[i] = LOAD(T0, from, first + i * step);
    return;
  }
  for (int i = 0; i < run; ++i) {
    long at = first + i * step;
    to[i] = at >= 0 && at < size ? LOAD(T0, from, at) : 0;
  }
}

/* b [terms, windows] of each item: the elements of x that each window reads. One work-item
 * per term and panel. */
__kernel void pack_windows(CONST_TENSOR(T0, x), SCRATCH(b), const long first_image,
                           const conv_t c) {
  const long term = get_global_id(0), panel = get_global_id(1), item = get_global_id(2);
  if (term >= c.terms) return;
  const tap_t t = tap_of(&c, term);
  const long plane = c.size[1] * c.size[2];
  __global const STORED(T0) *image =
      AT(T0, x) + ((first_image * c.groups + item) * c.channels + t.channel) * c.size[0] * plane;
  __global real *to = IN(b) + ((item * panels_of(c.windows) + panel) * c.terms + term) * PANEL;
  const long window = panel * PANEL;
  const int count = (int)min((long)PANEL, c.windows - window);
  long column = window % c.out[2], row = window / c.out[2] % c.out[1];
  long depth = window / c.out[2] / c.out[1];
  int lane = 0;
  while (lane < count) {
    const int run = (int)min(c.out[2] - column, (long)(count - lane));
    const long z = depth * c.stride[0] + t.depth * c.dilation[0] - c.padding[0];
    const long y = row * c.stride[1] + t.row * c.dilation[1] - c.padding[1];
    if (z >= 0 && z < c.size[0] && y >= 0 && y < c.size[1])
      pack_run(image + z * plane + y * c.size[2],
               column * c.stride[2] + t.column * c.dilation[2] - c.padding[2], c.stride[2],
               c.size[2], run, to + lane);
    else
      for (int i = 0; i < run; ++i) to[lane + i] = 0;
    lane += run;
    column = 0;
    if (++row == c.out[1]) row = 0, ++depth;
  }
  for (; lane < PANEL; ++lane) to[lane] = 0;
}

/* b [rows, columns] of each item from the dense matrices in y, `begin` elements into it and
 * item_step from each other. One work-item per row and panel. */
__kernel void pack_matrix(CONST_TENSOR(T0, y), SCRATCH(b), const long begin, const long item_step,
                          const long rows, const long row_step, const long columns,
                          const long column_step) {
  const long row = get_global_id(0), panel = get_global_id(1), item = get_global_id(2);
  if (row >= rows) return;
  __global const STORED(T0) *from = AT(T0, y) + begin + item * item_step + row * row_step;
  __global real *to = IN(b) + ((item * panels_of(columns) + panel) * rows + row) * PANEL;
  for (int lane = 0; lane < PANEL; ++lane) {
    const long column = panel * PANEL + lane;
    to[lane] = column < columns ? LOAD(T0, from, column * column_step) : 0;
  }
}

/* product_shape of conv.c: c [m, n] (+)= a [m, k] b [k, n] for each item. Column i of a lies
 * i % block a_column steps and i / block a_block steps from its row's begin. */
typedef struct {
  long m, n, k, groups;
  long a_begin, a_slot, a_group, a_row, a_column, a_block, block;
  long c_begin, c_item, c_row;
  int add, has_bias;
  int activation, nothing; /* a tn_activation, where nothing is added */
} product_t;

inline real activated(int activation, real v) {
  switch (activation) {
  case 1:
    return v <= 0 ? 0 : v;
  case 4:
    return v <= 0 ? 0 : v > 6 ? 6 : v;
#if C2
  case 2:
    return (real)f_gelu((WIDE)v);
  case 3:
    return (real)f_gelu_tanh((WIDE)v);
  case 5:
    return (real)f_hardswish((WIDE)v);
  case 6:
    return (real)f_silu((WIDE)v);
  case 7:
    return (real)f_sigmoid((WIDE)v);
#endif
  default:
    return v;
  }
}

/* One work-item per ROWS rows of a panel. T0 is a's type, T1 c's and the bias's. */
__kernel void multiply(CONST_TENSOR(T0, a), CONST_SCRATCH(b), CONST_TENSOR(T1, bias),
                       TENSOR(T1, c), const product_t p) {
  const long top = get_global_id(0) * ROWS, panel = get_global_id(1), item = get_global_id(2);
  if (top >= p.m) return;
  const long slot = item / p.groups, group = item % p.groups;
  __global const STORED(T0) *a =
      AT(T0, a) + p.a_begin + slot * p.a_slot + group * p.a_group;
  __global const real *b = IN(b) + (item * panels_of(p.n) + panel) * p.k * PANEL;
  long row[ROWS]; /* rows beyond the last are the last again and not stored */
  vector low[ROWS], high[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    row[r] = min(top + r, p.m - 1) * p.a_row;
    low[r] = high[r] = 0;
  }
  for (long begin = 0; begin < p.k; begin += p.block, a += p.a_block) {
    const long end = min(p.block, p.k - begin);
    for (long i = 0; i < end; ++i, b += PANEL) {
      const vector left = LOAD_VECTOR(0, b), right = LOAD_VECTOR(1, b);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const real factor = LOAD(T0, a, row[r] + i * p.a_column);
        low[r] += factor * left;
        high[r] += factor * right;
      }
    }
  }
  const int count = (int)min((long)PANEL, p.n - panel * PANEL);
  __global STORED(T1) *c = AT(T1, c) + p.c_begin + item * p.c_item + panel * PANEL;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (top + r >= p.m) break;
    __global STORED(T1) *to = c + (top + r) * p.c_row;
    const real more = p.has_bias ? LOAD(T1, AT(T1, bias), group * p.m + top + r) : 0;
    real sums[PANEL];
    STORE_VECTOR(low[r] + more, 0, sums);
    STORE_VECTOR(high[r] + more, 1, sums);
    if (p.add)
      for (int i = 0; i < count; ++i) SAVE(T1, to, i, sums[i] + LOAD(T1, to, i));
    else
      for (int i = 0; i < count; ++i) SAVE(T1, to, i, activated(p.activation, sums[i]));
  }
}

/* The element of one row of windows that reads place `at` of an axis; -1 for none. */
inline long window_at(const conv_t *c, int axis, long at, long element) {
  long from = at + c->padding[axis] - element * c->dilation[axis];
  if (from < 0 || (c->stride[axis] != 1 && from % c->stride[axis])) return -1;
  from /= c->stride[axis];
  return from < c->out[axis] ? from : -1;
}

/* sums[i] += what the row of windows at `from` gives to element first + i of a row of dx. */
inline void fold_row(const conv_t *c, __global const real *from, long first, int count,
                     long element, real *sums) {
  const long begin = first + c->padding[2] - element * c->dilation[2];
  if (c->stride[2] == 1 && begin >= 0 && begin + LANES <= c->out[2]) {
    for (int i = 0; i < LANES; ++i) sums[i] += from[begin + i];
    return;
  }
  for (int i = 0; i < count; ++i) {
    const long at = window_at(c, 2, first + i, element);
    if (at >= 0) sums[i] += from[at];
  }
}

/* dx from columns [terms, windows] of each item, whose rows are `row_step` apart: what every
 * window gives to the elements it reads, and the bias. One work-item per LANES elements of a
 * row of dx. */
__kernel void fold(CONST_SCRATCH(columns), CONST_TENSOR(T0, bias), TENSOR(T0, dx),
                   const long first_image, const long row_step, const int has_bias,
                   const conv_t c) {
  const long wide = (c.size[2] + LANES - 1) / LANES, item = get_global_id(1);
  const long first = get_global_id(0) % wide * LANES, line = get_global_id(0) / wide;
  if (line >= c.channels * c.size[0] * c.size[1]) return;
  const long y = line % c.size[1], z = line / c.size[1] % c.size[0];
  const long channel = line / c.size[1] / c.size[0];
  const int count = (int)min((long)LANES, c.size[2] - first);
  const real start =
      has_bias ? LOAD(T0, AT(T0, bias), item % c.groups * c.channels + channel) : 0;
  real sums[LANES];
  for (int i = 0; i < LANES; ++i) sums[i] = start;
  for (long o = 0; o < c.extent[0]; ++o) {
    const long depth = window_at(&c, 0, z, o);
    for (long p = 0; p < c.extent[1] && depth >= 0; ++p) {
      const long row = window_at(&c, 1, y, p);
      if (row < 0) continue;
      const long term = ((channel * c.extent[0] + o) * c.extent[1] + p) * c.extent[2];
      __global const real *from =
          IN(columns) + (item * c.terms + term) * row_step + (depth * c.out[1] + row) * c.out[2];
      for (long q = 0; q < c.extent[2]; ++q, from += row_step)
        fold_row(&c, from, first, count, q, sums);
    }
  }
  __global STORED(T0) *to =
      AT(T0, dx) +
      ((first_image * c.groups + item) * c.channels * c.size[0] * c.size[1] + line) * c.size[2];
  for (int i = 0; i < count; ++i) SAVE(T0, to, first + i, sums[i]);
}

/* dw [groups kernels, terms] from the sums [terms, kernels] of `slots` items of each group,
 * whose rows are `row_step` apart. One work-item per element. */
__kernel void collect(CONST_SCRATCH(sums), TENSOR(T0, dw), const long slots, const long row_step,
                      const conv_t c) {
  const long i = get_global_id(0);
  if (i >= c.groups * c.kernels * c.terms) return;
  const long term = i % c.terms, kernel_of_all = i / c.terms;
  const long group = kernel_of_all / c.kernels, k = kernel_of_all % c.kernels;
  real sum = 0;
  for (long slot = 0; slot < slots; ++slot)
    sum += IN(sums)[((slot * c.groups + group) * c.terms + term) * row_step + k];
  SAVE(T0, AT(T0, dw), i, sum);
}
