/*
 * Workspaces that trap: the kernel that reads or writes past the end, or by turns before the
 * beginning, dies of SIGSEGV at that very access. The workspace is aligned as the host's was; the
 * bytes between it and the pages that trap are filled, and looked at when the call is done.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard.h"

typedef struct trap {
  unsigned char *map, *first, *end; /* the map; what can be touched of it */
  size_t map_bytes;
  unsigned char *workspace;
  size_t bytes;
} trap;

static uintptr_t alignment_of(const void *address) {
  uintptr_t at = (uintptr_t)address, align = at & (~at + 1);
  return align > 1u << 24 ? 1u << 24 : align;
}

static bool trap_make(trap *t, const tn_kernel_args *args, bool at_begin) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), align = alignment_of(args->workspace);
  size_t inner = (args->workspace_bytes + align - 1 + page - 1) / page * page;
  t->bytes = args->workspace_bytes;
  t->map_bytes = inner + 2 * page;
  t->map = mmap(NULL, t->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (t->map == MAP_FAILED) return false;
  t->first = t->map + page;
  t->end = t->first + inner;
  if (mprotect(t->first, inner, PROT_READ | PROT_WRITE)) {
    munmap(t->map, t->map_bytes);
    return false;
  }
  uintptr_t first = (uintptr_t)t->first, last = (uintptr_t)t->end - t->bytes;
  t->workspace = at_begin ? t->first + (-first & (align - 1)) : t->end - t->bytes;
  if (!at_begin) t->workspace -= last & (align - 1);
  return true;
}

static void trap_fill(const trap *t, int poison) {
  memset(t->first, GUARD_BYTE, (size_t)(t->workspace - t->first));
  memset(t->workspace, poison, t->bytes);
  memset(t->workspace + t->bytes, GUARD_BYTE, (size_t)(t->end - t->workspace) - t->bytes);
}

static tn_status trap_check(const guard *g, const tn_layer_call *call, const trap *t) {
  for (const unsigned char *at = t->workspace + t->bytes; at < t->end; ++at)
    if (*at != GUARD_BYTE) return guard_broken(g, call, at - t->workspace);
  for (const unsigned char *at = t->workspace; at-- > t->first;)
    if (*at != GUARD_BYTE) return guard_broken(g, call, at - t->workspace);
  return TN_OK;
}

tn_status trap_run(guard *g, const tn_layer_call *call, guard_run run, void *ctx) {
  trap t;
  tn_kernel_args args = *call->args;
  unsigned turn = atomic_fetch_add(&g->calls, 1);
  if (!trap_make(&t, &args, guard_at_begin(turn))) return run(call, &args, ctx);
  trap_fill(&t, guard_poison(turn));
  args.workspace = t.workspace;
  tn_status status = run(call, &args, ctx);
  if (!status) status = trap_check(g, call, &t);
  munmap(t.map, t.map_bytes);
  return status;
}
