/*
 * Host memory that is counted and runs out when a test says so: at one request, which the program
 * must survive, or from one request on.
 */
#ifndef TENON_TESTS_SCARCE_H
#define TENON_TESTS_SCARCE_H

#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>

#include "tests/support.h"

static struct {
  atomic_long left;  /* requests until one fails; negative once that has come */
  atomic_bool once;  /* the ones behind it are served */
  atomic_long live;  /* pieces that are out */
  atomic_long bytes; /* and how many bytes, as the C library rounds them */
} scarce = {.left = LONG_MAX};

static inline void *scarce_alloc(void *user, size_t bytes, size_t align) {
  void *memory = NULL;
  const long left = atomic_fetch_sub(&scarce.left, 1);
  (void)user;
  if (left == 0 || (left < 0 && !scarce.once)) return NULL;
  if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1))
    return NULL;
  ++scarce.live;
  scarce.bytes += (long)malloc_usable_size(memory);
  return memory;
}

static inline void scarce_free(void *user, void *memory) {
  (void)user;
  if (!memory) return;
  --scarce.live;
  scarce.bytes -= (long)malloc_usable_size(memory);
  free(memory);
}

static const tn_allocator scarce_allocator = {scarce_alloc, scarce_free, NULL};

static inline tn_runtime *open_scarce(void) {
  const tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "reference", .allocator = &scarce_allocator};
  return open_runtime(&options);
}

/* From here on request `at`, counted from 0, fails, and with `once` no other. */
static inline void scarce_begin(long at, bool once) {
  scarce.once = once;
  scarce.left = at;
}

/* No more failures; whether there was one. */
static inline bool scarce_end(void) { return atomic_exchange(&scarce.left, LONG_MAX) < 0; }

/* A failure that a program may have of it, by its message otherwise. */
#define ok_or_scarce(status, at)                                                                   \
  ck_assert_msg(!(status) || (status) == TN_ERR_OUT_OF_MEMORY ||                                   \
                    (status) == TN_ERR_DEVICE_OUT_OF_MEMORY,                                       \
                "request %ld: %s", (long)(at), tn_last_error())

#endif
