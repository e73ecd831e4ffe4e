/* What this process holds, to see whether it grows. */
#ifndef TENON_CHECK_BACKEND_USAGE_H
#define TENON_CHECK_BACKEND_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct usage {
  int64_t resident_bytes, descriptors, threads;
} usage;

usage usage_now(void);
/* A moment later: threads and files may take one to go. */
usage usage_settled(void);

/* What grew from one moment to the other by as much as `times` calls would leave behind of which
 * each leaves half a MiB, or every second one a descriptor or a thread; "" if nothing did. */
const char *usage_growth(const usage *from, const usage *to, uint32_t times, char *text,
                         size_t size);

#endif
