/*
 * Fixed places for small tensors that come at ever new addresses: what a run brings is copied there
 * before the launch, and what it returns from there after it, in stream order.
 */
#include "dispatcher/tensor/tensor.h"
#include "graph/program.h"

static uint64_t rounded(uint64_t bytes) { return (bytes / PLAN_ALIGNMENT + 1) * PLAN_ALIGNMENT; }

const tn_tensor *slot_tensor(const program_run *r, const replay_slot *s) {
  return s->is_output ? r->out[s->place] : r->in[s->place];
}

/* Whether a slot has, or is to have, a fixed place. */
static bool is_wanted(const replayer *a, uint32_t slot) {
  return a->changed[slot] || (a->fixes && a->fixes[slot]);
}

/* Copies cost a launch each: they are to save more than they add. */
static bool is_of_use(const program_run *r, const replayer *a, uint64_t *bytes) {
  uint32_t wanted = 0, more = 0;
  uint64_t sum = 0;
  *bytes = 0;
  for (uint32_t i = 0; i < r->program->replay.num_slots; ++i) {
    if (!is_wanted(a, i)) continue;
    ++wanted;
    more += !(a->fixes && a->fixes[i]);
    sum += r->program->replay.slots[i].bytes;
    *bytes += rounded(r->program->replay.slots[i].bytes);
  }
  return more && sum <= FIXED_BYTES && wanted < r->at->num_calls;
}

static tn_status make_places(const program_run *r, const replayer *a, uint64_t bytes,
                             tn_tensor **memory, tn_tensor **fixes) {
  int64_t whole = (int64_t)bytes, at = 0;
  tn_status status = tn_tensor_empty_on(r->program->device, r->stream, TN_U8, 1, &whole, memory);
  for (uint32_t i = 0; !status && i < r->program->replay.num_slots; ++i) {
    if (!is_wanted(a, i)) continue;
    int64_t size = (int64_t)rounded(r->program->replay.slots[i].bytes);
    status = tn_tensor_slice(*memory, 0, at, at + size, 1, &fixes[i]);
    at += size;
  }
  return status;
}

static void free_places(const host_memory *host, uint32_t slots, tn_tensor *memory,
                        tn_tensor **fixes) {
  for (uint32_t i = 0; fixes && i < slots; ++i) tn_tensor_release(fixes[i]);
  tn_tensor_release(memory);
  host_free(host, fixes);
}

/* Without memory for it all stays as it is. Device graphs that know the places of before are still
 * right about what lies there. */
void fixed_take(const program_run *r, replayer *a) {
  const host_memory *host = &r->program->record.memory;
  const uint32_t slots = r->program->replay.num_slots;
  tn_tensor *memory = NULL, **fixes = NULL;
  uint64_t bytes;
  bool done = false;
  if (is_of_use(r, a, &bytes)) {
    fixes = host_alloc(host, ((size_t)slots + 1) * sizeof *fixes);
    done = fixes && !make_places(r, a, bytes, &memory, fixes);
    free_places(host, slots, done ? a->memory : memory, done ? a->fixes : fixes);
  }
  if (done) {
    a->memory = memory;
    a->fixes = fixes;
  }
  for (uint32_t i = 0; i < slots; ++i) a->changed[i] = false;
}

void fixed_free(const tn_program *p, replayer *a) {
  free_places(&p->record.memory, p->replay.num_slots, a->memory, a->fixes);
  a->memory = NULL;
  a->fixes = NULL;
}

static const tn_tensor *place_of(const program_run *r, const replayer *a, const bound_value *b) {
  for (uint32_t i = 0; i < r->program->replay.num_slots; ++i) {
    const replay_slot *s = &r->program->replay.slots[i];
    if (s->is_output == b->is_output && s->place == b->place) return a->fixes[i];
  }
  return NULL;
}

void fixed_show(const program_run *r, const replayer *a) {
  for (uint32_t i = 0; a->fixes && i < r->program->num_bound; ++i) {
    const bound_value *b = &r->program->bound[i];
    const tn_tensor *there = place_of(r, a, b);
    if (there) header_show(r->at, r->at->headers[b->value], there, b->offset);
  }
  run_refresh(r);
}

tn_status fixed_copy(const program_run *r, const replayer *a, bool outputs) {
  tn_device *d = r->program->device;
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < r->program->replay.num_slots; ++i) {
    const replay_slot *s = &r->program->replay.slots[i];
    if (!a->fixes[i] || s->is_output != outputs || !s->bytes) continue;
    const DLTensor *mine = &a->fixes[i]->dl, *theirs = &slot_tensor(r, s)->dl;
    const DLTensor *to = outputs ? theirs : mine, *from = outputs ? mine : theirs;
    fail_set_reason(false);
    status = d->type->backend.copy(d->handle, r->stream->queue, TN_COPY_ON_DEVICE, to->data,
                                   to->byte_offset, from->data, from->byte_offset, s->bytes);
    status = device_result(d, "copy", status);
  }
  return status;
}
