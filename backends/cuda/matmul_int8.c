/*
 * Products of 8-bit integers by cuBLASLt: between the packing and the last step of int8.h, one
 * product of signed bytes summed in 32 bits, both operands with k along their rows. What cuBLASLt
 * has no algorithm for goes to our tiles.
 */
#include <string.h>

#include "backends/cuda/product.h"
#include "kernels/cuda/matmul/int8.h"

static const cuda_int8_row *row_of(const tn_kernel_args *args) { return args->kernel->user; }

bool cuda_matmul_int8_supports(const tn_kernel_args *args) {
  cuda_int8_call call;
  return cuda_int8_describe(&call, (cuda_int8_kind)row_of(args)->kind, args);
}

/* Addresses and leading dimensions are multiples of 16 bytes. */
static operand operand_of(const cuda_int8_operand *o, bool columns) {
  const int64_t step = o->items == 1 ? 0 : o->padded * o->ld;
  return (operand){.ld = o->ld, .step = step, .trans = columns, .align = 16};
}

/* A batch that shares b is more rows of a, which lie one after another. */
static void describe(product *p, const cuda_int8_call *c) {
  memset(p, 0, sizeof *p);
  p->dtype = TN_I8;
  p->m = c->m;
  p->n = c->direct ? c->n : c->ld;
  p->k = c->padded_k;
  p->batch = c->items;
  p->a = operand_of(&c->a, false);
  p->b = operand_of(&c->b, true);
  p->y = (operand){.ld = c->ld, .step = c->m * c->ld, .align = 16};
  if (c->b.items == 1 && c->a.items == c->items) {
    p->m *= c->items;
    p->batch = 1;
  }
}

/* The queue's lock is held. */
static tn_status plan_of(const tn_kernel_args *args, const cuda_int8_call *c, product_plan **plan) {
  product key;
  describe(&key, c);
  return cuda_product_plan(args->queue, &key, NULL, plan);
}

tn_status cuda_matmul_int8_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  cuda_int8_call call;
  product_plan *plan = NULL;
  *bytes = 0;
  if (!cuda_int8_describe(&call, (cuda_int8_kind)row_of(args)->kind, args)) return TN_OK;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = plan_of(args, &call, &plan);
  if (status == TN_OK) *bytes = call.bytes + plan->workspace_bytes;
  pthread_mutex_unlock(&queue->lock);
  return status == TN_ERR_UNSUPPORTED ? TN_OK : status;
}

/* What product.h calls y, a and b. */
static tn_status multiply(const tn_kernel_args *args, const cuda_int8_call *c,
                          const product_plan *plan) {
  unsigned char *w = args->workspace;
  const DLTensor *const *in = args->in;
  const DLTensor *a = in[0], *b = in[row_of(args)->b];
  const void *left = c->a.in_place ? a->data : w + c->a.at;
  const void *right = c->b.in_place ? b->data : w + c->b.at;
  void *sums = c->direct ? args->out[0]->data : w + c->at;
  return cuda_product_run(args->queue, plan, c->direct && cuda_int8_corrects(c), sums, left, right,
                          w + c->bytes);
}

static tn_status run_planned(const tn_kernel_args *args, const cuda_int8_call *c) {
  product_plan *plan = NULL;
  tn_status status = plan_of(args, c, &plan);
  if (status != TN_OK) return status;
  if (args->workspace_bytes < c->bytes + plan->workspace_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "%s: %zu bytes of workspace, needs %zu",
                            args->kernel->name, args->workspace_bytes,
                            c->bytes + plan->workspace_bytes);
  }
  status = cuda_int8_pack(args, c);
  if (status == TN_OK) status = multiply(args, c, plan);
  return status == TN_OK ? cuda_int8_finish(args, c) : status;
}

tn_status cuda_run_matmul_int8(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  cuda_int8_call call;
  if (!cuda_int8_describe(&call, (cuda_int8_kind)row_of(args)->kind, args))
    return row_of(args)->tiles(args);
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &call);
  pthread_mutex_unlock(&queue->lock);
  return status == TN_ERR_UNSUPPORTED ? row_of(args)->tiles(args) : status;
}
