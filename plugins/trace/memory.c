/*
 * What tensors of each device take, as a counter of the trace. A notice of a release does not say
 * how much it frees, so what each piece of memory was made with is kept until then.
 */
#include "trace.h"

static share **bucket_of(trace *t, const void *memory) {
  uint64_t mixed = ((uintptr_t)memory >> 4) * 0x9e3779b97f4a7c15u;
  return &t->shares[mixed >> 52];
}

static share *take_spare(trace *t) {
  share *s = t->spare_shares;
  if (s) t->spare_shares = s->next;
  return s ? s : t->host->alloc(t->host, sizeof *s, 16);
}

void memory_made(trace *t, const tn_layer_event *event) {
  device *d = device_of(t, event->device_type, event->device_index);
  if (!d) return;
  pthread_mutex_lock(&t->memory_lock);
  share *s = take_spare(t), **head = bucket_of(t, event->memory);
  if (s) {
    *s = (share){*head, event->memory, event->bytes};
    *head = s;
    d->in_use += s->bytes;
    if (d->in_use > d->most_in_use) d->most_in_use = d->in_use;
    slice_memory(t, d, d->in_use);
  }
  pthread_mutex_unlock(&t->memory_lock);
}

void memory_released(trace *t, const tn_layer_event *event) {
  device *d = device_of(t, event->device_type, event->device_index);
  if (!d) return;
  pthread_mutex_lock(&t->memory_lock);
  share **at = bucket_of(t, event->memory);
  while (*at && (*at)->memory != event->memory) at = &(*at)->next;
  share *s = *at;
  if (s) { /* imports were never made here */
    *at = s->next;
    d->in_use -= s->bytes;
    s->next = t->spare_shares;
    t->spare_shares = s;
    slice_memory(t, d, d->in_use);
  }
  pthread_mutex_unlock(&t->memory_lock);
}

static void free_list(const trace *t, share *s) {
  for (share *next; s; s = next) {
    next = s->next;
    t->host->free(t->host, s);
  }
}

void memory_free(trace *t) {
  for (size_t i = 0; i < TRACE_SHARES; ++i) free_list(t, t->shares[i]);
  free_list(t, t->spare_shares);
}
