#include "graph/stream_memory.h"

#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"

static uint64_t bytes_of(const stream_memory *m) { return (uint64_t)m->tensor->shape[0]; }

/* Whether a user of so many bytes would keep far more from others, after those who need it left. */
static bool is_waste(const stream_memory *m, uint64_t bytes) {
  const uint64_t small = UINT64_C(64) << 20, times = 16;
  return bytes_of(m) > small && bytes_of(m) / times > bytes;
}

/* The least that does. pre: the mutex is held. */
static stream_memory *find(const tn_stream *stream, uint64_t bytes, const stream_memory * not,
                           bool now) {
  stream_memory *best = NULL;
  for (stream_memory *m = stream->device->program_memory; m; m = m->next) {
    if (m == not || m->serial != stream->serial || bytes_of(m) < bytes || is_waste(m, bytes))
      continue;
    if ((best && bytes_of(best) <= bytes_of(m)) || (now && !stream_memory_try(m))) continue;
    if (now) stream_memory_give(best);
    best = m;
  }
  return best;
}

static tn_status make(tn_stream *stream, uint64_t bytes, bool now, stream_memory **made) {
  const host_memory *host = &stream->device->runtime->memory;
  int64_t size = (int64_t)bytes;
  stream_memory *m = host_alloc(host, sizeof *m);
  if (!m) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  m->serial = stream->serial;
  m->users = 1;
  atomic_init(&m->busy, now);
  tn_status status = tn_tensor_empty_on(stream->device, stream, TN_U8, 1, &size, &m->tensor);
  if (status) return host_free(host, m), status;
  *made = m;
  return TN_OK;
}

tn_status stream_memory_take(tn_stream *stream, uint64_t bytes, const stream_memory * not, bool now,
                             stream_memory **taken) {
  tn_device *d = stream->device;
  pthread_mutex_lock(&d->mutex);
  stream_memory *m = find(stream, bytes, not, now);
  if (m) ++m->users;
  pthread_mutex_unlock(&d->mutex);
  *taken = m;
  if (m) return TN_OK;
  tn_status status = make(stream, bytes, now, taken);
  if (status) return status;
  pthread_mutex_lock(&d->mutex);
  (*taken)->next = d->program_memory;
  d->program_memory = *taken;
  pthread_mutex_unlock(&d->mutex);
  return TN_OK;
}

void stream_memory_release(stream_memory *m) {
  if (!m) return;
  tn_tensor *tensor = m->tensor;
  tn_device *d = tensor->device;
  pthread_mutex_lock(&d->mutex);
  bool last = !--m->users;
  stream_memory **at = &d->program_memory;
  while (last && *at != m) at = &(*at)->next;
  if (last) *at = m->next;
  pthread_mutex_unlock(&d->mutex);
  if (!last) return;
  host_free(&d->runtime->memory, m);
  tn_tensor_release(tensor); /* last: it holds the device */
}
