/*
 * Reading and writing by indexes of several axes, masks, and what updates do to an element. An
 * index of which one number is outside its axis reads 0 and writes nothing.
 */
#include <math.h>
#include <string.h>

#include "index.h"
#include "kernels.h"

/* --- updates of one element --- */

void update_set(tn_dtype dtype, void *to, const void *from) {
  memcpy(to, from, tn_dtype_size(dtype));
}

/* Whether the update comes before what is there, in the order that begins at `sign` infinity. */
static bool beats(tn_dtype dtype, const void *to, const void *from, int sign) {
  double a, b;
  int64_t i, k;
  if (dtype_is_float(dtype)) {
    load_f64(dtype, to, 1, 1, &a);
    load_f64(dtype, from, 1, 1, &b);
    return isnan(b) || (sign > 0 ? b > a : b < a);
  }
  load_i64(dtype, to, 1, 1, &i);
  load_i64(dtype, from, 1, 1, &k);
  return sign > 0 ? k > i : k < i;
}

void update_max(tn_dtype dtype, void *to, const void *from) {
  if (beats(dtype, to, from, 1)) update_set(dtype, to, from);
}

void update_min(tn_dtype dtype, void *to, const void *from) {
  if (beats(dtype, to, from, -1)) update_set(dtype, to, from);
}

static void add_whole(tn_dtype dtype, void *to, const void *from) {
  int64_t a, b;
  load_i64(dtype, to, 1, 1, &a);
  load_i64(dtype, from, 1, 1, &b);
  a = (int64_t)((uint64_t)a + (uint64_t)b);
  store_i64(dtype, to, 1, 1, &a);
}

static void mul_whole(tn_dtype dtype, void *to, const void *from) {
  int64_t a, b;
  load_i64(dtype, to, 1, 1, &a);
  load_i64(dtype, from, 1, 1, &b);
  a = (int64_t)((uint64_t)a * (uint64_t)b);
  store_i64(dtype, to, 1, 1, &a);
}

static void add_wide(tn_dtype dtype, void *to, const void *from) {
  double b;
  load_f64(dtype, from, 1, 1, &b);
  *(double *)to += b;
}

static void mul_wide(tn_dtype dtype, void *to, const void *from) {
  double b;
  load_f64(dtype, from, 1, 1, &b);
  *(double *)to *= b;
}

const fold fold_add = {add_whole, add_wide}, fold_mul = {mul_whole, mul_wide};

tn_status scatter_fold(const tn_host *host, view y, const fold *f, scatter_fn scatter_each,
                       const void *context) {
  if (!dtype_is_float(y.dtype)) {
    scatter_each(context, y, f->whole);
    return TN_OK;
  }
  view wide = y;
  int64_t stride = 1;
  double *sum = scratch_alloc(host, view_count(&y));
  if (!sum) return TN_ERR_OUT_OF_MEMORY;
  gather(y, sum);
  wide.dtype = TN_F64;
  wide.data = (char *)sum;
  for (int a = y.ndim - 1; a >= 0; stride *= y.shape[a--]) wide.stride[a] = stride;
  scatter_each(context, wide, f->wide);
  scatter(y, sum);
  host->free(host, sum);
  return TN_OK;
}

/* --- rows: the axes of the data behind those of the index --- */

typedef struct rows {
  view index, part; /* part: what is read into, or updates */
  int batch, axes;
} rows;

static rows rows_of(const tn_kernel_args *args, const DLTensor *part) {
  rows r = {.index = view_of(args->in[1]), .part = view_of(part)};
  r.batch = (int)((const tn_gather_nd_attrs *)args->attrs)->batch_dims; /* one layout for all */
  r.axes = (int)r.index.shape[r.index.ndim - 1];
  return r;
}

static int64_t rows_count(const rows *r) {
  int64_t n = 1;
  for (int a = 0; a < r->index.ndim - 1; ++a) n *= r->index.shape[a];
  return n;
}

/* Without its first axes, `offset` elements on. */
static view behind(view v, int axes, int64_t offset) {
  view row = {.data = view_at(&v, offset), .dtype = v.dtype, .ndim = v.ndim - axes};
  memcpy(row.shape, v.shape + axes, (size_t)row.ndim * sizeof *row.shape);
  memcpy(row.stride, v.stride + axes, (size_t)row.ndim * sizeof *row.stride);
  return row;
}

/* The parts of row number j; false where the index is outside: `data` then has the shape alone. */
static bool row_at(const rows *r, view whole, int64_t j, view *part, view *data) {
  int64_t of_part = 0, of_index = 0, of_data = 0;
  bool inside = true;
  for (int a = r->index.ndim - 2; a >= 0; --a) {
    int64_t at = j % r->index.shape[a];
    j /= r->index.shape[a];
    of_part += at * r->part.stride[a];
    of_index += at * r->index.stride[a];
    if (a < r->batch) of_data += at * whole.stride[a];
  }
  for (int a = 0; a < r->axes && inside; ++a) {
    int64_t at = of_index + a * r->index.stride[r->index.ndim - 1];
    int64_t k = index_place(&r->index, view_at(&r->index, at), whole.shape[r->batch + a]);
    inside = k >= 0;
    of_data += k * whole.stride[r->batch + a];
  }
  *part = behind(r->part, r->index.ndim - 1, of_part);
  *data = behind(whole, r->batch + r->axes, inside ? of_data : 0);
  return inside;
}

tn_status reference_gather_nd(const tn_kernel_args *args) {
  view x = view_of(args->in[0]);
  rows r = rows_of(args, args->out[0]);
  size_t size = tn_dtype_size(x.dtype);
  for (int64_t j = 0; j < rows_count(&r); ++j) {
    view views[2];
    bool inside = row_at(&r, x, j, &views[0], &views[1]);
    walk w = walk_over(views, 2, 0, view_count(&views[0]));
    while (walk_next(&w))
      for (int64_t i = 0; i < w.n; ++i)
        if (inside)
          memcpy(walk_at(&w, 0, i), walk_at(&w, 1, i), size);
        else
          memset(walk_at(&w, 0, i), 0, size);
  }
  return TN_OK;
}

static void scatter_rows(const void *context, view y, update_fn update) {
  const rows *r = context;
  for (int64_t j = 0; j < rows_count(r); ++j) {
    view views[2];
    if (!row_at(r, y, j, &views[0], &views[1])) continue;
    walk w = walk_over(views, 2, 0, view_count(&views[0]));
    while (walk_next(&w))
      for (int64_t i = 0; i < w.n; ++i) update(r->part.dtype, walk_at(&w, 1, i), walk_at(&w, 0, i));
  }
}

static tn_status rows_run(const tn_kernel_args *args, update_fn update) {
  rows r = rows_of(args, args->in[0]);
  scatter_rows(&r, view_of(args->out[0]), update);
  return TN_OK;
}

static tn_status rows_fold(const tn_kernel_args *args, const fold *f) {
  rows r = rows_of(args, args->in[0]);
  return scatter_fold(args->host, view_of(args->out[0]), f, scatter_rows, &r);
}

tn_status reference_scatter_nd(const tn_kernel_args *args) { return rows_run(args, update_set); }
tn_status reference_scatter_nd_min(const tn_kernel_args *args) {
  return rows_run(args, update_min);
}
tn_status reference_scatter_nd_max(const tn_kernel_args *args) {
  return rows_run(args, update_max);
}
tn_status reference_scatter_nd_add(const tn_kernel_args *args) {
  return rows_fold(args, &fold_add);
}
tn_status reference_scatter_nd_mul(const tn_kernel_args *args) {
  return rows_fold(args, &fold_mul);
}

/* --- masked_select --- */

tn_status reference_masked_select(const tn_kernel_args *args) {
  view y = view_of(args->out[0]), views[2] = {view_of(args->in[0]), view_of(args->in[1])};
  size_t size = tn_dtype_size(y.dtype);
  int64_t count = 0;
  walk w = walk_over(views, 2, 0, view_count(&views[0]));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i)
      if (*(const unsigned char *)walk_at(&w, 1, i))
        memcpy(view_at(&y, count++ * y.stride[0]), walk_at(&w, 0, i), size);
  *(int64_t *)args->out[1]->data = count;
  return TN_OK;
}
