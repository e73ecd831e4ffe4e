/* Six kernels, plain: each takes what it needs along and computes when its queue gets there. */
#include <string.h>

#include "mutant.h"

/* A tensor behind its handle; strides count elements. */
typedef struct view {
  char *data;
  int32_t rank;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} view;

typedef struct kernel_params {
  view y, a, b;
  size_t size;      /* bytes of an element */
  int64_t terms;    /* of a sum: elements of a for one of y */
  uint64_t element; /* what fill writes */
} kernel_params;

static int64_t count_of(const view *v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v->rank; i++) n *= v->shape[i];
  return n;
}

static char *element(const view *v, int64_t index, size_t size) {
  int64_t at = 0;
  for (int32_t i = v->rank - 1; i >= 0; i--) {
    at += index % v->shape[i] * v->strides[i];
    index /= v->shape[i];
  }
  return v->data + at * (int64_t)size;
}

static float load(const view *v, int64_t index) {
  float value;
  memcpy(&value, element(v, index, sizeof value), sizeof value);
  return value;
}

static void store(const view *v, int64_t index, double wide) {
  float value = (float)wide;
  memcpy(element(v, index, sizeof value), &value, sizeof value);
}

/* --- what the device does --- */

static void do_add(const void *params) {
  const kernel_params *p = params;
  for (int64_t i = 0, n = count_of(&p->y); i < n; i++)
    store(&p->y, i, (double)(load(&p->a, i) + load(&p->b, i)));
}

static void do_mul(const void *params) {
  const kernel_params *p = params;
  for (int64_t i = 0, n = count_of(&p->y); i < n; i++)
    store(&p->y, i, (double)(load(&p->a, i) * load(&p->b, i)));
}

static void do_copy(const void *params) {
  const kernel_params *p = params;
  for (int64_t i = 0, n = count_of(&p->y); i < n; i++)
    memmove(element(&p->y, i, p->size), element(&p->a, i, p->size), p->size);
}

static void do_fill(const void *params) {
  const kernel_params *p = params;
  for (int64_t i = 0, n = count_of(&p->y); i < n; i++)
    memcpy(element(&p->y, i, p->size), &p->element, p->size);
}

static void do_sum(const void *params) {
  const kernel_params *p = params;
  for (int64_t i = 0, n = count_of(&p->y); i < n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < p->terms; k++) sum += (double)load(&p->a, i * p->terms + k);
    store(&p->y, i, sum);
  }
}

/* [m, k] times [k, n] */
static void do_matmul(const void *params) {
  const kernel_params *p = params;
  int64_t m = p->y.shape[0], n = p->y.shape[1], terms = p->a.shape[1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < terms; k++)
        sum += (double)load(&p->a, i * terms + k) * (double)load(&p->b, k * n + j);
      store(&p->y, i * n + j, sum);
    }
}

/* --- how it is told --- */

static bool view_of(const tn_kernel_args *args, const DLTensor *t, view *v) {
  v->data = mutant_reach(args->device, t->data, t->byte_offset);
  v->rank = t->ndim;
  for (int32_t i = 0; i < t->ndim; i++) {
    v->shape[i] = t->shape[i];
    v->strides[i] = t->strides[i];
  }
  return v->data || count_of(v) == 0;
}

static bool views_of(const tn_kernel_args *args, kernel_params *p) {
  p->size = (size_t)args->out[0]->dtype.bits / 8;
  return view_of(args, args->out[0], &p->y) &&
         (args->num_in < 1 || view_of(args, args->in[0], &p->a)) &&
         (args->num_in < 2 || view_of(args, args->in[1], &p->b));
}

static tn_status launch(const tn_kernel_args *args, void (*run)(const void *),
                        const kernel_params *p) {
  return mutant_put(args->queue, (mutant_work){run, p, sizeof *p, NULL, NULL});
}

static tn_status outside(const tn_kernel_args *args) {
  return args->host->fail(TN_ERR_BACKEND, "%s: a tensor is not the device's", args->kernel->name);
}

typedef struct row {
  void (*run)(const void *params);
} row;

static tn_status run_plain(const tn_kernel_args *args) {
  kernel_params p = {0};
  if (!views_of(args, &p)) return outside(args);
  return launch(args, ((const row *)args->kernel->user)->run, &p);
}

static tn_status run_fill(const tn_kernel_args *args) {
  kernel_params p = {0};
  float value = (float)((const tn_fill_attrs *)args->attrs)->value;
  if (!views_of(args, &p)) return outside(args);
  memcpy(&p.element, &value, sizeof value);
  return launch(args, do_fill, &p);
}

/* The axes that stay go first in the view of the input, then those that are summed over. */
static tn_status run_sum(const tn_kernel_args *args) {
  const tn_sum_attrs *attrs = args->attrs;
  kernel_params p = {0};
  if (!views_of(args, &p)) return outside(args);
  uint32_t summed = attrs->axes.count ? 0 : ~0u;
  view x = p.a;
  for (int32_t i = 0; i < attrs->axes.count; i++)
    summed |= 1u << (attrs->axes.axis[i] + (attrs->axes.axis[i] < 0 ? x.rank : 0));
  p.a.rank = 0;
  p.terms = 1;
  for (int pass = 0; pass < 2; pass++)
    for (int32_t i = 0; i < x.rank; i++) {
      if ((int)(summed >> i & 1) != pass) continue;
      p.a.shape[p.a.rank] = x.shape[i];
      p.a.strides[p.a.rank++] = x.strides[i];
      if (pass) p.terms *= x.shape[i];
    }
  return launch(args, do_sum, &p);
}

static bool matmul_supports(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  return args->in[0]->ndim == 2 && args->in[1]->ndim == 2 && !args->in[2] && !attrs->trans_a &&
         !attrs->trans_b && attrs->activation == TN_ACTIVATION_NONE;
}

#define ROW(NAME, set, function, ...)                                                              \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##NAME, .device_type = MUTANT_TYPE,              \
    .priority = 200, .flags = TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC, .types = {set},         \
    .run = function, __VA_ARGS__                                                                   \
  }
#define DOES(function)                                                                             \
  .user = &(const row) { function }

const tn_kernel mutant_kernels[MUTANT_KERNELS] = {
    ROW(COPY, TN_SET_ALL, run_plain, DOES(do_copy), .name = "mutant.copy"),
    ROW(FILL, TN_SET(TN_F32), run_fill, .name = "mutant.fill"),
    ROW(ADD, TN_SET(TN_F32), run_plain, DOES(do_add), .name = "mutant.add"),
    ROW(MUL, TN_SET(TN_F32), run_plain, DOES(do_mul), .name = "mutant.mul"),
    ROW(SUM, TN_SET(TN_F32), run_sum, .name = "mutant.sum"),
    ROW(MATMUL, TN_SET(TN_F32), run_plain, DOES(do_matmul), .name = "mutant.matmul",
        .supports = matmul_supports, .note = "two matrices as they are"),
};
