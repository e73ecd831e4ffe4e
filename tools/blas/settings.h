/* What the environment says, read once when the first routine is called. Set-user-id programs read
 * nothing. */
#ifndef TENON_BLAS_SETTINGS_H
#define TENON_BLAS_SETTINGS_H

#include <stdbool.h>

typedef struct blas_settings {
  bool device;      /* TENON_DEVICE names one */
  const char *host; /* TENON_BLAS_HOST, or NULL */
  double min;       /* TENON_BLAS_MIN: n of the least n x n x n product; -1: what was measured */
  bool report;      /* TENON_BLAS_REPORT */
  int verbose;      /* TENON_BLAS_VERBOSE: 0 silence, 1 the first failure, 2 everything */
} blas_settings;

extern blas_settings settings;

void settings_read(void);

/* A line on standard error, "tenon-blas: " before it, where `verbose` is at least `level`. */
void say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
