/* One cell: its place among the others of its slot, what it runs, what is told of it. */
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/registry/registry.h"

void registry_link(cell_slot *slot, cell *c) {
  cell_slot *at = slot;
  for (cell *other; (other = atomic_load(at)); at = &other->next)
    if (other->kernel->row.priority < c->kernel->row.priority) break;
  atomic_store(&c->next, atomic_load(at));
  atomic_store_explicit(at, c, memory_order_release);
  INVARIANT(cells_are_ordered(slot));
}

static bool shares_memory(const tn_backend *b) {
  return b->flags & TN_BACKEND_HOST_MEMORY && !(b->flags & TN_BACKEND_SYNCHRONOUS);
}

tn_kernel_fn registry_run_fn(const registry *r, const tn_kernel *row, const tn_backend *backend) {
  bool waits = r->host_row_run && backend && shares_memory(backend) &&
               strcmp(row->device_type, TN_DEVICE_ANY_HOST) == 0;
  return waits ? r->host_row_run : registry_run_plain_fn(r, row);
}

void cell_describe(const cell *c, tn_kernel_info *info) {
  const tn_kernel *row = &c->kernel->row;
  tn_kernel_info full = {.struct_size = info->struct_size,
                         .priority = row->priority,
                         .name = row->name,
                         .plugin = c->kernel->plugin->name,
                         .note = row->note ? row->note : "",
                         .some_calls = !c->direct};
  struct_fill(info, &full, sizeof full);
}
