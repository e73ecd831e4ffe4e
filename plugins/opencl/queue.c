/*
 * Queues and events. A queue is an in-order command queue that keeps times; an event is the
 * last marker that was put into one.
 */
#include <string.h>

#include "internal.h"

/* ------------------------------------------------------------------- queues --- */

/* Takes the command queue over. */
static tn_status queue_around(ocl_device *dev, cl_command_queue native, bool foreign,
                              void **queue) {
  const tn_host *host = dev->host;
  ocl_queue *q = host->alloc(host, sizeof *q, _Alignof(ocl_queue));
  if (!q) {
    (void)clReleaseCommandQueue(native);
    return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for a queue");
  }
  memset(q, 0, sizeof *q);
  q->device = dev;
  q->queue = native;
  q->foreign = foreign;
  (void)pthread_mutex_init(&q->lock, NULL);
  *queue = q;
  return TN_OK;
}

tn_status ocl_queue_create(void *device, void **queue) {
  ocl_device *dev = device;
  cl_int error;
  cl_command_queue made =
      clCreateCommandQueue(dev->context, dev->id, CL_QUEUE_PROFILING_ENABLE, &error);
  if (error) return ocl_status(dev->host, error, "clCreateCommandQueue");
  return queue_around(dev, made, false, queue);
}

/* Buffers are of one context, and so are queues that use them. */
static tn_status check_queue(const ocl_device *dev, cl_command_queue native) {
  const tn_host *host = dev->host;
  cl_context context = NULL;
  cl_device_id id = NULL;
  cl_command_queue_properties properties = 0;
  if (!native) return host->fail(TN_ERR_UNSUPPORTED, "opencl has no default command queue");
  OCL_TRY(host, clGetCommandQueueInfo, native, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
  OCL_TRY(host, clGetCommandQueueInfo, native, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
  OCL_TRY(host, clGetCommandQueueInfo, native, CL_QUEUE_PROPERTIES, sizeof properties, &properties,
          NULL);
  if (id != dev->id)
    return host->fail(TN_ERR_INVALID_ARGUMENT, "the command queue is of another device");
  if (context != dev->context)
    return host->fail(TN_ERR_UNSUPPORTED,
                      "the command queue is of another context: make it in that of the device's "
                      "own queues (tn_stream_native and clGetCommandQueueInfo tell it)");
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return host->fail(TN_ERR_UNSUPPORTED, "the command queue does not work in order");
  return TN_OK;
}

tn_status ocl_queue_wrap(void *device, void *native, void **queue) {
  ocl_device *dev = device;
  tn_status status = check_queue(dev, native);
  if (status) return status;
  OCL_TRY(dev->host, clRetainCommandQueue, native);
  return queue_around(dev, native, true, queue);
}

void ocl_queue_destroy(void *device, void *queue) {
  ocl_device *dev = device;
  ocl_queue *q = queue;
  if (!q->foreign) (void)clFinish(q->queue);
  ocl_kernels_free(q);
  (void)clReleaseCommandQueue(q->queue);
  (void)pthread_mutex_destroy(&q->lock);
  dev->host->free(dev->host, q);
}

tn_status ocl_queue_wait(void *device, void *queue) {
  OCL_TRY(((ocl_device *)device)->host, clFinish, ((ocl_queue *)queue)->queue);
  return TN_OK;
}

void *ocl_queue_native(void *device, void *queue) {
  (void)device;
  return ((ocl_queue *)queue)->queue;
}

/* ------------------------------------------------------------------- events --- */

/* The lock is of the marker, which changes when the event is recorded again. */
typedef struct ocl_event {
  pthread_mutex_t lock;
  cl_event marker; /* NULL until recorded */
} ocl_event;

tn_status ocl_event_create(void *device, void **event) {
  const tn_host *host = ((ocl_device *)device)->host;
  ocl_event *made = host->alloc(host, sizeof *made, _Alignof(ocl_event));
  if (!made) return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for an event");
  made->marker = NULL;
  (void)pthread_mutex_init(&made->lock, NULL);
  *event = made;
  return TN_OK;
}

void ocl_event_destroy(void *device, void *event) {
  ocl_event *e = event;
  if (e->marker) (void)clReleaseEvent(e->marker);
  (void)pthread_mutex_destroy(&e->lock);
  ((ocl_device *)device)->host->free(((ocl_device *)device)->host, e);
}

/* A reference to the marker, the caller's to release; NULL if it was never recorded. */
static cl_event marker_of(ocl_event *event) {
  pthread_mutex_lock(&event->lock);
  cl_event marker = event->marker;
  if (marker) (void)clRetainEvent(marker);
  pthread_mutex_unlock(&event->lock);
  return marker;
}

/* Flushes: who asks for the event or waits for it on another queue must see it pass. */
tn_status ocl_event_record(void *device, void *event, void *queue) {
  const tn_host *host = ((ocl_device *)device)->host;
  ocl_event *e = event;
  cl_event made = NULL;
  OCL_TRY(host, clEnqueueMarkerWithWaitList, ((ocl_queue *)queue)->queue, 0, NULL, &made);
  pthread_mutex_lock(&e->lock);
  cl_event was = e->marker;
  e->marker = made;
  pthread_mutex_unlock(&e->lock);
  if (was) (void)clReleaseEvent(was);
  OCL_TRY(host, clFlush, ((ocl_queue *)queue)->queue);
  return TN_OK;
}

/* A negative state: the work before the marker ended abnormally. */
static tn_status state_status(const tn_host *host, cl_int state) {
  if (state == CL_COMPLETE) return TN_OK;
  if (state > 0) return TN_ERR_NOT_READY;
  return host->fail(TN_ERR_DEVICE_LOST, "opencl: work on the device ended abnormally: %s (%d)",
                    ocl_error_name(state), (int)state);
}

tn_status ocl_event_query(void *device, void *event) {
  const tn_host *host = ((ocl_device *)device)->host;
  cl_event marker = marker_of(event);
  cl_int state = CL_COMPLETE, error = CL_SUCCESS;
  if (!marker) return TN_OK;
  error = clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  (void)clReleaseEvent(marker);
  return error ? ocl_status(host, error, "clGetEventInfo") : state_status(host, state);
}

tn_status ocl_event_wait(void *device, void *event) {
  const tn_host *host = ((ocl_device *)device)->host;
  cl_event marker = marker_of(event);
  if (!marker) return TN_OK;
  cl_int error = clWaitForEvents(1, &marker);
  (void)clReleaseEvent(marker);
  return ocl_status(host, error, "clWaitForEvents");
}

tn_status ocl_queue_wait_event(void *device, void *queue, void *event) {
  const tn_host *host = ((ocl_device *)device)->host;
  cl_event marker = marker_of(event);
  if (!marker) return TN_OK;
  cl_int error = clEnqueueBarrierWithWaitList(((ocl_queue *)queue)->queue, 1, &marker, NULL);
  (void)clReleaseEvent(marker);
  return ocl_status(host, error, "clEnqueueBarrierWithWaitList");
}

static cl_int time_of(ocl_event *event, cl_ulong *ns) {
  cl_event marker = marker_of(event);
  if (!marker) return CL_PROFILING_INFO_NOT_AVAILABLE;
  cl_int error = clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof *ns, ns, NULL);
  (void)clReleaseEvent(marker);
  return error;
}

tn_status ocl_event_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  const tn_host *host = ((ocl_device *)device)->host;
  cl_ulong from = 0, to = 0;
  cl_int error = time_of(begin, &from);
  if (!error) error = time_of(end, &to);
  if (error == CL_PROFILING_INFO_NOT_AVAILABLE)
    return host->fail(TN_ERR_NOT_READY,
                      "opencl: an event's time was asked before it passed, or of a command queue "
                      "that keeps no times (CL_QUEUE_PROFILING_ENABLE)");
  if (error) return ocl_status(host, error, "clGetEventProfilingInfo");
  *ns = to > from ? to - from : 0;
  return TN_OK;
}
