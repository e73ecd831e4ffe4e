/*
 * The network, its gradients and its optimiser, on one device:
 *
 *     conv 1 -> 32 3x3, relu, conv 32 -> 64 3x3, relu, max pool 2, dropout 0.25,
 *     fully connected 9216 -> 128, relu, dropout 0.5, 128 -> 10, log-softmax
 *
 * trained on the negative log-likelihood with Adam. Start values and dropout masks
 * come from one counter-based random sequence, so every device trains the same
 * network. Nothing here waits for the device.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "../checkpoint.h"

enum { MODEL_PARAMETERS = 8, MODEL_STATE_TENSORS = 3 * MODEL_PARAMETERS };

typedef struct parameter {
  tn_tensor *value, *grad;
  tn_tensor *m, *v; /* Adam's moments */
} parameter;

/* What one pass computes. Tensors are made by the first pass and written over by
 * later ones, until the batch changes its size. */
typedef struct activations {
  int64_t batch;
  tn_tensor *x;                          /* [batch, 1, 28, 28] */
  tn_tensor *conv1, *conv2;              /* after relu */
  tn_tensor *pool, *pool_index;          /* [batch, 64, 12, 12] */
  tn_tensor *pool_flat;                  /* a view [batch, 9216] of pool */
  tn_tensor *drop1, *mask1, *flat;       /* flat: a view [batch, 9216] of drop1 */
  tn_tensor *hidden, *drop2, *mask2;     /* [batch, 128] */
  tn_tensor *logits, *log_probabilities; /* [batch, 10] */
  /* Gradients by the above; a relu's gradient is taken in place. */
  tn_tensor *d_log_probabilities, *d_logits, *d_drop2, *d_hidden, *d_flat, *d_drop1, *d_pool,
      *d_conv2, *d_conv1;
  /* Counting what was recognised. */
  tn_tensor *guess, *right, *right_count;
} activations;

typedef struct model {
  tn_device *device;
  parameter parameters[MODEL_PARAMETERS];
  tn_tensor *centre, *scale; /* scalars: x = (byte - centre) * scale */
  activations act;
  double lr;
  uint64_t seed;           /* of the order of images, and of: */
  tn_generator *generator; /* the random sequence */
  int64_t steps;           /* taken so far */
} model;

/* A model with start values drawn by seed. On failure m may be destroyed all the same. */
tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr);
void model_destroy(model *m);

/* One training step. images: u8 [batch, 1, 28, 28]; labels: i64 [batch]; loss: a
 * float32 scalar, written. */
tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss);

/* Adds to correct, an i64 scalar, how many images are recognised, without dropout. */
tn_status model_count_correct(model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct);

/* Gives memory of passes back until the next one. */
void model_forget_pass(model *m);

/* Parameters and moments: with steps and the generator's state all that a model is. */
void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]);

#endif
