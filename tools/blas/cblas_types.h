/* Levels 2 and 3 of the CBLAS are stamped over the four types: BLAS_LETTER, BLAS_REAL and
 * BLAS_COMPLEX say which, before this is included. Complex scalars come as addresses. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define NAMED(family) JOIN(BLAS_LETTER, family)
#define C_NAMED(family) JOIN(cblas_, NAMED(family))
#define CALL(family, ...) ROUTE_OF(NAMED(family))(__VA_ARGS__)
#define ROUTE_OF(name) ROUTE(name)
#define BEGIN(family) frame_begin(&f, "cblas_" TEXT(BLAS_LETTER) #family, layout)
#if BLAS_COMPLEX
#define SCALAR const void *
#define AT(scalar) ((void *)(scalar))
#else
#define SCALAR BLAS_REAL
#define AT(scalar) ((void *)&(scalar))
#endif
#define IN(address) ((void *)(address))
