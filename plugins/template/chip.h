/*
 * A simulated chip, in the place of hardware and of its vendor's driver: memory of its own,
 * queues that work by themselves, events, page-locked host memory, and faults.
 *
 * THIS IS THE FIRST THING TO REPLACE. Nothing here knows of Tenon; backend.c is written
 * against these functions as it would be against a driver's API, and each has its like there
 * (cuMemAlloc, clEnqueueNDRangeKernel, zeEventQueryStatus). Delete chip.h and chip.c, let the
 * compiler find every use, and put your driver's calls there.
 *
 *  Memory.     The chip has an address space of its own. Its addresses lie where no process of
 *              a host can have memory, so a host that follows one gets a fault, always.
 *  Queues.     Work of a queue runs in order, on a thread that stands for the hardware's own
 *              engine. A plugin makes no threads otherwise: kernels that run on the host's
 *              processors use tn_host.parallel_for.
 *  Errors.     A program that leaves the chip's memory poisons its queue: work behind it is
 *              skipped and new work refused, until chip_queue_wait says CHIP_FAULT, once, and
 *              clears it. A copy that leaves it takes the whole chip down: everything says
 *              CHIP_LOST from then on.
 *  Threads.    Everything may be called from any thread.
 */
#ifndef CHIP_H
#define CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct chip chip;
typedef struct chip_queue chip_queue;
typedef struct chip_event chip_event;
typedef uint64_t chip_address;

typedef enum chip_result {
  CHIP_OK,
  CHIP_NOT_READY,
  CHIP_NO_MEMORY,      /* of the chip */
  CHIP_NO_HOST_MEMORY, /* or threads */
  CHIP_FAULT,          /* a program left the chip's memory */
  CHIP_LOST,
} chip_result;

const char *chip_result_text(chip_result result);

/* How many chips this machine has, and what each is. */
uint32_t chip_count(void);
uint64_t chip_memory_bytes(void);

chip_result chip_open(uint32_t index, chip **out);
/* Its queues, events and memory have been given back. */
void chip_close(chip *c);

/* ------------------------------------------------------------------ memory --- */

chip_result chip_alloc(chip *c, size_t bytes, chip_address *address);
void chip_free(chip *c, chip_address address);
uint64_t chip_memory_free(chip *c);

/* Page-locked host memory, which copies may use while the host goes on. */
chip_result chip_host_alloc(chip *c, size_t bytes, void **ptr);
void chip_host_free(chip *c, void *ptr);
bool chip_host_owns(chip *c, const void *ptr);

/* ------------------------------------------------------------------ queues --- */

chip_result chip_queue_create(chip *c, chip_queue **out);
/* One holder more, and one less: the last waits for its work and ends it. */
void chip_queue_share(chip_queue *q);
void chip_queue_drop(chip_queue *q);
chip *chip_queue_chip(const chip_queue *q);
/* Waits for what was put into the queue before this call. */
chip_result chip_queue_wait(chip_queue *q);

/* Copies, when the queue gets there: host memory must stay as it is until then. */
chip_result chip_read(chip_queue *q, void *to, chip_address from, size_t bytes);
chip_result chip_write(chip_queue *q, chip_address to, const void *from, size_t bytes);
chip_result chip_move(chip_queue *q, chip_address to, chip_address from, size_t bytes);
/* Takes the bytes along at once. */
chip_result chip_write_along(chip_queue *q, chip_address to, const void *from, size_t bytes);

/* Wait until it is done, and say what became of this copy, whatever others wait for. */
chip_result chip_read_wait(chip_queue *q, void *to, chip_address from, size_t bytes);
chip_result chip_write_wait(chip_queue *q, chip_address to, const void *from, size_t bytes);

/* A program for the chip: sees the chip's memory and its parameters, nothing of the host.
 * False where it left the memory. */
typedef bool (*chip_program)(chip *c, const void *params);

/* Runs a program, when the queue gets there. The parameters are copied now. */
chip_result chip_launch(chip_queue *q, chip_program program, const void *params, size_t bytes);

/* For programs: the memory from `low` bytes before an address to `high` behind it, as the
 * program's own pointer to the address; NULL, a fault, unless all of it is the chip's. */
void *chip_reach(chip *c, chip_address address, int64_t low, int64_t high);

/* ------------------------------------------------------------------ events --- */

/* An event stands for the point of a queue where it was recorded last; one that never was
 * has passed. */
chip_result chip_event_create(chip *c, chip_event **out);
void chip_event_destroy(chip_event *e);
chip_result chip_event_record(chip_event *e, chip_queue *q);
/* CHIP_OK, CHIP_NOT_READY, or what became of the work before it. */
chip_result chip_event_query(chip_event *e);
chip_result chip_event_wait(chip_event *e);
/* Work put into the queue later waits for the event as it is recorded now. */
chip_result chip_queue_wait_event(chip_queue *q, chip_event *e);
chip_result chip_event_elapsed(chip_event *begin, chip_event *end, uint64_t *ns);

#endif
