/*
 * What checks of queues work with: queues that are at work for a known while, and promises, by
 * which the kit sees for itself whether a queue has come to a point, whatever its events say.
 */
#ifndef TENON_CHECK_RIG_H
#define TENON_CHECK_RIG_H

#include "direct.h"

enum { RIG_QUEUES = 64, RIG_EVENTS = 64, RIG_LINE = 64, RIG_PROMISES = 512, RIG_PIECES = 8 };

typedef struct rig {
  direct *d;
  void *from, *to;     /* device memory that copies pass the time with: queues read one, and write
                          one each, of area; to is for queues that others made */
  size_t bytes;        /* of each */
  uint32_t copies;     /* that keep a queue at work for some milliseconds */
  uint64_t work_ns;    /* how long such copies go on when the calls have returned, about */
  void *lines;         /* device memory: line i is 64 bytes of value i, of 256 */
  void *marks;         /* device memory: a line per promise */
  unsigned char *seen; /* pinned: a line per promise; NULL where there is no pinned memory */
  /* There, and where copies to pinned memory wait for the queue, this one reads the marks. */
  void *side;
  uint32_t promises; /* made so far */
  uint32_t num_pieces;
  struct {
    void *ptr;
    bool pinned;
  } piece[RIG_PIECES];
  uint32_t num_queues, num_events;
  void *queue[RIG_QUEUES], *area[RIG_QUEUES], *event[RIG_EVENTS];
} rig;

/* A line that the host sees change when a queue gets there. */
typedef struct promise {
  uint32_t slot;
  unsigned char value;
} promise;

/* Memory, and how much keeps a queue at work. False when a slot failed, which is recorded, or
 * when there is no memory for it, which is noted. */
bool rig_make(direct *d, rig *r);
/* Gives back what was made, once its work is done; after a failure nothing, since work may never
 * end: the process does. */
void rig_free(rig *r);

/* Host memory of zeros that is the rig's: pinned, or pageable where there is none, which is noted.
 * NULL when it failed, which is recorded. */
void *rig_host(rig *r, size_t bytes);
/* NULL when it failed, which is recorded. */
void *rig_queue(rig *r);
void *rig_event(rig *r);

/* Device memory that work in a queue writes, and no work in another of rig_queue. */
void *rig_area(const rig *r, const void *queue);
/* Puts work into a queue: `times` that which lasts work_ns. */
bool rig_work(rig *r, void *queue, uint32_t times);
/* Puts a promise into a queue, behind what is there. */
bool rig_promise(rig *r, void *queue, promise *p);
/* Work, and a promise behind it. */
bool rig_delayed(rig *r, void *queue, promise *p);
/* Whether the host sees it; pre: something said that the queue has come there. */
bool rig_kept(rig *r, promise p);
/* Fails unless it is kept: `what` said that the queue had come there. */
bool rig_expect(rig *r, promise p, const char *what);
/* Puts a line of a value at an offset of device memory, in a queue's order. */
bool rig_put_line(rig *r, void *queue, void *memory, uint64_t offset, unsigned char value);
/* Waits until all queues are empty. */
bool rig_settle(rig *r);

#endif
