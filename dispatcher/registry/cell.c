/* Cells: which ones a kernel gets, their places among others of a slot, what is told of them. */
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

bool kernel_serves(const registry *r, const kernel_entry *k, const device_type *t) {
  if (r->deterministic_only && !(k->row.flags & TN_KERNEL_DETERMINISTIC)) return false;
  if (strcmp(k->row.device_type, TN_DEVICE_ANY_HOST) == 0)
    return t->backend.flags & TN_BACKEND_HOST_MEMORY;
  return strcmp(k->row.device_type, t->backend.device_type) == 0;
}

static tn_dtype_set key_types(const op_entry *op, const kernel_entry *k) {
  return op->row.types[0] & kernel_types(k, 0);
}

static bool takes_every_type(const kernel_entry *k) {
  for (int v = 1; v < TN_MAX_TYPE_VARS; ++v)
    if (k->op->row.types[v] & ~kernel_types(k, v)) return false;
  return true;
}

size_t cells_count(const op_entry *op, const kernel_entry *k) {
  return (size_t)__builtin_popcount(key_types(op, k));
}

cell_block *cell_block_make(const host_memory *memory, size_t capacity) {
  cell_block *made = host_alloc(memory, sizeof *made + capacity * sizeof *made->cells);
  if (made) made->capacity = capacity;
  return made;
}

/* The slot's kernel, or the layers'. pre: the cell's type and kernel are set. */
static void set_run(const registry *r, cell *c, const device_type *t) {
  c->run = r->layers_run ? r->layers_run : registry_run_fn(r, &c->kernel->row, &t->backend);
}
void cell_set_run(const registry *r, cell *c) { set_run(r, c, r->types[c->type]); }

void cells_fill(const registry *r, cell_block *block, const kernel_entry *k, device_type *t) {
  tn_dtype_set types = key_types(k->op, k);
  for (int dtype = 0; dtype < TN_DTYPE_SLOTS; ++dtype) {
    if (!(types >> dtype & 1)) continue;
    INVARIANT(block->used < block->capacity);
    cell *c = &block->cells[block->used++];
    c->kernel = k;
    set_run(r, c, t);
    const bool every_type = takes_every_type(k);
    c->direct = every_type && !k->row.supports;
    c->strided = k->row.flags & TN_KERNEL_STRIDED;
    c->whole = every_type && !k->row.workspace;
    c->fast_path = c->whole && c->direct;
    c->type = t->index;
    c->dtype = (uint8_t)dtype;
    if (!atomic_load(&k->plugin->unloaded))
      registry_link(&t->table[k->op->row.id * TN_DTYPE_SLOTS + (uint32_t)dtype], c);
  }
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
