/*
 * Workspaces in a device's memory: taken from its backend with guards on either side, which are
 * written before the call and read back after it, in the order of its queue. What was taken is
 * kept for the next calls until the layer closes.
 */
#include <string.h>

#include "guard.h"

enum { MARGIN = 4096, PIECE = 1 << 16 }; /* bytes: of a guard, and filled at once */

struct device_block {
  device_block *next;
  const tn_backend *backend;
  void *device, *memory;
  size_t bytes; /* both guards included */
  bool used;
};

static device_block *find_block(guard *g, const void *device, size_t bytes) {
  device_block *found = NULL;
  pthread_mutex_lock(&g->mutex);
  for (device_block *b = g->blocks; b; b = b->next)
    if (!b->used && b->device == device && b->bytes >= bytes && (!found || b->bytes < found->bytes))
      found = b;
  if (found) found->used = true;
  pthread_mutex_unlock(&g->mutex);
  return found;
}

/* Unused ones of a device that are too small give way to a larger one. */
static void drop_smaller(guard *g, const void *device, size_t bytes) {
  pthread_mutex_lock(&g->mutex);
  for (device_block **at = &g->blocks, *b; (b = *at) != NULL;) {
    if (b->used || b->device != device || b->bytes >= bytes) {
      at = &b->next;
      continue;
    }
    *at = b->next;
    b->backend->free(b->device, TN_MEMORY_DEVICE, b->memory);
    g->host->free(g->host, b);
  }
  pthread_mutex_unlock(&g->mutex);
}

static device_block *take_block(guard *g, const tn_layer_call *call, size_t bytes) {
  void *device = call->args->device;
  device_block *b = find_block(g, device, bytes);
  if (b) return b;
  drop_smaller(g, device, bytes);
  b = g->host->alloc(g->host, sizeof *b, _Alignof(device_block));
  if (!b) return NULL;
  *b = (device_block){.backend = call->backend, .device = device, .bytes = bytes, .used = true};
  if (b->backend->alloc(device, TN_MEMORY_DEVICE, bytes, &b->memory) || !b->memory) {
    g->host->free(g->host, b);
    return NULL;
  }
  pthread_mutex_lock(&g->mutex);
  b->next = g->blocks;
  g->blocks = b;
  pthread_mutex_unlock(&g->mutex);
  return b;
}

static void give_block(guard *g, device_block *b) {
  pthread_mutex_lock(&g->mutex);
  b->used = false;
  pthread_mutex_unlock(&g->mutex);
}

void device_blocks_free(guard *g) {
  for (device_block *b = g->blocks, *next; b; b = next) {
    next = b->next;
    b->backend->free(b->device, TN_MEMORY_DEVICE, b->memory);
    g->host->free(g->host, b);
  }
}

static tn_status fill(const tn_layer_call *call, const device_block *b, uint64_t at, size_t bytes,
                      int with) {
  unsigned char piece[PIECE];
  tn_status status = TN_OK;
  memset(piece, with, bytes < sizeof piece ? bytes : sizeof piece);
  for (size_t part; bytes && !status; bytes -= part, at += part) {
    part = bytes < sizeof piece ? bytes : sizeof piece;
    status = b->backend->copy(b->device, call->args->queue, TN_COPY_TO_DEVICE, b->memory, at, piece,
                              0, part);
  }
  return status;
}

/* Looks at a guard from the workspace outwards: `step` is the way. */
static tn_status check(const guard *g, const tn_layer_call *call, const device_block *b,
                       uint64_t at, int step) {
  unsigned char margin[MARGIN];
  tn_status status = b->backend->copy(b->device, call->args->queue, TN_COPY_TO_HOST, margin, 0,
                                      b->memory, at, sizeof margin);
  for (int i = step > 0 ? 0 : MARGIN - 1; !status && i >= 0 && i < MARGIN; i += step)
    if (margin[i] != GUARD_BYTE) return guard_broken(g, call, (long long)at + i - MARGIN);
  return status;
}

static tn_status run_between(guard *g, const tn_layer_call *call, const device_block *b,
                             guard_run run, void *ctx) {
  tn_kernel_args args = *call->args;
  const size_t bytes = args.workspace_bytes;
  const bool opaque = b->backend->flags & TN_BACKEND_OPAQUE_MEMORY;
  int poison = guard_poison(atomic_fetch_add(&g->calls, 1));
  args.workspace = opaque ? b->memory : (char *)b->memory + MARGIN;
  args.workspace_offset = opaque ? MARGIN : 0;
  tn_status status = fill(call, b, 0, MARGIN, GUARD_BYTE);
  if (!status) status = fill(call, b, MARGIN, bytes, poison);
  if (!status) status = fill(call, b, MARGIN + bytes, MARGIN, GUARD_BYTE);
  if (!status) status = run(call, &args, ctx);
  tn_status waited = b->backend->queue_wait ? b->backend->queue_wait(b->device, args.queue) : TN_OK;
  if (!status) status = waited;
  if (!status) status = check(g, call, b, MARGIN + bytes, 1);
  if (!status) status = check(g, call, b, 0, -1);
  return status;
}

tn_status device_run(guard *g, const tn_layer_call *call, guard_run run, void *ctx) {
  device_block *b = take_block(g, call, call->args->workspace_bytes + 2 * (size_t)MARGIN);
  if (!b) return run(call, call->args, ctx);
  tn_status status = run_between(g, call, b, run, ctx);
  give_block(g, b);
  return status;
}
