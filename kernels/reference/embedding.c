/* Rows of a table by number, their gradient, and rotary positions. */
#include <math.h>
#include <string.h>

#include "iterate.h"
#include "kernels.h"

/* The numbers of a tensor of any shape, row-major; NULL after host->fail. */
static int64_t *gather_numbers(const tn_host *host, view v) {
  int64_t count = view_count(&v);
  int64_t *numbers = (int64_t *)(void *)scratch_alloc(host, count);
  if (!numbers) return NULL;
  walk w = walk_over(&v, 1, 0, count);
  while (walk_next(&w)) load_i64(v.dtype, w.at[0], w.step[0], w.n, numbers + w.first);
  return numbers;
}

/* The row that belongs to item `item` of v's axes but the last, in row-major order. */
static view row_of(view v, int64_t item) {
  int last = v.ndim - 1, order[1] = {last};
  for (int a = last - 1; a >= 0; --a) {
    int64_t size = v.shape[a];
    v = view_slice(v, a, item % size, 1);
    item /= size;
  }
  return view_permute(v, 1, order);
}

/* Copies n elements of one type; without `from`, zeros. */
static void copy_row(view to, const view *from) {
  size_t size = tn_dtype_size(to.dtype);
  for (int64_t i = 0; i < to.shape[0]; ++i) {
    void *at = view_at(&to, i * to.stride[0]);
    if (from)
      memcpy(at, view_at(from, i * from->stride[0]), size);
    else
      memset(at, 0, size);
  }
}

tn_status reference_embedding(const tn_kernel_args *args) {
  view table = view_of(args->in[0]), index = view_of(args->in[1]), y = view_of(args->out[0]);
  if (view_count(&y) == 0) return TN_OK;
  int64_t count = view_count(&index), *rows = gather_numbers(args->host, index);
  if (!rows) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; ++i) {
    bool inside = rows[i] >= 0 && rows[i] < table.shape[0];
    view from = inside ? row_of(table, rows[i]) : table;
    copy_row(row_of(y, i), inside ? &from : NULL);
  }
  args->host->free(args->host, rows);
  return TN_OK;
}

/* Numbers below 0 as the rows that they count from the end. */
static void count_from_end(int64_t n, int64_t *rows, int64_t num_rows) {
  for (int64_t i = 0; i < n; ++i)
    if (rows[i] < 0 && rows[i] >= -num_rows) rows[i] += num_rows;
}

/* sums[r, :] += dy's rows where they were used. */
static void add_rows(view dy, int64_t count, const int64_t *rows, int64_t num_rows, int64_t skip,
                     double *sums, double *row) {
  int64_t d = dy.shape[dy.ndim - 1];
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i] < 0 || rows[i] >= num_rows || rows[i] == skip) continue;
    gather(row_of(dy, i), row);
    for (int64_t k = 0; k < d; ++k) sums[rows[i] * d + k] += row[k];
  }
}

tn_status reference_embedding_grad(const tn_kernel_args *args) {
  const tn_embedding_grad_attrs *attrs = args->attrs;
  view dy = view_of(args->in[0]), index = view_of(args->in[1]), dtable = view_of(args->out[0]);
  int64_t n = view_count(&dtable), d = dtable.shape[1], count = view_count(&index);
  if (n == 0) return TN_OK;
  int64_t *rows = gather_numbers(args->host, index);
  double *sums = rows ? scratch_alloc(args->host, n + d) : NULL;
  if (sums) {
    for (int64_t i = 0; i < n; ++i) sums[i] = 0;
    if (TN_FIELD_OR(attrs, tn_embedding_grad_attrs, from_end, 0))
      count_from_end(count, rows, dtable.shape[0]);
    add_rows(dy, count, rows, dtable.shape[0], attrs->padding_index, sums, sums + n);
    scatter(dtable, sums);
  }
  args->host->free(args->host, rows);
  args->host->free(args->host, sums);
  return sums ? TN_OK : TN_ERR_OUT_OF_MEMORY;
}

/* Turns the vector x of d elements, of which 2 n are paired, in place. */
static void turn(double *x, int64_t n, const double *cosine, const double *sine,
                 const tn_rope_attrs *attrs) {
  for (int64_t i = 0; i < n; ++i) {
    double *a = x + (attrs->interleaved ? 2 * i : i), *b = attrs->interleaved ? a + 1 : a + n;
    double s = attrs->inverse ? -sine[i] : sine[i], c = cosine[i];
    double turned = *a * c - *b * s;
    *b = *b * c + *a * s;
    *a = turned;
  }
}

tn_status reference_rope(const tn_kernel_args *args) {
  view x = view_of(args->in[0]), y = view_of(args->out[0]);
  view cosine = view_of(args->in[1]), sine = view_of(args->in[2]);
  int64_t d = x.shape[3], n = cosine.shape[1], vectors = x.shape[0] * x.shape[1] * x.shape[2];
  if (view_count(&x) == 0) return TN_OK;
  double *room = scratch_alloc(args->host, d + 2 * n);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t v = 0; v < vectors; ++v) {
    int64_t position = v % x.shape[2], batch = v / (x.shape[1] * x.shape[2]);
    if (args->in[3]) {
      view all = view_of(args->in[3]);
      int64_t offset = batch * all.stride[0] + position * all.stride[1];
      load_i64(all.dtype, view_at(&all, offset), 1, 1, &position);
    }
    gather(row_of(x, v), room);
    if (position >= 0 && position < cosine.shape[0]) {
      gather(row_of(cosine, position), room + d);
      gather(row_of(sine, position), room + d + n);
      turn(room, n, room + d, room + d + n, args->attrs);
    } else {
      for (int64_t i = 0; i < d; ++i) room[i] = NAN;
    }
    scatter(row_of(y, v), room);
  }
  args->host->free(args->host, room);
  return TN_OK;
}
