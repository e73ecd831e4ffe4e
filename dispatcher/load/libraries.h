/*
 * Where ld.so would find a shared library, asked without loading it: loading would run
 * its constructors. The answer may be "unsure"; then dlopen has the last word.
 */
#ifndef TENON_DISPATCHER_LIBRARIES_H
#define TENON_DISPATCHER_LIBRARIES_H

#include "dispatcher/base/error.h"

typedef enum library_answer { LIBRARY_FOUND, LIBRARY_MISSING, LIBRARY_UNSURE } library_answer;

/* Looks for `name` as DT_NEEDED has it: among loaded libraries, in `runpath` (as the
 * needing file has it, "" = none; $ORIGIN stands for `origin`), in the process's own
 * search path (LD_LIBRARY_PATH as ld.so took it at start, default folders), in
 * /etc/ld.so.cache. Thread-safe. */
library_answer library_find(const char *name, const char *runpath, const char *origin);

/* Looks for `name` in the bytes of an ld.so.cache, which may be anything. UNSURE if they
 * are not of a form known here. */
library_answer library_find_in_cache(const void *cache, size_t size, const char *name);

#endif
