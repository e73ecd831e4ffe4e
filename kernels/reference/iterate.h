/*
 * Views (a tensor's place in memory, free to be cut and permuted) and walks (row-major
 * order over views of one shape, a run of elements at a time).
 */
#ifndef TENON_KERNELS_REFERENCE_ITERATE_H
#define TENON_KERNELS_REFERENCE_ITERATE_H

#include "element.h"

typedef struct view {
  char *data;
  tn_dtype dtype;
  int ndim;
  int64_t shape[TN_MAX_RANK], stride[TN_MAX_RANK]; /* strides in elements */
} view;

view view_of(const DLTensor *tensor);

/* Indexes begin <= i < begin + count of one axis. */
view view_slice(view v, int axis, int64_t begin, int64_t count);

/* The view whose axis i is axis order[i] of v; axes left out are held at index 0. */
view view_permute(view v, int ndim, const int *order);

/* The view at index 0 of an axis, without the axis. */
view view_drop(view v, int axis);

/* v repeated to a shape by the broadcasting rule: aligned at the last axes, sizes that
 * differ are 1 or missing. */
view view_broadcast(view v, int ndim, const int64_t *shape);

int64_t view_count(const view *v);

/* The address of the element at `offset` elements from the view's first. */
static inline void *view_at(const view *v, int64_t offset) {
  return v->data + offset * (int64_t)tn_dtype_size(v->dtype);
}

/* An axis that may count from the end. */
static inline int axis_index(int64_t axis, int ndim) {
  return (int)(axis < 0 ? axis + ndim : axis);
}

enum {
  WALK_VIEWS = 6, /* most views in one walk */
  WALK_RUN = 256, /* most elements in one run */
};

typedef struct walk {
  /* The run that walk_next found: n elements from logical index `first` on; of view v
   * they lie at at[v], step[v] elements apart. */
  int64_t first, n;
  void *at[WALK_VIEWS];
  int64_t step[WALK_VIEWS];

  /* Inside: axes that lie alike in every view are joined. */
  int num_views, ndim;
  int64_t next, last;
  int64_t shape[TN_MAX_RANK];
  view views[WALK_VIEWS]; /* their shapes unused */
} walk;

/* Walks over the elements begin <= i < end of views that have the first one's shape. */
walk walk_over(const view *views, int num_views, int64_t begin, int64_t end);

/* Begins again at index 0, with the first view's data elsewhere. */
static inline void walk_restart(walk *w, void *data) {
  w->views[0].data = data;
  w->next = 0;
}

/* Goes on to the next run; false when there is none. */
bool walk_next(walk *w);

/* The address in view v of element i of the present run. */
static inline void *walk_at(const walk *w, int v, int64_t i) {
  return (char *)w->at[v] + i * w->step[v] * (int64_t)tn_dtype_size(w->views[v].dtype);
}

/* A view's elements as a dense row-major array, and back. */
void gather(view v, double *to);
void scatter(view v, const double *from);

/* Scratch memory of n doubles (n < 0: overflow); NULL after host->fail. */
double *scratch_alloc(const tn_host *host, int64_t n);

#endif
