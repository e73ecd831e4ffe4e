#include "arguments.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool argument_integer(const char *name, const char *text, int64_t least, int64_t most,
                      int64_t *value) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  *value = n;
  if (*text && !*end && !errno && n >= least && n <= most) return true;
  warnx("--%s: expected a whole number from %lld to %lld, not '%s'", name, (long long)least,
        (long long)most, text);
  return false;
}

bool argument_seed(const char *name, const char *text, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && !errno) return true;
  warnx("--%s: expected a whole number from 0 to 2^64 - 1, not '%s'", name, text);
  return false;
}

static bool finite_number(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end && isfinite(*value);
}

bool argument_positive(const char *name, const char *text, double *value) {
  if (finite_number(text, value) && *value > 0) return true;
  warnx("--%s: expected a finite number above 0, not '%s'", name, text);
  return false;
}

bool argument_not_negative(const char *name, const char *text, double *value) {
  if (finite_number(text, value) && *value >= 0) return true;
  warnx("--%s: expected a finite number, 0 or more, not '%s'", name, text);
  return false;
}

static bool is_precision(const char *text, tn_dtype *value) {
  *value = text && !strcmp(text, "f16") ? TN_F16 : TN_BF16;
  return text && (*value == TN_F16 || !strcmp(text, "bf16"));
}

bool argument_precision(const char *name, const char *text, const char *next, tn_dtype *value,
                        bool *taken) {
  *taken = !text && is_precision(next, value);
  if (*taken || is_precision(text, value) || !text) return true;
  warnx("--%s: expected bf16 or f16, not '%s'", name, text);
  return false;
}

bool argument_path(const char *name, const char *text, const char **value) {
  *value = text;
  if (*text) return true;
  warnx("--%s: expected a path, not ''", name);
  return false;
}
