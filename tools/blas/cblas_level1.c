/* CBLAS level 1: the host's functions, or Fortran's with sizes by value: until the library has
 * started, where the host has none, and where calls are counted. */
#include "cblas_level1.h"

#include <dlfcn.h>
#include <string.h>

#include "routines.h"

#define TAKES_ONE blas_int n, const void *x, blas_int incx
#define TAKES_PAIR blas_int n, const void *x, blas_int incx, const void *y, blas_int incy
#define GIVES_PAIR n, x, incx, y, incy
#define ONE (void *)x, &incx
#define PAIR (void *)x, &incx, (void *)y, &incy
#define UNWRAP(...) __VA_ARGS__

static size_t index_in_c(blas_int i) { return i > 0 ? (size_t)i - 1 : 0; }

#define DIRECT(type, name, parameters, arguments, call)                                            \
  static type by_fortran_##name(UNWRAP parameters) { return call; }                                \
  static _Atomic(entry) slot_##name = (entry)by_fortran_##name;                                    \
  BLAS_EXPORT type cblas_##name(UNWRAP parameters);                                                \
  type cblas_##name(UNWRAP parameters) {                                                           \
    entry slot = atomic_load_explicit(&slot_##name, memory_order_relaxed);                         \
    return ((type(*)(UNWRAP parameters))slot)(UNWRAP arguments);                                   \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* a void function returns one that is void */
#include "cblas_level1.def"
#pragma GCC diagnostic pop

static const struct {
  const char *name;
  _Atomic(entry) *slot;
} functions[] = {
#define DIRECT(type, name, parameters, arguments, call) {"cblas_" #name, &slot_##name},
#include "cblas_level1.def"
};

void cblas_level1_direct(void *library) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void *symbol = dlsym(library, functions[i].name);
    entry function;
    memcpy(&function, &symbol, sizeof function);
    if (symbol) atomic_store_explicit(functions[i].slot, function, memory_order_release);
  }
}
