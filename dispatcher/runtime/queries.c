/* Operators and kernels, for those who ask. */
#include <string.h>

#include "dispatcher/objects/device.h"
#include "dispatcher/plugins/plugins.h"

size_t tn_op_count(tn_runtime *runtime) {
  if (!runtime) return 0;
  (void)plugins_need_operators(runtime);
  return registry_count_ops(&runtime->registry);
}

const struct tn_operator *tn_op_at(tn_runtime *runtime, size_t index) {
  if (!runtime) return NULL;
  (void)plugins_need_operators(runtime);
  const op_entry *e = registry_op_at(&runtime->registry, index);
  return e ? &e->row : NULL;
}

tn_status tn_op_find(tn_runtime *runtime, const char *name, uint32_t *op) {
  if (!runtime || !name || !op)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_op_find: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  const op_entry *e = registry_find_op(&runtime->registry, name);
  if (!e) status = plugins_need_operators(runtime);
  if (status) return status;
  if (!e) e = registry_find_op(&runtime->registry, name);
  if (!e) return fail(TN_ERR_NOT_FOUND, "tn_op_find: there is no operator '%s'", name);
  *op = e->row.id;
  return TN_OK;
}

tn_status tn_kernel_find(tn_device *device, uint32_t op, tn_dtype dtype, uint32_t rank,
                         tn_kernel_info *info) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_find: device is NULL");
  if (op >= OPS_MAX || (unsigned)dtype >= TN_DTYPE_SLOTS)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_find: %u is no operator or %d no element type",
                op, (int)dtype);
  tn_status status = struct_check("tn_kernel_find", "info", "tn_kernel_info", info);
  if (!status) status = runtime_check(device->runtime);
  if (status) return status;
  const cell *c = registry_cells(device->table, op, dtype);
  for (; c && rank; --rank) c = atomic_load_explicit(&c->next, memory_order_acquire);
  if (!c)
    return fail(TN_ERR_UNSUPPORTED, "tn_kernel_find: no %skernel for operator %u and %s on %s",
                rank ? "further " : "", op, tn_dtype_name(dtype), device->id);
  cell_describe(c, info);
  return TN_OK;
}

static const kernel_entry *kernel_at(const tn_runtime *runtime, size_t index) {
  for (const plugin_entry *e = runtime->registry.plugins; e; e = e->next) {
    if (atomic_load(&e->unloaded)) continue;
    if (index < e->num_kernels) return &e->kernels[index];
    index -= e->num_kernels;
  }
  return NULL;
}

tn_status tn_kernel_at(tn_runtime *runtime, size_t index, tn_kernel_row *row) {
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_at: runtime is NULL");
  tn_status status = struct_check("tn_kernel_at", "row", "tn_kernel_row", row);
  if (!status) status = runtime_check(runtime);
  if (!status) status = plugins_need_all(runtime);
  if (status) return status;
  const kernel_entry *k = kernel_at(runtime, index);
  if (!k) return fail(TN_ERR_NOT_FOUND, "tn_kernel_at: there are fewer kernels than %zu", index);
  const op_entry *op = atomic_load(&k->op);
  tn_kernel_row full = {row->struct_size, op ? op->row.id : 0, k->row.name,
                        k->plugin->name,  k->row.device_type,  {0},
                        k->row.priority,  k->row.flags};
  memcpy(full.types, k->row.types, sizeof full.types);
  struct_fill(row, &full, sizeof full);
  return TN_OK;
}
