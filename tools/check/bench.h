/* What the parts of `tenon bench` share. */
#ifndef TENON_CHECK_BENCH_H
#define TENON_CHECK_BENCH_H

#include "cases/op_case.h"
#include "tenon/tenon.h"

/* A device at work, and the speeds that others are compared with. */
typedef struct bench {
  tn_runtime *runtime;
  tn_device *device;
  tn_device_info info;
  int64_t large;               /* elements that keep the device busy */
  double copy_gbs;             /* of a large copy, bytes read and written; 0 = unknown */
  double copy_bytes;           /* that it reads and writes, far more than caches hold */
  double peak[TN_DTYPE_SLOTS]; /* GFLOP/s of a large product, by element type */
  bool as_json, once;          /* once: one call of each, and nothing is timed */
  const char *only;            /* a glob of what cases are printed as, or NULL */
  struct figures *kept;        /* takes every row, for a comparison; or NULL */
  uint64_t rows, failures;     /* printed, and calls that could not be made */
} bench;

/* One call, ready to be made many times. */
typedef struct job job;

/* bench_input.c: argument `arg` of the case as a new tensor on the device. */
tn_status bench_input(tn_device *device, const op_case *c, uint32_t arg, tn_tensor **tensor);

/* Inputs on the device, outputs made; NULL, with a message in tn_last_error(), when the
 * device cannot. */
job *job_make(const bench *b, const op_case *c);
void job_free(job *j);
/* Nanoseconds of one call over some rounds: the least, the median, the most. */
typedef struct timing {
  double least, median, most;
} timing;
/* One call, device and all. */
tn_status job_run(job *j);
/* All 0 if the call fails. */
timing job_time(job *j);
/* The name of the kernel that the call gets, "" where it falls back. */
const char *job_kernel(job *j);
/* Bytes that the call must read and write. */
double job_bytes(const job *j);

#endif
