/*
 * The plugin `guard`: a layer that holds kernels to their workspace. Every call gets one of its
 * own, between guards and filled with nonsense; docs/layers.md says what it finds.
 */
#include <string.h>

#include "guard.h"

int guard_poison(unsigned turn) { return turn & 1 ? POISON_GREAT : POISON_NAN; }

/* Two of eight, one odd and one even, at distances that two kernels by turns both meet. */
bool guard_at_begin(unsigned turn) { return turn % 8 == 3 || turn % 8 == 6; }

tn_status guard_broken(const guard *g, const tn_layer_call *call, long long offset) {
  return g->host->fail(TN_ERR_BACKEND, "wrote byte %lld of its %zu bytes of workspace", offset,
                       call->args->workspace_bytes);
}

/* --- what is asked for --- */

static double tensor_bytes(const DLTensor *t) {
  double bytes = t ? t->dtype.bits / 8.0 : 0;
  for (int32_t i = 0; t && i < t->ndim; ++i) bytes *= (double)t->shape[i];
  return bytes;
}

/* More than any algorithm takes: a size that overflowed or was computed wrong. Kernels get it from
 * hosts whose pages cost nothing until they are touched. */
static tn_status check_size(const guard *g, const tn_layer_call *call) {
  const tn_kernel_args *a = call->args;
  double all = 0;
  for (uint16_t i = 0; i < a->num_in; ++i) all += tensor_bytes(a->in[i]);
  for (uint16_t i = 0; i < a->num_out; ++i) all += tensor_bytes(a->out[i]);
  if ((double)a->workspace_bytes <= 64 * all + (double)((uint64_t)1 << 30)) return TN_OK;
  return g->host->fail(TN_ERR_BACKEND, "asks for %zu bytes of workspace, its tensors have %.0f",
                       a->workspace_bytes, all);
}

/* A prepared call asks once and runs often: who asks for more the second time had too little. */
static tn_status check_again(const guard *g, const tn_layer_call *call) {
  tn_kernel_args args = *call->args;
  size_t bytes = 0;
  if (!args.kernel->workspace) return TN_OK;
  args.workspace = NULL;
  args.workspace_bytes = 0;
  args.workspace_offset = 0;
  if (call->backend && call->backend->flags & TN_BACKEND_SYNCHRONOUS) args.queue = NULL;
  tn_status status = args.kernel->workspace(&args, &bytes);
  if (status || bytes <= call->args->workspace_bytes) return status;
  return g->host->fail(TN_ERR_BACKEND,
                       "asks for %zu bytes of workspace, and for %zu when asked again",
                       call->args->workspace_bytes, bytes);
}

/* --- the layer --- */

typedef struct onward {
  const guard *guard;
  tn_status (*next)(const tn_layer_call *call, void *next_ctx);
  void *ctx;
} onward;

static tn_status run(const tn_layer_call *call, const tn_kernel_args *args, void *ctx) {
  const onward *o = ctx;
  tn_layer_call mine = *call;
  tn_kernel_args changed = *args;
  changed.host = &o->guard->looped;
  mine.args = &changed;
  loops_begin();
  tn_status status = o->next(&mine, o->ctx);
  return status ? status : loops_end(o->guard);
}

static tn_status guard_call(void *layer, const tn_layer_call *call,
                            tn_status (*next)(const tn_layer_call *, void *), void *ctx) {
  enum { IN_CALLER = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS };
  guard *g = layer;
  onward o = {g, next, ctx};
  const tn_kernel_args *args = call->args;
  tn_status status = check_size(g, call);
  if (status) return status;
  if (!args->workspace_bytes || !call->backend)
    status = run(call, args, &o);
  else if ((call->backend->flags & IN_CALLER) == IN_CALLER)
    status = trap_run(g, call, run, &o);
  else
    status = device_run(g, call, run, &o);
  return status ? status : check_again(g, call);
}

static tn_status guard_open(const tn_host *host, void **layer) {
  guard *g = host->alloc(host, sizeof *g, 64);
  if (!g) return host->fail(TN_ERR_OUT_OF_MEMORY, "guard: no host memory");
  memset(g, 0, sizeof *g);
  g->host = host;
  pthread_mutex_init(&g->mutex, NULL);
  loops_open(g);
  *layer = g;
  return TN_OK;
}

static void guard_close(void *layer) {
  guard *g = layer;
  device_blocks_free(g);
  pthread_mutex_destroy(&g->mutex);
  g->host->free(g->host, g);
}

static const tn_layer layers[] = {{
    .struct_size = sizeof(tn_layer),
    .name = "guard",
    .open = guard_open,
    .close = guard_close,
    .call = guard_call,
    .description = "holds kernels to their workspace and loops to their floating-point mode",
}};

static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "guard",
    .version = "0.1.0",
    .description = "the layer guard, which holds kernels to their workspace",
    .num_layers = sizeof layers / sizeof *layers,
    .layers = layers,
};

TN_PLUGIN_BRINGS("layer:guard");

TN_PLUGIN_DEFINE("guard") {
  (void)host;
  return &plugin;
}
