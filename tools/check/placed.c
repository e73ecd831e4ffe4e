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

/* Calls visit for every element of the view with its place in row-major order and in
 * the base. */
static void each_element(const placed *p, void (*visit)(void *ctx, int64_t i, int64_t at),
                         void *ctx) {
  int32_t rank = tn_tensor_rank(p->view);
  const int64_t *shape = tn_tensor_shape(p->view), *strides = tn_tensor_strides(p->view);
  int64_t n = tn_tensor_elements(p->view), index[TN_MAX_RANK] = {0}, at = 0;
  size_t size = tn_dtype_size(tn_tensor_dtype(p->view));
  if (n) at = ((char *)tn_tensor_data(p->view) - (char *)tn_tensor_data(p->base)) / (int64_t)size;
  for (int64_t i = 0; i < n; i++) {
    visit(ctx, i, at);
    for (int32_t k = rank - 1; k >= 0; k--) {
      at += strides[k];
      if (++index[k] < shape[k]) break;
      at -= strides[k] * shape[k];
      index[k] = 0;
    }
  }
}

typedef struct transfer {
  char *image;
  char *values;
  size_t size;
} transfer;

static void scatter(void *ctx, int64_t i, int64_t at) {
  transfer *t = ctx;
  memcpy(t->image + (size_t)at * t->size, t->values + (size_t)i * t->size, t->size);
}

static void gather(void *ctx, int64_t i, int64_t at) {
  transfer *t = ctx;
  memcpy(t->values + (size_t)i * t->size, t->image + (size_t)at * t->size, t->size);
}

static void erase(void *ctx, int64_t i, int64_t at) {
  transfer *t = ctx;
  (void)i;
  memset(t->image + (size_t)at * t->size, GUARD, t->size);
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
    if (values) each_element(out, scatter, &t);
    status = tn_tensor_write(NULL, out->base, t.image, bytes);
    free(t.image);
  }
  if (status != TN_OK) placed_free(out);
  return status;
}

tn_status placed_read(const placed *p, void *values, bool *guarded) {
  size_t bytes = tn_tensor_bytes(p->base);
  transfer t = {malloc(bytes + 1), values, tn_dtype_size(tn_tensor_dtype(p->base))};
  tn_status status = tn_tensor_to_host(p->base, t.image, bytes);
  if (status == TN_OK) {
    each_element(p, gather, &t);
    each_element(p, erase, &t);
    *guarded = true;
    for (size_t i = 0; i < bytes; i++) *guarded = *guarded && (unsigned char)t.image[i] == GUARD;
  }
  free(t.image);
  return status;
}

void placed_free(placed *p) {
  tn_tensor_release(p->view);
  tn_tensor_release(p->base);
  *p = (placed){0};
}
