/*
 * Products of float32 of long sums, whose operands both are dense along the terms: vectors run
 * along these, so that nothing is turned. Some terms of both are copied at a time to rows that
 * stand close to each other: where they lie, rows that are a multiple of a page apart share a few
 * lines of a cache. An element's bits depend on its operands and on the number of terms alone.
 */
#ifndef TENON_KERNELS_CPU_DEEP_H
#define TENON_KERNELS_CPU_DEEP_H

#include "kernels/cpu/matmul/small.h"

/* Terms that are copied at a time; columns at the most, and rows at a time; floats from one copied
 * row to the next. */
enum { DEEP_TERMS = 512, DEEP_COLUMNS = 64, DEEP_ROWS = 24, DEEP_PITCH = DEEP_TERMS + 16 };
enum { DEEP_ROOM = (DEEP_COLUMNS + DEEP_ROWS) * DEEP_PITCH };

/* pre: a_col and b_row are 1, there are terms and no more than DEEP_COLUMNS columns, rows of y have
 * room for the next multiple of 4; what lies there is lost. room: DEEP_ROOM floats. */
void ISA(deep_floats)(const small_product *p, float *room);

#endif
