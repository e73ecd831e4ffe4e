/* Slots that leave host memory, a descriptor or a thread behind where a fault says so. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "mutant.h"

/* Lost on purpose, and written, so that it counts. */
static void leave_memory(void) {
  enum { MIB = 1 << 20, PAGE = 4096 };
  volatile char *lost = malloc(MIB);
  for (size_t at = 0; lost && at < MIB; at += PAGE) lost[at] = 1;
}

static void leave_file(void) { (void)!open("/dev/null", O_RDONLY | O_CLOEXEC); }

static void *sleep_for_ever(void *nothing) {
  for (;;) pause();
  return nothing;
}

static void leave_thread(void) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!pthread_create(&thread, NULL, sleep_for_ever, NULL)) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool has(const void *device, mutant_fault fault) {
  return ((const mutant_device *)device)->fault == fault;
}

tn_status mutant_leaky_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  if (has(device, FAULT_ALLOC_LEAKS)) leave_memory();
  if (has(device, FAULT_ALLOC_KEEPS_FILE)) leave_file();
  tn_status status = mutant_alloc(device, kind, bytes, ptr);
  if (status && has(device, FAULT_NO_MEMORY_LEAKS)) leave_memory();
  return status;
}

tn_status mutant_leaky_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  if (has(device, FAULT_INFO_LEAKS)) leave_memory();
  return mutant_memory_info(device, free_bytes, total_bytes);
}

tn_status mutant_leaky_copy(void *device, void *queue, uint32_t direction, void *dst,
                            uint64_t dst_offset, const void *src, uint64_t src_offset,
                            size_t bytes) {
  if (has(device, FAULT_COPY_LEAKS) && bytes >= 1 << 20) leave_memory();
  return mutant_copy(device, queue, direction, dst, dst_offset, src, src_offset, bytes);
}

tn_status mutant_leaky_queue_create(void *device, void **queue) {
  if (has(device, FAULT_QUEUE_LEAKS)) leave_memory();
  if (has(device, FAULT_QUEUE_KEEPS_FILE)) leave_file();
  if (has(device, FAULT_QUEUE_KEEPS_THREAD)) leave_thread();
  return mutant_queue_create(device, queue);
}

tn_status mutant_leaky_event_create(void *device, void **event) {
  if (has(device, FAULT_EVENT_LEAKS)) leave_memory();
  if (has(device, FAULT_EVENT_KEEPS_FILE)) leave_file();
  return mutant_event_create(device, event);
}

tn_status mutant_leaky_event_record(void *device, void *event, void *queue) {
  if (has(device, FAULT_RECORD_LEAKS)) leave_memory();
  return mutant_event_record(device, event, queue);
}

void mutant_leaky_close(mutant_device *d) {
  if (has(d, FAULT_CLOSE_KEEPS_FILE)) leave_file();
  if (has(d, FAULT_CLOSE_KEEPS_THREAD)) leave_thread();
}
