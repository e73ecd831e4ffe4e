/* Slots that a backend may lack: queues around handles that others made, and graphs. */
#include <string.h>

#include "backend.h"
#include "rig.h"

static bool wait_for(rig *r, void *queue) {
  return direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue));
}

/* Two queues around one handle are one queue to the work in them. */
static void use_wrapped(rig *r, void *queue, void *wrapped) {
  direct *d = r->d;
  promise first, second;
  direct_where(d, "work of a queue, then of one around its handle");
  if (!rig_delayed(r, queue, &first) || !rig_promise(r, wrapped, &second) ||
      !wait_for(r, wrapped) || !rig_expect(r, first, "queue_wait of the second returned") ||
      !rig_expect(r, second, "queue_wait of the second returned"))
    return;
  direct_where(d, "work of a queue around a handle, then of the handle's own");
  if (!rig_delayed(r, wrapped, &first) || !rig_promise(r, queue, &second) || !wait_for(r, queue) ||
      !rig_expect(r, first, "queue_wait of the handle's own queue returned"))
    return;
  direct_where(d, "a queue around a handle is destroyed, the handle's own goes on");
  if (!rig_delayed(r, wrapped, &first)) return;
  direct_queue_destroy(d, wrapped);
  if (wait_for(r, queue) && rig_expect(r, first, "queue_wait returned") &&
      rig_delayed(r, queue, &second) && wait_for(r, queue))
    (void)rig_expect(r, second, "queue_wait returned");
}

void check_wrap(direct *d, const check_options *o) {
  rig r;
  void *wrapped = NULL;
  (void)o;
  if (!d->slots.queue_wrap) {
    direct_note(d, "not checked: the backend has no queue_wrap");
    return;
  }
  if (!rig_make(d, &r)) return;
  void *queue = rig_queue(&r), *native = queue ? direct_queue_native(d, queue) : NULL;
  direct_where(d, "a queue around what queue_native gave");
  if (!native) {
    direct_note(d, "not checked: queue_native gives NULL, so there is no handle");
  } else {
    tn_status status = direct_queue_wrap(d, native, &wrapped);
    if (status == TN_ERR_UNSUPPORTED)
      direct_note(d, "not checked: queue_wrap does not take it: %s", direct_error());
    else if (direct_ok(d, "queue_wrap", status))
      use_wrapped(&r, queue, wrapped);
  }
  rig_free(&r);
}

/* ------------------------------------------------------------------- graphs --- */

/* What the first byte of the marks is, once the queue is empty. */
static bool look(rig *r, void *queue, unsigned char wanted, const char *when) {
  unsigned char back[RIG_LINE] = {0};
  bool ok = direct_ok(r->d, "copy",
                      direct_copy(r->d, queue, TN_COPY_TO_HOST, back, 0, r->marks, 0, RIG_LINE));
  if (ok && back[0] != wanted)
    direct_fail(r->d, "%s memory holds %d, not %d", when, back[0], wanted);
  return ok && back[0] == wanted;
}

static void use_graph(rig *r, void *queue, void *graph) {
  direct *d = r->d;
  if (!look(r, queue, 5, "after capture_end, which runs nothing,")) return;
  for (int i = 0; i < 2; i++) {
    direct_where(d, "a graph of one copy, launched for the %d. time", i + 1);
    if (!rig_put_line(r, queue, r->marks, 0, 5) || !rig_work(r, queue, 1)) return;
    if (!direct_ok(d, "graph_launch", direct_graph_launch(d, graph, queue))) return;
    if (!look(r, queue, 9, "after graph_launch")) return;
  }
}

/* What may be recorded: a copy with pinned memory, which stays as it is while the graph lives. The
 * last of the promises' lines is no promise's here. */
static bool put_pinned(rig *r, void *queue, unsigned char value) {
  const uint64_t at = (uint64_t)(RIG_PROMISES - 1) * RIG_LINE;
  memset(r->seen + at, value, RIG_LINE);
  return direct_ok(
      r->d, "copy",
      direct_copy(r->d, queue, TN_COPY_TO_DEVICE, r->marks, 0, r->seen + at, 0, RIG_LINE));
}

void check_capture(direct *d, const check_options *o) {
  rig r;
  void *graph = NULL;
  (void)o;
  if (!d->slots.capture_begin) {
    direct_note(d, "not checked: the backend has no capture_begin");
    return;
  }
  if (!rig_make(d, &r)) return;
  if (!r.seen) {
    direct_note(d, "not checked: there is no pinned memory to copy from");
    rig_free(&r);
    return;
  }
  void *queue = rig_queue(&r);
  direct_where(d, "a copy from pinned memory is recorded");
  if (queue && rig_put_line(&r, queue, r.marks, 0, 5) && wait_for(&r, queue) &&
      direct_ok(d, "capture_begin", direct_capture_begin(d, queue)) && put_pinned(&r, queue, 9) &&
      direct_ok(d, "capture_end", direct_capture_end(d, queue, &graph)))
    use_graph(&r, queue, graph);
  if (direct_is_sound(d)) direct_graph_destroy(d, graph);
  rig_free(&r);
}
