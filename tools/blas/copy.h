/*
 * Matrices copied to the device and back. Programs' memory is pageable: threads pack pieces of a
 * matrix into pinned memory, from where the device takes them while the next ones are packed.
 */
#ifndef TENON_BLAS_COPY_H
#define TENON_BLAS_COPY_H

#include <pthread.h>

#include "pack.h"

enum { MAX_LANES = 8, CHUNK_BYTES = 4 << 20 };

/* What one thread copies with. */
typedef struct lane {
  tn_stream *stream;
  tn_event *done[2]; /* when chunk i is the host's again */
  void *chunk[2];    /* pinned */
} lane;

typedef struct crew {
  pthread_mutex_t lock; /* one product at a time; the others' threads wait for the device */
  int num_lanes;        /* 0: not made yet */
  lane lanes[MAX_LANES];
  char why[256]; /* the last failure of a thread */
} crew;

/* Under the crew's lock: makes the lanes. On failure those that were made stay. */
tn_status crew_make(crew *c, tn_device *handle);

/* Operands into row-major tensors of their rows and columns, on whose device the lanes are. */
tn_status crew_upload(crew *c, int count, const operand *operands, tn_tensor *const *tensors);
/* The product, row-major [n, m] in parts, into C. With a beta other than 0 C is written once all
 * of it has come. */
tn_status crew_download(crew *c, const tn_tensor *y, const product *p);

#endif
