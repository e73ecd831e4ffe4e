/*
 * What a product costs on the host and on the device, copies included: a few rates, measured once
 * per machine. Which side is faster follows from these for products of any shape.
 */
#ifndef TENON_BLAS_MODEL_H
#define TENON_BLAS_MODEL_H

#include "product.h"

typedef struct model {
  double host_rate[2];   /* operations per second, of float32 and float64 */
  double device_rate[2]; /* 0: the device has no such products */
  double copy_rate;      /* bytes per second */
  double overhead;       /* seconds that every product on the device takes */
} model;

/* Times products. A fraction of a second, more where a device takes its time to start. */
tn_status model_measure(model *m);
bool model_is_sound(const model *m);
bool model_pays(const model *m, element type, int64_t rows, int64_t columns, int64_t k);
/* Multiplications of the smallest product that pays; infinite where none does. */
double model_floor(const model *m, element type);

/* The file in which models are kept, named by a key: whatever the numbers depend on. False where
 * there is none or it is not as it was written. */
bool model_load(const char *key, model *m);
/* Written whole or not at all; silently not at all where there is no folder for it. */
void model_store(const char *key, const model *m);

#endif
