/*
 * The services that plugins get (tn_host): thin wrappers round the runtime's memory,
 * log and threads.
 */
#include "dispatcher/runtime/host_services.h"

#include <stdarg.h>
#include <stdio.h>

#include "dispatcher/base/float_mode.h"
#include "dispatcher/base/threads.h"

static void *service_alloc(const tn_host *host, size_t bytes, size_t align) {
  const tn_runtime *runtime = host->impl;
  if (align < sizeof(void *)) align = sizeof(void *);
  return runtime->memory.alloc(runtime->memory.user, bytes ? bytes : 1, align);
}

static void service_free(const tn_host *host, void *ptr) {
  const tn_runtime *runtime = host->impl;
  host_free(&runtime->memory, ptr);
}

static void service_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  runtime_log_args(host->impl, level, format, args);
  va_end(args);
}

/* A loop whose shares may fail: the first failure is kept, with its message. Whose thread ever
 * a share runs in, it computes in the mode of the loop's caller: what the caller computes itself
 * beside the loop, or instead of it where a call is small, has the same bits. */
typedef struct loop {
  tn_range_fn fn;
  void *ctx;
  float_mode mode;
  tn_runtime *holder;      /* whose mutex guards `lines` where the caller's log waits, else NULL */
  struct held_line *lines; /* what shares in other threads had to say */
  _Atomic int status;
  _Atomic bool claimed;
  char message[512];
} loop;

/* A share in another thread while the caller's log waits: its lines must not come earlier. */
static tn_status run_held(loop *l, int64_t begin, int64_t end) {
  log_hold();
  tn_status status = l->fn(l->ctx, begin, end);
  struct held_line *lines = log_detach();
  if (!lines) return status;
  pthread_mutex_lock(&l->holder->mutex);
  l->lines = log_join(l->lines, lines);
  pthread_mutex_unlock(&l->holder->mutex);
  return status;
}

static void run_share(void *ctx, int64_t begin, int64_t end) {
  loop *l = ctx;
  if (atomic_load_explicit(&l->status, memory_order_relaxed)) return;
  const float_mode changed = float_mode_enter(l->mode);
  fail_set_reason(false);
  const bool held = l->holder && !log_is_held();
  tn_status status = held ? run_held(l, begin, end) : l->fn(l->ctx, begin, end);
  float_mode_leave(changed);
  if (!status || atomic_exchange(&l->claimed, true)) return;
  if (fail_has_reason()) snprintf(l->message, sizeof l->message, "%s", tn_last_error());
  atomic_store(&l->status, status);
}

static __attribute__((noinline)) tn_status run_shares(tn_runtime *runtime, int64_t n, int64_t grain,
                                                      tn_range_fn fn, void *ctx) {
  loop l = {.fn = fn, .ctx = ctx, .mode = float_mode_get()};
  if (log_is_held()) l.holder = runtime;
  if (runtime->parallel.run)
    runtime->parallel.run(runtime->parallel.user, n, grain, run_share, &l);
  else
    thread_pool_run(runtime->threads, n, grain, run_share, &l);
  if (l.holder) log_attach(l.lines);
  tn_status status = (tn_status)atomic_load(&l.status);
  fail_set_reason(false); /* of a share that ran in this thread */
  return status && l.message[0] ? fail_by_plugin(status, "%s", l.message) : status;
}

static tn_status service_parallel_for(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                                      void *ctx) {
  if (n <= 0) return TN_OK;
  if (grain < 1) grain = 1;
  if (n <= grain || host->num_threads == 1) return fn(ctx, 0, n);
  return run_shares(host->impl, n, grain, fn, ctx);
}

/* What table cells of a deterministic runtime run: the kernel, in the default mode whatever the
 * host program set in its thread. */
tn_status host_run_deterministic(const tn_kernel_args *args) {
  const float_mode changed = float_mode_enter(FLOAT_MODE_DEFAULT);
  tn_status status = args->kernel->run(args);
  float_mode_leave(changed);
  return status;
}

void host_tell_shortage(void *runtime, uint32_t started, uint32_t wanted, const char *why) {
  runtime_log(runtime, TN_LOG_WARN,
              "%u of %u threads could be started (%s): kernels run on those and the caller's",
              (unsigned)started, (unsigned)wanted, why);
}

static void *service_plugin_context(const tn_host *host, const tn_kernel *kernel) {
  (void)host;
  return ((const kernel_entry *)(const void *)kernel)->plugin->context;
}

void host_init(tn_runtime *runtime) {
  runtime->host = (tn_host){
      .struct_size = sizeof(tn_host),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .math = runtime->config.math,
      .deterministic = runtime->config.deterministic,
      .num_threads =
          runtime->parallel.run ? runtime->parallel.num_threads : runtime->config.num_threads,
      .version = TN_VERSION_STRING,
      .impl = runtime,
      .fail = fail_by_plugin,
      .log = service_log,
      .alloc = service_alloc,
      .free = service_free,
      .parallel_for = service_parallel_for,
      .plugin_context = service_plugin_context,
  };
  if (runtime->host.num_threads == 0) runtime->host.num_threads = 1;
}
