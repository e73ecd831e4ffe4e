/*
 * A layer: it stands between the dispatcher and the kernels and sees every operator call of a
 * program that names it in TENON_LAYERS. This one counts calls, and those that failed, and logs
 * both at the end.
 */
#include <stdatomic.h>
#include <tenon/plugin.h>

/* The state of one runtime's layer; no statics, since two runtimes may have it on. Several threads
 * call at once: hence the atomics. */
typedef struct tally {
  const tn_host *host;
  _Atomic uint64_t calls, failed;
} tally;

static tn_status open_layer(const tn_host *host, void **layer) {
  tally *t = host->alloc(host, sizeof *t, _Alignof(tally));
  if (!t) return host->fail(TN_ERR_OUT_OF_MEMORY, "layer template: no host memory");
  t->host = host;
  atomic_init(&t->calls, 0);
  atomic_init(&t->failed, 0);
  *layer = t;
  return TN_OK;
}

/* With the last tensor, which may be long after the program closed its runtime. */
static void close_layer(void *layer) {
  tally *t = layer;
  t->host->log(t->host, TN_LOG_INFO, "template: %llu calls, %llu failed",
               (unsigned long long)atomic_load(&t->calls),
               (unsigned long long)atomic_load(&t->failed));
  t->host->free(t->host, t);
}

/* `next` goes on with the layers within, then the kernel; its status is the call's. */
static tn_status call_layer(void *layer, const tn_layer_call *call,
                            tn_status (*next)(const tn_layer_call *, void *), void *next_ctx) {
  tally *t = layer;
  tn_status status = next(call, next_ctx);
  atomic_fetch_add(&t->calls, 1);
  if (status) atomic_fetch_add(&t->failed, 1);
  return status;
}

/* `notify` may be added: tensors, copies, streams, events. */
static const tn_layer layers[] = {{
    .struct_size = sizeof(tn_layer),
    .name = "template",
    .open = open_layer,
    .close = close_layer,
    .call = call_layer,
    .description = "counts calls",
}};

TN_PLUGIN_BRINGS("layer:template");

TN_PLUGIN_DEFINE("template") {
  static const tn_plugin plugin = {
      .struct_size = sizeof(tn_plugin),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .name = "template",
      .version = "0.1.0",
      .description = "the layer template",
      .layers = layers,
      .num_layers = sizeof layers / sizeof *layers,
  };
  (void)host;
  return &plugin;
}
