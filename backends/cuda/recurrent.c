/*
 * Recurrent networks whose products are cuBLASLt's: that of the input with w over all steps at
 * once, and a step's with u, between which our own kernels do the gates. A call looks its plans up
 * once and holds the queue's lock until all its steps are in the stream.
 */
#include <string.h>

#include "backends/cuda/product.h"

/* What a call multiplies by. */
typedef struct planned {
  cuda_recurrent_multiplier by; /* first: what kernels see */
  const cuda_queue *queue;
  int count;
  cuda_recurrent_product list[cuda_recurrent_most_products];
  product_plan *plan[cuda_recurrent_most_products];
  size_t own_bytes, product_bytes; /* of the workspace: our kernels', then what products take */
  void *workspace;                 /* of the products */
} planned;

static const cuda_recurrent_row *row_of(const tn_kernel_args *args) { return args->kernel->user; }

static operand operand_of(const cuda_recurrent_matrix *m, const cuda_recurrent_product *p) {
  return (operand){.ld = m->ld, .step = p->directions == 1 ? 0 : m->step, .align = m->alignment};
}

/* Products of float32 are as exact as the host wants them where tensors have that type; states of
 * 16-bit tensors are multiplied without rounding. */
static void describe(product *key, const cuda_recurrent_product *p, const tn_kernel_args *args) {
  memset(key, 0, sizeof *key);
  key->dtype = p->operands;
  key->y_dtype = p->result == p->operands ? 0 : p->result;
  key->math = cuda_dtype(args->out[0]) == TN_F32 ? (int32_t)args->host->math : 0;
  key->m = p->m;
  key->n = p->n;
  key->k = p->k;
  key->batch = p->directions;
  key->y = operand_of(&p->y, p);
  key->a = operand_of(&p->a, p);
  key->b = operand_of(&p->b, p);
  key->b.trans = p->turned;
}

/* The queue's lock is held. The table of plans is emptied when it is full, so what one round found
 * may be gone when it ends; the second finds, or makes, all of them in a table with room. */
static tn_status find_plans(planned *c, const tn_kernel_args *args) {
  c->product_bytes = 0;
  for (int i = 0; i < 2 * c->count; i++) {
    product key;
    product_plan **plan = &c->plan[i % c->count];
    describe(&key, &c->list[i % c->count], args);
    tn_status status = cuda_product_plan(args->queue, &key, NULL, plan);
    if (status != TN_OK) return status;
    if ((*plan)->workspace_bytes > c->product_bytes) c->product_bytes = (*plan)->workspace_bytes;
  }
  return TN_OK;
}

static tn_status multiply(const cuda_recurrent_multiplier *by, int number, void *y, const void *a,
                          const void *b) {
  const planned *c = (const planned *)by;
  return cuda_product_run(c->queue, c->plan[number], c->list[number].adds, y, a, b, c->workspace);
}

static planned planned_of(const tn_kernel_args *args) {
  planned c = {.by = {multiply}, .queue = args->queue};
  c.count = row_of(args)->list(args, c.list, &c.own_bytes);
  return c;
}

tn_status cuda_recurrent_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  planned c = planned_of(args);
  pthread_mutex_lock(&queue->lock);
  status = find_plans(&c, args);
  pthread_mutex_unlock(&queue->lock);
  *bytes = c.own_bytes + (status == TN_OK ? c.product_bytes : 0);
  return status == TN_ERR_UNSUPPORTED ? TN_OK : status;
}

static tn_status run_planned(const tn_kernel_args *args, planned *c) {
  tn_status status = find_plans(c, args);
  if (status != TN_OK) return status;
  if (args->workspace_bytes < c->own_bytes + c->product_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "%s: %zu bytes of workspace, needs %zu",
                            args->kernel->name, args->workspace_bytes,
                            c->own_bytes + c->product_bytes);
  }
  c->workspace = (unsigned char *)args->workspace + c->own_bytes;
  return row_of(args)->run(args, &c->by);
}

tn_status cuda_run_recurrent_planned(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  planned c = planned_of(args);
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &c);
  pthread_mutex_unlock(&queue->lock);
  return status == TN_ERR_UNSUPPORTED ? row_of(args)->own(args) : status;
}
