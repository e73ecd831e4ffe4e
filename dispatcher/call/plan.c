/*
 * Validation: from a call to a plan. This is the hot path: no lock, no allocation but
 * the outputs', no string unless the call is refused.
 */
#include "dispatcher/call/plan.h"

#include <string.h>

#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/tracked.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Steps of plan_make that plan_list.c takes too: the hot path keeps its own copy. */
#define INLINE inline __attribute__((always_inline))

/* --- the call's outline: device, operator, counts --- */

const tn_tensor *call_first_tensor(const tn_call *call) {
  for (uint32_t i = 0; i < call->num_in; ++i)
    if (call->in[i]) return call->in[i];
  for (uint32_t i = 0; i < call->num_out; ++i)
    if (call->out[i]) return call->out[i];
  return NULL;
}

bool call_is_whole(const tn_call *call) {
  return call && call->struct_size >= CALL_SIZE_1 && (call->in || !call->num_in) &&
         (call->out || !call->num_out);
}

/* The call has other numbers of tensors than the operator. */
static tn_status wrong_counts(const plan *p, const tn_call *call) {
  if (p->op->lists) return (tn_status)PLAN_OF_LISTS;
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: %u inputs and %u outputs given, it has %u and %u",
              p->op->row.name, call->num_in, call->num_out, p->op->call_in, p->op->call_out);
}

static tn_status outline(plan *p, const tn_call *call) {
  if (unlikely(!call_is_whole(call))) return call_refuse(call);
  const tn_tensor *t = call_first_tensor(call);
  if (unlikely(!t)) return call_refuse_empty(call->op);
  p->device = t->device;
  if (unlikely(!device_is_ordinary(p->device))) {
    tn_status status = call_attend(t, call->op);
    if (status) return status;
  }
  p->op = registry_op(&p->device->runtime->registry, call->op);
  if (unlikely(!p->op))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_invoke: %u is no operator", call->op);
  p->num_in = call->num_in;
  p->num_out = call->num_out;
  if (unlikely(p->num_in != p->op->call_in || p->num_out != p->op->call_out))
    return wrong_counts(p, call);
  p->stream = call->stream ? call->stream : p->device->default_stream;
  p->made = p->num_temps = p->via = 0;
  p->skipped = call->skip_out;
  p->expanded = false;
  p->workspace = NULL;
  memset(p->types, 0, sizeof p->types);
  for (uint32_t i = 0; i < p->num_in; ++i) p->in[i] = call->in[i];
  for (uint32_t i = 0; i < p->num_out; ++i) p->out[i] = call->out[i];
  if (unlikely(p->stream->device != p->device))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the stream is of device %s",
                       p->stream->device->id);
  return TN_OK;
}

/* --- element types and devices --- */

tn_dtype plan_type_of(const plan *p, uint32_t arg) { return plan_type(p, p->op->arg[arg].type); }

/* The attribute that may say the first output's type. pre: there is one. */
static const char *result_name(const plan *p) {
  const tn_attr *a = p->op->row.attrs;
  while (a->type != TN_ATTR_RESULT) ++a;
  return a->name;
}

static tn_status wrong_type(const plan *p, uint32_t arg, const tn_tensor *t) {
  uint8_t type = p->op->arg[arg].type;
  const char *name = p->op->row.args[arg].name;
  if (type == RESULT_VAR && p->op->result_type != NO_RESULT)
    return plan_refuse(
        p, TN_ERR_INVALID_ARGUMENT, "%s is %s where attrs->%s makes it %s; set that or use tn_cast",
        name, tn_dtype_name((tn_dtype)t->dtype), result_name(p), tn_dtype_name(plan_type(p, type)));
  if (!TN_TYPE_IS_VAR(type))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s must be %s; use tn_cast", name,
                       tn_dtype_name(plan_type(p, type)));
  if (p->types[type])
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s is %s where %s is called for; use tn_cast",
                       name, tn_dtype_name((tn_dtype)t->dtype),
                       tn_dtype_name((tn_dtype)p->types[type]));
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the operator does not take %s; use tn_cast",
                     tn_dtype_name((tn_dtype)t->dtype));
}

static tn_status wrong_device(const plan *p, uint32_t arg, const tn_tensor *t) {
  if (tracked_is_released(t)) return call_refuse_released(t, p->op->row.id, TN_OK);
  if (t->device->recorder || p->device->recorder)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "%s is of %s, another tensor of %s: a graph takes its own symbolic tensors "
                       "alone; give it real ones with tn_graph_parameter or tn_graph_constant",
                       p->op->row.args[arg].name, t->device->id, p->device->id);
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                     "%s is on device %s, another tensor on %s; use tn_tensor_to_device",
                     p->op->row.args[arg].name, t->device->id, p->device->id);
}

/* Checks tensor `t` as argument `arg` and binds its type variable. */
static inline tn_status bind(plan *p, uint32_t arg, const tn_tensor *t) {
  if (unlikely(t->device != p->device)) return wrong_device(p, arg, t);
  uint8_t type = p->op->arg[arg].type;
  bool fits;
  if (!TN_TYPE_IS_VAR(type) || p->types[type]) {
    fits = plan_type(p, type) == (tn_dtype)t->dtype;
  } else {
    fits = p->op->row.types[type] >> t->dtype & 1;
    if (likely(fits)) p->types[type] = t->dtype;
  }
  return likely(fits) ? TN_OK : wrong_type(p, arg, t);
}

tn_status plan_bind(plan *p, uint32_t arg, const tn_tensor *t) { return bind(p, arg, t); }

static tn_status bind_inputs(plan *p) {
  tn_status status;
  for (uint32_t i = 0; i < p->num_in; ++i) {
    if (likely(p->in[i] != NULL)) {
      status = bind(p, i, p->in[i]);
      if (unlikely(status)) return status;
    } else if (p->op->arg[i].kind != TN_ARG_OPTIONAL_IN) {
      if (unlikely(status = plan_bind_absent(p, i))) return status;
    }
  }
  for (uint32_t i = 0; i < p->op->num_inout; ++i) {
    if (unlikely(!p->out[i]))
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                         "%s is NULL; it is updated in place and must be given",
                         p->op->row.args[p->num_in + i].name);
    status = bind(p, p->num_in + i, p->out[i]);
    if (unlikely(status)) return status;
  }
  return TN_OK;
}

/* --- attributes --- */

/* An attribute struct of another version: known fields over the defaults. */
static tn_status complete_attrs(plan *p, const void *given, uint32_t size) {
  uint32_t known = p->op->row.attrs_size;
  if (size < sizeof(uint32_t) || size > ATTRS_MAX)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "attrs->struct_size is %u: set it to sizeof(tn_%s_attrs), which is %u", size,
                       p->op->row.name, known);
  for (uint32_t i = known; i < size; ++i)
    if (((const unsigned char *)given)[i])
      return plan_refuse(p, TN_ERR_UNSUPPORTED,
                         "attrs has fields that this version of Tenon does not know");
  memcpy(p->attrs, p->op->defaults, known);
  memcpy(p->attrs, given, size < known ? size : known);
  memcpy(p->attrs, &known, sizeof known);
  p->args.attrs = p->attrs;
  return TN_OK;
}

static bool inside_bounds(const tn_attr *a, double value) {
  bool low = a->low_bound == TN_BOUND_NONE || value > a->low ||
             (a->low_bound == TN_BOUND_CLOSED && value == a->low);
  bool high = a->high_bound == TN_BOUND_NONE || value < a->high ||
              (a->high_bound == TN_BOUND_CLOSED && value == a->high);
  return low && high;
}

/* Reads number i of an attribute; false if it has no more. */
static bool attr_number(const char *at, uint32_t type, int32_t i, double *value) {
  const int64_t *whole = (const void *)at;
  switch (type) {
  case TN_ATTR_F64:
    *value = *(const double *)(const void *)at;
    return i < 1;
  case TN_ATTR_U64:
    *value = (double)*(const uint64_t *)(const void *)at;
    return i < 1;
  case TN_ATTR_I64:
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    if (i >= (type == TN_ATTR_I64 ? 1 : type == TN_ATTR_PAIR ? 2 : 3)) return false;
    *value = (double)whole[i];
    return true;
  case TN_ATTR_DIMS: {
    const tn_dims *dims = (const void *)at;
    *value = i < dims->count ? (double)dims->dim[i] : 0;
    return i < dims->count;
  }
  default:
    return false;
  }
}

/* An attribute of kind dtype says what the first output's type variable is. */
static tn_status bind_dtype(plan *p, const tn_attr *a, int32_t dtype) {
  const tn_operator *row = &p->op->row;
  uint8_t var = p->op->arg[p->op->num_in + p->op->num_inout].type;
  if (dtype < 0 || dtype >= TN_DTYPE_SLOTS || !(row->types[var] >> dtype & 1))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "attrs->%s is %d (%s)", a->name, dtype,
                       tn_dtype_name((tn_dtype)dtype));
  p->types[var] = (uint8_t)dtype;
  return TN_OK;
}

/* Attributes whose first number is a type or a count, or that are tensors. */
enum {
  COUNTED = 1 << TN_ATTR_AXES | 1 << TN_ATTR_DIMS,
  LED = COUNTED | 1 << TN_ATTR_DTYPE | 1 << TN_ATTR_RESULT | 1 << TN_ATTR_TENSOR,
};

static tn_status check_lead(plan *p, const tn_attr *a, const char *at) {
  int32_t lead;
  if (a->type == TN_ATTR_TENSOR) return plan_bind_attr_tensor(p, a);
  memcpy(&lead, at, sizeof lead);
  if (a->type == TN_ATTR_DTYPE) return bind_dtype(p, a, lead);
  if (a->type == TN_ATTR_RESULT) return plan_bind_result(p, a, lead);
  if (lead >= 0 && lead <= TN_MAX_RANK) return TN_OK;
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "attrs->%s.count is %d, it must be 0 to %d",
                     a->name, lead, TN_MAX_RANK);
}

static INLINE tn_status check_attr(plan *p, const tn_attr *a) {
  const char *at = (const char *)p->args.attrs + a->offset;
  if (a->type == TN_ATTR_TENSOR && likely(!*(const tn_tensor *const *)(const void *)at))
    return TN_OK;
  tn_status status = LED >> a->type & 1 ? check_lead(p, a, at) : TN_OK;
  if (unlikely(status)) return status;
  double value;
  if (likely(a->low_bound == TN_BOUND_NONE && a->high_bound == TN_BOUND_NONE)) return TN_OK;
  for (int32_t i = 0; attr_number(at, a->type, i, &value); ++i)
    if (unlikely(!inside_bounds(a, value))) return plan_refuse_bounds(p, a, value);
  return TN_OK;
}

static INLINE tn_status take_attrs(plan *p, const void *given) {
  const tn_operator *row = &p->op->row;
  tn_status status = TN_OK;
  if (row->attrs_size == 0 || !given) {
    p->args.attrs = p->op->defaults;
  } else {
    uint32_t size;
    memcpy(&size, given, sizeof size);
    if (likely(size == row->attrs_size))
      p->args.attrs = given;
    else
      status = complete_attrs(p, given, size);
  }
  for (uint32_t i = 0; !status && i < p->op->num_checked; ++i)
    status = check_attr(p, p->op->checked[i]);
  return status;
}

/* --- outputs --- */

/* Of two whose ranges in memory overlap. */
static bool share_elements(const tn_tensor *a, const tn_tensor *b) {
  uint32_t work = OVERLAP_WORK;
  return tensors_share_elements(a, b, &work);
}

static tn_status check_written(const plan *p, uint32_t i) {
  const tn_tensor *y = p->out[i];
  const char *name = p->op->row.args[p->num_in + i].name;
  if (unlikely(y->read_only))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s is read-only", name);
  if (unlikely(tensor_repeats_elements(y)))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "%s has the same element in several places and cannot be written", name);
  for (uint32_t k = 0; k < p->num_in; ++k) {
    if (!p->in[k] || likely(!tensors_interleave(y, p->in[k]))) continue;
    if (p->op->elementwise && tensors_same_view(y, p->in[k])) continue;
    if (!share_elements(y, p->in[k])) continue;
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s overlaps %s%s", name,
                       p->op->row.args[k].name,
                       p->op->elementwise ? " without being the same view" : "");
  }
  for (uint32_t k = 0; k < i; ++k)
    if (p->out[k] && !(p->made >> k & 1) && unlikely(tensors_interleave(y, p->out[k])) &&
        share_elements(y, p->out[k]))
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s overlaps %s", name,
                         p->op->row.args[p->num_in + k].name);
  return TN_OK;
}

static tn_status check_given(plan *p, uint32_t i, const extents *shape) {
  const tn_tensor *y = p->out[i];
  tn_status status = bind(p, p->num_in + i, y);
  if (unlikely(status)) return status;
  if (unlikely(y->dl.ndim != shape->rank ||
               memcmp(y->shape, shape->dim, (size_t)shape->rank * sizeof *shape->dim) != 0)) {
    char text[128];
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s must have shape %s",
                       p->op->row.args[p->num_in + i].name,
                       shape_text(text, sizeof text, shape->rank, shape->dim));
  }
  return check_written(p, i);
}

static tn_status make_output(plan *p, uint32_t i, const extents *shape) {
  uint8_t type = p->op->arg[p->num_in + i].type;
  tn_dtype dtype = plan_type(p, type);
  int64_t elements;
  if (unlikely(!dtype))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "nothing says what type %s has; give it",
                       p->op->row.args[p->num_in + i].name);
  if (unlikely(!shape_elements(shape->rank, shape->dim, tn_dtype_size(dtype), &elements)))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the size of %s overflows",
                       p->op->row.args[p->num_in + i].name);
  tn_status status =
      tensor_make(p->device, p->stream, dtype, shape->rank, shape->dim, elements, &p->out[i]);
  if (likely(!status))
    p->made |= 1u << i;
  else
    fail_prefix("tn_%s: %s: ", p->op->row.name, p->op->row.args[p->num_in + i].name);
  return status;
}

static inline bool is_skipped(const plan *p, uint32_t i) {
  return p->skipped >> (i - p->op->num_inout) & 1;
}

static tn_status take_outputs(plan *p) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < p->op->num_inout; ++i) {
    status = check_written(p, i);
    if (unlikely(status)) return status;
  }
  for (uint32_t i = p->op->num_inout; i < p->num_out; ++i) {
    if (unlikely(is_skipped(p, i)) &&
        (p->out[i] || p->op->arg[p->num_in + i].kind != TN_ARG_OPTIONAL_OUT))
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the result pointer for %s is NULL",
                         p->op->row.args[p->num_in + i].name);
    if (!p->out[i]) continue;
    status = check_given(p, i, &p->shape[i - p->op->num_inout]);
    if (unlikely(status)) return status;
  }
  for (uint32_t i = p->op->num_inout; i < p->num_out; ++i) {
    if (p->out[i] || is_skipped(p, i)) continue;
    status = make_output(p, i, &p->shape[i - p->op->num_inout]);
    if (unlikely(status)) return status;
  }
  return status;
}

/* --- how kernels see the tensors --- */

/* Shows an input in the output's shape, with stride 0 where it repeats. */
static void expand_input(plan *p, uint32_t i, const DLTensor *y) {
  struct expansion *e = &p->expansion[i];
  const DLTensor *x = &p->in[i]->dl;
  e->dl = *x;
  e->dl.ndim = y->ndim;
  e->dl.shape = y->shape;
  e->dl.strides = e->strides;
  int32_t added = y->ndim - x->ndim;
  for (int32_t d = 0; d < y->ndim; ++d)
    e->strides[d] = d < added || x->shape[d - added] != y->shape[d] ? 0 : x->strides[d - added];
  p->in_view[i] = &e->dl;
  p->expanded = true;
}

static INLINE void set_views(plan *p) {
  for (uint32_t i = 0; i < p->num_out; ++i) p->out_view[i] = p->out[i] ? &p->out[i]->dl : NULL;
  for (uint32_t i = 0; i < p->num_in; ++i) p->in_view[i] = p->in[i] ? &p->in[i]->dl : NULL;
  if (!p->op->elementwise) { /* such have no axes either */
    plan_count_axes(p, p->in_view, p->out_view);
    return;
  }
  const DLTensor *y = p->out_view[0];
  for (uint32_t i = 0; i < p->num_in; ++i) {
    const DLTensor *x = p->in_view[i];
    if (x && unlikely(x->ndim != y->ndim ||
                      memcmp(x->shape, y->shape, (size_t)y->ndim * sizeof *y->shape) != 0))
      expand_input(p, i, y);
  }
}

static inline void note_streams(plan *p) {
  if (p->device->synchronous) return;
  for (uint32_t i = 0; i < p->num_in; ++i)
    if (p->in[i] && p->in[i]->storage->block &&
        unlikely(p->in[i]->storage->block->cache != p->stream->cache))
      pool_note_use(p->in[i]->storage->block, p->stream->cache);
  for (uint32_t i = 0; i < p->num_out; ++i)
    if (p->out[i] && p->out[i]->storage->block &&
        unlikely(p->out[i]->storage->block->cache != p->stream->cache))
      pool_note_use(p->out[i]->storage->block, p->stream->cache);
}

static INLINE void set_args(plan *p) {
  tn_kernel_args *a = &p->args;
  a->struct_size = ARGS_SIZE_UNKEPT;
  a->num_in = (uint16_t)p->num_in;
  a->num_out = (uint16_t)p->num_out;
  a->in = p->in_view;
  a->out = p->out_view;
  a->host = &p->device->runtime->host;
  a->kernel = NULL;
  a->device = p->device->handle;
  a->queue = p->stream->queue;
  a->native_stream = p->stream->native;
  a->workspace = NULL;
  a->workspace_bytes = 0;
}

/* --- the kernel --- */

static bool is_taken(plan *p, const tn_kernel *row) {
  /* Layers tell streams of a synchronous device by queues that only they see. */
  void *queue = p->args.queue;
  p->args.queue = stream_queue(p->stream);
  bool taken = row->supports(&p->args);
  p->args.queue = queue;
  return taken;
}

static bool takes(plan *p, const cell *c) {
  const tn_kernel *row = &c->kernel->row;
  for (int v = 1; v < TN_MAX_TYPE_VARS; ++v)
    if (!(kernel_types(c->kernel, v) >> p->types[v] & 1) && p->types[v]) return false;
  if (!row->supports) return true;
  const bool turned = p->made && row->flags & TN_KERNEL_CHANNELS_LAST && plan_turn_outputs(p);
  if (is_taken(p, row)) return true;
  if (turned) plan_turn_outputs_back(p);
  return false;
}

static INLINE void pick_kernel(plan *p) {
  const cell *c = registry_cells(p->device->table, p->op->row.id, (tn_dtype)p->types[0]);
  for (; c; c = atomic_load_explicit(&c->next, memory_order_acquire)) {
    p->args.kernel = &c->kernel->row;
    if (likely(c->direct) || takes(p, c)) break;
  }
  p->cell = c;
  if (unlikely(!c)) p->args.kernel = NULL;
}

void plan_pick_candidate(plan *p, uint32_t rank) {
  if (p->cell && rank && p->made) plan_turn_outputs_back(p);
  for (; p->cell && rank; --rank) {
    const cell *c = p->cell;
    while ((c = atomic_load_explicit(&c->next, memory_order_acquire))) {
      p->args.kernel = &c->kernel->row;
      if (c->direct || takes(p, c)) break;
    }
    p->cell = c;
  }
  if (!p->cell) p->args.kernel = NULL;
}

tn_status plan_take_attrs(plan *p, const void *given) { return take_attrs(p, given); }
void plan_set_args(plan *p) { set_args(p); }
void plan_set_views(plan *p) { p->op->lists ? list_set_views(p) : set_views(p); }
void plan_pick_kernel(plan *p) { pick_kernel(p); }

tn_status plan_make(plan *p, const tn_call *call) {
  tn_status status = outline(p, call);
  if (unlikely(status)) return status;
  status = bind_inputs(p);
  if (unlikely(status)) return status;
  status = take_attrs(p, call->attrs);
  if (unlikely(status)) return status;
  const DLTensor *inout[TN_MAX_ARGS];
  for (uint32_t i = 0; i < p->op->num_inout; ++i) inout[i] = &p->out[i]->dl;
  for (uint32_t i = 0; i < p->num_in; ++i) p->in_view[i] = p->in[i] ? &p->in[i]->dl : NULL;
  shape_query query = {&p->op->row, &p->device->runtime->host, p->in_view,    p->num_in,
                       inout,       p->op->num_inout,          p->args.attrs, 0};
  status = shape_infer(&query, p->shape, p->op->num_out);
  if (unlikely(status)) return status;
  status = take_outputs(p);
  if (unlikely(status)) {
    plan_abandon(p);
    return status;
  }
  set_views(p);
  note_streams(p);
  set_args(p);
  pick_kernel(p);
  return TN_OK;
}

void plan_abandon(plan *p) {
  for (uint32_t i = 0; i < p->num_out; ++i)
    if (p->made >> i & 1) tn_tensor_release(p->out[i]);
  p->made = 0;
}
