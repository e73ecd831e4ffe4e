/*
 * Reductions over any axes of tensors with any strides. Floats are summed in double, integers in
 * unsigned 64 bits; of rows of 16 bits that lie side by side, where the result is of 16 bits, too,
 * eight are added in float first. Every sum has a fixed order.
 */
#include "kernels/cpu/reduce/reduce.h"

#include <math.h>

#include "kernels/cpu/base/half.h"

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

static void add_dim(reduce_dim *dims, int *count, reduce_dim dim) {
  int at = (*count)++;
  for (; at > 0 && magnitude(dims[at - 1].x) < magnitude(dim.x); at--) dims[at] = dims[at - 1];
  dims[at] = dim;
}

static void merge_dims(reduce_dim *dims, int *count) {
  int last = 0;
  for (int d = 1; d < *count; d++) {
    reduce_dim *outer = &dims[last];
    const reduce_dim inner = dims[d];
    if (outer->x == inner.x * inner.size && outer->y == inner.y * inner.size) {
      *outer = (reduce_dim){outer->size * inner.size, inner.x, inner.y};
    } else {
      dims[++last] = inner;
    }
  }
  /* One element, in steps so large that no loop prefers this dimension. */
  if (*count == 0) dims[0] = (reduce_dim){1, INT64_MAX, 0};
  *count = last + 1;
}

static bool has_axis(const tn_axes *axes, int axis, int rank) {
  if (axes->count == 0) return true;
  for (int i = 0; i < axes->count; i++)
    if (axes->axis[i] == axis || axes->axis[i] + rank == axis) return true;
  return false;
}

/* TN_DTYPE_NONE where y is of x's type. Of reductions without attribute dtype nobody asks. */
static tn_dtype wider_type(const DLTensor *x, const DLTensor *y) {
  if (x->dtype.code == y->dtype.code && x->dtype.bits == y->dtype.bits) return TN_DTYPE_NONE;
  if (y->dtype.code != kDLFloat) return TN_I64;
  return y->dtype.bits == 64 ? TN_F64 : TN_F32;
}

void ISA(reduce_plan_build)(reduce_plan *p, const DLTensor *x, const DLTensor *y,
                            const tn_axes *axes) {
  const bool keep = x->ndim == y->ndim;
  int at = 0;
  *p = (reduce_plan){.outputs = 1, .terms = 1, .x = x->data, .y = y->data, .parts = 1};
  p->wide = wider_type(x, y);
  for (int d = 0; d < x->ndim; d++) {
    const bool reduced = has_axis(axes, d, x->ndim);
    const int64_t size = x->shape[d];
    const int out = keep ? d : at;
    if (!reduced) at++;
    *(reduced ? &p->terms : &p->outputs) *= size;
    if (size == 1) continue;
    if (reduced)
      add_dim(p->reduced, &p->num_reduced, (reduce_dim){size, x->strides[d], 0});
    else
      add_dim(p->kept, &p->num_kept, (reduce_dim){size, x->strides[d], y->strides[out]});
  }
  merge_dims(p->reduced, &p->num_reduced);
  merge_dims(p->kept, &p->num_kept);
}

/* Splitting pays where outputs alone do not feed the threads. */
static int64_t choose_parts(const reduce_plan *p) {
  if (p->outputs > 4096 || p->outputs * p->terms < 4 * CPU_GRAIN_CHEAP) return 1;
  if (p->outputs >= 64 && p->kept[p->num_kept - 1].x > p->reduced[p->num_reduced - 1].x) return 1;
  return cpu_min(p->reduced[0].size, cpu_min(32, p->outputs * p->terms / CPU_GRAIN_CHEAP));
}

tn_status ISA(reduce_run)(const tn_host *host, reduce_plan *p, size_t bytes, tn_range_fn direct,
                          tn_range_fn part, tn_range_fn finish) {
  if (p->outputs == 0) return TN_OK;
  p->parts = choose_parts(p);
  p->partial = NULL;
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / cpu_max(p->terms, 1));
  if (p->parts > 1) p->partial = host->alloc(host, (size_t)(p->parts * p->outputs) * bytes, 64);
  if (p->partial == NULL) {
    p->parts = 1;
    if (p->outputs <= grain) return direct(p, 0, p->outputs);
    return host->parallel_for(host, p->outputs, grain, direct, p);
  }
  tn_status status = host->parallel_for(host, p->parts, 1, part, p);
  if (status == TN_OK)
    status =
        host->parallel_for(host, p->outputs, cpu_max(64, CPU_GRAIN_MATHS / p->parts), finish, p);
  host->free(host, p->partial);
  return status;
}

#define BODY "kernels/cpu/reduce/reduce_float.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/reduce/reduce_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
#undef BODY
#define BODY "kernels/cpu/reduce/reduce_whole.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_int.inc"
#undef BODY
#define BODY "kernels/cpu/reduce/reduce_truth.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
