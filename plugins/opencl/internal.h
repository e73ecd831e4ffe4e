/*
 * What the backend's own files share beyond what kernels see: programs, the cache on disk, and
 * the slots that live in files of their own.
 */
#ifndef OPENCL_INTERNAL_H
#define OPENCL_INTERNAL_H

#include "opencl.h"

extern const tn_backend ocl_backend;

/* program.c: the built program of a key, whose function does not matter. Thread-safe. */
tn_status ocl_program_get(ocl_device *device, const ocl_key *key, cl_program *program);
void ocl_programs_free(ocl_device *device);

/* launch.c */
void ocl_kernels_free(ocl_queue *queue);

/* cache.c: built programs on disk. A program that is not there, or not whole, is NULL; one that
 * cannot be kept is not kept: the cache never fails a call. `identity` is all that the binary
 * depends on. */
void ocl_cache_open(ocl_device *device);
/* Sets the message that says why no platform has a device. absent.c */
void ocl_say_why_none(const tn_host *host, const cl_platform_id *platforms, cl_uint count,
                      uint32_t passed_over);
cl_program ocl_cache_load(ocl_device *device, const char *identity);
void ocl_cache_store(ocl_device *device, const char *identity, cl_program program);

/* memory.c and queue.c: slots of the backend. */
tn_status ocl_alloc(void *device, uint32_t kind, size_t bytes, void **ptr);
void ocl_free(void *device, uint32_t kind, void *ptr);
tn_status ocl_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                   const void *src, uint64_t src_offset, size_t bytes);
tn_status ocl_queue_create(void *device, void **queue);
tn_status ocl_queue_wrap(void *device, void *native, void **queue);
void ocl_queue_destroy(void *device, void *queue);
tn_status ocl_queue_wait(void *device, void *queue);
void *ocl_queue_native(void *device, void *queue);
tn_status ocl_event_create(void *device, void **event);
void ocl_event_destroy(void *device, void *event);
tn_status ocl_event_record(void *device, void *event, void *queue);
tn_status ocl_event_query(void *device, void *event);
tn_status ocl_event_wait(void *device, void *event);
tn_status ocl_queue_wait_event(void *device, void *queue, void *event);
tn_status ocl_event_elapsed(void *device, void *begin, void *end, uint64_t *ns);

#endif
