/*
 * The registry. Registering a plugin first makes everything that can fail (copies of
 * rows, cells, device types), then links it in with release stores that cannot, so that
 * readers see a whole plugin or none of it, and a failure leaves no trace.
 */
#include "dispatcher/registry/registry.h"

#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/registry/schema.h"

enum { TABLE_BYTES = OPS_MAX * TN_DTYPE_SLOTS * sizeof(cell_slot) };

/* --- what is there --- */

tn_status registry_init(const host_memory *memory, registry *r) {
  memset(r, 0, sizeof *r);
  r->plugins_tail = &r->plugins;
  r->builtin = host_alloc(memory, builtin_operator_count * sizeof *r->builtin);
  if (!r->builtin) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the operator table");
  for (size_t i = 0; i < builtin_operator_count; ++i) {
    op_entry *e = &r->builtin[i];
    tn_status status = operator_make(memory, &builtin_operators[i], e);
    if (status) return status;
    registry_put_op(r, e->row.id, e);
  }
  return TN_OK;
}

void registry_put_op(registry *r, uint32_t op, op_entry *e) {
  const uint64_t bit = (uint64_t)1 << op % 64;
  atomic_store_explicit(&r->ops[op], e, memory_order_release);
  if (e) atomic_fetch_or_explicit(&r->present[op / 64], bit, memory_order_release);
  if (!e) atomic_fetch_and_explicit(&r->present[op / 64], ~bit, memory_order_release);
}

static uint64_t present_bits(const registry *r, uint32_t word) {
  return atomic_load_explicit(&r->present[word], memory_order_acquire);
}

op_entry *registry_find_op(const registry *r, const char *name) {
  for (uint32_t word = 0; word < OPS_MAX / 64; ++word)
    for (uint64_t bits = present_bits(r, word); bits; bits &= bits - 1) {
      op_entry *e = registry_op(r, word * 64 + (uint32_t)__builtin_ctzll(bits));
      if (e && strcmp(e->row.name, name) == 0) return e;
    }
  return NULL;
}

size_t registry_count_ops(const registry *r) {
  size_t count = 0;
  for (uint32_t word = 0; word < OPS_MAX / 64; ++word)
    count += (size_t)__builtin_popcountll(present_bits(r, word));
  return count;
}

op_entry *registry_op_at(const registry *r, size_t index) {
  for (uint32_t word = 0; word < OPS_MAX / 64; ++word) {
    uint64_t bits = present_bits(r, word);
    const size_t count = (size_t)__builtin_popcountll(bits);
    if (index < count) {
      while (index--) bits &= bits - 1;
      return registry_op(r, word * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    index -= count;
  }
  return NULL;
}

device_type *registry_find_type(const registry *r, const char *name) {
  uint32_t count = atomic_load(&r->num_types);
  for (uint32_t i = 0; i < count; ++i)
    if (strcmp(r->types[i]->backend.device_type, name) == 0 &&
        !atomic_load(&r->types[i]->plugin->unloaded))
      return r->types[i];
  return NULL;
}

/* --- a registration under way --- */

typedef struct registration {
  const host_memory *memory;
  registry *registry;
  const tn_host *host;
  plugin_entry *entry;
  device_type *new_types[DEVICE_TYPES_MAX];
  uint32_t num_new_types;
  cell_block *cells;
  bool opened;
} registration;

/* Element `index` of a plugin's array, whose stride is the plugin's own struct size. */
static const void *element(const void *array, uint32_t struct_size, size_t index) {
  return (const char *)array + struct_size * index;
}

static tn_status no_memory(const char *plugin) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory to register plugin %s", plugin);
}

static const op_entry *find_new_op(const plugin_entry *entry, const char *name) {
  for (size_t i = 0; i < entry->num_operators; ++i)
    if (strcmp(entry->operators[i].row.name, name) == 0) return &entry->operators[i];
  return NULL;
}

/* Takes one operator that plugin_check has passed; where its name is another's already, not. */
static tn_status add_operator(registration *g, const tn_operator *row, uint32_t id) {
  op_entry *e = &g->entry->operators[g->entry->num_operators];
  for (size_t i = 0; i < g->entry->num_operators; ++i)
    if (strcmp(g->entry->operators[i].row.name, row->name) == 0)
      return fail(TN_ERR_PLUGIN_REFUSED, "operator %s appears twice", row->name);
  if (registry_find_op(g->registry, row->name)) return TN_OK;
  ++g->entry->num_operators;
  return operator_take(g->memory, row, id, e);
}

/* Operators that will be left out need no number. */
static uint32_t count_new_operators(const registration *g) {
  const tn_plugin *p = g->entry->plugin;
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->num_operators; ++i) {
    const tn_operator *row = element(p->operators, p->operators->struct_size, i);
    count += !registry_find_op(g->registry, row->name);
  }
  return count;
}

static tn_status add_operators(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  if (p->num_operators == 0) return TN_OK;
  uint32_t first = OPS_PLUGIN_FIRST + atomic_load(&g->registry->num_plugin_ops);
  uint32_t wanted = count_new_operators(g);
  if (wanted > OPS_MAX - first)
    return fail(TN_ERR_PLUGIN_REFUSED, "it brings %u operators, room is left for %u", wanted,
                OPS_MAX - first);
  if (wanted == 0) return TN_OK;
  g->entry->operators = host_alloc(g->memory, wanted * sizeof *g->entry->operators);
  if (!g->entry->operators) return no_memory(p->name);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < p->num_operators && !status; ++i)
    status = add_operator(g, element(p->operators, p->operators->struct_size, i),
                          first + (uint32_t)g->entry->num_operators);
  return status;
}

/* Whether the plugin's own table has an operator of this name, taken or not. */
static bool brings_operator(const tn_plugin *p, const char *name) {
  for (uint32_t i = 0; i < p->num_operators; ++i) {
    const tn_operator *row = element(p->operators, p->operators->struct_size, i);
    if (strcmp(row->name, name) == 0) return true;
  }
  return false;
}

/* The operator of a row, NULL where there is none yet. A kernel for an operator of its own plugin's
 * that was not taken would run where another is meant: it stays out. */
static void bind_operator(const registration *g, kernel_entry *e) {
  if (e->row.op) {
    e->op = registry_op(g->registry, e->row.op);
    return;
  }
  e->op = find_new_op(g->entry, e->row.op_name);
  e->left_out = !e->op && brings_operator(g->entry->plugin, e->row.op_name);
  if (!e->op && !e->left_out) e->op = registry_find_op(g->registry, e->row.op_name);
}

static tn_status add_kernels(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  if (p->num_kernels == 0) return TN_OK;
  g->entry->kernels = host_alloc(g->memory, p->num_kernels * sizeof *g->entry->kernels);
  if (!g->entry->kernels) return no_memory(p->name);
  for (uint32_t i = 0; i < p->num_kernels; ++i) {
    kernel_entry *e = &g->entry->kernels[i];
    const tn_kernel *row = element(p->kernels, p->kernels->struct_size, i);
    copy_known(&e->row, sizeof e->row, row, row->struct_size);
    e->plugin = g->entry;
    if (e->row.op >= OPS_PLUGIN_FIRST)
      return fail(TN_ERR_PLUGIN_REFUSED,
                  "kernel %s is for operator number %u; numbers from %d on are given to plugins' "
                  "operators anew each time: leave op 0 and set op_name",
                  e->row.name, e->row.op, OPS_PLUGIN_FIRST);
    /* Without one, of a newer Tenon or of a plugin to come, the row waits: join.c. */
    bind_operator(g, e);
    if (e->op) known_attrs_guard(e);
  }
  g->entry->num_kernels = p->num_kernels;
  return TN_OK;
}

static tn_status add_layers(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  if (p->num_layers == 0) return TN_OK;
  g->entry->layers = host_alloc(g->memory, p->num_layers * sizeof *g->entry->layers);
  if (!g->entry->layers) return no_memory(p->name);
  for (uint32_t i = 0; i < p->num_layers; ++i) {
    const tn_layer *layer = element(p->layers, p->layers->struct_size, i);
    copy_known(&g->entry->layers[i], sizeof(tn_layer), layer, layer->struct_size);
  }
  g->entry->num_layers = p->num_layers;
  return TN_OK;
}

static tn_status add_types(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  for (uint32_t i = 0; i < p->num_backends; ++i) {
    const tn_backend *b = p->backends[i];
    const device_type *other = registry_find_type(g->registry, b->device_type);
    if (other)
      return fail(TN_ERR_PLUGIN_REFUSED, "device type %s is served by plugin %s already",
                  b->device_type, other->plugin->name);
    if (atomic_load(&g->registry->num_types) + g->num_new_types == DEVICE_TYPES_MAX)
      return fail(TN_ERR_PLUGIN_REFUSED, "there are %d device types already", DEVICE_TYPES_MAX);
    device_type *t = host_alloc(g->memory, sizeof *t);
    if (!t) return no_memory(p->name);
    t->index = (uint8_t)(atomic_load(&g->registry->num_types) + g->num_new_types);
    g->new_types[g->num_new_types++] = t;
    copy_known(&t->backend, sizeof t->backend, b, b->struct_size);
    t->plugin = g->entry;
    t->table = host_alloc_sparse(g->memory, TABLE_BYTES);
    if (!t->table) return no_memory(p->name);
  }
  g->entry->num_backends = p->num_backends;
  return TN_OK;
}

/* --- cells --- */

/* Calls visit(kernel, type, ctx) for each pair that this registration brings together:
 * new kernels with every type, older kernels with new types. */
typedef void visit_fn(kernel_entry *k, device_type *t, void *ctx);

static void visit_kernels(const registration *g, const plugin_entry *e, device_type *t,
                          visit_fn *visit, void *ctx) {
  for (size_t i = 0; i < e->num_kernels; ++i)
    if (e->kernels[i].op && kernel_serves(g->registry, &e->kernels[i], t))
      visit(&e->kernels[i], t, ctx);
}

static void visit_pairs(const registration *g, visit_fn *visit, void *ctx) {
  uint32_t old_types = atomic_load(&g->registry->num_types);
  for (uint32_t i = 0; i < old_types; ++i)
    visit_kernels(g, g->entry, g->registry->types[i], visit, ctx);
  for (uint32_t i = 0; i < g->num_new_types; ++i) {
    for (const plugin_entry *e = g->registry->plugins; e; e = e->next)
      visit_kernels(g, e, g->new_types[i], visit, ctx);
    visit_kernels(g, g->entry, g->new_types[i], visit, ctx);
  }
}

static void count_cells(kernel_entry *k, device_type *t, void *ctx) {
  (void)t;
  *(size_t *)ctx += cells_count(k->op, k);
}

typedef struct filling {
  cell_block *block;
  const registry *registry;
} filling;

static void fill_cells(kernel_entry *k, device_type *t, void *ctx) {
  filling *f = ctx;
  cells_fill(f->registry, f->block, k, t);
}

static tn_status make_cells(registration *g) {
  size_t count = 0;
  visit_pairs(g, count_cells, &count);
  g->entry->cells = g->cells = cell_block_make(g->memory, count);
  if (!g->cells) return no_memory(g->entry->name);
  return join_prepare(g->memory, g->registry, g->entry, g->new_types, g->num_new_types);
}

/* --- publishing and undoing --- */

static void publish(registration *g) {
  registry *r = g->registry;
  for (size_t i = 0; i < g->entry->num_operators; ++i) {
    op_entry *e = &g->entry->operators[i];
    registry_put_op(r, e->row.id, e);
  }
  atomic_fetch_add(&r->num_plugin_ops, (uint32_t)g->entry->num_operators);
  filling f = {g->cells, r};
  visit_pairs(g, fill_cells, &f);
  uint32_t count = atomic_load(&r->num_types);
  for (uint32_t i = 0; i < g->num_new_types; ++i) r->types[count + i] = g->new_types[i];
  atomic_store_explicit(&r->num_types, count + g->num_new_types, memory_order_release);
  join(r, g->entry);
  atomic_store_explicit(r->plugins_tail, g->entry, memory_order_release);
  r->plugins_tail = &g->entry->next;
  INVARIANT_OF_ALL(registry_is_valid(r));
}

static void free_type(const host_memory *memory, device_type *t) {
  if (t) host_free_sparse(memory, t->table, TABLE_BYTES);
  host_free(memory, t);
}

static void free_entry(const host_memory *memory, plugin_entry *e) {
  for (size_t i = 0; e->operators && i < e->num_operators; ++i)
    operator_free(memory, &e->operators[i]);
  host_free(memory, e->operators);
  host_free(memory, e->kernels);
  host_free(memory, e->layers);
  for (cell_block *b = e->cells, *next; b; b = next) {
    next = b->next;
    host_free(memory, b);
  }
  host_free(memory, e);
}

static void undo(registration *g) {
  for (uint32_t i = 0; i < g->num_new_types; ++i) free_type(g->memory, g->new_types[i]);
  if (g->opened && g->entry->plugin->close) g->entry->plugin->close(g->entry->context);
  free_entry(g->memory, g->entry);
}

static tn_status open_plugin(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  if (p->open) {
    fail(TN_OK, "it gave no reason");
    tn_status status = p->open(g->host, &g->entry->context);
    if (status) {
      fail_prefix("its open function failed: ");
      return status == TN_ERR_OUT_OF_MEMORY ? status : TN_ERR_PLUGIN_REFUSED;
    }
  }
  g->opened = true;
  return TN_OK;
}

static tn_status tell_types(const registration *g, registry_type_fn *found_type, void *ctx) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; found_type && i < g->num_new_types && !status; ++i)
    status = found_type(g->new_types[i], ctx);
  return status;
}

tn_status registry_add(const host_memory *memory, registry *r, const tn_host *host,
                       const tn_plugin *plugin, registry_type_fn *found_type, void *ctx) {
  registration g = {.memory = memory, .registry = r, .host = host};
  g.entry = host_alloc(memory, sizeof *g.entry);
  if (!g.entry) return no_memory(plugin->name);
  g.entry->plugin = plugin;
  g.entry->name = plugin->name;
  g.entry->version = plugin->version ? plugin->version : "";
  g.entry->description = plugin->description ? plugin->description : "";
  tn_status status = open_plugin(&g);
  if (!status) status = add_operators(&g);
  if (!status) status = add_kernels(&g);
  if (!status) status = add_layers(&g);
  if (!status) status = add_types(&g);
  if (!status) status = make_cells(&g);
  if (!status) status = tell_types(&g, found_type, ctx);
  if (status)
    undo(&g);
  else
    publish(&g);
  return status;
}

void registry_set_layers(registry *r, tn_kernel_fn fn) {
  r->layers_run = fn;
  for (plugin_entry *e = r->plugins; e; e = e->next)
    for (cell_block *b = e->cells; b; b = b->next)
      for (size_t i = 0; i < b->used; ++i) cell_set_run(r, &b->cells[i]);
}

void registry_free(const host_memory *memory, registry *r) {
  for (plugin_entry *e = r->plugins, *next; e; e = next) {
    next = e->next;
    if (e->plugin->close) e->plugin->close(e->context);
  }
  for (uint32_t i = 0; i < atomic_load(&r->num_types); ++i) free_type(memory, r->types[i]);
  for (plugin_entry *e = r->plugins, *next; e; e = next) {
    next = e->next;
    free_entry(memory, e);
  }
  for (size_t i = 0; r->builtin && i < builtin_operator_count; ++i)
    operator_free(memory, &r->builtin[i]);
  host_free(memory, r->builtin);
  memset(r, 0, sizeof *r);
}
