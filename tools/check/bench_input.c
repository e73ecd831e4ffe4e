/*
 * Inputs of the calls that are timed: random numbers, never zeros, on which hardware is faster than
 * on anything else. Large inputs are drawn once for a block, which the device itself then repeats:
 * hundreds of large tensors drawn and sent by the host would take longer than all of the timing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "check.h"

enum { BLOCK = 1 << 20, MOST_THREADS = 16 };

static tn_status from_host(tn_device *device, const op_case *c, uint32_t arg, const void *values,
                           tn_tensor **tensor) {
  const case_arg *a = &c->arg[arg];
  if (!values) return TN_ERR_OUT_OF_MEMORY;
  return tn_tensor_from_host(device, case_dtype(c, arg), a->rank, a->shape, values, tensor);
}

/* --- drawn one by one --- */

typedef struct share {
  const op_case *c;
  uint32_t arg;
  int64_t first, count;
  char *data; /* of the first */
  pthread_t thread;
  bool started;
} share;

static void *draw_share(void *ctx) {
  const share *s = ctx;
  case_fill_part(s->c, s->arg, s->first, s->count, s->data);
  return NULL;
}

/* Indexes depend on their place, so that each is drawn: by all processors. */
static void draw_all(const op_case *c, uint32_t arg, char *values) {
  share shares[MOST_THREADS];
  const int64_t n = case_elements(&c->arg[arg]);
  long threads = n > BLOCK ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
  if (threads < 1) threads = 1;
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  if (threads == 1) {
    case_fill(c, arg, values);
    return;
  }
  for (long i = 0; i < threads; i++) {
    const int64_t first = n / threads * i, last = i == threads - 1 ? n : n / threads * (i + 1);
    char *data = values + (size_t)first * tn_dtype_size(case_dtype(c, arg));
    shares[i] = (share){.c = c, .arg = arg, .first = first, .count = last - first, .data = data};
    shares[i].started = !pthread_create(&shares[i].thread, NULL, draw_share, &shares[i]);
    if (!shares[i].started) draw_share(&shares[i]);
  }
  for (long i = 0; i < threads; i++)
    if (shares[i].started) pthread_join(shares[i].thread, NULL);
}

static tn_status drawn(tn_device *device, const op_case *c, uint32_t arg, tn_tensor **tensor) {
  const size_t size = tn_dtype_size(case_dtype(c, arg));
  char *values = malloc((size_t)case_elements(&c->arg[arg]) * size + 1);
  if (values) draw_all(c, arg, values);
  tn_status status = from_host(device, c, arg, values, tensor);
  free(values);
  return status;
}

/* --- a block over and over --- */

/* Elements [at, at + count) become what [0, count) are. */
static tn_status repeat_part(const tn_tensor *flat, int64_t at, int64_t count) {
  tn_tensor *from = NULL, *to = NULL;
  tn_status status = tn_tensor_slice(flat, 0, 0, count, 1, &from);
  if (status == TN_OK) status = tn_tensor_slice(flat, 0, at, at + count, 1, &to);
  if (status == TN_OK) status = tn_copy(NULL, from, &to);
  tn_tensor_release(from);
  tn_tensor_release(to);
  return status;
}

static tn_status write_block(const tn_tensor *flat, const op_case *c, uint32_t arg) {
  const size_t bytes = (size_t)BLOCK * tn_dtype_size(case_dtype(c, arg));
  const int64_t shape[] = {BLOCK};
  op_case block = *c;
  tn_tensor *first = NULL;
  void *values = malloc(bytes);
  if (!values) return TN_ERR_OUT_OF_MEMORY;
  block.arg[arg].expanded = 0;
  case_shape(&block, arg, 1, shape);
  case_fill(&block, arg, values);
  tn_status status = tn_tensor_slice(flat, 0, 0, BLOCK, 1, &first);
  if (status == TN_OK) status = tn_tensor_write(NULL, first, values, bytes);
  tn_tensor_release(first);
  free(values);
  return status;
}

static tn_status repeated(tn_device *device, const op_case *c, uint32_t arg, tn_tensor **tensor) {
  const case_arg *a = &c->arg[arg];
  const int64_t n = case_elements(a);
  tn_tensor *made = NULL, *flat = NULL;
  tn_status status = tn_tensor_empty(device, case_dtype(c, arg), a->rank, a->shape, &made);
  if (status == TN_OK) status = tn_tensor_reshape(made, 1, &n, &flat);
  if (status == TN_OK) status = write_block(flat, c, arg);
  for (int64_t at = BLOCK; at < n && status == TN_OK; at *= 2)
    status = repeat_part(flat, at, n - at < at ? n - at : at);
  tn_tensor_release(flat);
  if (status == TN_OK)
    *tensor = made;
  else
    tn_tensor_release(made);
  return status;
}

tn_status bench_input(tn_device *device, const op_case *c, uint32_t arg, tn_tensor **tensor) {
  const case_arg *a = &c->arg[arg];
  if (case_elements(a) <= BLOCK || a->index) return drawn(device, c, arg, tensor);
  return repeated(device, c, arg, tensor);
}
