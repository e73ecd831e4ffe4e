/*
 * Taking back what a plugin brought, and giving it again.
 *
 * Nothing is freed: a caller in another thread may be just at a cell, an operator or a
 * kernel of the plugin. Cells are unlinked from the table, so that later calls do not find
 * them, and keep their `next`, so that whoever stands on one finds on. To give the plugin
 * again the same cells are linked in again, which cannot fail; kernels that came meanwhile and
 * wait for its operators get theirs first.
 */
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/registry/registry.h"

static cell_slot *slot_of(const registry *r, const cell *c) {
  return &r->types[c->type]->table[c->kernel->op->row.id * TN_DTYPE_SLOTS + c->dtype];
}

static void unlink_cell(const registry *r, cell *c) {
  cell_slot *at = slot_of(r, c);
  for (cell *other; (other = atomic_load(at)); at = &other->next)
    if (other == c) {
      atomic_store_explicit(at, atomic_load(&c->next), memory_order_release);
      return;
    }
}

static void link_cell(const registry *r, cell *c) { registry_link(slot_of(r, c), c); }

/* Cells of the plugin's kernels lie in its own block and in those of plugins that brought
 * types of device later. */
static void each_cell(const registry *r, const plugin_entry *entry,
                      void visit(const registry *r, cell *c)) {
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (cell_block *b = e->cells; b; b = b->next)
      for (size_t i = 0; i < b->used; ++i)
        if (b->cells[i].kernel->plugin == entry) visit(r, &b->cells[i]);
}

void registry_unregister(registry *r, plugin_entry *entry) {
  atomic_store(&entry->unloaded, true);
  for (size_t i = 0; i < entry->num_operators; ++i)
    registry_put_op(r, entry->operators[i].row.id, NULL);
  each_cell(r, entry, unlink_cell);
  INVARIANT_OF_ALL(registry_is_valid(r));
}

/* What the plugin brings may have been brought by another one meanwhile. */
static tn_status check_free(const registry *r, const plugin_entry *entry) {
  for (uint32_t i = 0; i < atomic_load(&r->num_types); ++i) {
    const device_type *t = r->types[i], *other;
    if (t->plugin != entry) continue;
    other = registry_find_type(r, t->backend.device_type);
    if (other)
      return fail(TN_ERR_PLUGIN_REFUSED, "device type %s is served by plugin %s already",
                  t->backend.device_type, other->plugin->name);
  }
  return TN_OK;
}

tn_status registry_restore(const host_memory *memory, registry *r, plugin_entry *entry) {
  tn_status status = check_free(r, entry);
  if (!status) status = join_prepare(memory, r, entry, NULL, 0);
  if (status) return status;
  for (size_t i = 0; i < entry->num_operators; ++i) {
    op_entry *e = &entry->operators[i];
    if (!registry_find_op(r, e->row.name)) registry_put_op(r, e->row.id, e);
  }
  each_cell(r, entry, link_cell);
  join(r, entry);
  atomic_store(&entry->unloaded, false);
  INVARIANT_OF_ALL(registry_is_valid(r));
  return TN_OK;
}
