/*
 * The error handlers, and the small routines that every BLAS exports beside its levels: as in the
 * reference, version 3.11, in its words.
 */
#include "handlers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

BLAS_EXPORT int CBLAS_CallFromC, RowMajorStrg;

_Thread_local bool called_from_c __attribute__((tls_model("initial-exec")));

enum { LONGEST_NAME = 32 };

/* `routine` is Fortran's: `length` characters, blanks behind the name. */
void xerbla_(const char *routine, const blas_int *argument, size_t length) {
  char name[LONGEST_NAME + 1] = "";
  /* C programs call it without the length. */
  size_t most = length && length <= LONGEST_NAME ? length : 6, used = 0;
  while (used < most && routine[used] && routine[used] != ' ') ++used;
  memcpy(name, routine, used);
  if (!called_from_c && !CBLAS_CallFromC) {
    fprintf(stderr, " ** On entry to %-6s parameter number %2d had an illegal value\n", name,
            *argument);
    return;
  }
  char c_name[LONGEST_NAME + 8] = "cblas_";
  for (size_t i = 0; i < used; ++i) c_name[6 + i] = (char)tolower((unsigned char)name[i]);
  cblas_xerbla(*argument + 1, c_name, "");
}

/* Where C's arguments stand that change places for row-major matrices. */
static int position_in_c(int argument, const char *routine) {
  static const struct {
    const char *family;
    int swapped[2][2];
  } families[] = {{"gemm", {{4, 5}, {9, 11}}}, {"symm", {{4, 5}}},        {"hemm", {{4, 5}}},
                  {"trmm", {{6, 7}}},          {"trsm", {{6, 7}}},        {"gemv", {{3, 4}}},
                  {"gbmv", {{3, 4}, {5, 6}}},  {"ger", {{2, 3}, {6, 8}}}, {"her2k", {{-1, -1}}},
                  {"her2", {{6, 8}}},          {"hpr2", {{6, 8}}}};
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
    if (!strstr(routine, families[i].family)) continue;
    for (int j = 0; j < 2; ++j) {
      const int *pair = families[i].swapped[j];
      if (argument == pair[0]) return pair[1];
      if (argument == pair[1]) return pair[0];
    }
    break;
  }
  return argument;
}

void cblas_xerbla(int argument, const char *routine, const char *format, ...) {
  if (RowMajorStrg) argument = position_in_c(argument, routine);
  if (argument) fprintf(stderr, "Parameter %d to routine %s was incorrect\n", argument, routine);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  exit(-1); /* as the reference does */
}

/* For C programs, whose texts are arrays of characters. */
BLAS_EXPORT void xerbla_array_(const char *routine, const blas_int *length,
                               const blas_int *argument);
void xerbla_array_(const char *routine, const blas_int *length, const blas_int *argument) {
  char name[LONGEST_NAME];
  memset(name, ' ', sizeof name);
  if (*length > 0) memcpy(name, routine, *length < LONGEST_NAME ? (size_t)*length : LONGEST_NAME);
  xerbla_(name, argument, sizeof name);
}

/* Whether two letters are the same one, whatever their case. */
BLAS_EXPORT blas_int lsame_(const char *a, const char *b, size_t a_length, size_t b_length);
blas_int lsame_(const char *a, const char *b, size_t a_length, size_t b_length) {
  (void)a_length, (void)b_length;
  return toupper((unsigned char)*a) == toupper((unsigned char)*b);
}
