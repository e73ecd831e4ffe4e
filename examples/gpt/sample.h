/*
 * Writes text byte by byte: each is drawn from what the model expects behind those before.
 *
 * Keys and values of bytes that were seen are kept, so that each costs a pass over one byte. When
 * the context is full, its second half is begun anew from.
 */
#ifndef GPT_SAMPLE_H
#define GPT_SAMPLE_H

#include <stdio.h>

#include "model.h"

typedef struct sampler {
  const char *prompt; /* what the text begins with; "" is a new line */
  int64_t bytes;      /* to be drawn */
  int64_t context;    /* bytes that are looked at, at most: more than windows had mean nothing */
  double temperature; /* 0 takes the likeliest */
  int64_t top_k;      /* draws from the likeliest alone; BYTES draws from all */
  uint64_t seed;
  bool cache;     /* false: each byte costs a pass over all those before, to compare */
  FILE *logprobs; /* the logarithm of each byte's probability, one a line; NULL */
} sampler;

/* Writes prompt and text. What is not UTF-8, and control characters, is written as '?'. TN_OK, or
 * the reason is in tn_last_error(). */
tn_status sample_text(tn_device *device, const model_size *size, tn_tensor *const weights[],
                      const sampler *how, FILE *out);

#endif
