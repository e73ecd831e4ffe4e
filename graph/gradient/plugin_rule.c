/*
 * Rules that plugins bring with their operators: the host's side of tn_gradient. A tensor is known
 * to the plugin by its DLTensor, which is the first thing in it.
 */
#include <string.h>

#include "dispatcher/base/error.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"
#include "dispatcher/registry/registry.h"
#include "graph/gradient/rule.h"
#include "tenon/plugin.h"

static const tn_tensor *tensor_of(const DLTensor *t) { return (const tn_tensor *)(const void *)t; }

static const DLTensor *view_of(const tn_tensor *t) { return t ? &t->dl : NULL; }

static bool is_among(const tn_tensor *const *tensors, size_t count, const DLTensor *t) {
  for (size_t i = 0; i < count; ++i)
    if (tensors[i] && &tensors[i]->dl == t) return true;
  return false;
}

/* One that the rule was given, or made by its calls: others are not tensors, or not there. */
static bool is_at_hand(const rule *r, const DLTensor *t) {
  return is_among(r->in, r->num_in, t) || is_among(r->out, r->num_out, t) ||
         is_among(r->out_gradient, r->num_out, t) ||
         is_among((const tn_tensor *const *)r->temps, r->num_temps, t);
}

static tn_status refuse(rule *r, const char *what, const char *why) {
  rule_fail(r, TN_ERR_INVALID_ARGUMENT, "the rule of %s: %s: %s", r->op->name, what, why);
  return r->status;
}

static tn_status refuse_foreign(rule *r, const char *what) {
  return refuse(r, what, "a tensor that is neither of the rule's nor of what its calls gave");
}

static tn_status rule_calls(tn_gradient *g, const char *name, const void *attrs, uint32_t num_in,
                            const DLTensor *const *in, uint32_t num_out, const DLTensor **out) {
  rule *r = g->impl;
  const tn_tensor *inputs[TN_MAX_ARGS], *made[TN_MAX_ARGS] = {NULL};
  if (r->status) return r->status;
  const op_entry *op = name ? registry_find_op(&r->device->runtime->registry, name) : NULL;
  if (!op) return refuse(r, name ? name : "NULL", "there is no such operator");
  if (op->num_inout || op->lists) return refuse(r, name, "it updates in place or takes lists");
  if (num_in != op->num_in || num_out != op->num_out || !in || !out)
    return refuse(r, name, "it takes another number of tensors");
  for (uint32_t i = 0; i < num_in; ++i) {
    if (in[i] && !is_at_hand(r, in[i])) return refuse_foreign(r, name);
    inputs[i] = in[i] ? tensor_of(in[i]) : NULL;
  }
  rule_call(r, op->row.id, attrs, num_in, inputs, num_out, made, 0);
  for (uint32_t i = 0; i < num_out && !r->status; ++i) out[i] = view_of(made[i]);
  return r->status;
}

static tn_status rule_numbers(tn_gradient *g, const DLTensor *like, double value,
                              const DLTensor **out) {
  rule *r = g->impl;
  if (!like || !out) return refuse(r, "number", "like and out must not be NULL");
  if (!is_at_hand(r, like)) return refuse_foreign(r, "number");
  *out = view_of(rule_number(r, tensor_of(like), value));
  return r->status;
}

static tn_status rule_gives(tn_gradient *g, uint32_t in, const DLTensor *gradient) {
  rule *r = g->impl;
  if (in >= r->num_in || !gradient)
    return refuse(r, "give", "there is no such input, or no tensor");
  if (!is_at_hand(r, gradient)) return refuse_foreign(r, "give");
  if (r->wanted[in]) rule_give(r, in, tensor_of(gradient));
  return r->status;
}

static void take_views(const DLTensor **to, const tn_tensor *const *from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = view_of(from[i]);
}

void plugin_rule_run(rule *r) {
  size_t in = r->num_in, out = r->num_out;
  const DLTensor **room = host_alloc(&r->memory, (in + 2 * out + 1) * sizeof *room);
  if (!room) {
    rule_fail(r, TN_ERR_OUT_OF_MEMORY, "no host memory for a gradient");
    return;
  }
  take_views(room, r->in, in - r->num_inout);
  take_views(room + in - r->num_inout, r->out, r->num_inout); /* of the same shapes */
  take_views(room + in, r->out, out);
  take_views(room + in + out, r->out_gradient, out);
  tn_gradient g = {.struct_size = sizeof g,
                   .num_in = (uint16_t)in,
                   .num_out = (uint16_t)out,
                   .in = room,
                   .out = room + in,
                   .out_gradient = room + in + out,
                   .wanted = r->wanted,
                   .attrs = r->attrs,
                   .host = &r->device->runtime->host,
                   .impl = r,
                   .call = rule_calls,
                   .number = rule_numbers,
                   .give = rule_gives};
  fail_set_reason(false);
  tn_status status = r->op->gradient(&g);
  if (status && !r->status) r->status = fail_of_plugin(status, r->op->name, "gradient rule");
  host_free(&r->memory, room);
}
