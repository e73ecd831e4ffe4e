/*
 * Copies from one GPU to another: over NVLink or the bus where one may read the other's memory,
 * which is asked for once per pair, and otherwise by the driver, which takes them through pinned
 * memory of its own in pieces. Events order both streams; nobody waits.
 */
#include "backends/cuda/backend.h"

/* Has the device that is current read `other`'s memory, or leaves it to the driver. */
static tn_status enable_peer(const tn_host *host, int ordinal, int other) {
  int can = 0;
  CUDA_TRY(host, cudaDeviceCanAccessPeer(&can, ordinal, other));
  if (!can) {
    host->log(host, TN_LOG_INFO, "cuda: device %d cannot access the memory of device %d", ordinal,
              other);
    return TN_OK;
  }
  cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error == cudaSuccess) return TN_OK;
  (void)cudaGetLastError(); /* the program has it already, or the driver has no room for more */
  if (error != cudaErrorPeerAccessAlreadyEnabled && error != cudaErrorTooManyPeers)
    return cuda_status(host, (int)error, "cudaDeviceEnablePeerAccess");
  return TN_OK;
}

/* Asks for `from`'s memory on the first copy out of it. The device is current. */
static tn_status reach(cuda_device *device, const cuda_device *from) {
  if (from->info.ordinal >= 64) return TN_OK;
  const uint64_t bit = UINT64_C(1) << from->info.ordinal;
  tn_status status = TN_OK;
  pthread_mutex_lock(&device->lock);
  if (!(device->peers & bit)) {
    status = enable_peer(device->host, device->info.ordinal, from->info.ordinal);
    if (status == TN_OK) device->peers |= bit;
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* Whether the stream is being recorded, by us or by its owner. Its device is current. */
static tn_status check_capture(const cuda_queue *queue) {
  const tn_host *host = queue->device->host;
  enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  if (queue->foreign) CUDA_TRY(host, cudaStreamIsCapturing(queue->stream, &captured));
  if (!queue->capturing && captured == cudaStreamCaptureStatusNone) return TN_OK;
  return host->fail(TN_ERR_UNSUPPORTED, "cuda: the stream is being recorded");
}

/* Records where the queue is now. Its device is current and its lock held. */
static tn_status record(cuda_queue *queue) {
  const tn_host *host = queue->device->host;
  if (!queue->reached)
    CUDA_TRY(host, cudaEventCreateWithFlags(&queue->reached, cudaEventDisableTiming));
  CUDA_TRY(host, cudaEventRecord(queue->reached, queue->stream));
  return TN_OK;
}

/* Work that comes into `later` stands behind what `first` has by now. */
static tn_status order(cuda_queue *first, cuda_queue *later) {
  const tn_host *host = first->device->host;
  tn_status status = cuda_make_current(host, &first->device->info);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&first->lock);
  status = record(first);
  if (status == TN_OK) status = cuda_make_current(host, &later->device->info);
  if (status == TN_OK)
    status = cuda_status(host, (int)cudaStreamWaitEvent(later->stream, first->reached, 0),
                         "cudaStreamWaitEvent");
  pthread_mutex_unlock(&first->lock);
  return status;
}

tn_status cuda_copy_between(void *device, void *queue, void *dst, uint64_t dst_offset,
                            void *from_device, void *from_queue, const void *src,
                            uint64_t src_offset, size_t bytes) {
  cuda_device *to = device;
  const cuda_device *from = from_device;
  const tn_host *host = to->host;
  tn_status status = cuda_make_current(host, &from->info);
  if (status == TN_OK) status = check_capture(from_queue);
  if (status == TN_OK) status = cuda_make_current(host, &to->info);
  if (status == TN_OK) status = check_capture(queue);
  if (status == TN_OK) status = reach(to, from);
  if (status == TN_OK) status = order(from_queue, queue); /* leaves `to` current */
  if (status != TN_OK) return status;
  CUDA_TRY(host, cudaMemcpyPeerAsync((unsigned char *)dst + dst_offset, to->info.ordinal,
                                     (const unsigned char *)src + src_offset, from->info.ordinal,
                                     bytes, ((cuda_queue *)queue)->stream));
  return order(queue, from_queue);
}
