/*
 * Recording a thread's calls. One that reads nothing which depends on a watched tensor, and writes
 * to nothing that the tape knows, is run and forgotten.
 */
#include <string.h>

#include "dispatcher/call/fast_path.h"
#include "dispatcher/call/plan.h"
#include "graph/gradient/walk.h"
#include "graph/tape/tape.h"

static bool is_float(const tn_tensor *t) { return TN_SET_FLOAT >> t->dtype & 1; }

/* --- what the call has to do with the tape --- */

/* Whether it reads what depends on a watched tensor. */
static bool reads_dependent(const tn_tape *tape, const tn_call *call, uint32_t num_inout) {
  for (uint32_t i = 0; i < call->num_in + num_inout; ++i) {
    const tn_tensor *x = i < call->num_in ? call->in[i] : call->out[i - call->num_in];
    if (!x || !is_float(x)) continue;
    uint32_t buffer = tape_find(tape, x);
    if (buffer != TN_GRAPH_NONE && tape->depends[buffer]) return true;
  }
  return false;
}

static bool writes_known(const tn_tape *tape, const tn_call *call) {
  for (uint32_t i = 0; i < call->num_out; ++i)
    if (call->out[i] && tape_find(tape, call->out[i]) != TN_GRAPH_NONE) return true;
  return false;
}

/* --- its node --- */

/* In-out tensors of a call; of one with lists as many for each argument as the list is long. */
static uint32_t count_inout(const op_entry *op, const tn_call *call) {
  if (!op->lists || !op->num_inout) return op->num_inout;
  return call->num_out > op->num_out ? call->num_out - op->num_out : 0;
}

/* Attributes over the defaults, as kernels get them, but for tensors among them, which no rule
 * reads. */
static void complete_attrs(const op_entry *op, const void *given, void *attrs) {
  uint32_t size = op->row.attrs_size, of_given = 0;
  memcpy(attrs, op->defaults, size);
  if (given) memcpy(&of_given, given, sizeof of_given);
  if (of_given) memcpy(attrs, given, of_given < size ? of_given : size);
  memcpy(attrs, &size, sizeof size);
  for (uint32_t i = 0; i < op->num_tensors; ++i)
    memset((char *)attrs + op_attr_tensor(op, i)->offset, 0, sizeof(tn_tensor *));
}

/* All that can fail but for the call itself. */
static tn_status prepare_node(tn_tape *tape, const op_entry *op, const tn_call *call,
                              uint32_t num_inout, record_node **node) {
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  const record_node wanted = {.op = &op->row,
                              .num_in = call->num_in,
                              .num_inout = num_inout,
                              .num_out = call->num_out,
                              .skip_out = call->skip_out,
                              .attrs = op->row.attrs_size ? attrs : NULL};
  if (wanted.attrs) complete_attrs(op, call->attrs, attrs);
  record *r = &tape->record;
  tn_status status = record_reserve_values(r, (uint32_t)call->num_in + num_inout + call->num_out);
  if (!status) status = record_add_node(r, &wanted, error_call_site(), node);
  if (status) return status;
  for (uint32_t i = 0; !status && i < call->num_in + num_inout; ++i) {
    const tn_tensor *x = i < call->num_in ? call->in[i] : call->out[i - call->num_in];
    if (x) status = tape_value(tape, x, &(*node)->in[i]);
  }
  if (status) record_drop_node(r);
  return status;
}

/* Makes the next version of what the call wrote. */
static tn_status take_written(tn_tape *tape, const tn_call *call, record_node *node, bool passes) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < call->num_out; ++i) {
    if (!call->out[i]) continue;
    node->out[i] = tape_find(tape, call->out[i]); /* the buffer, for now */
    if (node->out[i] == TN_GRAPH_NONE) status = tape_learn(tape, call->out[i], &node->out[i]);
    if (status) break;
    record_write(&tape->record, node->out[i]);
    if (passes && is_float(call->out[i])) tape->depends[node->out[i]] = 1;
  }
  for (uint32_t i = 0; !status && i < call->num_out; ++i)
    if (call->out[i]) status = tape_value_of(tape, call->out[i], node->out[i], &node->out[i]);
  return status;
}

/* Keeps what the rule reads. In-out tensors as they were are gone. */
static tn_status save(tn_tape *tape, const gradient_rule *rule_of, const tn_call *call,
                      const record_node *node) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < call->num_in; ++i)
    if (call->in[i] && gradient_needs(node, rule_of->needs_in, i))
      status = tape_save(tape, node->in[i], (tn_tensor *)(uintptr_t)call->in[i]);
  for (uint32_t i = 0; !status && i < call->num_out; ++i)
    if (call->out[i] && gradient_needs(node, rule_of->needs_out, i))
      status = tape_save(tape, node->out[i], call->out[i]);
  return status;
}

/* Optional outputs that the rule reads are asked for whether the caller wants them or not. */
static uint32_t unskip(const op_entry *op, const gradient_rule *how, uint32_t skip) {
  if (!how || op->lists) return skip;
  return skip & ~(how->needs_out >> op->num_inout);
}

typedef struct recorded_call {
  tn_call call;
  tn_tensor *out[TN_MAX_ARGS];
  uint32_t extra; /* bit: out[i] is the tape's alone */
} recorded_call;

static void widen(recorded_call *c, const op_entry *op, const gradient_rule *how,
                  const tn_call *call) {
  memset(&c->call, 0, sizeof c->call);
  memcpy(&c->call, call, call->struct_size < sizeof c->call ? call->struct_size : sizeof c->call);
  c->call.struct_size = sizeof c->call;
  c->extra = 0;
  if (op->lists) return;
  c->call.skip_out = unskip(op, how, call->skip_out);
  c->extra = (call->skip_out & ~c->call.skip_out) << op->num_inout;
  for (uint32_t i = 0; i < call->num_out; ++i) c->out[i] = c->extra >> i & 1 ? NULL : call->out[i];
  c->call.out = c->out;
}

/* The call has run: nothing of it may fail any more, so what fails here is said when a gradient is
 * asked for. */
static void record_call(tn_tape *tape, const gradient_rule *how, const tn_call *call, bool passes,
                        record_node *node) {
  tn_status status = take_written(tape, call, node, passes);
  if (!status && how && how->run && passes) status = save(tape, how, call, node);
  if (status && !tape->broken) tape->broken = status;
}

static tn_status run_recorded(tn_tape *tape, const op_entry *op, const tn_call *call,
                              uint32_t num_inout, bool reads) {
  const gradient_rule *how = gradient_rule_of(&op->row);
  recorded_call c;
  record_node *node;
  widen(&c, op, how, call);
  tn_status status = prepare_node(tape, op, &c.call, num_inout, &node);
  if (status) return status;
  status = invoke_recorded(&c.call);
  if (status) {
    record_drop_node(&tape->record);
    return status;
  }
  record_call(tape, how, &c.call, reads && !(how && how->stops), node);
  for (uint32_t i = 0; c.call.out == c.out && i < call->num_out; ++i) {
    if (c.extra >> i & 1)
      tn_tensor_release(c.out[i]);
    else
      call->out[i] = c.out[i];
  }
  return TN_OK;
}

tn_status tape_record(tn_tape *tape, const tn_call *call) {
  const op_entry *op = registry_op(&tape->runtime->registry, call->op);
  bool fits = op && call->num_in <= (op->lists ? UINT16_MAX : TN_MAX_ARGS) &&
              (op->lists || (call->num_in == op->num_in &&
                             call->num_out == (uint32_t)op->num_inout + op->num_out));
  if (!fits) return tn_invoke(call); /* which says what is wrong */
  uint32_t num_inout = count_inout(op, call);
  bool reads = reads_dependent(tape, call, num_inout);
  if (!reads && !writes_known(tape, call)) return invoke_recorded(call);
  return run_recorded(tape, op, call, num_inout, reads);
}

tn_status tape_call(call_watcher *w, const tn_call *call) {
  tn_tape *tape = (tn_tape *)w;
  return tape->autocast.dtype ? autocast_invoke(&tape->autocast, call) : tape_record(tape, call);
}

tn_status tape_written(call_watcher *w, const tn_tensor *tensor) {
  tn_tape *tape = (tn_tape *)w;
  uint32_t buffer = tape_find(tape, tensor);
  if (buffer == TN_GRAPH_NONE) return TN_OK;
  ++tape->record.buffers[buffer].version;
  tape->record.buffers[buffer].node = TN_GRAPH_NONE;
  return TN_OK;
}
