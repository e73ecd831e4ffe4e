/*
 * The entry points of Fortran: NAME_ jumps to where its slot says, so that a call which is only
 * forwarded costs a load and a jump. The slots begin at functions that start the library.
 */
#include <pthread.h>

#include "cblas_level1.h"
#include "device.h"
#include "filters.h"
#include "host.h"
#include "report.h"
#include "routines.h"
#include "settings.h"

entry nexts[NUM_ROUTINES], hosts[NUM_ROUTINES];
_Atomic uint64_t routine_calls[NUM_ROUTINES];
atomic_bool blas_started;

const char *const routine_names[NUM_ROUTINES] = {
#define FUNCTION(name, type, arguments) #name "_",
#define SUBROUTINE(name, arguments, texts) #name "_",
#include "routines.def"
};

/* --- the first call of a routine, and calls that are counted --- */

#define NEXT(name) ((call_##name *)nexts[ROUTINE_##name])
#define COUNT(name)                                                                                \
  atomic_fetch_add_explicit(&routine_calls[ROUTINE_##name], 1, memory_order_relaxed)

#define FUNCTION(name, type, arguments)                                                            \
  static type first_##name(TAKES_##arguments) {                                                    \
    blas_start();                                                                                  \
    return ROUTE(name)(GIVES_##arguments);                                                         \
  }                                                                                                \
  static type counted_##name(TAKES_##arguments) {                                                  \
    blas_await_start();                                                                            \
    COUNT(name);                                                                                   \
    return NEXT(name)(GIVES_##arguments);                                                          \
  }
#define SUBROUTINE(name, arguments, texts)                                                         \
  static void first_##name(TAKES_##arguments TAKES_TEXTS_##texts) {                                \
    blas_start();                                                                                  \
    ROUTE(name)(GIVES_##arguments GIVES_TEXTS_##texts);                                            \
  }                                                                                                \
  static void counted_##name(TAKES_##arguments TAKES_TEXTS_##texts) {                              \
    blas_await_start();                                                                            \
    COUNT(name);                                                                                   \
    NEXT(name)(GIVES_##arguments GIVES_TEXTS_##texts);                                             \
  }
#include "routines.def"

_Atomic(entry) slots[NUM_ROUTINES] = {
#define FUNCTION(name, type, arguments) (entry) first_##name,
#define SUBROUTINE(name, arguments, texts) (entry) first_##name,
#include "routines.def"
};

static const entry counted[NUM_ROUTINES] = {
#define FUNCTION(name, type, arguments) (entry) counted_##name,
#define SUBROUTINE(name, arguments, texts) (entry) counted_##name,
#include "routines.def"
};

/* --- the symbols --- */

#define FUNCTION(name, type, arguments)                                                            \
  BLAS_EXPORT type name##_(TAKES_##arguments);                                                     \
  type name##_(TAKES_##arguments) { return ROUTE(name)(GIVES_##arguments); }
#define SUBROUTINE(name, arguments, texts)                                                         \
  BLAS_EXPORT void name##_(TAKES_##arguments TAKES_TEXTS_##texts);                                 \
  void name##_(TAKES_##arguments TAKES_TEXTS_##texts) {                                            \
    ROUTE(name)(GIVES_##arguments GIVES_TEXTS_##texts);                                            \
  }
#include "routines.def"

/* The subroutines around functions that the reference CBLAS exports: NAMEsub(..., result). */
#define FUNCTION(name, type, arguments)                                                            \
  BLAS_EXPORT void name##sub_(TAKES_##arguments, type *result);                                    \
  void name##sub_(TAKES_##arguments, type *result) { *result = ROUTE(name)(GIVES_##arguments); }
#define SUBROUTINE(name, arguments, texts)
#include "routines.def"

/* --- the start --- */

/* Slots are written last, each on its own: a thread that comes before finds the first call's
 * function there, and waits in it. */
static void start(void) {
  settings_read();
  void *host = host_open();
  device_begin();
  for (int i = 0; i < NUM_ROUTINES; ++i) {
    bool filtered = filters[i] && (settings.device || settings.report);
    nexts[i] = filtered ? filters[i] : hosts[i];
  }
  atomic_store_explicit(&blas_started, true, memory_order_release);
  for (int i = 0; i < NUM_ROUTINES; ++i)
    atomic_store_explicit(&slots[i], settings.report ? counted[i] : nexts[i], memory_order_release);
  if (settings.report)
    report_at_exit();
  else
    cblas_level1_direct(host);
}

void blas_forward_all(void) {
  if (settings.report) return;
  for (int i = 0; i < NUM_ROUTINES; ++i)
    atomic_store_explicit(&slots[i], hosts[i], memory_order_release);
}

void blas_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
}
