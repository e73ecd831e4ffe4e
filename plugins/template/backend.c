/*
 * The device: Tenon's slots over the chip's functions. Most are one call and a translated
 * result, and stay so with a real driver. tenon/plugin.h says what each must do; comments
 * here say what is easily missed.
 */
#include "backend.h"

#include <stdio.h>

/* Messages are set where the knowledge is. TN_ERR_DEVICE_LOST makes the dispatcher refuse
 * every later call on the device: return it for faults that nothing but a new process, or a
 * reset, can mend, and never for less. */
tn_status sim_check(const tn_host *host, chip_result result, const char *what) {
  tn_status status = TN_ERR_BACKEND;
  switch (result) {
  case CHIP_OK:
    return TN_OK;
  case CHIP_NOT_READY: /* no failure, and asked often: no message */
    return TN_ERR_NOT_READY;
  case CHIP_NO_MEMORY: /* the dispatcher empties its cache and asks again */
    status = TN_ERR_DEVICE_OUT_OF_MEMORY;
    break;
  case CHIP_NO_HOST_MEMORY:
    status = TN_ERR_OUT_OF_MEMORY;
    break;
  case CHIP_LOST:
    status = TN_ERR_DEVICE_LOST;
    break;
  case CHIP_FAULT:
    break;
  }
  return host->fail(status, "%s: %s", what, chip_result_text(result));
}

static tn_status check(void *device, chip_result result, const char *what) {
  return sim_check(((sim_device *)device)->host, result, what);
}

static chip *chip_of(void *device) { return ((sim_device *)device)->chip; }

/* Tenon's pointers to device memory are the chip's addresses. A device whose memory has
 * handles instead (cl_mem) sets TN_BACKEND_OPAQUE_MEMORY. */
static chip_address address_of(const void *ptr) { return (chip_address)(uintptr_t)ptr; }

/* ------------------------------------------------------------- enumeration --- */

/* The first slot that may start a driver. Where there is no device, say why and return TN_OK:
 * a machine without one is no error, and `tenon info` shows the message. */
static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  (void)context;
  *devices = chip_count();
  if (*devices == 0) (void)host->fail(TN_ERR_NOT_FOUND, "no chip in this machine");
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)host, (void)context;
  out->dl_device_type = kDLExtDev; /* or the number that DLPack has for yours */
  out->dl_device_id = (int32_t)index;
  out->score = 0; /* only when named. A real accelerator says 100, and is then preferred. */
  out->memory_bytes = chip_memory_bytes();
  out->alignment_bytes = 64;
  (void)snprintf(out->name, sizeof out->name, "Simulated chip %u", index);
  (void)snprintf(out->features, sizeof out->features, "simulated");
  (void)snprintf(out->unique_id, sizeof out->unique_id, SIM_DEVICE_TYPE "-%u", index);
  return TN_OK;
}

static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context;
  sim_device *d = host->alloc(host, sizeof *d, _Alignof(sim_device));
  if (!d) return host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a device");
  *d = (sim_device){.host = host};
  tn_status status = sim_check(host, chip_open(index, &d->chip), "opening the chip");
  if (status)
    host->free(host, d);
  else
    *device = d;
  return status;
}

static void close_device(void *device) {
  sim_device *d = device;
  chip_close(d->chip);
  d->host->free(d->host, d);
}

/* ------------------------------------------------------------------ memory --- */

/* Called seldom: the dispatcher keeps what it got and cuts it up. */
static tn_status take_memory(void *device, uint32_t kind, size_t bytes, void **ptr) {
  if (kind == TN_MEMORY_PINNED)
    return check(device, chip_host_alloc(chip_of(device), bytes, ptr), "pinned memory");
  chip_address address = 0;
  tn_status status = check(device, chip_alloc(chip_of(device), bytes, &address), "device memory");
  *ptr = (void *)(uintptr_t)address;
  return status;
}

/* Work that still uses it has been waited for. */
static void give_memory(void *device, uint32_t kind, void *ptr) {
  if (kind == TN_MEMORY_PINNED)
    chip_host_free(chip_of(device), ptr);
  else
    chip_free(chip_of(device), address_of(ptr));
}

static tn_status memory_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  *free_bytes = chip_memory_free(chip_of(device));
  *total_bytes = chip_memory_bytes();
  return TN_OK;
}

/* From pageable memory: it may be reused when this returns. Little is taken along, so that the
 * caller need not wait for the queue; much is waited for. The wait is for this very copy: another
 * thread may wait for the queue, and be told of its failures, in the meantime. */
static tn_status write_pageable(void *device, chip_queue *q, chip_address to, const void *from,
                                size_t bytes) {
  enum { LITTLE = 64 * 1024 };
  chip_result result =
      bytes <= LITTLE ? chip_write_along(q, to, from, bytes) : chip_write_wait(q, to, from, bytes);
  return check(device, result, "writing");
}

static tn_status copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  chip *c = chip_of(device);
  if (direction == TN_COPY_TO_DEVICE) {
    const char *from = (const char *)src + src_offset;
    chip_address to = address_of(dst) + dst_offset;
    if (!chip_host_owns(c, from)) return write_pageable(device, queue, to, from, bytes);
    return check(device, chip_write(queue, to, from, bytes), "writing");
  }
  if (direction == TN_COPY_TO_HOST) {
    char *to = (char *)dst + dst_offset;
    chip_address from = address_of(src) + src_offset;
    /* To pageable memory: the bytes are there when this returns. */
    chip_result result = chip_host_owns(c, to) ? chip_read(queue, to, from, bytes)
                                               : chip_read_wait(queue, to, from, bytes);
    return check(device, result, "reading");
  }
  return check(device,
               chip_move(queue, address_of(dst) + dst_offset, address_of(src) + src_offset, bytes),
               "copying");
}

/* ------------------------------------------------------------------ queues --- */

static tn_status queue_create(void *device, void **queue) {
  chip_queue *q = NULL;
  tn_status status = check(device, chip_queue_create(chip_of(device), &q), "a queue");
  *queue = q;
  return status;
}

static void queue_destroy(void *device, void *queue) {
  (void)device;
  chip_queue_drop(queue);
}

/* A queue that the program made with the vendor's API, or got from queue_native. It is the
 * program's: whoever goes last ends it. */
static tn_status queue_wrap(void *device, void *native, void **queue) {
  const tn_host *host = ((sim_device *)device)->host;
  if (!native) return host->fail(TN_ERR_UNSUPPORTED, "the chip has no default queue");
  if (chip_queue_chip(native) != chip_of(device))
    return host->fail(TN_ERR_INVALID_ARGUMENT, "the queue is of another chip");
  chip_queue_share(native);
  *queue = native;
  return TN_OK;
}

/* Where failures of kernels that ran after their call returned come to light. */
static tn_status queue_wait(void *device, void *queue) {
  return check(device, chip_queue_wait(queue), "work of the stream");
}

/* What programs that know the vendor's API get from tn_stream_native, and kernels as
 * args->native_stream. */
static void *queue_native(void *device, void *queue) {
  (void)device;
  return queue;
}

/* ------------------------------------------------------------------ events --- */

static tn_status event_create(void *device, void **event) {
  chip_event *e = NULL;
  tn_status status = check(device, chip_event_create(chip_of(device), &e), "an event");
  *event = e;
  return status;
}

static void event_destroy(void *device, void *event) {
  (void)device;
  chip_event_destroy(event);
}

/* The one function that may be called for a stream while another thread uses it. */
static tn_status event_record(void *device, void *event, void *queue) {
  return check(device, chip_event_record(event, queue), "recording an event");
}

static tn_status event_query(void *device, void *event) {
  return check(device, chip_event_query(event), "work before an event");
}

static tn_status event_wait(void *device, void *event) {
  return check(device, chip_event_wait(event), "work before an event");
}

/* The event may be of another device of this type. */
static tn_status queue_wait_event(void *device, void *queue, void *event) {
  return check(device, chip_queue_wait_event(queue, event), "waiting for an event");
}

static tn_status event_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  return check(device, chip_event_elapsed(begin, end, ns), "time between events");
}

const tn_backend sim_backend = {
    .struct_size = sizeof(tn_backend),
    /* No TN_BACKEND_HOST_MEMORY: the host cannot address the memory. No
     * TN_BACKEND_SYNCHRONOUS: work goes on when a call has returned. No TN_BACKEND_FORK_SAFE:
     * the chip's threads do not come along into a forked child. */
    .device_type = SIM_DEVICE_TYPE,
    .count = count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .alloc = take_memory,
    .free = give_memory,
    .memory_info = memory_info,
    .copy = copy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .queue_native = queue_native,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .queue_wait_event = queue_wait_event,
    .event_elapsed = event_elapsed,
    .queue_wrap = queue_wrap,
};
