/*
 * The registry. Registering a plugin first makes everything that can fail (copies of
 * rows, cells, device types), then links it in with release stores that cannot, so that
 * readers see a whole plugin or none of it, and a failure leaves no trace.
 */
#include "dispatcher/registry/registry.h"

#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/registry/schema.h"

/* Bytes of the rows whose distance an operator does not state. */
enum {
  ARG_SIZE_1 = offsetof(tn_arg, reserved2) + sizeof(uint64_t),
  TABLE_BYTES = OPS_MAX * TN_DTYPE_SLOTS * sizeof(cell_slot),
  ATTR_SIZE_1 = offsetof(tn_attr, reserved2) + sizeof(uint64_t),
};

/* --- operators --- */

/* Whether calls of the operator may take the fast path at all. */
static bool takes_fast_path(const op_entry *op) {
  const tn_operator *row = &op->row;
  if (!op->elementwise || op->num_inout || op->num_out != 1 || op->num_in == 0) return false;
  if (row->shape != TN_SHAPE_SAME && row->shape != TN_SHAPE_BROADCAST &&
      row->shape != TN_SHAPE_UPDATE)
    return false;
  for (uint32_t i = 0; i < op->num_in; ++i)
    if (op->arg[i].kind != TN_ARG_IN || op->arg[i].type != TN_TYPE_VAR(0)) return false;
  for (uint32_t i = 0; i < row->num_attrs; ++i)
    if (row->attrs[i].type != TN_ATTR_FLAG) return false;
  uint8_t result = op->arg[op->num_in].type;
  return op->arg[op->num_in].kind == TN_ARG_OUT &&
         (result == TN_TYPE_VAR(0) || TN_TYPE_IS_FIXED(result));
}

static void op_prepare(op_entry *e) {
  const tn_operator *row = &e->row;
  bool keyed = false;
  for (uint32_t i = 0; i < row->num_args; ++i) {
    e->arg[i].kind = row->args[i].kind;
    e->arg[i].type = row->args[i].type;
    e->arg[i].flags = row->args[i].flags;
    e->lists = e->lists || row->args[i].flags & TN_ARG_LIST;
    if (row->args[i].kind <= TN_ARG_OPTIONAL_IN)
      ++e->num_in;
    else if (row->args[i].kind == TN_ARG_INOUT)
      ++e->num_inout;
    else
      ++e->num_out;
    if (!keyed && row->args[i].type == TN_TYPE_VAR(0)) e->key_arg = (uint8_t)i, keyed = true;
  }
  e->result_type = NO_RESULT;
  for (uint32_t i = 0; i < row->num_attrs; ++i) {
    if (row->attrs[i].type != TN_ATTR_RESULT) continue;
    uint8_t *type = &e->arg[e->num_in + e->num_inout].type;
    e->result_type = *type;
    *type = TN_TYPE_VAR(RESULT_VAR);
  }
  e->call_in = e->lists ? UINT32_MAX : e->num_in;
  e->call_out = e->lists ? UINT32_MAX : (uint32_t)e->num_inout + e->num_out;
  e->elementwise = row->flags & TN_OPERATOR_ELEMENTWISE;
  e->fast_path = takes_fast_path(e);
}

static void set_default(void *attrs, const tn_attr *a) {
  char *at = (char *)attrs + a->offset;
  int64_t whole = a->type == TN_ATTR_F64 ? 0 : (int64_t)a->default_value;
  int32_t small = (int32_t)whole;
  switch (a->type) {
  case TN_ATTR_I64:
  case TN_ATTR_U64:
    memcpy(at, &whole, sizeof whole);
    break;
  case TN_ATTR_F64:
    memcpy(at, &a->default_value, sizeof a->default_value);
    break;
  case TN_ATTR_FLAG:
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    memcpy(at, &small, sizeof small);
    break;
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    for (size_t i = 0; i < (a->type == TN_ATTR_PAIR ? 2 : 3); ++i)
      memcpy(at + i * sizeof whole, &whole, sizeof whole);
    break;
  case TN_ATTR_AXES:
  case TN_ATTR_DIMS:
    break; /* zero: none given */
  }
}

static tn_status op_defaults(const host_memory *memory, op_entry *e) {
  if (e->row.attrs_size == 0) return TN_OK;
  e->defaults = host_alloc(memory, e->row.attrs_size);
  if (!e->defaults) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the operator table");
  memcpy(e->defaults, &e->row.attrs_size, sizeof e->row.attrs_size);
  for (uint32_t i = 0; i < e->row.num_attrs; ++i) set_default(e->defaults, &e->row.attrs[i]);
  return TN_OK;
}

tn_status registry_init(const host_memory *memory, registry *r) {
  memset(r, 0, sizeof *r);
  r->plugins_tail = &r->plugins;
  r->builtin = host_alloc(memory, builtin_operator_count * sizeof *r->builtin);
  if (!r->builtin) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the operator table");
  for (size_t i = 0; i < builtin_operator_count; ++i) {
    op_entry *e = &r->builtin[i];
    e->row = builtin_operators[i];
    op_prepare(e);
    tn_status status = op_defaults(memory, e);
    if (status) return status;
    atomic_init(&r->ops[e->row.id], e);
  }
  return TN_OK;
}

op_entry *registry_find_op(const registry *r, const char *name) {
  for (uint32_t i = 0; i < OPS_MAX; ++i) {
    op_entry *e = registry_op(r, i);
    if (e && strcmp(e->row.name, name) == 0) return e;
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
  bool opened;
} registration;

/* Copies the part of a plugin's struct that both sides know; the rest is zero. */
static void copy_known(void *to, size_t size, const void *from, uint32_t from_size) {
  memset(to, 0, size);
  memcpy(to, from, from_size < size ? from_size : size);
}

/* Element `index` of a plugin's array, whose stride is the plugin's own struct size. */
static const void *element(const void *array, uint32_t struct_size, size_t index) {
  return (const char *)array + struct_size * index;
}

static tn_status no_memory(const char *plugin) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory to register plugin %s", plugin);
}

static op_entry *find_new_op(const registration *g, const char *name) {
  for (size_t i = 0; i < g->entry->num_operators; ++i)
    if (strcmp(g->entry->operators[i].row.name, name) == 0) return &g->entry->operators[i];
  return registry_find_op(g->registry, name);
}

/* The tables of arguments and attributes in structs of this host's size, so that they can
 * be indexed plainly, however long the plugin's own rows are. */
static tn_status own_tables(const host_memory *memory, op_entry *e) {
  tn_operator *row = &e->row;
  const tn_operator theirs = *row;
  size_t args_bytes = row->num_args * sizeof(tn_arg);
  e->tables = host_alloc(memory, args_bytes + row->num_attrs * sizeof(tn_attr));
  if (!e->tables) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the operator table");
  tn_arg *args = e->tables;
  tn_attr *attrs = (void *)((char *)e->tables + args_bytes);
  for (uint32_t i = 0; i < row->num_args; ++i)
    copy_known(&args[i], sizeof *args, tn_operator_arg(&theirs, i),
               theirs.arg_size ? theirs.arg_size : ARG_SIZE_1);
  for (uint32_t i = 0; i < row->num_attrs; ++i)
    copy_known(&attrs[i], sizeof *attrs, tn_operator_attr(&theirs, i),
               theirs.attr_size ? theirs.attr_size : ATTR_SIZE_1);
  row->args = args, row->arg_size = sizeof *args;
  row->attrs = attrs, row->attr_size = sizeof *attrs;
  return TN_OK;
}

/* Takes one operator that plugin_check has passed. */
static tn_status add_operator(registration *g, const tn_operator *row, uint32_t id) {
  op_entry *e = &g->entry->operators[g->entry->num_operators];
  copy_known(&e->row, sizeof e->row, row, row->struct_size);
  if (registry_find_op(g->registry, e->row.name))
    return fail(TN_ERR_PLUGIN_REFUSED, "operator %s exists already", e->row.name);
  if (find_new_op(g, e->row.name))
    return fail(TN_ERR_PLUGIN_REFUSED, "operator %s appears twice", e->row.name);
  ++g->entry->num_operators;
  e->row.id = id;
  for (int v = 0; v < TN_MAX_TYPE_VARS; ++v) e->row.types[v] &= TN_SET_ALL;
  tn_status status = own_tables(g->memory, e);
  if (status) return status;
  op_prepare(e);
  return op_defaults(g->memory, e);
}

static tn_status add_operators(registration *g) {
  const tn_plugin *p = g->entry->plugin;
  if (p->num_operators == 0) return TN_OK;
  uint32_t first = OPS_PLUGIN_FIRST + atomic_load(&g->registry->num_plugin_ops);
  if (p->num_operators > OPS_MAX - first)
    return fail(TN_ERR_PLUGIN_REFUSED, "it brings %u operators, room is left for %u",
                p->num_operators, OPS_MAX - first);
  g->entry->operators = host_alloc(g->memory, p->num_operators * sizeof *g->entry->operators);
  if (!g->entry->operators) return no_memory(p->name);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < p->num_operators && !status; ++i)
    status = add_operator(g, element(p->operators, p->operators->struct_size, i), first + i);
  return status;
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
    if (e->row.op)
      e->op = e->row.op < OPS_PLUGIN_FIRST ? registry_op(g->registry, e->row.op) : NULL;
    else
      e->op = find_new_op(g, e->row.op_name);
    /* An operator from a newer Tenon: the row stays out, the plugin comes in. */
    if (!e->op && e->row.op && e->row.op < OPS_PLUGIN_FIRST) continue;
    if (!e->op)
      return fail(TN_ERR_PLUGIN_REFUSED, "kernel %s is for operator %s, which is unknown",
                  e->row.name, e->row.op_name ? e->row.op_name : "with a plugin's number");
    known_attrs_guard(e);
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

static bool serves(const kernel_entry *k, const device_type *t, bool deterministic_only) {
  if (!k->op) return false;
  if (deterministic_only && !(k->row.flags & TN_KERNEL_DETERMINISTIC)) return false;
  if (strcmp(k->row.device_type, TN_DEVICE_ANY_HOST) == 0)
    return t->backend.flags & TN_BACKEND_HOST_MEMORY;
  return strcmp(k->row.device_type, t->backend.device_type) == 0;
}

static tn_dtype_set key_types(const kernel_entry *k) {
  tn_dtype_set allowed = k->op->row.types[0];
  return k->row.types[0] ? k->row.types[0] & allowed : allowed;
}

static bool takes_every_call(const kernel_entry *k) {
  for (int v = 1; v < TN_MAX_TYPE_VARS; ++v)
    if (k->row.types[v] && (k->op->row.types[v] & ~k->row.types[v])) return false;
  return !k->row.supports;
}

/* Calls visit(kernel, type, ctx) for each pair that this registration brings together:
 * new kernels with every type, older kernels with new types. */
typedef void visit_fn(const kernel_entry *k, device_type *t, void *ctx);

static void visit_kernels(const registration *g, const plugin_entry *e, device_type *t,
                          visit_fn *visit, void *ctx) {
  for (size_t i = 0; i < e->num_kernels; ++i)
    if (serves(&e->kernels[i], t, g->registry->deterministic_only)) visit(&e->kernels[i], t, ctx);
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

static void count_cells(const kernel_entry *k, device_type *t, void *ctx) {
  (void)t;
  *(size_t *)ctx += (size_t)__builtin_popcount(key_types(k));
}

static tn_kernel_fn run_of(const registry *r, const kernel_entry *k, const tn_backend *backend) {
  return r->layers_run ? r->layers_run : registry_run_fn(r, &k->row, backend);
}

typedef struct filling {
  cell_block *block;
  const registry *registry;
} filling;

static void fill_cells(const kernel_entry *k, device_type *t, void *ctx) {
  filling *f = ctx;
  tn_dtype_set types = key_types(k);
  for (int dtype = 0; dtype < TN_DTYPE_SLOTS; ++dtype) {
    if (!(types >> dtype & 1)) continue;
    cell *c = &f->block->cells[f->block->used++];
    c->run = run_of(f->registry, k, &t->backend);
    c->kernel = k;
    c->direct = takes_every_call(k);
    c->strided = k->row.flags & TN_KERNEL_STRIDED;
    c->fast_path = c->direct && !k->row.workspace;
    c->type = t->index;
    c->dtype = (uint8_t)dtype;
    if (!atomic_load(&k->plugin->unloaded))
      registry_link(&t->table[k->op->row.id * TN_DTYPE_SLOTS + (uint32_t)dtype], c);
  }
}

static tn_status make_cells(registration *g) {
  size_t count = 0;
  visit_pairs(g, count_cells, &count);
  cell_block *made = host_alloc(g->memory, sizeof *made + count * sizeof *made->cells);
  if (!made) return no_memory(g->entry->name);
  made->capacity = count;
  g->entry->cells = made;
  return TN_OK;
}

/* --- publishing and undoing --- */

static void publish(registration *g) {
  registry *r = g->registry;
  for (size_t i = 0; i < g->entry->num_operators; ++i) {
    op_entry *e = &g->entry->operators[i];
    atomic_store_explicit(&r->ops[e->row.id], e, memory_order_release);
  }
  atomic_fetch_add(&r->num_plugin_ops, (uint32_t)g->entry->num_operators);
  filling f = {g->entry->cells, r};
  visit_pairs(g, fill_cells, &f);
  uint32_t count = atomic_load(&r->num_types);
  for (uint32_t i = 0; i < g->num_new_types; ++i) r->types[count + i] = g->new_types[i];
  atomic_store_explicit(&r->num_types, count + g->num_new_types, memory_order_release);
  atomic_store_explicit(r->plugins_tail, g->entry, memory_order_release);
  r->plugins_tail = &g->entry->next;
  INVARIANT(g->entry->cells->used <= g->entry->cells->capacity);
  INVARIANT_OF_ALL(registry_is_valid(r));
}

static void free_type(const host_memory *memory, device_type *t) {
  if (t) host_free_sparse(memory, t->table, TABLE_BYTES);
  host_free(memory, t);
}

static void free_entry(const host_memory *memory, plugin_entry *e) {
  for (size_t i = 0; e->operators && i < e->num_operators; ++i) {
    host_free(memory, e->operators[i].defaults);
    host_free(memory, e->operators[i].tables);
  }
  host_free(memory, e->operators);
  host_free(memory, e->kernels);
  host_free(memory, e->layers);
  host_free(memory, e->cells);
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
    for (size_t i = 0; e->cells && i < e->cells->used; ++i) {
      cell *c = &e->cells->cells[i];
      c->run = run_of(r, c->kernel, &r->types[c->type]->backend);
    }
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
    host_free(memory, r->builtin[i].defaults);
  host_free(memory, r->builtin);
  memset(r, 0, sizeof *r);
}
