/* Reading images at the places of a grid, and its gradients, one image at a time. */
#include "kernels/common/grid_sample.h"
#include "iterate.h"
#include "kernels.h"

enum { GIVEN, IMAGE, GRID, PARTS }; /* what comes of the places: y, dy */

/* An image of each tensor as doubles. */
typedef struct sampling {
  grid_plan plan;
  view part[PARTS];
  double *data[PARTS];
  int64_t channels, area, points, size[3]; /* size: axes that there are not are 1 and last */
} sampling;

/* The elements around a place: 1 to 64 of them. */
typedef struct around {
  int count;
  int64_t at[64];
  double weight[64], slope[3][64]; /* slope by the coordinate along axis d of the image */
} around;

static double times(const grid_plan *p, const grid_reading *r, const int *k, int by) {
  double w = 1;
  for (int d = 0; d < p->axes; ++d) w *= d == by ? r[d].slope[k[d]] : r[d].weight[k[d]];
  return w;
}

static void look_around(const sampling *s, int64_t point, around *a) {
  const grid_plan *p = &s->plan;
  const double *g = s->data[GRID] + point * p->axes;
  grid_reading r[3];
  int k[3] = {0, 0, 0};
  for (int d = 0; d < p->axes; ++d) r[d] = grid_read(p, g[p->axes - 1 - d], s->size[d]);
  a->count = 0;
  for (bool more = true; more;) {
    int64_t at = 0;
    for (int d = 0; d < p->axes; ++d)
      at = at < 0 || r[d].at[k[d]] < 0 ? -1 : at * s->size[d] + r[d].at[k[d]];
    if (at >= 0) {
      a->at[a->count] = at;
      a->weight[a->count] = times(p, r, k, -1);
      for (int d = 0; d < p->axes; ++d) a->slope[d][a->count] = times(p, r, k, d);
      ++a->count;
    }
    more = false;
    for (int d = p->axes - 1; d >= 0 && !more; --d) {
      more = ++k[d] < p->taps;
      if (!more) k[d] = 0;
    }
  }
}

typedef void (*at_point)(const sampling *s, int64_t point, const around *a);

static void sample_point(const sampling *s, int64_t point, const around *a) {
  for (int64_t c = 0; c < s->channels; ++c) {
    double sum = 0;
    for (int k = 0; k < a->count; ++k) sum += a->weight[k] * s->data[IMAGE][c * s->area + a->at[k]];
    s->data[GIVEN][c * s->points + point] = sum;
  }
}

static void spread_point(const sampling *s, int64_t point, const around *a) {
  for (int64_t c = 0; c < s->channels; ++c)
    for (int k = 0; k < a->count; ++k)
      s->data[IMAGE][c * s->area + a->at[k]] +=
          a->weight[k] * s->data[GIVEN][c * s->points + point];
}

static void slope_point(const sampling *s, int64_t point, const around *a) {
  const int axes = s->plan.axes;
  for (int d = 0; d < axes; ++d) {
    double sum = 0;
    for (int64_t c = 0; c < s->channels; ++c)
      for (int k = 0; k < a->count; ++k)
        sum += a->slope[d][k] * s->data[IMAGE][c * s->area + a->at[k]] *
               s->data[GIVEN][c * s->points + point];
    s->data[GRID][point * axes + axes - 1 - d] = sum;
  }
}

/* `written` is the tensor that the points make, of zeros at first. */
static tn_status sample(sampling *s, const tn_kernel_args *args, const DLTensor *const *tensors,
                        int written, const DLTensor *grid, at_point fn) {
  int64_t count[PARTS], total = 0, images = tensors[IMAGE]->shape[0];
  const DLTensor *image = tensors[IMAGE];
  s->channels = image->shape[1];
  s->points = s->area = 1;
  for (int d = 0; d < s->plan.axes; ++d) {
    s->size[d] = image->shape[2 + d];
    s->area *= s->size[d];
    s->points *= grid->shape[1 + d];
  }
  for (int t = 0; t < PARTS; ++t) {
    s->part[t] = view_of(tensors[t]);
    count[t] = images ? view_count(&s->part[t]) / images : 0;
    total += count[t];
  }
  double *room = scratch_alloc(args->host, total);
  around a;
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int t = 0; t < PARTS; ++t) s->data[t] = t ? s->data[t - 1] + count[t - 1] : room;
  for (int64_t n = 0; n < images; ++n) {
    view v = view_slice(s->part[written], 0, n, 1);
    for (int t = 0; t < GRID; ++t)
      if (t != written) gather(view_slice(s->part[t], 0, n, 1), s->data[t]);
    /* Slopes by the grid go where a point's places were read. */
    gather(view_slice(view_of(grid), 0, n, 1), s->data[GRID]);
    for (int64_t i = 0; written == IMAGE && i < count[IMAGE]; ++i) s->data[IMAGE][i] = 0;
    for (int64_t point = 0; point < s->points; ++point) {
      look_around(s, point, &a);
      fn(s, point, &a);
    }
    scatter(v, s->data[written]);
  }
  args->host->free(args->host, room);
  return TN_OK;
}

tn_status reference_grid_sample(const tn_kernel_args *args) {
  const tn_grid_sample_attrs *a = args->attrs;
  const DLTensor *tensors[] = {args->out[0], args->in[0], args->in[1]};
  sampling s = {.plan = grid_plan_of(a->mode, a->padding, a->align_corners, args->in[0]->ndim - 2)};
  return sample(&s, args, tensors, GIVEN, args->in[1], sample_point);
}

tn_status reference_grid_sample_grad_input(const tn_kernel_args *args) {
  const tn_grid_sample_grad_input_attrs *a = args->attrs;
  const DLTensor *tensors[] = {args->in[0], args->out[0], args->in[1]};
  sampling s = {.plan = grid_plan_of(a->mode, a->padding, a->align_corners, args->in[0]->ndim - 2)};
  return sample(&s, args, tensors, IMAGE, args->in[1], spread_point);
}

tn_status reference_grid_sample_grad_grid(const tn_kernel_args *args) {
  const tn_grid_sample_grad_grid_attrs *a = args->attrs;
  const DLTensor *tensors[] = {args->in[0], args->in[1], args->out[0]};
  sampling s = {.plan = grid_plan_of(a->mode, a->padding, a->align_corners, args->in[1]->ndim - 2)};
  return sample(&s, args, tensors, GRID, args->in[2], slope_point);
}
