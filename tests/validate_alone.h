/* The layer validate by itself, without a dispatcher: a host that hears what it says, and a call
 * that ends in nothing. */
#ifndef TENON_TESTS_VALIDATE_ALONE_H
#define TENON_TESTS_VALIDATE_ALONE_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tenon/plugin.h"
#include "validate_support.h"

/* What it said last; its address serves as a device and a stream, too. */
static char heard[1024];

static inline tn_status alone_fail(tn_status status, const char *format, ...) {
  (void)format;
  return status;
}

__attribute__((format(printf, 3, 4))) static inline void
alone_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level;
  va_list args;
  va_start(args, format);
  vsnprintf(heard, sizeof heard, format, args);
  va_end(args);
}

static inline void *alone_alloc(const tn_host *host, size_t bytes, size_t align) {
  (void)host, (void)align;
  return aligned_alloc(64, (bytes + 64) & ~(size_t)63);
}

static inline void alone_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

static const tn_host alone_host = {.struct_size = sizeof alone_host,
                                   .fail = alone_fail,
                                   .log = alone_log,
                                   .alloc = alone_alloc,
                                   .free = alone_free};

static inline tn_status alone_next(const tn_layer_call *call, void *ctx) {
  (void)call, (void)ctx;
  return TN_OK;
}

/* The layer that the library has. */
static inline const tn_layer *alone_layer(void *library) {
  ck_assert_msg(library != NULL, "%s", dlerror());
  tn_plugin_query_fn query;
  *(void **)&query = dlsym(library, TN_PLUGIN_QUERY);
  return query(&alone_host)->layers;
}

/* What the layer says of a call of the operator on a device whose memory is the host's, from
 * another site each time, so that each is said. The tensors and attributes are those of `args`. */
static inline const char *alone_call(const tn_layer *layer, void *state, const tn_operator *op,
                                     tn_kernel_args args) {
  static const tn_backend backend = {.struct_size = sizeof backend,
                                     .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS,
                                     .device_type = "fake"};
  static const tn_kernel kernel = {.struct_size = sizeof kernel, .name = "fake.probe"};
  char site[32];
  static int number;
  snprintf(site, sizeof site, "case %d", number++);
  args.struct_size = sizeof args;
  args.kernel = &kernel;
  args.device = heard;
  const tn_layer_call call = {.struct_size = sizeof call,
                              .op = op,
                              .device_type = "fake",
                              .args = &args,
                              .plugin = "fake",
                              .stream = heard,
                              .site = site,
                              .backend = &backend};
  heard[0] = 0;
  ck_assert_int_eq(layer->call(state, &call, alone_next, NULL), TN_OK);
  return heard;
}

#endif
