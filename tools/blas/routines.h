/*
 * The routines by number, with the type of each, and the three tables by which calls find their
 * way: `slots`, where a call from outside goes; `nexts`, where it goes once it has been counted;
 * `hosts`, the host BLAS's own.
 */
#ifndef TENON_BLAS_ROUTINES_H
#define TENON_BLAS_ROUTINES_H

#include <complex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t blas_int; /* INTEGER of gfortran */
typedef float _Complex float_complex;
typedef double _Complex double_complex;

#define BLAS_EXPORT __attribute__((visibility("default")))

/* The addresses that a routine takes, declared and passed on. */
#define TAKES_1 void *a1
#define TAKES_3 void *a1, void *a2, void *a3
#define TAKES_4 TAKES_3, void *a4
#define TAKES_5 TAKES_4, void *a5
#define TAKES_6 TAKES_5, void *a6
#define TAKES_7 TAKES_6, void *a7
#define TAKES_8 TAKES_7, void *a8
#define TAKES_9 TAKES_8, void *a9
#define TAKES_10 TAKES_9, void *a10
#define TAKES_11 TAKES_10, void *a11
#define TAKES_12 TAKES_11, void *a12
#define TAKES_13 TAKES_12, void *a13
#define GIVES_1 a1
#define GIVES_3 a1, a2, a3
#define GIVES_4 GIVES_3, a4
#define GIVES_5 GIVES_4, a5
#define GIVES_6 GIVES_5, a6
#define GIVES_7 GIVES_6, a7
#define GIVES_8 GIVES_7, a8
#define GIVES_9 GIVES_8, a9
#define GIVES_10 GIVES_9, a10
#define GIVES_11 GIVES_10, a11
#define GIVES_12 GIVES_11, a12
#define GIVES_13 GIVES_12, a13
/* The lengths behind them. C programs pass none: what is handed on then is whatever lies there,
 * as far as BLAS goes nobody reads it, but Fortran's own code may write to the place. */
#define TAKES_TEXTS_0
#define TAKES_TEXTS_1 , size_t t1
#define TAKES_TEXTS_2 , size_t t1, size_t t2
#define TAKES_TEXTS_3 , size_t t1, size_t t2, size_t t3
#define TAKES_TEXTS_4 , size_t t1, size_t t2, size_t t3, size_t t4
#define GIVES_TEXTS_0
#define GIVES_TEXTS_1 , t1
#define GIVES_TEXTS_2 , t1, t2
#define GIVES_TEXTS_3 , t1, t2, t3
#define GIVES_TEXTS_4 , t1, t2, t3, t4

enum {
#define FUNCTION(name, type, arguments) ROUTINE_##name,
#define SUBROUTINE(name, arguments, texts) ROUTINE_##name,
#include "routines.def"
  NUM_ROUTINES
};

#define FUNCTION(name, type, arguments) typedef type call_##name(TAKES_##arguments);
#define SUBROUTINE(name, arguments, texts)                                                         \
  typedef void call_##name(TAKES_##arguments TAKES_TEXTS_##texts);
#include "routines.def"

typedef void (*entry)(void); /* any routine, to be cast to its own type */

extern _Atomic(entry) slots[NUM_ROUTINES];
extern entry nexts[NUM_ROUTINES], hosts[NUM_ROUTINES];
extern _Atomic uint64_t routine_calls[NUM_ROUTINES]; /* counted where a report is wanted */
extern const char *const routine_names[NUM_ROUTINES];

/* The host BLAS's routine, once blas_start() has been called. */
#define HOST(name) ((call_##name *)hosts[ROUTINE_##name])
/* What a call from outside gets. */
#define ROUTE(name)                                                                                \
  ((call_##name *)atomic_load_explicit(&slots[ROUTINE_##name], memory_order_relaxed))

/* Finds the host BLAS and points the slots to it, or to what stands before it. Ends the process
 * with a message where there is no BLAS to be had, for nothing can be computed then. Called by the
 * first call of each routine; does its work once. */
void blas_start(void);
/* Whether it has; the tables may be read then. */
extern atomic_bool blas_started;
/* For what slots lead to: they are read without any order, so that a call that is only forwarded is
 * a jump through memory and nothing else. */
static inline void blas_await_start(void) {
  if (!atomic_load_explicit(&blas_started, memory_order_acquire)) blas_start();
}
/* From now on every call goes to the host at once, but where calls are counted. */
void blas_forward_all(void);

#endif
