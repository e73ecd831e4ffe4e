/*
 * ONNX's Resize and Upsample: axis by axis by resample, or where it does the same, images at once
 * by resize.
 */
#include "adapters.h"

#include <math.h>

/* One axis: what its size becomes, and by how much ONNX says that it grows. */
typedef struct growth {
  int64_t size, out;
  double scale;
  double from, to; /* of a crop, as shares of the axis */
} growth;

typedef struct resizing {
  int32_t rank;
  growth axis[TN_MAX_RANK];
  int32_t filter; /* tn_resample_filter */
  bool antialias, exclude_outside;
  double cubic;
} resizing;

/* How places follow from steps. */
typedef enum placing {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  TF_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  CROP,
  PLACINGS
} placing;

static const char *const placings[PLACINGS] = {
    "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "align_corners", "asymmetric",           "tf_crop_and_resize",
};

static placing placing_of(onnx_node *c) {
  if (!node_has(c, "coordinate_transformation_mode"))
    return c->opset < 11 ? ASYMMETRIC : HALF_PIXEL;
  for (int i = 0; i < PLACINGS; i++)
    if (node_word(c, "coordinate_transformation_mode", placings[i])) return (placing)i;
  node_cannot(c, "resize with another placing of pixels");
  return HALF_PIXEL;
}

static int32_t filter_of(onnx_node *c) {
  static const char *const modes[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (node_word(c, "mode", "linear") || node_word(c, "mode", "bilinear")) return TN_RESAMPLE_LINEAR;
  if (node_word(c, "mode", "cubic")) return TN_RESAMPLE_CUBIC;
  if (node_has(c, "mode") && !node_word(c, "mode", "nearest")) node_cannot(c, "another mode");
  if (c->opset < 11) return TN_RESAMPLE_FLOOR;
  for (int i = 0; i < 4; i++)
    if (node_word(c, "nearest_mode", modes[i])) return TN_RESAMPLE_NEAREST_DOWN + i;
  return TN_RESAMPLE_NEAREST_DOWN;
}

/* ONNX multiplies in float32. */
static int64_t scaled(int64_t size, double scale) {
  const float out = floorf((float)size * (float)scale);
  return out >= 0 && out < 0x1p31F ? (int64_t)out : -1;
}

/* Sizes that keep the shape of an image: one scale for all axes that are named. */
static void keep_aspect(resizing *r, const int32_t *axes, int64_t count, bool larger) {
  double scale = 0;
  for (int64_t i = 0; i < count; i++) {
    const growth *g = &r->axis[axes[i]];
    if (i == 0 || (larger ? g->scale > scale : g->scale < scale)) scale = g->scale;
  }
  for (int64_t i = 0; i < count; i++) {
    growth *g = &r->axis[axes[i]];
    g->scale = scale;
    g->out = (int64_t)floor(scale * (double)g->size + 0.5);
  }
}

/* The axes that scales, sizes and roi are of. */
static int64_t named_axes(onnx_node *c, int32_t rank, int32_t *axes) {
  const int64_t *list;
  const int count = node_ints(c, "axes", &list);
  if (count > rank) return node_cannot(c, "more axes than the input has"), 0;
  for (int i = 0; i < count; i++) axes[i] = node_axis(c, list[i], rank);
  for (int32_t i = 0; !count && i < rank; i++) axes[i] = i;
  return count ? count : rank;
}

static void take_growth(onnx_node *c, resizing *r, int scales, int sizes) {
  int32_t axes[TN_MAX_RANK];
  const float *listed = NULL;
  const int64_t count = named_axes(c, r->rank, axes);
  const int attribute = node_floats(c, "scales", &listed);
  const bool by_scale = node_given(c, scales) && c->in[scales].elements > 0;
  const bool by_size = !by_scale && sizes < c->num_in && node_given(c, sizes);
  const bool crop = scales == 2 && node_given(c, 1) && c->in[1].elements == 2 * count;
  if (by_scale  ? c->in[scales].elements != count
      : by_size ? c->in[sizes].elements != count
                : attribute != count) {
    node_cannot(c, "scales or sizes of other than %lld axes", (long long)count);
    return;
  }
  for (int64_t i = 0; i < count && !*c->cannot; i++) {
    growth *g = &r->axis[axes[i]];
    g->out = by_size ? node_value(c, sizes, i) : 0;
    g->scale = by_scale  ? node_number(c, scales, i)
               : by_size ? (double)g->out / (double)g->size
                         : (double)listed[i];
    if (!by_size) g->out = scaled(g->size, g->scale);
    g->from = crop ? node_number(c, 1, i) : 0;
    g->to = crop ? node_number(c, 1, count + i) : 1;
  }
  if (by_size && node_word(c, "keep_aspect_ratio_policy", "not_larger"))
    keep_aspect(r, axes, count, false);
  if (by_size && node_word(c, "keep_aspect_ratio_policy", "not_smaller"))
    keep_aspect(r, axes, count, true);
}

/* start, shift, span and count of resample: ONNX's formulas, in ONNX's order. */
static void set_places(op_call *k, const growth *g, placing p) {
  const double size = (double)g->size, length = g->scale * size;
  double start = 0, shift = 0, span = 1, count = g->scale;
  switch (p) {
  case PYTORCH_HALF_PIXEL:
    if (length <= 1) {
      span = 0;
      break;
    } /* fall through */
  case HALF_PIXEL:
    start = -0.5;
    shift = 0.5;
    break;
  case HALF_PIXEL_SYMMETRIC:
    start = size / 2 * (1 - (double)g->out / length) - 0.5;
    shift = 0.5;
    break;
  case TF_HALF_PIXEL:
    shift = 0.5;
    break;
  case ALIGN_CORNERS:
    span = length == 1 ? 0 : size - 1;
    count = length == 1 ? 1 : length - 1;
    break;
  case CROP:
    start = length == 1 ? (g->from + g->to) * (size - 1) / 2 : g->from * (size - 1);
    span = length == 1 ? 0 : (g->to - g->from) * (size - 1);
    count = length == 1 ? 1 : length - 1;
    break;
  default:
    break;
  }
  call_set(k, "start", 0, start);
  call_set(k, "shift", 0, shift);
  call_set(k, "span", 0, span);
  call_set(k, "count", 0, count);
}

/* Axes that a placing leaves as they are. */
static bool is_kept(const growth *g, placing p) {
  return g->size == g->out && g->scale == 1 && p != CROP && p != TF_HALF_PIXEL;
}

static tn_tensor *resample(onnx_node *c, tn_tensor *x, const resizing *r, int32_t axis, placing p) {
  const growth *g = &r->axis[axis];
  op_call k = call_begin(c, "resample");
  call_in(&k, x);
  call_set(&k, "axis", 0, axis);
  call_set(&k, "output", 0, (double)g->out);
  /* Opset 10 reads the pixel at or behind the place where the image shrinks. */
  const bool behind = c->opset < 11 && r->filter == TN_RESAMPLE_FLOOR && g->scale < 1;
  call_set(&k, "filter", 0, behind ? TN_RESAMPLE_CEIL : r->filter);
  set_places(&k, g, p);
  if (r->antialias && g->scale < 1) call_set(&k, "stretch", 0, 1 / g->scale);
  call_set(&k, "cubic", 0, r->cubic);
  call_set(&k, "exclude_outside", 0, r->exclude_outside);
  call_set(&k, "extrapolate", 0, p == CROP);
  call_set(&k, "value", 0, node_float(c, "extrapolation_value", 0));
  return x ? node_made(&k) : NULL;
}

/* The mode of resize that does the same with the last two axes of four; -1 where none does. */
static int plain_mode(const resizing *r, placing p) {
  const bool nearest = r->filter < TN_RESAMPLE_LINEAR;
  if (r->rank != 4 || (r->antialias && !nearest) || r->exclude_outside) return -1;
  for (int32_t i = 0; i < 4; i++) {
    const growth *g = &r->axis[i];
    if (i < 2 && !is_kept(g, p)) return -1;
    if (g->out < 1 || (double)g->out != g->scale * (double)g->size) return -1;
    /* Whole numbers of copies, in which no rounding can differ. */
    if (nearest && i >= 2 && g->out % g->size) return -1;
  }
  if (nearest) {
    const bool rounds = r->filter <= TN_RESAMPLE_NEAREST_UP && p == HALF_PIXEL;
    return rounds || (r->filter == TN_RESAMPLE_FLOOR && p == ASYMMETRIC) ? TN_RESIZE_NEAREST : -1;
  }
  if (p != HALF_PIXEL && p != ALIGN_CORNERS) return -1;
  if (r->filter == TN_RESAMPLE_LINEAR) return TN_RESIZE_BILINEAR;
  return r->cubic == -0.75 ? TN_RESIZE_BICUBIC : -1;
}

/* What shrinks goes first: less is left to read. */
static tn_tensor *resize_axes(onnx_node *c, tn_tensor *x, const resizing *r, placing p) {
  for (int grows = 0; grows < 2; grows++)
    for (int32_t i = 0; i < r->rank; i++)
      if (!is_kept(&r->axis[i], p) && (r->axis[i].out >= r->axis[i].size) == grows)
        x = resample(c, x, r, i, p);
  return x;
}

static tn_status resize_by(onnx_node *c, int scales, int sizes) {
  const onnx_tensor *x = &c->in[0];
  const placing p = placing_of(c);
  resizing r = {.rank = x->rank,
                .filter = filter_of(c),
                .antialias = node_int(c, "antialias", 0),
                .exclude_outside = node_int(c, "exclude_outside", 0),
                .cubic = node_float(c, "cubic_coeff_a", -0.75)};
  bool empty = x->elements == 0;
  if (x->rank > TN_MAX_RANK) return node_cannot(c, "more than %d axes", TN_MAX_RANK);
  for (int32_t i = 0; i < x->rank; i++) r.axis[i] = (growth){x->shape[i], x->shape[i], 1, 0, 1};
  take_growth(c, &r, scales, sizes);
  if (*c->cannot) return TN_OK;
  int64_t shape[TN_MAX_RANK] = {0};
  for (int32_t i = 0; i < x->rank; i++) {
    if (r.axis[i].out < 0) return node_cannot(c, "resize by %g", r.axis[i].scale);
    empty = empty || r.axis[i].out == 0;
    shape[i] = r.axis[i].out;
  }
  if (empty) return node_give(c, 0, node_empty(c, x->dtype, x->rank, shape));
  const bool real = TN_SET(x->dtype) & TN_SET_FLOAT;
  tn_tensor *y = node_cast(c, c->x[0], real ? x->dtype : TN_F32);
  const int mode = plain_mode(&r, p);
  if (mode >= 0) {
    op_call k = call_begin(c, "resize");
    call_in(&k, y);
    call_set(&k, "mode", 0, mode);
    call_set(&k, "align_corners", 0, mode != TN_RESIZE_NEAREST && p == ALIGN_CORNERS);
    for (int i = 0; i < 2; i++) call_set(&k, "output", i, (double)shape[2 + i]);
    y = y ? node_made(&k) : NULL;
  } else {
    y = resize_axes(c, y, &r, p);
  }
  return node_give(c, 0, node_cast(c, y, x->dtype));
}

static tn_status resize(onnx_node *c, const char *op) {
  (void)op;
  return resize_by(c, c->opset < 11 ? 1 : 2, c->opset < 11 ? NODE_TENSORS : 3);
}

/* Before opset 9 the scales are an attribute. */
static tn_status upsample(onnx_node *c, const char *op) {
  (void)op;
  return resize_by(c, 1, NODE_TENSORS);
}

const adapter_row adapters_resize[] = {
    {"Resize", resize, NULL, 10, 0, NULL},
    {"Upsample", upsample, NULL, 0, 9, NULL},
    {0},
};
