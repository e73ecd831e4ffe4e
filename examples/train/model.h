/*
 * The network in training, on one device: weights and Adam. What a step is stands in one place for
 * both modes: a program (tenon/graph.h), or ordinary calls recorded on a tape. Start values and
 * dropout masks come from one counter-based random sequence, so every device trains the same
 * network. Nothing here waits for the device.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "../checkpoint.h"
#include "../loss_scale.h"
#include "../program_line.h"
#include "network.h"
#include "tenon/graph.h"

enum { MODEL_STATE_TENSORS = 3 * NETWORK_WEIGHTS };

/* What a step works on: the model's own tensors, or those that stand for them in a graph. */
typedef struct tensors {
  tn_tensor *weights[NETWORK_WEIGHTS], *gradients[NETWORK_WEIGHTS];
  tn_tensor *first[NETWORK_WEIGHTS], *second[NETWORK_WEIGHTS]; /* Adam's moments */
  tn_tensor *count;                                            /* i64: steps taken */
  loss_scale scale;                                            /* of steps in float16 */
} tensors;

typedef struct model {
  tn_device *device;
  tensors own;
  double lr;
  tn_dtype products;       /* the type that steps compute them in; TN_DTYPE_NONE: float32 */
  uint64_t seed;           /* of the order of images, and of: */
  tn_generator *generator; /* the random sequence */
  int64_t steps;           /* taken so far, as the host knows */
  tn_tape *tape;           /* NULL: steps are runs of */
  tn_program *program;
  program_story story; /* of programs that are gone: the last batch of an epoch may be smaller */
  int64_t batch;       /* that the program is for; 0: there is none */
  uint64_t draws;      /* places of the random sequence that a run of it takes */
} model;

/* A model with start values drawn by seed. eager: with a tape in place of a program. products:
 * TN_BF16 or TN_F16 for those of steps, TN_DTYPE_NONE for float32. On failure m may be destroyed
 * all the same. */
tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr, bool eager,
                       tn_dtype products);
void model_destroy(model *m);

/* One training step. images: u8 [batch, 1, 28, 28]; labels: i64 [batch]; loss: a
 * float32 scalar, written. */
tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss);

/* Adds to correct, an i64 scalar, how many images are recognised, without dropout. */
tn_status model_count_correct(const model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct);

/* Weights and moments: with steps and the generator's state all that a model is. */
void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]);
/* Goes on as if so many steps had been taken, and so much of the random sequence. */
tn_status model_go_on(model *m, int64_t steps, uint64_t seed, uint64_t offset);

#endif
