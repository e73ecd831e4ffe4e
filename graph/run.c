/* Running a program: this run's tensors are put under the headers, and the calls run in order. */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/device/device.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/program.h"
#include "tenon/ops.h"

enum { ALIGNMENT = 64 }; /* of what the pools give, by which kernels were chosen */

/* --- what is given --- */

static tn_status refuse(const program_run *r, const char *what, const char *name,
                        const tn_tensor *t, const char *why) {
  char text[256];
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_program_run: program %s, %s \"%s\" (%s): %s",
              r->program->name, what, name, tensor_text(text, sizeof text, t), why);
}

static tn_status check_tensor(const program_run *r, const char *what, const char *name,
                              const tn_tensor *t, tn_dtype dtype, int32_t rank,
                              const int64_t *shape) {
  char why[256], wanted[128];
  if (!t) return refuse(r, what, name, t, "it is NULL");
  tn_status status = tensor_check(t, "tn_program_run");
  if (status) return status;
  if (t->device != r->program->device) {
    snprintf(why, sizeof why, "the program is for device %s; use tn_tensor_to_device",
             r->program->device->id);
    return refuse(r, what, name, t, why);
  }
  if ((tn_dtype)t->dtype == dtype && t->dl.ndim == rank &&
      !memcmp(t->shape, shape, (size_t)rank * sizeof *shape))
    return TN_OK;
  snprintf(why, sizeof why, "the graph has %s %s there", tn_dtype_name(dtype),
           shape_text(wanted, sizeof wanted, rank, shape));
  return refuse(r, what, name, t, why);
}

static bool share_memory(const tn_tensor *a, const tn_tensor *b) {
  uint32_t work = 1 << 16;
  return a == b || (tensors_interleave(a, b) && tensors_share_elements(a, b, &work));
}

/* A parameter that the program writes is not read as an input beside. */
static tn_status check_apart(const program_run *r, const char *name, const tn_tensor *in) {
  const tn_program *p = r->program;
  for (uint32_t k = 0; k < p->num_updated; ++k)
    if (share_memory(in, p->real[p->reals[k]]))
      return refuse(r, "input", name, in,
                    "it shares memory with a parameter that the program updates");
  return TN_OK;
}

static tn_status check_inputs(const program_run *r, const tn_tensor *const *in) {
  const record *rec = &r->program->record;
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < rec->num_inputs; ++i) {
    const record_buffer *b = &rec->buffers[r->program->inputs[i]];
    status = check_tensor(r, "input", b->name, in[i], b->dtype, b->rank, b->shape);
    if (!status) status = check_apart(r, b->name, in[i]);
  }
  return status;
}

static tn_status check_output(const program_run *r, const tn_tensor *const *in,
                              tn_tensor *const *out, uint32_t i) {
  const record *rec = &r->program->record;
  const record_value *v = &rec->values[rec->outputs[i].value];
  const char *name = rec->outputs[i].name;
  tn_status status = check_tensor(r, "output", name, out[i], v->dtype, v->rank, v->shape);
  if (status) return status;
  if (out[i]->read_only) return refuse(r, "output", name, out[i], "it is read-only");
  if (tensor_repeats_elements(out[i]))
    return refuse(r, "output", name, out[i], "it has the same element in several places");
  for (uint32_t k = 0; k < rec->num_inputs; ++k)
    if (share_memory(out[i], in[k]))
      return refuse(r, "output", name, out[i], "it shares memory with an input");
  for (uint32_t k = 0; k < i; ++k)
    if (out[k] && share_memory(out[i], out[k]))
      return refuse(r, "output", name, out[i], "it shares memory with another output");
  for (uint32_t k = 0; k < r->program->num_reals; ++k)
    if (share_memory(out[i], r->program->real[r->program->reals[k]]))
      return refuse(r, "output", name, out[i], "it shares memory with a parameter or constant");
  return TN_OK;
}

static tn_status check_run(const program_run *r, size_t num_in, const tn_tensor *const *in,
                           size_t num_out, tn_tensor *const *out) {
  const record *rec = &r->program->record;
  if (num_in != rec->num_inputs || num_out != rec->num_outputs || (num_in && !in) ||
      (num_out && !out))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_program_run: program %s: %zu inputs and %zu outputs given, it has %" PRIu32
                " and %" PRIu32,
                r->program->name, num_in, num_out, rec->num_inputs, rec->num_outputs);
  tn_status status = check_inputs(r, in);
  for (uint32_t i = 0; !status && i < num_out; ++i)
    if (out[i]) status = check_output(r, in, out, i);
  return status;
}

/* --- putting it in place --- */

static bool is_aligned(const tn_tensor *t) {
  uint64_t at = t->device->opaque ? t->dl.byte_offset : (uint64_t)(uintptr_t)t->dl.data;
  return t->contiguous && at % ALIGNMENT == 0;
}

/* Other streams' memory is not used again before this run's work. */
static void note_use(const program_run *r, const tn_tensor *t) {
  block *b = t->storage->block;
  if (b && !r->program->device->synchronous && b->cache != r->stream->cache)
    pool_note_use(b, r->stream->cache);
}

static tn_status take_inputs(program_run *r, const tn_tensor *const *in) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < r->program->record.num_inputs; ++i) {
    r->in[i] = in[i];
    note_use(r, in[i]);
    if (is_aligned(in[i])) continue;
    status = tn_copy(r->stream, in[i], &r->copies[i]);
    r->in[i] = r->copies[i];
  }
  return status;
}

/* The output's buffer is written by the calls themselves: into what was given where that can
 * stand under a header, else into a new tensor. */
bool program_output_is_direct(const tn_program *p, uint32_t i) {
  const record *rec = &p->record;
  const planned_buffer *b = &p->plan.buffers[rec->values[rec->outputs[i].value].buffer];
  return b->place == PLACE_OUTPUT && b->output == i;
}

static tn_status take_outputs(program_run *r, tn_tensor *const *out) {
  const record *rec = &r->program->record;
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < rec->num_outputs; ++i) {
    const record_value *v = &rec->values[rec->outputs[i].value];
    if (out[i]) note_use(r, out[i]);
    if (!program_output_is_direct(r->program, i)) continue;
    if (out[i] && is_aligned(out[i])) {
      r->out[i] = out[i];
      continue;
    }
    status =
        tn_tensor_empty_on(r->program->device, r->stream, v->dtype, v->rank, v->shape, &r->out[i]);
  }
  return status;
}

void run_refresh(const program_run *r) {
  for (uint32_t i = 0; i < r->at->num_expanded; ++i) (void)prepared_refresh(r->at->expanded[i]);
}

void run_show(const program_run *r, bool shown) {
  for (uint32_t i = 0; i < r->program->num_bound; ++i) {
    const bound_value *b = &r->program->bound[i];
    const tn_tensor *t = b->is_output ? r->out[b->place] : r->in[b->place];
    header_show(r->at, r->at->headers[b->value], shown ? t : NULL, b->offset);
  }
  run_refresh(r);
}

/* Random nodes go on where the run before stopped. */
static tn_status draw_on(const program_run *r) {
  tn_program *p = r->program;
  if (!p->num_random) return TN_OK;
  uint64_t start = p->draw_shift + atomic_fetch_add(p->drawn, p->random_step);
  if (r->at->drawn) return tn_tensor_write(r->stream, r->at->drawn, &start, sizeof start);
  for (uint32_t i = 0; i < r->program->num_random; ++i) {
    const random_node *n = &r->program->random[i];
    char *attrs = prepared_attrs(r->at->calls[r->at->call_of[n->place]]);
    uint64_t offset = n->offset + start;
    if (attrs) memcpy(attrs + n->attr_offset, &offset, sizeof offset);
  }
  return TN_OK;
}

/* --- the calls --- */

static __attribute__((cold)) const char *name_node(const program_run *r, uint32_t call, char *text,
                                                   size_t size) {
  uint32_t node = r->at->node_of[call];
  const char *site = r->program->record.nodes[node].site;
  snprintf(text, size, "program %s, node %" PRIu32 "%s%s", r->program->name,
           program_number(r->program, node), site ? " at " : "", site ? site : "");
  return text;
}

tn_status run_failed_at(const program_run *r, uint32_t call, tn_status status) {
  char node[512];
  fail_prefix("%s: ", name_node(r, call, node, sizeof node));
  return status;
}

static __attribute__((cold)) tn_status node_failed(const program_run *r, uint32_t call,
                                                   tn_status status) {
  char node[512];
  fail_prefix("%s, after %" PRIu32 " of %" PRIu32 " had run: ",
              name_node(r, call, node, sizeof node), call, r->at->num_calls);
  return status;
}

static tn_status run_calls(const program_run *r) {
  tn_prepared *const *calls = r->at->calls;
  run_show(r, true);
  for (uint32_t i = 0; i < r->at->num_calls; ++i) {
    tn_status status = tn_run(calls[i]);
    if (__builtin_expect(status, 0)) return node_failed(r, i, status);
  }
  return TN_OK;
}

/* Outputs that are no buffers of their own, or were given where no header could be. */
static tn_status finish_output(const program_run *r, tn_tensor **out, uint32_t i) {
  const record *rec = &r->program->record;
  if (r->out[i] && r->out[i] == out[i]) return TN_OK;
  if (r->out[i] && !out[i]) {
    tn_tensor_retain(r->out[i]);
    out[i] = r->out[i];
    return TN_OK;
  }
  const tn_tensor *from = r->out[i] ? r->out[i] : r->at->headers[rec->outputs[i].value];
  return tn_copy(r->stream, from, &out[i]);
}

static tn_status finish_outputs(const program_run *r, tn_tensor **out) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < r->program->record.num_outputs; ++i)
    status = finish_output(r, out, i);
  return status;
}

/* Its calls, or their replay, and the outputs that are no buffers of their own. */
static tn_status run_at(program_run *r, tn_tensor **out) {
  tn_status status = draw_on(r);
  if (status) return status;
  bool replayed = replay_run(r, &status);
  bool shown = !replayed || r->program->replay.copies_outputs;
  if (!replayed)
    status = run_calls(r);
  else if (shown)
    run_show(r, true);
  if (!status) status = finish_outputs(r, out);
  if (shown) run_show(r, false);
  return status;
}

static tn_status run_placed(program_run *r, const tn_tensor *const *in, tn_tensor **out) {
  tn_program *p = r->program;
  tn_status status = take_inputs(r, in);
  if (!status) status = take_outputs(r, out);
  if (status) return status;
  status = instance_take(p, r->stream, &r->at);
  if (status) {
    fail_prefix("tn_program_run: program %s, what runs on this stream need: ", p->name);
    return status;
  }
  atomic_fetch_add_explicit(&p->runs, 1, memory_order_relaxed);
  status = run_at(r, out);
  instance_give(p, r->at);
  return status;
}

/* Releases what this run made, but for references that the caller has got: all outputs or none. */
static void run_finish(const program_run *r, tn_status status, tn_tensor *const *given,
                       tn_tensor **out) {
  for (uint32_t i = 0; i < r->program->record.num_inputs; ++i) tn_tensor_release(r->copies[i]);
  for (uint32_t i = 0; i < r->program->record.num_outputs; ++i)
    if (r->out[i] && r->out[i] != given[i]) tn_tensor_release(r->out[i]);
  for (uint32_t i = 0; status && i < r->program->record.num_outputs; ++i) {
    if (out[i] != given[i]) tn_tensor_release(out[i]);
    out[i] = given[i];
  }
}

/* On a device that is not ordinary: guards are told what the run will write to. */
static __attribute__((cold)) void tell_guards(const tn_program *p, size_t num_out,
                                              tn_tensor *const *out) {
  static const tn_operator run = {
      .struct_size = sizeof run, .name = "program_run", .id = UINT32_MAX};
  if (!guard_listens(p->device)) return;
  for (size_t i = 0; i < num_out; ++i)
    if (out[i]) guard_tell(p->device, &run, out[i]);
  for (uint32_t i = 0; i < p->num_updated; ++i) guard_tell(p->device, &run, p->real[p->reals[i]]);
}

tn_status tn_program_run(tn_program *program, tn_stream *stream, size_t num_in,
                         const tn_tensor *const *in, size_t num_out, tn_tensor **out) {
  if (!program) return fail(TN_ERR_INVALID_ARGUMENT, "tn_program_run: program is NULL");
  tn_status status = device_check(program->device);
  if (!status && !device_is_ordinary(program->device))
    status = watch_refuse(program->device, "tn_program_run");
  if (status) return status;
  program_run r = {.program = program, .stream = stream ? stream : program->device->default_stream};
  if (r.stream->device != program->device)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_program_run: the stream is of device %s, program %s "
                "is for %s",
                r.stream->device->id, program->name, program->device->id);
  status = check_run(&r, num_in, in, num_out, out);
  if (status) return status;
  if (__builtin_expect(!device_is_ordinary(program->device), 0)) tell_guards(program, num_out, out);
  enum { NEAR = 48 }; /* most programs' tensors find room here */
  void *near[NEAR], **room = near;
  const host_memory *memory = &program->record.memory;
  size_t count = 2 * num_in + 2 * num_out;
  if (count > NEAR) room = host_alloc(memory, count * sizeof *room);
  if (!room) return fail(TN_ERR_OUT_OF_MEMORY, "tn_program_run: no host memory");
  for (size_t i = 0; i < count; ++i) room[i] = NULL;
  r.in = (const tn_tensor **)(void *)room;
  r.copies = (tn_tensor **)(void *)(room + num_in);
  r.out = (tn_tensor **)(void *)(room + 2 * num_in);
  tn_tensor **given = r.out + num_out;
  for (size_t i = 0; i < num_out; ++i) given[i] = out[i];
  status = run_placed(&r, in, out);
  run_finish(&r, status, given, out);
  if (room != near) host_free(memory, room);
  return status;
}
