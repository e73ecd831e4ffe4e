/* The dense product under matmul and the convolutions. */
#ifndef TENON_KERNELS_REFERENCE_PRODUCT_H
#define TENON_KERNELS_REFERENCE_PRODUCT_H

#include <stdint.h>

/* c += a b for row-major a [m, k], b [k, n], c [m, n]. Every element of c is summed in
 * an order that depends on k alone. */
void product_add(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);

#endif
