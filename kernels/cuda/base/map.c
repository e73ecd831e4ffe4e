/*
 * Starting elementwise kernels: which of a functor's kernels takes the tensors of a call, and how
 * the strided one walks over them. On the way of every elementwise call: no allocation, no loops
 * beyond the rank.
 */
#include "kernels/cuda/base/map.h"

#include <stdlib.h>

#include "kernels/cuda/base/launch.h"
#include "kernels/cuda/base/table.h"
#include "kernels/cuda/kernels.h"

/* The least size of an axis worth tiles. */
enum { least_tiled = 16 };

static bool is_aligned(const void *ptr, int64_t bytes) {
  return ((uintptr_t)ptr & (uintptr_t)(bytes - 1)) == 0;
}

static tn_status start(const tn_kernel_args *args, const void *kernel, int64_t blocks,
                       void **parameters) {
  const dim3 grid = {(unsigned)blocks, 1, 1}, block = {MAP_THREADS, 1, 1};
  return cuda_launch(args, kernel, grid, block, 0, parameters);
}

/* --- modes of the strided kernel --- */

/* Whether operand k takes accesses of n elements wherever its rows begin. */
static bool is_wide(const cuda_shape *s, int k, const void *data, int64_t size, int n) {
  int last = s->rank - 1;
  bool wide = s->stride[k][last] == 1 && is_aligned(data, size * n);
  for (int d = 0; d < last; d++) wide = wide && s->stride[k][d] % n == 0;
  return wide;
}

/* The axis along which an input runs that y does not run along; -1 for none that is worth it. */
static int turned_axis(const cuda_shape *s, int operands) {
  int last = s->rank - 1;
  if (s->stride[0][last] != 1 || s->size[last] < least_tiled) return -1;
  for (int k = 1; k < operands; k++) {
    if (s->stride[k][last] == 1 || s->stride[k][last] == 0) continue;
    for (int d = 0; d < last; d++)
      if (s->stride[k][d] == 1 && s->size[d] >= least_tiled) return d;
  }
  return -1;
}

/* Dimensions of a shape; a stride along one place is never walked, and may be any. */
static void set_dimensions(map_walk *w, const cuda_shape *s, int operands) {
  w->count = (uint32_t)cuda_shape_count(s);
  w->rank = s->rank;
  for (int d = 0; d < s->rank; d++) {
    w->size[d] = cuda_divisor_of((uint32_t)s->size[d]);
    for (int k = 0; k < operands; k++)
      w->stride[d][k] = s->size[d] > 1 ? (int32_t)s->stride[k][d] : 0;
  }
}

/* Blocks of tiles of `height` rows; 0 where they are too many. */
static int64_t plan_tiles(map_walk *w, const cuda_shape *s, int operands, int row, int height) {
  int last = s->rank - 1;
  cuda_shape outer = {.rank = 0};
  for (int d = 0; d < last; d++) {
    if (d == row) continue;
    outer.size[outer.rank] = s->size[d];
    for (int k = 0; k < operands; k++) outer.stride[k][outer.rank] = s->stride[k][d];
    outer.rank++;
  }
  int64_t across = (s->size[last] + MAP_TILE - 1) / MAP_TILE;
  int64_t down = (s->size[row] + height - 1) / height;
  int64_t blocks = across * down * cuda_shape_count(&outer);
  if (blocks > CUDA_MAX_INDEX) return 0;
  set_dimensions(w, &outer, operands);
  w->mode = MAP_TILED;
  w->each = MAP_TILE_ROWS;
  w->limit = (uint32_t)s->size[row];
  w->columns = (uint32_t)s->size[last];
  w->across = cuda_divisor_of((uint32_t)across);
  w->down = cuda_divisor_of((uint32_t)down);
  for (int k = 0; k < operands; k++) {
    bool along = s->stride[k][last] == 1 || s->stride[k][last] == 0;
    w->row_step[k] = (int32_t)s->stride[k][row];
    w->column_step[k] = (int32_t)s->stride[k][last];
    w->pitch[k] = MAP_TILE_ROWS * w->row_step[k];
    w->how[k] = w->row_step[k] == 1 && !along ? MAP_TURNED : MAP_STEPPING;
  }
  return blocks;
}

/* Threads take whole accesses of n elements of a row. */
static void plan_accesses(map_walk *w, const map_form *form, char *const *data, const cuda_shape *s,
                          int n) {
  const int operands = 1 + form->inputs, last = s->rank - 1;
  cuda_shape walked = *s;
  walked.size[last] /= n;
  w->mode = MAP_WIDE;
  w->each = 0;
  w->limit = UINT32_MAX;
  for (int k = 0; k < operands; k++) {
    const int64_t stride = s->stride[k][last];
    walked.stride[k][last] *= n;
    w->pitch[k] = (int32_t)stride;
    w->how[k] = is_wide(s, k, data[k], form->size[k], n) ? MAP_AT_ONCE
                : stride == 0                            ? MAP_STILL
                                                         : MAP_STEPPING;
  }
  set_dimensions(w, &walked, operands);
}

/* The dimension of which the least is left over where n threads' worth share it; the outermost
 * such. */
static int dimension_to_split(const cuda_shape *s, int n) {
  int best = 0;
  for (int d = 1; d < s->rank; d++) {
    int64_t here = (s->size[d] + n - 1) / n, there = (s->size[best] + n - 1) / n;
    if (here * s->size[best] < there * s->size[d]) best = d;
  }
  return best;
}

/* Threads take n elements that lie a part of the dimension apart. */
static void plan_spread(map_walk *w, const cuda_shape *s, int operands, int n) {
  const int split = dimension_to_split(s, n);
  const int64_t part = (s->size[split] + n - 1) / n;
  cuda_shape walked = *s;
  walked.size[split] = part;
  w->mode = MAP_SPREAD;
  w->split = split;
  w->each = (uint32_t)part;
  w->limit = (uint32_t)s->size[split];
  for (int k = 0; k < operands; k++) {
    w->how[k] = MAP_STEPPING;
    w->pitch[k] = part < s->size[split] ? (int32_t)(part * s->stride[k][split]) : 0;
  }
  set_dimensions(w, &walked, operands);
}

/* Fills w for a shape whose offsets 32 bits hold; returns the blocks. */
static int64_t plan_walk(map_walk *w, const map_form *form, char *const *data,
                         const cuda_shape *s) {
  const int operands = 1 + form->inputs, last = s->rank - 1, n = form->strided_width;
  const int row = turned_axis(s, operands);
  w->split = 0;
  int64_t blocks = row < 0 ? 0 : plan_tiles(w, s, operands, row, MAP_TILE_ROWS * n);
  if (blocks) return blocks;
  if (s->size[last] % n == 0 && is_wide(s, 0, data[0], form->size[0], n)) {
    plan_accesses(w, form, data, s, n);
  } else {
    plan_spread(w, s, operands, n);
  }
  return (w->count + MAP_THREADS - 1) / MAP_THREADS;
}

/* --- pieces that 32 bits index --- */

/* How far an operand reaches along a dimension. */
static int64_t reach(const cuda_shape *s, int k, int d) {
  return s->size[d] > 1 ? (s->size[d] - 1) * llabs(s->stride[k][d]) : 0;
}

/* The dimension to halve; -1 for none. Where there are too many places, that is the outermost of a
 * size; where an operand reaches too far, the one along which it reaches farthest. */
static int dimension_to_halve(const cuda_shape *s, int operands) {
  int d = 0;
  if (cuda_shape_count(s) > CUDA_MAX_INDEX) {
    while (s->size[d] < 2) d++;
    return d;
  }
  for (int k = 0; k < operands; k++) {
    int64_t all = 0;
    int farthest = 0;
    for (d = 0; d < s->rank; d++) {
      all += reach(s, k, d);
      if (reach(s, k, d) > reach(s, k, farthest)) farthest = d;
    }
    if (all > CUDA_MAX_INDEX) return farthest;
  }
  return -1;
}

tn_status cuda_map_run_strided(const tn_kernel_args *args, const map_form *form, char *const *data,
                               const cuda_shape *shape) {
  const int operands = 1 + form->inputs, halved = dimension_to_halve(shape, operands);
  if (halved < 0) {
    map_walk walk;
    int64_t blocks = plan_walk(&walk, form, data, shape);
    char *p[CUDA_MAX_OPERANDS] = {data[0], data[1], data[2], data[3]};
    void *parameters[] = {(void *)form->strided_functor, &p[0], &p[1], &p[2], &p[3], &walk};
    return start(args, form->strided, blocks, parameters);
  }
  cuda_shape part = *shape;
  char *second[CUDA_MAX_OPERANDS] = {0};
  const int64_t half = part.size[halved] / 2;
  part.size[halved] = half;
  tn_status status = cuda_map_run_strided(args, form, data, &part);
  if (status != TN_OK) return status;
  part.size[halved] = shape->size[halved] - half;
  for (int k = 0; k < operands; k++)
    second[k] = data[k] + half * part.stride[k][halved] * form->size[k];
  return cuda_map_run_strided(args, form, second, &part);
}

/* --- dense runs --- */

static tn_status run_flat(const tn_kernel_args *args, const map_form *form, char *const *data,
                          int64_t n) {
  if (!form->flat) {
    cuda_shape line = {.rank = 1, .size = {n}};
    for (int k = 0; k <= form->inputs; k++) line.stride[k][0] = 1;
    return cuda_map_run_strided(args, form, data, &line);
  }
  const int64_t each = (int64_t)MAP_THREADS * form->width * form->packs;
  char *p[CUDA_MAX_OPERANDS] = {data[0], data[1], data[2], data[3]};
  void *parameters[] = {(void *)form->functor, &p[0], &p[1], &p[2], &p[3], &n};
  return start(args, form->flat, (n + each - 1) / each, parameters);
}

/* Whether the row asked for room for a table and n results are looked up in one. */
static bool has_table(const tn_kernel_args *args, const map_form *form, int64_t n) {
  return args->kernel->workspace == cuda_table_workspace && args->workspace_bytes >= TABLE_BYTES &&
         form->flat && form->inputs == 1 && form->size[0] == 2 && form->size[1] == 2 &&
         n >= TABLE_LEAST &&
         cuda_make_current(args->host, (const cuda_info *)args->device) == TN_OK &&
         cuda_table_fits();
}

static tn_status run_table(const tn_kernel_args *args, const map_form *form, char *const *data,
                           int64_t n) {
  char *const table[CUDA_MAX_OPERANDS] = {args->workspace};
  const tn_status status = run_flat(args, form, table, TABLE_ENTRIES);
  return status == TN_OK ? cuda_table_look(args, data[0], data[1], n) : status;
}

/* Elements of tensors that are all row-major, which is found out sooner than that they are one run
 * in some other order; -1 where they are not. */
static int64_t row_major_count(int operands, const DLTensor *const *tensors) {
  int64_t count = 1;
  for (int d = tensors[0]->ndim - 1; d >= 0; d--) {
    const int64_t size = tensors[0]->shape[d];
    if (size == 1) continue;
    for (int k = 0; k < operands; k++)
      if (tensors[k]->strides[d] != count) return -1;
    count *= size;
  }
  return count;
}

static bool are_wide(const map_form *form, char *const *data) {
  for (int k = 0; k <= form->inputs; k++)
    if (!is_aligned(data[k], (int64_t)form->size[k] * form->width)) return false;
  return true;
}

static tn_status run_dense(const tn_kernel_args *args, const map_form *form, char *const *data,
                           int64_t n) {
  return has_table(args, form, n) ? run_table(args, form, data, n) : run_flat(args, form, data, n);
}

tn_status cuda_map_run(const tn_kernel_args *args, const map_form *form) {
  const int operands = 1 + form->inputs;
  const DLTensor *tensors[CUDA_MAX_OPERANDS] = {args->out[0]};
  char *data[CUDA_MAX_OPERANDS] = {(char *)args->out[0]->data};
  for (int k = 1; k < operands; k++) {
    tensors[k] = args->in[k - 1];
    data[k] = (char *)tensors[k]->data;
  }
  const bool wide = are_wide(form, data);
  int64_t n = wide ? row_major_count(operands, tensors) : -1;
  if (n > 0) return run_dense(args, form, data, n);
  cuda_shape shape;
  cuda_shape_of(&shape, operands, tensors, true);
  n = cuda_shape_count(&shape);
  if (n == 0) return TN_OK;
  if (!wide || !cuda_shape_is_flat(&shape, operands))
    return cuda_map_run_strided(args, form, data, &shape);
  return run_dense(args, form, data, n);
}
