/*
 * The network:
 *
 *     conv 1 -> 32 3x3, relu, conv 32 -> 64 3x3, relu, max pool 2, dropout 0.25,
 *     fully connected 9216 -> 128, relu, dropout 0.5, 128 -> 10
 *
 * It is one function for both uses. Given real weights it computes; given symbolic ones it writes
 * itself down in their graph.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include "tenon/tenon.h"

/* A bias stands behind its weight. Weights of the two last layers are [outputs, inputs]. */
enum { CONV1_W, CONV1_B, CONV2_W, CONV2_B, FC1_W, FC1_B, FC2_W, FC2_B, NETWORK_WEIGHTS };

typedef struct network_weight {
  const char *name;
  int32_t rank;
  int64_t shape[4];
  int64_t fan_in; /* inputs of one output */
} network_weight;

extern const network_weight network_layout[NETWORK_WEIGHTS];

/* Logits [batch, 10]. images: u8 [batch, 1, 28, 28]; dropout: where masks are drawn from, NULL for
 * none. */
tn_status network_forward(tn_tensor *const weights[], const tn_tensor *images,
                          tn_generator *dropout, tn_tensor **logits);

/* The mean negative log-likelihood of labels, i64 [batch]. */
tn_status network_loss(tn_tensor *const weights[], const tn_tensor *images, const tn_tensor *labels,
                       tn_generator *dropout, tn_tensor **loss);

#endif
