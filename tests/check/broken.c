/*
 * A plugin whose faults lie beside its kernels: BROKEN in the environment says which. Its device,
 * type `broken`, is host memory with synchronous work, so that it runs the reference's kernels and
 * has no fault where BROKEN is not set.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/plugin.h"

static bool is(const char *fault) {
  const char *chosen = getenv("BROKEN");
  return chosen && !strcmp(chosen, fault);
}

/* Whether it does what "count crashes" and the like say. */
static bool does(const char *slot, const char *what) {
  char fault[64];
  snprintf(fault, sizeof fault, "%s %s", slot, what);
  return is(fault);
}

static void may_die(const char *slot) {
  if (does(slot, "crashes")) raise(SIGSEGV);
  while (does(slot, "hangs")) pause();
  if (does(slot, "exits")) exit(0);
}

static int the_device, a_context;

static tn_status count(const tn_host *host, void *context, uint32_t *number) {
  (void)context;
  may_die("count");
  *number = !is("count gives a reason") && !is("count gives none");
  if (is("count fails")) return host->fail(TN_ERR_BACKEND, "broken: the driver says no");
  if (is("count gives a reason")) host->fail(TN_OK, "broken: the chip is not plugged in");
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)context, (void)index;
  may_die("describe");
  if (is("describe fails")) return host->fail(TN_ERR_BACKEND, "broken: cannot say what it is");
  out->dl_device_type = 1; /* kDLCPU */
  out->score = is("scored: open fails") || is("scored: open hangs") ? 100000 : 0;
  memcpy(out->name, "Broken", sizeof "Broken");
  return TN_OK;
}

static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context, (void)index;
  may_die("open");
  may_die("scored: open");
  if (is("open fails") || is("scored: open fails"))
    return host->fail(TN_ERR_BACKEND, "broken: no room on the chip");
  *device = is("open gives NULL") ? NULL : &the_device;
  return TN_OK;
}

static void close_device(void *device) {
  (void)device;
  may_die("close");
  if (is("close exits with 3")) _exit(3);
}

static tn_status allocate(void *device, uint32_t kind, size_t bytes, void **ptr) {
  (void)device, (void)kind;
  may_die("alloc");
  *ptr = is("alloc fails") ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  return *ptr ? TN_OK : TN_ERR_DEVICE_OUT_OF_MEMORY;
}

static void give_back(void *device, uint32_t kind, void *ptr) {
  (void)device, (void)kind;
  free(ptr);
}

static tn_status copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  (void)device, (void)queue, (void)direction;
  memmove((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static tn_status open_plugin(const tn_host *host, void **context) {
  may_die("plugin open");
  if (is("plugin open fails")) return host->fail(TN_ERR_BACKEND, "broken: no licence");
  *context = &a_context;
  return TN_OK;
}

static void close_plugin(void *context) {
  (void)context;
  may_die("plugin close");
}

static const tn_backend backend = {.struct_size = sizeof backend,
                                   .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS,
                                   .device_type = "broken",
                                   .count = count,
                                   .describe = describe,
                                   .open = open_device,
                                   .close = close_device,
                                   .alloc = allocate,
                                   .free = give_back,
                                   .copy = copy};
static const tn_backend *const backends[] = {&backend};

static tn_status negate(const tn_kernel_args *args) {
  const float *x = args->in[0]->data;
  float *y = args->out[0]->data;
  int64_t n = 1;
  for (int32_t i = 0; i < args->out[0]->ndim; i++) n *= args->out[0]->shape[i];
  for (int64_t i = 0; i < n; i++) y[i] = -x[i];
  return TN_OK;
}

static tn_status negate_and_exit(const tn_kernel_args *args) {
  may_die("kernel");
  return negate(args);
}

static const tn_kernel own[] = {{.struct_size = sizeof(tn_kernel),
                                 .op = TN_OP_NEG,
                                 .device_type = "broken",
                                 .name = "broken.neg",
                                 .priority = 1000,
                                 .types = {TN_SET(TN_F32)},
                                 .run = negate_and_exit}};
static const tn_kernel lost[] = {{.struct_size = sizeof(tn_kernel),
                                  .op = TN_OP_NEG,
                                  .device_type = "cpuu",
                                  .name = "broken.neg",
                                  .priority = 1000,
                                  .types = {TN_SET(TN_F32)},
                                  .run = negate}};
static const tn_kernel typeless[] = {{.struct_size = sizeof(tn_kernel),
                                      .op = TN_OP_NEG,
                                      .device_type = "cpu",
                                      .name = "broken.neg",
                                      .priority = 1000,
                                      .types = {TN_SET(TN_BOOL)},
                                      .run = negate}};

static tn_status pass(void *layer, const tn_layer_call *call,
                      tn_status (*next)(const tn_layer_call *call, void *next_ctx),
                      void *next_ctx) {
  (void)layer;
  return next(call, next_ctx);
}

static const tn_layer layers[] = {
    {.struct_size = sizeof(tn_layer), .name = "broken", .call = pass}};

#define PLUGIN                                                                                     \
  .struct_size = sizeof(tn_plugin), .abi_min = TN_ABI_VERSION_MIN, .abi_max = TN_ABI_VERSION,      \
  .name = "broken", .version = "1.0", .description = "faults beside kernels"

static const tn_plugin with_device = {PLUGIN, .backends = backends, .num_backends = 1,
                                      .open = open_plugin, .close = close_plugin};
static const tn_plugin with_kernel = {PLUGIN, .backends = backends, .num_backends = 1,
                                      .kernels = own, .num_kernels = 1};
static const tn_plugin with_lost = {PLUGIN, .kernels = lost, .num_kernels = 1};
static const tn_plugin with_typeless = {PLUGIN, .kernels = typeless, .num_kernels = 1};
static const tn_plugin with_layer = {PLUGIN, .layers = layers, .num_layers = 1};
static const tn_plugin with_nothing = {PLUGIN};

TN_PLUGIN_DEFINE("broken") {
  may_die("query");
  if (is("query declines")) return host->fail(TN_ERR_BACKEND, "broken: the wrong year"), NULL;
  if (is("kernel exits")) return &with_kernel;
  if (is("rows of no device")) return &with_lost;
  if (is("rows of no type")) return &with_typeless;
  if (is("layers alone")) return &with_layer;
  if (is("nothing")) return &with_nothing;
  return &with_device;
}
