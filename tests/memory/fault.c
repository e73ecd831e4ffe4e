/*
 * The C library's functions are defined anew in the program, which all libraries of the
 * process then call; who called is found by the return address.
 */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int mode;
static _Atomic long fail_at, seen, failed, live;

void fault_set(fault_mode wanted, long at) {
  atomic_store(&mode, FAULT_OFF);
  atomic_store(&fail_at, at);
  atomic_store(&seen, 0);
  atomic_store(&failed, 0);
  atomic_store(&mode, wanted);
}

long fault_seen(void) { return atomic_load(&seen); }
long fault_failed(void) { return atomic_load(&failed); }
long fault_live(void) { return atomic_load(&live); }

static bool fails(void) {
  int now = atomic_load(&mode);
  if (now == FAULT_OFF) return false;
  long number = atomic_fetch_add(&seen, 1) + 1, at = atomic_load(&fail_at);
  bool failing = (now == FAULT_ONCE && number == at) || (now == FAULT_FOR_GOOD && number >= at) ||
                 (now == FAULT_EVERY && number % at == 0);
  if (failing) atomic_fetch_add(&failed, 1);
  return failing;
}

/* --- an allocator --- */

static void *give(void *user, size_t bytes, size_t align) {
  (void)user;
  if (fails()) return NULL;
  void *block = aligned_alloc(align < 64 ? 64 : align, (bytes + 127) / 64 * 64);
  if (block) atomic_fetch_add(&live, 1);
  return block;
}

static void take_back(void *user, void *ptr) {
  (void)user;
  atomic_fetch_sub(&live, 1);
  free(ptr);
}

const tn_allocator fault_allocator = {give, take_back, NULL};

/* --- the C library's functions; sanitizers have their own --- */

#ifdef FAULT_INTERPOSES

static bool is_ours(void *address) {
  struct dl_find_object found;
  if (_dl_find_object(address, &found) || !found.dlfo_link_map) return false;
  const char *name = found.dlfo_link_map->l_name;
  return name && strstr(name, "/libtenon") != NULL;
}

#define FAILS_HERE()                                                                               \
  (atomic_load(&mode) != FAULT_OFF && is_ours(__builtin_return_address(0)) && fails())
#define EXPORTED __attribute__((visibility("default"), noinline))

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *ptr, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

EXPORTED void *malloc(size_t bytes) { return FAILS_HERE() ? no_memory() : __libc_malloc(bytes); }

EXPORTED void *calloc(size_t count, size_t bytes) {
  return FAILS_HERE() ? no_memory() : __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *ptr, size_t bytes) {
  return FAILS_HERE() ? no_memory() : __libc_realloc(ptr, bytes);
}

EXPORTED void *aligned_alloc(size_t align, size_t bytes) {
  return FAILS_HERE() ? no_memory() : __libc_memalign(align, bytes);
}

EXPORTED int posix_memalign(void **ptr, size_t align, size_t bytes) {
  void *block = FAILS_HERE() ? NULL : __libc_memalign(align, bytes);
  if (!block) return ENOMEM;
  *ptr = block;
  return 0;
}

EXPORTED void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (FAILS_HERE()) return errno = ENOMEM, MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset); // NOLINT
}

EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*start)(void *), void *ctx) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (FAILS_HERE()) return EAGAIN;
  if (!real) {
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &symbol, sizeof real);
  }
  return real(thread, attributes, start, ctx);
}

#endif
