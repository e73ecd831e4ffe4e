/* ONNX's operators that read images at places or in boxes; resizing has adapters_resize.c. */
#include "adapters.h"

#include <stdlib.h>

/* --- grids --- */

/* Images and places of two types meet in the wider one. */
static tn_dtype common_type(const onnx_node *c) {
  tn_dtype x = c->in[0].dtype, grid = c->in[1].dtype;
  if (x == grid) return x;
  return x == TN_F64 || grid == TN_F64 ? TN_F64 : TN_F32;
}

static tn_status grid_sample(onnx_node *c, const char *op) {
  bool nearest = node_word(c, "mode", "nearest");
  bool cubic = node_word(c, "mode", "cubic") || node_word(c, "mode", "bicubic");
  bool border = node_word(c, "padding_mode", "border");
  bool reflection = node_word(c, "padding_mode", "reflection");
  if (!node_needs(c, 1)) return TN_OK;
  if (!(TN_SET(c->in[0].dtype) & TN_SET_FLOAT))
    return node_cannot(c, "images of other than floats");
  tn_dtype dtype = common_type(c);
  op_call k = call_begin(c, op);
  call_in(&k, node_cast(c, c->x[0], dtype));
  call_in(&k, node_cast(c, c->x[1], dtype));
  call_set(&k, "mode", 0, nearest ? TN_GRID_NEAREST : cubic ? TN_GRID_CUBIC : TN_GRID_LINEAR);
  call_set(&k, "padding", 0,
           border       ? TN_GRID_BORDER
           : reflection ? TN_GRID_REFLECTION
                        : TN_GRID_ZEROS);
  call_set(&k, "align_corners", 0, (double)node_int(c, "align_corners", 0));
  return node_give(c, 0, node_cast(c, node_made(&k), c->in[0].dtype));
}

/* Places of an upright grid, x first and a 1 last, as float32. */
static float *upright(const int64_t *size, int axes, int64_t points, bool corners) {
  float *base = malloc((size_t)(points * (axes + 1)) * sizeof *base + 1);
  if (!base) return NULL;
  for (int64_t p = 0; p < points; p++) {
    int64_t rest = p;
    for (int d = axes - 1; d >= 0; d--) {
      double at = (double)(rest % size[d]), n = (double)size[d];
      double place = corners ? (n > 1 ? 2 * at / (n - 1) - 1 : 0) : (2 * at + 1) / n - 1;
      base[p * (axes + 1) + axes - 1 - d] = (float)place;
      rest /= size[d];
    }
    base[p * (axes + 1) + axes] = 1;
  }
  return base;
}

static tn_status affine_grid(onnx_node *c, const char *op) {
  const onnx_tensor *theta = &c->in[0];
  int64_t shape[5], points = 1;
  if (!node_needs(c, 1)) return TN_OK;
  const int axes = (int)c->in[1].elements - 2;
  if (axes < 2 || axes > 3 || theta->rank != 3 || theta->shape[1] != axes ||
      theta->shape[2] != axes + 1)
    return node_cannot(c, "a grid of %d axes", axes);
  for (int d = 0; d < axes; d++) {
    shape[1 + d] = node_value(c, 1, 2 + d);
    if (*c->cannot) return TN_OK;
    if (shape[1 + d] < 1 || (points *= shape[1 + d]) > INT32_MAX)
      return node_cannot(c, "a grid of %lld places along an axis", (long long)shape[1 + d]);
  }
  float *base = upright(shape + 1, axes, points, node_int(c, "align_corners", 0));
  if (!base) return TN_ERR_OUT_OF_MEMORY;
  tn_tensor *places = node_from_host(c, TN_F32, 2, (int64_t[]){points, axes + 1}, base);
  free(base);
  op_call k = call_begin(c, op);
  call_in(&k, node_cast(c, places, theta->dtype));
  call_in(&k, c->x[0]);
  call_in(&k, NULL);
  call_set(&k, "trans_b", 0, 1);
  shape[0] = theta->shape[0];
  shape[1 + axes] = axes;
  return node_give(c, 0, places ? node_reshape(c, node_made(&k), axes + 2, shape) : NULL);
}

/* --- boxes --- */

static tn_status roi_align(onnx_node *c, const char *op) {
  bool plain = c->opset < 16 || node_word(c, "coordinate_transformation_mode", "output_half_pixel");
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  op_call k = call_begin(c, node_word(c, "mode", "max") ? "roi_align_max" : op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, node_cast(c, c->x[2], TN_I64));
  call_set(&k, "output", 0, (double)node_int(c, "output_height", 1));
  call_set(&k, "output", 1, (double)node_int(c, "output_width", 1));
  call_set(&k, "samples", 0, (double)node_int(c, "sampling_ratio", 0));
  call_set(&k, "scale", 0, node_float(c, "spatial_scale", 1));
  call_set(&k, "half_pixel", 0, !plain);
  return node_give(c, 0, node_made(&k));
}

static tn_status non_max_suppression(onnx_node *c, const char *op) {
  enum { MOST = 2, OVERLAP = 3, SCORE = 4 };
  if (!node_needs(c, 1)) return TN_OK;
  int64_t most = node_given(c, MOST) ? node_value(c, MOST, 0) : 0;
  if (*c->cannot) return TN_OK;
  if (most <= 0) return node_give(c, 0, node_empty(c, TN_I64, 2, (int64_t[]){0, 3}));
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_set(&k, "most", 0, (double)most);
  call_set(&k, "overlap", 0, node_given(c, OVERLAP) ? node_number(c, OVERLAP, 0) : 0);
  if (node_given(c, SCORE)) call_set(&k, "score", 0, node_number(c, SCORE, 0));
  call_set(&k, "centered", 0, (double)node_int(c, "center_point_box", 0));
  return node_give(c, 0, node_made(&k));
}

/* --- channels and crops --- */

static tn_status response_norm(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  if (!node_has(c, "size")) return node_cannot(c, "a response of no size");
  call_in(&k, c->x[0]);
  call_set(&k, "size", 0, (double)node_int(c, "size", 1));
  call_set(&k, "alpha", 0, node_float(c, "alpha", 1e-4));
  call_set(&k, "beta", 0, node_float(c, "beta", 0.75));
  call_set(&k, "bias", 0, node_float(c, "bias", 1));
  return node_give(c, 0, node_made(&k));
}

/* The middle of axes that are too long, and zeros around those that are too short. */
static tn_status center_crop_pad(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  const int64_t *list;
  int some = node_ints(c, "axes", &list);
  tn_tensor *y = c->x[0];
  if (!node_needs(c, 1)) return TN_OK;
  if (c->in[1].elements != (some ? some : x->rank))
    return node_cannot(c, "a shape of %lld axes", (long long)c->in[1].elements);
  op_call k = call_begin(c, op);
  for (int32_t i = 0; i < x->rank; i++) call_set(&k, "before", i, 0), call_set(&k, "after", i, 0);
  for (int i = 0; i < (some ? some : x->rank); i++) {
    int32_t axis = node_axis(c, some ? list[i] : i, x->rank);
    int64_t size = x->shape[axis], wanted = node_value(c, 1, i), off = (size - wanted) / 2;
    if (*c->cannot) return TN_OK;
    if (wanted < 0) return node_cannot(c, "a shape with %lld elements", (long long)wanted);
    if (wanted < size) y = node_slice(c, y, axis, off, off + wanted);
    if (wanted > size) {
      call_set(&k, "before", axis, (double)((wanted - size) / 2));
      call_set(&k, "after", axis, (double)(wanted - size - (wanted - size) / 2));
    }
  }
  call_in(&k, y);
  return node_give(c, 0, y ? node_made(&k) : NULL);
}

/* Blocks of an image, one for each place that they fit at. */
typedef struct blocks {
  int rank;
  int64_t kernel[3], stride[3], dilation[3], before[3], after[3], image[3];
  int64_t places[3], elements, count; /* elements of a block; blocks */
} blocks;

/* The numbers of an attribute, or `otherwise`. */
static void take_numbers(onnx_node *c, const char *name, int want, int64_t otherwise, int64_t *to) {
  const int64_t *list;
  const int count = node_ints(c, name, &list);
  if (count && count != want) node_cannot(c, "%s of %d numbers", name, count);
  for (int i = 0; i < want && !*c->cannot; i++) to[i] = count ? list[i] : otherwise;
}

/* What is left of an image behind the first block along an axis. */
static int64_t room_of(const blocks *b, int i) {
  return b->image[i] + b->before[i] + b->after[i] - b->dilation[i] * (b->kernel[i] - 1) - 1;
}

static bool take_blocks(onnx_node *c, blocks *b) {
  int64_t pads[6];
  b->rank = (int)c->in[1].elements;
  if (b->rank < 1 || b->rank > 3 || c->in[0].rank != 3 || c->in[2].elements != b->rank)
    return node_cannot(c, "blocks of %d axes", b->rank), false;
  take_numbers(c, "strides", b->rank, 1, b->stride);
  take_numbers(c, "dilations", b->rank, 1, b->dilation);
  take_numbers(c, "pads", 2 * b->rank, 0, pads);
  for (int i = 0; i < b->rank && !*c->cannot; i++) {
    b->before[i] = pads[i];
    b->after[i] = pads[b->rank + i];
    b->kernel[i] = node_value(c, 2, i);
    b->image[i] = node_value(c, 1, i);
    if (*c->cannot) break;
    if (b->kernel[i] < 1 || b->kernel[i] > 1 << 14 || b->stride[i] < 1 || b->dilation[i] < 1 ||
        b->dilation[i] > INT32_MAX || pads[i] < 0 || b->after[i] < 0 || room_of(b, i) < 0)
      return node_cannot(c, "blocks that the image has not"), false;
    b->places[i] = room_of(b, i) / b->stride[i] + 1;
    b->elements *= b->kernel[i];
    b->count *= b->places[i];
    if (b->elements > 1 << 14) return node_cannot(c, "blocks of more than 2^14 elements"), false;
  }
  if (!*c->cannot && (c->in[0].shape[1] % b->elements || c->in[0].shape[2] != b->count))
    node_cannot(c, "blocks of other than the channels");
  return !*c->cannot;
}

/* [channels elements, 1, kernel...]: kernel k of a channel is 1 at place k and 0 elsewhere. */
static tn_tensor *unit_kernels(onnx_node *c, const blocks *b, int64_t channels) {
  const int64_t n = b->elements, *k = b->kernel;
  const int64_t one[5] = {1, n, k[0], k[1], k[2]}, all[5] = {channels, n, k[0], k[1], k[2]};
  const int64_t weight[5] = {channels * n, 1, k[0], k[1], k[2]};
  tn_tensor *eye = node_empty(c, c->in[0].dtype, 2, (int64_t[]){n, n});
  op_call e = call_begin(c, "eye");
  call_update(&e, eye);
  if (!eye || !node_check(c, call_run(&e, NULL, 0))) return NULL;
  eye = node_expand(c, node_reshape(c, eye, 2 + b->rank, one), 2 + b->rank, all);
  return node_reshape(c, eye, 2 + b->rank, weight);
}

/* Blocks put where they were taken from, and added: a transposed convolution. */
static tn_status col2im(onnx_node *c, const char *op) {
  static const char *const names[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  const int64_t *x = c->in[0].shape;
  blocks b = {.kernel = {1, 1, 1}, .elements = 1, .count = 1};
  (void)op;
  if (!node_needs(c, 1) || !node_needs(c, 2) || !take_blocks(c, &b)) return TN_OK;
  const int64_t shape[5] = {x[0], x[1], b.places[0], b.places[1], b.places[2]};
  op_call k = call_begin(c, names[b.rank - 1]);
  call_in(&k, node_reshape(c, c->x[0], 2 + b.rank, shape));
  tn_tensor *kernels = unit_kernels(c, &b, x[1] / b.elements);
  call_in(&k, kernels);
  call_in(&k, NULL);
  for (int i = 0; i < b.rank; i++) {
    call_set(&k, "stride", i, (double)b.stride[i]);
    call_set(&k, "padding", i, 0);
    call_set(&k, "dilation", i, (double)b.dilation[i]);
    call_set(&k, "output_padding", i, (double)(room_of(&b, i) % b.stride[i]));
  }
  call_set(&k, "groups", 0, (double)(x[1] / b.elements));
  tn_tensor *y = kernels ? node_made(&k) : NULL;
  for (int i = 0; i < b.rank && y; i++)
    y = node_slice(c, y, 2 + i, b.before[i], b.before[i] + b.image[i]);
  return node_give(c, 0, y);
}

const adapter_row adapters_vision[] = {
    {"AffineGrid", affine_grid, "matmul", 20, 0, NULL},
    {"CenterCropPad", center_crop_pad, "pad", 18, 0, NULL},
    {"Col2Im", col2im, "conv_transpose", 18, 0, NULL},
    {"GridSample", grid_sample, "grid_sample", 16, 0, NULL},
    {"LRN", response_norm, "local_response_norm", 0, 0, NULL},
    {"NonMaxSuppression", non_max_suppression, "non_max_suppression", 10, 0, NULL},
    {"RoiAlign", roi_align, "roi_align", 10, 0, NULL},
    {0},
};
