/* Whether a program's runs can be recorded: what its device, its options and its nodes allow. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "graph/program.h"

static bool refuse(tn_program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(tn_program *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(p->replay.why, sizeof p->replay.why, format, args);
  va_end(args);
  return false;
}

static bool device_records(tn_program *p) {
  const tn_device *d = p->device;
  const tn_backend *b = &d->type->backend;
  if (!b->capture_begin || !b->capture_end || !b->graph_launch || !b->graph_destroy)
    return refuse(p, "plugin %s has no device graphs", d->type->plugin->name);
  if (d->synchronous) return refuse(p, "device %s works in its caller, without queues", d->id);
  if (d->opaque) return refuse(p, "the memory of device %s has no addresses", d->id);
  if (d->runtime->num_layers) return refuse(p, "layers are on, which see every call");
  return true;
}

static bool refuse_node(tn_program *p, uint32_t node, const char *why) {
  const record_node *n = &p->record.nodes[node];
  return refuse(p, "node %" PRIu32 " (%s)%s%s: %s", node, n->op->name, n->site ? " at " : "",
                n->site ? n->site : "", why);
}

static bool nodes_record(tn_program *p, const instance *first) {
  if (!first->num_calls) return refuse(p, "no node runs");
  for (uint32_t k = 0; k < first->num_calls; ++k) {
    const char *why = prepared_unrecordable(first->calls[k]);
    if (why) return refuse_node(p, first->node_of[k], why);
  }
  if (p->num_random && !p->draws_by_tensor)
    return refuse_node(p, p->running[p->random[0].place],
                       "its random numbers go on from run to run by an attribute");
  return true;
}

/* --- what runs bring --- */

static bool has_slot(const replay *a, const bound_value *b) {
  for (uint32_t i = 0; i < a->num_slots; ++i)
    if (a->slots[i].is_output == b->is_output && a->slots[i].place == b->place) return true;
  return false;
}

static tn_status find_slots(tn_program *p) {
  replay *a = &p->replay;
  size_t most = (size_t)p->record.num_inputs + p->record.num_outputs;
  a->slots = host_alloc(&p->record.memory, (most + 1) * sizeof *a->slots);
  if (!a->slots) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t i = 0; i < p->num_bound; ++i) {
    const bound_value *b = &p->bound[i];
    if (has_slot(a, b)) continue;
    uint64_t bytes = p->plan.buffers[p->record.values[b->value].buffer].bytes;
    a->slots[a->num_slots++] = (replay_slot){b->is_output, b->place, bytes};
  }
  return TN_OK;
}

static bool copies_outputs(const tn_program *p) {
  for (uint32_t i = 0; i < p->record.num_outputs; ++i)
    if (!program_output_is_direct(p, i)) return true;
  return false;
}

bool replay_allowed(tn_program *p, uint32_t flags) {
  return flags & TN_COMPILE_NO_CAPTURE ? refuse(p, "TN_COMPILE_NO_CAPTURE") : device_records(p);
}

tn_status replay_init(tn_program *p, const instance *first) {
  if (p->replay.why[0] || !nodes_record(p, first)) return TN_OK;
  tn_status status = find_slots(p);
  p->replay.copies_outputs = copies_outputs(p);
  if (!status) atomic_store(&p->replay.state, TN_CAPTURE_WAITS);
  return status;
}
