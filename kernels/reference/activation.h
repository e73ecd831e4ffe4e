/* Activations as epilogues of products. */
#ifndef TENON_KERNELS_REFERENCE_ACTIVATION_H
#define TENON_KERNELS_REFERENCE_ACTIVATION_H

#include <stdint.h>

/* x[i] = activation(x[i]); `activation` is a tn_activation. */
void activate(int64_t activation, int64_t n, double *x);

#endif
