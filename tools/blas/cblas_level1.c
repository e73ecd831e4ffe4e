/* CBLAS level 1: Fortran's routines with sizes by value. Nothing here can be called wrongly. */
#include "routines.h"

#define SIZES &n, (void *)x, &incx
#define PAIR (void *)x, &incx, (void *)y, &incy
#define TAKES_PAIR blas_int n, const void *x, blas_int incx, const void *y, blas_int incy
#define TAKES_ONE blas_int n, const void *x, blas_int incx

#define DOT(type, name)                                                                            \
  BLAS_EXPORT type cblas_##name(TAKES_PAIR);                                                       \
  type cblas_##name(TAKES_PAIR) { return ROUTE(name)(&n, PAIR); }
DOT(float, sdot)
DOT(double, ddot)
DOT(double, dsdot)

BLAS_EXPORT float cblas_sdsdot(blas_int n, float alpha, const float *x, blas_int incx,
                               const float *y, blas_int incy);
float cblas_sdsdot(blas_int n, float alpha, const float *x, blas_int incx, const float *y,
                   blas_int incy) {
  return ROUTE(sdsdot)(&n, &alpha, PAIR);
}

#define DOT_SUB(type, name)                                                                        \
  BLAS_EXPORT void cblas_##name##_sub(TAKES_PAIR, void *dot);                                      \
  void cblas_##name##_sub(TAKES_PAIR, void *dot) { *(type *)dot = ROUTE(name)(&n, PAIR); }
DOT_SUB(float_complex, cdotu)
DOT_SUB(float_complex, cdotc)
DOT_SUB(double_complex, zdotu)
DOT_SUB(double_complex, zdotc)

#define NORM(type, name)                                                                           \
  BLAS_EXPORT type cblas_##name(TAKES_ONE);                                                        \
  type cblas_##name(TAKES_ONE) { return ROUTE(name)(SIZES); }
NORM(float, snrm2)
NORM(double, dnrm2)
NORM(float, scnrm2)
NORM(double, dznrm2)
NORM(float, sasum)
NORM(double, dasum)
NORM(float, scasum)
NORM(double, dzasum)

/* C counts from 0; where there is no element Fortran says 0, and so does C. */
#define INDEX(name)                                                                                \
  BLAS_EXPORT size_t cblas_##name(TAKES_ONE);                                                      \
  size_t cblas_##name(TAKES_ONE) {                                                                 \
    blas_int i = ROUTE(name)(SIZES);                                                               \
    return i > 0 ? (size_t)i - 1 : 0;                                                              \
  }
INDEX(isamax)
INDEX(idamax)
INDEX(icamax)
INDEX(izamax)

BLAS_EXPORT float cblas_scabs1(const void *z);
float cblas_scabs1(const void *z) { return ROUTE(scabs1)((void *)z); }
BLAS_EXPORT double cblas_dcabs1(const void *z);
double cblas_dcabs1(const void *z) { return ROUTE(dcabs1)((void *)z); }

#define TAKES_TWO blas_int n, void *x, blas_int incx, void *y, blas_int incy
#define MOVES(name)                                                                                \
  BLAS_EXPORT void cblas_##name(TAKES_TWO);                                                        \
  void cblas_##name(TAKES_TWO) { ROUTE(name)(&n, PAIR); }
MOVES(sswap)
MOVES(dswap)
MOVES(cswap)
MOVES(zswap)
MOVES(scopy)
MOVES(dcopy)
MOVES(ccopy)
MOVES(zcopy)

/* `scalar` as C passes it, and its address. */
#define SCALES(name, scalar, address)                                                              \
  BLAS_EXPORT void cblas_##name(blas_int n, scalar alpha, void *x, blas_int incx);                 \
  void cblas_##name(blas_int n, scalar alpha, void *x, blas_int incx) {                            \
    ROUTE(name)(&n, (void *)address alpha, x, &incx);                                              \
  }
SCALES(sscal, float, &)
SCALES(dscal, double, &)
SCALES(csscal, float, &)
SCALES(zdscal, double, &)
SCALES(cscal, const void *, )
SCALES(zscal, const void *, )

#define ADDS(name, scalar, address)                                                                \
  BLAS_EXPORT void cblas_##name(blas_int n, scalar alpha, const void *x, blas_int incx, void *y,   \
                                blas_int incy);                                                    \
  void cblas_##name(blas_int n, scalar alpha, const void *x, blas_int incx, void *y,               \
                    blas_int incy) {                                                               \
    ROUTE(name)(&n, (void *)address alpha, PAIR);                                                  \
  }
ADDS(saxpy, float, &)
ADDS(daxpy, double, &)
ADDS(caxpy, const void *, )
ADDS(zaxpy, const void *, )

#define MAKES_ROTATION(name)                                                                       \
  BLAS_EXPORT void cblas_##name(void *a, void *b, void *c, void *s);                               \
  void cblas_##name(void *a, void *b, void *c, void *s) { ROUTE(name)(a, b, c, s); }
MAKES_ROTATION(srotg)
MAKES_ROTATION(drotg)
MAKES_ROTATION(crotg)
MAKES_ROTATION(zrotg)

#define ROTATES(name, real)                                                                        \
  BLAS_EXPORT void cblas_##name(TAKES_TWO, real c, real s);                                        \
  void cblas_##name(TAKES_TWO, real c, real s) { ROUTE(name)(&n, PAIR, &c, &s); }
ROTATES(srot, float)
ROTATES(drot, double)
ROTATES(csrot, float)
ROTATES(zdrot, double)

#define ROTATES_MODIFIED(name, make, real)                                                         \
  BLAS_EXPORT void cblas_##name(TAKES_TWO, const real *p);                                         \
  void cblas_##name(TAKES_TWO, const real *p) { ROUTE(name)(&n, PAIR, (void *)p); }                \
  BLAS_EXPORT void cblas_##make(real *d1, real *d2, real *b1, real b2, real *p);                   \
  void cblas_##make(real *d1, real *d2, real *b1, real b2, real *p) {                              \
    ROUTE(make)(d1, d2, b1, &b2, p);                                                               \
  }
ROTATES_MODIFIED(srotm, srotmg, float)
ROTATES_MODIFIED(drotm, drotmg, double)
