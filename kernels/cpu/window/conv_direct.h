/*
 * Which convolutions are summed window by window, without a matrix of patches, and how: kernels of
 * few terms, as depthwise ones and the first of a network, whose patches cost more than their
 * products. The rows of x that some rows of y read are copied, padded and taken apart by the
 * stride, into lines that stay in cache; then each tap of the kernel is one product of a run of
 * them, summed in registers.
 *
 * Kernels of more terms are summed likewise, in tiles of several channels (tile.h), where windows
 * lie side by side and images are wide enough that what is summed for padding is little.
 */
#ifndef TENON_CPU_CONV_DIRECT_H
#define TENON_CPU_CONV_DIRECT_H

/* Channels of y whose sums share what is read. */
#define DIRECT_CHANNELS 4
/* Terms at the most; with one channel of y to a group a product of matrices does even worse. */
#define DIRECT_TERMS 32
#define DIRECT_TERMS_ALONE 64
/* Terms of one place of an image at the most, and channels of y to a term: with more the product of
 * matrices is faster, which packs what it multiplies. */
#define DIRECT_POINTS 16
#define DIRECT_SHARES 8

/* GCC would compute two taps in one pass over the sums, and for that keep these in memory. */
#if defined(__GNUC__) && !defined(__clang__)
#define DIRECT_TAP_BY_TAP __attribute__((optimize("no-loop-unroll-and-jam")))
#else
#define DIRECT_TAP_BY_TAP
#endif

/* Whether patches are the image itself. */
static inline bool conv_is_pointwise(const conv_call *call) {
  bool is = call->window == 1;
  for (int d = 0; d < 3; d++) is &= call->at.stride[d] == 1 && call->at.padding[d] == 0;
  return is;
}

/* A half and a quarter of a vector, in memory. */
typedef float conv_half
    __attribute__((vector_size(sizeof(FLOATS) / 2), aligned(sizeof(float)), may_alias));
typedef float conv_quarter
    __attribute__((vector_size(sizeof(FLOATS) / 4), aligned(sizeof(float)), may_alias));

/* Vectors of a type side by side, the last of which overlaps the one before. pre: n fills one. */
#define CONV_ADD_ROW(name, VECTOR)                                                                 \
  static inline void name(const float *from, float b, int64_t n, float *to) {                      \
    const int64_t lanes = sizeof(VECTOR) / sizeof(float);                                          \
    for (int64_t j = 0; j < n; j += lanes) {                                                       \
      const int64_t at = cpu_min(j, n - lanes);                                                    \
      *(VECTOR *)(void *)(to + at) = *(const VECTOR *)(const void *)(from + at) + b;               \
    }                                                                                              \
  }
CONV_ADD_ROW(conv_add_halves, conv_half)
CONV_ADD_ROW(conv_add_quarters, conv_quarter)
#undef CONV_ADD_ROW

/* to[j] = from[j] + b of a row that may be short. `from` and `to` are apart. */
static inline void conv_add_row(const float *from, float b, int64_t n, float *to) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  const FLOATS more = FLOATS_SPREAD(b);
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) FLOATS_KEEP(to + j, FLOATS_LOAD(from + j) + more);
  if (j == n) return;
  if (j > 0 && n - j <= LANES / 2)
    conv_add_halves(from + n - LANES / 2, b, LANES / 2, to + n - LANES / 2);
  else if (j > 0)
    FLOATS_KEEP(to + n - LANES, FLOATS_LOAD(from + n - LANES) + more);
  else if (n >= LANES / 2)
    conv_add_halves(from, b, n, to);
  else if (n >= LANES / 4)
    conv_add_quarters(from, b, n, to);
  else
    for (; j < n; j++) to[j] = from[j] + b;
}

/* Elements of a row of n, those at even places to `even` and the others to `odd`; all are apart. */
static inline void conv_part_row(const float *x, int64_t n, float *even, float *odd) {
  typedef float four __attribute__((vector_size(16), aligned(sizeof(float)), may_alias));
  const int64_t pairs = n / 2;
  int64_t j = 0;
  for (; pairs >= 4 && j < pairs; j += 4) { /* the last four overlap those before */
    const int64_t at = cpu_min(j, pairs - 4);
    const four a = *(const four *)(const void *)(x + 2 * at);
    const four b = *(const four *)(const void *)(x + 2 * at + 4);
    *(four *)(void *)(even + at) = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    *(four *)(void *)(odd + at) = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  }
  for (; j < pairs; j++) even[j] = x[2 * j], odd[j] = x[2 * j + 1];
  if (n % 2) even[pairs] = x[n - 1];
}

/* Every second of a row's elements, n of them from its first on. The row and `to` are apart. */
static inline void conv_even_row(const float *x, int64_t n, float *to) {
  typedef float four __attribute__((vector_size(16), aligned(sizeof(float)), may_alias));
  int64_t j = 0;
  for (; n >= 4 && j < n; j += 4) { /* the last four overlap those before */
    const int64_t at = cpu_min(j, n - 4);
    const four a = *(const four *)(const void *)(x + 2 * at);
    const four b = *(const four *)(const void *)(x + 2 * at + 3); /* no further than is wanted */
    *(four *)(void *)(to + at) = __builtin_shufflevector(a, b, 0, 2, 5, 7);
  }
  for (; j < n; j++) to[j] = x[2 * j];
}

/* Gradients of x are sums over dy alone, which lines pad: infinite weights, and those that are no
 * numbers, are left to the patches, where nothing is multiplied by 0 instead. */
#define CONV_INFINITE(name, TYPE)                                                                  \
  static bool name(const TYPE *w, int64_t n) {                                                     \
    int is = 0;                                                                                    \
    for (int64_t i = 0; i < n; i++) is |= w[i] - w[i] != 0;                                        \
    return is;                                                                                     \
  }
CONV_INFINITE(conv_infinite_f, float)
CONV_INFINITE(conv_infinite_d, double)
#undef CONV_INFINITE

/* Channels of x that tiles of windows in lines are summed over at a time: all, or equally many of
 * which a strip of windows and a panel of weights stay in the first cache. */
static int64_t conv_depth(const conv_call *call) {
  enum { LINE = 64 };
  const int64_t reach = (call->kernel[2] - 1) * call->at.dilation[2] + TILED_STRIP;
  const int64_t lines = cpu_min(reach * (int64_t)sizeof(float) / LINE + 1, 2 * call->kernel[2]);
  const int64_t channel = call->kernel[0] * call->kernel[1] * lines * LINE +
                          TILE_ROWS * call->window * (int64_t)sizeof(float);
  const int64_t most = cpu_max(1, TILED_NEAR / channel);
  if (TILE_PUTS_LANES) return call->c;
  return cpu_ceil_div(call->c, cpu_ceil_div(call->c, most));
}

static bool conv_is_tiled(const conv_call *call, size_t element, conv_lines *lines) {
  const window_conv *at = &call->at;
  const int64_t lanes = DIRECT_SUMS * DIRECT_VECTOR / (int64_t)element;
  const bool flat = at->stride[1] == 1 && at->stride[2] == 1;
  const int64_t summed =
      flat ? call->in[2] + at->padding[2] : cpu_ceil_div(call->out[2], TILE_SIDE) * TILE_SIDE;
  const double least = (double)(call->c * call->kernel[0]) *
                       ((double)(call->kernel[1] - 1) * (double)at->dilation[1] + 1) *
                       ((double)call->in[2] + 2 * (double)at->padding[2]);
  if (element != sizeof(float) || call->window == 1 || call->k < TILED_CHANNELS ||
      least * (double)element > DIRECT_BYTES_MOST)
    return false;
  const int64_t bytes = cpu_min(call->c * DIRECT_BYTES, TILED_BYTES);
  int64_t depth = conv_depth(call);
  /* Of steps that are cut the sums of all channels of y are kept, too, where these are not many. */
  const int64_t share = depth < call->c ? bytes * call->c / (call->c + call->k) : bytes;
  conv_lines l = conv_lines_in(call, share, lanes, element);
  if (depth < call->c && call->k * l.run * (int64_t)element > DIRECT_BYTES_MOST) {
    depth = call->c;
    l = conv_lines_in(call, bytes, lanes, element);
  }
  const bool dense = 16 * call->out[2] >= TILED_WANTED * summed;
  l.tiled = true;
  l.depth = depth;
  if (!conv_is_packed(call, element, dense ? conv_line_waste(call, &l) : 0, &l) &&
      (!dense || l.room * (int64_t)element > DIRECT_BYTES_MOST))
    return false;
  *lines = l;
  return true;
}

#if !TILE_PUTS_LANES
/* Whether tiles go through rows of windows one by one, and straight to y: what vectors of a row
 * overlap is summed twice, where those of a run of all rows, so many windows, are summed once and
 * copied. A tile and the copying of one take so long, in steps of a tile. */
static inline bool conv_has_long_rows(const conv_call *call, int64_t rows, int64_t run) {
  enum { TILE_STEPS = 5, COPY_STEPS = 8 };
  const int64_t of_rows = rows * cpu_ceil_div(call->out[2], TILE_SIDE), of_run = run / TILE_SIDE;
  return call->out[2] >= TILE_SIDE &&
         of_rows * (call->patch + TILE_STEPS) <= of_run * (call->patch + TILE_STEPS + COPY_STEPS);
}
#endif

static bool conv_is_direct(const conv_call *call, size_t element, conv_lines *lines) {
  const int64_t terms = call->k == 1 ? DIRECT_TERMS_ALONE : DIRECT_TERMS;
  const int64_t lanes = DIRECT_SUMS * DIRECT_VECTOR / (int64_t)element;
  if (call->patch > terms || (conv_is_pointwise(call) && call->patch > DIRECT_POINTS) ||
      call->k > DIRECT_SHARES * call->patch)
    return false;
  /* Padding that is larger than an image, and windows far apart, are left to the patches. */
  const double least = (double)call->patch * (double)(call->in[2] + 2 * call->at.padding[2]);
  if (least * (double)element > DIRECT_BYTES_MOST) return false;
  *lines = conv_lines_in(call, DIRECT_BYTES, lanes, element);
  return lines->room * (int64_t)element <= DIRECT_BYTES_MOST;
}

static bool conv_has_lines(conv_call *call, size_t element) {
  if (call->patch == 0 || call->stays) return false;
  if (call->k >= TILE_ROWS && conv_is_tiled(call, element, &call->lines)) return true;
  return conv_is_direct(call, element, &call->lines) || conv_is_tiled(call, element, &call->lines);
}

/* The gradient of x of a convolution with strides of 1 as a convolution of dy: with the channels of
 * x and y exchanged, the kernels turned round, and as much padding as they reach over. */
static conv_call conv_turned(const conv_call *call) {
  conv_call turned = *call;
  turned.turned = true;
  turned.x = call->dy;
  turned.activation = TN_ACTIVATION_NONE;
  turned.c = call->k;
  turned.k = call->c;
  turned.plane = call->image;
  turned.image = call->plane;
  turned.patch = call->k * call->window;
  for (int d = 0; d < 3; d++) {
    turned.in[d] = call->out[d];
    turned.out[d] = call->in[d];
    turned.at.padding[d] = (call->kernel[d] - 1) * call->at.dilation[d] - call->at.padding[d];
    turned.stays |= call->at.stride[d] != 1 || turned.at.padding[d] < 0;
  }
  return turned;
}

#endif
