/*
 * Plans of calls with lists among their arguments. Such calls are few and large, so this
 * way takes memory and is written for any number of tensors; plan.c, which shares its
 * parts with this file, is the way of all others. The checks are the same.
 */
#include <stdio.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/transfer.h"

/* --- where an argument's tensors stand --- */

/* An argument's tensors: `count` from place `first` on, among in or among out. */
typedef struct place {
  bool begun, output;
  uint32_t arg, first, count;
} place;

/* Goes on to the next argument, from a zeroed place to the first; false behind the last. */
static bool next_place(const plan *p, place *at) {
  if (at->begun) {
    at->first += at->count;
    ++at->arg;
  }
  at->begun = true;
  if (at->arg == p->op->num_in && !at->output) at->first = 0, at->output = true;
  if (at->arg >= p->op->row.num_args) return false;
  at->count = p->op->arg[at->arg].flags & TN_ARG_LIST ? p->list->length : 1;
  return true;
}

/* "x" or "x[3]": the tensor at `index` of in or of out. */
static const char *tensor_name(const plan *p, bool output, uint32_t index, char *text,
                               size_t size) {
  snprintf(text, size, "?");
  for (place at = {0}; next_place(p, &at);) {
    if (at.output != output || index < at.first || index >= at.first + at.count) continue;
    const char *name = p->op->row.args[at.arg].name;
    if (p->op->arg[at.arg].flags & TN_ARG_LIST)
      snprintf(text, size, "%s[%u]", name, index - at.first);
    else
      snprintf(text, size, "%s", name);
  }
  return text;
}

void list_text(const plan *p, char *text, size_t size) {
  char one[256];
  size_t used = 0;
  *text = 0;
  if (!p->list) return;
  for (place at = {0}; next_place(p, &at);) {
    const tn_tensor *first = at.output ? p->list->out[at.first] : p->list->in[at.first];
    if (!first && p->op->arg[at.arg].kind >= TN_ARG_OUT) continue;
    if (used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%s = ", used ? ", " : "",
                               p->op->row.args[at.arg].name);
    if (used < size && p->op->arg[at.arg].flags & TN_ARG_LIST)
      used += (size_t)snprintf(text + used, size - used, "%u tensors, first ", at.count);
    if (used < size)
      used += (size_t)snprintf(text + used, size - used, "%s", tensor_text(one, sizeof one, first));
  }
}

/* --- the outline --- */

uint32_t call_list_length(const op_entry *op, const tn_call *call) {
  uint32_t in = 0, out = 0, in_lists = 0, out_lists = 0;
  for (uint32_t i = 0; i < op->row.num_args; ++i) {
    bool list = op->arg[i].flags & TN_ARG_LIST;
    i < op->num_in ? (in_lists += list, in += !list) : (out_lists += list, out += !list);
  }
  if (call->num_in < in || call->num_out < out) return 0;
  uint32_t length = in_lists ? (call->num_in - in) / in_lists : (call->num_out - out) / out_lists;
  bool fits = call->num_in == in + length * in_lists && call->num_out == out + length * out_lists;
  return fits ? length : 0;
}

static size_t list_bytes(uint32_t num_in, uint32_t num_out) {
  return sizeof(list_plan) + (3 * (size_t)num_in + 4 * (size_t)num_out) * sizeof(void *);
}

static tn_status list_alloc(plan *p, const tn_call *call, uint32_t length) {
  list_plan *l = host_alloc(&p->device->runtime->memory, list_bytes(call->num_in, call->num_out));
  if (!l) return plan_refuse(p, TN_ERR_OUT_OF_MEMORY, "no host memory");
  uint32_t num_in = call->num_in, num_out = call->num_out;
  l->length = length;
  l->num_in = num_in;
  l->num_out = num_out;
  l->num_inout = num_out - p->op->num_out;
  l->in = (const tn_tensor **)(void *)(l + 1);
  l->out = (tn_tensor **)(void *)(l->in + num_in);
  l->in_view = (const DLTensor **)(void *)(l->out + num_out);
  l->out_view = (DLTensor **)(void *)(l->in_view + num_in);
  l->via = (tn_tensor **)(void *)(l->out_view + num_out);
  l->temps = l->via + num_out;
  for (uint32_t i = 0; i < num_in; ++i) l->in[i] = call->in[i];
  for (uint32_t i = 0; i < num_out; ++i) l->out[i] = call->out[i];
  p->list = l;
  return TN_OK;
}

/* pre: plan_make has set device and op. */
static tn_status list_outline(plan *p, const tn_call *call) {
  p->list = NULL;
  p->num_in = p->num_out = p->num_temps = p->made = p->via = 0;
  p->skipped = call->skip_out;
  p->expanded = false;
  p->workspace = NULL;
  p->cell = NULL;
  memset(p->types, 0, sizeof p->types);
  p->stream = call->stream ? call->stream : p->device->default_stream;
  uint32_t length = call_list_length(p->op, call);
  if (length == 0)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_%s: %u inputs and %u outputs given; its lists must be of one length, which is "
                "at least 1",
                p->op->row.name, call->num_in, call->num_out);
  if (length > TN_MAX_LIST)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: lists of %u tensors given, the most are %d",
                p->op->row.name, length, TN_MAX_LIST);
  tn_status status = list_alloc(p, call, length);
  if (status) return status;
  if (p->stream->device != p->device)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the stream is of device %s",
                       p->stream->device->id);
  return TN_OK;
}

/* --- types, devices, outputs --- */

static tn_status bind_argument(plan *p, const place *at) {
  uint8_t kind = p->op->arg[at->arg].kind;
  char name[96];
  for (uint32_t i = at->first; i < at->first + at->count; ++i) {
    const tn_tensor *t = at->output ? p->list->out[i] : p->list->in[i];
    if (!t && kind != TN_ARG_IN && kind != TN_ARG_INOUT) continue;
    if (!t)
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s is NULL",
                         tensor_name(p, at->output, i, name, sizeof name));
    tn_status status = plan_bind(p, at->arg, t);
    if (status) return status;
  }
  return TN_OK;
}

/* Inputs and in-out tensors; results follow when their shapes are known. */
static tn_status bind_given(plan *p) {
  for (place at = {0}; next_place(p, &at);) {
    tn_status status = p->op->arg[at.arg].kind < TN_ARG_OUT ? bind_argument(p, &at) : TN_OK;
    if (status) return status;
  }
  return TN_OK;
}

/* A result that the caller gave, if he gave it. */
static tn_status check_result(plan *p, uint32_t k) {
  const tn_tensor *y = p->list->out[p->list->num_inout + k];
  uint32_t arg = (uint32_t)(p->op->num_in + p->op->num_inout) + k;
  const extents *shape = &p->shape[k];
  char text[128];
  if (p->skipped >> k & 1 && (y || p->op->arg[arg].kind != TN_ARG_OPTIONAL_OUT))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the result pointer for %s is NULL",
                       p->op->row.args[arg].name);
  if (!y) return TN_OK;
  tn_status status = plan_bind(p, arg, y);
  if (status) return status;
  if (y->dl.ndim == shape->rank &&
      memcmp(y->shape, shape->dim, (size_t)shape->rank * sizeof *shape->dim) == 0)
    return TN_OK;
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s must have shape %s", p->op->row.args[arg].name,
                     shape_text(text, sizeof text, shape->rank, shape->dim));
}

static tn_status refuse_overlap(const plan *p, const span *a, const span *b) {
  char first[96], second[96];
  uint32_t num_in = p->list->num_in;
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s overlaps %s",
                     tensor_name(p, true, a->index - num_in, first, sizeof first),
                     b->index < num_in
                         ? tensor_name(p, false, b->index, second, sizeof second)
                         : tensor_name(p, true, b->index - num_in, second, sizeof second));
}

/* No tensor that is written shares memory with another one. */
static tn_status check_memory(const plan *p) {
  const list_plan *l = p->list;
  const host_memory *memory = &p->device->runtime->memory;
  uint32_t all = l->num_in + l->num_out, count = 0;
  const span *a, *b;
  span *spans = host_alloc(memory, 2 * (size_t)all * sizeof *spans);
  if (!spans) return plan_refuse(p, TN_ERR_OUT_OF_MEMORY, "no host memory");
  for (uint32_t i = 0; i < all; ++i) {
    const tn_tensor *t = i < l->num_in ? l->in[i] : l->out[i - l->num_in];
    if (!t || t->elements == 0) continue;
    span_of(t, &spans[count]);
    spans[count].index = i;
    spans[count++].written = i >= l->num_in;
  }
  tn_status status = TN_OK;
  if (spans_overlap(spans, spans + all, count, &a, &b)) status = refuse_overlap(p, a, b);
  host_free(memory, spans);
  return status;
}

static tn_status check_written(const plan *p) {
  const list_plan *l = p->list;
  char name[96];
  for (uint32_t i = 0; i < l->num_out; ++i) {
    const tn_tensor *y = l->out[i];
    if (!y || (!y->read_only && !tensor_repeats_elements(y))) continue;
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       y->read_only
                           ? "%s is read-only"
                           : "%s has the same element in several places and cannot be written",
                       tensor_name(p, true, i, name, sizeof name));
  }
  return check_memory(p);
}

static tn_status make_result(plan *p, uint32_t k) {
  list_plan *l = p->list;
  uint32_t i = l->num_inout + k, arg = (uint32_t)(p->op->num_in + p->op->num_inout) + k;
  const extents *shape = &p->shape[k];
  tn_dtype dtype = plan_type_of(p, arg);
  int64_t elements;
  if (l->out[i] || p->skipped >> k & 1) return TN_OK;
  if (!dtype)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "nothing says what type %s has; give it",
                       p->op->row.args[arg].name);
  if (!shape_elements(shape->rank, shape->dim, tn_dtype_size(dtype), &elements))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the size of %s overflows",
                       p->op->row.args[arg].name);
  tn_status status =
      tensor_make(p->device, p->stream, dtype, shape->rank, shape->dim, elements, &l->out[i]);
  if (status)
    fail_prefix("tn_%s: %s: ", p->op->row.name, p->op->row.args[arg].name);
  else
    l->made |= 1u << k;
  return status;
}

static tn_status take_results(plan *p) {
  tn_status status = TN_OK;
  for (uint32_t k = 0; !status && k < p->op->num_out; ++k) status = check_result(p, k);
  if (!status) status = check_written(p);
  for (uint32_t k = 0; !status && k < p->op->num_out; ++k) status = make_result(p, k);
  return status;
}

/* --- the kernel's side --- */

void list_set_views(plan *p) {
  list_plan *l = p->list;
  for (uint32_t i = 0; i < l->num_in; ++i) l->in_view[i] = l->in[i] ? &l->in[i]->dl : NULL;
  for (uint32_t i = 0; i < l->num_out; ++i) l->out_view[i] = l->out[i] ? &l->out[i]->dl : NULL;
}

static void note_stream(const plan *p, const tn_tensor *t) {
  if (t && t->storage->block && t->storage->block->cache != p->stream->cache)
    pool_note_use(t->storage->block, p->stream->cache);
}

static tn_status infer(plan *p) {
  list_plan *l = p->list;
  list_set_views(p);
  shape_query query = {.op = &p->op->row,
                       .host = &p->device->runtime->host,
                       .in = l->in_view,
                       .num_in = l->num_in,
                       .inout = (const DLTensor *const *)l->out_view,
                       .num_inout = l->num_inout,
                       .attrs = p->args.attrs,
                       .length = l->length};
  return shape_infer(&query, p->shape, p->op->num_out);
}

static tn_status make_all(plan *p, const tn_call *call) {
  tn_status status = list_outline(p, call);
  if (!status) status = bind_given(p);
  if (!status) status = plan_take_attrs(p, call->attrs);
  if (!status) status = infer(p);
  if (!status) status = take_results(p);
  return status;
}

tn_status list_make(plan *p, const tn_call *call) {
  tn_status status = make_all(p, call);
  if (status) {
    list_abandon(p);
    list_free(p);
    return status;
  }
  list_plan *l = p->list;
  list_set_views(p);
  plan_count_axes(p, l->in_view, l->out_view);
  for (uint32_t i = 0; i < l->num_in && !p->device->synchronous; ++i) note_stream(p, l->in[i]);
  for (uint32_t i = 0; i < l->num_out && !p->device->synchronous; ++i) note_stream(p, l->out[i]);
  plan_set_args(p);
  p->args.in = l->in_view;
  p->args.out = l->out_view;
  p->args.num_in = (uint16_t)l->num_in;
  p->args.num_out = (uint16_t)l->num_out;
  plan_pick_kernel(p);
  return TN_OK;
}

static tn_status make_input_contiguous(plan *p, uint32_t i) {
  list_plan *l = p->list;
  tn_tensor *dense = NULL;
  tn_status status = transfer_stand_in(p->op->row.name, p->stream, l->in[i], &dense);
  if (status) return status;
  l->temps[l->num_temps++] = dense;
  l->in_view[i] = &dense->dl;
  return TN_OK;
}

static tn_status make_output_contiguous(plan *p, uint32_t i) {
  list_plan *l = p->list;
  tn_tensor *y = l->out[i], *dense = NULL;
  tn_status status = i < l->num_inout ? transfer_stand_in(p->op->row.name, p->stream, y, &dense)
                                      : tensor_make(p->device, p->stream, (tn_dtype)y->dtype,
                                                    y->dl.ndim, y->shape, y->elements, &dense);
  if (status) return status;
  l->temps[l->num_temps++] = l->via[i] = dense;
  l->out_view[i] = &dense->dl;
  return TN_OK;
}

tn_status list_equip(plan *p) {
  list_plan *l = p->list;
  tn_status status = TN_OK;
  if (!p->cell->strided) {
    for (uint32_t i = 0; !status && i < l->num_in; ++i)
      if (l->in[i] && !view_is_contiguous(l->in_view[i])) status = make_input_contiguous(p, i);
    for (uint32_t i = 0; !status && i < l->num_out; ++i)
      if (l->out[i] && !view_is_contiguous(l->out_view[i])) status = make_output_contiguous(p, i);
  }
  if (!status && p->cell->kernel->row.workspace) status = plan_take_workspace(p);
  return status;
}

tn_status list_run(plan *p) {
  list_plan *l = p->list;
  tn_status status = p->cell->run(&p->args);
  if (status) return kernel_status(p->device, p->cell, status);
  for (uint32_t i = 0; !status && l->num_temps && i < l->num_out; ++i)
    if (l->via[i]) status = transfer_stand_in(p->op->row.name, p->stream, l->via[i], &l->out[i]);
  return status;
}

void list_finish(plan *p) {
  list_plan *l = p->list;
  for (uint32_t i = 0; i < l->num_temps; ++i) tn_tensor_release(l->temps[i]);
  for (uint32_t i = 0; l->num_temps && i < l->num_out; ++i) l->via[i] = NULL;
  l->num_temps = 0;
  plan_finish(p);
}

void list_abandon(plan *p) {
  list_plan *l = p->list;
  for (uint32_t k = 0; l && k < p->op->num_out; ++k)
    if (l->made >> k & 1) tn_tensor_release(l->out[l->num_inout + k]);
  if (l) l->made = 0;
}

void list_free(plan *p) {
  host_free(&p->device->runtime->memory, p->list);
  p->list = NULL;
}
