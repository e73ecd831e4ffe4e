/*
 * The layer `trace`: a slice for each operator call and for the kernel that it became, in a
 * file that chrome://tracing and Perfetto read, and a table at the end. docs/layers.md says
 * what it writes and when.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvtx.h"
#include "place.h"
#include "trace.h"

/* --- opening and closing --- */

static tn_status read_summary(trace *t) {
  const char *given = secure_getenv("TENON_TRACE_SUMMARY");
  if (!given) return TN_OK;
  if (strlen(given) >= sizeof t->summary)
    return t->host->fail(TN_ERR_INVALID_ARGUMENT, "TENON_TRACE_SUMMARY: the path is too long");
  strcpy(t->summary, given);
  return TN_OK;
}

static tn_status trace_open(const tn_host *host, void **layer) {
  trace *t = host->alloc(host, sizeof *t, 64);
  if (!t) return host->fail(TN_ERR_OUT_OF_MEMORY, "layer trace: no host memory");
  memset(t, 0, sizeof *t);
  t->host = host;
  t->pid = getpid();
  t->opened_ns = now_ns();
  tn_status status = read_summary(t);
  if (!status) status = writer_open(&t->writer, host);
  if (status) {
    host->free(host, t);
    return status;
  }
  t->number = place_count();
  t->next_id = (uint64_t)t->pid << 40 | (uint64_t)(t->number & 0xff) << 32;
  ranges_begin();
  pthread_mutex_init(&t->lock, NULL);
  pthread_mutex_init(&t->memory_lock, NULL);
  slice_process(t, (uint32_t)t->pid, program_invocation_short_name, 0);
  *layer = t;
  return TN_OK;
}

/* A child after fork() shares the file and must leave it alone. */
static bool is_child(const trace *t) { return getpid() != t->pid; }

static void finish(trace *t) {
  if (is_child(t) || atomic_exchange(&t->finished, true)) return;
  for (size_t i = 0; i < TRACE_BUCKETS; ++i)
    for (lane *l = atomic_load(&t->lanes[i]); l; l = l->next)
      if (!l->thread) timing_finish(t, l);
  for (device *d = atomic_load(&t->devices); d; d = d->next) timing_close(t, d);
  writer_finish(&t->writer);
  summary_print(t);
}

static void trace_close(void *layer) {
  trace *t = layer;
  const tn_host *host = t->host;
  finish(t);
  memory_free(t);
  tables_free(t);
  writer_free(&t->writer);
  pthread_mutex_destroy(&t->lock);
  pthread_mutex_destroy(&t->memory_lock);
  host->free(host, t);
}

/* --- calls --- */

/* Elements that a broadcast repeats are read once. */
static uint64_t bytes_of(const DLTensor *tensor) {
  uint64_t elements = 1;
  if (!tensor) return 0;
  for (int32_t i = 0; i < tensor->ndim; ++i)
    if (tensor->strides[i] || !tensor->shape[i]) elements *= (uint64_t)tensor->shape[i];
  return elements * ((tensor->dtype.bits * tensor->dtype.lanes + 7u) / 8);
}

/* Tensors that are updated in place are both read and written; they stand first in out. */
static uint64_t bytes_moved(const row *r, const tn_kernel_args *args) {
  uint64_t bytes = 0;
  uint32_t updated = args->num_out > r->results ? args->num_out - r->results : 0;
  for (uint32_t i = 0; i < args->num_in; ++i) bytes += bytes_of(args->in[i]);
  for (uint32_t i = 0; i < args->num_out; ++i)
    bytes += bytes_of(args->out[i]) * (i < updated ? 2 : 1);
  return bytes;
}

static void count(row *r, const span *s, tn_status status) {
  atomic_fetch_add_explicit(&r->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&r->host_ns, s->end_ns - s->begin_ns, memory_order_relaxed);
  if (status)
    atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);
  else
    atomic_fetch_add_explicit(&r->bytes, s->bytes, memory_order_relaxed);
}

/* What is known of the device's share: all where it computes in the caller. */
static void time_kernel(trace *t, row *r, lane *l, struct sample *sample, const span *s,
                        tn_status status) {
  if (sample && status)
    timing_abandon(t, l, sample);
  else if (sample)
    timing_end(t, l, sample, r, s);
  else if (l->thread && !status)
    row_timed(r, s->end_ns - s->begin_ns);
}

static tn_status trace_call(void *layer, const tn_layer_call *call,
                            tn_status (*next)(const tn_layer_call *, void *), void *ctx) {
  trace *t = layer;
  span s = {.thread = thread_of(t)};
  row *r = row_of(t, call);
  lane *l = r ? lane_of(t, call, r->device, s.thread) : NULL;
  if (!l) {
    atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
    return next(call, ctx);
  }
  struct sample *sample = l->thread ? NULL : timing_begin(t, l);
  s.bytes = bytes_moved(r, call->args);
  if (sample) s.id = atomic_fetch_add_explicit(&t->next_id, 1, memory_order_relaxed) + 1;
  range_push(r->range);
  s.begin_ns = now_ns();
  tn_status status = next(call, ctx);
  s.end_ns = now_ns();
  range_pop();
  time_kernel(t, r, l, sample, &s, status);
  slice_call(t, r, l, call, &s, status);
  count(r, &s, status);
  return status;
}

/* --- notices --- */

static bool took_time(const tn_layer_event *event) {
  return TN_HAS_FIELD(event, tn_layer_event, began_ns) && event->began_ns;
}

static void copied(trace *t, const tn_layer_event *event, const char *what) {
  device *d = device_of(t, event->device_type, event->device_index);
  if (d && took_time(event)) slice_notice(t, d, event, "copy", what);
}

/* A wait for a device that computes in the caller is none. */
static void waited(trace *t, const tn_layer_event *event, const char *what) {
  if (!event->backend || event->backend->flags & TN_BACKEND_SYNCHRONOUS) return;
  device *d = device_of(t, event->device_type, event->device_index);
  if (!d) return;
  if (took_time(event)) slice_notice(t, d, event, "wait", what);
  lane *l = event->stream ? lane_find(t, event->stream, d) : NULL;
  if (l) timing_waited(t, l);
}

static void trace_notify(void *layer, const tn_layer_event *event) {
  trace *t = layer;
  if (atomic_load_explicit(&t->finished, memory_order_relaxed) || is_child(t)) return;
  switch (event->kind) {
  case TN_LAYER_TENSOR_MADE:
    if (event->stream) memory_made(t, event); /* views share, imports are others' memory */
    break;
  case TN_LAYER_MEMORY_RELEASED:
    memory_released(t, event);
    break;
  case TN_LAYER_TENSOR_WRITTEN:
    copied(t, event, "copy to ");
    break;
  case TN_LAYER_TENSOR_READ:
    copied(t, event, "copy from ");
    break;
  case TN_LAYER_STREAM_WAITED:
    waited(t, event, "wait for a stream of ");
    break;
  case TN_LAYER_EVENT_PASSED:
    waited(t, event, "wait for an event of ");
    break;
  case TN_LAYER_RUNTIME_CLOSING:
    finish(t);
    break;
  default:
    break;
  }
}

/* --- the plugin --- */

static const tn_layer layers[] = {{
    .struct_size = sizeof(tn_layer),
    .name = "trace",
    .open = trace_open,
    .close = trace_close,
    .call = trace_call,
    .notify = trace_notify,
    .description = "writes a trace of every call for Chrome and Perfetto, and a table of times",
}};

static const tn_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "trace",
    .version = TN_VERSION_STRING,
    .description = "the layer trace: calls and device times as a timeline",
    .num_layers = 1,
    .layers = layers,
};

TN_PLUGIN_BRINGS("layer:trace");

TN_PLUGIN_DEFINE("trace") {
  (void)host;
  return &plugin;
}
