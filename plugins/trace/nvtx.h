/* Ranges of NVIDIA's tools extension round each call, for profilers that listen to them;
 * nothing where its headers were not there at build time. */
#ifndef TRACE_NVTX_H
#define TRACE_NVTX_H

#ifdef TRACE_NVTX
/* The header casts what dlsym gives to functions, as POSIX means it and ISO C does not. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop
/* Once, before several threads push: the header's own start at the first push writes what other
 * threads read. */
static inline void ranges_begin(void) { nvtxInitialize(NULL); }
static inline void range_push(const char *name) { (void)nvtxRangePushA(name); }
static inline void range_pop(void) { (void)nvtxRangePop(); }
#else
static inline void ranges_begin(void) {}
static inline void range_push(const char *name) { (void)name; }
static inline void range_pop(void) {}
#endif

#endif
