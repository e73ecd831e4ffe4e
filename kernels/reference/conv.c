/*
 * Convolution, its gradients and transposed convolution over one to three spatial axes as
 * products of dense matrices of doubles. Windows are laid out as columns, a chunk of
 * output rows at a time so that scratch stays small:
 *
 *   columns [c kd kh kw, windows]  the elements of x that each window reads, 0 outside x
 *   y  [k, windows]  = w [k, c kd kh kw] columns
 *   dw [c kd kh kw, k] = columns (dy [k, windows])^T, summed over images
 *   columns of dx    = w^T dy, added up where windows overlap
 *
 * A transposed convolution is the gradient by the input, and the other way round.
 */
#include "activation.h"
#include "iterate.h"
#include "kernels.h"
#include "kernels/common/window.h"
#include "product.h"

/* Most elements in one chunk of columns, unless one row of windows has more. */
#define CHUNK 131072

typedef struct conv {
  const tn_host *host;
  view x, w, y, bias, addend; /* [n, c, d, h, w] each but the bias, by forward names */
  window_conv at;
  int64_t images, channels, kernels;          /* channels and kernels of one group */
  int64_t size[3], out[3], kernel[3], window; /* of x, y, w; window = kd kh kw */
  int64_t chunk_rows;                         /* rows of y in one chunk */
  int64_t activation;                         /* a tn_activation */
} conv;

/* A chunk: rows first <= i < first + rows at one depth of y. */
typedef struct chunk {
  int64_t depth, first, rows;
} chunk;

static view spatial_view(const DLTensor *t) {
  window_shape s = window_shape_of(t);
  view v = view_of(t);
  v.ndim = 5;
  for (int a = 0; a < 5; ++a) {
    v.shape[a] = s.size[a];
    v.stride[a] = s.stride[a];
  }
  return v;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t div_up(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

static conv conv_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                    const DLTensor *y) {
  conv c = {.host = args->host, .at = window_conv_of(args->attrs, window_axes(x))};
  c.x = spatial_view(x);
  c.w = spatial_view(w);
  c.y = spatial_view(y);
  if (args->num_in > 2 && args->in[2]) c.bias = view_of(args->in[2]);
  c.images = c.x.shape[0];
  c.channels = c.w.shape[1];
  c.kernels = c.w.shape[0] / c.at.groups;
  c.window = 1;
  for (int d = 0; d < 3; ++d) {
    c.size[d] = c.x.shape[2 + d];
    c.out[d] = c.y.shape[2 + d];
    c.kernel[d] = c.w.shape[2 + d];
    c.window *= c.kernel[d];
  }
  int64_t row = c.out[2] * c.window * (c.channels ? c.channels : 1);
  c.chunk_rows = least(row && CHUNK / row > 1 ? CHUNK / row : 1, c.out[1]);
  return c;
}

/* How many chunks an image has, and the i-th of them. */
static int64_t chunk_count(const conv *c) {
  return c->chunk_rows ? c->out[0] * div_up(c->out[1], c->chunk_rows) : 0;
}

static chunk chunk_at(const conv *c, int64_t i) {
  int64_t per_depth = div_up(c->out[1], c->chunk_rows);
  chunk at = {.depth = i / per_depth, .first = i % per_depth * c->chunk_rows};
  at.rows = least(c->chunk_rows, c->out[1] - at.first);
  return at;
}

/* Images [1, channels of the group, ...] of x or y. */
static view part_of(view v, int64_t image, int64_t group, int64_t size) {
  return view_slice(view_slice(v, 0, image, 1), 1, group * size, size);
}

/* The kernels of one group. */
static view group_weight(const conv *c, int64_t group) {
  return view_slice(c->w, 0, group * c->kernels, c->kernels);
}

/* The part of y that a chunk covers. */
static view chunk_of(view y, chunk at) {
  return view_slice(view_slice(y, 2, at.depth, 1), 3, at.first, at.rows);
}

/* One row of windows seen through one kernel element: window j reads column
 * first + j stride of the row at (depth, row) of x, inside x for begin <= j < end. */
typedef struct tap {
  int64_t depth, row, first, begin, end;
} tap;

static tap tap_of(const conv *c, int64_t element, int64_t depth, int64_t row) {
  const window_conv *at = &c->at;
  int64_t q = element % c->kernel[2], p = element / c->kernel[2] % c->kernel[1];
  int64_t o = element / (c->kernel[2] * c->kernel[1]);
  tap t = {.depth = depth * at->stride[0] + o * at->dilation[0] - at->padding[0],
           .row = row * at->stride[1] + p * at->dilation[1] - at->padding[1],
           .first = q * at->dilation[2] - at->padding[2]};
  if (t.depth < 0 || t.depth >= c->size[0] || t.row < 0 || t.row >= c->size[1]) return t;
  t.begin = least(div_up(-t.first, at->stride[2]), c->out[2]);
  t.end = least(div_up(c->size[2] - t.first, at->stride[2]), c->out[2]);
  if (t.begin > t.end) t.begin = t.end;
  return t;
}

/* Fills columns for a chunk of windows over the channels of the image x. */
static void im2col(const conv *c, view x, chunk at, double *columns) {
  int64_t step = c->at.stride[2];
  for (int64_t channel = 0; channel < x.shape[1]; ++channel) {
    for (int64_t element = 0; element < c->window; ++element) {
      for (int64_t i = 0; i < at.rows; ++i, columns += c->out[2]) {
        tap t = tap_of(c, element, at.depth, at.first + i);
        int64_t from = channel * x.stride[1] + t.depth * x.stride[2] + t.row * x.stride[3] +
                       (t.first + t.begin * step) * x.stride[4];
        for (int64_t j = 0; j < t.begin; ++j) columns[j] = 0;
        if (t.begin < t.end)
          load_f64(x.dtype, view_at(&x, from), x.stride[4] * step, t.end - t.begin,
                   columns + t.begin);
        for (int64_t j = t.end; j < c->out[2]; ++j) columns[j] = 0;
      }
    }
  }
}

/* The transpose of im2col: adds columns onto the dense image dx [channels, d, h, w]. */
static void col2im(const conv *c, const double *columns, chunk at, double *dx) {
  int64_t plane = c->size[0] * c->size[1] * c->size[2];
  for (int64_t channel = 0; channel < c->channels; ++channel, dx += plane) {
    for (int64_t element = 0; element < c->window; ++element) {
      for (int64_t i = 0; i < at.rows; ++i, columns += c->out[2]) {
        tap t = tap_of(c, element, at.depth, at.first + i);
        int64_t to = (t.depth * c->size[1] + t.row) * c->size[2] + t.first;
        for (int64_t j = t.begin; j < t.end; ++j) dx[to + j * c->at.stride[2]] += columns[j];
      }
    }
  }
}

static double bias_of(const conv *c, int64_t channel) {
  double bias = 0;
  if (c->bias.data) gather(view_slice(c->bias, 0, channel, 1), &bias);
  return bias;
}

static void set(double *to, int64_t n, double value) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

/* The bias of each of `count` channels of a group, repeated over their elements; 0 where
 * the call has none. */
static void fill_bias(const conv *c, int64_t group, int64_t count, int64_t elements, double *to) {
  for (int64_t k = 0; k < count; ++k)
    set(to + k * elements, elements, bias_of(c, group * count + k));
}

/* ------------------------------------------------------------------ forward --- */

/* What the products of a chunk are added to. */
static void begin_sums(const conv *c, int64_t image, int64_t group, chunk at, double *sums) {
  const int64_t windows = at.rows * c->out[2];
  if (!c->addend.data) {
    fill_bias(c, group, c->kernels, windows, sums);
    return;
  }
  gather(chunk_of(part_of(c->addend, image, group, c->kernels), at), sums);
  for (int64_t k = 0; k < c->kernels; ++k) {
    const double bias = bias_of(c, group * c->kernels + k);
    for (int64_t j = 0; j < windows; ++j) sums[k * windows + j] += bias;
  }
}

/* A chunk of one group of one image. */
static void forward_chunk(const conv *c, int64_t item, chunk at, double *room) {
  int64_t image = item / c->at.groups, group = item % c->at.groups;
  int64_t terms = c->channels * c->window, windows = at.rows * c->out[2];
  double *weight = room, *sums = weight + c->kernels * terms,
         *columns = sums + c->kernels * windows;
  gather(group_weight(c, group), weight);
  im2col(c, part_of(c->x, image, group, c->channels), at, columns);
  begin_sums(c, image, group, at, sums);
  product_add(c->kernels, windows, terms, weight, columns, sums);
  activate(c->activation, c->kernels * windows, sums);
  scatter(chunk_of(part_of(c->y, image, group, c->kernels), at), sums);
}

/* The range counts the chunks of all groups of all images. */
static tn_status forward_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = c->channels * c->window, windows = c->chunk_rows * c->out[2];
  int64_t chunks = chunk_count(c);
  double *room = scratch_alloc(c->host, (c->kernels + windows) * terms + c->kernels * windows);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t i = begin; i < end; ++i) forward_chunk(c, i / chunks, chunk_at(c, i % chunks), room);
  c->host->free(c->host, room);
  return TN_OK;
}

/* Inputs x, w, perhaps a bias, and perhaps an addend. */
static tn_status forward(const tn_kernel_args *args) {
  conv c = conv_of(args, args->in[0], args->in[1], args->out[0]);
  if (args->num_in > 3 && args->in[3]) c.addend = spatial_view(args->in[3]);
  c.activation = window_activation(args);
  if (view_count(&c.y) == 0) return TN_OK;
  int64_t chunks = c.images * c.at.groups * chunk_count(&c);
  return c.host->parallel_for(c.host, chunks, 1, forward_range, &c);
}

/* -------------------------------------------------------- gradient by input --- */

/* Axes of w as [c, kd, kh, kw, k]. */
static view weight_transposed(view w) { return view_permute(w, 5, (const int[]){1, 2, 3, 4, 0}); }

/* One group of one image. */
static void grad_input_item(const conv *c, int64_t item, double *room) {
  int64_t image = item / c->at.groups, group = item % c->at.groups;
  int64_t terms = c->channels * c->window, most = c->chunk_rows * c->out[2];
  int64_t plane = c->size[0] * c->size[1] * c->size[2];
  double *weight = room, *dy = weight + c->kernels * terms, *columns = dy + c->kernels * most;
  double *dx = columns + terms * most;
  view y = part_of(c->y, image, group, c->kernels);
  gather(weight_transposed(group_weight(c, group)), weight);
  fill_bias(c, group, c->channels, plane, dx);
  for (int64_t i = 0; i < chunk_count(c); ++i) {
    chunk at = chunk_at(c, i);
    int64_t windows = at.rows * c->out[2];
    gather(chunk_of(y, at), dy);
    set(columns, terms * windows, 0);
    product_add(terms, windows, c->kernels, weight, dy, columns);
    col2im(c, columns, at, dx);
  }
  scatter(part_of(c->x, image, group, c->channels), dx);
}

static tn_status grad_input_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = c->channels * c->window, windows = c->chunk_rows * c->out[2];
  double *room = scratch_alloc(c->host, c->kernels * terms + (c->kernels + terms) * windows +
                                            c->channels * c->size[0] * c->size[1] * c->size[2]);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t item = begin; item < end; ++item) grad_input_item(c, item, room);
  c->host->free(c->host, room);
  return TN_OK;
}

/* Inputs y, w and, transposed, perhaps a bias. */
static tn_status grad_input(const tn_kernel_args *args) {
  conv c = conv_of(args, args->out[0], args->in[1], args->in[0]);
  if (view_count(&c.x) == 0) return TN_OK;
  return c.host->parallel_for(c.host, c.images * c.at.groups, 1, grad_input_range, &c);
}

/* ------------------------------------------------------- gradient by weight --- */

/* Channels begin <= i < end of one group, over all images. */
static void grad_weight_part(const conv *c, int64_t group, int64_t begin, int64_t end,
                             double *room) {
  int64_t terms = (end - begin) * c->window, most = c->chunk_rows * c->out[2];
  double *dw = room, *dy = dw + terms * c->kernels, *columns = dy + c->kernels * most;
  set(dw, terms * c->kernels, 0);
  for (int64_t image = 0; image < c->images; ++image) {
    view x = view_slice(part_of(c->x, image, group, c->channels), 1, begin, end - begin);
    view y = part_of(c->y, image, group, c->kernels);
    for (int64_t i = 0; i < chunk_count(c); ++i) {
      chunk at = chunk_at(c, i);
      gather(view_permute(chunk_of(y, at), 4, (const int[]){2, 3, 4, 1}), dy);
      im2col(c, x, at, columns);
      product_add(terms, c->kernels, at.rows * c->out[2], columns, dy, dw);
    }
  }
  scatter(weight_transposed(view_slice(group_weight(c, group), 1, begin, end - begin)), dw);
}

/* The range counts the channels of all groups. */
static tn_status grad_weight_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = least(end - begin, c->channels) * c->window;
  int64_t windows = c->chunk_rows * c->out[2];
  double *room = scratch_alloc(c->host, (terms + c->kernels) * windows + terms * c->kernels);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  while (begin < end) {
    int64_t group = begin / c->channels, first = begin % c->channels;
    int64_t count = least(end - begin, c->channels - first);
    grad_weight_part(c, group, first, first + count, room);
    begin += count;
  }
  c->host->free(c->host, room);
  return TN_OK;
}

static tn_status grad_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y) {
  conv c = conv_of(args, x, args->out[0], y);
  if (view_count(&c.w) == 0) return TN_OK;
  return c.host->parallel_for(c.host, c.at.groups * c.channels, 4, grad_weight_range, &c);
}

/* ---------------------------------------------------------------- operators --- */

#define CONV(rank)                                                                                 \
  tn_status reference_conv##rank(const tn_kernel_args *args) { return forward(args); }             \
  tn_status reference_conv##rank##_grad_input(const tn_kernel_args *args) {                        \
    return grad_input(args);                                                                       \
  }                                                                                                \
  tn_status reference_conv##rank##_grad_weight(const tn_kernel_args *args) {                       \
    return grad_weight(args, args->in[1], args->in[0]);                                            \
  }                                                                                                \
  tn_status reference_conv_transpose##rank(const tn_kernel_args *args) {                           \
    return grad_input(args);                                                                       \
  }                                                                                                \
  tn_status reference_conv_transpose##rank##_grad_input(const tn_kernel_args *args) {              \
    return forward(args);                                                                          \
  }                                                                                                \
  tn_status reference_conv_transpose##rank##_grad_weight(const tn_kernel_args *args) {             \
    return grad_weight(args, args->in[0], args->in[1]);                                            \
  }
CONV(1d)
CONV(2d)
CONV(3d)
tn_status reference_conv2d_add(const tn_kernel_args *args) { return forward(args); }
