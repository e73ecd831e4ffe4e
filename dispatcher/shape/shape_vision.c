/* Shape rules of ops/vision.def: images read along an axis, by a grid, in boxes. */
#include <math.h>

#include "dispatcher/shape/shape_rules.h"

/* Places that a double tells apart by far less than an element. */
#define FARTHEST 0x1p40

/* --- resample --- */

/* What resample and its gradient have in common, behind their axis and size. */
typedef struct walk {
  double start, shift, span, count;
} walk;

static walk walk_of(const shape_query *q) {
  if (q->op->id == TN_OP_RESAMPLE) {
    const tn_resample_attrs *a = q->attrs;
    return (walk){a->start, a->shift, a->span, a->count};
  }
  const tn_resample_grad_attrs *a = q->attrs;
  return (walk){a->start, a->shift, a->span, a->count};
}

/* Places lie on a line: if its ends are near enough, all are. */
static tn_status check_places(const shape_query *q, int64_t size, int64_t out) {
  walk w = walk_of(q);
  if (w.count == 0) w.span = (double)size, w.count = (double)out;
  const double first = w.start + w.shift * w.span / w.count;
  const double last = w.start + ((double)(out - 1) + w.shift) * w.span / w.count;
  if (fabs(first) <= FARTHEST && fabs(last) <= FARTHEST) return TN_OK;
  return shape_refuse(q, "attrs->start, shift, span and count place elements farther than 2^40 off",
                      NULL, NULL);
}

static tn_status resampled(const shape_query *q, int64_t attr, int64_t wanted, bool backward,
                           extents *out) {
  const DLTensor *x = q->in[0];
  int32_t axis;
  if (!shape_axis(attr, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of the input", x, NULL);
  const int64_t size = x->shape[axis];
  if (size < 1 || size > INT32_MAX)
    return shape_refuse(q, "the axis must have from 1 to 2^31 - 1 elements", x, NULL);
  shape_copy(out, x);
  out->dim[axis] = wanted;
  return check_places(q, backward ? wanted : size, backward ? size : wanted);
}

tn_status shape_rule_resample(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_resample_attrs *a = q->attrs;
  (void)num_out;
  if (!isfinite(a->cubic)) return shape_refuse(q, "attrs->cubic must be finite", NULL, NULL);
  return resampled(q, a->axis, a->output, false, out);
}

tn_status shape_rule_resample_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_resample_grad_attrs *a = q->attrs;
  (void)num_out;
  if (!isfinite(a->cubic)) return shape_refuse(q, "attrs->cubic must be finite", NULL, NULL);
  return resampled(q, a->axis, a->size, true, out);
}

/* --- grid_sample --- */

/* An image of at least one element, whose places fit 31 bits. */
static tn_status check_image(const shape_query *q, int32_t rank, const int64_t *size) {
  int64_t count = 1;
  for (int32_t d = 2; d < rank; ++d)
    if (size[d - 2] < 1 || size[d - 2] > INT32_MAX || (count *= size[d - 2]) > INT32_MAX)
      return shape_refuse(q, "an image must have from 1 to 2^31 - 1 elements", NULL, NULL);
  return TN_OK;
}

/* A grid for images of that rank. */
static tn_status check_grid(const shape_query *q, const DLTensor *grid, int32_t rank) {
  if (rank < 3 || rank > 5)
    return shape_refuse(q, "images have one to three spatial axes", grid, NULL);
  if (grid->ndim != rank || grid->shape[rank - 1] != rank - 2)
    return shape_refuse(
        q, "the grid must be [n, out..., axes], of the images' rank and spatial axes", grid, NULL);
  return TN_OK;
}

/* `dy` is [n, c, out...] of the grid. */
static tn_status check_sampled(const shape_query *q, const DLTensor *dy, const DLTensor *grid) {
  bool fits = dy->ndim == grid->ndim && dy->shape[0] == grid->shape[0];
  for (int32_t d = 2; fits && d < dy->ndim; ++d) fits = dy->shape[d] == grid->shape[d - 1];
  return fits ? TN_OK : shape_refuse(q, "dy must be what the grid gives", dy, grid);
}

tn_status shape_rule_grid_sample(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *grid = q->in[1];
  tn_status status = check_grid(q, grid, x->ndim);
  (void)num_out;
  if (!status) status = check_image(q, x->ndim, &x->shape[2]);
  if (status) return status;
  if (x->shape[0] != grid->shape[0])
    return shape_refuse(q, "x and grid must have as many images", x, grid);
  shape_copy(out, x);
  for (int32_t d = 2; d < x->ndim; ++d) out->dim[d] = grid->shape[d - 1];
  return TN_OK;
}

tn_status shape_rule_grid_sample_grad_input(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_grid_sample_grad_input_attrs *a = q->attrs;
  const DLTensor *dy = q->in[0], *grid = q->in[1];
  tn_status status = check_grid(q, grid, dy->ndim);
  (void)num_out;
  if (!status) status = check_sampled(q, dy, grid);
  if (status) return status;
  if (a->size.count != dy->ndim - 2)
    return shape_refuse(q, "attrs->size must have one entry for each spatial axis", dy, NULL);
  status = check_image(q, dy->ndim, a->size.dim);
  shape_copy(out, dy);
  for (int32_t d = 2; d < dy->ndim; ++d) out->dim[d] = a->size.dim[d - 2];
  return status;
}

tn_status shape_rule_grid_sample_grad_grid(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0], *x = q->in[1], *grid = q->in[2];
  tn_status status = check_grid(q, grid, x->ndim);
  (void)num_out;
  if (!status) status = check_image(q, x->ndim, &x->shape[2]);
  if (!status) status = check_sampled(q, dy, grid);
  if (status) return status;
  if (x->shape[0] != dy->shape[0] || x->shape[1] != dy->shape[1])
    return shape_refuse(q, "x and dy must have as many images and channels", x, dy);
  shape_copy(out, grid);
  return TN_OK;
}

/* --- roi_align --- */

static tn_status check_boxes(const shape_query *q, const DLTensor *x) {
  const DLTensor *boxes = q->in[1], *batch = q->in[2];
  tn_status status = shape_need_rank(q, 4, x, NULL);
  if (status) return status;
  if (boxes->ndim != 2 || boxes->shape[1] != 4 || batch->ndim != 1 ||
      batch->shape[0] != boxes->shape[0])
    return shape_refuse(q, "boxes must be [r, 4] and batch [r]", boxes, batch);
  return TN_OK;
}

tn_status shape_rule_roi_align(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_roi_align_attrs *a = q->attrs; /* those of roi_align_max alike */
  const DLTensor *x = q->in[0];
  tn_status status = check_boxes(q, x);
  (void)num_out;
  if (!status) status = check_image(q, 4, &x->shape[2]);
  if (status) return status;
  if (!isfinite(a->scale)) return shape_refuse(q, "attrs->scale must be finite", NULL, NULL);
  *out = (extents){4, {q->in[1]->shape[0], x->shape[1], a->output[0], a->output[1]}};
  return TN_OK;
}

tn_status shape_rule_roi_align_max(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_roi_align(q, out, num_out);
}

tn_status shape_rule_roi_align_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_roi_align_grad_attrs *a = q->attrs;
  const DLTensor *dy = q->in[0];
  tn_status status = check_boxes(q, dy);
  (void)num_out;
  if (!status) status = check_image(q, 4, a->size);
  if (status) return status;
  if (!isfinite(a->scale)) return shape_refuse(q, "attrs->scale must be finite", NULL, NULL);
  if (dy->shape[0] != q->in[1]->shape[0])
    return shape_refuse(q, "dy must have as many boxes", dy, q->in[1]);
  *out = (extents){4, {a->images, dy->shape[1], a->size[0], a->size[1]}};
  return TN_OK;
}

/* --- boxes that overlap --- */

/* As many rows as there can be; the count cuts them. */
tn_status shape_rule_non_max_suppression(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_non_max_suppression_attrs *a = q->attrs;
  const DLTensor *boxes = q->in[0], *scores = q->in[1];
  int64_t rows;
  (void)num_out;
  tn_status status = shape_need_rank(q, 3, boxes, scores);
  if (status) return status;
  if (boxes->shape[2] != 4 || boxes->shape[0] != scores->shape[0] ||
      boxes->shape[1] != scores->shape[2] || boxes->shape[1] > INT32_MAX)
    return shape_refuse(q, "boxes must be [b, n, 4] and scores [b, c, n], n less than 2^31", boxes,
                        scores);
  int64_t each[3] = {scores->shape[0], scores->shape[1], boxes->shape[1]};
  if (a->most && a->most < each[2]) each[2] = a->most;
  if (!shape_elements(3, each, 3 * sizeof(int64_t), &rows))
    return shape_refuse(q, "there could be too many boxes", boxes, scores);
  out[0] = (extents){.rank = 2, .dim = {rows, 3}};
  out[1].rank = 0;
  return TN_OK;
}

tn_status shape_rule_local_response_norm(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_local_response_norm_attrs *a = q->attrs;
  (void)num_out;
  if (q->in[0]->ndim < 2)
    return shape_refuse(q, "x must have channels: [n, c, ...]", q->in[0], NULL);
  if (!isfinite(a->alpha) || !isfinite(a->beta) || !isfinite(a->bias))
    return shape_refuse(q, "attrs->alpha, beta and bias must be finite", NULL, NULL);
  shape_copy(out, q->in[0]);
  return TN_OK;
}
