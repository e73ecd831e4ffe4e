/*
 * Copies between host and device. The contract: pageable host memory has been read or
 * written when the call returns, pinned memory may be in use until the stream gets
 * there. Pageable sources of moderate size go through a ring of pinned slots and do not
 * wait; everything else pageable waits for the stream.
 */
#include <string.h>

#include "backends/cuda/backend.h"

/* Whether the runtime knows the host pointer as its own, page-locked or registered. */
static bool is_pinned(const void *ptr) {
  struct cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, ptr) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeManaged;
}

static tn_status staging_open(const tn_host *host, cuda_staging *staging) {
  if (staging->memory) return TN_OK;
  void *memory = NULL;
  CUDA_TRY(host, cudaHostAlloc(&memory, cuda_stage_slots * cuda_stage_bytes, cudaHostAllocDefault));
  for (int i = 0; i < cuda_stage_slots; i++) {
    cudaError_t error = cudaEventCreateWithFlags(&staging->done[i], cudaEventDisableTiming);
    if (error != cudaSuccess) {
      staging->memory = memory;
      cuda_staging_free(staging);
      return cuda_status(host, (int)error, "cudaEventCreateWithFlags");
    }
  }
  staging->memory = memory;
  return TN_OK;
}

void cuda_staging_free(cuda_staging *staging) {
  for (int i = 0; i < cuda_stage_slots; i++) {
    if (staging->done[i]) (void)cudaEventDestroy(staging->done[i]);
    staging->done[i] = NULL;
  }
  if (staging->memory) (void)cudaFreeHost(staging->memory);
  staging->memory = NULL;
}

/* An event that was never recorded counts as passed, so fresh slots are free. */
static tn_status copy_staged(cuda_queue *queue, unsigned char *dst, const unsigned char *src,
                             size_t bytes) {
  const tn_host *host = queue->device->host;
  cuda_staging *staging = &queue->staging;
  tn_status status = staging_open(host, staging);
  if (status != TN_OK) return status;
  while (bytes > 0) {
    size_t part = bytes < cuda_stage_bytes ? bytes : cuda_stage_bytes;
    unsigned slot = staging->next++ % cuda_stage_slots;
    unsigned char *stage = staging->memory + (size_t)slot * cuda_stage_bytes;
    CUDA_TRY(host, cudaEventSynchronize(staging->done[slot]));
    memcpy(stage, src, part);
    CUDA_TRY(host, cudaMemcpyAsync(dst, stage, part, cudaMemcpyHostToDevice, queue->stream));
    CUDA_TRY(host, cudaEventRecord(staging->done[slot], queue->stream));
    dst += part;
    src += part;
    bytes -= part;
  }
  return TN_OK;
}

static tn_status copy_pageable(cuda_queue *queue, enum cudaMemcpyKind kind, void *dst,
                               const void *src, size_t bytes) {
  const tn_host *host = queue->device->host;
  enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  if (queue->foreign) /* its owner may record it, too */
    CUDA_TRY(host, cudaStreamIsCapturing(queue->stream, &captured));
  if (queue->capturing || captured != cudaStreamCaptureStatusNone) {
    return host->fail(TN_ERR_UNSUPPORTED,
                      "cuda: a copy from or to pageable host memory cannot be recorded into a "
                      "graph; use pinned memory");
  }
  if (kind == cudaMemcpyHostToDevice && bytes <= cuda_stage_slots * cuda_stage_bytes) {
    pthread_mutex_lock(&queue->lock);
    tn_status status = copy_staged(queue, dst, src, bytes);
    pthread_mutex_unlock(&queue->lock);
    return status;
  }
  CUDA_TRY(host, cudaMemcpyAsync(dst, src, bytes, kind, queue->stream));
  CUDA_TRY(host, cudaStreamSynchronize(queue->stream));
  return TN_OK;
}

tn_status cuda_copy(void *device, void *queue_handle, uint32_t direction, void *dst,
                    uint64_t dst_offset, const void *src, uint64_t src_offset, size_t bytes) {
  static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                              cudaMemcpyDeviceToDevice};
  cuda_device *dev = device;
  cuda_queue *queue = queue_handle;
  if (bytes == 0) return TN_OK;
  tn_status status = cuda_make_current(dev->host, &dev->info);
  if (status != TN_OK) return status;
  void *to = (unsigned char *)dst + dst_offset;
  const void *from = (const unsigned char *)src + src_offset;
  if (direction != TN_COPY_ON_DEVICE && !is_pinned(direction == TN_COPY_TO_HOST ? to : from)) {
    return copy_pageable(queue, kinds[direction], to, from, bytes);
  }
  CUDA_TRY(dev->host, cudaMemcpyAsync(to, from, bytes, kinds[direction], queue->stream));
  return TN_OK;
}
