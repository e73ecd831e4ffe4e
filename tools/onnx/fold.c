/*
 * Folding while a model is read: what scales and shifts each channel of a convolution or a product
 * by constants (batch normalisation in use; Mul, Add, Sub and Div with a number for each channel)
 * becomes part of its weights and bias. Sums are in float64, rounded once to the weights' type.
 * Nothing is done where somebody else reads the result between, or where the new numbers would not
 * be finite or lose digits.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold.h"

enum { LONGEST_CHAIN = 8 };

/* A convolution or product: element i of its weights is of the channel
 * i / inner % channels + i / group * channels. */
typedef struct product {
  plan_node *node;
  int64_t at;
  onnx_weight *weight, *bias; /* bias: NULL if there is none */
  int32_t rank;               /* of its result */
  int64_t all, channels, inner, group;
  double *factor, *shift; /* of each channel: what is to become of it */
  int64_t chain[LONGEST_CHAIN];
  int length;
} product;

static int64_t channel_of(const product *p, int64_t i) {
  return i / p->inner % p->channels + i / p->group * p->channels;
}

/* --- what there is --- */

bool fold_is_op(const plan_node *n, const char *op) {
  return n->kind == PLAN_CALL && !*n->domain && !strcmp(n->node->op_type, op);
}

/* Attributes of a function's call are not known here. */
static bool has_references(const Onnx__Node *node) {
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i]->ref_attr_name && *node->attribute[i]->ref_attr_name) return true;
  return false;
}

static bool is_given(const plan_node *n, size_t in) {
  return in < n->node->n_input && n->in[in].slot != NO_SLOT;
}

/* The weight of this graph that a node reads, NULL if it is none. */
static onnx_weight *weight_at(const folding *f, const plan_node *n, size_t in) {
  return is_given(n, in) && !n->in[in].up ? f->weight[n->in[in].slot] : NULL;
}

static bool is_float(const onnx_tensor *t) { return TN_SET(t->dtype) & TN_SET_FLOAT; }

/* The shape that Reshape's second input says; 0 and -1 are left to the run. */
static bool reshaped(const onnx_tensor *to, onnx_tensor *t) {
  int64_t elements = 1;
  if (to->dtype != TN_I64 || !to->data || to->rank != 1 || to->elements > TN_MAX_RANK) return false;
  for (int64_t i = 0; i < to->elements; i++) {
    int64_t size = ((const int64_t *)to->data)[i];
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements)) return false;
    t->shape[i] = size;
  }
  t->rank = (int32_t)to->elements;
  return elements == t->elements;
}

bool fold_constant(const folding *f, const plan_node *n, size_t in, onnx_tensor *t) {
  const onnx_weight *w = weight_at(f, n, in), *shape = NULL;
  if (!w && is_given(n, in) && !n->in[in].up && f->maker[n->in[in].slot] != NO_NODE) {
    const plan_node *r = &f->g->nodes[f->maker[n->in[in].slot]];
    if (!fold_is_op(r, "Reshape") || r->opset < 5) return false;
    w = weight_at(f, r, 0);
    shape = weight_at(f, r, 1);
    if (!shape) return false;
  }
  if (!w || !w->host.data || !is_float(&w->host)) return false;
  *t = w->host;
  return !shape || reshaped(&shape->host, t);
}

plan_node *fold_reader(const folding *f, uint32_t slot) {
  if (slot == NO_SLOT || f->g->uses[slot] != 1 || f->g->last[slot] >= f->g->num_nodes) return NULL;
  plan_node *n = &f->g->nodes[f->g->last[slot]];
  return n->node->n_output == 1 ? n : NULL;
}

/* --- convolutions and products --- */

static bool take_conv(product *p, const onnx_tensor *w, int64_t groups, bool transposed) {
  if (w->rank < 3 || groups < 1 || w->shape[0] % groups) return false;
  int64_t each = transposed ? w->shape[1] : w->shape[0];
  p->rank = w->rank;
  p->channels = each;
  p->all = transposed ? each * groups : each;
  p->group = transposed ? w->elements / groups : w->elements;
  p->inner = transposed ? p->group / (w->shape[0] / groups) / each : w->elements / each;
  return true;
}

static bool take_gemm(product *p, const onnx_tensor *w, const onnx_node *c) {
  bool transposed = node_int(c, "transB", 0) != 0;
  if (w->rank != 2 || node_float(c, "alpha", 1) != 1 || node_float(c, "beta", 1) != 1) return false;
  p->rank = 2;
  p->all = p->channels = w->shape[!transposed];
  p->group = w->elements;
  p->inner = transposed ? w->shape[1] : 1;
  return true;
}

/* A bias has a number for each channel, along the last axis. */
static bool take_bias(const folding *f, product *p) {
  if (!is_given(p->node, 2)) return true;
  p->bias = weight_at(f, p->node, 2);
  if (!p->bias) return false;
  const onnx_tensor *b = &p->bias->host;
  return b->data && b->dtype == p->weight->host.dtype && b->elements == p->all && b->rank >= 1 &&
         b->rank <= (p->rank == 2 ? 2 : 1) && b->shape[b->rank - 1] == p->all;
}

static bool product_at(const folding *f, int64_t at, product *p) {
  plan_node *n = &f->g->nodes[at];
  onnx_node c;
  bool transposed = fold_is_op(n, "ConvTranspose"), gemm = fold_is_op(n, "Gemm");
  *p = (product){.node = n, .at = at};
  if (!transposed && !gemm && !fold_is_op(n, "Conv")) return false;
  node_begin(&c, n->node, f->m->runtime, f->m->device);
  if (n->node->n_output != 1 || n->out[0] == NO_SLOT || has_references(n->node)) return false;
  p->weight = weight_at(f, n, 1);
  if (!p->weight || !is_float(&p->weight->host) || p->weight->host.elements < 1) return false;
  const onnx_tensor *w = &p->weight->host;
  if (!(gemm ? take_gemm(p, w, &c) : take_conv(p, w, node_int(&c, "group", 1), transposed)))
    return false;
  /* What others read as well would be there once more for each. */
  if (f->g->uses[n->in[1].slot] > 1 && w->elements > MAX_FOLDED) return false;
  return p->all <= MAX_FOLDED && take_bias(f, p);
}

/* --- what follows --- */

/* Composes a channel's map with another behind it. */
static void follow(product *p, int64_t channel, double factor, double shift) {
  p->factor[channel] *= factor;
  p->shift[channel] = p->shift[channel] * factor + shift;
}

static bool take_norm(const folding *f, product *p, const plan_node *n) {
  onnx_tensor of[4]; /* scale, bias, mean, variance */
  onnx_node c;
  node_begin(&c, n->node, f->m->runtime, f->m->device);
  if (n->opset < 7 || node_int(&c, "training_mode", 0) || !node_int(&c, "spatial", 1)) return false;
  for (size_t i = 0; i < 4; i++)
    if (!fold_constant(f, n, i + 1, &of[i]) || of[i].elements != p->all || of[i].rank != 1)
      return false;
  double epsilon = node_float(&c, "epsilon", 1e-5);
  for (int64_t k = 0; k < p->all; k++) {
    double factor = onnx_tensor_number(&of[0], k) / sqrt(onnx_tensor_number(&of[3], k) + epsilon);
    follow(p, k, factor, onnx_tensor_number(&of[1], k) - onnx_tensor_number(&of[2], k) * factor);
  }
  return true;
}

/* Whether a constant broadcasts along the channels alone: one number, or one for each. */
static bool is_by_channel(const product *p, const onnx_tensor *t) {
  if (t->rank > p->rank) return false;
  for (int32_t i = 0; i < t->rank; i++) {
    bool channel = i + p->rank - t->rank == 1;
    if (t->shape[i] != 1 && !(channel && t->shape[i] == p->all)) return false;
  }
  return true;
}

/* Mul, Add, Sub and Div, of which the last two have the constant behind. */
static bool take_arithmetic(const folding *f, product *p, const plan_node *n) {
  static const char *const ops[] = {"Mul", "Add", "Sub", "Div"};
  uint32_t slot = p->length ? f->g->nodes[p->chain[p->length - 1]].out[0] : p->node->out[0];
  onnx_tensor t;
  int op = 0;
  while (op < 4 && !fold_is_op(n, ops[op])) op++;
  if (op == 4 || n->opset < 7 || n->node->n_input != 2) return false;
  size_t other = !n->in[0].up && n->in[0].slot == slot ? 1 : 0;
  if (!other && op > 1) return false;
  if (!fold_constant(f, n, other, &t) || t.dtype != p->weight->host.dtype || !is_by_channel(p, &t))
    return false;
  for (int64_t k = 0; k < p->all; k++) {
    double number = onnx_tensor_number(&t, t.elements == 1 ? 0 : k);
    follow(p, k,
           op == 0   ? number
           : op == 3 ? 1 / number
                     : 1,
           op == 1   ? number
           : op == 2 ? -number
                     : 0);
  }
  return true;
}

/* Collects what follows while nobody else reads what is between. */
static void chain_take(const folding *f, product *p) {
  uint32_t slot = p->node->out[0];
  while (p->length < LONGEST_CHAIN && f->g->uses[slot] == 1 && f->g->last[slot] < f->g->num_nodes) {
    const plan_node *n = &f->g->nodes[f->g->last[slot]];
    if (n->kind != PLAN_CALL || *n->domain || has_references(n->node)) return;
    for (size_t i = 1; i < n->node->n_output; i++)
      if (n->out[i] != NO_SLOT) return;
    if (!n->node->n_output || n->out[0] == NO_SLOT) return;
    bool norm = fold_is_op(n, "BatchNormalization") && !n->in[0].up && n->in[0].slot == slot;
    if (!(norm ? take_norm(f, p, n) : take_arithmetic(f, p, n))) return;
    p->chain[p->length++] = f->g->last[slot];
    slot = n->out[0];
  }
}

/* --- new numbers --- */

/* Scales a run of weights of one channel. Whether they hold: finite ones stay so, and *most, the
 * greatest before and after, tells whether a channel lost digits. */
static bool scale_run(const onnx_tensor *w, int64_t begin, int64_t count, double factor,
                      double most[2]) {
  bool holds = true;
  if (w->dtype == TN_F32) {
    float *x = (float *)w->data + begin, before = 0, after = 0;
    for (int64_t i = 0; i < count; i++) {
      float now = (float)((double)x[i] * factor);
      holds = holds && (fabsf(now) <= FLT_MAX || !(fabsf(x[i]) <= FLT_MAX));
      before = fabsf(x[i]) > before ? fabsf(x[i]) : before;
      after = fabsf(now) > after ? fabsf(now) : after;
      x[i] = now;
    }
    most[0] = fmax(most[0], (double)before), most[1] = fmax(most[1], (double)after);
    return holds;
  }
  for (int64_t i = begin; i < begin + count; i++) {
    double number = onnx_tensor_number(w, i);
    onnx_tensor_put(w, i, number * factor);
    double now = onnx_tensor_number(w, i);
    holds = holds && (isfinite(now) || !isfinite(number));
    most[0] = fmax(most[0], fabs(number));
    most[1] = fmax(most[1], fabs(now));
  }
  return holds;
}

/* The smallest number of a type that has all its digits. */
static double least_normal(tn_dtype dtype) {
  return dtype == TN_F16 ? 0x1p-14 : dtype == TN_F64 ? DBL_MIN : (double)FLT_MIN;
}

/* Whether the weights hold, scaled: a channel whose greatest becomes subnormal has lost digits. */
static bool scale(const product *p, const onnx_tensor *w) {
  const double least = least_normal(w->dtype);
  double(*most)[2] = calloc((size_t)p->all, sizeof *most);
  bool holds = most != NULL;
  for (int64_t i = 0; holds && i < w->elements; i += p->inner) {
    int64_t k = channel_of(p, i);
    holds = scale_run(w, i, p->inner, p->factor[k], most[k]);
  }
  for (int64_t k = 0; holds && k < p->all; k++)
    holds = most[k][1] >= least || most[k][0] < least || p->factor[k] == 0;
  free(most);
  return holds;
}

static bool shift(const product *p, const onnx_tensor *b) {
  for (int64_t k = 0; k < p->all; k++) {
    double number = p->bias ? onnx_tensor_number(&p->bias->host, k) : 0;
    onnx_tensor_put(b, k, number * p->factor[k] + p->shift[k]);
    if (!isfinite(onnx_tensor_number(b, k)) || !isfinite(p->factor[k])) return false;
  }
  return true;
}

/* Gives a node a weight of its own, or new numbers to one that nobody else reads. */
static tn_status give(const folding *f, const product *p, size_t in, onnx_weight *old,
                      onnx_tensor *t) {
  plan_ref *ref = &p->node->in[in];
  void *data = t->data;
  onnx_weight *made;
  t->data = NULL;
  if (old && f->g->uses[ref->slot] == 1) return weight_replace(f->m, old, data);
  onnx_tensor host = *t;
  host.data = data;
  if (old) f->g->uses[ref->slot]--;
  tn_status status = weight_make(f->m, old ? old->name : p->node->node->output[0], &host, &made);
  *ref = (plan_ref){0, NO_SLOT};
  return status ? status : plan_constant(f->g, made, p->at, &ref->slot);
}

/* Room for a third input. The file's node gets a name for it, which goes with the file. */
static bool bias_room(const folding *f, const product *p) {
  Onnx__Node *node = f->nodes[p->at];
  if (node->n_input > 2) return true;
  plan_ref *in = realloc(p->node->in, 3 * sizeof *in);
  if (in) p->node->in = in;
  char **names = in ? realloc(node->input, 3 * sizeof *names) : NULL;
  if (names) node->input = names;
  char *name = names ? strdup(node->output[0]) : NULL;
  if (!name) return false;
  in[2] = (plan_ref){0, NO_SLOT};
  names[2] = name;
  node->n_input = 3;
  return true;
}

/* The last result of the chain is the product's, and the nodes of the chain do nothing. */
static void join(const folding *f, const product *p) {
  plan_node *last = &f->g->nodes[p->chain[p->length - 1]];
  p->node->out[0] = last->out[0];
  f->maker[last->out[0]] = p->at;
  for (int i = 0; i < p->length; i++) {
    plan_node *n = &f->g->nodes[p->chain[i]];
    n->kind = PLAN_JOINED;
    n->out[0] = NO_SLOT;
  }
  f->m->num_joined += (uint64_t)p->length;
}

static tn_status rewrite(const folding *f, product *p) {
  onnx_tensor w = {0}, b = {.present = true,
                            .dtype = p->weight->host.dtype,
                            .rank = 1,
                            .shape = {p->all},
                            .elements = p->all};
  tn_status status = weight_copy(f->m, p->weight, &w);
  b.data = calloc((size_t)p->all, tn_dtype_size(b.dtype));
  if (!status && !b.data) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a bias");
  if (!status && shift(p, &b) && scale(p, &w)) {
    if (!bias_room(f, p)) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a bias");
    if (!status) join(f, p);
    if (!status) status = give(f, p, 1, p->weight, &w);
    if (p->bias) b.rank = p->bias->host.rank, memcpy(b.shape, p->bias->host.shape, sizeof b.shape);
    if (!status) status = give(f, p, 2, p->bias, &b);
  }
  free(w.data), free(b.data);
  return status;
}

static tn_status fold_product(const folding *f, int64_t at) {
  product p;
  if (!product_at(f, at, &p)) return TN_OK;
  double *numbers = malloc((size_t)p.all * 2 * sizeof *numbers);
  if (!numbers) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for factors of channels");
  p.factor = numbers, p.shift = numbers + p.all;
  for (int64_t k = 0; k < p.all; k++) p.factor[k] = 1, p.shift[k] = 0;
  chain_take(f, &p);
  tn_status status = p.length ? rewrite(f, &p) : TN_OK;
  free(numbers);
  return status;
}

tn_status plan_fold(tn_onnx *m, plan_graph *g, Onnx__Node *const *nodes) {
  folding f = {m, g, nodes, malloc((g->num_slots + 1) * sizeof *f.maker),
               calloc(g->num_slots + 1, sizeof *f.weight)};
  tn_status status =
      f.maker && f.weight ? TN_OK : onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a plan");
  for (uint32_t i = 0; i < g->num_slots && !status; i++) f.maker[i] = NO_NODE;
  for (uint32_t i = 0; i < g->num_weights && !status; i++)
    f.weight[g->weights[i].slot] = g->weights[i].weight;
  for (uint32_t i = 0; i < g->num_nodes && !status; i++)
    for (size_t k = 0; k < g->nodes[i].node->n_output; k++)
      if (g->nodes[i].out[k] != NO_SLOT) f.maker[g->nodes[i].out[k]] = i;
  for (uint32_t i = 0; i < g->num_nodes && !status; i++) status = fold_product(&f, i);
  for (uint32_t i = 0; i < g->num_nodes && !status; i++)
    if (!fold_hardswish(&f, i)) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a plan");
  free(f.maker), free(f.weight);
  return status;
}
