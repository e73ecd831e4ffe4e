/*
 * The fallback: a call that no kernel of its device takes is copied to a device with
 * host memory, run there and copied back, visibly: it is counted, and by default
 * announced once per operator.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/device/device.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/notify/origin.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/tensor/transfer.h"

/* Near is what serves this device with other types, or other devices with this type. */
static bool is_near(const plan *p, const kernel_entry *k) {
  if (k->op != p->op) return false;
  return strcmp(k->row.device_type, p->device->type->backend.device_type) == 0 ||
         (k->op->row.types[0] & kernel_types(k, 0)) >> p->types[0] & 1;
}

void plan_describe_kernels(const plan *p, char *text, size_t size) {
  const registry *r = &p->device->runtime->registry;
  size_t used = 0;
  text[0] = 0;
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (size_t k = 0; k < e->num_kernels && used < size; ++k) {
      const tn_kernel *row = &e->kernels[k].row;
      if (atomic_load(&e->unloaded) || !is_near(p, &e->kernels[k])) continue;
      used += (size_t)snprintf(text + used, size - used, "%s%s (device %s, plugin %s)",
                               used ? ", " : "", row->name, row->device_type, e->name);
    }
  if (used == 0) snprintf(text, size, "none at all");
}

/* The best of the devices that could serve, but for those tried already. */
static tn_device *best_host(const tn_runtime *r, const tn_device *from, uint32_t op, tn_dtype dtype,
                            const uint64_t *tried, uint32_t *index) {
  tn_device *best = NULL;
  uint32_t count = atomic_load_explicit(&r->num_devices, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device *d = atomic_load(&r->devices[i]);
    if (tried[i / 64] >> i % 64 & 1 || d->type == from->type || !d->host_memory) continue;
    if (!registry_cells(d->table, op, dtype)) continue;
    if (!best || d->props.score > best->props.score) best = d, *index = i;
  }
  return best;
}

static tn_device *find_host(tn_runtime *runtime, const tn_device *from, uint32_t op,
                            tn_dtype dtype) {
  uint64_t tried[DEVICES_MAX / 64] = {0};
  uint32_t index = 0;
  tn_device *d;
  static_assert(DEVICES_MAX % 64 == 0, "a bit for each device");
  (void)plugins_need_hosts(runtime);
  while ((d = best_host(runtime, from, op, dtype, tried, &index))) {
    if (!device_ready(d)) return d;
    tried[index / 64] |= UINT64_C(1) << index % 64;
  }
  return NULL;
}

static tn_status no_kernel(const plan *p, const char *why) {
  char nearest[700];
  plan_describe_kernels(p, nearest, sizeof nearest);
  return plan_refuse(p, TN_ERR_UNSUPPORTED,
                     "device %s has no kernel for %s with these shapes and attributes%s; kernels "
                     "of this operator: %s",
                     p->device->id, tn_dtype_name((tn_dtype)p->types[0]), why, nearest);
}

static void announce(const plan *p, const tn_device *host) {
  uint32_t op = p->op->row.id;
  if (p->device->runtime->config.fallback != TN_FALLBACK_WARN) return;
  if (atomic_exchange(&p->device->fallback[op].warned, true)) return;
  runtime_log(p->device->runtime, TN_LOG_WARN,
              "tn_%s: no kernel on %s for %s; running on %s instead, with copies (said once; "
              "TENON_FALLBACK=error refuses, =allow is silent)",
              p->op->row.name, p->device->id, tn_dtype_name((tn_dtype)p->types[0]), host->id);
}

static void count(const plan *p, uint64_t bytes) {
  atomic_fetch_add_explicit(&p->device->fallback[p->op->row.id].calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&p->device->fallback[p->op->row.id].bytes, bytes, memory_order_relaxed);
}

/* Copies to the host device. The plan's stream is waited for first. */
static tn_status fetch(const tn_tensor *t, tn_device *host, uint64_t *bytes, tn_tensor **out) {
  *out = NULL;
  if (!t) return TN_OK;
  *bytes += tn_tensor_bytes(t);
  return tn_tensor_to_device(t, host, out);
}

/* Copies a host result into the device's tensor, behind all work on it. A host device that works
 * by itself may use the result's memory again as soon as it is released. */
static tn_status store(plan *p, const tn_tensor *result, tn_tensor *y, uint64_t *bytes) {
  *bytes += tn_tensor_bytes(result);
  if (!result->elements) return TN_OK;
  if (p->device->runtime->notified)
    notify_tensor(TN_LAYER_TENSOR_READ, result, result->device->default_stream);
  tn_status status = transfer_push(p->stream, y, transfer_address(result));
  if (!status && result->device->shared) status = stream_wait(p->stream);
  return status;
}

/* The tensors of a call, and room for as many of the host device's. */
typedef struct detour {
  const tn_tensor *const *in;
  tn_tensor *const *out;
  uint32_t num_in, num_inout, num_out;
  const tn_tensor **host_in;
  tn_tensor **host_out;
} detour;

/* Makes every output as large as the shape rule says, so that the call on the host device
 * does not cut it. */
static tn_status make_whole(const detour *d, tn_device *host) {
  tn_status status = TN_OK;
  for (uint32_t i = d->num_inout; !status && i < d->num_out; ++i)
    if (d->out[i])
      status = tn_tensor_empty(host, (tn_dtype)d->out[i]->dtype, d->out[i]->dl.ndim,
                               d->out[i]->shape, &d->host_out[i]);
  return status;
}

static tn_status run_detour(plan *p, const detour *d, tn_device *host) {
  uint64_t bytes = 0;
  tn_status status = stream_wait(p->stream);
  const char *copies_before = origin_stand_in(p->op->row.name);
  for (uint32_t i = 0; !status && i < d->num_in; ++i) {
    tn_tensor *t;
    status = fetch(d->in[i], host, &bytes, &t);
    d->host_in[i] = t;
  }
  for (uint32_t i = 0; !status && i < d->num_inout; ++i)
    status = fetch(d->out[i], host, &bytes, &d->host_out[i]);
  if (!status && p->op->row.flags & TN_OPERATOR_DATA_DEPENDENT) status = make_whole(d, host);
  tn_call call = {.struct_size = sizeof call,
                  .op = p->op->row.id,
                  .in = d->host_in,
                  .out = d->host_out,
                  .attrs = p->args.attrs,
                  .num_in = (uint16_t)d->num_in,
                  .num_out = (uint16_t)d->num_out,
                  .skip_out = p->skipped};
  origin_stand_in(copies_before);
  const char *before = origin_fall_back_from(p->device->id);
  if (!status) status = tn_invoke(&call);
  origin_fall_back_from(before);
  origin_stand_in(p->op->row.name);
  if (!status) status = transfer_settle(host->default_stream);
  for (uint32_t i = 0; !status && i < d->num_out; ++i)
    if (d->out[i]) status = store(p, d->host_out[i], d->out[i], &bytes);
  origin_stand_in(copies_before);
  for (uint32_t i = 0; i < d->num_in; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)d->host_in[i]);
  for (uint32_t i = 0; i < d->num_out; ++i) tn_tensor_release(d->host_out[i]);
  if (!status) count(p, bytes);
  return status;
}

static tn_status run_list(plan *p, tn_device *host) {
  const list_plan *l = p->list;
  const host_memory *memory = &p->device->runtime->memory;
  void **room = host_alloc(memory, ((size_t)l->num_in + l->num_out) * sizeof *room);
  if (!room) return plan_refuse(p, TN_ERR_OUT_OF_MEMORY, "no host memory");
  detour d = {l->in,
              l->out,
              l->num_in,
              l->num_inout,
              l->num_out,
              (const tn_tensor **)(void *)room,
              (tn_tensor **)(void *)(room + l->num_in)};
  tn_status status = run_detour(p, &d, host);
  host_free(memory, room);
  return status;
}

tn_status fallback_run(plan *p) {
  tn_runtime *runtime = p->device->runtime;
  if (p->device->recorder) return p->device->recorder->call(p);
  if (attr_tensors_given(p->op, p->args.attrs)) return attr_tensors_run(p);
  if (runtime->config.fallback == TN_FALLBACK_ERROR)
    return no_kernel(p, " (and the fallback policy is error)");
  if (p->device->host_memory && origin_fallback())
    return no_kernel(p, ", which another device's call fell back to");
  tn_device *host = find_host(runtime, p->device, p->op->row.id, (tn_dtype)p->types[0]);
  if (!host) return no_kernel(p, ", and no host device has one either");
  announce(p, host);
  if (p->op->lists) return run_list(p, host);
  const tn_tensor *in[TN_MAX_ARGS] = {NULL};
  tn_tensor *out[TN_MAX_ARGS] = {NULL};
  detour d = {p->in, p->out, p->num_in, p->op->num_inout, p->num_out, in, out};
  return run_detour(p, &d, host);
}

tn_status tn_fallback_get_stats(tn_device *device, uint32_t op, tn_fallback_stats *stats) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_fallback_get_stats: device is NULL");
  if (op >= OPS_MAX)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_fallback_get_stats: %u is no operator", op);
  tn_status status = struct_check("tn_fallback_get_stats", "stats", "tn_fallback_stats", stats);
  if (!status) status = runtime_check(device->runtime);
  if (status) return status;
  tn_fallback_stats sum = {.struct_size = stats->struct_size};
  for (uint32_t i = op; i < (op ? op + 1 : OPS_MAX); ++i) {
    sum.calls += atomic_load_explicit(&device->fallback[i].calls, memory_order_relaxed);
    sum.bytes += atomic_load_explicit(&device->fallback[i].bytes, memory_order_relaxed);
  }
  struct_fill(stats, &sum, sizeof sum);
  return TN_OK;
}
