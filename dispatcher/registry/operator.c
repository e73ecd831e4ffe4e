/* One operator with what validation needs in handy form: Tenon's own, or a plugin's. */
#include <string.h>

#include "dispatcher/registry/registry.h"

/* Bytes of the rows whose distance an operator does not state. */
enum {
  ARG_SIZE_1 = offsetof(tn_arg, reserved2) + sizeof(uint64_t),
  ATTR_SIZE_1 = offsetof(tn_attr, reserved2) + sizeof(uint64_t),
};

void copy_known(void *to, size_t size, const void *from, uint32_t from_size) {
  memset(to, 0, size);
  memcpy(to, from, from_size < size ? from_size : size);
}

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
  case TN_ATTR_TENSOR:
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

/* Most attributes can be anything; calls look at the others. */
static bool needs_check(const tn_attr *a) {
  switch (a->type) {
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
  case TN_ATTR_AXES:
  case TN_ATTR_DIMS:
  case TN_ATTR_TENSOR:
    return true;
  default:
    return a->low_bound || a->high_bound;
  }
}

static tn_status op_checks(const host_memory *memory, op_entry *e) {
  if (e->row.num_attrs == 0) return TN_OK;
  e->checked = host_alloc(memory, e->row.num_attrs * sizeof *e->checked);
  if (!e->checked) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the operator table");
  for (uint32_t i = 0; i < e->row.num_attrs; ++i) {
    const tn_attr *a = &e->row.attrs[i];
    e->num_tensors += a->type == TN_ATTR_TENSOR;
    if (needs_check(a)) e->checked[e->num_checked++] = a;
  }
  return TN_OK;
}

tn_status operator_make(const host_memory *memory, const tn_operator *row, op_entry *e) {
  e->row = *row;
  op_prepare(e);
  tn_status status = op_checks(memory, e);
  return status ? status : op_defaults(memory, e);
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

tn_status operator_take(const host_memory *memory, const tn_operator *row, uint32_t id,
                        op_entry *e) {
  copy_known(&e->row, sizeof e->row, row, row->struct_size);
  e->row.id = id;
  for (int v = 0; v < TN_MAX_TYPE_VARS; ++v) e->row.types[v] &= TN_SET_STORED;
  tn_status status = own_tables(memory, e);
  if (status) return status;
  op_prepare(e);
  status = op_checks(memory, e);
  return status ? status : op_defaults(memory, e);
}

void operator_free(const host_memory *memory, op_entry *e) {
  host_free(memory, e->checked);
  host_free(memory, e->defaults);
  host_free(memory, e->tables);
}
