/* Tapes as programs use them: recording from begin to end, and gradients of what was recorded. */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/gradient/walk.h"
#include "graph/tape/tape.h"
#include "tenon/ops.h"

static tn_status no_memory(void) { return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tape"); }

static tn_status tape_check(const char *function, const tn_tape *tape) {
  if (!tape) return fail(TN_ERR_INVALID_ARGUMENT, "%s: tape is NULL", function);
  tn_status status = runtime_check(tape->runtime);
  if (status) fail_prefix("%s: ", function);
  return status;
}

/* --- making and destroying --- */

tn_status tn_tape_create(tn_runtime *runtime, tn_tape **tape) {
  if (!runtime || !tape)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_create: runtime and tape must not be NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  tn_tape *t = host_alloc(&runtime->memory, sizeof *t);
  if (!t) return no_memory();
  t->watcher = (call_watcher){.call = tape_call,
                              .written = tape_written,
                              .runtime = runtime,
                              .overwritten = tape_overwritten};
  t->memory = t->record.memory = runtime->memory;
  t->runtime = runtime;
  runtime_retain_weak(runtime);
  *tape = t;
  return TN_OK;
}

void tn_tape_destroy(tn_tape *tape) {
  if (!tape || runtime_is_forked(tape->runtime)) return;
  tn_runtime *runtime = tape->runtime;
  host_memory memory = tape->memory;
  if (thread_watcher() == &tape->watcher) thread_watcher_set(NULL);
  tape_free(tape);
  for (uint32_t i = 0; i < tape->num_watched; ++i) tn_tensor_release(tape->watched[i]);
  host_free(&memory, tape->watched);
  host_free(&memory, tape);
  runtime_release_weak(runtime);
}

/* --- what is watched --- */

static tn_status check_tensor(const char *function, const char *what, size_t i, const tn_tape *tape,
                              const tn_tensor *t) {
  char text[128];
  tn_status status = tensor_check(t, function);
  if (status) return status;
  const char *why = t->device->recorder                   ? "it is symbolic: use tn_graph_gradient"
                    : t->device->runtime != tape->runtime ? "it is of another runtime"
                    : !(TN_SET_FLOAT >> t->dtype & 1) ? "only floating-point tensors have gradients"
                                                      : NULL;
  if (!why) return TN_OK;
  return fail(TN_ERR_INVALID_ARGUMENT, "%s: %s %zu (%s): %s", function, what, i,
              tensor_text(text, sizeof text, t), why);
}

static tn_status watch(tn_tape *tape, const tn_tensor *t) {
  uint32_t value;
  tn_status status = tape_value(tape, t, &value);
  if (status) return status;
  uint8_t *depends = &tape->depends[tape->record.values[value].buffer];
  if (!*depends) cast_cache_clear(&tape->casts); /* of it none was recorded */
  *depends = 1;
  return TN_OK;
}

tn_status tn_tape_watch(tn_tape *tape, tn_tensor *tensor) {
  tn_status status = tape_check("tn_tape_watch", tape);
  if (!status) status = check_tensor("tn_tape_watch", "tensor", 0, tape, tensor);
  if (status) return status;
  if (tape->num_watched == tape->max_watched) {
    tn_tensor **wider = host_grow(&tape->memory, tape->watched, tape->num_watched, sizeof *wider,
                                  &tape->max_watched);
    if (!wider) return no_memory();
    tape->watched = wider;
  }
  bool guarded = tape_guard(tape, false);
  status = watch(tape, tensor);
  tape_guard(tape, guarded);
  if (status) return status;
  tn_tensor_retain(tensor);
  tape->watched[tape->num_watched++] = tensor;
  return TN_OK;
}

/* --- recording --- */

tn_status tn_tape_begin(tn_tape *tape) {
  tn_status status = tape_check("tn_tape_begin", tape);
  if (status) return status;
  if (thread_watcher())
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_begin: %s",
                tape->recording
                    ? "this tape is recording already"
                    : "another tape of this thread is recording: a thread has one at a time");
  if (tape->recording)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_begin: another thread is recording on this tape");
  tape_guard(tape, false);
  tape_take_late(tape);
  tape->recording = true;
  tape->watcher.paused = false;
  thread_watcher_set(&tape->watcher);
  return TN_OK;
}

tn_status tn_tape_end(tn_tape *tape) {
  tn_status status = tape_check("tn_tape_end", tape);
  if (status) return status;
  if (thread_watcher() != &tape->watcher)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_end: this thread is not recording on the tape");
  thread_watcher_set(NULL);
  tape->recording = false;
  tape->block = 0;
  cast_cache_clear(&tape->casts); /* updates are not recorded from here on */
  tape_guard(tape, tape->record.num_nodes > 0);
  return TN_OK;
}

tn_status tn_tape_recompute(tn_tape *tape, int on) {
  tn_status status = tape_check("tn_tape_recompute", tape);
  if (status) return status;
  if (thread_watcher() != &tape->watcher)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tape_recompute: this thread is not recording on the tape");
  tape->block = on ? ++tape->num_blocks : 0;
  return TN_OK;
}

tn_status tn_tape_forget(tn_tape *tape) {
  tn_status status = tape_check("tn_tape_forget", tape);
  if (status) return status;
  tape_clear(tape);
  for (uint32_t i = 0; !status && i < tape->num_watched; ++i)
    status = watch(tape, tape->watched[i]);
  return status;
}

/* --- gradients --- */

static __attribute__((cold)) tn_status overwritten(const record *r, uint32_t by) {
  const record_node *n = &r->nodes[by];
  return fail(TN_ERR_INVALID_ARGUMENT,
              "it needs a tensor that call %" PRIu32 " (tn_%s%s%s) has overwritten since: take the "
              "gradient before that, or let that work on a tn_copy",
              by, n->op->name, n->site ? ", at " : "", n->site ? n->site : "");
}

static __attribute__((cold)) tn_status overwritten_late(const late_write *by) {
  return fail(TN_ERR_INVALID_ARGUMENT,
              "it needs a tensor that tn_%s%s%s has overwritten since tn_tape_end: take the "
              "gradient before that, or let that work on a tn_copy",
              by->op->name, by->site ? ", at " : "", by->site ? by->site : "");
}

tn_status tape_kept(const tn_tape *tape, uint32_t value, tn_tensor **tensor) {
  const record_value *v = &tape->record.values[value];
  const saved_value *s = value < tape->num_saved ? &tape->saved[value] : NULL;
  uint32_t by;
  if (!record_is_intact(&tape->record, v, &by)) return overwritten(&tape->record, by);
  const late_write *late = tape_late_write(tape, v);
  if (late) return overwritten_late(late);
  if (!s || !s->tensor)
    return fail(TN_ERR_INTERNAL, "a tensor that a gradient rule reads was not kept");
  tn_tensor_retain(s->tensor);
  *tensor = s->tensor;
  return TN_OK;
}

static tn_status tape_tensor(gradient_walk *w, uint32_t value, tn_tensor **tensor) {
  tn_tape *tape = w->context;
  saved_value *s = value < tape->num_saved ? &tape->saved[value] : NULL;
  if (s && tape_block_of(&tape->record, value) && tape_is_missing(tape, value)) {
    tn_status status = tape_compute_again(tape, w->stream, value);
    if (status) return status;
  }
  if (!s || !s->again) return tape_kept(tape, value, tensor);
  tn_tensor_retain(s->tensor);
  *tensor = s->tensor;
  return TN_OK;
}

/* The node's rule has run, or need not: what was kept for it alone goes now. */
static void node_done(gradient_walk *w, uint32_t k) {
  tn_tape *tape = w->context;
  const record_node *n = &tape->record.nodes[k];
  if (n->block) tape_drop_for_block(tape, n);
  if (!n->saved) return;
  const gradient_rule *how = gradient_rule_of(n->op);
  const uint32_t needs_in = gradient_needs_in(how, n), needs_out = gradient_needs_out(how, n);
  for (uint32_t i = 0; i < n->num_in; ++i)
    if (n->in[i] != TN_GRAPH_NONE && gradient_needs(n, needs_in, i)) tape_drop(tape, n->in[i]);
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE && gradient_needs(n, needs_out, i)) tape_drop(tape, n->out[i]);
}

static bool alike(const tn_tensor *a, const tn_tensor *b) {
  return a->device == b->device && a->dtype == b->dtype && a->dl.ndim == b->dl.ndim &&
         !memcmp(a->shape, b->shape, (size_t)a->dl.ndim * sizeof *a->shape);
}

/* What is added to: it may not be broadcast, nor the gradient. */
static tn_status check_sum(const char *function, size_t i, const tn_tensor *x,
                           const tn_tensor *dx) {
  char text[128], of_x[128];
  if (!dx) return TN_OK;
  tn_status status = tensor_check(dx, function);
  if (status || alike(dx, x)) return status;
  return fail(TN_ERR_INVALID_ARGUMENT,
              "%s: dx %zu (%s) must have device, type and shape of x (%s) to be added to", function,
              i, tensor_text(text, sizeof text, dx), tensor_text(of_x, sizeof of_x, x));
}

static tn_status check(const tn_tape *tape, const tn_tensor *y, const tn_tensor *dy, size_t n,
                       tn_tensor *const *x, tn_tensor *const *dx, uint32_t flags) {
  const char *function = "tn_tape_gradient";
  char text[128];
  tn_status status = tape_check(function, tape);
  if (!status && n && (!x || !dx))
    status = fail(TN_ERR_INVALID_ARGUMENT, "%s: x and dx must not be NULL", function);
  if (!status && flags & ~(uint32_t)(TN_TAPE_KEEP | TN_TAPE_RECORD | TN_TAPE_ADD))
    status = fail(TN_ERR_INVALID_ARGUMENT, "%s: flags 0x%x do not exist", function, flags);
  if (!status && tape->recording && thread_watcher() != &tape->watcher)
    status =
        fail(TN_ERR_INVALID_ARGUMENT, "%s: another thread is recording on this tape", function);
  if (!status && flags & TN_TAPE_RECORD && !tape->recording)
    status = fail(TN_ERR_INVALID_ARGUMENT,
                  "%s: TN_TAPE_RECORD is for between tn_tape_begin and tn_tape_end", function);
  if (!status) status = check_tensor(function, "y", 0, tape, y);
  for (size_t i = 0; !status && i < n; ++i) status = check_tensor(function, "x", i, tape, x[i]);
  for (size_t i = 0; !status && i < n && flags & TN_TAPE_ADD; ++i)
    status = check_sum(function, i, x[i], dx[i]);
  if (status) return status;
  if (!dy && y->elements != 1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "%s: y (%s) has %" PRId64
                " elements: give dy, the gradient of a loss by it, or take the gradient of a sum",
                function, tensor_text(text, sizeof text, y), y->elements);
  if (dy && (tensor_check(dy, function) || !alike(dy, y)))
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: dy must have device, type and shape of y (%s)",
                function, tensor_text(text, sizeof text, y));
  return TN_OK;
}

/* Those given are added to; on failure all are as before. */
static tn_status add_up(tn_stream *stream, size_t n, tn_tensor **made, tn_tensor **dx,
                        uint32_t flags) {
  tn_status status = TN_OK;
  for (size_t i = 0; !status && i < n && flags & TN_TAPE_ADD; ++i) {
    tn_tensor *sum = NULL;
    if (!dx[i] || !made[i]) continue;
    status = tn_add(stream, dx[i], made[i], &sum);
    if (status) break;
    tn_tensor_release(made[i]);
    made[i] = sum;
  }
  for (size_t i = 0; i < n; ++i) {
    if (status) {
      tn_tensor_release(made[i]);
    } else if (made[i] || !(flags & TN_TAPE_ADD)) {
      if (flags & TN_TAPE_ADD) tn_tensor_release(dx[i]);
      dx[i] = made[i];
    }
  }
  return status;
}

static tn_status take_gradients(tn_tape *tape, tn_stream *stream, const tn_tensor *y,
                                const tn_tensor *dy, size_t n, tn_tensor *const *x, tn_tensor **dx,
                                uint32_t flags) {
  if (tape->broken) return fail(tape->broken, "a call could not be recorded for lack of memory");
  uint32_t of_y = 0, *values = host_alloc(&tape->memory, (n + 1) * sizeof *values);
  tn_tensor **made = host_alloc(&tape->memory, (n + 1) * sizeof *made);
  tn_status status = values && made ? TN_OK : no_memory();
  if (!status) status = tape_value(tape, y, &of_y);
  for (size_t i = 0; !status && i < n; ++i) status = tape_value(tape, x[i], &values[i]);
  gradient_walk w = {.record = &tape->record,
                     .runtime = tape->runtime,
                     .device = y->device,
                     .stream = stream,
                     .tensor = tape_tensor,
                     .done = flags & (TN_TAPE_KEEP | TN_TAPE_RECORD) ? NULL : node_done,
                     .context = tape};
  if (!status) status = gradient_walk_run(&w, of_y, dy, n, values, made);
  if (!status) status = add_up(stream, n, made, dx, flags);
  host_free(&tape->memory, values);
  host_free(&tape->memory, made);
  tape_drop_again(tape);
  return status;
}

tn_status tn_tape_gradient(tn_tape *tape, tn_stream *stream, const tn_tensor *y,
                           const tn_tensor *dy, size_t n, tn_tensor *const *x, tn_tensor **dx,
                           uint32_t flags) {
  tn_status status = check(tape, y, dy, n, x, dx, flags);
  if (status) return status;
  bool guarded = tape_guard(tape, false); /* nobody else looks at it meanwhile */
  bool paused = thread_watcher_pause(!(flags & TN_TAPE_RECORD));
  tn_dtype dtype = tape->autocast.dtype;
  uint32_t current = tape->block;
  tape->block = 0;
  tape->autocast.dtype = TN_DTYPE_NONE; /* types are those of the calls that were recorded */
  status = take_gradients(tape, stream, y, dy, n, x, dx, flags);
  tape->autocast.dtype = dtype;
  tape->block = current;
  thread_watcher_pause(paused);
  if (status) fail_prefix("tn_tape_gradient: ");
  if (flags & (TN_TAPE_KEEP | TN_TAPE_RECORD)) return tape_guard(tape, guarded), status;
  tn_status forgotten = tn_tape_forget(tape);
  return status ? status : forgotten;
}

tn_status tn_tape_stop_gradient(tn_tape *tape, tn_stream *stream, const tn_tensor *x,
                                tn_tensor **stopped) {
  if (!stopped) return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_stop_gradient: result is NULL");
  tn_status status = tape_check("tn_tape_stop_gradient", tape);
  if (!status) status = check_tensor("tn_tape_stop_gradient", "x", 0, tape, x);
  if (status) return status;
  tn_tensor *made = NULL;
  bool paused = thread_watcher_pause(true); /* what is not recorded, nothing passes through */
  status = tn_copy(stream, x, &made);
  thread_watcher_pause(paused);
  if (!status) *stopped = made;
  return status;
}
