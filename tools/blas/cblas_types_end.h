/* Takes back what cblas_types.h defines, for the next type. */
#undef JOIN_
#undef JOIN
#undef TEXT_
#undef TEXT
#undef NAMED
#undef C_NAMED
#undef CALL
#undef ROUTE_OF
#undef BEGIN
#undef SCALAR
#undef AT
#undef IN
#undef BLAS_LETTER
#undef BLAS_REAL
#undef BLAS_COMPLEX
