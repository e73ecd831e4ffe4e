/*
 * Buffers, pinned host memory, and copies. Device memory is a cl_mem and never an address.
 * Pinned memory is a buffer that lies in host memory and stays mapped; its address is what the
 * host gets, and the device remembers the range so that copies from and to it need not wait.
 */
#include "internal.h"

/* Drivers put memory behind a buffer when it is first used. It shall be missing here and now,
 * where the pool can do something about it, and not in a kernel. */
static cl_int settle(ocl_device *dev, cl_mem buffer) {
  cl_int error = clEnqueueMigrateMemObjects(dev->upkeep, 1, &buffer,
                                            CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
  return error ? error : clFinish(dev->upkeep);
}

static tn_status alloc_device(ocl_device *dev, size_t bytes, void **ptr) {
  const tn_host *host = dev->host;
  cl_int error;
  if (bytes > dev->max_buffer)
    return host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY,
                      "opencl: a buffer of %zu bytes; the device takes %llu at the most", bytes,
                      (unsigned long long)dev->max_buffer);
  cl_mem buffer = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &error);
  if (error) buffer = NULL;
  if (!error) error = settle(dev, buffer);
  if (!error) {
    *ptr = buffer;
    return TN_OK;
  }
  if (buffer) (void)clReleaseMemObject(buffer);
  tn_status status = ocl_status(host, error, "clCreateBuffer");
  /* Out of resources: some drivers' word for it. */
  if (error == CL_OUT_OF_RESOURCES || error == CL_OUT_OF_HOST_MEMORY)
    status = TN_ERR_DEVICE_OUT_OF_MEMORY;
  return host->fail(status, "clCreateBuffer of %zu bytes: %s", bytes, ocl_error_name(error));
}

/* ------------------------------------------------------------------- pinned --- */

static cl_int map_pinned(ocl_device *dev, ocl_pinned *made) {
  cl_int error;
  made->buffer = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                made->bytes, NULL, &error);
  if (error) return error;
  made->begin = clEnqueueMapBuffer(dev->upkeep, made->buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                   0, made->bytes, 0, NULL, NULL, &error);
  if (error) (void)clReleaseMemObject(made->buffer);
  return error;
}

static tn_status alloc_pinned(ocl_device *dev, size_t bytes, void **ptr) {
  const tn_host *host = dev->host;
  ocl_pinned *made = host->alloc(host, sizeof *made, _Alignof(ocl_pinned));
  if (!made) return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for a handle");
  *made = (ocl_pinned){.bytes = bytes ? bytes : 1};
  cl_int error = map_pinned(dev, made);
  if (error) {
    host->free(host, made);
    return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no %zu bytes of pinned memory: %s", bytes,
                      ocl_error_name(error));
  }
  *ptr = made->begin;
  pthread_mutex_lock(&dev->lock);
  made->next = dev->pinned;
  dev->pinned = made;
  pthread_mutex_unlock(&dev->lock);
  return TN_OK;
}

static void free_pinned(ocl_device *dev, const void *ptr) {
  pthread_mutex_lock(&dev->lock);
  ocl_pinned **link = &dev->pinned;
  while (*link && (*link)->begin != ptr) link = &(*link)->next;
  ocl_pinned *found = *link;
  if (found) *link = found->next;
  pthread_mutex_unlock(&dev->lock);
  if (!found) return;
  (void)clEnqueueUnmapMemObject(dev->upkeep, found->buffer, found->begin, 0, NULL, NULL);
  (void)clFinish(dev->upkeep);
  (void)clReleaseMemObject(found->buffer);
  dev->host->free(dev->host, found);
}

static bool is_pinned(ocl_device *dev, const void *ptr, size_t bytes) {
  uintptr_t begin = (uintptr_t)ptr;
  bool found = false;
  pthread_mutex_lock(&dev->lock);
  for (const ocl_pinned *p = dev->pinned; p && !found; p = p->next)
    found = begin >= (uintptr_t)p->begin && begin + bytes <= (uintptr_t)p->begin + p->bytes;
  pthread_mutex_unlock(&dev->lock);
  return found;
}

/* -------------------------------------------------------------------- slots --- */

tn_status ocl_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  return kind == TN_MEMORY_PINNED ? alloc_pinned(device, bytes, ptr)
                                  : alloc_device(device, bytes, ptr);
}

void ocl_free(void *device, uint32_t kind, void *ptr) {
  if (kind == TN_MEMORY_PINNED)
    free_pinned(device, ptr);
  else
    (void)clReleaseMemObject(ptr);
}

/* A blocking transfer waits for the queue, since the queue is in order. */
tn_status ocl_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                   const void *src, uint64_t src_offset, size_t bytes) {
  ocl_device *dev = device;
  cl_command_queue q = ((ocl_queue *)queue)->queue;
  if (bytes == 0) return TN_OK;
  if (direction == TN_COPY_ON_DEVICE) {
    cl_mem from = (cl_mem)(uintptr_t)src;
    OCL_TRY(dev->host, clEnqueueCopyBuffer, q, from, dst, src_offset, dst_offset, bytes, 0, NULL,
            NULL);
  } else if (direction == TN_COPY_TO_DEVICE) {
    const char *from = (const char *)src + src_offset;
    OCL_TRY(dev->host, clEnqueueWriteBuffer, q, dst, !is_pinned(dev, from, bytes), dst_offset,
            bytes, from, 0, NULL, NULL);
  } else {
    cl_mem from = (cl_mem)(uintptr_t)src;
    char *to = (char *)dst + dst_offset;
    OCL_TRY(dev->host, clEnqueueReadBuffer, q, from, !is_pinned(dev, to, bytes), src_offset, bytes,
            to, 0, NULL, NULL);
  }
  return TN_OK;
}
