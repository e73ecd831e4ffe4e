/*
 * A decoder-only transformer over bytes, with the shape of GPT-2 (Radford et al. 2019): token and
 * position embeddings, blocks that normalise first, causal attention, a gelu MLP, and a head that
 * shares its weights with the token embedding.
 *
 * The forward pass is one function for both uses. Given real weights it computes; given symbolic
 * ones it writes itself down in their graph.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include "tenon/tenon.h"

typedef struct model_size {
  const char *name;
  int64_t layers, width, heads, context;
  /* Rows of the token table: bytes take the first 256. */
  int64_t vocabulary;
} model_size;

enum { BYTES = 256, MODEL_MAX_LAYERS = 12, MODEL_MAX_CONTEXT = 1024 };

/* "tiny" and "124M"; NULL behind the last. */
const model_size *model_size_at(size_t index);

/* Weights stand in one array: tables and the last normalisation, then block after block. */
enum {
  TOKENS,
  POSITIONS,
  LAST_GAMMA,
  LAST_BETA,
  BLOCKS, /* the first block's; inside a block: */
  NORM1_GAMMA = 0,
  NORM1_BETA,
  QUERY_W,
  QUERY_B,
  KEY_W,
  KEY_B,
  VALUE_W,
  VALUE_B,
  JOIN_W,
  JOIN_B,
  NORM2_GAMMA,
  NORM2_BETA,
  UP_W,
  UP_B,
  DOWN_W,
  DOWN_B,
  BLOCK_WEIGHTS,
  MODEL_MAX_WEIGHTS = BLOCKS + MODEL_MAX_LAYERS * BLOCK_WEIGHTS
};

/* Layers are [inputs, outputs], so that y = x w + b. */
typedef struct weight {
  char name[48];
  int32_t rank;
  int64_t shape[2];
  double start, std; /* it starts at `start`, or normal around 0 where std is not 0 */
} weight;

/* Weight i's shape and start. Biases and normalisation have rank 1, and nothing else. */
void model_describe(const model_size *size, int i, weight *w);
int model_weights(const model_size *size);
int64_t model_parameters(const model_size *size);

/* Draws start values by seed, the same on every device. On failure what was made is there. */
tn_status model_create(tn_device *device, const model_size *size, uint64_t seed,
                       tn_tensor *weights[]);

/* Keys and values of the bytes before, for sampling. */
typedef struct model_cache {
  int64_t length; /* bytes so far */
  tn_tensor *keys[MODEL_MAX_LAYERS],
      *values[MODEL_MAX_LAYERS]; /* [1, heads, context, width / heads] */
} model_cache;

tn_status model_cache_create(tn_device *device, const model_size *size, model_cache *cache);
void model_cache_destroy(model_cache *cache);

/* Logits [batch * length, vocabulary] of the byte behind each. tokens: i32 [batch, length];
 * positions: i32 [length], their places in the context. cache: NULL, or what was there before
 * `tokens`, which are added to it: then batch is 1, and the weights are real. */
tn_status model_forward(const model_size *size, tn_tensor *const weights[], const tn_tensor *tokens,
                        const tn_tensor *positions, model_cache *cache, tn_tensor **logits);

/* The mean cross-entropy in nats of targets, i32 [batch * length]. */
tn_status model_loss(const model_size *size, tn_tensor *const weights[], const tn_tensor *tokens,
                     const tn_tensor *positions, const tn_tensor *targets, tn_tensor **loss);

#endif
