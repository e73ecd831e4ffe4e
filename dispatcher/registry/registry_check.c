/* The registry's invariants: see invariant.h. */
#include "dispatcher/registry/registry.h"

bool cells_are_ordered(cell_slot *slot) {
  const cell *c = atomic_load(slot);
  for (const cell *next; c; c = next) {
    next = atomic_load(&c->next);
    if (!c->run || !c->kernel->op) return false;
    if (next &&
        (next == c || next->kernel->row.priority > c->kernel->row.priority ||
         next->type != c->type || next->dtype != c->dtype || next->kernel->op != c->kernel->op))
      return false;
  }
  return true;
}

/* What stands in a slot belongs there, and to a plugin that is not away. */
static bool slot_is_valid(cell_slot *slot, uint32_t type, uint32_t op, uint32_t dtype) {
  for (const cell *c = atomic_load(slot); c; c = atomic_load(&c->next))
    if (c->type != type || c->dtype != dtype || c->kernel->op->row.id != op ||
        atomic_load(&c->kernel->plugin->unloaded))
      return false;
  return cells_are_ordered(slot);
}

static bool type_is_valid(const device_type *t, uint32_t index) {
  if (t->index != index || !t->plugin || !t->backend.device_type) return false;
  for (uint32_t i = 0; i < OPS_MAX * TN_DTYPE_SLOTS; ++i)
    if (!slot_is_valid(&t->table[i], index, i / TN_DTYPE_SLOTS, i % TN_DTYPE_SLOTS)) return false;
  return true;
}

bool registry_is_valid(const registry *r) {
  for (uint32_t i = 0; i < OPS_MAX; ++i) {
    const op_entry *e = registry_op(r, i);
    if (e && e->row.id != i) return false;
    if ((e != NULL) != (atomic_load(&r->present[i / 64]) >> i % 64 & 1)) return false;
  }
  for (uint32_t i = 0; i < atomic_load(&r->num_types); ++i)
    if (!type_is_valid(r->types[i], i)) return false;
  return true;
}
