/* ONNX's convolutions and pooling, whose padding and windows may be such as Tenon's are not. */
#include "adapters.h"
#include "window.h"

#include <stdio.h>
#include <string.h>

/* The numbers of an attribute, or `otherwise`. */
static void take_spatial(onnx_node *c, const char *name, int rank, int64_t otherwise, int64_t *to) {
  const int64_t *list;
  int count = node_ints(c, name, &list);
  if (count && count < rank)
    node_cannot(c, "%s of %d numbers for %d axes", name, count, rank);
  else
    for (int i = 0; i < rank; i++) to[i] = count ? list[i] : otherwise;
}

static int64_t reach(const window *w, int i) { return (w->kernel[i] - 1) * w->dilation[i] + 1; }

bool take_padding(onnx_node *c, window *w) {
  const int64_t *pads;
  int count = node_ints(c, "pads", &pads);
  bool upper = node_word(c, "auto_pad", "SAME_UPPER"),
       lower = node_word(c, "auto_pad", "SAME_LOWER");
  if (node_word(c, "auto_pad", "VALID")) count = 0;
  if (count && count != 2 * w->rank && !upper && !lower)
    return node_cannot(c, "pads of %d numbers for %d axes", count, w->rank), false;
  for (int i = 0; i < w->rank; i++) {
    if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1)
      return node_cannot(c, "a window without elements or a step"), false;
    if (upper || lower) {
      int64_t out = (w->size[i] + w->stride[i] - 1) / w->stride[i];
      int64_t all = (out - 1) * w->stride[i] + reach(w, i) - w->size[i];
      if (all < 0) all = 0;
      w->before[i] = upper ? all / 2 : all - all / 2;
      w->after[i] = all - w->before[i];
    } else if (count) {
      w->before[i] = pads[i];
      w->after[i] = pads[w->rank + i];
    }
    if (w->before[i] < 0 || w->after[i] < 0) return node_cannot(c, "padding that cuts"), false;
  }
  return !*c->cannot;
}

bool window_begin(onnx_node *c, window *w) {
  w->rank = c->in[0].rank - 2;
  if (w->rank < 1 || w->rank > 3) return node_cannot(c, "windows over %d axes", w->rank), false;
  for (int i = 0; i < w->rank; i++) w->size[i] = c->in[0].shape[i + 2];
  take_spatial(c, "strides", w->rank, 1, w->stride);
  take_spatial(c, "dilations", w->rank, 1, w->dilation);
  return !*c->cannot;
}

static bool is_even(const window *w) {
  for (int i = 0; i < w->rank; i++)
    if (w->before[i] != w->after[i]) return false;
  return true;
}

/* The input with a border of one value around its spatial axes. */
static tn_tensor *padded(onnx_node *c, tn_tensor *x, int rank, const int64_t *before,
                         const int64_t *after, double value) {
  op_call k = call_begin(c, "pad");
  call_in(&k, x);
  for (int i = 0; i < 2; i++) call_set(&k, "before", i, 0), call_set(&k, "after", i, 0);
  for (int i = 0; i < rank; i++) {
    call_set(&k, "before", i + 2, (double)before[i]);
    call_set(&k, "after", i + 2, (double)after[i]);
  }
  call_set(&k, "value", 0, value);
  return x ? node_made(&k) : NULL;
}

static void set_all(op_call *k, const char *name, int rank, const int64_t *numbers) {
  for (int i = 0; i < rank; i++) call_set(k, name, i, (double)numbers[i]);
}

/* --- convolutions --- */

static tn_status conv(onnx_node *c, const char *op) {
  static const int64_t none[3] = {0};
  window w = {0};
  char name[32];
  if (!node_needs(c, 1) || !window_begin(c, &w)) return TN_OK;
  if (c->in[1].rank != c->in[0].rank)
    return node_cannot(c, "a kernel of %d axes for %d", c->in[1].rank, c->in[0].rank);
  for (int i = 0; i < w.rank; i++) w.kernel[i] = c->in[1].shape[i + 2];
  if (!take_padding(c, &w)) return TN_OK;
  bool even = is_even(&w);
  tn_tensor *x = even ? c->x[0] : padded(c, c->x[0], w.rank, w.before, w.after, 0);
  snprintf(name, sizeof name, "%s%dd", op, w.rank);
  op_call k = call_begin(c, name);
  call_in(&k, x);
  call_in(&k, c->x[1]);
  call_in(&k, node_given(c, 2) ? c->x[2] : NULL);
  set_all(&k, "stride", w.rank, w.stride);
  set_all(&k, "padding", w.rank, even ? w.before : none);
  set_all(&k, "dilation", w.rank, w.dilation);
  call_set(&k, "groups", 0, (double)node_int(c, "group", 1));
  return node_give(c, 0, node_made(&k));
}

/* What of the whole result of a transposed convolution is asked for: padding cuts it. */
static bool take_crop(onnx_node *c, window *w, int64_t *more) {
  const int64_t *list;
  bool upper = node_word(c, "auto_pad", "SAME_UPPER"),
       lower = node_word(c, "auto_pad", "SAME_LOWER");
  int shape = node_ints(c, "output_shape", &list);
  take_spatial(c, "output_padding", w->rank, 0, more);
  if (!upper && !lower && !shape) return take_padding(c, w);
  if (shape && shape < w->rank) return node_cannot(c, "output_shape of too few numbers"), false;
  for (int i = 0; i < w->rank; i++) {
    int64_t out = shape ? list[shape - w->rank + i] : w->size[i] * w->stride[i];
    int64_t all = (w->size[i] - 1) * w->stride[i] + reach(w, i) + more[i] - out;
    if (all < 0) more[i] -= all, all = 0;
    w->before[i] = upper ? all / 2 : all - all / 2;
    w->after[i] = all - w->before[i];
  }
  return true;
}

/* Uneven padding: the whole result, of which a part is taken. */
static tn_status conv_transpose(onnx_node *c, const char *op) {
  static const int64_t none[3] = {0};
  window w = {0};
  int64_t more[3] = {0};
  char name[32];
  if (!node_needs(c, 1) || !window_begin(c, &w)) return TN_OK;
  if (c->in[1].rank != c->in[0].rank)
    return node_cannot(c, "a kernel of %d axes for %d", c->in[1].rank, c->in[0].rank);
  for (int i = 0; i < w.rank; i++) w.kernel[i] = c->in[1].shape[i + 2];
  if (!take_crop(c, &w, more)) return TN_OK;
  bool even = is_even(&w);
  snprintf(name, sizeof name, "%s%dd", op, w.rank);
  op_call k = call_begin(c, name);
  for (int i = 0; i < 3; i++) call_in(&k, node_given(c, i) ? c->x[i] : NULL);
  set_all(&k, "stride", w.rank, w.stride);
  set_all(&k, "padding", w.rank, even ? w.before : none);
  set_all(&k, "dilation", w.rank, w.dilation);
  set_all(&k, "output_padding", w.rank, more);
  call_set(&k, "groups", 0, (double)node_int(c, "group", 1));
  tn_tensor *y = node_made(&k);
  for (int i = 0; i < w.rank && !even && y; i++)
    y = node_slice(c, y, i + 2, w.before[i], tn_tensor_shape(y)[i + 2] - w.after[i]);
  return node_give(c, 0, y);
}

/* --- pooling --- */

/* How many windows there are along an axis. */
static int64_t windows(const window *w, int i, bool up) {
  int64_t room = w->size[i] + w->before[i] + w->after[i] - reach(w, i);
  if (room < 0) return 0;
  int64_t count = (room + (up ? w->stride[i] - 1 : 0)) / w->stride[i] + 1;
  /* A window that would begin in the padding behind is none. */
  if (up && (count - 1) * w->stride[i] >= w->size[i] + w->before[i]) count--;
  return count;
}

/* Windows combined axis by axis, place by place: for dilation and types that pooling does not
 * have. */
static tn_tensor *by_places(onnx_node *c, tn_tensor *x, const window *w, const int64_t *count,
                            const char *combine) {
  for (int i = 0; i < w->rank; i++) {
    tn_tensor *y = NULL;
    for (int64_t at = 0; at < w->kernel[i] && x; at++) {
      int64_t begin = at * w->dilation[i], end = begin + (count[i] - 1) * w->stride[i] + 1;
      tn_tensor *part = node_slice_by(c, x, i + 2, begin, end, w->stride[i]);
      y = y && part ? node_do(c, combine, y, part) : part;
    }
    x = y;
  }
  return x;
}

/* Pooling of what is padded already. */
static tn_tensor *pool_padded(onnx_node *c, tn_tensor *x, const window *w, const int64_t *count,
                              bool max) {
  static const int64_t none[3] = {0};
  bool plain = TN_SET(c->in[0].dtype) & TN_SET_FLOAT;
  char name[32];
  for (int i = 0; i < w->rank; i++) plain = plain && w->dilation[i] == 1;
  if (!plain) return by_places(c, x, w, count, max ? "maximum" : "add");
  snprintf(name, sizeof name, "%s%dd", max ? "max_pool" : "avg_pool", w->rank);
  op_call k = call_begin(c, name);
  call_in(&k, x);
  set_all(&k, "kernel", w->rank, w->kernel);
  set_all(&k, "stride", w->rank, w->stride);
  set_all(&k, "padding", w->rank, none);
  return x ? node_made(&k) : NULL;
}

static double least(tn_dtype dtype) {
  switch (dtype) {
  case TN_I8:
    return -128;
  case TN_I16:
    return -32768;
  case TN_I32:
    return -2147483648.0;
  case TN_I64:
    return -0x1p63;
  case TN_U8:
    return 0;
  default:
    return -(double)__builtin_inff();
  }
}

/* Any padding: the border is made first, of what does not count. */
static tn_tensor *pool_with_border(onnx_node *c, const window *w, bool max, bool up) {
  int64_t after[3] = {0}, count[3] = {0}, shape[5] = {1, 1}, inside[3] = {0}, cut[3] = {0};
  bool counts = node_int(c, "count_include_pad", 0);
  tn_tensor *x = c->x[0];
  for (int i = 0; i < w->rank; i++) {
    count[i] = windows(w, i, up);
    if (count[i] < 1) return node_cannot(c, "a window larger than its input"), NULL;
    after[i] = (count[i] - 1) * w->stride[i] + reach(w, i) - w->before[i] - w->size[i];
    if (after[i] < 0) cut[i] = -after[i], after[i] = 0;
    inside[i] = counts ? (after[i] < w->after[i] ? after[i] : w->after[i]) : 0;
    shape[i + 2] = w->size[i] - cut[i];
    if (cut[i]) x = node_slice(c, x, i + 2, 0, w->size[i] - cut[i]);
  }
  tn_tensor *y = pool_padded(
      c, padded(c, x, w->rank, w->before, after, max ? least(c->in[0].dtype) : 0), w, count, max);
  if (max) return y;
  /* A mean of what counts is the mean of all by the part that counts. */
  static const int64_t none[3] = {0};
  tn_tensor *ones = node_filled(c, c->in[0].dtype, w->rank + 2, shape, 1);
  if (counts) ones = padded(c, ones, w->rank, w->before, inside, 1);
  for (int i = 0; i < w->rank; i++) after[i] -= inside[i];
  ones = padded(c, ones, w->rank, counts ? none : w->before, after, 0);
  return node_do(c, "div", y, pool_padded(c, ones, w, count, false));
}

/* Places inside an image counted column by column. */
static tn_tensor *by_columns(onnx_node *c, tn_tensor *index) {
  int64_t height = c->in[0].shape[2], width = c->in[0].shape[3];
  tn_tensor *w = node_constant(c, TN_I64, (double)width);
  tn_tensor *row = node_do(c, "div", index, w), *column = node_do(c, "mod", index, w);
  return node_do(c, "add", node_do(c, "mul", column, node_constant(c, TN_I64, (double)height)),
                 row);
}

/* ONNX counts maxima over the whole tensor, Tenon inside a plane. */
static tn_tensor *whole_index(onnx_node *c, tn_tensor *index) {
  int32_t rank = c->in[0].rank;
  int64_t plane = 1, planes[5] = {c->in[0].shape[0], c->in[0].shape[1], 1, 1, 1};
  for (int32_t i = 2; i < c->in[0].rank; i++) plane *= c->in[0].shape[i];
  if (!index) return NULL;
  tn_tensor *first = node_empty(c, TN_I64, rank, planes);
  op_call k = call_begin(c, "arange");
  call_set(&k, "step", 0, (double)plane);
  call_update(&k, first);
  if (!first || !node_check(c, call_run(&k, NULL, 0))) return NULL;
  index = node_cast(c, index, TN_I64);
  if (node_int(c, "storage_order", 0) && c->in[0].rank == 4) index = by_columns(c, index);
  return node_do(c, "add", index, first);
}

/* Windows as Tenon's pooling has them. */
static tn_status pool_plain(onnx_node *c, const window *w, bool max) {
  tn_tensor *y[2] = {NULL, NULL};
  char name[32];
  bool index = max && node_wants(c, 1);
  snprintf(name, sizeof name, "%s%dd", max ? "max_pool" : "avg_pool", w->rank);
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  set_all(&k, "kernel", w->rank, w->kernel);
  set_all(&k, "stride", w->rank, w->stride);
  set_all(&k, "padding", w->rank, w->before);
  if (!max) call_set(&k, "count_padding", 0, (double)node_int(c, "count_include_pad", 0));
  call_set(&k, "ceil_mode", 0, node_int(c, "ceil_mode", 0) != 0);
  tn_status status = call_run(&k, y, index ? 2 : 1);
  c->y[0] = y[0];
  if (!index || status || *c->cannot) return status;
  return node_give(c, 1, whole_index(c, node_keep(c, y[1])));
}

/* Places in an image with a border as places in the image, axis by axis. */
static tn_tensor *without_border(onnx_node *c, tn_tensor *index, const window *w,
                                 const int64_t *wide) {
  tn_tensor *place = NULL;
  int64_t inner = 1, inside = 1;
  for (int i = w->rank - 1; i >= 0; i--) {
    tn_tensor *at = node_do(c, "div", index, node_constant(c, TN_I64, (double)inner));
    if (i > 0) at = node_do(c, "mod", at, node_constant(c, TN_I64, (double)wide[i]));
    at = node_do(c, "sub", at, node_constant(c, TN_I64, (double)w->before[i]));
    at = node_do(c, "mul", at, node_constant(c, TN_I64, (double)inside));
    place = place ? node_do(c, "add", place, at) : at;
    inner *= wide[i];
    inside *= w->size[i];
  }
  return place;
}

/* What all windows have at one of their places, `at`. */
static tn_tensor *window_part(onnx_node *c, tn_tensor *x, const window *w, const int64_t *count,
                              const int64_t *at) {
  for (int i = 0; i < w->rank && x; i++) {
    int64_t begin = at[i] * w->dilation[i], end = begin + (count[i] - 1) * w->stride[i] + 1;
    x = node_slice_by(c, x, i + 2, begin, end, w->stride[i]);
  }
  return x;
}

static tn_tensor *choose(onnx_node *c, tn_tensor *which, tn_tensor *a, tn_tensor *b) {
  op_call k = call_begin(c, "where");
  call_in(&k, which), call_in(&k, a), call_in(&k, b);
  return which && a && b ? node_made(&k) : NULL;
}

/* Maxima of windows with gaps, compared place by place, the first of equals; *index: where in the
 * padded input. */
static tn_tensor *compared(onnx_node *c, tn_tensor *x, const window *w, const int64_t *count,
                           const int64_t *wide, tn_tensor **index) {
  int64_t at[3] = {0}, shape[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < w->rank; i++) shape[i + 2] = wide[i];
  tn_tensor *places = node_empty(c, TN_I64, w->rank + 2, shape), *most = NULL;
  op_call k = call_begin(c, "arange");
  call_set(&k, "step", 0, 1);
  call_update(&k, places);
  if (!places || !node_check(c, call_run(&k, NULL, 0))) return NULL;
  for (int axis = w->rank; axis >= 0;) {
    tn_tensor *part = window_part(c, x, w, count, at), *of = window_part(c, places, w, count, at);
    if (!part || !of) return NULL;
    tn_tensor *more = most ? node_do(c, "greater", part, most) : NULL;
    *index = most ? choose(c, more, of, *index) : of;
    most = most ? choose(c, more, part, most) : part;
    for (axis = w->rank - 1; axis >= 0 && ++at[axis] == w->kernel[axis]; axis--) at[axis] = 0;
  }
  return most;
}

/* Maxima and their places where the padding is not even or windows have gaps: of the input with its
 * border. */
static tn_status pool_places(onnx_node *c, const window *w, bool up) {
  static const int64_t none[3] = {0};
  int64_t after[3] = {0}, wide[3] = {0}, count[3] = {0};
  tn_tensor *y[2] = {NULL, NULL};
  char name[32];
  bool gaps = false;
  if (!(TN_SET(c->in[0].dtype) & TN_SET_FLOAT))
    return node_cannot(c, "places of maxima of other than floats");
  for (int i = 0; i < w->rank; i++) {
    count[i] = windows(w, i, up);
    gaps = gaps || w->dilation[i] != 1;
    if (count[i] < 1) return node_cannot(c, "a window larger than its input");
    int64_t end = (count[i] - 1) * w->stride[i] + reach(w, i) - w->before[i] - w->size[i];
    after[i] = end > 0 ? end : 0;
    wide[i] = w->size[i] + w->before[i] + after[i];
  }
  tn_tensor *x = padded(c, c->x[0], w->rank, w->before, after, least(c->in[0].dtype)),
            *index = NULL;
  if (gaps) {
    tn_tensor *most = x ? compared(c, x, w, count, wide, &index) : NULL;
    if (!most || node_give(c, 0, most)) return c->status;
    return node_give(c, 1, whole_index(c, without_border(c, index, w, wide)));
  }
  snprintf(name, sizeof name, "max_pool%dd", w->rank);
  op_call k = call_begin(c, name);
  call_in(&k, x);
  set_all(&k, "kernel", w->rank, w->kernel);
  set_all(&k, "stride", w->rank, w->stride);
  set_all(&k, "padding", w->rank, none);
  if (c->status || *c->cannot || !node_check(c, call_run(&k, y, 2))) return c->status;
  c->y[0] = y[0];
  index = node_cast(c, node_keep(c, y[1]), TN_I64);
  return node_give(c, 1, whole_index(c, without_border(c, index, w, wide)));
}

static tn_status pool(onnx_node *c, const char *op) {
  window w = {0};
  const int64_t *kernel;
  bool max = !strcmp(op, "max_pool"), up = node_int(c, "ceil_mode", 0);
  if (!window_begin(c, &w)) return TN_OK;
  if (node_ints(c, "kernel_shape", &kernel) != w.rank)
    return node_cannot(c, "pooling with a kernel of other than %d axes", w.rank);
  for (int i = 0; i < w.rank; i++) w.kernel[i] = kernel[i];
  if (!take_padding(c, &w)) return TN_OK;
  bool plain = is_even(&w) && (TN_SET(c->in[0].dtype) & TN_SET_FLOAT);
  for (int i = 0; i < w.rank; i++)
    plain = plain && w.dilation[i] == 1 && 2 * w.before[i] <= w.kernel[i];
  if (plain) return pool_plain(c, &w, max);
  if (max && node_wants(c, 1)) return pool_places(c, &w, up);
  return node_give(c, 0, pool_with_border(c, &w, max, up));
}

/* The p-norm of windows: a mean of powers, made a sum. */
static tn_status lp_pool(onnx_node *c, const char *op) {
  window w = {0};
  const int64_t *kernel;
  double p = (double)node_int(c, "p", 2), elements = 1;
  (void)op;
  if (!window_begin(c, &w)) return TN_OK;
  if (node_ints(c, "kernel_shape", &kernel) != w.rank)
    return node_cannot(c, "pooling with a kernel of other than %d axes", w.rank);
  for (int i = 0; i < w.rank; i++) elements *= (double)(w.kernel[i] = kernel[i]);
  if (!take_padding(c, &w)) return TN_OK;
  int64_t count[3] = {0}, after[3] = {0};
  tn_dtype dtype = c->in[0].dtype;
  for (int i = 0; i < w.rank; i++) {
    count[i] = windows(&w, i, node_int(c, "ceil_mode", 0));
    int64_t end = (count[i] - 1) * w.stride[i] + reach(&w, i) - w.before[i] - w.size[i];
    after[i] = end > 0 ? end : 0;
  }
  tn_tensor *power =
      node_do(c, "pow", node_do(c, "abs", c->x[0], NULL), node_constant(c, dtype, p));
  power = padded(c, power, w.rank, w.before, after, 0);
  for (int i = 0; i < w.rank; i++)
    if (w.dilation[i] != 1) elements = 1;
  power = pool_padded(c, power, &w, count, false);
  power = node_do(c, "mul", power, node_constant(c, dtype, elements));
  return node_give(c, 0, node_do(c, "pow", power, node_constant(c, dtype, 1 / p)));
}

const adapter_row adapters_window[] = {
    {"AveragePool", pool, "avg_pool", 0, 0, NULL},
    {"Conv", conv, "conv", 0, 0, NULL},
    {"ConvTranspose", conv_transpose, "conv_transpose", 0, 0, NULL},
    {"LpPool", lp_pool, NULL, 0, 0, NULL},
    {"MaxPool", pool, "max_pool", 0, 0, NULL},
    {0},
};
