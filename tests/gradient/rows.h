/* What api/gradients/ says of an operator. */
#ifndef TENON_TESTS_GRADIENT_ROWS_H
#define TENON_TESTS_GRADIENT_ROWS_H

#include <stdint.h>

typedef enum row_kind { ROW_NONE, ROW_RULE, ROW_STOPS, ROW_REFUSES, ROW_UNWRITTEN } row_kind;

row_kind row_of(uint32_t op);

#endif
