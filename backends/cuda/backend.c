/*
 * The CUDA backend's device slots: enumeration, memory, queues, events and graphs over
 * the CUDA runtime. Loading this file's library needs no driver; the first call that
 * does is count, which says so where there is none.
 */
#include "backends/cuda/backend.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- enumeration --- */

/* cudaGetDeviceCount's own text blames an old driver where there is none at all. */
static tn_status no_device(const tn_host *host, cudaError_t error) {
  (void)cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver > 0) {
      return host->fail(TN_ERR_UNSUPPORTED, "CUDA driver too old: it serves CUDA %d.%d, need %d.%d",
                        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    return host->fail(TN_ERR_UNSUPPORTED, "no CUDA driver: libcuda.so.1 is missing or unusable");
  }
  return host->fail(TN_ERR_UNSUPPORTED, "no CUDA device: %s (%s)", cudaGetErrorName(error),
                    cudaGetErrorString(error));
}

static tn_status backend_count(const tn_host *host, void *context, uint32_t *count) {
  (void)context;
  int found = 0;
  *count = 0;
  cudaError_t error = cudaGetDeviceCount(&found);
  if (error == cudaSuccess && found == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    (void)no_device(host, error);
    return TN_OK;
  }
  *count = (uint32_t)found;
  return TN_OK;
}

static tn_status backend_describe(const tn_host *host, void *context, uint32_t index,
                                  tn_device_props *out) {
  (void)context;
  struct cudaDeviceProp props;
  CUDA_TRY(host, cudaGetDeviceProperties(&props, (int)index));
  out->dl_device_type = kDLCUDA;
  out->dl_device_id = (int32_t)index;
  out->score = 100;
  out->memory_bytes = props.totalGlobalMem;
  out->alignment_bytes = 256;
  (void)snprintf(out->name, sizeof out->name, "%.127s", props.name);
  (void)snprintf(out->features, sizeof out->features, "sm_%d%d multiprocessors=%d%s%s", props.major,
                 props.minor, props.multiProcessorCount, props.major >= 7 ? " tensor-cores" : "",
                 props.major >= 8 ? " bf16 tf32" : "");
  (void)snprintf(out->unique_id, sizeof out->unique_id, "%04x:%02x:%02x.0",
                 (unsigned)props.pciDomainID, (unsigned)props.pciBusID,
                 (unsigned)props.pciDeviceID);
  return TN_OK;
}

static tn_status backend_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context;
  int count = 0, multiprocessors = 0, major = 0;
  CUDA_TRY(host, cudaGetDeviceCount(&count));
  CUDA_TRY(host,
           cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, (int)index));
  CUDA_TRY(host, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, (int)index));
  cuda_device *dev = host->alloc(host, sizeof *dev, _Alignof(cuda_device));
  if (!dev) return host->fail(TN_ERR_OUT_OF_MEMORY, "cuda: no memory for a device handle");
  memset(dev, 0, sizeof *dev);
  dev->info = (cuda_info){(int)index, multiprocessors, count == 1, major == 9};
  dev->host = host;
  dev->attentions.destroy = cuda_attention_destroy;
  dev->engines.destroy = cuda_engine_destroy;
  cudaError_t error = cudaSetDevice((int)index); /* starts the context: fail here, not later */
  if (error != cudaSuccess) {
    host->free(host, dev);
    return cuda_status(host, (int)error, "cudaSetDevice");
  }
  dev->launcher = cuda_launcher_make(host);
  (void)pthread_mutex_init(&dev->lock, NULL);
  *device = dev;
  return TN_OK;
}

static void backend_close(void *device) {
  cuda_device *dev = device;
  (void)cuda_make_current(dev->host, &dev->info);
  cuda_plans_clear(&dev->attentions);
  cuda_plans_clear(&dev->engines);
  if (dev->dnn) (void)cudnnDestroy(dev->dnn);
  (void)cudaGetLastError(); /* a lost device; the handle went with it */
  (void)pthread_mutex_destroy(&dev->lock);
  cuda_launcher_free(dev->host, dev->launcher);
  dev->host->free(dev->host, dev);
}

/* ------------------------------------------------------------------ memory --- */

static tn_status backend_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  cuda_device *dev = device;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  if (kind == TN_MEMORY_PINNED) {
    cudaError_t error = cudaHostAlloc(ptr, bytes, cudaHostAllocPortable);
    if (error != cudaErrorMemoryAllocation)
      return cuda_status(dev->host, (int)error, "cudaHostAlloc");
    (void)cudaGetLastError();
    return dev->host->fail(TN_ERR_OUT_OF_MEMORY, "cudaHostAlloc: no %zu bytes of pinned memory",
                           bytes);
  }
  CUDA_TRY(dev->host, cudaMalloc(ptr, bytes));
  return TN_OK;
}

static void backend_free(void *device, uint32_t kind, void *ptr) {
  cuda_device *dev = device;
  if (cuda_make_current(dev->host, &dev->info) != TN_OK) return;
  cudaError_t error = kind == TN_MEMORY_PINNED ? cudaFreeHost(ptr) : cudaFree(ptr);
  if (error != cudaSuccess) (void)cudaGetLastError(); /* a lost device; its memory went with it */
}

static tn_status backend_memory_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  cuda_device *dev = device;
  size_t free_now = 0, total = 0;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaMemGetInfo(&free_now, &total));
  *free_bytes = free_now;
  *total_bytes = total;
  return TN_OK;
}

/* ------------------------------------------------------------------ queues --- */

/* A queue whose stream is yet to come. */
static tn_status queue_alloc(cuda_device *dev, cuda_queue **queue) {
  const tn_host *host = dev->host;
  cuda_queue *q = host->alloc(host, sizeof *q, _Alignof(cuda_queue));
  if (!q) return host->fail(TN_ERR_OUT_OF_MEMORY, "cuda: no memory for a queue");
  memset(q, 0, sizeof *q);
  q->device = dev;
  q->products.destroy = cuda_product_destroy;
  q->convolutions.destroy = cuda_convolution_destroy;
  (void)pthread_mutex_init(&q->lock, NULL);
  *queue = q;
  return TN_OK;
}

static void queue_free(cuda_queue *q) {
  const tn_host *host = q->device->host;
  (void)pthread_mutex_destroy(&q->lock);
  host->free(host, q);
}

static tn_status backend_queue_create(void *device, void **queue) {
  cuda_device *dev = device;
  cuda_queue *q;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status == TN_OK) status = queue_alloc(dev, &q);
  if (status != TN_OK) return status;
  cudaError_t error = cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    queue_free(q);
    return cuda_status(dev->host, (int)error, "cudaStreamCreateWithFlags");
  }
  *queue = q;
  return TN_OK;
}

/* The default streams, NULL, cudaStreamLegacy and cudaStreamPerThread, are of every device. */
static tn_status check_stream(cuda_device *dev, cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  int its = dev->info.ordinal;
  if (stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread)
    CUDA_TRY(dev->host, cudaStreamGetDevice(stream, &its));
  if (its != dev->info.ordinal)
    return dev->host->fail(TN_ERR_INVALID_ARGUMENT, "the stream is of device %d, not of %d", its,
                           dev->info.ordinal);
#endif
  (void)dev, (void)stream;
  return TN_OK;
}

static tn_status backend_queue_wrap(void *device, void *native, void **queue) {
  cuda_device *dev = device;
  cuda_queue *q;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status == TN_OK) status = check_stream(dev, native);
  if (status == TN_OK) status = queue_alloc(dev, &q);
  if (status != TN_OK) return status;
  q->stream = native;
  q->foreign = true;
  *queue = q;
  return TN_OK;
}

/* Whether something is left that the stream's work may be using. */
static bool queue_has_parts(const cuda_queue *q) { return q->staging.memory || q->blas || q->dnn; }

static void backend_queue_destroy(void *device, void *queue) {
  cuda_device *dev = device;
  cuda_queue *q = queue;
  (void)cuda_make_current(dev->host, &dev->info);
  if (!q->foreign || queue_has_parts(q)) (void)cudaStreamSynchronize(q->stream);
  cuda_plans_clear(&q->products);
  cuda_plans_clear(&q->convolutions);
  cuda_staging_free(&q->staging);
  if (q->reached) (void)cudaEventDestroy(q->reached);
  if (q->dnn) (void)cudnnDestroy(q->dnn);
  if (q->blas) (void)cublasLtDestroy(q->blas);
  if (!q->foreign) (void)cudaStreamDestroy(q->stream);
  (void)cudaGetLastError(); /* a lost device; the handles went with it */
  queue_free(q);
}

static tn_status backend_queue_wait(void *device, void *queue) {
  cuda_device *dev = device;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaStreamSynchronize(((cuda_queue *)queue)->stream));
  return TN_OK;
}

static void *backend_queue_native(void *device, void *queue) {
  (void)device;
  return ((cuda_queue *)queue)->stream;
}

/* ------------------------------------------------------------------ events --- */

static tn_status backend_event_create(void *device, void **event) {
  cuda_device *dev = device;
  cudaEvent_t made = NULL;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaEventCreateWithFlags(&made, cudaEventDefault)); /* they tell time */
  *event = made;
  return TN_OK;
}

static void backend_event_destroy(void *device, void *event) {
  cuda_device *dev = device;
  (void)cuda_make_current(dev->host, &dev->info);
  if (cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
}

static tn_status backend_event_record(void *device, void *event, void *queue) {
  cuda_device *dev = device;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaEventRecord(event, ((cuda_queue *)queue)->stream));
  return TN_OK;
}

static tn_status backend_event_query(void *device, void *event) {
  cuda_device *dev = device;
  cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return TN_ERR_NOT_READY;
  }
  return cuda_status(dev->host, (int)error, "cudaEventQuery");
}

static tn_status backend_event_wait(void *device, void *event) {
  cuda_device *dev = device;
  CUDA_TRY(dev->host, cudaEventSynchronize(event));
  return TN_OK;
}

static tn_status backend_queue_wait_event(void *device, void *queue, void *event) {
  cuda_device *dev = device;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaStreamWaitEvent(((cuda_queue *)queue)->stream, event, 0));
  return TN_OK;
}

static tn_status backend_event_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  cuda_device *dev = device;
  float ms = 0;
  cudaError_t error = cudaEventElapsedTime(&ms, begin, end);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return dev->host->fail(TN_ERR_NOT_READY, "cuda: an event's time was asked before it passed");
  }
  if (error != cudaSuccess) return cuda_status(dev->host, (int)error, "cudaEventElapsedTime");
  *ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
  return TN_OK;
}

/* ------------------------------------------------------------------ graphs --- */

static tn_status backend_capture_begin(void *device, void *queue) {
  cuda_device *dev = device;
  cuda_queue *q = queue;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  /* Relaxed: a vendor library may take memory the first time that it sees a shape, and other
   * threads' calls are no concern of this queue. */
  CUDA_TRY(dev->host, cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeRelaxed));
  q->capturing = true;
  return TN_OK;
}

static tn_status backend_capture_end(void *device, void *queue, void **graph) {
  cuda_device *dev = device;
  cuda_queue *q = queue;
  cudaGraph_t recorded = NULL;
  cudaGraphExec_t made = NULL;
  q->capturing = false;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  CUDA_TRY(dev->host, cudaStreamEndCapture(q->stream, &recorded));
  if (!recorded) return dev->host->fail(TN_ERR_BACKEND, "cuda: the recording was not kept");
  cudaError_t error = cudaGraphInstantiate(&made, recorded, 0);
  (void)cudaGraphDestroy(recorded);
  if (error != cudaSuccess) return cuda_status(dev->host, (int)error, "cudaGraphInstantiate");
  *graph = made;
  return TN_OK;
}

static tn_status backend_graph_launch(void *device, void *graph, void *queue) {
  cuda_device *dev = device;
  const cuda_queue *q = queue;
  enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  /* The program may record the stream by the vendor's functions: that is for the calls. */
  CUDA_TRY(dev->host, cudaStreamIsCapturing(q->stream, &captured));
  if (captured != cudaStreamCaptureStatusNone)
    return dev->host->fail(TN_ERR_UNSUPPORTED, "cuda: the stream is being recorded");
  CUDA_TRY(dev->host, cudaGraphLaunch(graph, q->stream));
  return TN_OK;
}

static void backend_graph_destroy(void *device, void *graph) {
  cuda_device *dev = device;
  (void)cuda_make_current(dev->host, &dev->info);
  if (cudaGraphExecDestroy(graph) != cudaSuccess) (void)cudaGetLastError();
}

const tn_backend cuda_backend = {
    .struct_size = sizeof(tn_backend),
    .device_type = "cuda",
    .count = backend_count,
    .describe = backend_describe,
    .open = backend_open,
    .close = backend_close,
    .alloc = backend_alloc,
    .free = backend_free,
    .memory_info = backend_memory_info,
    .copy = cuda_copy,
    .queue_create = backend_queue_create,
    .queue_destroy = backend_queue_destroy,
    .queue_wait = backend_queue_wait,
    .queue_native = backend_queue_native,
    .event_create = backend_event_create,
    .event_destroy = backend_event_destroy,
    .event_record = backend_event_record,
    .event_query = backend_event_query,
    .event_wait = backend_event_wait,
    .queue_wait_event = backend_queue_wait_event,
    .event_elapsed = backend_event_elapsed,
    .capture_begin = backend_capture_begin,
    .capture_end = backend_capture_end,
    .graph_launch = backend_graph_launch,
    .graph_destroy = backend_graph_destroy,
    .queue_wrap = backend_queue_wrap,
    .copy_between = cuda_copy_between,
};
