/* FNV-1a in 64 bits (Fowler, Noll, Vo). */
#ifndef TENON_DISPATCHER_CHECKSUM_H
#define TENON_DISPATCHER_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t checksum(const void *bytes, size_t count) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; i++)
    sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return sum;
}

#endif
