/*
 * Convolutions and their gradients. The work is cut by images and, where there are few of
 * them, by channels of what is written; how depends on shapes alone, so that the bits do not
 * depend on the threads. Each piece is reordered to the layout that oneDNN wants, computed
 * and reordered back while it is in cache; weights are reordered once per call, or once per program
 * where they are constants. Gradients by weights add up by pieces of the batch in float32.
 */
#include <assert.h>
#include <string.h>

#include "activation.h"
#include "conv.h"
#include "onednn.h"
#include "plan.h"

/* Multiplications that make a piece worth its handling; pieces wanted; and windows that make
 * adding up a piece's weights worth while. */
static const double LEAST_WORK = 2e6;
enum { PIECES = 16, SUM_PIECES = 4, SUM_WINDOWS = 512 };

typedef struct conv_call {
  const tn_kernel_args *args;
  conv_shape shape;
  const DLTensor *x, *w, *bias, *y;
  plan *plan;
  char *weights, *sums; /* per part; per piece of the batch and part */
  int64_t activation;   /* a tn_activation */
} conv_call;

/* --- the shape --- */

/* Strides of [n, c, size...] in elements. */
static void strides_of(int64_t way, int64_t axes, int64_t channels, const int64_t *size,
                       int64_t *stride) {
  int64_t apart = way == PLAIN ? 1 : channels;
  for (int64_t d = axes - 1; d >= 0; d--) {
    stride[2 + d] = apart;
    apart *= size[d];
  }
  stride[1] = way == PLAIN ? apart : 1;
  stride[0] = count_of(size, axes) * channels;
}

/* How a tensor lies, -1 where that is neither of the two. */
static int64_t lies(const DLTensor *t) {
  for (int64_t way = PLAIN; way <= CHANNELS_LAST; way++) {
    int64_t want[5];
    bool same = true;
    strides_of(way, t->ndim - 2, t->shape[1], t->shape + 2, want);
    for (int d = 0; d < t->ndim; d++) same = same && (t->shape[d] == 1 || t->strides[d] == want[d]);
    if (same) return way;
  }
  return -1;
}

static bool is_empty(const DLTensor *t) {
  for (int d = 0; d < t->ndim; d++)
    if (t->shape[d] == 0) return true;
  return false;
}

/* Images of a piece and parts of the channels written. */
static void cut(conv_shape *s) {
  const double image = work_of(s) / (double)s->n;
  const bool sums = s->role == CONV_BACKWARD_WEIGHTS;
  const int64_t least =
      max_of(1 + (int64_t)(LEAST_WORK / image), sums ? SUM_WINDOWS / count_of(s->out, s->axes) : 1);
  const int64_t pieces = sums ? SUM_PIECES : PIECES;
  const int64_t written = s->role == CONV_BACKWARD_DATA ? s->c : s->k;
  s->images = divisor(s->n, max_of(least, s->n / pieces));
  s->parts = 1;
  while (s->g == 1 && s->n / s->images * s->parts < PIECES / 2 && written % (64 * s->parts) == 0 &&
         image * (double)s->images / (double)s->parts > 2 * LEAST_WORK)
    s->parts *= 2;
}

/* The tensors by their names in the forward convolution. */
static void name_tensors(conv_call *c) {
  const tn_kernel_args *args = c->args;
  const conv_row *row = args->kernel->user;
  const DLTensor *first = args->in[0], *second = args->in[1], *out = args->out[0];
  c->bias = args->num_in > 2 ? args->in[2] : NULL;
  switch (row->role) {
  case CONV_FORWARD:
    c->x = first, c->w = second, c->y = out;
    break;
  case CONV_BACKWARD_DATA:
    c->y = first, c->w = second, c->x = out;
    break;
  case CONV_BACKWARD_WEIGHTS:
    c->y = row->transposed ? second : first, c->x = row->transposed ? first : second, c->w = out;
    break;
  }
}

static bool read_shape(conv_call *c, const tn_kernel_args *args) {
  const conv_row *row = args->kernel->user;
  const int64_t *numbers = (const int64_t *)args->attrs + 1; /* behind struct_size */
  c->args = args;
  name_tensors(c);
  if (has_activation(args->kernel->op)) c->activation = activation_at(args->attrs, c->x->ndim - 2);
  if (!activation_is_ours(c->activation, data_type_of(c->x->dtype))) return false;
  conv_shape *s = &c->shape;
  if (is_empty(c->x) || is_empty(c->w) || is_empty(c->y)) return false;
  s->axes = c->x->ndim - 2;
  s->role = row->role;
  s->type = data_type_of(c->x->dtype);
  s->n = c->x->shape[0], s->c = c->x->shape[1], s->k = c->y->shape[1];
  s->bias = c->bias != NULL;
  for (int64_t d = 0; d < s->axes; d++) {
    s->in[d] = c->x->shape[2 + d];
    s->out[d] = c->y->shape[2 + d];
    s->window[d] = c->w->shape[2 + d];
    s->stride[d] = numbers[d];
    s->padding[d] = numbers[s->axes + d];
    s->dilation[d] = numbers[2 * s->axes + d];
  }
  s->g = numbers[3 * s->axes];
  /* Images of one column are images of fewer axes: its kernels work along the last one. */
  while (s->axes > 1 && s->in[s->axes - 1] == 1 && s->out[s->axes - 1] == 1 &&
         s->window[s->axes - 1] == 1 && s->padding[s->axes - 1] == 0)
    s->axes--;
  s->lies[0] = lies(c->x), s->lies[1] = lies(c->w), s->lies[2] = lies(c->y);
  if (s->lies[0] < 0 || s->lies[1] < 0 || s->lies[2] < 0) return false;
  if (c->bias && (row->role != CONV_FORWARD || c->bias->strides[0] != 1)) return false;
  cut(s);
  return true;
}

/* --- the plan --- */

/* What of oneDNN's conventions follows from the shape: channels of one piece, dilations
 * counted from 0, and the padding behind that the last window needs. */
typedef struct conv_window {
  dnnl_dims_t stride, dilation, before, behind;
} conv_window;

static conv_window window_of(const conv_shape *s) {
  conv_window w = {{0}};
  for (int64_t d = 0; d < s->axes; d++) {
    w.stride[d] = s->stride[d];
    w.dilation[d] = s->dilation[d] - 1;
    w.before[d] = s->padding[d];
    w.behind[d] = (s->out[d] - 1) * s->stride[d] + (s->window[d] - 1) * s->dilation[d] + 1 -
                  s->in[d] - s->padding[d];
  }
  return w;
}

static int64_t part_of(const conv_shape *s, bool written, int64_t channels) {
  return written ? channels / s->parts : channels;
}

/* [images, channels, size...]; `like` NULL: as the primitive likes. */
static dnnl_status_t image_layout(const conv_shape *s, layout *l, int64_t channels, int64_t all,
                                  const int64_t *size, const int64_t *how) {
  int64_t dims[5] = {s->images, channels};
  int64_t stride[5];
  for (int64_t d = 0; d < s->axes; d++) dims[2 + d] = size[d];
  if (how) strides_of(*how, s->axes, all, size, stride);
  return layout_make(l, (int)s->axes + 2, dims, (dnnl_data_type_t)s->type, how ? stride : NULL);
}

/* [g, k / g, c / g, window...], without g where it is 1. */
static dnnl_status_t weight_layout(const conv_shape *s, layout *l, dnnl_data_type_t type,
                                   bool plain) {
  const int64_t k = part_of(s, s->role != CONV_BACKWARD_DATA, s->k) / s->g;
  const int64_t c = part_of(s, s->role == CONV_BACKWARD_DATA, s->c) / s->g;
  int64_t dims[6] = {s->g, k, c};
  int64_t stride[6];
  for (int64_t d = 0; d < s->axes; d++) dims[3 + d] = s->window[d];
  strides_of(s->lies[1], s->axes, s->c / s->g, s->window, stride + 1);
  stride[0] = stride[1] * (s->k / s->g);
  const int lead = s->g == 1;
  if (!lead) return layout_make(l, (int)s->axes + 3, dims, type, plain ? stride : NULL);
  return layout_make(l, (int)s->axes + 2, dims + 1, type, plain ? stride + 1 : NULL);
}

/* The layouts that the primitive is asked for. */
typedef struct wishes {
  layout src, weights, bias, dst;
} wishes;

static dnnl_status_t wish(const conv_shape *s, wishes *w) {
  const int64_t c = part_of(s, s->role == CONV_BACKWARD_DATA, s->c);
  const int64_t k = part_of(s, s->role != CONV_BACKWARD_DATA, s->k);
  /* Images that lie channels-last on both sides are taken so: no reorder at all. */
  const bool last = s->lies[0] == CHANNELS_LAST && s->lies[2] == CHANNELS_LAST;
  const dnnl_data_type_t type = (dnnl_data_type_t)s->type;
  const int64_t bias[] = {k};
  const int64_t one[] = {1};
  dnnl_status_t status = image_layout(s, &w->src, c, s->c, s->in, last ? &s->lies[0] : NULL);
  if (status == dnnl_success)
    status = image_layout(s, &w->dst, k, s->k, s->out, last ? &s->lies[2] : NULL);
  if (status == dnnl_success)
    status =
        weight_layout(s, &w->weights, s->role == CONV_BACKWARD_WEIGHTS ? dnnl_f32 : type, false);
  if (status == dnnl_success && s->bias) status = layout_make(&w->bias, 1, bias, type, one);
  return status;
}

static void wishes_free(wishes *w) {
  layout_free(&w->src), layout_free(&w->weights), layout_free(&w->bias), layout_free(&w->dst);
}

/* A backward primitive is described with its forward one at hand. */
static dnnl_status_t describe(dnnl_engine_t engine, const conv_shape *s, const wishes *w,
                              dnnl_primitive_desc_t *desc) {
  const conv_window at = window_of(s);
  conv_desc d = {CONV_FORWARD, layout_of(&w->src), layout_of(&w->weights),
                 NULL,         layout_of(&w->dst), at.stride,
                 at.dilation,  at.before,          at.behind};
  layout weights = {0};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t forward = NULL;
  dnnl_status_t status = plan_attr(&attr);
  if (status == dnnl_success && s->role != CONV_FORWARD) {
    status = weight_layout(s, &weights, (dnnl_data_type_t)s->type, false);
    d.weights = layout_of(&weights);
    if (status == dnnl_success) status = conv_describe(&forward, engine, &d, NULL, attr);
  }
  d.role = (conv_role)s->role;
  d.weights = layout_of(&w->weights);
  d.bias = s->bias ? layout_of(&w->bias) : NULL;
  if (status == dnnl_success) status = conv_describe(desc, engine, &d, forward, attr);
  if (forward) (void)dnnl_primitive_desc_destroy(forward);
  layout_free(&weights);
  (void)dnnl_primitive_attr_destroy(attr);
  return status;
}

/* How the pieces of the tensors lie in memory. */
static dnnl_status_t user_layouts(const conv_shape *s, plan *p) {
  const dnnl_data_type_t type = (dnnl_data_type_t)s->type;
  const int64_t c = part_of(s, s->role == CONV_BACKWARD_DATA, s->c);
  const int64_t k = part_of(s, s->role != CONV_BACKWARD_DATA, s->k);
  static const int where[3][3] = {/* x, w, y */ [CONV_FORWARD] = {SLOT_A, SLOT_B, SLOT_Y},
                                  [CONV_BACKWARD_DATA] = {SLOT_Y, SLOT_B, SLOT_A},
                                  [CONV_BACKWARD_WEIGHTS] = {SLOT_B, SLOT_Y, SLOT_A}};
  const int *at = where[s->role];
  const int64_t bias[] = {k};
  const int64_t one[] = {1};
  dnnl_status_t status = image_layout(s, &p->slots[at[0]].user, c, s->c, s->in, &s->lies[0]);
  if (status == dnnl_success) status = weight_layout(s, &p->slots[at[1]].user, type, true);
  if (status == dnnl_success)
    status = image_layout(s, &p->slots[at[2]].user, k, s->k, s->out, &s->lies[2]);
  if (status == dnnl_success && s->bias)
    status = layout_make(&p->slots[SLOT_BIAS].user, 1, bias, type, one);
  return status;
}

static dnnl_status_t finish_slots(dnnl_engine_t engine, const conv_shape *s, plan *p) {
  static const struct {
    dnnl_query_t query;
    int arg;
  } slots[3][3] = {[CONV_FORWARD] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                                     {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                                     {dnnl_query_dst_md, DNNL_ARG_DST}},
                   [CONV_BACKWARD_DATA] = {{dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
                                           {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                                           {dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC}},
                   [CONV_BACKWARD_WEIGHTS] = {{dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
                                              {dnnl_query_src_md, DNNL_ARG_SRC},
                                              {dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS}}};
  static const int order[3] = {SLOT_A, SLOT_B, SLOT_Y};
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < 3 && status == dnnl_success; i++)
    status = plan_finish_slot(engine, p, order[i], slots[s->role][i].query, slots[s->role][i].arg,
                              i == 2 && s->role == CONV_BACKWARD_WEIGHTS);
  slot *bias = &p->slots[SLOT_BIAS];
  if (s->bias && status == dnnl_success) {
    bias->present = true;
    bias->arg = DNNL_ARG_BIAS;
    bias->own = dnnl_primitive_desc_query_md(p->main.desc, dnnl_query_weights_md, 1);
  }
  return status;
}

static dnnl_status_t build(dnnl_engine_t engine, plan *p, const void *ctx) {
  const conv_shape *s = ctx;
  wishes w;
  dnnl_primitive_desc_t desc = NULL;
  memset(&w, 0, sizeof w);
  dnnl_status_t status = wish(s, &w);
  if (status == dnnl_success) status = describe(engine, s, &w, &desc);
  if (status == dnnl_success)
    status = plan_finish_main(p, desc, (dnnl_data_type_t)s->type,
                              work_of(s) / (double)(s->n / s->images * s->parts));
  if (status == dnnl_success) status = user_layouts(s, p);
  if (status == dnnl_success) status = finish_slots(engine, s, p);
  wishes_free(&w);
  return status;
}

enum { KIND_CONV = 1 };
static_assert(sizeof(conv_shape) <= sizeof((plan_key *)0)->numbers, "a key holds the shape");

static plan *take(conv_call *c) {
  plan_key key;
  memset(&key, 0, sizeof key);
  key.kind = KIND_CONV;
  memcpy(key.numbers, &c->shape, sizeof c->shape);
  return plan_take(c->args, &key, build, &c->shape);
}

/* --- the pieces --- */

/* Bytes from the tensor's first element to image i, channel c. */
static char *at_channel(const DLTensor *t, int64_t i, int64_t c) {
  const int64_t bytes = t->dtype.bits / 8;
  return (char *)t->data + (i * t->strides[0] + c * t->strides[1]) * bytes;
}

static int64_t pieces_of(const conv_shape *s) { return s->n / s->images; }

/* The first element of part p of the weights. */
static char *at_weights(const conv_call *c, int64_t p) {
  const conv_shape *s = &c->shape;
  return s->role == CONV_BACKWARD_DATA ? at_channel(c->w, 0, p * (s->c / s->parts))
                                       : at_channel(c->w, p * (s->k / s->parts), 0);
}

static tn_status convert_weights(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  runner r;
  tn_status status = runner_open(&r, c->args, c->plan, ~0u);
  if (status != TN_OK) return status;
  for (int64_t p = begin; p < end && status == TN_OK; p++)
    status = runner_convert(&r, SLOT_B, at_weights(c, p),
                            c->weights + (size_t)p * c->plan->slots[SLOT_B].bytes);
  runner_close(&r);
  return status;
}

static tn_status load_weights(runner *r, const conv_call *c, int64_t p) {
  if (c->weights)
    return runner_use(r, SLOT_B, c->weights + (size_t)p * c->plan->slots[SLOT_B].bytes);
  return runner_load(r, SLOT_B, at_weights(c, p));
}

/* --- the activation --- */

/* Part p of the channels of a piece's images: runs of whole channels, or of a place's channels. */
static void activate(const conv_call *c, int64_t piece, int64_t p) {
  const conv_shape *s = &c->shape;
  const int64_t places = count_of(s->out, s->axes), channels = s->k / s->parts;
  const bool last = s->lies[2] == CHANNELS_LAST && channels != s->k;
  const int64_t runs = last ? places : 1, run = last ? channels : places * channels;
  const int64_t apart = s->k * (c->y->dtype.bits / 8);
  if (c->activation == TN_ACTIVATION_NONE) return;
  for (int64_t i = piece * s->images; i < (piece + 1) * s->images; i++)
    for (int64_t r = 0; r < runs; r++)
      activate_run(c->activation, (dnnl_data_type_t)s->type,
                   at_channel(c->y, i, p * channels) + r * apart, run);
}

/* Images i of x or y in, part p of y or x out. */
static tn_status image_range(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  const conv_shape *s = &c->shape;
  const bool forward = s->role == CONV_FORWARD;
  const DLTensor *from = forward ? c->x : c->y, *to = forward ? c->y : c->x;
  const int64_t channels = (forward ? s->k : s->c) / s->parts;
  runner r;
  tn_status status = runner_open(&r, c->args, c->plan, 1u << SLOT_B);
  if (status != TN_OK) return status;
  int64_t loaded = -1;
  for (int64_t unit = begin; unit < end && status == TN_OK; unit++) {
    const int64_t i = unit / s->parts, p = unit % s->parts;
    status = load_weights(&r, c, p);
    if (status == TN_OK && i != loaded)
      status = runner_load(&r, SLOT_A, at_channel(from, i * s->images, 0));
    loaded = i;
    if (status == TN_OK && c->bias)
      status = runner_load(&r, SLOT_BIAS,
                           (char *)c->bias->data + p * channels * (c->bias->dtype.bits / 8));
    if (status == TN_OK) status = runner_run(&r, at_channel(to, i * s->images, p * channels));
    if (status == TN_OK) activate(c, i, p);
  }
  runner_close(&r);
  return status;
}

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
    status = runner_load(&r, SLOT_A, at_channel(c->y, i * s->images, p * (s->k / s->parts)));
    if (status == TN_OK && i != loaded)
      status = runner_load(&r, SLOT_B, at_channel(c->x, i * s->images, 0));
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
    for (int64_t i = 1; i < pieces_of(&c->shape); i++) {
      const float *restrict more = (const float *)(void *)sum_of(c, i, p);
      for (size_t e = 0; e < count; e++) sum[e] += more[e];
    }
    status = runner_store(&r, sum, at_weights(c, p));
  }
  runner_close(&r);
  return status;
}

/* --- the calls --- */

/* Where a program's call keeps weights that never change, reordered; NULL of other calls. The
 * shape, and so what they are reordered to, is the call's. */
static tn_kept *kept_of(const conv_call *c) {
  enum { WEIGHTS = 1 }; /* the second operand, forward and backward */
  tn_kept *kept = TN_FIELD_OR(c->args, tn_kernel_args, kept, NULL);
  return kept && kept->constants >> WEIGHTS & 1 ? kept : NULL;
}

static void free_kept(const tn_host *host, void *weights) { host->free(host, weights); }

static tn_status reorder_weights(conv_call *c, tn_kept *kept) {
  const tn_host *host = c->args->host;
  c->weights = host->alloc(host, (size_t)c->shape.parts * c->plan->slots[SLOT_B].bytes, 64);
  if (!c->weights) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to reorder weights");
  tn_status status = host->parallel_for(host, c->shape.parts, 1, convert_weights, c);
  if (status == TN_OK && kept) {
    kept->data = c->weights;
    kept->release = free_kept;
  }
  return status;
}

static tn_status run_images(conv_call *c) {
  const tn_host *host = c->args->host;
  const conv_shape *s = &c->shape;
  tn_kept *kept = kept_of(c);
  tn_status status = TN_OK;
  if (kept) c->weights = kept->data;
  if (c->plan->slots[SLOT_B].reorder.primitive && !c->weights) status = reorder_weights(c, kept);
  if (status == TN_OK)
    status = host->parallel_for(host, pieces_of(s) * s->parts, 1, image_range, c);
  if (!kept || kept->data != c->weights) host->free(host, c->weights);
  return status;
}

static tn_status run_weights(conv_call *c) {
  const tn_host *host = c->args->host;
  const conv_shape *s = &c->shape;
  c->sums = host->alloc(host, (size_t)(pieces_of(s) * s->parts) * c->plan->slots[SLOT_Y].bytes, 64);
  if (!c->sums) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for sums of weights");
  tn_status status = host->parallel_for(host, pieces_of(s) * s->parts, 1, weight_range, c);
  if (status == TN_OK) status = host->parallel_for(host, s->parts, 1, sum_range, c);
  host->free(host, c->sums);
  return status;
}

bool conv_supports(const tn_kernel_args *args) {
  conv_call c;
  memset(&c, 0, sizeof c);
  if (!read_shape(&c, args) || conv_is_wrong(&c.shape)) return false;
  if (!plans_take_all(args) && !conv_is_faster(&c.shape)) return false;
  plan *p = take(&c);
  plan_give_back(args, p);
  return p != NULL;
}

tn_status conv_run(const tn_kernel_args *args) {
  conv_call c;
  memset(&c, 0, sizeof c);
  if (read_shape(&c, args)) c.plan = take(&c);
  if (!c.plan) return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to plan a convolution");
  tn_status status = c.shape.role == CONV_BACKWARD_WEIGHTS ? run_weights(&c) : run_images(&c);
  plan_give_back(args, c.plan);
  return status;
}
