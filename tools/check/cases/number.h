/* Elements of every type as numbers: encoding, rounding, distance. */
#ifndef TENON_TESTS_NUMBER_H
#define TENON_TESTS_NUMBER_H

#include "tenon/base.h"

bool number_is_float(tn_dtype dtype);
/* Whether the type is signed or a float. */
bool number_is_signed(tn_dtype dtype);

double number_decode(tn_dtype dtype, const void *element);
/* Of n elements that lie one after the other. */
void number_decode_all(tn_dtype dtype, const void *elements, int64_t n, double *values);
/* Of an integer or bool. */
int64_t number_decode_int(tn_dtype dtype, const void *element);
/* Rounds to nearest even; integers must be in range. */
void number_encode(tn_dtype dtype, double value, void *element);
/* Keeps the low bits. */
void number_encode_int(tn_dtype dtype, int64_t value, void *element);

/* `value` as the float type holds it. */
double number_round(tn_dtype dtype, double value);
/* The distance of neighbours at `value`, which is finite. */
double number_ulp(tn_dtype dtype, double value);
/* The largest relative error of rounding: 2^-24 for float32. */
double number_unit(tn_dtype dtype);
/* The least and the greatest positive number of a float type. */
double number_least(tn_dtype dtype);
double number_greatest(tn_dtype dtype);
/* The extremes of an integer type. */
int64_t number_min_int(tn_dtype dtype);
int64_t number_max_int(tn_dtype dtype);

#endif
