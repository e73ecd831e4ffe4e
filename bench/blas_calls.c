/*
 * Small BLAS calls in a loop, for what libtenon-blas adds to them: run it with and without. With
 * arguments it makes so many calls of one routine of one size and prints nothing, for counting
 * instructions (bench/blas_calls.sh).
 *
 *   blas_calls [--json | --table] [--quick]
 *   blas_calls ROUTINE N CALLS      ROUTINE: ddot_, dgemm_, cblas_ddot, cblas_dgemm
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { LARGEST = 64 };

double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t ta_length, size_t tb_length);
double cblas_ddot(int n, const double *x, int incx, const double *y, int incy);
void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                 int lda, const double *b, int ldb, double beta, double *c, int ldc);

static double a[LARGEST * LARGEST], b[LARGEST * LARGEST], c[LARGEST * LARGEST];
static volatile double sum;

static void call_ddot(int n) { sum += ddot_(&n, a, &(int){1}, b, &(int){1}); }
static void call_cblas_ddot(int n) { sum += cblas_ddot(n, a, 1, b, 1); }
static void call_dgemm(int n) {
  static const double one = 1, zero = 0;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
}
static void call_cblas_dgemm(int n) {
  enum { ROW_MAJOR = 101, PLAIN = 111 };
  cblas_dgemm(ROW_MAJOR, PLAIN, PLAIN, n, n, n, 1, a, n, b, n, 0, c, n);
}

static const struct {
  const char *name;
  void (*call)(int n);
} routines[] = {{"ddot_", call_ddot},
                {"cblas_ddot", call_cblas_ddot},
                {"dgemm_", call_dgemm},
                {"cblas_dgemm", call_cblas_dgemm}};
enum { NUM_ROUTINES = sizeof routines / sizeof *routines };

/* The least of many short runs: what disturbs a run only makes it longer. */
static double nanoseconds(void (*call)(int), int n) {
  int calls = n > 32 ? 20 : 400;
  double least = 1e9;
  for (size_t run = 0; run < bench_times(200); ++run) {
    double begin = now_ns();
    for (int i = 0; i < calls; ++i) call(n);
    double took = (now_ns() - begin) / calls;
    if (took < least) least = took;
  }
  return least;
}

static void time_one(const bench *of, int routine, int n) {
  char what[64];
  snprintf(what, sizeof what, "%s n %d", routines[routine].name, n);
  bench_row(of, what, 1, (figure[]){{"time_ns", nanoseconds(routines[routine].call, n)}});
}

static void time_all(const bench *of) {
  static const int sizes[] = {1, 2, 4, 8, 16, 32, 64};
  for (int i = 0; i < NUM_ROUTINES; ++i)
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; ++j) time_one(of, i, sizes[j]);
}

int main(int argc, char **argv) {
  for (int i = 0; i < LARGEST * LARGEST; ++i) a[i] = b[i] = 1e-3 * i;
  if (argc < 3) {
    const bench alone = bench_options("blas_calls", argc, argv, NULL);
    time_all(&alone);
    return fflush(stdout) || ferror(stdout);
  }
  for (int i = 0; argc == 4 && i < NUM_ROUTINES; ++i) {
    if (strcmp(argv[1], routines[i].name) != 0) continue;
    for (long left = atol(argv[3]); left > 0; --left) routines[i].call(atoi(argv[2]));
    return 0;
  }
  fputs("usage: blas_calls [OPTION | ROUTINE N CALLS]\n", stderr);
  return 2;
}
