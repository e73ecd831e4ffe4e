/*
 * Convolutions of images that are cut into bands of rows: the first and the last reach into the
 * padding, and those in between have one of two numbers of rows, so that few plans serve them all.
 */
#include "conv.h"

/* The bands' weights are the first's. */
bool conv_take_bands(conv_call *c) {
  for (int64_t i = 0; i < c->shape.bands; i++) {
    plan **p = &c->bands[conv_band_kind(&c->shape, i)];
    if (*p) continue;
    const conv_shape band = conv_band(&c->shape, i);
    *p = conv_take_plan(c->args, &band, i ? c->plan->slots[SLOT_B].own : NULL);
    if (!*p) return false;
    c->plan = c->bands[FIRST_BAND];
  }
  return true;
}

/* Bytes from row to row of an image of `channels`, along its first axis. */
static int64_t row_bytes(const conv_shape *s, const DLTensor *t, int64_t way, int64_t channels,
                         const int64_t *size) {
  int64_t stride[5];
  conv_strides(way, s->axes, channels, size, stride);
  return stride[2] * (t->dtype.bits / 8);
}

static void finish_band(const conv_call *c, char *y, int64_t rows) {
  const conv_shape *s = &c->shape;
  const int64_t places = count_of(s->out, s->axes) / s->out[0] * rows;
  const bool last = s->lies[2] == CHANNELS_LAST;
  conv_finish(c, y, last ? 1 : s->k, last ? places * s->k : places,
              c->y->strides[1] * (c->y->dtype.bits / 8));
}

static tn_status run_band(runner *r, const conv_call *c, int64_t image, int64_t band) {
  const conv_shape *s = &c->shape;
  const int64_t first = conv_band_begin(s, band), end = conv_band_begin(s, band + 1);
  const char *x = conv_at_channel(c->x, image, 0) +
                  conv_rows_read(s, first, end).begin * row_bytes(s, c->x, s->lies[0], s->c, s->in);
  char *y = conv_at_channel(c->y, image, 0) + first * row_bytes(s, c->y, s->lies[2], s->k, s->out);
  tn_status status = runner_load(r, SLOT_A, x);
  if (status == TN_OK) status = runner_run(r, y);
  if (status == TN_OK) finish_band(c, y, end - first);
  return status;
}

tn_status conv_run_bands(void *call, int64_t begin, int64_t end) {
  const conv_call *c = call;
  const int64_t bands = c->shape.bands;
  runner r;
  const plan *open = NULL;
  tn_status status = TN_OK;
  for (int64_t unit = begin; unit < end && status == TN_OK; unit++) {
    plan *p = c->bands[conv_band_kind(&c->shape, unit % bands)];
    if (p != open) {
      if (open) runner_close(&r);
      status = runner_open(&r, c->args, p, 1u << SLOT_B);
      open = status == TN_OK ? p : NULL;
      if (open) status = conv_load_weights(&r, c, 0);
      if (status == TN_OK && c->bias) status = runner_load(&r, SLOT_BIAS, c->bias->data);
    }
    if (status == TN_OK) status = run_band(&r, c, unit / bands, unit % bands);
  }
  if (open) runner_close(&r);
  return status;
}
