/* What a convolution is to the plugin, and which are oneDNN's. */
#ifndef ONEDNN_CONV_H
#define ONEDNN_CONV_H

#include <string.h>

#include "onednn.h"
#include "plan.h"

enum { PLAIN, CHANNELS_LAST };

/* A call by the forward operator's names, and the key of its plan. c and k count all
 * channels; `parts` are the pieces that the written channels are cut into. */
typedef struct conv_shape {
  int64_t role, type, axes, n, g, c, k, images, parts, bias;
  int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  int64_t lies[3]; /* PLAIN or CHANNELS_LAST: x, w, y */
  /* Where pieces are bands of images: how many of one image, else 0. Of a band besides: rows of
   * the whole x and y, and padding before them. */
  int64_t bands, whole[2], before;
} conv_shape;

/* The plans of bands: the first, those in between of as few rows as any or one more, the last. */
enum { FIRST_BAND, SHORT_BAND, LONG_BAND, LAST_BAND, BAND_KINDS };

typedef struct conv_call {
  const tn_kernel_args *args;
  conv_shape shape;
  const DLTensor *x, *w, *bias, *y;
  const DLTensor *addend;  /* of floats, lying as y does; NULL: none */
  plan *plan;              /* of a piece; of bands the first's */
  plan *bands[BAND_KINDS]; /* NULL where there is no such */
  char *weights, *sums;    /* per part; per piece of the batch and part */
  int64_t activation;      /* a tn_activation */
  bool is_wide;            /* its loops may use AVX-512 */
} conv_call;

static inline int64_t count_of(const int64_t *size, int64_t axes) {
  int64_t n = 1;
  for (int64_t d = 0; d < axes; d++) n *= size[d];
  return n;
}

static inline bool conv_is_empty(const DLTensor *t) {
  for (int d = 0; d < t->ndim; d++)
    if (t->shape[d] == 0) return true;
  return false;
}

static inline double work_of(const conv_shape *s) {
  return (double)(s->n * s->k) * (double)(s->c / s->g) * (double)count_of(s->out, s->axes) *
         (double)count_of(s->window, s->axes);
}

/* Whether it is computed on images with channels last: one that comes or goes row-major is turned.
 */
static inline bool is_last(const conv_shape *s) {
  const bool x = s->lies[0] == CHANNELS_LAST, y = s->lies[2] == CHANNELS_LAST;
  return s->role == CONV_FORWARD && s->type == dnnl_f32 ? x || y : x && y;
}

static inline bool has_activation(uint32_t op) {
  return op == TN_OP_CONV1D || op == TN_OP_CONV2D || op == TN_OP_CONV3D || op == TN_OP_CONV2D_ADD;
}

/* Behind the groups; none where the host is older than that. */
static inline int64_t activation_at(const void *attrs, int axes) {
  const size_t end = sizeof(int64_t) * (3 * (size_t)axes + 3);
  uint32_t size;
  memcpy(&size, attrs, sizeof size);
  return size < end ? TN_ACTIVATION_NONE : ((const int64_t *)attrs)[3 * axes + 2];
}

/* Bytes from the tensor's first element to image i, channel c. */
static inline char *conv_at_channel(const DLTensor *t, int64_t i, int64_t c) {
  const int64_t bytes = t->dtype.bits / 8;
  return (char *)t->data + (i * t->strides[0] + c * t->strides[1]) * bytes;
}

static inline int64_t conv_pieces(const conv_shape *s) { return s->n / s->images; }

/* The first element of part p of the weights. */
static inline char *conv_at_weights(const conv_call *c, int64_t p) {
  const conv_shape *s = &c->shape;
  return s->role == CONV_BACKWARD_DATA ? conv_at_channel(c->w, 0, p * (s->c / s->parts))
                                       : conv_at_channel(c->w, p * (s->k / s->parts), 0);
}

/* Strides of [n, c, size...] in elements. */
void conv_strides(int64_t way, int64_t axes, int64_t channels, const int64_t *size,
                  int64_t *stride);
/* The plan of a shape, which shares another one's layout of weights unless that is NULL; NULL where
 * there is none. To be given back. */
plan *conv_take_plan(const tn_kernel_args *args, const conv_shape *s, layout_ref weights);
/* Part p of the weights. */
tn_status conv_load_weights(runner *r, const conv_call *c, int64_t p);
/* Adds the addend to runs of `run` elements of y, `apart` bytes from one to the next, and activates
 * them. */
void conv_finish(const conv_call *c, char *y, int64_t runs, int64_t run, int64_t apart);

/* conv_cut.c: images of a piece, and the parts of the channels written or the bands of rows that
 * it is cut into. */
void conv_cut(conv_shape *s);
/* Fewer bands, where oneDNN has nothing for as many: it may block weights by how many rows there
 * are. false: there are none. */
bool conv_cut_fewer(conv_shape *s);
/* Rows of results before band i. */
static inline int64_t conv_band_begin(const conv_shape *s, int64_t i) {
  return i * s->out[0] / s->bands;
}
static inline int conv_band_kind(const conv_shape *s, int64_t i) {
  if (i == 0) return FIRST_BAND;
  if (i == s->bands - 1) return LAST_BAND;
  const int64_t rows = conv_band_begin(s, i + 1) - conv_band_begin(s, i);
  return rows == s->out[0] / s->bands ? SHORT_BAND : LONG_BAND;
}
/* Rows of x that results first <= i < end read, those in padding left out. */
typedef struct conv_rows {
  int64_t begin, end;
} conv_rows;
conv_rows conv_rows_read(const conv_shape *s, int64_t first, int64_t end);
/* A band of one image as a convolution of its own. */
conv_shape conv_band(const conv_shape *s, int64_t band);

/* conv_bands.c: the plans of a call's bands, false where one of them has none; and bands of one
 * plan after the other, of all images, for parallel_for. */
bool conv_take_bands(conv_call *c);
tn_status conv_run_bands(void *call, int64_t begin, int64_t end);

/* conv_sums.c: gradients by weights. pre: the call has its plan. */
tn_status conv_sums_run(conv_call *c);

/* conv_choice.c: where the kernels were measured to be faster than ours; docs/onednn.md has the
 * figures. */
bool conv_is_faster(const conv_shape *s);
/* What oneDNN gets wrong, to be left to ours however fast it is. */
bool conv_is_wrong(const conv_shape *s);

#endif
