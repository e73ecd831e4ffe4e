/* What is alive: for leaks when the runtime closes, and tensors used after their release. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "validate.h"

void thing_made(validate *v, thing_kind kind, const tn_layer_event *event) {
  thing *t = v->host->alloc(v->host, sizeof *t, 16);
  if (!t) return; /* it will be missing from a list of leaks, no more */
  memset(t, 0, sizeof *t);
  t->device = device_of(v, event->device_type, event->device_index, event->backend);
  t->site = site_keep(v, event->site);
  t->op = event->op ? event->op->name : NULL;
  t->bytes = event->bytes;
  t->object = event->object;
  if (event->tensor) {
    t->rank = event->tensor->ndim;
    t->dtype = event->tensor->dtype;
    if (t->rank) memcpy(t->shape, event->tensor->shape, (size_t)t->rank * sizeof *t->shape);
  }
  if (!map_put(&v->things[kind], event->object, 0, t)) {
    v->host->free(v->host, t);
    return;
  }
  t->next = v->first[kind];
  if (t->next) t->next->previous = t;
  v->first[kind] = t;
  ++v->num_things[kind];
}

void thing_gone(validate *v, thing_kind kind, const void *object) {
  thing *t = map_take(&v->things[kind], object, 0);
  if (!t) return;
  *(t->previous ? &t->previous->next : &v->first[kind]) = t->next;
  if (t->next) t->next->previous = t->previous;
  --v->num_things[kind];
  v->host->free(v->host, t);
}

void tensor_misused(validate *v, findings *f, const tn_layer_event *event) {
  char here[SITE_BYTES + 8];
  const char *site = site_keep(v, event->site);
  /* The message that the call fails with says where it was made and released. */
  find(v, f, REPORT_LIFETIME, "a released tensor", site, NULL, NULL,
       "lifetime: a tensor of %s:%d is used%s after its release; the call fails and says more",
       event->device_type, event->device_index, at_site(here, sizeof here, site));
}

static const char *thing_text(char *text, size_t size, thing_kind kind, const thing *t) {
  static const char *const names[] = {"a tensor", "a stream", "an event", "a prepared call",
                                      "pinned memory"};
  char shape[160];
  size_t used = (size_t)snprintf(text, size, "%s", names[kind]);
  if (kind == TENSOR)
    used += (size_t)snprintf(text + used, size - used, " %s",
                             tensor_text(shape, sizeof shape, t->dtype, t->rank, t->shape));
  if (kind == TENSOR || kind == PINNED)
    used += (size_t)snprintf(text + used, size - used, " of %" PRIu64 " bytes", t->bytes);
  if (t->op) snprintf(text + used, size - used, " of tn_%s", t->op);
  return text;
}

static void report_leaks_of(validate *v, thing_kind kind) {
  char what[320], here[SITE_BYTES + 8];
  uint32_t shown = 0;
  v->num_leak_sorts += v->first[kind] != NULL;
  for (const thing *t = v->first[kind]; t; t = t->next, ++shown) {
    ++v->totals[REPORT_LEAK];
    if (shown >= LEAKS_SHOWN) continue;
    v->host->log(v->host, TN_LOG_WARN, "validate: leak: at close %s is alive on %s:%d, made%s%s",
                 thing_text(what, sizeof what, kind, t), t->device ? t->device->type : "?",
                 t->device ? t->device->index : 0, at_site(here, sizeof here, t->site),
                 t->site ? "" : " at no named site (tn_call_site names sites)");
  }
  if (shown > LEAKS_SHOWN)
    v->host->log(v->host, TN_LOG_WARN, "validate: leak: and %u more like that",
                 shown - LEAKS_SHOWN);
}

void report_leaks(validate *v) {
  for (thing_kind k = 0; k < THING_KINDS; ++k) report_leaks_of(v, k);
}

void things_free(validate *v) {
  for (int k = 0; k < THING_KINDS; ++k) {
    for (thing *t = v->first[k], *next; t; t = next) {
      next = t->next;
      v->host->free(v->host, t);
    }
    map_free(&v->things[k]);
  }
}
