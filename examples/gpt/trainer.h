/*
 * Trains a model by AdamW (Loshchilov and Hutter 2019) with a rate that rises linearly, then falls
 * along a cosine to a tenth, and gradients clipped to a norm of all of them. What a step is stands
 * in one place for both modes: a program (tenon/graph.h), or ordinary calls recorded on a tape.
 * The device itself counts the steps and looks up their rates. Nothing here waits for it.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef GPT_TRAINER_H
#define GPT_TRAINER_H

#include "../checkpoint.h"
#include "../loss_scale.h"
#include "model.h"
#include "tenon/graph.h"

typedef struct recipe {
  int64_t steps, warm_up; /* of the whole run; the rate's course follows from them */
  int64_t batch, length;  /* windows of a step, bytes of each */
  double lr, decay, clip; /* clip: the largest norm */
  bool eager;             /* a tape in place of a program */
  tn_dtype products;      /* of steps: TN_BF16, TN_F16, or TN_DTYPE_NONE for float32, which weights,
                             moments and tests are */
} recipe;

/* What a step works on: the trainer's own tensors, or those that stand for them in a graph.
 * All lists are in the model's order. */
typedef struct tensors {
  tn_tensor *weights[MODEL_MAX_WEIGHTS], *gradients[MODEL_MAX_WEIGHTS];
  tn_tensor *first[MODEL_MAX_WEIGHTS], *second[MODEL_MAX_WEIGHTS]; /* moments */
  tn_tensor *positions;                                            /* i32 [length] */
  tn_tensor *count;                                                /* i64 [1]: steps taken */
  tn_tensor *rates; /* f64 [steps + 1]: of each step, by its number */
  loss_scale scale; /* of steps in float16 */
} tensors;

typedef struct trainer {
  tn_device *device;
  const model_size *size;
  recipe recipe;
  int64_t steps; /* taken so far, as the host knows */
  int count;     /* of weights */
  tensors own;
  tn_tape *tape;           /* of the eager mode */
  tn_program *step, *test; /* of the other */
} trainer;

/* A model with start values drawn by seed. On failure t may be destroyed all the same. */
tn_status trainer_create(trainer *t, tn_device *device, const model_size *size, const recipe *r,
                         uint64_t seed);
void trainer_destroy(trainer *t);

/* Once, before steps and tests: compiles what they run, or makes the tape. */
tn_status trainer_prepare(trainer *t);

/* Goes on as if so many steps had been taken. */
tn_status trainer_set_steps(trainer *t, int64_t steps);

/* The rate of step `step`, counted from 1. */
double trainer_rate(const recipe *r, int64_t step);

/* One step. tokens: i32 [batch, length]; targets: i32 [batch * length]. Makes two float32 scalars:
 * the loss, and the gradients' norm before they were clipped. */
tn_status trainer_step(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss, tn_tensor **norm);

/* The loss alone, of a batch as above. */
tn_status trainer_test(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss);

/* Weights and moments under their names: 3 * t->count of them. */
enum { TRAINER_MAX_TENSORS = 3 * MODEL_MAX_WEIGHTS };
void trainer_state(const trainer *t, checkpoint_tensor state[]);

#endif
