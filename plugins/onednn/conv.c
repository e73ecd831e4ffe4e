/*
 * Convolutions and their gradients. Each piece that the work is cut into is reordered to the layout
 * that oneDNN wants, computed and reordered back while it is in cache; weights are reordered once
 * per call, or once per program where they are constants. Gradients by weights add up by pieces of
 * the batch in float32.
 */
#include <assert.h>
#include <string.h>

#include "activation.h"
#include "conv.h"
#include "onednn.h"
#include "plan.h"

/* --- the shape --- */

void conv_strides(int64_t way, int64_t axes, int64_t channels, const int64_t *size,
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
    conv_strides(way, t->ndim - 2, t->shape[1], t->shape + 2, want);
    for (int d = 0; d < t->ndim; d++) same = same && (t->shape[d] == 1 || t->strides[d] == want[d]);
    if (same) return way;
  }
  return -1;
}

/* The tensors by their names in the forward convolution. */
static void name_tensors(conv_call *c) {
  const tn_kernel_args *args = c->args;
  const conv_row *row = args->kernel->user;
  const DLTensor *first = args->in[0], *second = args->in[1], *out = args->out[0];
  c->bias = args->num_in > 2 ? args->in[2] : NULL;
  c->addend = args->num_in > 3 ? args->in[3] : NULL;
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

/* Whether each result has one place of x, the same. */
static bool is_pointwise(const conv_shape *s) {
  bool is = s->role == CONV_FORWARD;
  for (int64_t d = 0; d < s->axes; d++)
    is = is && s->window[d] == 1 && s->stride[d] == 1 && s->padding[d] == 0;
  return is;
}

/* Images of one axis have as many rows as places, and so can be cut anywhere. */
static void flatten(conv_shape *s) {
  s->in[0] = s->out[0] = count_of(s->out, s->axes);
  for (int64_t d = 1; d < s->axes; d++)
    s->in[d] = s->out[d] = s->window[d] = s->stride[d] = s->dilation[d] = 0;
  s->dilation[0] = 1;
  s->axes = 1;
}

static bool read_shape(conv_call *c, const tn_kernel_args *args) {
  const conv_row *row = args->kernel->user;
  const int64_t *numbers = (const int64_t *)args->attrs + 1; /* behind struct_size */
  c->args = args;
  name_tensors(c);
  c->is_wide = onednn_has_avx512();
  if (has_activation(args->kernel->op)) c->activation = activation_at(args->attrs, c->x->ndim - 2);
  if (!activation_is_ours(c->activation, data_type_of(c->x->dtype))) return false;
  conv_shape *s = &c->shape;
  if (conv_is_empty(c->x) || conv_is_empty(c->w) || conv_is_empty(c->y)) return false;
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
  if (c->addend && lies(c->addend) != s->lies[2]) return false;
  if (is_last(s) && is_pointwise(s)) flatten(s);
  conv_cut(s);
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

/* [images, channels, size...]; `how` NULL: as the primitive likes. */
static dnnl_status_t image_layout(const conv_shape *s, layout *l, int64_t channels,
                                  const int64_t *size, const int64_t *how) {
  int64_t dims[5] = {s->images, channels};
  int64_t stride[5];
  for (int64_t d = 0; d < s->axes; d++) dims[2 + d] = size[d];
  if (how) conv_strides(*how, s->axes, channels, size, stride);
  return layout_make(l, (int)s->axes + 2, dims, (dnnl_data_type_t)s->type, how ? stride : NULL);
}

/* A piece of the tensor where it is: some of `all` channels, or of `whole` rows unless that is 0.
 */
static dnnl_status_t piece_layout(const conv_shape *s, layout *l, int64_t channels, int64_t all,
                                  const int64_t *size, int64_t whole, int64_t how) {
  int64_t dims[5] = {s->images, channels};
  int64_t stride[5], sizes[3];
  for (int64_t d = 0; d < s->axes; d++) dims[2 + d] = sizes[d] = size[d];
  if (whole) sizes[0] = whole;
  conv_strides(how, s->axes, all, sizes, stride);
  return layout_make(l, (int)s->axes + 2, dims, (dnnl_data_type_t)s->type, stride);
}

/* [g, k / g, c / g, window...], without g where it is 1. */
static dnnl_status_t weight_layout(const conv_shape *s, layout *l, dnnl_data_type_t type,
                                   bool plain) {
  const int64_t k = part_of(s, s->role != CONV_BACKWARD_DATA, s->k) / s->g;
  const int64_t c = part_of(s, s->role == CONV_BACKWARD_DATA, s->c) / s->g;
  int64_t dims[6] = {s->g, k, c};
  int64_t stride[6];
  for (int64_t d = 0; d < s->axes; d++) dims[3 + d] = s->window[d];
  conv_strides(s->lies[1], s->axes, s->c / s->g, s->window, stride + 1);
  stride[0] = stride[1] * (s->k / s->g);
  const int lead = s->g == 1;
  if (!lead) return layout_make(l, (int)s->axes + 3, dims, type, plain ? stride : NULL);
  return layout_make(l, (int)s->axes + 2, dims + 1, type, plain ? stride + 1 : NULL);
}

/* The layouts that the primitive is asked for. */
typedef struct wishes {
  layout src, weights, bias, dst;
} wishes;

/* What a plan is made of: its shape, and another one's weights, which it shall share, or NULL. */
typedef struct conv_plan {
  const conv_shape *shape;
  layout_ref weights;
} conv_plan;

static dnnl_status_t wish(const conv_plan *wanted, wishes *w) {
  const conv_shape *s = wanted->shape;
  const int64_t c = part_of(s, s->role == CONV_BACKWARD_DATA, s->c);
  const int64_t k = part_of(s, s->role != CONV_BACKWARD_DATA, s->k);
  /* Images are taken as they lie where one lies channels-last, the other turned if need be: no
   * reorder in between. What is written of some channels alone is dense before it is put there. */
  const bool last = is_last(s);
  const dnnl_data_type_t type = (dnnl_data_type_t)s->type;
  const int64_t bias[] = {k};
  const int64_t one[] = {1};
  const int64_t *how = last ? &(const int64_t){CHANNELS_LAST} : NULL;
  dnnl_status_t status = image_layout(s, &w->src, c, s->in, how);
  if (status == dnnl_success) status = image_layout(s, &w->dst, k, s->out, how);
  if (status == dnnl_success && wanted->weights)
    status = layout_copy(&w->weights, wanted->weights);
  else if (status == dnnl_success)
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
  dnnl_status_t status =
      piece_layout(s, &p->slots[at[0]].user, c, s->c, s->in, s->whole[0], s->lies[0]);
  if (status == dnnl_success) status = weight_layout(s, &p->slots[at[1]].user, type, true);
  if (status == dnnl_success)
    status = piece_layout(s, &p->slots[at[2]].user, k, s->k, s->out, s->whole[1], s->lies[2]);
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
  const conv_shape *s = ((const conv_plan *)ctx)->shape;
  wishes w;
  dnnl_primitive_desc_t desc = NULL;
  memset(&w, 0, sizeof w);
  dnnl_status_t status = wish(ctx, &w);
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

plan *conv_take_plan(const tn_kernel_args *args, const conv_shape *s, layout_ref weights) {
  const conv_plan wanted = {s, weights};
  plan_key key;
  memset(&key, 0, sizeof key);
  key.kind = KIND_CONV;
  memcpy(key.numbers, s, sizeof *s);
  return plan_take(args, &key, build, &wanted);
}

static void give_back_plans(conv_call *c) {
  if (c->shape.bands)
    for (int i = 0; i < BAND_KINDS; i++) plan_give_back(c->args, c->bands[i]);
  else
    plan_give_back(c->args, c->plan);
}

/* Whether there are plans for all pieces; if not, none is held. */
static bool take_plans(conv_call *c) {
  if (!c->shape.bands) return (c->plan = conv_take_plan(c->args, &c->shape, NULL)) != NULL;
  do {
    if (conv_take_bands(c)) return true;
    give_back_plans(c);
    memset(c->bands, 0, sizeof c->bands);
  } while (conv_cut_fewer(&c->shape));
  return false;
}

/* --- the pieces --- */

static tn_status convert_weights(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  runner r;
  tn_status status = runner_open(&r, c->args, c->plan, ~0u);
  if (status != TN_OK) return status;
  for (int64_t p = begin; p < end && status == TN_OK; p++)
    status = runner_convert(&r, SLOT_B, conv_at_weights(c, p),
                            c->weights + (size_t)p * c->plan->slots[SLOT_B].bytes);
  runner_close(&r);
  return status;
}

tn_status conv_load_weights(runner *r, const conv_call *c, int64_t p) {
  if (c->weights)
    return runner_use(r, SLOT_B, c->weights + (size_t)p * c->plan->slots[SLOT_B].bytes);
  return runner_load(r, SLOT_B, conv_at_weights(c, p));
}

/* --- what comes behind the sums --- */

static const float *addend_at(const conv_call *c, const char *y) {
  const char *addend = (const char *)c->addend->data + (y - (const char *)c->y->data);
  return (const float *)(const void *)addend;
}

void conv_finish(const conv_call *c, char *y, int64_t runs, int64_t run, int64_t apart) {
  const dnnl_data_type_t type = (dnnl_data_type_t)c->shape.type;
  for (int64_t r = 0; r < runs; r++, y += apart) {
    if (c->addend) add_run(c->is_wide, (float *)(void *)y, addend_at(c, y), run);
    if (c->activation != TN_ACTIVATION_NONE) activate_run(c->activation, c->is_wide, type, y, run);
  }
}

/* Part p of a piece's channels: runs of whole channels, or of a place's channels. */
static void finish_part(const conv_call *c, int64_t piece, int64_t p) {
  const conv_shape *s = &c->shape;
  const int64_t places = count_of(s->out, s->axes), channels = s->k / s->parts;
  const bool last = s->lies[2] == CHANNELS_LAST && channels != s->k;
  for (int64_t i = piece * s->images; i < (piece + 1) * s->images; i++)
    conv_finish(c, conv_at_channel(c->y, i, p * channels), last ? places : 1,
                last ? channels : places * channels, s->k * (c->y->dtype.bits / 8));
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
    status = conv_load_weights(&r, c, p);
    if (status == TN_OK && i != loaded)
      status = runner_load(&r, SLOT_A, conv_at_channel(from, i * s->images, 0));
    loaded = i;
    if (status == TN_OK && c->bias)
      status = runner_load(&r, SLOT_BIAS,
                           (char *)c->bias->data + p * channels * (c->bias->dtype.bits / 8));
    if (status == TN_OK) status = runner_run(&r, conv_at_channel(to, i * s->images, p * channels));
    if (status == TN_OK) finish_part(c, i, p);
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
    status = host->parallel_for(host, conv_pieces(s) * (s->bands ? s->bands : s->parts), 1,
                                s->bands ? conv_run_bands : image_range, c);
  if (!kept || kept->data != c->weights) host->free(host, c->weights);
  return status;
}

bool conv_supports(const tn_kernel_args *args) {
  conv_call c;
  memset(&c, 0, sizeof c);
  if (!read_shape(&c, args) || conv_is_wrong(&c.shape)) return false;
  if (!plans_take_all(args) && !conv_is_faster(&c.shape)) return false;
  if (!take_plans(&c)) return false;
  give_back_plans(&c);
  return true;
}

tn_status conv_run(const tn_kernel_args *args) {
  conv_call c;
  memset(&c, 0, sizeof c);
  if (!read_shape(&c, args) || !take_plans(&c))
    return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to plan a convolution");
  tn_status status = c.shape.role == CONV_BACKWARD_WEIGHTS ? conv_sums_run(&c) : run_images(&c);
  give_back_plans(&c);
  return status;
}
