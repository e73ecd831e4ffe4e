/* `tenon bench memory`: the caching allocator of a device. */
#ifndef TENON_CHECK_BENCH_MEMORY_H
#define TENON_CHECK_BENCH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct memory_options {
  const char *device; /* NULL: as TENON_DEVICE says */
  const char *svg;    /* a file for the picture, or NULL */
  uint64_t tensors, seed;
  bool as_json;
} memory_options;

/* The command's exit status: EXIT_FAILED also where a request was refused that giving cached memory
 * back would have served. */
int bench_memory(const memory_options *options);

#endif
