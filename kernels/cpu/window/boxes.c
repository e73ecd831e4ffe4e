/*
 * Boxes: what lies in them (roi_align) and which of those that overlap are left. The places of a
 * bin are listed in parts with what each reads, and read from channel after channel; the gradient
 * gives each share of the threads some channels, so that none writes where another does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/boxes.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { ROI_PART = 64, ROI_CHANNELS = 8 };

typedef struct roi_call {
  const tn_host *host;
  const void *from, *boxes;
  void *to;
  const int64_t *batch;
  int64_t images, channels, size[2], area, count, bins[2], bin_area, samples;
  double scale;
  int32_t half_pixel;
  bool largest;
} roi_call;

/* The places of one bin, from one part to the next. */
typedef struct roi_bin {
  roi_axis axis[2];
  int64_t bin[2];
  double first[2], end[2], at[2]; /* at: the next place */
  double share;                   /* places that a mean is of */
  int64_t image;                  /* -1: there is none */
  /* A part: of each place the four elements that it reads. */
  int64_t n;
  int32_t element[4 * ROI_PART];
  double weight[4 * ROI_PART];
} roi_bin;

/* Box v of image `image`; false where its bins read nothing. */
static bool roi_box(const roi_call *call, const double v[4], int64_t image, roi_bin *b) {
  for (int d = 0; d < 2; d++)
    b->axis[d] = roi_axis_of(v[d == 0], v[2 + (d == 0)], call->scale, call->half_pixel,
                             call->samples, call->bins[d]);
  b->image = image >= 0 && image < call->images ? image : -1;
  b->share = b->axis[0].count * b->axis[1].count;
  if (b->share < 1) b->share = 1;
  return b->image >= 0;
}

static void roi_bin_begin(const roi_call *call, int64_t bin, roi_bin *b) {
  b->bin[0] = bin / call->bins[1];
  b->bin[1] = bin % call->bins[1];
  for (int d = 0; d < 2; d++) {
    roi_places(&b->axis[d], b->bin[d], call->size[d], &b->first[d], &b->end[d]);
    b->at[d] = b->first[d];
  }
}

/* Lists the next places that lie in the image; false when there are none left. */
static bool roi_bin_next(const roi_call *call, roi_bin *b) {
  b->n = 0;
  if (!(b->first[1] < b->end[1])) return false;
  for (; b->at[0] < b->end[0]; b->at[0]++, b->at[1] = b->first[1]) {
    int64_t row[2], column[2];
    double v, h;
    if (!roi_between(roi_place(&b->axis[0], b->bin[0], b->at[0]), call->size[0], row, &v)) continue;
    for (; b->at[1] < b->end[1]; b->at[1]++) {
      if (b->n == 4 * ROI_PART) return true;
      if (!roi_between(roi_place(&b->axis[1], b->bin[1], b->at[1]), call->size[1], column, &h))
        continue;
      for (int k = 0; k < 4; k++, b->n++) {
        b->element[b->n] = (int32_t)(row[k / 2] * call->size[1] + column[k % 2]);
        b->weight[b->n] = (k / 2 ? v : 1 - v) * (k % 2 ? h : 1 - h);
      }
    }
  }
  return b->n > 0;
}

/* --- non_max_suppression --- */

typedef struct candidate {
  double score;
  int64_t box;
} candidate;

typedef struct suppress_call {
  const tn_non_max_suppression_attrs *attrs;
  const tn_host *host;
  const void *boxes, *scores;
  int64_t classes, n, most;
  int64_t *left, *count; /* [images * classes, most] and [images * classes] */
} suppress_call;

static int by_score(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->box < y->box ? -1 : x->box > y->box;
}

/* Leaves the best of candidates, in order; returns how many. `kept` has room for `most`. */
static int64_t suppress(const suppress_call *call, const box *boxes, const candidate *best,
                        int64_t n, box *kept, int64_t *left) {
  int64_t found = 0;
  for (int64_t i = 0; i < n && found < call->most; i++) {
    const box *b = &boxes[best[i].box];
    bool fits = true;
    for (int64_t k = 0; fits && k < found; k++)
      fits = !boxes_overlap(&kept[k], b, call->attrs->overlap);
    if (!fits) continue;
    kept[found] = *b;
    left[found++] = best[i].box;
  }
  return found;
}

/* Rows of what was left, in order of image and class. */
static void suppress_write(const suppress_call *call, int64_t all, int64_t *y, int64_t *count) {
  *count = 0;
  for (int64_t k = 0; k < all; k++)
    for (int64_t i = 0; i < call->count[k]; i++, ++*count) {
      y[3 * *count] = k / call->classes;
      y[3 * *count + 1] = k % call->classes;
      y[3 * *count + 2] = call->left[k * call->most + i];
    }
}

static tn_status suppress_run(const tn_kernel_args *args,
                              tn_status (*range)(void *ctx, int64_t begin, int64_t end)) {
  const DLTensor *scores = args->in[1];
  const tn_host *host = args->host;
  suppress_call call = {.attrs = args->attrs,
                        .host = host,
                        .boxes = args->in[0]->data,
                        .scores = scores->data,
                        .classes = scores->shape[1],
                        .n = scores->shape[2]};
  const int64_t all = scores->shape[0] * scores->shape[1];
  call.most = call.attrs->most ? cpu_min(call.attrs->most, call.n) : call.n;
  *(int64_t *)args->out[1]->data = 0;
  if (all * call.most == 0) return TN_OK;
  call.left = host->alloc(host, (size_t)(all * (call.most + 1)) * sizeof *call.left, 64);
  if (call.left == NULL) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for boxes left");
  call.count = call.left + all * call.most;
  const tn_status status =
      host->parallel_for(host, all, cpu_max(1, CPU_GRAIN_SLOW / call.n), range, &call);
  if (status == TN_OK) suppress_write(&call, all, args->out[0]->data, args->out[1]->data);
  host->free(host, call.left);
  return status;
}

#define BODY "kernels/cpu/window/boxes.inc"
#include "kernels/cpu/base/stamp_float.inc"
