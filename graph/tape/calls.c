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

/* A call's tensors that the tape may know, of a call without lists. */
enum { NEAR = 2 * TN_MAX_ARGS };

/* What is found out about a call before it runs. */
typedef struct watched_call {
  const op_entry *op;
  uint32_t num_inout;
  bool reads;          /* what depends on a watched tensor */
  bool writes;         /* what the tape knows */
  uint32_t near[NEAR]; /* buffers of inputs and in-out tensors; of a call with lists nothing */
} watched_call;

static inline const tn_tensor *read_at(const tn_call *call, uint32_t i) {
  return i < call->num_in ? call->in[i] : call->out[i - call->num_in];
}

static void look_at(const tn_tape *tape, const tn_call *call, watched_call *w) {
  const uint32_t all = call->num_in + w->num_inout;
  w->reads = w->writes = false;
  for (uint32_t i = 0; i < all; ++i) {
    const tn_tensor *x = read_at(call, i);
    uint32_t buffer = x ? tape_find(tape, x) : TN_GRAPH_NONE;
    if (i < NEAR) w->near[i] = buffer;
    if (buffer != TN_GRAPH_NONE && is_float(x)) w->reads |= tape->depends[buffer];
  }
  for (uint32_t i = 0; i < call->num_out; ++i)
    if (call->out[i]) w->writes |= tape_find(tape, call->out[i]) != TN_GRAPH_NONE;
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
static tn_status prepare_node(tn_tape *tape, const watched_call *w, const tn_call *call,
                              record_node **made) {
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  const op_entry *op = w->op;
  const uint32_t all = call->num_in + w->num_inout;
  const record_node wanted = {.op = &op->row,
                              .num_in = call->num_in,
                              .num_inout = w->num_inout,
                              .num_out = call->num_out,
                              .skip_out = call->skip_out,
                              .attrs = op->row.attrs_size ? attrs : NULL};
  record_node *node = NULL;
  if (wanted.attrs) complete_attrs(op, call->attrs, attrs);
  record *r = &tape->record;
  tn_status status = record_reserve_values(r, all + call->num_out);
  if (!status) status = record_add_node(r, &wanted, error_call_site(), &node);
  if (status) return status;
  for (uint32_t i = 0; !status && i < all; ++i) {
    const tn_tensor *x = read_at(call, i);
    if (!x) continue;
    /* One that was unknown may have come before in this call. */
    status = !op->lists && w->near[i] != TN_GRAPH_NONE
                 ? tape_value_of(tape, x, w->near[i], &node->in[i])
                 : tape_value(tape, x, &node->in[i]);
  }
  if (status) record_drop_node(r);
  *made = node;
  return status;
}

/* By a bit for each output; beyond the 32nd none is set. */
static inline bool has_bit(uint32_t bits, uint32_t i) { return i < 32 && bits >> i & 1; }

/* Makes the next version of what the call wrote. made: outputs that it has made itself. */
static tn_status take_written(tn_tape *tape, const tn_call *call, uint32_t made, record_node *node,
                              bool passes) {
  tn_status status = TN_OK;
  uint32_t others = 0;
  for (uint32_t i = 0; !status && i < call->num_out; ++i) {
    const tn_tensor *y = call->out[i];
    if (!y) continue;
    if (has_bit(made, i)) {
      status = tape_learn_made(tape, y, passes && is_float(y), &node->out[i]);
      continue;
    }
    ++others;
    node->out[i] = tape_find(tape, y); /* the buffer, for now */
    if (node->out[i] == TN_GRAPH_NONE) status = tape_learn(tape, y, &node->out[i]);
    if (status) break;
    record_write(&tape->record, node->out[i]);
    if (passes && is_float(y)) tape->depends[node->out[i]] = 1;
  }
  for (uint32_t i = 0; !status && others && i < call->num_out; ++i)
    if (call->out[i] && !has_bit(made, i))
      status = tape_value_of(tape, call->out[i], node->out[i], &node->out[i]);
  return status;
}

/* Keeps what the rule reads. In-out tensors as they were are gone. */
static tn_status save(tn_tape *tape, const gradient_rule *rule_of, const tn_call *call,
                      const record_node *node) {
  const uint32_t needs_in = gradient_needs_in(rule_of, node),
                 needs_out = gradient_needs_out(rule_of, node);
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < call->num_in; ++i)
    if (call->in[i] && gradient_needs(node, needs_in, i))
      status = tape_save(tape, node->in[i], (tn_tensor *)(uintptr_t)call->in[i]);
  for (uint32_t i = 0; !status && i < call->num_out; ++i)
    if (call->out[i] && gradient_needs(node, needs_out, i))
      status = tape_save(tape, node->out[i], call->out[i]);
  return status;
}

/* Optional outputs that the rule reads are asked for whether the caller wants them or not. */
static uint32_t unskip(const op_entry *op, const gradient_rule *how, uint32_t skip) {
  if (!how || op->lists) return skip;
  return skip & ~(how->needs_out >> op->num_inout);
}

/* Tensors among attributes, which may be of an older and shorter struct. */
static bool reads_by_attrs(const op_entry *op, const void *attrs) {
  uint32_t size = 0;
  if (attrs) memcpy(&size, attrs, sizeof size);
  for (uint32_t i = 0; i < op->num_tensors; ++i) {
    const tn_attr *a = op_attr_tensor(op, i);
    if (a->offset + sizeof(tn_tensor *) <= size && attr_tensor(attrs, a)) return true;
  }
  return false;
}

/* Whether the call can be made again for what it gave: it updated nothing, and what it wrote to it
 * has made itself. */
static bool can_be_repeated(const op_entry *op, const tn_call *call, uint32_t made,
                            const record_node *node) {
  if (node->num_inout || reads_by_attrs(op, call->attrs)) return false;
  for (uint32_t i = 0; i < node->num_out; ++i)
    if (node->out[i] != TN_GRAPH_NONE && !has_bit(made, i)) return false;
  return true;
}

/* The call has run: nothing of it may fail any more, so what fails here is said when a gradient is
 * asked for. */
static void record_call(tn_tape *tape, const watched_call *w, const gradient_rule *how,
                        const tn_call *call, uint32_t made, record_node *node) {
  const bool passes = w->reads && !(how && how->stops);
  tn_status status = take_written(tape, call, made, node, passes);
  if (__builtin_expect(tape->block, 0) && !status && can_be_repeated(w->op, call, made, node)) {
    node->block = tape->block;
    status = tape_keep_for_block(tape, call, node);
  }
  node->saved = how && how->run && passes;
  if (!status && node->saved && (how->needs_in | how->needs_out))
    status = save(tape, how, call, node);
  if (status && !tape->broken) tape->broken = status;
}

/* Runs what has a node, or takes that back. */
static tn_status run_recorded(tn_tape *tape, const watched_call *w, const gradient_rule *how,
                              const tn_call *call) {
  record_node *node = NULL;
  uint32_t made = 0;
  for (uint32_t i = 0; i < call->num_out && i < 32; ++i) made |= (uint32_t)!call->out[i] << i;
  tn_status status = prepare_node(tape, w, call, &node);
  if (status) return status;
  status = invoke_recorded(call);
  if (status)
    record_drop_node(&tape->record);
  else
    record_call(tape, w, how, call, made, node);
  return status;
}

/* With outputs that the rule reads and the caller does not want. */
static __attribute__((noinline)) tn_status
run_wider(tn_tape *tape, const watched_call *w, const gradient_rule *how, const tn_call *given) {
  tn_call call = {0};
  tn_tensor *out[TN_MAX_ARGS];
  memcpy(&call, given, given->struct_size < sizeof call ? given->struct_size : sizeof call);
  call.struct_size = sizeof call;
  call.skip_out = unskip(w->op, how, call.skip_out);
  call.out = out;
  const uint32_t extra = (given->skip_out & ~call.skip_out) << w->op->num_inout;
  for (uint32_t i = 0; i < given->num_out; ++i) out[i] = extra >> i & 1 ? NULL : given->out[i];
  tn_status status = run_recorded(tape, w, how, &call);
  for (uint32_t i = 0; !status && i < given->num_out; ++i) {
    if (extra >> i & 1)
      tn_tensor_release(out[i]);
    else
      given->out[i] = out[i];
  }
  return status;
}

tn_status tape_record(tn_tape *tape, const tn_call *call) {
  watched_call w = {.op = registry_op(&tape->runtime->registry, call->op)};
  const op_entry *op = w.op;
  bool fits = op && call->num_in <= (op->lists ? UINT16_MAX : TN_MAX_ARGS) &&
              (op->lists || (call->num_in == op->num_in &&
                             call->num_out == (uint32_t)op->num_inout + op->num_out));
  if (!fits) return tn_invoke(call); /* which says what is wrong */
  w.num_inout = count_inout(op, call);
  look_at(tape, call, &w);
  if (!w.reads && !w.writes) return invoke_recorded(call);
  const gradient_rule *how = gradient_rule_of(&op->row);
  if (call->skip_out != unskip(op, how, call->skip_out)) return run_wider(tape, &w, how, call);
  return run_recorded(tape, &w, how, call);
}

tn_status tape_call(call_watcher *w, const tn_call *call) {
  tn_tape *tape = (tn_tape *)w;
  return tape->autocast.dtype ? autocast_invoke(&tape->autocast, call) : tape_record(tape, call);
}

const tn_operator tape_host_write = {
    .struct_size = sizeof tape_host_write, .name = "tensor_write", .id = UINT32_MAX};

/* The node of what the host writes: nothing passes through it. */
tn_status tape_written(call_watcher *w, const tn_tensor *tensor) {
  const record_node wanted = {.op = &tape_host_write, .num_out = 1};
  tn_tape *tape = (tn_tape *)w;
  uint32_t buffer = tape_find(tape, tensor);
  record_node *node;
  if (buffer == TN_GRAPH_NONE) return TN_OK;
  tn_status status = record_reserve_values(&tape->record, 1);
  if (!status) status = record_add_node(&tape->record, &wanted, error_call_site(), &node);
  if (status) return status;
  record_write(&tape->record, buffer);
  return tape_value_of(tape, tensor, buffer, node->out); /* room was reserved */
}
