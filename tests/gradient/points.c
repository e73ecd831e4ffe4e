/* Where operators are differentiated; see points.h. */
#include "points.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the schema's own domain is none, or one for other purposes. */
typedef struct domain {
  const char *op, *arg; /* globs */
  double low, high;
  bool either_sign; /* the numbers, or their negatives */
} domain;

static const domain domains[] = {
    {"log", "x", 0.3, 3, false},          {"log2", "x", 0.3, 3, false},
    {"log10", "x", 0.3, 3, false},        {"sqrt", "x", 0.3, 3, false},
    {"rsqrt", "x", 0.3, 3, false},        {"log1p", "x", -0.7, 2, false},
    {"asin", "x", -0.8, 0.8, false},      {"acos", "x", -0.8, 0.8, false},
    {"atanh", "x", -0.8, 0.8, false},     {"acosh", "x", 1.3, 3, false},
    {"tan", "x", -1.1, 1.1, false},       {"reciprocal", "x", 0.5, 2, true},
    {"cbrt", "x", 0.4, 2, true},          {"div", "b", 0.5, 2, true},
    {"floor_div", "b", 0.5, 2, true},     {"*mod", "b", 0.5, 2, true},
    {"pow", "a", 0.3, 2, false},          {"atan2", "*", 0.4, 2, true},
    {"hypot", "*", 0.4, 2, true},         {"hard*", "x", -5, 5, false},
    {"*lu_grad", "x", -3, 3, false},      {"mish_grad", "x", -3, 3, false},
    {"prod", "x", 0.5, 1.5, true},        {"cumprod", "x", 0.5, 1.5, true},
    {"var", "x", -2, 2, false},           {"std", "x", -2, 2, false},
    {"logsumexp", "x", -3, 3, false},     {"*softmax", "x", -3, 3, false},
    {"softmax_grad", "y", 0.1, 2, false}, {"log_softmax_grad", "y", -3, 0, false},
    {"kl_div*", "target", 0.2, 1, false}, {"*_norm*", "rstd", 0.5, 2, false},
    {"rms_norm", "x", 0.3, 2, true},      {"*", "running_var", 0.5, 2, false},
};

static domain domain_of(const op_case *c, uint32_t arg) {
  const tn_arg *a = &c->op->args[arg];
  for (size_t i = 0; i < sizeof domains / sizeof *domains; ++i)
    if (!fnmatch(domains[i].op, c->op->name, 0) && !fnmatch(domains[i].arg, a->name, 0))
      return domains[i];
  if (a->low != a->high) return (domain){"", "", a->low, a->high, false};
  return (domain){"", "", -2, 2, false};
}

double points_unit(uint64_t seed, uint64_t place) {
  return (double)(case_mix(case_mix(seed) ^ place) >> 11) * 0x1p-53;
}

/*
 * Numbers lie in cells of a power of two, one in each and none at its edge: where in the cell
 * depends on the argument, so that those of different arguments differ too, and neither they nor
 * their differences are round numbers.
 */
double points_fill(const op_case *c, uint32_t arg, uint64_t seed, int64_t n, double *values) {
  const domain d = domain_of(c, arg);
  const double inset = 0.12 + 0.33 * (arg % 3);
  double width = 0x1p-5;
  while ((d.high - d.low) / width < 2 * (double)n + 8) width /= 2;
  const int64_t first = (int64_t)ceil(d.low / width),
                cells = (int64_t)floor(d.high / width) - first;
  int64_t *cell = malloc((size_t)cells * sizeof *cell);
  if (!cell) abort();
  for (int64_t i = 0; i < cells; ++i) cell[i] = first + i;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t other = i + (int64_t)(points_unit(seed, (uint64_t)i) * (double)(cells - i));
    const int64_t taken = cell[other];
    cell[other] = cell[i];
    values[i] = ((double)taken + inset + 0.08 * points_unit(~seed, (uint64_t)i)) * width;
    if (d.either_sign && points_unit(seed + 1, (uint64_t)i) < 0.5) values[i] = -values[i];
  }
  free(cell);
  return 0.05 * width;
}
