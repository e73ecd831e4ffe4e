/*
 * Shared by the tests of numbers: a runtime with the devices that they compare, and tensors of
 * doubles in any element type. They run on `reference` and `cpu`, and on every device that
 * TENON_TEST_DEVICES names besides ("cuda:0,opencl:0").
 */
#ifndef TENON_TESTS_NUMERIC_H
#define TENON_TESTS_NUMERIC_H

#include <math.h>
#include <stdio.h>

#include "support.h"

enum { MOST_DEVICES = 8 };

typedef struct bench {
  tn_runtime *runtime;
  tn_device *devices[MOST_DEVICES]; /* the first is the reference */
  const char *names[MOST_DEVICES];
  int count;
  char named[256];
} bench;

/* Whether an emulator runs the test: meson names it so. */
static inline bool is_emulated(void) { return getenv("MESON_EXE_WRAPPER") != NULL; }

/* The step of a loop over cases, each of which takes long under an emulator or AddressSanitizer. An
 * odd step stays one there that has no factor of 3 but where it is 3 itself, for loops that take
 * their number apart by 2 and 3. */
static inline int case_step(int step) {
#ifdef __SANITIZE_ADDRESS__
  step += 2;
#endif
  return is_emulated() ? 4 * step : step;
}

/* No plugin but these serves the device: oneDNN's own kernels have tests of their own. */
static inline void bench_open(bench *b) {
  const char *more = getenv("TENON_TEST_DEVICES");
  if (more == NULL) more = "";
  snprintf(b->named, sizeof b->named, "reference,cpu%s%s", *more ? "," : "", more);
  tn_runtime_options options = {.struct_size = sizeof options};
  options.plugins = *more ? NULL : "reference,cpu";
  b->runtime = open_runtime(&options);
  b->count = 0;
  for (char *name = strtok(b->named, ","); name; name = strtok(NULL, ",")) {
    ck_assert_int_lt(b->count, MOST_DEVICES);
    b->names[b->count] = name;
    ok(tn_device_find(b->runtime, name, &b->devices[b->count++]));
  }
}

static inline void bench_close(bench *b) { tn_runtime_close(b->runtime); }

/* A tensor of doubles as elements of a type, converted on the device. */
static inline tn_tensor *numbers(tn_device *device, tn_dtype dtype, int32_t rank,
                                 const int64_t *shape, const double *values) {
  tn_tensor *wide = NULL, *t = NULL;
  const tn_cast_attrs to = {sizeof to, (int32_t)dtype};
  ok(tn_tensor_from_host(device, TN_F64, rank, shape, values, &wide));
  ok(tn_cast(NULL, wide, &to, &t));
  tn_tensor_release(wide);
  return t;
}

/* Whole numbers from -most to most, drawn: their sums are exact. */
static inline tn_tensor *whole_numbers(tn_device *device, tn_dtype dtype, int rank,
                                       const int64_t *shape, int most, uint32_t seed) {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  double *values = malloc((size_t)(count ? count : 1) * sizeof *values);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (double)((seed >> 16) % (2 * (uint32_t)most + 1)) - most;
  }
  tn_tensor *t = numbers(device, dtype, rank, shape, values);
  free(values);
  return t;
}

/* A tensor whose elements are all NaN: what is not written shows. */
static inline tn_tensor *unwritten(tn_device *device, tn_dtype dtype, int32_t rank,
                                   const int64_t *shape) {
  tn_tensor *t = shaped(device, dtype, rank, shape);
  const tn_fill_attrs nothing = {sizeof nothing, NAN};
  ok(tn_fill(NULL, t, &nothing));
  return t;
}

/* A tensor's elements as doubles, which the caller frees. */
static inline double *values_of(const tn_tensor *t) {
  const tn_cast_attrs to = {sizeof to, TN_F64};
  const size_t bytes = (size_t)tn_tensor_elements(t) * sizeof(double);
  double *values = malloc(bytes ? bytes : 1);
  tn_tensor *wide = NULL;
  ok(tn_cast(NULL, t, &to, &wide));
  ok(tn_tensor_to_host(wide, values, bytes));
  tn_tensor_release(wide);
  return values;
}

/* The elements of y, which is released, are near `want`, to a share of the largest; to the bit
 * where the tolerance is 0, which MUST_BE wants of a bench `b`. */
static inline void must_be(const bench *b, const char *what, int device, tn_tensor *y, int64_t n,
                           const double *want, double tolerance) {
  double most = 1, *got = values_of(y);
  ck_assert_int_eq(tn_tensor_elements(y), n);
  for (int64_t i = 0; i < n; ++i) most = fmax(most, fabs(want[i]));
  for (int64_t i = 0; i < n; ++i)
    if (isnan(want[i]) ? !isnan(got[i])
                       : !(got[i] == want[i] || fabs(got[i] - want[i]) <= tolerance * most))
      ck_abort_msg("%s on %s: element %d is %.17g, not %.17g", what, b->names[device], (int)i,
                   got[i], want[i]);
  free(got);
  tn_tensor_release(y);
}
#define MUST_BE(what, d, y, ...)                                                                   \
  must_be(&b, what, d, y, sizeof((double[]){__VA_ARGS__}) / sizeof(double),                        \
          (double[]){__VA_ARGS__}, 0)

#endif
