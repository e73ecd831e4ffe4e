/*
 * Happens-before by vector clocks (Fidge 1988, Mattern 1989). Each stream is an actor, whether its
 * device works beside the host or in the caller, for a program's order must hold on any device;
 * the host is one actor, with all its threads, since what orders them cannot be seen from here.
 *
 *   a call, copy     comes after all that the host knew; later work of its stream after it
 *   host waits       the host knows all that the stream, or the event, knew
 *   event recorded   the event knows what its stream knows
 *   stream ordered   the stream knows what the event knows
 *
 * Two accesses of one byte, one of them a write, of which neither knows the other: a race.
 */
#include <stdio.h>
#include <string.h>

#include "validate.h"

/* --- devices and actors --- */

const device *device_of(validate *v, const char *type, int32_t index, const tn_backend *backend) {
  if (!type || !backend) return NULL;
  for (uint32_t i = 0; i < v->num_devices; ++i)
    if (v->devices[i].index == index && strcmp(v->devices[i].type, type) == 0)
      return &v->devices[i];
  if (v->num_devices == DEVICES_MAX) return NULL;
  device *d = &v->devices[v->num_devices++];
  *d = (device){.type = type, .index = index, .opaque = backend->flags & TN_BACKEND_OPAQUE_MEMORY};
  return d;
}

static uint64_t number_of(const validate *v, const device *d) { return (uint64_t)(d - v->devices); }

static uint32_t free_actor(const validate *v) {
  for (uint32_t i = 1; i < ACTORS_MAX - 1; ++i)
    if (!v->actor_used[i]) return i;
  return ACTORS_MAX - 1;
}

uint32_t actor_of(validate *v, const device *d, const void *stream) {
  if (!stream) return 0;
  const vclock *known = map_get(&v->actors, stream, number_of(v, d));
  if (known) return (uint32_t)(known - v->clocks);
  uint32_t actor = free_actor(v);
  if (!map_put(&v->actors, stream, number_of(v, d), &v->clocks[actor])) return ACTORS_MAX - 1;
  v->actor_used[actor] = true;
  return actor;
}

static void join(vclock *to, const vclock *from) {
  for (uint32_t i = 0; i < ACTORS_MAX; ++i)
    if (from->tick[i] > to->tick[i]) to->tick[i] = from->tick[i];
}

uint64_t actor_step(validate *v, uint32_t actor) {
  vclock *c = &v->clocks[actor];
  join(c, &v->clocks[0]);
  return ++c->tick[actor];
}

/* The stream is gone and its work done, which the host knows. Its ticks go on with the next
 * stream in its place. */
static void actor_forget(validate *v, const device *d, const void *stream) {
  vclock *c = map_take(&v->actors, stream, number_of(v, d));
  if (!c) return;
  uint32_t actor = (uint32_t)(c - v->clocks);
  join(&v->clocks[0], c);
  if (actor == ACTORS_MAX - 1) return; /* others may share it */
  uint64_t tick = c->tick[actor];
  *c = (vclock){{0}};
  c->tick[actor] = tick;
  v->actor_used[actor] = false;
}

/* --- notices --- */

static void event_recorded(validate *v, const void *event, uint32_t actor) {
  vclock *c = map_get(&v->events, event, 0);
  if (!c) return;
  *c = v->clocks[actor];
  if (actor) join(c, &v->clocks[0]);
}

static void event_made(validate *v, const void *event) {
  vclock *c = v->host->alloc(v->host, sizeof *c, 64);
  if (!c) return;
  *c = (vclock){{0}};
  if (!map_put(&v->events, event, 0, c)) v->host->free(v->host, c);
}

static void learn(validate *v, uint32_t actor, const void *event) {
  const vclock *c = map_get(&v->events, event, 0);
  if (c) join(&v->clocks[actor], c);
}

void order_notice(validate *v, const tn_layer_event *e) {
  const device *d = device_of(v, e->device_type, e->device_index, e->backend);
  if (!d) return;
  switch (e->kind) {
  case TN_LAYER_STREAM_MADE: /* streams count in the order of their making */
    (void)actor_of(v, d, e->stream);
    break;
  case TN_LAYER_STREAM_DESTROYED:
    actor_forget(v, d, e->stream);
    break;
  case TN_LAYER_STREAM_WAITED:
    join(&v->clocks[0], &v->clocks[actor_of(v, d, e->stream)]);
    break;
  case TN_LAYER_STREAM_ORDERED:
    learn(v, actor_of(v, d, e->stream), e->object);
    break;
  case TN_LAYER_EVENT_MADE:
    event_made(v, e->object);
    break;
  case TN_LAYER_EVENT_DESTROYED:
    v->host->free(v->host, map_take(&v->events, e->object, 0));
    break;
  case TN_LAYER_EVENT_RECORDED:
    event_recorded(v, e->object, actor_of(v, d, e->stream));
    break;
  case TN_LAYER_EVENT_PASSED:
    learn(v, 0, e->object);
    break;
  default:
    break;
  }
}

/* --- one tensor of a call or copy --- */

typedef struct touch {
  validate *v;
  findings *found;
  const device *device;
  const tn_layer_call *call; /* NULL: a copy */
  const DLTensor *tensor;
  uint32_t index;      /* among the call's inputs, or outputs where the access writes */
  const tn_attr *attr; /* it is this attribute's; NULL: an operand */
  access access;
  bool owned; /* it lies inside one piece of living memory */
  bool raced; /* one report for one tensor */
  bool lacks; /* nothing has written it */
} touch;

static void name_touched(char *text, size_t size, const touch *t, bool output) {
  if (t->attr)
    snprintf(text, size, "attrs->%s", t->attr->name);
  else if (t->call)
    tensor_name(text, size, t->call, output, t->index);
  else
    snprintf(text, size, "a tensor");
}

/* "writes y (cpu:0 f32 [2])". Made only for reports. */
static const char *touch_text(char *text, size_t size, const touch *t) {
  char name[64], shape[160];
  name_touched(name, sizeof name, t, t->access.write);
  snprintf(text, size, "%s %s (%s:%d %s)", t->access.write ? "writes" : "reads", name,
           t->device->type, t->device->index,
           tensor_text(shape, sizeof shape, t->tensor->dtype, t->tensor->ndim, t->tensor->shape));
  return text;
}

static void report_race(touch *t, const access *old) {
  char here[SITE_BYTES + 8], there[SITE_BYTES + 8], what[320];
  const access *a = &t->access;
  t->raced = true;
  find(t->v, t->found, REPORT_RACE, a->op, a->site, old->op, old->site,
       "race: %s%s %s on stream %u while %s%s, which %s %s on stream %u, may not be done; make one "
       "wait for the other (tn_event_record, tn_stream_wait_event)",
       a->op, at_site(here, sizeof here, a->site), touch_text(what, sizeof what, t), a->actor,
       old->op, at_site(there, sizeof there, old->site), old->write ? "writes" : "reads",
       old->earlier ? "a released tensor that had the same memory" : "it", old->actor);
}

static void look(memory *m, void *ctx) {
  touch *t = ctx;
  const access *a = &t->access;
  if (a->where.lo >= m->lo && a->where.hi <= m->hi) t->owned = true;
  if (!(t->v->checks & CHECK_RACES)) return;
  for (uint32_t i = 0; i < m->num_accesses && !t->raced; ++i) {
    const access *old = &m->accesses[i];
    if ((!a->write && !old->write) || is_ordered(t->v, old, a->actor)) continue;
    overlap met = extents_overlap(&a->where, &old->where);
    t->v->undecided += met == OVERLAP_UNDECIDED;
    if (met == OVERLAP_YES) report_race(t, old);
  }
}

static void note(memory *m, void *ctx) {
  const touch *t = ctx;
  if (t->access.write) written_add(m, t->access.where.lo, t->access.where.hi);
  if (t->v->checks & CHECK_RACES) memory_note(t->v, m, &t->access);
}

static void look_written(memory *m, void *ctx) {
  touch *t = ctx;
  t->lacks |= written_lacks(m, &t->access.where);
}

/* The tensor is about to be read. */
static void check_written(touch *t, bool output) {
  char here[SITE_BYTES + 8], name[64], shape[160];
  const access *a = &t->access;
  if (!(t->v->checks & CHECK_UNWRITTEN)) return;
  t->lacks = false;
  memory_visit(t->v, t->device, &a->where, look_written, t);
  if (!t->lacks) return;
  name_touched(name, sizeof name, t, output);
  find(t->v, t->found, REPORT_UNWRITTEN, a->op, a->site, NULL, NULL,
       "unwritten: %s%s reads %s (%s:%d %s), which nothing has written since it was made", a->op,
       at_site(here, sizeof here, a->site), name, t->device->type, t->device->index,
       tensor_text(shape, sizeof shape, t->tensor->dtype, t->tensor->ndim, t->tensor->shape));
}

static void check_touch(touch *t) {
  char here[SITE_BYTES + 8], what[320];
  const access *a = &t->access;
  memory_visit(t->v, t->device, &a->where, look, t);
  memory_visit(t->v, t->device, &a->where, note, t);
  if (t->owned || !(t->v->checks & CHECK_LIFETIME)) return;
  find(t->v, t->found, REPORT_LIFETIME, a->op, a->site, NULL, NULL,
       "lifetime: %s%s %s, whose memory belongs to no living tensor", a->op,
       at_site(here, sizeof here, a->site), touch_text(what, sizeof what, t));
}

/* --- calls --- */

/* An output may share memory with an input only where the operator works element by element
 * and both show the same elements. */
static bool may_share(const tn_layer_call *call, const DLTensor *x, const DLTensor *y) {
  if (!(call->op->flags & TN_OPERATOR_ELEMENTWISE) || x->ndim != y->ndim || x->data != y->data ||
      x->byte_offset != y->byte_offset || x->dtype.bits != y->dtype.bits)
    return false;
  for (int32_t i = 0; i < x->ndim; ++i)
    if (x->shape[i] != y->shape[i] || (x->shape[i] > 1 && x->strides[i] != y->strides[i]))
      return false;
  return true;
}

static void check_pair(validate *v, findings *f, const tn_layer_call *call, const device *d,
                       uint32_t i, const extent *y, uint32_t k) {
  const tn_kernel_args *args = call->args;
  bool output = k >= args->num_in;
  const DLTensor *t = output ? args->out[k - args->num_in] : args->in[k];
  if (!t) return;
  extent x = extent_of(t, d->opaque);
  overlap met = extents_overlap(&x, y);
  v->undecided += met == OVERLAP_UNDECIDED;
  if (met != OVERLAP_YES || (!output && may_share(call, t, args->out[i]))) return;
  char first[64], second[64], here[SITE_BYTES + 8];
  const char *site = site_keep(v, call->site);
  find(v, f, REPORT_ALIAS, call->op->name, site, NULL, NULL,
       "alias: %s%s writes %s into memory of its %s %s on %s:%d", call->op->name,
       at_site(here, sizeof here, site), tensor_name(first, sizeof first, call, true, i),
       output ? "output" : "input",
       tensor_name(second, sizeof second, call, output, output ? k - args->num_in : k), d->type,
       d->index);
}

/* No output shares the memory of an attribute's tensor. */
static void check_attr_apart(validate *v, findings *f, const tn_layer_call *call, const device *d,
                             uint32_t i, const extent *y, uint32_t attr) {
  const DLTensor *t = attr_tensor_at(call, attr);
  char name[64], here[SITE_BYTES + 8];
  if (!t) return;
  extent x = extent_of(t, d->opaque);
  if (extents_overlap(&x, y) != OVERLAP_YES) return;
  const char *site = site_keep(v, call->site);
  find(v, f, REPORT_ALIAS, call->op->name, site, NULL, NULL,
       "alias: %s%s writes %s into memory of its attrs->%s on %s:%d", call->op->name,
       at_site(here, sizeof here, site), tensor_name(name, sizeof name, call, true, i),
       attr_at(call->op, attr)->name, d->type, d->index);
}

static void check_alias(validate *v, findings *f, const tn_layer_call *call, const device *d) {
  const tn_kernel_args *args = call->args;
  for (uint32_t i = 0; i < args->num_out; ++i) {
    if (!args->out[i]) continue;
    extent y = extent_of(args->out[i], d->opaque);
    for (uint32_t k = 0; k < (uint32_t)args->num_in + i; ++k) check_pair(v, f, call, d, i, &y, k);
    for (uint32_t k = 0; k < call->op->num_attrs; ++k) check_attr_apart(v, f, call, d, i, &y, k);
  }
}

static void check_access(touch *t, bool output, bool read) {
  if (!t->tensor) return;
  t->access.where = extent_of(t->tensor, t->device->opaque);
  if (t->access.where.lo == t->access.where.hi) return;
  t->access.write = output;
  t->owned = t->raced = false;
  if (read) check_written(t, output);
  check_touch(t);
}

static void check_tensor(touch *t, bool output, uint32_t index) {
  const tn_kernel_args *args = t->call->args;
  t->tensor = output ? args->out[index] : args->in[index];
  t->index = index;
  t->attr = NULL;
  bool read = !output || (index < count_inout(t->call) && written_is_read(t->call->op));
  check_access(t, output, read);
}

static void check_attr(touch *t, uint32_t index) {
  t->tensor = attr_tensor_at(t->call, index);
  t->attr = attr_at(t->call->op, index);
  check_access(t, false, true);
}

/* A stand-in is copied in the name of the call that needs it. */
static const char *name_of(const tn_layer_call *call) {
  bool stand_in = TN_HAS_FIELD(call, tn_layer_call, stand_in_for) && call->stand_in_for;
  return stand_in ? call->stand_in_for : call->op->name;
}

void check_call(validate *v, findings *f, const tn_layer_call *call) {
  const device *d = device_of(v, call->device_type, call->device_index, call->backend);
  if (!d) return;
  uint32_t actor = actor_of(v, d, call->stream);
  touch t = {.v = v, .found = f, .device = d, .call = call};
  t.access = (access){.actor = actor,
                      .tick = actor_step(v, actor),
                      .op = name_of(call),
                      .site = site_keep(v, call->site)};
  if (v->checks & CHECK_ALIAS) check_alias(v, f, call, d);
  for (uint32_t i = 0; i < call->op->num_attrs; ++i) check_attr(&t, i);
  for (uint32_t i = 0; i < call->args->num_in; ++i) check_tensor(&t, false, i);
  for (uint32_t i = 0; i < call->args->num_out; ++i) check_tensor(&t, true, i);
}

/* The dispatcher takes along what the call only fills, too. */
static bool serves_fallback(const tn_layer_event *e) {
  return TN_HAS_FIELD(e, tn_layer_event, stand_in_for) && e->stand_in_for;
}

/* A copy between a tensor and host memory. */
void check_copy(validate *v, findings *f, const tn_layer_event *e) {
  const device *d = device_of(v, e->device_type, e->device_index, e->backend);
  if (!d) return;
  uint32_t actor = actor_of(v, d, e->stream);
  bool write = e->kind == TN_LAYER_TENSOR_WRITTEN;
  touch t = {.v = v, .found = f, .device = d, .tensor = e->tensor};
  t.access = (access){.where = extent_of(e->tensor, d->opaque),
                      .actor = actor,
                      .write = write,
                      .tick = actor_step(v, actor),
                      .op = write ? "a copy from the host" : "a copy to the host",
                      .site = site_keep(v, e->site)};
  if (t.access.where.lo == t.access.where.hi) return;
  if (!write && !serves_fallback(e)) check_written(&t, false);
  check_touch(&t);
}

void races_free(validate *v) {
  for (size_t i = 0; i < v->events.capacity; ++i)
    if (v->events.slots[i].value) v->host->free(v->host, v->events.slots[i].value);
  map_free(&v->events);
  map_free(&v->actors);
}
