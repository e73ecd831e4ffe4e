/*
 * Convolution and its gradients as products of dense matrices of doubles. Windows are
 * laid out as columns, a chunk of output rows at a time so that scratch stays small:
 *
 *   columns [c kh kw, oh ow]     the elements of x that each window reads, 0 outside x
 *   y  [k, oh ow]    = w [k, c kh kw] columns
 *   dw [c kh kw, k]  = columns (dy [k, oh ow])^T, summed over images
 *   columns of dx    = w^T dy, added up where windows overlap
 */
#include "iterate.h"
#include "kernels.h"
#include "product.h"

/* Most elements in one chunk of columns, unless one row of windows has more. */
#define CHUNK 131072

typedef struct conv {
  const tn_host *host;
  view x, w, y, bias; /* forward names; in gradients x, w or y is the gradient */
  int64_t stride[2], padding[2], dilation[2], groups;
  int64_t images, channels, kernels;    /* channels and kernels of one group */
  int64_t height, width, rows, columns; /* of x, of y */
  int64_t kernel[2], window;            /* window = kh kw */
  int64_t chunk_rows;                   /* rows of y in one chunk */
} conv;

static conv conv_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                    const DLTensor *y) {
  conv c = {.host = args->host, .x = view_of(x), .w = view_of(w), .y = view_of(y)};
  c.images = c.x.shape[0];
  c.height = c.x.shape[2];
  c.width = c.x.shape[3];
  c.channels = c.w.shape[1];
  c.kernel[0] = c.w.shape[2];
  c.kernel[1] = c.w.shape[3];
  c.window = c.kernel[0] * c.kernel[1];
  c.rows = c.y.shape[2];
  c.columns = c.y.shape[3];
  return c;
}

/* The attributes that all three operators share. */
static void conv_set(conv *c, const int64_t *stride, const int64_t *padding,
                     const int64_t *dilation, int64_t groups) {
  for (int axis = 0; axis < 2; ++axis) {
    c->stride[axis] = stride[axis];
    c->padding[axis] = padding[axis];
    c->dilation[axis] = dilation[axis];
  }
  c->groups = groups;
  c->kernels = c->w.shape[0] / groups;
  int64_t row = c->columns * c->window * (c->channels ? c->channels : 1);
  c->chunk_rows = row && CHUNK / row > 1 ? CHUNK / row : 1;
  if (c->chunk_rows > c->rows) c->chunk_rows = c->rows;
}

/* Images [1, channels of the group, ...] of x or y. */
static view part_of(view v, int64_t image, int64_t group, int64_t size) {
  return view_slice(view_slice(v, 0, image, 1), 1, group * size, size);
}

/* The kernels of one group. */
static view group_weight(const conv *c, int64_t group) {
  return view_slice(c->w, 0, group * c->kernels, c->kernels);
}

/* One row of windows seen through one kernel element: window j reads column
 * first + j stride of row `row` of x, inside x for begin <= j < end. */
typedef struct tap {
  int64_t row, first, begin, end;
} tap;

static int64_t div_up(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

static tap tap_of(const conv *c, int64_t element, int64_t row) {
  int64_t p = element / c->kernel[1], q = element % c->kernel[1];
  tap t = {.row = row * c->stride[0] + p * c->dilation[0] - c->padding[0]};
  t.first = q * c->dilation[1] - c->padding[1];
  if (t.row < 0 || t.row >= c->height) return t;
  t.begin = div_up(-t.first, c->stride[1]);
  t.end = div_up(c->width - t.first, c->stride[1]);
  if (t.end > c->columns) t.end = c->columns;
  if (t.begin > t.end) t.begin = t.end;
  return t;
}

/* Fills columns for rows of windows first <= i < first + rows, over the channels of the
 * image x. */
static void im2col(const conv *c, view x, int64_t first, int64_t rows, double *columns) {
  for (int64_t channel = 0; channel < x.shape[1]; ++channel) {
    for (int64_t element = 0; element < c->window; ++element) {
      for (int64_t i = 0; i < rows; ++i, columns += c->columns) {
        tap t = tap_of(c, element, first + i);
        int64_t column = t.first + t.begin * c->stride[1];
        for (int64_t j = 0; j < t.begin; ++j) columns[j] = 0;
        if (t.begin < t.end)
          load_f64(x.dtype,
                   view_at(&x, channel * x.stride[1] + t.row * x.stride[2] + column * x.stride[3]),
                   x.stride[3] * c->stride[1], t.end - t.begin, columns + t.begin);
        for (int64_t j = t.end; j < c->columns; ++j) columns[j] = 0;
      }
    }
  }
}

/* The transpose of im2col: adds columns onto the dense image dx [channels, h, w]. */
static void col2im(const conv *c, const double *columns, int64_t first, int64_t rows, double *dx) {
  for (int64_t channel = 0; channel < c->channels; ++channel, dx += c->height * c->width) {
    for (int64_t element = 0; element < c->window; ++element) {
      for (int64_t i = 0; i < rows; ++i, columns += c->columns) {
        tap t = tap_of(c, element, first + i);
        int64_t to = t.row * c->width + t.first;
        for (int64_t j = t.begin; j < t.end; ++j) dx[to + j * c->stride[1]] += columns[j];
      }
    }
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void set(double *to, int64_t n, double value) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

/* ------------------------------------------------------------------ forward --- */

/* The bias of each kernel of a group, repeated over its windows. */
static void fill_bias(const conv *c, int64_t group, int64_t windows, double *sums) {
  for (int64_t k = 0; k < c->kernels; ++k) {
    double bias = 0;
    if (c->bias.data) gather(view_slice(c->bias, 0, group * c->kernels + k, 1), &bias);
    set(sums + k * windows, windows, bias);
  }
}

/* Rows of windows first <= i < first + rows of one group of one image. */
static void forward_chunk(const conv *c, int64_t item, int64_t first, int64_t rows, double *room) {
  int64_t image = item / c->groups, group = item % c->groups;
  int64_t terms = c->channels * c->window, windows = rows * c->columns;
  double *weight = room, *sums = weight + c->kernels * terms,
         *columns = sums + c->kernels * windows;
  view y = part_of(c->y, image, group, c->kernels);
  gather(group_weight(c, group), weight);
  im2col(c, part_of(c->x, image, group, c->channels), first, rows, columns);
  fill_bias(c, group, windows, sums);
  product_add(c->kernels, windows, terms, weight, columns, sums);
  scatter(view_slice(y, 2, first, rows), sums);
}

/* The range counts the chunks of all groups of all images. */
static tn_status forward_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = c->channels * c->window, windows = c->chunk_rows * c->columns;
  int64_t chunks = div_up(c->rows, c->chunk_rows);
  double *room = scratch_alloc(c->host, (c->kernels + windows) * terms + c->kernels * windows);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    int64_t first = chunk % chunks * c->chunk_rows;
    forward_chunk(c, chunk / chunks, first, least(c->chunk_rows, c->rows - first), room);
  }
  c->host->free(c->host, room);
  return TN_OK;
}

tn_status reference_conv2d(const tn_kernel_args *args) {
  const tn_conv2d_attrs *attrs = args->attrs;
  conv c = conv_of(args, args->in[0], args->in[1], args->out[0]);
  conv_set(&c, attrs->stride, attrs->padding, attrs->dilation, attrs->groups);
  if (args->in[2]) c.bias = view_of(args->in[2]);
  if (view_count(&c.y) == 0) return TN_OK;
  int64_t chunks = c.images * c.groups * div_up(c.rows, c.chunk_rows);
  return c.host->parallel_for(c.host, chunks, 1, forward_range, &c);
}

/* -------------------------------------------------------- gradient by input --- */

/* Axes of w as [c, kh, kw, k]. */
static view weight_transposed(view w) { return view_permute(w, 4, (const int[]){1, 2, 3, 0}); }

/* One group of one image. */
static void grad_input_item(const conv *c, int64_t item, double *room) {
  int64_t image = item / c->groups, group = item % c->groups;
  int64_t terms = c->channels * c->window, most = c->chunk_rows * c->columns;
  double *weight = room, *dy = weight + c->kernels * terms, *columns = dy + c->kernels * most;
  double *dx = columns + terms * most;
  view y = part_of(c->y, image, group, c->kernels);
  gather(weight_transposed(group_weight(c, group)), weight);
  set(dx, c->channels * c->height * c->width, 0);
  for (int64_t first = 0; first < c->rows; first += c->chunk_rows) {
    int64_t rows = least(c->chunk_rows, c->rows - first), windows = rows * c->columns;
    gather(view_slice(y, 2, first, rows), dy);
    set(columns, terms * windows, 0);
    product_add(terms, windows, c->kernels, weight, dy, columns);
    col2im(c, columns, first, rows, dx);
  }
  scatter(part_of(c->x, image, group, c->channels), dx);
}

static tn_status grad_input_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = c->channels * c->window, windows = c->chunk_rows * c->columns;
  double *room = scratch_alloc(c->host, c->kernels * terms + (c->kernels + terms) * windows +
                                            c->channels * c->height * c->width);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t item = begin; item < end; ++item) grad_input_item(c, item, room);
  c->host->free(c->host, room);
  return TN_OK;
}

tn_status reference_conv2d_grad_input(const tn_kernel_args *args) {
  const tn_conv2d_grad_input_attrs *attrs = args->attrs;
  conv c = conv_of(args, args->out[0], args->in[1], args->in[0]);
  conv_set(&c, attrs->stride, attrs->padding, attrs->dilation, attrs->groups);
  if (view_count(&c.x) == 0) return TN_OK;
  return c.host->parallel_for(c.host, c.images * c.groups, 1, grad_input_range, &c);
}

/* ------------------------------------------------------- gradient by weight --- */

/* Channels begin <= i < end of one group, over all images. */
static void grad_weight_part(const conv *c, int64_t group, int64_t begin, int64_t end,
                             double *room) {
  int64_t terms = (end - begin) * c->window, most = c->chunk_rows * c->columns;
  double *dw = room, *dy = dw + terms * c->kernels, *columns = dy + c->kernels * most;
  set(dw, terms * c->kernels, 0);
  for (int64_t image = 0; image < c->images; ++image) {
    view x = view_slice(part_of(c->x, image, group, c->channels), 1, begin, end - begin);
    view y = part_of(c->y, image, group, c->kernels);
    for (int64_t first = 0; first < c->rows; first += c->chunk_rows) {
      int64_t rows = least(c->chunk_rows, c->rows - first);
      gather(view_permute(view_slice(y, 2, first, rows), 3, (const int[]){2, 3, 1}), dy);
      im2col(c, x, first, rows, columns);
      product_add(terms, c->kernels, rows * c->columns, columns, dy, dw);
    }
  }
  scatter(weight_transposed(view_slice(group_weight(c, group), 1, begin, end - begin)), dw);
}

/* The range counts the channels of all groups. */
static tn_status grad_weight_range(void *ctx, int64_t begin, int64_t end) {
  const conv *c = ctx;
  int64_t terms = least(end - begin, c->channels) * c->window;
  int64_t windows = c->chunk_rows * c->columns;
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

tn_status reference_conv2d_grad_weight(const tn_kernel_args *args) {
  const tn_conv2d_grad_weight_attrs *attrs = args->attrs;
  conv c = conv_of(args, args->in[1], args->out[0], args->in[0]);
  conv_set(&c, attrs->stride, attrs->padding, attrs->dilation, attrs->groups);
  if (view_count(&c.w) == 0) return TN_OK;
  return c.host->parallel_for(c.host, c.groups * c.channels, 4, grad_weight_range, &c);
}
