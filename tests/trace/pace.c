/*
 * A fixture: device type "pace", which computes beside the host by the clock alone. A kernel
 * writes its result at once and keeps its queue busy for 1 microsecond per element, so that a
 * test knows how long each call took. "sqrt" fails; what else it lacks falls back.
 */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tenon/plugin.h"

enum { NS_PER_ELEMENT = 1000 };

typedef struct pace {
  const tn_host *host;
} pace;

/* A queue: when it will be idle. An event: when it passes. */
typedef struct moment {
  _Atomic uint64_t ns;
} moment;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) continue;
}

/* When a queue gets to what is put in now. */
static uint64_t next_free(moment *queue) {
  uint64_t now = now_ns(), free_at = atomic_load(&queue->ns);
  return free_at > now ? free_at : now;
}

static void occupy(moment *queue, uint64_t ns) {
  uint64_t before = atomic_load(&queue->ns), now = now_ns();
  while (!atomic_compare_exchange_weak(&queue->ns, &before, (before > now ? before : now) + ns))
    continue;
}

static tn_status pace_count(const tn_host *host, void *context, uint32_t *count) {
  (void)host, (void)context;
  *count = 1;
  return TN_OK;
}

static tn_status pace_describe(const tn_host *host, void *context, uint32_t index,
                               tn_device_props *out) {
  (void)host, (void)context;
  out->dl_device_type = kDLExtDev;
  out->dl_device_id = (int32_t)index;
  strcpy(out->name, "simulated");
  return TN_OK;
}

static tn_status pace_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context, (void)index;
  pace *p = host->alloc(host, sizeof *p, 16);
  if (!p) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  p->host = host;
  *device = p;
  return TN_OK;
}

static void pace_close(void *device) {
  const tn_host *host = ((pace *)device)->host;
  host->free(host, device);
}

static tn_status pace_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  const tn_host *host = ((pace *)device)->host;
  (void)kind;
  *ptr = host->alloc(host, bytes, 64);
  return *ptr ? TN_OK : host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "pace: no %zu bytes", bytes);
}

static void pace_free(void *device, uint32_t kind, void *ptr) {
  const tn_host *host = ((pace *)device)->host;
  (void)kind;
  host->free(host, ptr);
}

static tn_status pace_copy(void *device, void *queue, uint32_t direction, void *dst,
                           uint64_t dst_offset, const void *src, uint64_t src_offset,
                           size_t bytes) {
  (void)device;
  if (direction != TN_COPY_ON_DEVICE) sleep_until(next_free(queue));
  memcpy((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static tn_status moment_make(void *device, void **made) {
  const tn_host *host = ((pace *)device)->host;
  moment *m = host->alloc(host, sizeof *m, 16);
  if (!m) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  atomic_init(&m->ns, 0);
  *made = m;
  return TN_OK;
}

static void moment_free(void *device, void *made) {
  const tn_host *host = ((pace *)device)->host;
  host->free(host, made);
}

static tn_status pace_queue_wait(void *device, void *queue) {
  (void)device;
  sleep_until(next_free(queue));
  return TN_OK;
}

static void *pace_queue_native(void *device, void *queue) {
  (void)device, (void)queue;
  return NULL;
}

static tn_status pace_event_record(void *device, void *event, void *queue) {
  (void)device;
  atomic_store(&((moment *)event)->ns, next_free(queue));
  return TN_OK;
}

static tn_status pace_event_query(void *device, void *event) {
  (void)device;
  return atomic_load(&((moment *)event)->ns) > now_ns() ? TN_ERR_NOT_READY : TN_OK;
}

static tn_status pace_event_wait(void *device, void *event) {
  (void)device;
  sleep_until(atomic_load(&((moment *)event)->ns));
  return TN_OK;
}

static tn_status pace_wait_event(void *device, void *queue, void *event) {
  (void)device;
  moment *q = queue;
  uint64_t before = atomic_load(&q->ns), until = atomic_load(&((moment *)event)->ns);
  while (before < until && !atomic_compare_exchange_weak(&q->ns, &before, until)) continue;
  return TN_OK;
}

/* Refuses what no device has to answer: events that have not passed, or stand in the wrong
 * order. */
static tn_status pace_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  const tn_host *host = ((pace *)device)->host;
  uint64_t from = atomic_load(&((moment *)begin)->ns), to = atomic_load(&((moment *)end)->ns);
  if (to > now_ns()) return host->fail(TN_ERR_NOT_READY, "pace: the event has not passed");
  if (from > to || !from) return host->fail(TN_ERR_INTERNAL, "pace: the span is negative");
  *ns = to - from;
  return TN_OK;
}

static const tn_backend backend = {
    .struct_size = sizeof(tn_backend),
    .device_type = "pace",
    .count = pace_count,
    .describe = pace_describe,
    .open = pace_open,
    .close = pace_close,
    .alloc = pace_alloc,
    .free = pace_free,
    .copy = pace_copy,
    .queue_create = moment_make,
    .queue_destroy = moment_free,
    .queue_wait = pace_queue_wait,
    .queue_native = pace_queue_native,
    .event_create = moment_make,
    .event_destroy = moment_free,
    .event_record = pace_event_record,
    .event_query = pace_event_query,
    .event_wait = pace_event_wait,
    .queue_wait_event = pace_wait_event,
    .event_elapsed = pace_elapsed,
};

static int64_t count_of(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; ++i) n *= t->shape[i];
  return n;
}

static tn_status pace_add(const tn_kernel_args *args) {
  const float *a = args->in[0]->data, *b = args->in[1]->data;
  float *y = args->out[0]->data;
  int64_t n = count_of(args->out[0]);
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
  occupy(args->queue, (uint64_t)n * NS_PER_ELEMENT);
  return TN_OK;
}

/* The element of a strided tensor that stands at `index` in row-major order. */
static float *element(const DLTensor *t, int64_t index) {
  float *at = t->data;
  for (int32_t d = t->ndim; d-- > 0; index /= t->shape[d])
    at += index % t->shape[d] * t->strides[d];
  return at;
}

static tn_status pace_copy_kernel(const tn_kernel_args *args) {
  int64_t n = count_of(args->out[0]);
  for (int64_t i = 0; i < n; ++i) *element(args->out[0], i) = *element(args->in[0], i);
  occupy(args->queue, (uint64_t)n * NS_PER_ELEMENT);
  return TN_OK;
}

static tn_status pace_sqrt(const tn_kernel_args *args) {
  return args->host->fail(TN_ERR_BACKEND, "the square root of pace always fails");
}

static const tn_kernel kernels[] = {
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_ADD,
     .device_type = "pace",
     .name = "pace.add",
     .priority = 200,
     .types = {TN_SET(TN_F32)},
     .run = pace_add},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_SQRT,
     .device_type = "pace",
     .name = "pace.sqrt",
     .priority = 200,
     .types = {TN_SET(TN_F32)},
     .run = pace_sqrt},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_COPY,
     .device_type = "pace",
     .name = "pace.copy",
     .priority = 200,
     .flags = TN_KERNEL_STRIDED,
     .types = {TN_SET(TN_F32)},
     .run = pace_copy_kernel},
};

static const tn_backend *const backends[] = {&backend};
static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "pace",
    .version = "1",
    .description = "a fixture",
    .backends = backends,
    .num_backends = 1,
    .kernels = kernels,
    .num_kernels = sizeof kernels / sizeof *kernels,
};

TN_PLUGIN_DEFINE("pace") {
  (void)host;
  return &plugin;
}
