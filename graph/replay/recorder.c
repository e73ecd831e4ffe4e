/* Recording an instance's calls into a device graph, on a queue that nobody else knows. */
#include <stdio.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/call/plan.h"
#include "graph/program.h"

/* pre: the device's `recording` is held, here and below. */
static tn_status recorder_open(tn_device *d) {
  if (d->recording_queue) return TN_OK;
  fail_set_reason(false);
  tn_status status = d->type->backend.queue_create(d->handle, &d->recording_queue);
  if (status) d->recording_queue = NULL;
  return device_made(d, "queue_create", status, d->recording_queue);
}

/* Where the calls go in place of their stream. */
static tn_stream elsewhere(tn_device *d) {
  const tn_backend *b = &d->type->backend;
  tn_stream s = {.device = d, .queue = d->recording_queue};
  if (b->queue_native) s.native = b->queue_native(d->handle, s.queue);
  return s;
}

/* Kernels keep things by queue, which they may not be able to make while it records. */
static tn_status settle(const program_run *r, const tn_stream *there) {
  for (uint32_t k = 0; k < r->at->num_calls; ++k) {
    tn_status status = prepared_settle_in(r->at->calls[k], there);
    if (status) return run_failed_at(r, k, status);
  }
  return TN_OK;
}

static tn_status put_calls(const program_run *r, const tn_stream *there) {
  for (uint32_t k = 0; k < r->at->num_calls; ++k) {
    INVARIANT(!prepared_unrecordable(r->at->calls[k])); /* nothing is allocated for it */
    tn_status status = prepared_run_in(r->at->calls[k], there);
    if (status) return run_failed_at(r, k, status);
  }
  return TN_OK;
}

/* Ends what was begun, whatever became of it. The first error is the one that is told, but a lost
 * device is lost. */
static tn_status end(const program_run *r, tn_status status, void **graph) {
  tn_device *d = r->program->device;
  const tn_backend *b = &d->type->backend;
  char first[512];
  void *made = NULL;
  snprintf(first, sizeof first, "%s", status ? tn_last_error() : "");
  fail_set_reason(false);
  tn_status ended = b->capture_end(d->handle, d->recording_queue, &made);
  if (ended) made = NULL;
  ended = device_made(d, "capture_end", ended, made);
  if (!status || ended == TN_ERR_DEVICE_LOST) {
    *graph = made;
    return ended;
  }
  if (made) b->graph_destroy(d->handle, made);
  return fail(status, "%s", first);
}

static tn_status record_calls(const program_run *r, void **graph) {
  tn_device *d = r->program->device;
  tn_status status = recorder_open(d);
  if (status) return status;
  const tn_stream there = elsewhere(d);
  status = settle(r, &there);
  if (status) return status;
  fail_set_reason(false);
  status = d->type->backend.capture_begin(d->handle, there.queue);
  if (status) return device_result(d, "capture_begin", status);
  return end(r, put_calls(r, &there), graph);
}

tn_status recorder_record(const program_run *r, void **graph) {
  tn_device *d = r->program->device;
  *graph = NULL;
  pthread_mutex_lock(&d->recording);
  tn_status status = record_calls(r, graph);
  pthread_mutex_unlock(&d->recording);
  if (!status) atomic_fetch_add_explicit(&r->program->replay.recorded, 1, memory_order_relaxed);
  return status;
}
