/*
 * A fixture: device "frail", whose memory the host may not read (it is kept inverted), with
 * products of matrices and nothing else. It fails where FRAIL_FAILS says: "alloc", "upload",
 * "matmul", "download", from the FRAIL_AFTER-th time on, or has no f64 ("doubles"). FRAIL_BYTES is
 * how much memory it says that it has.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/plugin.h"

static const tn_host *the_host;

/* Whether this use of a part is to fail. */
static bool fails(const char *part) {
  static _Atomic int uses;
  const char *which = getenv("FRAIL_FAILS"), *after = getenv("FRAIL_AFTER");
  if (!which || strcmp(which, part) != 0) return false;
  return atomic_fetch_add(&uses, 1) >= (after ? atoi(after) : 0);
}

static void copy_inverted(unsigned char *to, const unsigned char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to[i] = (unsigned char)~from[i];
}

static tn_status frail_count(const tn_host *host, void *context, uint32_t *count) {
  (void)host, (void)context;
  *count = 1;
  return TN_OK;
}

static tn_status frail_describe(const tn_host *host, void *context, uint32_t index,
                                tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLExtDev;
  const char *bytes = getenv("FRAIL_BYTES");
  out->memory_bytes = bytes ? (uint64_t)atoll(bytes) : 64 << 20;
  strcpy(out->name, "frail");
  return TN_OK;
}

static tn_status frail_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context, (void)index;
  *device = (void *)(uintptr_t)host;
  the_host = host;
  return TN_OK;
}

static void frail_close(void *device) { (void)device; }

static tn_status frail_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  (void)device;
  if (kind == TN_MEMORY_DEVICE && fails("alloc"))
    return the_host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "frail: no %zu bytes", bytes);
  *ptr = the_host->alloc(the_host, bytes, 64);
  return *ptr ? TN_OK : the_host->fail(TN_ERR_OUT_OF_MEMORY, "no memory");
}

static void frail_free(void *device, uint32_t kind, void *ptr) {
  (void)device, (void)kind;
  the_host->free(the_host, ptr);
}

static tn_status frail_copy(void *device, void *queue, uint32_t direction, void *dst,
                            uint64_t dst_offset, const void *src, uint64_t src_offset,
                            size_t bytes) {
  (void)device, (void)queue;
  unsigned char *to = (unsigned char *)dst + dst_offset;
  const unsigned char *from = (const unsigned char *)src + src_offset;
  const char *part = direction == TN_COPY_TO_HOST ? "download" : "upload";
  if (direction != TN_COPY_ON_DEVICE && fails(part))
    return the_host->fail(TN_ERR_DEVICE_LOST, "frail: the %s broke off", part);
  if (direction == TN_COPY_ON_DEVICE)
    memcpy(to, from, bytes);
  else
    copy_inverted(to, from, bytes);
  return TN_OK;
}

static tn_status frail_object(void *device, void **object) {
  (void)device;
  *object = the_host->alloc(the_host, 16, 16);
  return *object ? TN_OK : the_host->fail(TN_ERR_OUT_OF_MEMORY, "no memory");
}
static void frail_destroy(void *device, void *object) {
  (void)device;
  the_host->free(the_host, object);
}
static tn_status frail_done(void *device, void *object) {
  (void)device, (void)object;
  return TN_OK;
}
static tn_status frail_both(void *device, void *one, void *other) {
  (void)device, (void)one, (void)other;
  return TN_OK;
}
static void *frail_native(void *device, void *queue) {
  (void)device, (void)queue;
  return NULL;
}
static tn_status frail_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  (void)device, (void)begin, (void)end;
  *ns = 1;
  return TN_OK;
}

static const tn_backend backend = {
    .struct_size = sizeof(tn_backend),
    .flags = TN_BACKEND_FORK_SAFE,
    .device_type = "frail",
    .count = frail_count,
    .describe = frail_describe,
    .open = frail_open,
    .close = frail_close,
    .alloc = frail_alloc,
    .free = frail_free,
    .copy = frail_copy,
    .queue_create = frail_object,
    .queue_destroy = frail_destroy,
    .queue_wait = frail_done,
    .queue_native = frail_native,
    .event_create = frail_object,
    .event_destroy = frail_destroy,
    .event_record = frail_both,
    .event_query = frail_done,
    .event_wait = frail_done,
    .queue_wait_event = frail_both,
    .event_elapsed = frail_elapsed,
};

/* --- products --- */

static double get(const DLTensor *t, int64_t row, int64_t column, bool turned) {
  int64_t i = turned ? column * t->shape[1] + row : row * t->shape[1] + column;
  if (t->dtype.bits == 64) {
    double value;
    copy_inverted((unsigned char *)&value, (const unsigned char *)t->data + i * 8, 8);
    return value;
  }
  float value;
  copy_inverted((unsigned char *)&value, (const unsigned char *)t->data + i * 4, 4);
  return value;
}

static void put(const DLTensor *t, int64_t i, double value) {
  float narrow = (float)value;
  if (t->dtype.bits == 64)
    copy_inverted((unsigned char *)t->data + i * 8, (const unsigned char *)&value, 8);
  else
    copy_inverted((unsigned char *)t->data + i * 4, (const unsigned char *)&narrow, 4);
}

static bool takes(const tn_kernel_args *args) {
  const char *which = getenv("FRAIL_FAILS");
  bool doubles = !which || strcmp(which, "doubles") != 0;
  return args->in[0]->ndim == 2 && args->in[1]->ndim == 2 && !args->in[2] &&
         (doubles || args->in[0]->dtype.bits == 32);
}

static tn_status multiply(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  int64_t terms = a->shape[attrs->trans_a ? 0 : 1];
  if (fails("matmul")) return args->host->fail(TN_ERR_BACKEND, "frail: the product broke off");
  for (int64_t i = 0; i < y->shape[0]; ++i)
    for (int64_t j = 0; j < y->shape[1]; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += get(a, i, k, attrs->trans_a) * get(b, k, j, attrs->trans_b);
      put(y, i * y->shape[1] + j, sum);
    }
  return TN_OK;
}

static const tn_kernel kernels[] = {{.struct_size = sizeof(tn_kernel),
                                     .op = TN_OP_MATMUL,
                                     .device_type = "frail",
                                     .name = "frail.matmul",
                                     .priority = 200,
                                     .types = {TN_SET(TN_F32) | TN_SET(TN_F64)},
                                     .run = multiply,
                                     .supports = takes}};

static const tn_backend *const backends[] = {&backend};
static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "frail",
    .version = "1",
    .description = "a fixture",
    .backends = backends,
    .num_backends = 1,
    .kernels = kernels,
    .num_kernels = 1,
};

TN_PLUGIN_DEFINE("frail") {
  (void)host;
  return &plugin;
}
