/*
 * DLPack between streams: the exchange as Python's __dlpack__(stream=...) has it, where one side
 * names its stream by a number and the other orders its work with it; and what a table of DLPack's
 * exchange functions is made of.
 */
#include <inttypes.h>

#include "dispatcher/device/device.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/tensor/dlpack.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/tracked.h"

/* --- work of another library's stream --- */

/* What orders two queues of one device once. */
typedef struct joint {
  tn_device *device;
  void *theirs, *event;
} joint;

static void joint_close(joint *j) {
  const tn_backend *b = &j->device->type->backend;
  if (j->event) b->event_destroy(j->device->handle, j->event);
  if (j->theirs) b->queue_destroy(j->device->handle, j->theirs);
}

/* A queue around their handle, and an event. */
static tn_status joint_open(joint *j, tn_device *device, void *native) {
  const tn_backend *b = &device->type->backend;
  *j = (joint){.device = device};
  if (device->synchronous || !b->queue_wrap)
    return fail(TN_ERR_UNSUPPORTED,
                "device %s takes no streams that others made: pass TN_DLPACK_STREAM_NONE, and wait "
                "for the other library's work",
                device->id);
  fail_set_reason(false);
  tn_status status = b->queue_wrap(device->handle, native, &j->theirs);
  if (status) j->theirs = NULL;
  status = device_made(device, "queue_wrap", status, j->theirs);
  if (status) return status;
  fail_set_reason(false);
  status = b->event_create(device->handle, &j->event);
  if (status) j->event = NULL;
  status = device_made(device, "event_create", status, j->event);
  if (status) joint_close(j);
  return status;
}

/* Later work of queue `second` waits for what `first` has been given. */
static tn_status put_in_order(const joint *j, void *first, void *second) {
  tn_device *d = j->device;
  const tn_backend *b = &d->type->backend;
  tn_status status = device_result(d, "event_record", b->event_record(d->handle, j->event, first));
  if (status) return status;
  return device_result(d, "queue_wait_event", b->queue_wait_event(d->handle, second, j->event));
}

/* Whether their handle is that of our stream `s`. Where the backend hides the handles of streams
 * that we made, NULL says nothing. */
static bool is_theirs(const tn_stream *s, const void *native) {
  return s->cache && s->native == native && (native || s->device->type->backend.queue_native);
}

static void tell_if_theirs(const tn_stream *ours, const tn_stream *s, const void *native,
                           bool ours_first) {
  if (s != ours && is_theirs(s, native)) ours_first ? notify_order(ours, s) : notify_order(s, ours);
}

/* Layers know our streams alone, so that they are told where their handle is one's, or of several
 * that were made around it. */
static void tell_layers(const tn_stream *ours, const void *native, bool ours_first) {
  tn_device *d = ours->device;
  tell_if_theirs(ours, d->default_stream, native, ours_first);
  log_hold(); /* layers have their say under the mutex */
  pthread_mutex_lock(&d->mutex);
  for (const tn_stream *s = d->streams; s; s = s->next) tell_if_theirs(ours, s, native, ours_first);
  pthread_mutex_unlock(&d->mutex);
  log_resume();
}

static tn_status order_queues(const tn_stream *ours, void *native, bool ours_first) {
  joint j;
  tn_status status = joint_open(&j, ours->device, native);
  if (status) return status;
  status = ours_first ? put_in_order(&j, ours->queue, j.theirs)
                      : put_in_order(&j, j.theirs, ours->queue);
  joint_close(&j);
  return status;
}

/* Orders our stream's work and that of their handle, ours first or theirs. */
static tn_status order_with(const tn_stream *ours, void *native, bool ours_first) {
  tn_status status = TN_OK;
  if (!native || native != ours->native) status = order_queues(ours, native, ours_first);
  if (!status && ours->device->runtime->notified) tell_layers(ours, native, ours_first);
  return status;
}

static tn_status check_number(const char *function, const tn_device *device, int64_t stream) {
  if (stream == TN_DLPACK_STREAM_NONE || stream >= TN_DLPACK_STREAM_UNORDERED) return TN_OK;
  return fail(TN_ERR_INVALID_ARGUMENT, "%s: %" PRId64 " is no stream of device %s", function,
              stream, device->id);
}

static void *native_of(int64_t stream) { return (void *)(intptr_t)stream; }

/* --- export --- */

/* For a consumer that names no stream: its default one, or none, and then the caller waits. */
static tn_status settle_for_default(tn_stream *ours) {
  if (ours->device->synchronous) return TN_OK;
  if (ours->device->shared || !ours->device->type->backend.queue_wrap) return stream_wait(ours);
  tn_status status = order_with(ours, NULL, true);
  if (status != TN_ERR_UNSUPPORTED) return status;
  fail_clear();
  return stream_wait(ours);
}

static tn_status settle_on(const char *function, const tn_tensor *tensor, tn_stream *ours,
                           int64_t consumer) {
  if (ours->device != tensor->device)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: the stream is of another device", function);
  tn_status status = check_number(function, tensor->device, consumer);
  if (status) return status;
  if (consumer == TN_DLPACK_STREAM_UNORDERED) return TN_OK;
  if (consumer == TN_DLPACK_STREAM_NONE) return settle_for_default(ours);
  return order_with(ours, native_of(consumer), true);
}

/* `ours` NULL: the stream that the tensor was made on. */
static tn_status settle_for(const char *function, const tn_tensor *tensor, tn_stream *ours,
                            int64_t consumer) {
  if (ours) return settle_on(function, tensor, ours, consumer);
  tn_stream *home = tensor_home(tensor);
  tn_status status = settle_on(function, tensor, home, consumer);
  tensor_leave_home(tensor, home);
  return status;
}

tn_status tn_tensor_to_dlpack_stream(tn_tensor *tensor, tn_stream *stream, int64_t consumer,
                                     DLManagedTensorVersioned **managed) {
  const char *function = "tn_tensor_to_dlpack_stream";
  tn_status status = dlpack_check(function, tensor, "managed", managed);
  if (!status) status = settle_for(function, tensor, stream, consumer);
  return status ? status : dlpack_export(tensor, managed);
}

tn_status tn_tensor_to_dlpack_stream_unversioned(tn_tensor *tensor, tn_stream *stream,
                                                 int64_t consumer, DLManagedTensor **managed) {
  const char *function = "tn_tensor_to_dlpack_stream_unversioned";
  tn_status status = dlpack_check_unversioned(function, tensor, managed);
  if (!status) status = settle_for(function, tensor, stream, consumer);
  return status ? status : dlpack_export_unversioned(tensor, managed);
}

/* --- import --- */

/* Before the tensor is taken: what fails here leaves it to the caller. */
static tn_status order_import(const char *function, tn_runtime *runtime, DLDevice dl_device,
                              tn_stream *stream, int64_t producer) {
  tn_device *device;
  tn_status status = tn_device_find_dlpack(runtime, dl_device, &device);
  if (!status) status = device_ready(device);
  if (!status) status = check_number(function, device, producer);
  if (status) return status;
  if (!stream) stream = device->default_stream;
  if (stream->device != device)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: the stream is of another device", function);
  return order_with(stream, native_of(producer), false);
}

tn_status tn_tensor_from_dlpack_stream(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                                       tn_stream *stream, int64_t producer, tn_tensor **tensor) {
  const char *function = "tn_tensor_from_dlpack_stream";
  if (!runtime || !managed || !tensor)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: an argument is NULL", function);
  bool ordered = producer == TN_DLPACK_STREAM_NONE || producer == TN_DLPACK_STREAM_UNORDERED;
  /* Of another major version nothing can be read; tn_tensor_from_dlpack refuses it. */
  if (!ordered && managed->version.major == DLPACK_MAJOR_VERSION) {
    tn_status status = order_import(function, runtime, managed->dl_tensor.device, stream, producer);
    if (status) return status;
  }
  return dlpack_import(runtime, managed, stream, tensor);
}

/* --- what exchange tables are made of --- */

int64_t tn_stream_to_dlpack(const tn_stream *stream) {
  if (!stream || !stream->native) return TN_DLPACK_STREAM_NONE;
  return (int64_t)(intptr_t)stream->native;
}

tn_status tn_device_find_dlpack(tn_runtime *runtime, DLDevice dl_device, tn_device **device) {
  if (!runtime || !device)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_find_dlpack: an argument is NULL");
  tn_device *found;
  tn_status status = runtime_check(runtime);
  if (!status) status = dlpack_find_device(runtime, dl_device, &found);
  if (status) return status;
  if (!found)
    return fail(TN_ERR_NOT_FOUND,
                "tn_device_find_dlpack: this runtime has no device of DLPack type %d, id %d",
                (int)dl_device.device_type, (int)dl_device.device_id);
  *device = found;
  return TN_OK;
}

tn_status tn_tensor_dlpack_view(const tn_tensor *tensor, DLTensor *view) {
  tn_status status = dlpack_check("tn_tensor_dlpack_view", tensor, "view", view);
  if (status) return status;
  tracked_exposed(tensor);
  *view = tensor->dl;
  return TN_OK;
}

tn_dtype tn_dtype_from_dlpack(DLDataType type) { return tn_dtype_of(type); }

DLDataType tn_dtype_to_dlpack(tn_dtype dtype) {
  return tn_dtype_size(dtype) ? dtype_to_dl(dtype) : (DLDataType){0, 0, 0};
}
