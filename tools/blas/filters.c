/* Level 3 before the host BLAS, over the four types: what each routine takes to the device. */
#include "filters.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "device.h"
#include "product.h"
#include "report.h"
#include "settings.h"

/* A letter that Fortran takes whatever its case; 0 where it is none of `letters`. */
static char letter(const void *given, const char *letters) {
  int c = toupper(*(const unsigned char *)given);
  return c && strchr(letters, c) ? (char)c : 0;
}

static blas_int number(const void *given) { return *(const blas_int *)given; }

static blas_int larger(const void *a, const void *b) {
  return number(a) > number(b) ? number(a) : number(b);
}

/* Whether a leading dimension is one for so many rows. */
static bool holds(const void *ld, blas_int rows) { return number(ld) >= (rows > 1 ? rows : 1); }

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAMED(family) JOIN(BLAS_LETTER, family)
#define HOST_OF(name) HOST(name)
#define LARGE(family) JOIN(large_, NAMED(family))
/* A filter for products of m x n x k, or less, whose body is for those that may leave the host. */
#define FILTER(family, arguments, texts, m, n, k)                                                  \
  static void LARGE(family)(TAKES_##arguments TAKES_TEXTS_##texts) __attribute__((noinline));      \
  static void JOIN(filter_, NAMED(family))(TAKES_##arguments TAKES_TEXTS_##texts) {                \
    blas_await_start();                                                                            \
    if (!product_reaches(BLAS_TYPE, m, n, k) && !settings.report)                                  \
      LEAVE(family, GIVES_##arguments GIVES_TEXTS_##texts);                                        \
    else                                                                                           \
      LARGE(family)(GIVES_##arguments GIVES_TEXTS_##texts);                                        \
  }                                                                                                \
  static void LARGE(family)(TAKES_##arguments TAKES_TEXTS_##texts)
#define LEAVE(family, ...) HOST_OF(NAMED(family))(__VA_ARGS__)

#define BLAS_LETTER s
#define BLAS_TYPE ELEMENT_S
#define BLAS_REAL float
#define BLAS_SCALAR float
#define BLAS_COMPLEX 0
#include "filters.inc"

#define BLAS_LETTER d
#define BLAS_TYPE ELEMENT_D
#define BLAS_REAL double
#define BLAS_SCALAR double
#define BLAS_COMPLEX 0
#include "filters.inc"

#define BLAS_LETTER c
#define BLAS_TYPE ELEMENT_C
#define BLAS_REAL float
#define BLAS_SCALAR float_complex
#define BLAS_COMPLEX 1
#include "filters.inc"

#define BLAS_LETTER z
#define BLAS_TYPE ELEMENT_Z
#define BLAS_REAL double
#define BLAS_SCALAR double_complex
#define BLAS_COMPLEX 1
#include "filters.inc"

#define ROW(name) [ROUTINE_##name] = (entry)filter_##name
#define REAL_ROWS(letter)                                                                          \
  ROW(letter##gemm), ROW(letter##symm), ROW(letter##syrk), ROW(letter##syr2k), ROW(letter##trmm),  \
      ROW(letter##trsm)
#define COMPLEX_ROWS(letter)                                                                       \
  REAL_ROWS(letter), ROW(letter##hemm), ROW(letter##herk), ROW(letter##her2k)
const entry filters[NUM_ROUTINES] = {REAL_ROWS(s), REAL_ROWS(d), COMPLEX_ROWS(c), COMPLEX_ROWS(z)};
