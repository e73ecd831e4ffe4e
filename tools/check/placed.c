/*
 * Placing tensors. Elements are scattered and gathered on the host by the view's strides
 * and written with the whole base, so that a test of strided kernels rests on no other
 * strided kernel.
 */
#include "placed.h"

#include <stdlib.h>
#include <string.h>

#include "trapped.h"

/* All ones: NaN in every float type, so that a kernel that adds to what it should
 * overwrite, or reads a gap, shows. */
enum { GUARD = 0xff };

typedef struct plan {
  int32_t rank;
  int32_t order[TN_MAX_RANK]; /* base axis j is axis order[j] */
  int64_t base[TN_MAX_RANK];  /* shape of the base */
  int64_t begin[TN_MAX_RANK], step[TN_MAX_RANK], size[TN_MAX_RANK]; /* by base axis */
} plan;

static plan plan_axes(int32_t rank, const int64_t *shape, layout how, uint32_t expanded) {
  static const int32_t channels_last[] = {0, 2, 3, 1};
  plan p = {.rank = rank};
  bool gaps = how == LAYOUT_SLICED;
  bool last = how == LAYOUT_CHANNELS_LAST && rank == 4;
  bool reversed = how == LAYOUT_REVERSED || (how == LAYOUT_CHANNELS_LAST && !last);
  for (int32_t j = 0; j < rank; j++) {
    int32_t axis = last ? channels_last[j] : reversed ? rank - 1 - j : j;
    int64_t n = expanded >> axis & 1 && shape[axis] ? 1 : shape[axis];
    p.order[j] = axis;
    p.size[j] = n;
    p.begin[j] = gaps;
    p.step[j] = gaps && j == rank - 1 ? 2 : 1;
    p.base[j] = gaps ? n * p.step[j] + 2 : n;
  }
  return p;
}

/* Makes *t the view that was made of it, if it was. */
static tn_status step_to(tn_tensor **t, tn_status status, tn_tensor **made) {
  if (status != TN_OK) return status;
  tn_tensor_release(*t);
  *t = *made;
  return TN_OK;
}

static tn_status view_of(const plan *p, tn_tensor *base, const int64_t *shape, tn_tensor **view) {
  tn_tensor *t = base, *made = NULL;
  int32_t inverse[TN_MAX_RANK];
  tn_tensor_retain(t);
  tn_status status = TN_OK;
  for (int32_t j = 0; j < p->rank && status == TN_OK; j++) {
    inverse[p->order[j]] = j;
    int64_t end = p->begin[j] + p->size[j] * p->step[j];
    status = step_to(&t, tn_tensor_slice(t, j, p->begin[j], end, p->step[j], &made), &made);
  }
  if (status == TN_OK && p->rank) status = step_to(&t, tn_tensor_permute(t, inverse, &made), &made);
  if (status == TN_OK) status = step_to(&t, tn_tensor_expand(t, p->rank, shape, &made), &made);
  if (status == TN_OK)
    *view = t;
  else
    tn_tensor_release(t);
  return status;
}

static tn_status make_off_by_one(tn_device *device, tn_dtype dtype, int32_t rank,
                                 const int64_t *shape, placed *out) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= shape[i];
  tn_tensor *inner = NULL;
  int64_t whole = n + 2;
  tn_status status = tn_tensor_empty(device, dtype, 1, &whole, &out->base);
  if (status == TN_OK) status = tn_tensor_slice(out->base, 0, 1, n + 1, 1, &inner);
  if (status == TN_OK) status = tn_tensor_reshape(inner, rank, shape, &out->view);
  tn_tensor_release(inner);
  return status;
}

static tn_status make_planned(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                              layout how, uint32_t expanded, placed *out) {
  plan p = plan_axes(rank, shape, how, expanded);
  tn_status status = how == LAYOUT_TRAPPED
                         ? trapped_make(device, dtype, rank, p.base, &out->base)
                         : tn_tensor_empty(device, dtype, rank, p.base, &out->base);
  return status == TN_OK ? view_of(&p, out->base, shape, &out->view) : status;
}

/* Elements one after the other, `step` bytes apart. */
typedef struct row {
  char *at;
  int64_t step;
} row;

/* A loop per size, since a memcpy of a size that is not known is a call per element. */
#define MOVE_ELEMENTS(bytes)                                                                       \
  for (int64_t i = 0; i < count; i++) memcpy(to.at + i * to.step, from.at + i * from.step, bytes)

static void move_row(row to, row from, int64_t count, size_t size) {
  if (to.step == (int64_t)size && from.step == (int64_t)size) {
    memcpy(to.at, from.at, (size_t)count * size);
    return;
  }
  switch (size) {
  case 1:
    MOVE_ELEMENTS(1);
    break;
  case 2:
    MOVE_ELEMENTS(2);
    break;
  case 4:
    MOVE_ELEMENTS(4);
    break;
  default:
    MOVE_ELEMENTS(8);
  }
}

typedef struct transfer {
  char *image;  /* of the whole base */
  char *values; /* row-major */
  size_t size;
} transfer;

static void scatter(const transfer *t, row values, row image, int64_t count) {
  move_row(image, values, count, t->size);
}

static void gather(const transfer *t, row values, row image, int64_t count) {
  move_row(values, image, count, t->size);
}

static void erase(const transfer *t, row values, row image, int64_t count) {
  static char guards[8] = {'\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'};
  (void)values;
  if (image.step == (int64_t)t->size)
    memset(image.at, GUARD, (size_t)count * t->size);
  else
    move_row(image, (row){guards, 0}, count, t->size);
}

/* Calls visit for every row of the view's last axis. */
static void each_row(const placed *p, const transfer *t,
                     void (*visit)(const transfer *t, row values, row image, int64_t count)) {
  int32_t last = tn_tensor_rank(p->view) - 1;
  const int64_t *shape = tn_tensor_shape(p->view), *strides = tn_tensor_strides(p->view);
  const int64_t size = (int64_t)t->size, n = tn_tensor_elements(p->view);
  const int64_t count = last < 0 ? 1 : shape[last], step = last < 0 ? 1 : strides[last];
  int64_t index[TN_MAX_RANK] = {0}, at = 0;
  if (n) at = (char *)tn_tensor_data(p->view) - (char *)tn_tensor_data(p->base);
  for (int64_t i = 0; i < n; i += count) {
    visit(t, (row){t->values + i * size, size}, (row){t->image + at, step * size}, count);
    for (int32_t k = last - 1; k >= 0; k--) {
      at += strides[k] * size;
      if (++index[k] < shape[k]) break;
      at -= strides[k] * shape[k] * size;
      index[k] = 0;
    }
  }
}

tn_status placed_make(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                      layout how, uint32_t expanded, const void *values, placed *out) {
  *out = (placed){0};
  if (rank == 0 && how == LAYOUT_SLICED) how = LAYOUT_OFF_BY_ONE;
  tn_status status = how == LAYOUT_OFF_BY_ONE
                         ? make_off_by_one(device, dtype, rank, shape, out)
                         : make_planned(device, dtype, rank, shape, how, expanded, out);
  if (status == TN_OK) {
    size_t bytes = tn_tensor_bytes(out->base);
    transfer t = {malloc(bytes + 1), NULL, tn_dtype_size(dtype)};
    memset(t.image, GUARD, bytes + 1);
    union {
      const void *in;
      char *out;
    } values_of = {values};
    t.values = values_of.out;
    if (values) each_row(out, &t, scatter);
    status = tn_tensor_write(NULL, out->base, t.image, bytes);
    free(t.image);
  }
  if (status != TN_OK) placed_free(out);
  return status;
}

/* The first byte is a guard, and each is like the one before it. */
static bool all_guards(const char *image, size_t bytes) {
  return bytes == 0 || ((unsigned char)image[0] == GUARD && !memcmp(image, image + 1, bytes - 1));
}

tn_status placed_read(const placed *p, void *values, bool *guarded) {
  size_t bytes = tn_tensor_bytes(p->base);
  transfer t = {malloc(bytes + 1), values, tn_dtype_size(tn_tensor_dtype(p->base))};
  tn_status status = tn_tensor_to_host(p->base, t.image, bytes);
  if (status == TN_OK) {
    each_row(p, &t, gather);
    each_row(p, &t, erase);
    *guarded = all_guards(t.image, bytes);
  }
  free(t.image);
  return status;
}

void placed_free(placed *p) {
  tn_tensor_release(p->view);
  tn_tensor_release(p->base);
  *p = (placed){0};
}
