/*
 * Parallel loops of kernels: a share that leaves the floating-point mode of its thread changed
 * spoils whatever runs there next. Kernels get a table of services whose parallel_for is the one
 * here; it puts the mode back and remembers that it had to, for the thread that runs the kernel.
 */
#include <fenv.h>

#include "guard.h"

static _Thread_local uint64_t changed_to; /* a loop's share left this mode, 0: none did */

/* Of the thread: the direction of rounding, what is flushed to zero, which exceptions trap. */
static uint64_t mode_get(void) {
#if defined(__x86_64__)
  uint32_t sse;
  uint16_t x87;
  __asm__ volatile("stmxcsr %0" : "=m"(sse));
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (uint64_t)(x87 & 0xf3f) << 32 | (sse & 0xffc0);
#elif defined(__aarch64__)
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return (uint64_t)fegetround();
#endif
}

typedef struct loop {
  tn_range_fn fn;
  void *ctx;
  atomic_ullong changed;
} loop;

static tn_status run_share(void *ctx, int64_t begin, int64_t end) {
  loop *l = ctx;
  fenv_t before;
  uint64_t mode = mode_get();
  fegetenv(&before);
  tn_status status = l->fn(l->ctx, begin, end);
  uint64_t now = mode_get();
  if (now == mode) return status;
  atomic_store(&l->changed, now);
  fesetenv(&before);
  return status;
}

static tn_status run_loop(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                          void *ctx) {
  const guard *g = (const guard *)(const void *)host;
  loop l = {.fn = fn, .ctx = ctx};
  tn_status status = g->host->parallel_for(g->host, n, grain, run_share, &l);
  if (atomic_load(&l.changed)) changed_to = atomic_load(&l.changed);
  return status;
}

void loops_open(guard *g) {
  _Static_assert(offsetof(guard, looped) == 0, "run_loop finds the guard where its host is");
  const uint32_t size = g->host->struct_size;
  g->looped = (tn_host){0};
  __builtin_memcpy(&g->looped, g->host, size < sizeof g->looped ? size : sizeof g->looped);
  if (size > sizeof g->looped) g->looped.struct_size = sizeof g->looped;
  g->looped.parallel_for = run_loop;
}

void loops_begin(void) { changed_to = 0; }

tn_status loops_end(const guard *g) {
  if (!changed_to) return TN_OK;
  return g->host->fail(TN_ERR_BACKEND,
                       "left the floating-point mode of a thread of its parallel loop "
                       "changed (control words %#llx)",
                       (unsigned long long)changed_to);
}
