/* What every bench does alike: clock, medians, random inputs, rows. */
#ifndef TENON_BENCH_MEASURE_H
#define TENON_BENCH_MEASURE_H

#include "tenon/tenon.h"

/* Monotonic nanoseconds. */
double now_ns(void);
/* Sorts the numbers. */
double median(double *numbers, size_t count);

/* Ends the program with the library's message unless status is TN_OK. */
void must(tn_status status, const char *what);

/* One bench at work: device and the way rows are printed. */
typedef struct bench {
  const char *name;
  tn_runtime *runtime;
  tn_device *device;
  tn_device_info info;
  bool table; /* columns for people in place of JSON lines */
  bool host;  /* the device computes in host memory, in the caller */
} bench;

/* Reads the options (--json, --table, --quick; others are left to the caller through `extra`). For
 * benches of what is no device's: without a runtime. */
bench bench_options(const char *name, int argc, char **argv, const char *extra);
/* Opens the runtime and the device that TENON_DEVICE names as well. */
bench bench_begin(const char *name, int argc, char **argv, const char *extra);
void bench_end(bench *b);

/* So many rounds or calls; one of them with --quick, which only shows that a bench runs. */
size_t bench_times(size_t usual);

/* One figure of a row. */
typedef struct figure {
  const char *key; /* with its unit: "time_ns" */
  double value;
} figure;
/* Prints one row: `what` was measured, the figures follow. */
void bench_row(const bench *b, const char *what, size_t count, const figure *figures);

/* A tensor of random numbers in -1..1, never zeros: hardware is faster on those. */
tn_tensor *bench_tensor(const bench *b, tn_dtype dtype, int32_t rank, const int64_t *shape);

/* The median time of body(ctx) in nanoseconds: warmed up, then in rounds that together
 * take about `budget_ns`. Every round ends when the device has done its work. */
double bench_time(const bench *b, void (*body)(void *ctx), void *ctx, double budget_ns);

#endif
