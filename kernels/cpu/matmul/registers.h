/* What products in registers share, those along sums (dots.c) and across them (small.c). */
#ifndef TENON_KERNELS_CPU_REGISTERS_H
#define TENON_KERNELS_CPU_REGISTERS_H

#include "kernels/cpu/base/floats.h"

/* Floats of a register; rows of a tile at the most, whose sums stay in registers; floats that
 * columns of b are copied to, where they do not lie as a tile reads them. */
enum { LANES = sizeof(FLOATS) / sizeof(float), ROWS_MOST = 8, PANEL = 8192 };

/* A tile is written once for all its sizes, which are constants where it is called. */
#define INLINE __attribute__((always_inline)) static inline

#endif
