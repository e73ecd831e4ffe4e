/*
 * What is overwritten between the end of recording and the gradient. The thread's writes are told
 * to the tape as long as it keeps tensors for rules; those that hit one are noted. Where recording
 * goes on, they become nodes, as if they had been recorded.
 */
#include <string.h>

#include "graph/tape/tape.h"

/* One of what is kept lies where the view is. */
static bool hits(const tn_tape *tape, const record_value *view) {
  const record *r = &tape->record;
  for (uint32_t at = r->buffers[view->buffer].last_value; at != TN_GRAPH_NONE;
       at = r->values[at].previous) {
    const saved_value *s = at < tape->num_saved ? &tape->saved[at] : NULL;
    if (s && s->tensor && record_overlap(&r->values[at], view)) return true;
  }
  return false;
}

static bool is_noted(const tn_tape *tape, const record_value *view) {
  for (uint32_t i = 0; i < tape->num_late; ++i) {
    const record_value *v = &tape->late[i].view;
    if (v->buffer == view->buffer && v->dtype == view->dtype && v->rank == view->rank &&
        v->offset == view->offset && !memcmp(v->shape, view->shape, sizeof v->shape) &&
        !memcmp(v->strides, view->strides, sizeof v->strides))
      return true;
  }
  return false;
}

static tn_status note(tn_tape *tape, const tn_operator *op, const record_value *view) {
  const char *site = error_call_site();
  if (tape->num_late == tape->max_late) {
    late_write *wider =
        host_grow(&tape->memory, tape->late, tape->num_late, sizeof *wider, &tape->max_late);
    if (!wider) return TN_ERR_OUT_OF_MEMORY;
    tape->late = wider;
  }
  late_write *l = &tape->late[tape->num_late];
  *l = (late_write){*view, op, site ? host_strdup(&tape->memory, site) : NULL};
  if (site && !l->site) return TN_ERR_OUT_OF_MEMORY;
  ++tape->num_late;
  return TN_OK;
}

void tape_overwritten(call_watcher *w, const tn_operator *op, const tn_tensor *tensor) {
  tn_tape *tape = (tn_tape *)w;
  record_value view = {
      .buffer = tape_find(tape, tensor), .dtype = (tn_dtype)tensor->dtype, .rank = tensor->dl.ndim};
  if (view.buffer == TN_GRAPH_NONE || tensor->elements == 0) return;
  view.offset = tape_place_of(tensor);
  memcpy(view.shape, tensor->shape, (size_t)view.rank * sizeof *view.shape);
  memcpy(view.strides, tensor->strides, (size_t)view.rank * sizeof *view.strides);
  if (!hits(tape, &view) || is_noted(tape, &view)) return;
  tn_status status = note(tape, op ? op : &tape_host_write, &view);
  if (status && !tape->broken) tape->broken = status;
}

const late_write *tape_late_write(const tn_tape *tape, const record_value *v) {
  for (uint32_t i = 0; i < tape->num_late; ++i)
    if (tape->late[i].view.buffer == v->buffer && record_overlap(&tape->late[i].view, v))
      return &tape->late[i];
  return NULL;
}

static tn_status add_node(tn_tape *tape, const late_write *l) {
  const record_node wanted = {.op = l->op, .num_out = 1};
  record *r = &tape->record;
  record_value written = l->view;
  record_node *node;
  tn_status status = record_reserve_values(r, 1);
  if (!status) status = record_add_node(r, &wanted, l->site, &node);
  if (status) return status;
  record_write(r, written.buffer);
  written.version = r->buffers[written.buffer].version;
  written.node = r->buffers[written.buffer].node;
  return record_add_value(r, &written, node->out);
}

static void forget(tn_tape *tape) {
  for (uint32_t i = 0; i < tape->num_late; ++i) host_free(&tape->memory, tape->late[i].site);
  tape->num_late = 0;
}

void tape_take_late(tn_tape *tape) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < tape->num_late; ++i) status = add_node(tape, &tape->late[i]);
  if (status && !tape->broken) tape->broken = status;
  forget(tape);
}

bool tape_guard(tn_tape *tape, bool guarded) {
  bool before = tape->guarded;
  if (before != guarded) guarded ? guard_begin(&tape->watcher) : guard_end(&tape->watcher);
  tape->guarded = guarded;
  return before;
}

void tape_forget_late(tn_tape *tape) {
  tape_guard(tape, false);
  forget(tape);
}
