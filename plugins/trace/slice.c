/*
 * The events of a trace: one line of JSON each, of the trace event format. Names that stay are
 * escaped once per row; a call adds numbers, tensors, attributes and its site.
 */
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "trace.h"

/* Room for the parts of a slice that vary; the rest of SLICE_BYTES holds what does not. */
enum { TENSORS_ROOM = 1000, ATTRS_ROOM = 400, SITE_ROOM = 400, NAME_ROOM = 100 };

static void emit(trace *t, const char *begin, const text *end, uint64_t now) {
  writer_event(&t->writer, begin, (size_t)(end->at - begin), now);
}

static void emit_name(trace *t, const char *begin, const text *end) {
  writer_name(&t->writer, begin, (size_t)(end->at - begin), now_ns());
}

static void put_name(text *t, const char *name) {
  text part = text_part(t, NAME_ROOM);
  text_escaped(&part, name);
  text_join(t, &part);
}

/* --- names of processes and threads --- */

static void metadata(trace *t, uint32_t pid, uint32_t thread, const char *what, const char *name) {
  char line[HEAD_BYTES];
  text x = {line, line + sizeof line};
  text_put(&x, "{\"ph\":\"M\",\"name\":\"");
  text_put(&x, what);
  text_put(&x, "_name\",\"pid\":");
  text_number(&x, pid);
  text_put(&x, ",\"tid\":");
  text_number(&x, thread);
  text_put(&x, ",\"args\":{\"name\":\"");
  put_name(&x, name);
  text_put(&x, "\"}}");
  emit_name(t, line, &x);
}

static void sort_index(trace *t, uint32_t pid, uint32_t thread, const char *what, uint32_t order) {
  char line[HEAD_BYTES];
  text x = {line, line + sizeof line};
  text_put(&x, "{\"ph\":\"M\",\"name\":\"");
  text_put(&x, what);
  text_put(&x, "_sort_index\",\"pid\":");
  text_number(&x, pid);
  text_put(&x, ",\"tid\":");
  text_number(&x, thread);
  text_put(&x, ",\"args\":{\"sort_index\":");
  text_number(&x, order);
  text_put(&x, "}}");
  emit_name(t, line, &x);
}

void slice_process(trace *t, uint32_t pid, const char *name, uint32_t order) {
  metadata(t, pid, 0, "process", name);
  sort_index(t, pid, 0, "process", order);
}

void slice_thread(trace *t, uint32_t pid, uint32_t thread, const char *name) {
  metadata(t, pid, thread, "thread", name);
}

/* --- what a row says each time --- */

static text begin(fragment *f) { return (text){f->bytes, f->bytes + sizeof f->bytes}; }
static void end(fragment *f, const text *x) { f->length = (size_t)(x->at - f->bytes); }

static void make_head(fragment *f, uint32_t pid, const row *r) {
  text x = begin(f);
  text_put(&x, "{\"ph\":\"X\",\"cat\":\"");
  text_put(&x, r->stand_in_for ? "stand-in" : r->fallback_from ? "fallback" : "op");
  text_put(&x, "\",\"name\":\"");
  put_name(&x, r->op->name);
  text_put(&x, "\",\"pid\":");
  text_number(&x, pid);
  text_put(&x, ",\"tid\":");
  end(f, &x);
}

static void make_args(fragment *f, const row *r) {
  text x = begin(f);
  text_put(&x, ",\"args\":{\"kernel\":\"");
  put_name(&x, r->kernel->name);
  text_put(&x, "\",\"plugin\":\"");
  put_name(&x, r->plugin);
  text_put(&x, "\",\"device\":\"");
  put_name(&x, r->device->type);
  text_put(&x, ":");
  text_signed(&x, r->device->index);
  if (r->fallback_from) {
    text_put(&x, "\",\"fallback_from\":\"");
    put_name(&x, r->fallback_from);
  }
  if (r->stand_in_for) {
    text_put(&x, "\",\"stand_in_for\":\"");
    put_name(&x, r->stand_in_for);
  }
  text_put(&x, "\",\"stream\":");
  end(f, &x);
}

static void make_kernel(fragment *f, const row *r) {
  text x = begin(f);
  text_put(&x, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"");
  put_name(&x, r->kernel->name);
  text_put(&x, "\",\"pid\":");
  text_number(&x, r->device->pid);
  text_put(&x, ",\"args\":{\"op\":\"");
  put_name(&x, r->op->name);
  text_put(&x, "\",\"bytes\":");
  end(f, &x);
}

void slice_row(const trace *t, row *r) {
  make_head(&r->head, (uint32_t)t->pid, r);
  make_args(&r->args, r);
  make_kernel(&r->kernel_head, r);
  snprintf(r->range, sizeof r->range, "%.*s[%.*s]", NAME_ROOM, r->op->name, NAME_ROOM,
           r->kernel->name);
}

/* --- calls --- */

static void put_fragment(text *t, const fragment *f) { text_copy(t, f->bytes, f->length); }

static void put_times(text *t, uint64_t begin_ns, uint64_t ns) {
  text_put(t, ",\"ts\":");
  text_us(t, begin_ns);
  text_put(t, ",\"dur\":");
  text_us(t, ns);
}

static void put_flow(text *t, uint64_t id, const char *direction) {
  if (!id) return;
  text_put(t, ",\"bind_id\":\"");
  text_number(t, id);
  text_put(t, direction);
}

static void put_tensors(text *t, const char *name, const DLTensor *const *tensors, uint32_t count) {
  if (!count) return;
  text_put(t, name);
  text part = text_part(t, TENSORS_ROOM);
  text_tensors(&part, tensors, count);
  text_join(t, &part);
  text_put(t, "\"");
}

static void put_attrs(text *t, const tn_layer_call *call) {
  text part = text_part(t, ATTRS_ROOM);
  char *before;
  text_put(&part, ",\"attrs\":\"");
  before = part.at;
  text_attrs(&part, call->op, call->args);
  if (part.at == before) return;
  text_join(t, &part);
  text_put(t, "\"");
}

static void put_site(text *t, const char *site) {
  if (!site) return;
  text_put(t, ",\"site\":\"");
  text part = text_part(t, SITE_ROOM);
  text_escaped(&part, site);
  text_join(t, &part);
  text_put(t, "\"");
}

static void put_status(text *t, tn_status status) {
  if (!status) return;
  text_put(t, ",\"failed\":");
  text_number(t, status);
}

static void put_call(text *t, const row *r, const lane *l, const tn_layer_call *call, const span *s,
                     tn_status status) {
  const tn_kernel_args *args = call->args;
  put_fragment(t, &r->head);
  text_number(t, (uint32_t)s->thread);
  put_times(t, s->begin_ns, s->end_ns - s->begin_ns);
  put_flow(t, s->id, "\",\"flow_out\":true");
  put_fragment(t, &r->args);
  text_number(t, l->number);
  put_tensors(t, ",\"in\":\"", args->in, args->num_in);
  put_tensors(t, ",\"out\":\"", (const DLTensor *const *)args->out, args->num_out);
  put_attrs(t, call);
  text_put(t, ",\"bytes\":");
  text_number(t, s->bytes);
  put_site(t, call->site);
  put_status(t, status);
  text_put(t, "}}");
}

static void put_kernel(text *t, const row *r, const lane *l, const span *s, uint64_t begin_ns,
                       uint64_t ns) {
  put_fragment(t, &r->kernel_head);
  text_number(t, s->bytes);
  text_put(t, "},\"tid\":");
  text_number(t, l->number);
  put_times(t, begin_ns, ns);
  put_flow(t, s->id, "\",\"flow_in\":true");
  text_put(t, "}");
}

void slice_call(trace *t, const row *r, const lane *l, const tn_layer_call *call, const span *s,
                tn_status status) {
  char line[SLICE_BYTES];
  text x = {line, line + sizeof line};
  put_call(&x, r, l, call, s, status);
  if (l->thread && !status) {
    text_put(&x, ",\n");
    put_kernel(&x, r, l, s, s->begin_ns, s->end_ns - s->begin_ns);
  }
  emit(t, line, &x, s->end_ns);
}

void slice_kernel(trace *t, const row *r, const lane *l, const span *s, uint64_t begin_ns,
                  uint64_t ns) {
  char line[SLICE_BYTES];
  text x = {line, line + sizeof line};
  put_kernel(&x, r, l, s, begin_ns, ns);
  emit(t, line, &x, s->end_ns);
}

/* --- what happens beside calls --- */

void slice_notice(trace *t, const device *d, const tn_layer_event *event, const char *category,
                  const char *what) {
  char line[SLICE_BYTES];
  text x = {line, line + sizeof line};
  uint64_t now = now_ns();
  text_put(&x, "{\"ph\":\"X\",\"cat\":\"");
  text_put(&x, category);
  text_put(&x, "\",\"name\":\"");
  text_put(&x, what);
  put_name(&x, d->type);
  text_put(&x, ":");
  text_signed(&x, d->index);
  text_put(&x, "\",\"pid\":");
  text_number(&x, (uint32_t)t->pid);
  text_put(&x, ",\"tid\":");
  text_number(&x, (uint32_t)thread_of(t));
  put_times(&x, event->began_ns, now - event->began_ns);
  text_put(&x, ",\"args\":{\"bytes\":");
  text_number(&x, event->bytes);
  if (TN_HAS_FIELD(event, tn_layer_event, stand_in_for) && event->stand_in_for) {
    text_put(&x, ",\"stand_in_for\":\"");
    put_name(&x, event->stand_in_for);
    text_put(&x, "\"");
  }
  if (event->tensor) put_tensors(&x, ",\"tensor\":\"", &event->tensor, 1);
  put_site(&x, event->site);
  text_put(&x, "}}");
  emit(t, line, &x, now);
}

void slice_memory(trace *t, const device *d, uint64_t bytes) {
  char line[HEAD_BYTES];
  text x = {line, line + sizeof line};
  uint64_t now = now_ns();
  text_put(&x, "{\"ph\":\"C\",\"name\":\"memory of tensors\",\"pid\":");
  text_number(&x, d->pid);
  text_put(&x, ",\"tid\":0,\"ts\":");
  text_us(&x, now);
  text_put(&x, ",\"args\":{\"bytes\":");
  text_number(&x, bytes);
  text_put(&x, "}}");
  emit(t, line, &x, now);
}
