/*
 * The algorithm of a product by measuring what cuBLASLt's heuristic names, on scratch operands of
 * the product's own strides.
 */
#include <string.h>

#include "backends/cuda/product.h"
#include "backends/cuda/tune.h"
#include "kernels/cuda/base/choices.h"

/* What is remembered. */
typedef struct chosen {
  cublasLtMatmulAlgo_t algo;
  uint64_t workspace_bytes;
} chosen;

/* What a candidate runs with. */
typedef struct trial {
  const cuda_queue *queue;
  product_plan *plan;
  const cublasLtMatmulHeuristicResult_t *list;
  unsigned char *a, *b, *y, *workspace;
} trial;

static bool run_trial(void *user) {
  const trial *t = user;
  const product_plan *p = t->plan;
  return cuda_product_run(t->queue, p, p->adds_bias, t->y, t->a, t->b, t->workspace) == TN_OK;
}

/* Bytes from an operand's first element to behind its last, a multiple of 256; 0 where it walks
 * backwards. */
static size_t extent(const product *p, const operand *o, int64_t rows, int64_t columns,
                     size_t element) {
  if (o->step < 0) return 0;
  const int64_t lines = o->trans ? columns : rows, line = o->trans ? rows : columns;
  const int64_t elements = (p->batch - 1) * o->step + (lines - 1) * o->ld + line;
  return ((size_t)elements * element + 255) / 256 * 256;
}

static size_t element_bytes(int32_t dtype) { return tn_dtype_size((tn_dtype)dtype); }

static void take(product_plan *plan, const cublasLtMatmulAlgo_t *algo, size_t workspace_bytes) {
  plan->algo = *algo;
  plan->workspace_bytes = workspace_bytes;
}

static bool run_nth(void *user, int which) {
  trial *t = user;
  take(t->plan, &t->list[which].algo, t->list[which].workspaceSize);
  return run_trial(t);
}

/* Whether what was remembered still runs. */
static bool take_known(cublasLtHandle_t blas, product_plan *plan, const cuda_choice_key *key) {
  chosen known;
  cublasLtMatmulHeuristicResult_t result;
  if (!cuda_choice_find(key, &known, sizeof known)) return false;
  if (cublasLtMatmulAlgoCheck(blas, plan->desc, plan->left, plan->right, plan->out, plan->out,
                              &known.algo, &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > product_workspace_limit)
    return false;
  take(plan, &known.algo, result.workspaceSize);
  return true;
}

static int32_t config_of(const cublasLtMatmulAlgo_t *algo,
                         cublasLtMatmulAlgoConfigAttributes_t what) {
  int32_t value = -1;
  size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(algo, what, &value, sizeof value, &written) !=
      CUBLAS_STATUS_SUCCESS)
    return -1;
  return value;
}

static void log_candidate(const cuda_tuner *tuner, const product_plan *plan) {
  const tn_host *host = tuner->queue->device->host;
  const product *p = &plan->key;
  const cublasLtMatmulAlgo_t *algo = &plan->algo;
  host->log(host, TN_LOG_DEBUG,
            "cuda: product %lld x %lld x %lld: algorithm %d, tile %d, split %d, reduction %d, %zu "
            "bytes: %.4f ms",
            (long long)p->m, (long long)p->n, (long long)p->k,
            (int)config_of(algo, CUBLASLT_ALGO_CONFIG_ID),
            (int)config_of(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
            (int)config_of(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
            (int)config_of(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), plan->workspace_bytes,
            (double)tuner->last_ms);
}

/* Leaves the fastest in the plan; `steady`: that is worth keeping. */
static bool measure(cuda_queue *queue, product_plan *plan,
                    const cublasLtMatmulHeuristicResult_t *list, int count, bool *steady) {
  const product *p = &plan->key;
  const size_t element = element_bytes(p->dtype);
  const size_t result =
      p->dtype == TN_I8 ? sizeof(int32_t) : element_bytes(p->y_dtype ? p->y_dtype : p->dtype);
  const size_t a = extent(p, &p->a, p->m, p->k, element), b = extent(p, &p->b, p->k, p->n, element),
               y = extent(p, &p->y, p->m, p->n, result),
               bias = ((size_t)p->n * element + 255) / 256 * 256;
  size_t workspace = 0;
  cuda_tuner tuner;
  for (int i = 0; i < count; i++)
    if (list[i].workspaceSize > workspace) workspace = list[i].workspaceSize;
  if (!a || !b || !y ||
      !cuda_tuner_open(&tuner, queue, a + b + y + bias + workspace, (tn_dtype)p->dtype))
    return false;
  unsigned char *at = tuner.memory;
  trial t = {queue, plan, list, at, at + a, at + a + b, at + a + b + y + bias};
  bool ready = true;
  if (p->has_bias && !plan->adds_bias)
    ready = cuda_product_set_bias(queue->device->host, plan, at + a + b + y) == TN_OK;
  float ms[CUDA_TUNER_MOST];
  if (count > CUDA_TUNER_MOST) count = CUDA_TUNER_MOST;
  for (int i = 0; i < count; i++) {
    ms[i] = -1;
    if (!ready || list[i].state != CUBLAS_STATUS_SUCCESS) continue;
    take(plan, &list[i].algo, list[i].workspaceSize);
    (void)cuda_tuner_is_best(&tuner, run_trial, &t);
    ms[i] = tuner.last_ms;
    log_candidate(&tuner, plan);
  }
  const int best = cuda_tuner_decide(&tuner, run_nth, &t, ms, count, steady);
  cuda_tuner_close(&tuner);
  const int final = best < 0 ? 0 : best;
  take(plan, &list[final].algo, list[final].workspaceSize);
  return best >= 0;
}

void cuda_product_tune(cuda_queue *queue, product_plan *plan,
                       const cublasLtMatmulHeuristicResult_t *list, int count) {
  const product *p = &plan->key;
  const double operations = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
  if (count < 2 || !cuda_tune_applies(queue->device->host, operations)) return;
  struct {
    product of;
    int32_t adds_bias, fused;
  } what;
  memset(&what, 0, sizeof what);
  what.of = *p;
  what.adds_bias = plan->adds_bias;
  what.fused = plan->fused;
  const cuda_choice_key key = {cuda_choice_environment(queue->device->info.ordinal, "product"),
                               &what, sizeof what};
  bool steady;
  if (take_known(queue->blas, plan, &key) || !measure(queue, plan, list, count, &steady)) return;
  chosen found;
  memset(&found, 0, sizeof found);
  found.algo = plan->algo;
  found.workspace_bytes = plan->workspace_bytes;
  cuda_choice_add(&key, &found, sizeof found, steady);
}
