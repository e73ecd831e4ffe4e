/*
 * Kernels that wait for their operator: rows by op_name whose operator no plugin has brought yet.
 * They come in with their plugin and have no cells. Whoever brings the operator, at first or by
 * being loaded again, gives them theirs, in a block of its own.
 *
 * As in registry.c: first what can fail, then what readers see.
 */
#include <string.h>

#include "dispatcher/registry/registry.h"

static bool waits(const kernel_entry *k) {
  return !atomic_load(&k->op) && !k->row.op && !k->left_out;
}

/* The operator among the entry's that the kernel waits for. */
static const op_entry *awaited(const plugin_entry *entry, const kernel_entry *k) {
  for (size_t i = 0; waits(k) && i < entry->num_operators; ++i)
    if (strcmp(entry->operators[i].row.name, k->row.op_name) == 0) return &entry->operators[i];
  return NULL;
}

static size_t count_with(const registry *r, const op_entry *op, const kernel_entry *k,
                         device_type *const *types, uint32_t num_types) {
  size_t count = 0;
  for (uint32_t i = 0; i < num_types; ++i)
    if (kernel_serves(r, k, types[i])) count += cells_count(op, k);
  return count;
}

tn_status join_prepare(const host_memory *memory, const registry *r, plugin_entry *entry,
                       device_type *const *new_types, uint32_t num_new_types) {
  size_t count = 0;
  if (!entry->num_operators) return TN_OK;
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (size_t i = 0; i < e->num_kernels; ++i) {
      const op_entry *op = awaited(entry, &e->kernels[i]);
      if (!op) continue;
      count += count_with(r, op, &e->kernels[i], r->types, atomic_load(&r->num_types));
      count += count_with(r, op, &e->kernels[i], new_types, num_new_types);
    }
  if (!count) return TN_OK;
  cell_block *made = cell_block_make(memory, count);
  if (!made) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory to register plugin %s", entry->name);
  made->next = entry->cells;
  entry->cells = made;
  return TN_OK;
}

static void join_kernel(const registry *r, plugin_entry *entry, kernel_entry *k,
                        const op_entry *op) {
  atomic_store(&k->op, op);
  known_attrs_guard(k);
  for (uint32_t i = 0; i < atomic_load(&r->num_types); ++i)
    if (kernel_serves(r, k, r->types[i])) cells_fill(r, entry->cells, k, r->types[i]);
}

void join(const registry *r, plugin_entry *entry) {
  if (!entry->num_operators) return;
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (size_t i = 0; i < e->num_kernels; ++i) {
      const op_entry *op = awaited(entry, &e->kernels[i]);
      if (op && registry_op(r, op->row.id) == op) join_kernel(r, entry, &e->kernels[i], op);
    }
}
