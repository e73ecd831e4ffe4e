/*
 * Rearranging, padding and repeating. Each of these operators takes the axes one by one:
 * which index of x an index of y reads, or none, where a value is put.
 */
#include <string.h>

#include "iterate.h"
#include "kernels.h"

typedef struct layout layout;

/* The index along `axis` of x that index i of y reads; -1 for none. */
typedef int64_t (*source_fn)(const layout *l, int axis, int64_t i);

struct layout {
  view x, y; /* of one rank */
  source_fn source;
  const void *attrs;
  int64_t step[TN_MAX_RANK]; /* before of pad, shift of roll, 1 for the axes of flip */
  unsigned char value[8];    /* what is put where nothing is read */
};

static void locate(const view *v, int64_t flat, int64_t *at) {
  for (int a = v->ndim - 1; a >= 0; --a) {
    at[a] = flat % v->shape[a];
    flat /= v->shape[a];
  }
}

/* The element of x that the element of y at logical index `flat` reads; false for none. */
static bool read_from(const layout *l, int64_t flat, int64_t *offset) {
  int64_t at[TN_MAX_RANK];
  *offset = 0;
  locate(&l->y, flat, at);
  for (int a = 0; a < l->y.ndim; ++a) {
    int64_t from = l->source(l, a, at[a]);
    if (from < 0) return false;
    *offset += from * l->x.stride[a];
  }
  return true;
}

static tn_status layout_range(void *ctx, int64_t begin, int64_t end) {
  const layout *l = ctx;
  size_t size = tn_dtype_size(l->y.dtype);
  walk w = walk_over(&l->y, 1, begin, end);
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t offset;
      bool found = read_from(l, w.first + i, &offset);
      memcpy(walk_at(&w, 0, i), found ? view_at(&l->x, offset) : (const void *)l->value, size);
    }
  return TN_OK;
}

static layout layout_of(const tn_kernel_args *args, source_fn source) {
  layout l = {.source = source, .attrs = args->attrs};
  l.x = view_of(args->in[0]);
  l.y = view_of(args->out[0]);
  return l;
}

static tn_status layout_run(const tn_kernel_args *args, layout *l) {
  int64_t count = view_count(&l->y);
  return count ? args->host->parallel_for(args->host, count, 4096, layout_range, l) : TN_OK;
}

/* --- pad --- */

static int64_t pad_source(const layout *l, int axis, int64_t i) {
  const tn_pad_grad_attrs *attrs = l->attrs; /* pad's begin alike */
  int64_t n = l->x.shape[axis];
  i -= l->step[axis];
  if (i >= 0 && i < n) return i;
  if (attrs->mode == TN_PAD_CONSTANT) return -1;
  if (attrs->mode == TN_PAD_EDGE) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

static void take_before(layout *l, const tn_dims *before) {
  for (int a = 0; a < before->count; ++a) l->step[a] = before->dim[a];
}

tn_status reference_pad(const tn_kernel_args *args) {
  const tn_pad_attrs *attrs = args->attrs;
  layout l = layout_of(args, pad_source);
  take_before(&l, &attrs->before);
  store_f64(l.y.dtype, l.value, 1, 1, &attrs->value);
  return layout_run(args, &l);
}

tn_status reference_pad_grad(const tn_kernel_args *args) {
  const tn_pad_grad_attrs *attrs = args->attrs;
  layout l = layout_of(args, pad_source);
  view dy = l.x, dx = l.y;
  int64_t count = view_count(&dx), stride = 1;
  double *sum = scratch_alloc(args->host, count);
  if (!sum) return TN_ERR_OUT_OF_MEMORY;
  memset(sum, 0, (size_t)count * sizeof *sum);
  l.y = dy; /* as pad saw it: dy's places read the places of a dense dx */
  l.x = dx;
  for (int a = dx.ndim - 1; a >= 0; stride *= dx.shape[a--]) l.x.stride[a] = stride;
  take_before(&l, &attrs->before);
  walk w = walk_over(&dy, 1, 0, view_count(&dy));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t offset;
      double value;
      load_f64(dy.dtype, walk_at(&w, 0, i), 1, 1, &value);
      if (read_from(&l, w.first + i, &offset)) sum[offset] += value;
    }
  scatter(dx, sum);
  args->host->free(args->host, sum);
  return TN_OK;
}

/* --- tile and repeat --- */

static int64_t tile_source(const layout *l, int axis, int64_t i) { return i % l->x.shape[axis]; }

tn_status reference_tile(const tn_kernel_args *args) {
  layout l = layout_of(args, tile_source);
  int added = l.y.ndim - l.x.ndim;
  for (int a = l.y.ndim - 1; a >= 0; --a) {
    l.x.shape[a] = a < added ? 1 : l.x.shape[a - added];
    l.x.stride[a] = a < added ? 0 : l.x.stride[a - added];
  }
  l.x.ndim = l.y.ndim;
  return layout_run(args, &l);
}

static int64_t repeat_source(const layout *l, int axis, int64_t i) {
  const tn_repeat_attrs *attrs = l->attrs;
  return axis == axis_index(attrs->axis, l->x.ndim) ? i / attrs->repeats : i;
}

tn_status reference_repeat(const tn_kernel_args *args) {
  layout l = layout_of(args, repeat_source);
  return layout_run(args, &l);
}

/* --- flip and roll --- */

static int64_t flip_source(const layout *l, int axis, int64_t i) {
  return l->step[axis] ? l->x.shape[axis] - 1 - i : i;
}

tn_status reference_flip(const tn_kernel_args *args) {
  const tn_axes *axes = &((const tn_flip_attrs *)args->attrs)->axes;
  layout l = layout_of(args, flip_source);
  for (int a = 0; a < l.x.ndim; ++a) l.step[a] = axes->count == 0;
  for (int i = 0; i < axes->count; ++i) l.step[axis_index(axes->axis[i], l.x.ndim)] = 1;
  return layout_run(args, &l);
}

static int64_t roll_source(const layout *l, int axis, int64_t i) {
  int64_t n = l->x.shape[axis];
  return (i + (n - l->step[axis])) % n; /* 0 <= step < n, and i + n does not overflow */
}

tn_status reference_roll(const tn_kernel_args *args) {
  const tn_roll_attrs *attrs = args->attrs;
  layout l = layout_of(args, roll_source);
  for (int i = 0; i < attrs->shifts.count; ++i) {
    int axis = attrs->axes.count ? axis_index(attrs->axes.axis[i], l.x.ndim) : i;
    int64_t n = l.x.shape[axis], shift = n ? attrs->shifts.dim[i] % n : 0;
    l.step[axis] = shift < 0 ? shift + n : shift;
  }
  return layout_run(args, &l);
}
