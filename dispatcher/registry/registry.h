/*
 * What plugins brought: operators by number, device types, and for each device type a
 * dense table [operator][element type] of kernel candidates, best first.
 *
 * Reading takes no lock: what was added is published with atomic stores, and never freed
 * before the runtime is destroyed. Writing is under the runtime's mutex `loading`.
 */
#ifndef TENON_DISPATCHER_REGISTRY_H
#define TENON_DISPATCHER_REGISTRY_H

#include <stdatomic.h>

#include "dispatcher/base/error.h"
#include "dispatcher/base/limits.h"
#include "tenon/plugin.h"

enum {
  /* The type variable that stands for what TN_ATTR_RESULT says, which schemas leave unused. */
  RESULT_VAR = TN_MAX_TYPE_VARS - 1,
  NO_RESULT = 0xff,
};

/* An operator with what validation needs in handy form. */
typedef struct op_entry {
  tn_operator row;
  uint8_t num_in, num_inout, num_out; /* arguments; num_out without in-out */
  uint8_t key_arg; /* an argument whose type is variable 0; in-out count after inputs */
  bool elementwise;
  uint8_t result_type; /* of the first output in the schema, where an attribute may change it and
                          its own type below is RESULT_VAR; else NO_RESULT */
  bool fast_path;      /* calls may take the fast path: fast_path.c */
  bool lists;          /* some argument is a list: plan_list.c */
  uint32_t call_in, call_out; /* tensors in a call; UINT32_MAX where lists leave it open */
  struct {
    uint8_t kind, type, flags;
  } arg[2 * TN_MAX_ARGS];  /* schema order */
  void *defaults;          /* attribute struct filled with defaults, NULL if none */
  void *tables;            /* the row's args and attrs where they are copies, else NULL */
  const tn_attr **checked; /* those whose value a call must be asked about; NULL if none */
  uint32_t num_checked;
  uint32_t num_tensors; /* attributes of kind tensor, the last of all */
} op_entry;

/* The i-th attribute of kind tensor. */
static inline const tn_attr *op_attr_tensor(const op_entry *op, uint32_t i) {
  return &op->row.attrs[op->row.num_attrs - op->num_tensors + i];
}

struct plugin_entry;

/* A kernel row as registered. */
typedef struct kernel_entry {
  tn_kernel row; /* first: args->kernel points here */
  const struct plugin_entry *plugin;
  /* NULL where there is none (yet): join.c. Once set it stays. */
  _Atomic(const op_entry *) op;
  bool left_out; /* for an operator of its plugin's own that was not taken */
  /* The plugin's own function where row.supports is attrs_supports of known_attrs.c. */
  bool (*supports)(const tn_kernel_args *args);
} kernel_entry;

/* The element types that a row takes of a type variable, if the operator has them. A row that says
 * nothing may be older than the types that are not in TN_SET_ALL. */
static inline tn_dtype_set kernel_types(const kernel_entry *k, int var) {
  return k->row.types[var] ? k->row.types[var] : ~(TN_SET_STORED & ~TN_SET_ALL);
}

/* One candidate of one table slot. */
typedef struct cell {
  tn_kernel_fn run; /* the kernel's, or the layers' */
  const kernel_entry *kernel;
  _Atomic(struct cell *) next; /* the next best */
  bool direct;                 /* takes every call of its slot: no type limits, no supports */
  bool strided;
  bool whole;          /* takes every element type of its slot, without workspace */
  bool fast_path;      /* whole and direct: fit for the fast path */
  uint8_t type, dtype; /* the slot it belongs to: index among the registry's types */
} cell;

typedef _Atomic(cell *) cell_slot;

/* Memory of many cells at once. */
typedef struct cell_block {
  struct cell_block *next;
  size_t used, capacity;
  cell cells[];
} cell_block;

typedef struct device_type {
  tn_backend backend; /* the plugin's table, zero beyond what it knows */
  const struct plugin_entry *plugin;
  cell_slot *table;      /* [OPS_MAX * TN_DTYPE_SLOTS] */
  uint8_t index;         /* among the registry's types */
  char unavailable[256]; /* why there is no device of this type */
  char oddity[256];      /* what was wrong with the first of its devices that could not be used */
  char mended[448];      /* what the host mended in what the first such device says of itself */
} device_type;

/* A plugin that was taken. */
typedef struct plugin_entry {
  const tn_plugin *plugin;
  const char *name, *version, *description;
  void *context;
  kernel_entry *kernels;
  size_t num_kernels;
  op_entry *operators;
  size_t num_operators;
  tn_layer *layers;
  size_t num_layers;
  size_t num_backends;
  cell_block *cells;     /* made when it was registered, or loaded again */
  _Atomic bool unloaded; /* unloaded: stays, but is found by nobody */
  _Atomic(struct plugin_entry *) next;
} plugin_entry;

typedef struct registry {
  _Atomic(op_entry *) ops[OPS_MAX];
  _Atomic uint64_t present[OPS_MAX / 64]; /* a bit for each of ops, for whoever walks them */
  op_entry *builtin;                      /* [builtin_operator_count] */
  _Atomic uint32_t num_plugin_ops;
  device_type *types[DEVICE_TYPES_MAX];
  _Atomic uint32_t num_types;
  _Atomic(plugin_entry *) plugins; /* in order of registration; whoever walks takes no lock */
  _Atomic(plugin_entry *) *plugins_tail;
  bool deterministic_only;
  tn_kernel_fn layers_run;        /* NULL while no layer is on */
  tn_kernel_fn deterministic_run; /* stands before a kernel's own where it is not NULL */
  /* Stands before a row's for any host device where the device works beside the host, and waits
   * for its work; NULL: rows are run as on any other. */
  tn_kernel_fn host_row_run;
} registry;

tn_status registry_init(const host_memory *memory, registry *r);
/* Calls the plugins' close. */
void registry_free(const host_memory *memory, registry *r);

/* Called for each type of device that a plugin brings, before it can be found. */
typedef tn_status registry_type_fn(device_type *type, void *ctx);

/* Registers all that a plugin brings but for operators whose names are taken, and their kernels,
 * or nothing: on failure, which may be found_type's, the plugin has been closed and the registry is
 * as before. New device types are appended to r->types. found_type may be NULL. pre: the runtime's
 * mutex `loading` is held. */
tn_status registry_add(const host_memory *memory, registry *r, const tn_host *host,
                       const tn_plugin *plugin, registry_type_fn *found_type, void *ctx);

/* unregister.c: takes back what a plugin brought. pre: the runtime's mutex `loading` is held. */
void registry_unregister(registry *r, plugin_entry *entry);
/* Gives it again, but for operators whose names are taken by now. TN_ERR_PLUGIN_REFUSED where
 * another plugin has brought a type of device since, TN_ERR_OUT_OF_MEMORY. */
tn_status registry_restore(const host_memory *memory, registry *r, plugin_entry *entry);

/* join.c: makes cells for the kernels that wait for operators of the entry, on the registry's types
 * of device and those to come. TN_ERR_OUT_OF_MEMORY. */
tn_status join_prepare(const host_memory *memory, const registry *r, plugin_entry *entry,
                       device_type *const *new_types, uint32_t num_new_types);
/* Lets readers see them. pre: join_prepare, and the operators and types can be found. */
void join(const registry *r, plugin_entry *entry);

/* operator.c: an operator of Tenon's own, and a copy of a plugin's, which plugin_check has passed.
 * What a failure leaves behind operator_free gives back. TN_ERR_OUT_OF_MEMORY. */
tn_status operator_make(const host_memory *memory, const tn_operator *row, op_entry *e);
tn_status operator_take(const host_memory *memory, const tn_operator *row, uint32_t id,
                        op_entry *e);
void operator_free(const host_memory *memory, op_entry *e);
/* Copies the part of a plugin's struct that both sides know; the rest is zero. */
void copy_known(void *to, size_t size, const void *from, uint32_t from_size);

/* cell.c: links a cell in before the first of lower priority; equal ones stay in front. */
void registry_link(cell_slot *slot, cell *c);

/* Makes every cell run `fn` instead of its kernel (for layers), now and for plugins to
 * come. pre: no call is under way. */
void registry_set_layers(registry *r, tn_kernel_fn fn);

/* known_attrs.c: a row that was compiled before some attributes of its operator were there must
 * not get calls that set them: its `supports` becomes one that sees to it. Rows of operators to
 * which nothing was appended, and rows that know all, stay as they are. pre: k->op is set. */
void known_attrs_guard(kernel_entry *k);

/* registry_check.c, for invariant.h. pre: the runtime's mutex is held. Best first, all of one
 * slot and none twice: */
bool cells_are_ordered(cell_slot *slot);
/* Every slot of every type, and that operators are found by their numbers. */
bool registry_is_valid(const registry *r);

/* cell.c: what runs a row on a device of this type (NULL: not known) while no layer is on: the
 * kernel's own function, or one that makes it wait or compute in the default floating-point mode.
 */
tn_kernel_fn registry_run_fn(const registry *r, const tn_kernel *row, const tn_backend *backend);
/* The same on a device that waits for nothing. */
static inline tn_kernel_fn registry_run_plain_fn(const registry *r, const tn_kernel *row) {
  return r->deterministic_run ? r->deterministic_run : row->run;
}

/* cell.c: whether a kernel is for devices of the type, and is to be used at all. */
bool kernel_serves(const registry *r, const kernel_entry *k, const device_type *t);
/* How many cells a kernel for the operator gets on each type that it serves. */
size_t cells_count(const op_entry *op, const kernel_entry *k);
cell_block *cell_block_make(const host_memory *memory, size_t capacity);
/* Makes them, and links them in unless the kernel's plugin is away. pre: k->op is set. */
void cells_fill(const registry *r, cell_block *block, const kernel_entry *k, device_type *t);
/* What the cell runs from now on: its kernel, or the layers that are on. */
void cell_set_run(const registry *r, cell *c);
/* cell.c: fills as much of *info as it has room for. */
void cell_describe(const cell *c, tn_kernel_info *info);

static inline op_entry *registry_op(const registry *r, uint32_t op) {
  return op < OPS_MAX ? atomic_load_explicit(&r->ops[op], memory_order_acquire) : NULL;
}

static inline cell *registry_cells(cell_slot *table, uint32_t op, tn_dtype dtype) {
  return atomic_load_explicit(&table[op * TN_DTYPE_SLOTS + (uint32_t)dtype], memory_order_acquire);
}

/* e, or NULL for none, is the operator of that number from now on. */
void registry_put_op(registry *r, uint32_t op, op_entry *e);
op_entry *registry_find_op(const registry *r, const char *name);
/* How many there are, and the index-th by number, or NULL. */
size_t registry_count_ops(const registry *r);
op_entry *registry_op_at(const registry *r, size_t index);
device_type *registry_find_type(const registry *r, const char *name);

#endif
