/* The device that TENON_DEVICE names: opened when the first product asks for it, in each process
 * anew after a fork, and given up when it fails. */
#ifndef TENON_BLAS_DEVICE_H
#define TENON_BLAS_DEVICE_H

#include <stdatomic.h>

#include "copy.h"
#include "model.h"
#include "product.h"
#include "routines.h"

typedef struct device {
  tn_runtime *runtime;
  tn_device *handle;
  const char *id;   /* "cuda:0" */
  bool host_memory; /* operands are read where they are */
  DLDevice dl_device;
  double room; /* bytes that a product may take */
  crew crew;   /* for copies, where they are needed */
  model model; /* what copies and products cost, where it was measured */
} device;

/* Sets the floors by the settings. */
void device_begin(void);
/* NULL where there is none. Thread-safe. */
device *device_get(void);
/* Its id, "no device" where none is open. */
const char *device_id(void);

/* Products of fewer multiplications than this stay on the host: m n k, by type. NEVER where none
 * goes to the device. */
#define NEVER INT64_MAX
extern _Atomic int64_t product_floors[NUM_ELEMENTS];

/* Whether a product is worth the copies. Opens the device if a product of this size may be. */
bool device_pays(element type, int64_t m, int64_t n, int64_t k);
/* Whether the device has room for it. */
bool device_has_room(element type, int64_t m, int64_t n, int64_t k);

/* What small products cost here is these few instructions. */
static inline bool product_reaches(element type, blas_int m, blas_int n, blas_int k) {
  int64_t floor = atomic_load_explicit(&product_floors[type], memory_order_relaxed), count;
  return __builtin_mul_overflow((int64_t)m * n, k, &count) || count >= floor;
}

static inline bool product_pays(element type, blas_int m, blas_int n, blas_int k) {
  return product_reaches(type, m, n, k) && device_pays(type, m, n, k);
}

/* A product failed: says so, and gives the device up for its type where the next one would fail as
 * well. */
void device_failed(element type, tn_status status, const char *why);

#endif
