/* The line at the process's exit that says how many calls went where (TENON_BLAS_REPORT). */
#ifndef TENON_BLAS_REPORT_H
#define TENON_BLAS_REPORT_H

#include <stdint.h>

/* Has the line written at exit. */
void report_at_exit(void);

/* A call of level 3 has ended of which the device did so many products. */
void report_call(unsigned products);

/* Counts a product that the device did, or that was left to the host. */
void report_device(double flops, uint64_t bytes);
void report_host(double flops);

#endif
