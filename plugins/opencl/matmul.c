/*
 * Matrix products by our own kernel: any strides, any batch axes, bias and activation.
 */
#include <string.h>

#include "matmul.h"
#include "rows.h"
#include "sources.h"

static ocl_pitch pitch_of(const DLTensor *t, bool swapped) {
  int64_t row = t->strides[t->ndim - 2], column = t->strides[t->ndim - 1];
  return swapped ? (ocl_pitch){column, row} : (ocl_pitch){row, column};
}

void ocl_product_of(const tn_kernel_args *args, ocl_product *p) {
  const tn_matmul_attrs *attrs = args->attrs;
  const DLTensor *a = args->in[0], *y = args->out[0];
  p->m = y->shape[y->ndim - 2];
  p->n = y->shape[y->ndim - 1];
  p->k = a->shape[a->ndim - (attrs->trans_a ? 2 : 1)];
  p->y = pitch_of(y, false);
  p->a = pitch_of(a, attrs->trans_a);
  p->b = pitch_of(args->in[1], attrs->trans_b);
  p->bias = args->in[2] ? args->in[2]->strides[0] : 0;
}

/* The strides of t under y's batch axes: 0 where t is broadcast. */
static void batch_strides(const DLTensor *t, const DLTensor *y, int64_t *strides) {
  int missing = y->ndim - t->ndim;
  for (int d = 0; d < y->ndim - 2; d++)
    strides[d] = d < missing || t->shape[d - missing] == 1 ? 0 : t->strides[d - missing];
}

void ocl_batch_of(const tn_kernel_args *args, ocl_walk *walk) {
  int64_t strides[3][TN_MAX_RANK];
  DLTensor views[3];
  const DLTensor *y = args->out[0], *sources[] = {y, args->in[0], args->in[1]}, *pointers[3];
  for (int i = 0; i < 3; i++) {
    batch_strides(sources[i], y, strides[i]);
    views[i] = (DLTensor){.ndim = y->ndim - 2, .shape = y->shape, .strides = strides[i]};
    pointers[i] = &views[i];
  }
  ocl_walk_of(walk, 3, pointers);
}

/* Which kernel, in groups of which size, for blocks of which size. */
typedef struct product_plan {
  ocl_key key;
  int rows, columns;
  size_t side; /* work-items of a group along both axes */
} product_plan;

/* Tiles in local memory, larger ones where there is work for them. */
static product_plan tiled(const ocl_product *p) {
  const int tile = p->m > 32 && p->n > 32 ? 64 : 16;
  return (product_plan){
      {.source = &ocl_source_matmul, .function = "product", .constants = {tile}}, tile, tile, 16};
}

/* Blocks of vectors, which lie along k where both operands are dense there. */
static product_plan vectors(const ocl_product *p) {
  const bool along_k = p->a.column == 1 && p->b.row == 1 && p->b.column != 1;
  return (product_plan){{.source = &ocl_source_matmul_cpu,
                         .function = "product_cpu",
                         .constants = {16, 0, 0, along_k}},
                        along_k ? 4 : 8,
                        along_k ? 4 : 16,
                        1};
}

tn_status ocl_run_matmul(const tn_kernel_args *args) {
  ocl_product p;
  ocl_walk batch;
  ocl_launch launch;
  ocl_product_of(args, &p);
  ocl_batch_of(args, &batch);
  if (batch.count == 0 || p.m == 0 || p.n == 0) return TN_OK;
  product_plan plan = ocl_device_of(args)->cpu ? vectors(&p) : tiled(&p);
  plan.key.types[0] = (uint8_t)ocl_dtype(args->out[0]);
  plan.key.constants[1] = args->in[2] != NULL;
  plan.key.constants[2] = (int)((const tn_matmul_attrs *)args->attrs)->activation;
  tn_status status = ocl_begin(&launch, args, &plan.key);
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, args->in[1]);
  ocl_arg_tensor(&launch, args->in[2]);
  ocl_arg(&launch, &p, sizeof p);
  ocl_arg(&launch, &batch, sizeof batch);
  const size_t local[] = {plan.side, plan.side, 1};
  const size_t groups[] = {(size_t)((p.n + plan.columns - 1) / plan.columns),
                           (size_t)((p.m + plan.rows - 1) / plan.rows), (size_t)batch.count};
  return ocl_run_grid(&launch, 3, groups, local);
}

/* The kernel's groups are of 256, and gelu is computed in double. */
bool ocl_matmul_supports(const tn_kernel_args *args) {
  const int64_t activation = ((const tn_matmul_attrs *)args->attrs)->activation;
  if (!ocl_device_of(args)->cpu && ocl_device_of(args)->max_group < 256) return false;
  return activation >= TN_ACTIVATION_GELU ? ocl_has_double(args) : ocl_takes_types(args);
}
