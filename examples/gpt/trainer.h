/*
 * Trains a model by AdamW (Loshchilov and Hutter 2019) with a rate that rises linearly, then falls
 * along a cosine to a tenth, and gradients clipped to a norm of all of them. Weights and moments
 * are on one device; a step is a program there (tenon/graph.h). Nothing here waits for the device.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef GPT_TRAINER_H
#define GPT_TRAINER_H

#include "../checkpoint.h"
#include "model.h"
#include "tenon/graph.h"

typedef struct recipe {
  int64_t steps, warm_up; /* of the whole run; the rate's course follows from them */
  int64_t batch, length;  /* windows of a step, bytes of each */
  double lr, decay, clip; /* clip: the largest norm */
} recipe;

typedef struct trainer {
  tn_device *device;
  const model_size *size;
  recipe recipe;
  int64_t steps; /* taken so far */
  int count;     /* of weights; matrices come first in `order`, as they alone decay */
  int matrices, order[MODEL_MAX_WEIGHTS];
  tn_tensor *weights[MODEL_MAX_WEIGHTS];
  tn_tensor *first[MODEL_MAX_WEIGHTS], *second[MODEL_MAX_WEIGHTS]; /* moments */
  tn_tensor *gradients[MODEL_MAX_WEIGHTS];
  tn_program *step, *test;
} trainer;

/* A model with start values drawn by seed. On failure t may be destroyed all the same. */
tn_status trainer_create(trainer *t, tn_device *device, const model_size *size, const recipe *r,
                         uint64_t seed);
void trainer_destroy(trainer *t);

/* Compiles what steps and tests run; once, before them. */
tn_status trainer_compile(trainer *t);

/* The rate of step `step`, counted from 1. */
double trainer_rate(const recipe *r, int64_t step);

/* One step. tokens: i32 [batch, length]; targets: i32 [batch * length]. Makes two float32 scalars:
 * the loss, and the gradients' norm before it was clipped. */
tn_status trainer_step(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss, tn_tensor **norm);

/* The loss alone, of a batch as above. */
tn_status trainer_test(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss);

/* Weights and moments under their names: 3 * t->count of them. */
enum { TRAINER_MAX_TENSORS = 3 * MODEL_MAX_WEIGHTS };
void trainer_state(const trainer *t, checkpoint_tensor state[]);

#endif
