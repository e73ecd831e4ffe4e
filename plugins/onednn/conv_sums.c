/*
 * Gradients of convolutions by their weights: those of a piece of the batch, in float32, which are
 * then added up.
 */
#include "conv.h"

static char *sum_of(const conv_call *c, int64_t piece, int64_t p) {
  return c->sums + (size_t)(piece * c->shape.parts + p) * c->plan->slots[SLOT_Y].bytes;
}

static tn_status weight_range(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  const conv_shape *s = &c->shape;
  runner r;
  tn_status status = runner_open(&r, c->args, c->plan, 1u << SLOT_Y);
  if (status != TN_OK) return status;
  int64_t loaded = -1;
  for (int64_t unit = begin; unit < end && status == TN_OK; unit++) {
    const int64_t i = unit / s->parts, p = unit % s->parts;
    status = runner_load(&r, SLOT_A, conv_at_channel(c->y, i * s->images, p * (s->k / s->parts)));
    if (status == TN_OK && i != loaded)
      status = runner_load(&r, SLOT_B, conv_at_channel(c->x, i * s->images, 0));
    loaded = i;
    if (status == TN_OK) status = runner_use(&r, SLOT_Y, sum_of(c, i, p));
    if (status == TN_OK) status = runner_run(&r, NULL);
  }
  runner_close(&r);
  return status;
}

/* Adds up the pieces of the batch, always in their order. */
static tn_status sum_range(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  const size_t count = c->plan->slots[SLOT_Y].bytes / sizeof(float);
  runner r;
  tn_status status = runner_open(&r, c->args, c->plan, ~0u);
  if (status != TN_OK) return status;
  for (int64_t p = begin; p < end && status == TN_OK; p++) {
    float *restrict sum = (float *)(void *)sum_of(c, 0, p);
    for (int64_t i = 1; i < conv_pieces(&c->shape); i++) {
      const float *restrict more = (const float *)(void *)sum_of(c, i, p);
      for (size_t e = 0; e < count; e++) sum[e] += more[e];
    }
    status = runner_store(&r, sum, conv_at_weights(c, p));
  }
  runner_close(&r);
  return status;
}

tn_status conv_sums_run(conv_call *c) {
  const tn_host *host = c->args->host;
  const conv_shape *s = &c->shape;
  c->sums =
      host->alloc(host, (size_t)(conv_pieces(s) * s->parts) * c->plan->slots[SLOT_Y].bytes, 64);
  if (!c->sums) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for sums of weights");
  tn_status status = host->parallel_for(host, conv_pieces(s) * s->parts, 1, weight_range, c);
  if (status == TN_OK) status = host->parallel_for(host, s->parts, 1, sum_range, c);
  host->free(host, c->sums);
  return status;
}
