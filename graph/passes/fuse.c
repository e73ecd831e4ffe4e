/*
 * Epilogues: the addition of a bias and an activation after a product become the
 * product's own bias operand and activation, where its operator has them and the kernel that serves
 * the product takes them too; a convolution to which an image is added becomes conv2d_add, where
 * kernels as good serve that. What stands between the two is then never rounded to the element
 * type, nor written to memory.
 */
#include <stddef.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/registry/schema.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/passes/fuse.h"
#include "tenon/ops.h"

/* The products' inputs: two operands, a bias that may lack, and conv2d_add's addend. */
enum { BIAS = 2, ADDEND = 3 };

/* --- the operators --- */

/* The axis of the result that the bias goes along; -1 of what is no product with a bias. */
static int32_t bias_axis(const record_node *n, int32_t rank) {
  switch (n->op->id) {
  case TN_OP_MATMUL:
    return rank - 1;
  case TN_OP_CONV1D:
  case TN_OP_CONV2D:
  case TN_OP_CONV2D_ADD:
  case TN_OP_CONV3D:
  case TN_OP_CONV_TRANSPOSE1D:
  case TN_OP_CONV_TRANSPOSE2D:
  case TN_OP_CONV_TRANSPOSE3D:
    return 1;
  default:
    return -1;
  }
}

/* Where a product's attributes have its activation; 0 for nowhere. */
static size_t activation_offset(const record_node *product) {
  switch (product->op->id) {
  case TN_OP_MATMUL:
    return offsetof(tn_matmul_attrs, activation);
  case TN_OP_CONV1D:
    return offsetof(tn_conv1d_attrs, activation);
  case TN_OP_CONV2D:
    return offsetof(tn_conv2d_attrs, activation);
  case TN_OP_CONV2D_ADD:
    return offsetof(tn_conv2d_add_attrs, activation);
  case TN_OP_CONV3D:
    return offsetof(tn_conv3d_attrs, activation);
  default:
    return 0;
  }
}

static bool is_activated(const record_node *product) {
  int64_t activation = TN_ACTIVATION_NONE;
  const size_t at = activation_offset(product);
  if (at) memcpy(&activation, (const char *)product->attrs + at, sizeof activation);
  return activation != TN_ACTIVATION_NONE;
}

/* Whether the bias comes last in what the product computes. */
static bool takes_bias(const record_node *n) {
  return n->in[BIAS] == TN_GRAPH_NONE && !is_activated(n);
}

/* TN_ACTIVATION_NONE of what no product has for its own. */
static int64_t activation_of(const record_node *n) {
  const tn_clamp_attrs *bounds = n->attrs;
  switch (n->op->id) {
  case TN_OP_RELU:
    return TN_ACTIVATION_RELU;
  case TN_OP_GELU:
    return ((const tn_gelu_attrs *)n->attrs)->tanh ? TN_ACTIVATION_GELU_TANH : TN_ACTIVATION_GELU;
  case TN_OP_CLAMP:
    return bounds->min == 0 && bounds->max == 6 ? TN_ACTIVATION_RELU6 : TN_ACTIVATION_NONE;
  case TN_OP_HARDSWISH:
    return TN_ACTIVATION_HARDSWISH;
  case TN_OP_SILU:
    return TN_ACTIVATION_SILU;
  case TN_OP_SIGMOID:
    return TN_ACTIVATION_SIGMOID;
  default:
    return TN_ACTIVATION_NONE;
  }
}

/* Whether the product has it among its own. */
static bool takes_activation(const record_node *product, int64_t activation) {
  const bool is_matmul = product->op->id == TN_OP_MATMUL;
  return activation != TN_ACTIVATION_NONE && activation_offset(product) && !is_activated(product) &&
         activation <= (is_matmul ? TN_ACTIVATION_GELU_TANH : TN_ACTIVATION_SIGMOID);
}

static bool is_product(const passes *p, uint32_t k) {
  const record_node *n = &p->r->nodes[k];
  const uint32_t inputs = n->op->id == TN_OP_CONV2D_ADD ? ADDEND + 1 : BIAS + 1;
  return p->runs[k] && n->num_in == inputs && !n->num_inout && n->num_out == 1 &&
         n->out[0] != TN_GRAPH_NONE && bias_axis(n, p->r->values[n->out[0]].rank) >= 0;
}

/* --- who reads what --- */

static void note_read(fusing *f, uint32_t value, uint32_t node) {
  if (value == TN_GRAPH_NONE) return;
  uint32_t writer = f->p->r->values[value].node;
  if (writer == TN_GRAPH_NONE) return;
  ++f->readers[writer];
  f->reader[writer] = node;
}

static void note_reads(fusing *f) {
  const record *r = f->p->r;
  for (uint32_t k = 0; k < r->num_nodes; ++k)
    for (uint32_t i = 0; i < r->nodes[k].num_in + r->nodes[k].num_inout; ++i)
      note_read(f, r->nodes[k].in[i], k);
  for (uint32_t i = 0; i < r->num_outputs; ++i) note_read(f, r->outputs[i].value, TN_GRAPH_NONE);
}

/* --- whether it fits --- */

static bool same_layout(const record_value *a, const record_value *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->offset != b->offset) return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i]) return false;
  return true;
}

bool fuse_same_value(const record_value *a, const record_value *b) {
  return a->buffer == b->buffer && a->version == b->version && same_layout(a, b);
}

bool fuse_same_shape(const record_value *a, const record_value *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int32_t i = 0; same && i < a->rank; ++i) same = a->shape[i] == b->shape[i];
  return same;
}

/* `bias` as the product's operand, [n]: a row of it, or one number for each channel. pre: it
 * broadcasts to the product's shape. */
static bool as_bias(const record_value *product, int32_t axis, record_value *bias) {
  const int64_t n = product->shape[axis];
  int64_t stride = 1, size = 1;
  for (int32_t i = 0; i < bias->rank; ++i) {
    if (bias->shape[i] == 1) continue;
    if (i + product->rank - bias->rank != axis) return false;
    size = bias->shape[i];
    stride = bias->strides[i];
  }
  if (size != n || (n > 1 && stride != 1)) return false;
  bias->rank = 1;
  bias->shape[0] = n;
  bias->strides[0] = 1;
  return true;
}

/* Where the one node for product `p` and its reader `k` can run: at p, where all that k reads,
 * `more` if not NULL, is there already and nobody looks at k's result in between; else at k, where
 * p's operands are still what they were. TN_GRAPH_NONE: nowhere. */
static uint32_t find_place(const fusing *f, uint32_t p, uint32_t k, const record_value *more) {
  const record *r = f->p->r;
  const record_node *product = &r->nodes[p];
  const record_value *x = &r->values[product->out[0]], *y = &r->values[r->nodes[k].out[0]];
  const buffer_use *uses = f->p->uses;
  const bool in_place = x->buffer == y->buffer;
  bool final = true;
  if (r->buffers[x->buffer].kind != TN_GRAPH_MADE || uses[y->buffer].shared) return TN_GRAPH_NONE;
  if (in_place ? !same_layout(x, y) : uses[x->buffer].writes != 1) return TN_GRAPH_NONE;
  for (uint32_t i = 0; i < product->num_in; ++i) {
    if (product->in[i] == TN_GRAPH_NONE) continue;
    const record_value *v = &r->values[product->in[i]];
    if (v->buffer == y->buffer || uses[v->buffer].shared) return TN_GRAPH_NONE;
    final = final && v->version == r->buffers[v->buffer].version;
  }
  bool early =
      in_place || (uses[y->buffer].writes == 1 && r->buffers[y->buffer].kind == TN_GRAPH_MADE);
  if (more) {
    if (more->buffer == y->buffer || uses[more->buffer].shared) return TN_GRAPH_NONE;
    early = early && (more->node == TN_GRAPH_NONE || more->node < p);
  }
  return early ? p : final ? k : TN_GRAPH_NONE;
}

/* --- whether the kernel takes it --- */

tn_status fuse_stand_in(fusing *f, uint32_t i, const record_value *v, tn_tensor **header) {
  const int64_t one = 1;
  tn_status status = TN_OK;
  if (!f->stand_ins[i])
    status = tn_tensor_empty(f->p->program->device, TN_U8, 1, &one, &f->stand_ins[i]);
  return status ? status : header_stand_in(v, f->stand_ins[i], header);
}

tn_status fuse_find_kernel(uint32_t op, tn_tensor *const *in, uint32_t num_in, tn_tensor *out,
                           const void *attrs, const cell **kernel) {
  const tn_tensor *inputs[FUSE_ARGS] = {NULL};
  plan p;
  memcpy(inputs, in, num_in * sizeof *in);
  const tn_call call = {.struct_size = sizeof call,
                        .op = op,
                        .in = inputs,
                        .out = &out,
                        .attrs = attrs,
                        .num_in = num_in,
                        .num_out = 1};
  tn_status status = plan_make(&p, &call);
  if (status) return status;
  *kernel = p.cell;
  plan_finish(&p);
  return TN_OK;
}

tn_status fuse_forgive(tn_status status) {
  if (status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_LOST) return status;
  if (status) fail_clear();
  return TN_OK;
}

const tn_operator *fuse_operator(uint32_t id) {
  size_t i = 0;
  while (builtin_operators[i].id != id) ++i;
  return &builtin_operators[i];
}

/* What a product would become. */
typedef struct extended {
  uint32_t op, at; /* the input that is new; num_in of the product for none */
  const record_value *more;
  const void *attrs;
} extended;

/* Whether one kernel stands in for the other: of the same plugin, and ranked no lower. */
static bool is_as_good(const cell *before, const cell *after) {
  return before && after && before->kernel->plugin == after->kernel->plugin &&
         after->kernel->row.priority >= before->kernel->row.priority;
}

/* Whether a call of `op` that gets `before` may become one of another operator that gets `after`,
 * and be laid out with channels last as well as it could. */
static bool may_become(const fusing *f, uint32_t op, const cell *before, uint32_t other,
                       const cell *after, tn_dtype dtype) {
  const cell *last = passes_channels_last(f->p->program, op, dtype);
  return is_as_good(before, after) &&
         (!last || is_as_good(last, passes_channels_last(f->p->program, other, dtype)));
}

/* Whether a kernel as good takes what the product would become. pre: the node is a product. */
static tn_status ask_kernel(fusing *f, const record_node *n, const extended *e, bool *takes) {
  const record *r = f->p->r;
  const uint32_t num_in = e->more && e->at >= n->num_in ? e->at + 1 : n->num_in;
  tn_tensor *in[FUSE_ARGS] = {NULL}, *out = NULL, *own = NULL;
  const cell *before = NULL, *after = NULL;
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < n->num_in; ++i)
    if (n->in[i] != TN_GRAPH_NONE) status = fuse_stand_in(f, i, &r->values[n->in[i]], &in[i]);
  if (!status) status = fuse_stand_in(f, FUSE_ARGS, &r->values[n->out[0]], &out);
  if (!status) status = fuse_find_kernel(n->op->id, in, n->num_in, out, n->attrs, &before);
  if (e->more) own = in[e->at];
  if (!status && e->more) status = fuse_stand_in(f, e->at, e->more, &in[e->at]);
  if (!status) status = fuse_find_kernel(e->op, in, num_in, out, e->attrs, &after);
  *takes = !status && (e->op == n->op->id ? before == after
                                          : may_become(f, n->op->id, before, e->op, after,
                                                       r->values[n->out[0]].dtype));
  if (e->more && own != in[e->at]) tn_tensor_release(own);
  for (uint32_t i = 0; i < FUSE_ARGS; ++i) tn_tensor_release(in[i]);
  tn_tensor_release(out);
  return fuse_forgive(status);
}

/* --- doing it --- */

/* One node, at `place`, for product `p` and its reader `k`. */
static void join_nodes(fusing *f, uint32_t p, uint32_t k, uint32_t place) {
  record_node *nodes = f->p->r->nodes;
  nodes[p].out[0] = nodes[k].out[0];
  f->readers[place] = f->readers[k];
  f->reader[place] = f->reader[k];
  if (place == k) {
    const record_node product = nodes[p];
    nodes[p] = nodes[k];
    nodes[k] = product;
  }
  passes_drop(f->p, place == k ? p : k);
  ++f->p->program->counts.fused;
}

/* Which input of node k, of two, is the product's result; 2: neither. */
static uint32_t side_of(const record *r, const record_node *product, const record_node *k) {
  const record_value *x = &r->values[product->out[0]];
  uint32_t side = 0;
  while (side < 2 && !fuse_same_value(x, &r->values[k->in[side]])) ++side;
  return side;
}

/* y = product + bias, either way round. */
static tn_status take_bias(fusing *f, uint32_t p, uint32_t k, uint32_t *place) {
  record *r = f->p->r;
  const record_node *product = &r->nodes[p], *sum = &r->nodes[k];
  const record_value *x = &r->values[product->out[0]];
  if (sum->op->id != TN_OP_ADD || !takes_bias(product)) return TN_OK;
  const uint32_t side = side_of(r, product, sum);
  if (side > 1) return TN_OK;
  record_value bias = r->values[sum->in[1 - side]];
  bool takes;
  uint32_t at, value;
  if (!as_bias(x, bias_axis(product, x->rank), &bias) ||
      (at = find_place(f, p, k, &bias)) == TN_GRAPH_NONE)
    return TN_OK;
  const extended e = {product->op->id, BIAS, &bias, product->attrs};
  tn_status status = ask_kernel(f, product, &e, &takes);
  if (status || !takes) return status;
  status = record_add_value(r, &bias, &value);
  if (status) return status;
  r->nodes[p].in[BIAS] = value;
  join_nodes(f, p, k, at);
  *place = at;
  return TN_OK;
}

/* The convolution's node as one of conv2d_add. Their attributes are the same. */
static tn_status become_sum(record *r, record_node *n, uint32_t addend) {
  uint32_t *in = arena_take(&r->room, &r->memory, (ADDEND + 1) * sizeof *in);
  if (!in) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  memcpy(in, n->in, ADDEND * sizeof *in);
  in[ADDEND] = addend;
  n->op = fuse_operator(TN_OP_CONV2D_ADD);
  n->in = in;
  n->num_in = ADDEND + 1;
  return TN_OK;
}

/* y = product + an image, either way round. */
static tn_status take_addend(fusing *f, uint32_t p, uint32_t k, uint32_t *place) {
  record *r = f->p->r;
  record_node *product = &r->nodes[p];
  const record_node *sum = &r->nodes[k];
  uint32_t side, at;
  bool takes;
  if (sum->op->id != TN_OP_ADD || product->op->id != TN_OP_CONV2D || is_activated(product) ||
      (side = side_of(r, product, sum)) > 1)
    return TN_OK;
  const uint32_t value = sum->in[1 - side];
  const record_value *addend = &r->values[value];
  if (!fuse_same_shape(addend, &r->values[product->out[0]]) ||
      (at = find_place(f, p, k, addend)) == TN_GRAPH_NONE)
    return TN_OK;
  const extended e = {TN_OP_CONV2D_ADD, ADDEND, addend, product->attrs};
  tn_status status = ask_kernel(f, product, &e, &takes);
  if (!status && takes) status = become_sum(r, product, value);
  if (status || !takes) return status;
  if (addend->node != TN_GRAPH_NONE) f->reader[addend->node] = at;
  join_nodes(f, p, k, at);
  *place = at;
  return TN_OK;
}

static tn_status take_activation(fusing *f, uint32_t p, uint32_t k, uint32_t *place) {
  record *r = f->p->r;
  const record_node *product = &r->nodes[p], *act = &r->nodes[k];
  const int64_t activation = activation_of(act);
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  bool takes;
  if (!takes_activation(product, activation) ||
      !fuse_same_value(&r->values[product->out[0]], &r->values[act->in[0]]))
    return TN_OK;
  memcpy(attrs, product->attrs, product->op->attrs_size);
  memcpy(attrs + activation_offset(product), &activation, sizeof activation);
  uint32_t at = find_place(f, p, k, NULL);
  if (at == TN_GRAPH_NONE) return TN_OK;
  const extended e = {product->op->id, product->num_in, NULL, attrs};
  tn_status status = ask_kernel(f, product, &e, &takes);
  if (status || !takes) return status;
  memcpy(product->attrs, attrs, product->op->attrs_size);
  join_nodes(f, p, k, at);
  *place = at;
  return TN_OK;
}

/* Takes up one node behind another as long as there is one that fits. */
static tn_status extend(fusing *f, uint32_t p) {
  const record *r = f->p->r;
  while (f->readers[p] == 1 && f->reader[p] != TN_GRAPH_NONE) {
    uint32_t k = f->reader[p], place = TN_GRAPH_NONE;
    const record_node *n = &r->nodes[k];
    if (n->num_inout || n->num_out != 1 || n->out[0] == TN_GRAPH_NONE || n->num_in > 2 ||
        !fuse_same_shape(&r->values[n->out[0]], &r->values[r->nodes[p].out[0]]))
      break;
    tn_status status = take_bias(f, p, k, &place);
    if (!status && place == TN_GRAPH_NONE) status = take_addend(f, p, k, &place);
    if (!status && place == TN_GRAPH_NONE) status = take_activation(f, p, k, &place);
    if (status || place == TN_GRAPH_NONE) return status;
    p = place;
  }
  return TN_OK;
}

tn_status pass_fuse(passes *p) {
  const record *r = p->r;
  fusing f = {.p = p};
  tn_status status = TN_OK;
  f.readers = host_alloc(&r->memory, 2 * ((size_t)r->num_nodes + 1) * sizeof *f.readers);
  if (!f.readers) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  f.reader = f.readers + r->num_nodes + 1;
  note_reads(&f);
  for (uint32_t k = 0; !status && k < r->num_nodes; ++k) status = fuse_gate(&f, k);
  for (uint32_t k = 0; !status && k < r->num_nodes; ++k)
    if (is_product(p, k)) status = extend(&f, k);
  for (uint32_t i = 0; i <= FUSE_ARGS; ++i) tn_tensor_release(f.stand_ins[i]);
  host_free(&r->memory, f.readers);
  return status;
}
