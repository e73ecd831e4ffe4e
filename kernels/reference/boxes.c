/* Boxes: what lies in them (roi_align), and which of those that overlap are left. */
#include <math.h>

#include "iterate.h"
#include "kernels.h"
#include "kernels/common/boxes.h"

/* --- roi_align --- */

/* One box: its image, and its bins along both axes. */
typedef struct region {
  int64_t image;
  roi_axis axis[2];
} region;

typedef struct regions {
  double *image, *given; /* x or dx, y or dy */
  int64_t images, channels, size[2], bins[2], count;
  region *each;
} regions;

typedef void (*visit)(void *ctx, int64_t element, double weight);

/* Calls fn with the elements that a bin reads. */
static void each_element(const regions *s, const region *r, const int64_t at[2], visit fn,
                         void *ctx) {
  double first[2], end[2];
  for (int d = 0; d < 2; ++d) roi_places(&r->axis[d], at[d], s->size[d], &first[d], &end[d]);
  for (double i = first[0]; i < end[0]; ++i)
    for (double j = first[1]; j < end[1]; ++j) {
      int64_t row[2], column[2];
      double v, h;
      if (!roi_between(roi_place(&r->axis[0], at[0], i), s->size[0], row, &v)) continue;
      if (!roi_between(roi_place(&r->axis[1], at[1], j), s->size[1], column, &h)) continue;
      for (int k = 0; k < 4; ++k)
        fn(ctx, row[k / 2] * s->size[1] + column[k % 2], (k / 2 ? v : 1 - v) * (k % 2 ? h : 1 - h));
    }
}

/* How many places a bin's mean is of, those outside the image too. */
static double places(const region *r) {
  const double count = r->axis[0].count * r->axis[1].count;
  return count > 1 ? count : 1;
}

typedef struct bin {
  double *plane, sum; /* sum, or the largest product so far, or what goes to each place */
  bool any;
} bin;

static void add_element(void *ctx, int64_t element, double weight) {
  bin *b = ctx;
  b->sum += weight * b->plane[element];
}

static void raise_element(void *ctx, int64_t element, double weight) {
  bin *b = ctx;
  const double v = weight * b->plane[element];
  if (!b->any || v > b->sum || (v != v && b->sum == b->sum)) b->sum = v;
  b->any = true;
}

static void give_element(void *ctx, int64_t element, double weight) {
  const bin *b = ctx;
  b->plane[element] += weight * b->sum;
}

static void align(const regions *s, visit fn, bool backward) {
  for (int64_t r = 0; r < s->count; ++r)
    for (int64_t c = 0; c < s->channels; ++c)
      for (int64_t i = 0; i < s->bins[0] * s->bins[1]; ++i) {
        const int64_t at[2] = {i / s->bins[1], i % s->bins[1]};
        double *y = s->given + (r * s->channels + c) * s->bins[0] * s->bins[1] + i;
        const double share = fn == raise_element ? 1 : places(&s->each[r]);
        bin b = {.plane =
                     s->image + (s->each[r].image * s->channels + c) * s->size[0] * s->size[1]};
        if (backward) b.sum = *y / share;
        each_element(s, &s->each[r], at, fn, &b);
        if (!backward) *y = b.sum / share;
      }
}

static void read_boxes(regions *s, const tn_kernel_args *args, int64_t samples, double scale,
                       int32_t half_pixel) {
  const view boxes = view_of(args->in[1]), batch = view_of(args->in[2]);
  for (int64_t r = 0; r < s->count; ++r) {
    double v[4];
    for (int k = 0; k < 4; ++k)
      load_f64(boxes.dtype, view_at(&boxes, r * boxes.stride[0] + k * boxes.stride[1]), 1, 1,
               &v[k]);
    const int64_t image = *(const int64_t *)view_at(&batch, r * batch.stride[0]);
    const bool there = image >= 0 && image < s->images;
    s->each[r].image = there ? image : 0;
    for (int d = 0; d < 2; ++d) {
      s->each[r].axis[d] = roi_axis_of(v[1 - d], v[3 - d], scale, half_pixel, samples, s->bins[d]);
      if (!there) s->each[r].axis[d].count = 0;
    }
  }
}

static tn_status align_run(const tn_kernel_args *args, const DLTensor *image, const DLTensor *given,
                           int64_t samples, double scale, int32_t half_pixel, visit fn) {
  const bool backward = fn == give_element;
  view x = view_of(image), y = view_of(given);
  regions s = {.images = x.shape[0], .channels = x.shape[1], .count = y.shape[0]};
  const int64_t read = view_count(&x), written = view_count(&y);
  for (int d = 0; d < 2; ++d) {
    s.size[d] = x.shape[2 + d];
    s.bins[d] = y.shape[2 + d];
  }
  s.image = scratch_alloc(args->host, read + written + 8 * s.count);
  if (!s.image) return TN_ERR_OUT_OF_MEMORY;
  s.given = s.image + read;
  s.each = (region *)(void *)(s.given + written);
  if (backward) {
    gather(y, s.given);
    for (int64_t i = 0; i < read; ++i) s.image[i] = 0;
  } else {
    gather(x, s.image);
  }
  if (written) read_boxes(&s, args, samples, scale, half_pixel);
  if (written) align(&s, fn, backward);
  scatter(backward ? x : y, backward ? s.image : s.given);
  args->host->free(args->host, s.image);
  return TN_OK;
}

_Static_assert(sizeof(region) <= 8 * sizeof(double), "room for a region");

tn_status reference_roi_align(const tn_kernel_args *args) {
  const tn_roi_align_attrs *a = args->attrs;
  return align_run(args, args->in[0], args->out[0], a->samples, a->scale, a->half_pixel,
                   add_element);
}

tn_status reference_roi_align_max(const tn_kernel_args *args) {
  const tn_roi_align_max_attrs *a = args->attrs;
  return align_run(args, args->in[0], args->out[0], a->samples, a->scale, a->half_pixel,
                   raise_element);
}

tn_status reference_roi_align_grad(const tn_kernel_args *args) {
  const tn_roi_align_grad_attrs *a = args->attrs;
  return align_run(args, args->out[0], args->in[0], a->samples, a->scale, a->half_pixel,
                   give_element);
}

/* --- non_max_suppression --- */

typedef struct suppression {
  const tn_non_max_suppression_attrs *attrs;
  int64_t boxes;
  double *box, *score; /* [n, 4], [n]; a box that is out has the score -infinity or NaN */
  view y;
  int64_t found;
} suppression;

/* The best box that is neither left nor out, -1 if there is none. */
static int64_t best(const suppression *s) {
  int64_t at = -1;
  for (int64_t i = 0; i < s->boxes; ++i)
    if (s->score[i] > (at < 0 ? s->attrs->score : s->score[at])) at = i;
  return at;
}

static void leave_class(suppression *s, int64_t image, int64_t class) {
  const int64_t most = s->attrs->most ? s->attrs->most : s->boxes;
  for (int64_t k = 0, i; k < most && (i = best(s)) >= 0; ++k) {
    const int64_t row[3] = {image, class, i};
    const box kept = box_of(s->box + 4 * i, s->attrs->centered);
    for (int d = 0; d < 3; ++d)
      *(int64_t *)view_at(&s->y, s->found * s->y.stride[0] + d * s->y.stride[1]) = row[d];
    ++s->found;
    s->score[i] = -INFINITY;
    for (int64_t j = 0; j < s->boxes; ++j) {
      const box other = box_of(s->box + 4 * j, s->attrs->centered);
      if (boxes_overlap(&kept, &other, s->attrs->overlap)) s->score[j] = -INFINITY;
    }
  }
}

tn_status reference_non_max_suppression(const tn_kernel_args *args) {
  view boxes = view_of(args->in[0]), scores = view_of(args->in[1]), total = view_of(args->out[1]);
  suppression s = {args->attrs, .boxes = boxes.shape[1], .y = view_of(args->out[0])};
  s.box = scratch_alloc(args->host, 5 * s.boxes);
  if (!s.box) return TN_ERR_OUT_OF_MEMORY;
  s.score = s.box + 4 * s.boxes;
  for (int64_t b = 0; b < scores.shape[0]; ++b) {
    const view image = view_slice(scores, 0, b, 1);
    gather(view_slice(boxes, 0, b, 1), s.box);
    for (int64_t c = 0; c < scores.shape[1]; ++c) {
      gather(view_slice(image, 1, c, 1), s.score);
      leave_class(&s, b, c);
    }
  }
  args->host->free(args->host, s.box);
  *(int64_t *)total.data = s.found;
  return TN_OK;
}
