/*
 * The network in training, on one device: weights, Adam, and a program (tenon/graph.h) for the
 * loss and its gradients. Start values and dropout masks come from one counter-based random
 * sequence, so every device trains the same network. Nothing here waits for the device.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "../checkpoint.h"
#include "network.h"
#include "tenon/graph.h"

enum { MODEL_STATE_TENSORS = 3 * NETWORK_WEIGHTS };

typedef struct model {
  tn_device *device;
  tn_tensor *weights[NETWORK_WEIGHTS], *gradients[NETWORK_WEIGHTS];
  tn_tensor *first[NETWORK_WEIGHTS], *second[NETWORK_WEIGHTS]; /* Adam's moments */
  double lr;
  uint64_t seed;           /* of the order of images, and of: */
  tn_generator *generator; /* the random sequence */
  int64_t steps;           /* taken so far */
  int64_t batch;           /* that the program is for; 0: there is none */
  uint64_t draws;          /* places of the sequence that a run of it takes */
  tn_program *program;
} model;

/* A model with start values drawn by seed. On failure m may be destroyed all the same. */
tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr);
void model_destroy(model *m);

/* One training step. images: u8 [batch, 1, 28, 28]; labels: i64 [batch]; loss: a
 * float32 scalar, written. */
tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss);

/* Adds to correct, an i64 scalar, how many images are recognised, without dropout. */
tn_status model_count_correct(const model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct);

/* Weights and moments: with steps and the generator's state all that a model is. */
void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]);
/* Goes on elsewhere in the random sequence. */
tn_status model_set_random(model *m, uint64_t seed, uint64_t offset);

#endif
