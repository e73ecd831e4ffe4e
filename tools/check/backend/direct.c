/* The host of direct.h: what a plugin needs of one, and nothing that could hide a fault. */
#include "direct.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tenon/tenon.h"

uint64_t direct_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void direct_sleep_us(uint64_t us) {
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&t, NULL);
}

uint64_t direct_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* ------------------------------------------------------------- the services --- */

static _Thread_local char message[512];

const char *direct_error(void) { return message; }

static tn_status service_fail(tn_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static tn_status service_fail(tn_status code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return code;
}

static void service_log(const tn_host *host, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void service_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level, (void)format;
}

static void *service_alloc(const tn_host *host, size_t bytes, size_t align) {
  void *ptr = NULL;
  (void)host;
  if (align < sizeof(void *)) align = sizeof(void *);
  return posix_memalign(&ptr, align, bytes ? bytes : 1) ? NULL : ptr;
}

static void service_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

/* The caller's thread is the whole pool, as num_threads says. */
static tn_status service_parallel_for(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                                      void *ctx) {
  (void)host, (void)grain;
  return n > 0 ? fn(ctx, 0, n) : TN_OK;
}

static void *service_plugin_context(const tn_host *host, const tn_kernel *kernel) {
  (void)kernel;
  return ((const direct *)host->impl)->context;
}

static tn_host services(direct *d) {
  return (tn_host){
      .struct_size = sizeof(tn_host),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .num_threads = 1,
      .version = "tenon check",
      .impl = d,
      .fail = service_fail,
      .log = service_log,
      .alloc = service_alloc,
      .free = service_free,
      .parallel_for = service_parallel_for,
      .plugin_context = service_plugin_context,
  };
}

/* -------------------------------------------------------------- what happens --- */

/* Threads come and go; a lane is of one thread as long as no more than DIRECT_LANES are alive. */
static direct_lane *lane_of(direct *d) {
  static _Thread_local direct_lane *mine;
  static _Thread_local const direct_watch *its;
  if (its != d->watch) {
    its = d->watch;
    uint32_t number = atomic_fetch_add(&d->watch->threads, 1);
    mine = &d->watch->lane[number ? 1 + (number - 1) % (DIRECT_LANES - 1) : 0];
    mine->where[0] = 0;
  }
  return mine;
}

static void enter(direct *d, const char *slot, bool opens) {
  direct_lane *lane = lane_of(d);
  snprintf(lane->slot, sizeof lane->slot, "%s", slot);
  message[0] = 0;
  atomic_store(&d->watch->last, (uint32_t)(lane - d->watch->lane));
  atomic_store(&lane->opens, opens);
  atomic_store(&lane->began_ns, direct_now());
}

void direct_enter(direct *d, const char *slot) { enter(d, slot, false); }

void direct_enter_opening(direct *d, const char *slot) { enter(d, slot, true); }

tn_status direct_leave(direct *d, tn_status status) {
  atomic_store(&lane_of(d)->began_ns, 0);
  atomic_fetch_add(&d->watch->calls, 1);
  return status;
}

void direct_where(direct *d, const char *format, ...) {
  direct_lane *lane = lane_of(d);
  va_list list;
  va_start(list, format);
  vsnprintf(lane->where, sizeof lane->where, format, list);
  va_end(list);
}

void direct_fail(direct *d, const char *format, ...) {
  uint32_t at = atomic_fetch_add(&d->watch->failures, 1);
  if (at >= DIRECT_FAILURES) return;
  const direct_lane *lane = lane_of(d);
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(d->watch->failure[at], sizeof d->watch->failure[at], "%s%s%s%s", text,
           *lane->where ? " (" : "", lane->where, *lane->where ? ")" : "");
}

void direct_note(direct *d, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(d->watch->note, sizeof d->watch->note, format, list);
  va_end(list);
}

bool direct_ok(direct *d, const char *slot, tn_status status) {
  if (status == TN_OK) return true;
  direct_fail(d, "%s failed: %s%s%s", slot, tn_status_name(status), *message ? ": " : "", message);
  return false;
}

bool direct_is_sound(const direct *d) { return atomic_load(&d->watch->failures) == 0; }

/* ---------------------------------------------------------- opening, closing --- */

/* As the dispatcher loads: a plugin is never unmapped, and sees no other's symbols. */
static tn_status load(const char *path, const tn_host *host, const tn_plugin **plugin) {
  tn_plugin_query_fn query = NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return service_fail(TN_ERR_PLUGIN_REFUSED, "%s", dlerror());
  void *symbol = dlsym(library, TN_PLUGIN_QUERY);
  if (!symbol) return service_fail(TN_ERR_PLUGIN_REFUSED, "exports no " TN_PLUGIN_QUERY);
  memcpy(&query, &symbol, sizeof query);
  *plugin = query(host);
  return *plugin ? TN_OK : TN_ERR_PLUGIN_REFUSED;
}

/* A plugin's struct may be shorter than this header's: what it lacks is NULL. */
static tn_status find_backend(direct *d, const char *type) {
  for (uint32_t i = 0; i < d->plugin->num_backends; i++) {
    const tn_backend *b = d->plugin->backends[i];
    if (strcmp(b->device_type, type)) continue;
    memset(&d->slots, 0, sizeof d->slots);
    memcpy(&d->slots, b, b->struct_size < sizeof d->slots ? b->struct_size : sizeof d->slots);
    return TN_OK;
  }
  return service_fail(TN_ERR_NOT_FOUND, "has no backend for %s", type);
}

static tn_status open_context(direct *d) {
  if (!TN_HAS_FIELD(d->plugin, tn_plugin, open) || !d->plugin->open) return TN_OK;
  direct_enter_opening(d, "open of the plugin");
  return direct_leave(d, d->plugin->open(&d->host, &d->context));
}

static void close_context(direct *d) {
  if (!TN_HAS_FIELD(d->plugin, tn_plugin, close) || !d->plugin->close) return;
  direct_enter(d, "close of the plugin");
  d->plugin->close(d->context);
  direct_leave(d, TN_OK);
}

static tn_status count_devices(direct *d) {
  uint32_t count = 0;
  direct_enter_opening(d, "count");
  tn_status status = direct_leave(d, d->slots.count(&d->host, d->context, &count));
  if (status || d->index < count) return status;
  return service_fail(TN_ERR_NOT_FOUND, "count says %u%s%s", count, *message ? ": " : "", message);
}

static tn_status open_device(direct *d) {
  tn_status status = count_devices(d);
  if (status) return status;
  d->props = (tn_device_props){.struct_size = sizeof d->props};
  direct_enter(d, "describe");
  status = direct_leave(d, d->slots.describe(&d->host, d->context, d->index, &d->props));
  if (status) return status;
  direct_enter_opening(d, "open");
  status = direct_leave(d, d->slots.open(&d->host, d->context, d->index, &d->device));
  if (!status && !d->device) status = service_fail(TN_ERR_BACKEND, "open gave NULL");
  return status;
}

tn_status direct_open(const direct_choice *choice, direct_watch *watch, direct *d) {
  *d = (direct){.index = choice->index, .seed = choice->seed, .watch = watch};
  d->limit_ns = choice->limit_ns;
  d->path = choice->path;
  d->type = choice->type;
  d->host = services(d);
  snprintf(d->id, sizeof d->id, "%s:%u", choice->type, choice->index);
  message[0] = 0;
  tn_status status = load(choice->path, &d->host, &d->plugin);
  if (!status) status = find_backend(d, choice->type);
  if (!status) status = open_context(d);
  if (status) return status;
  status = open_device(d);
  if (status) close_context(d);
  return status;
}

tn_status direct_open_again(const direct *d, direct *other) {
  direct_choice choice = {d->path, d->type, d->index, d->seed, d->limit_ns};
  return direct_open(&choice, d->watch, other);
}

void direct_close(direct *d) {
  direct_where(d, "all given back");
  direct_enter(d, "close");
  d->slots.close(d->device);
  direct_leave(d, TN_OK);
  close_context(d);
}

/* ---------------------------------------------------------------- the slots --- */

/* A slot that gives a handle: NULL is none, whatever the status. */
static tn_status made(direct *d, tn_status status, const char *slot, void *const *handle) {
  direct_leave(d, status);
  if (status || *handle) return status;
  return service_fail(TN_ERR_BACKEND, "%s returned TN_OK and NULL", slot);
}

tn_status direct_alloc(direct *d, uint32_t kind, size_t bytes, void **ptr) {
  *ptr = NULL;
  direct_enter(d, "alloc");
  return made(d, d->slots.alloc(d->device, kind, bytes, ptr), "alloc", ptr);
}

void direct_free(direct *d, uint32_t kind, void *ptr) {
  direct_enter(d, "free");
  d->slots.free(d->device, kind, ptr);
  direct_leave(d, TN_OK);
}

tn_status direct_memory_info(direct *d, uint64_t *free_bytes, uint64_t *total_bytes) {
  direct_enter(d, "memory_info");
  return direct_leave(d, d->slots.memory_info(d->device, free_bytes, total_bytes));
}

tn_status direct_copy(direct *d, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  direct_enter(d, "copy");
  return direct_leave(
      d, d->slots.copy(d->device, queue, direction, dst, dst_offset, src, src_offset, bytes));
}

tn_status direct_queue_create(direct *d, void **queue) {
  *queue = NULL;
  direct_enter(d, "queue_create");
  return made(d, d->slots.queue_create(d->device, queue), "queue_create", queue);
}

void direct_queue_destroy(direct *d, void *queue) {
  direct_enter(d, "queue_destroy");
  d->slots.queue_destroy(d->device, queue);
  direct_leave(d, TN_OK);
}

tn_status direct_queue_wait(direct *d, void *queue) {
  direct_enter(d, "queue_wait");
  return direct_leave(d, d->slots.queue_wait(d->device, queue));
}

void *direct_queue_native(direct *d, void *queue) {
  direct_enter(d, "queue_native");
  void *native = d->slots.queue_native(d->device, queue);
  direct_leave(d, TN_OK);
  return native;
}

tn_status direct_queue_wrap(direct *d, void *native, void **queue) {
  *queue = NULL;
  direct_enter(d, "queue_wrap");
  return made(d, d->slots.queue_wrap(d->device, native, queue), "queue_wrap", queue);
}

tn_status direct_event_create(direct *d, void **event) {
  *event = NULL;
  direct_enter(d, "event_create");
  return made(d, d->slots.event_create(d->device, event), "event_create", event);
}

void direct_event_destroy(direct *d, void *event) {
  direct_enter(d, "event_destroy");
  d->slots.event_destroy(d->device, event);
  direct_leave(d, TN_OK);
}

tn_status direct_event_record(direct *d, void *event, void *queue) {
  direct_enter(d, "event_record");
  return direct_leave(d, d->slots.event_record(d->device, event, queue));
}

tn_status direct_event_query(direct *d, void *event) {
  direct_enter(d, "event_query");
  return direct_leave(d, d->slots.event_query(d->device, event));
}

tn_status direct_event_wait(direct *d, void *event) {
  direct_enter(d, "event_wait");
  return direct_leave(d, d->slots.event_wait(d->device, event));
}

tn_status direct_queue_wait_event(direct *d, void *queue, void *event) {
  direct_enter(d, "queue_wait_event");
  return direct_leave(d, d->slots.queue_wait_event(d->device, queue, event));
}

tn_status direct_event_elapsed(direct *d, void *begin, void *end, uint64_t *ns) {
  direct_enter(d, "event_elapsed");
  return direct_leave(d, d->slots.event_elapsed(d->device, begin, end, ns));
}

tn_status direct_capture_begin(direct *d, void *queue) {
  direct_enter(d, "capture_begin");
  return direct_leave(d, d->slots.capture_begin(d->device, queue));
}

tn_status direct_capture_end(direct *d, void *queue, void **graph) {
  *graph = NULL;
  direct_enter(d, "capture_end");
  return made(d, d->slots.capture_end(d->device, queue, graph), "capture_end", graph);
}

tn_status direct_graph_launch(direct *d, void *graph, void *queue) {
  direct_enter(d, "graph_launch");
  return direct_leave(d, d->slots.graph_launch(d->device, graph, queue));
}

void direct_graph_destroy(direct *d, void *graph) {
  direct_enter(d, "graph_destroy");
  d->slots.graph_destroy(d->device, graph);
  direct_leave(d, TN_OK);
}
