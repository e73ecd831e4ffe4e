/*
 * ONNX's recurrent networks, its indexes of several axes, and the activations that have operators
 * of their own in Tenon.
 */
#include "adapters.h"

#include <string.h>
#include <strings.h>

/* --- recurrent networks --- */

enum { MOST_ACTIVATIONS = 3 };

/* What differs between the three: inputs and outputs beside y and y_h, and activations' attributes
 * with what they are by default. */
typedef struct network {
  const char *op;
  int gates, inputs, outputs;
  const char *attr[MOST_ACTIVATIONS];
  int by_default[MOST_ACTIVATIONS];
} network;

static const network networks[] = {
    {"lstm", 4, 8, 3, {"gate", "cell", "state"}, {0, 1, 1}},
    {"gru", 3, 6, 2, {"gate", "hidden", NULL}, {0, 1, 0}},
    {"rnn", 1, 6, 2, {"hidden", NULL, NULL}, {1, 0, 0}},
};

static int activation_code(const ProtobufCBinaryData *name) {
  static const char *const names[] = {"sigmoid", "tanh", "relu"};
  for (int i = 0; i < 3; i++)
    if (name->len == strlen(names[i]) &&
        !strncasecmp((const char *)name->data, names[i], name->len))
      return i;
  return -1;
}

/* The activations of each direction, one after the other; Tenon has the same for both. */
static bool set_activations(onnx_node *c, const network *n, op_call *k, int directions) {
  const ProtobufCBinaryData *list;
  int count = node_words(c, "activations", &list), each = 0;
  while (each < MOST_ACTIVATIONS && n->attr[each]) each++;
  if (count && count != each * directions)
    return node_cannot(c, "%d activations of %d directions", count, directions), false;
  for (int i = 0; i < each; i++) {
    int code = count ? activation_code(&list[i]) : n->by_default[i];
    if (code < 0)
      return node_cannot(c, "the activation %.*s: there are Sigmoid, Tanh and Relu",
                         (int)(list[i].len < 40 ? list[i].len : 40), (const char *)list[i].data),
             false;
    if (count > each && activation_code(&list[each + i]) != code)
      return node_cannot(c, "other activations backward than forward"), false;
    call_set(k, n->attr[i], 0, code);
  }
  return true;
}

static int direction_code(const onnx_node *c) {
  if (!node_has(c, "direction") || node_word(c, "direction", "forward")) return 0;
  return node_word(c, "direction", "reverse")         ? 1
         : node_word(c, "direction", "bidirectional") ? 2
                                                      : -1;
}

/* Layout 1 has the sequences first, in x and in states, and in y before the directions. */
static tn_tensor *sequences_first(onnx_node *c, tn_tensor *x, bool turn) {
  static const int32_t states[] = {1, 0, 2}, steps[] = {2, 0, 1, 3};
  if (!x || !turn) return x;
  return node_permute(c, x, tn_tensor_rank(x) == 4 ? steps : states);
}

static tn_status recurrent(onnx_node *c, const char *op) {
  const network *n = networks;
  const bool turn = node_int(c, "layout", 0) != 0;
  const int direction = direction_code(c);
  tn_tensor *y[3] = {NULL};
  while (strcmp(n->op, op) != 0) n++;
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  if (direction < 0) return node_cannot(c, "a direction other than ONNX's three");
  op_call k = call_begin(c, op);
  for (int i = 0; i < n->inputs; i++) {
    tn_tensor *x = i < c->num_in ? c->x[i] : NULL;
    call_in(&k, i == 0 || i == 5 || i == 6 ? sequences_first(c, x, turn) : x);
  }
  call_set(&k, "direction", 0, direction);
  call_set(&k, "clip", 0, node_float(c, "clip", 0));
  if (n->gates == 4) call_set(&k, "input_forget", 0, node_int(c, "input_forget", 0) != 0);
  if (n->gates == 3)
    call_set(&k, "linear_before_reset", 0, node_int(c, "linear_before_reset", 0) != 0);
  if (!set_activations(c, n, &k, direction == 2 ? 2 : 1)) return TN_OK;
  if (c->status != TN_OK) return c->status;
  tn_status status = call_run(&k, y, n->outputs);
  for (int i = 0; i < n->outputs; i++) y[i] = node_kept(c, status, &y[i]);
  for (int i = 0; i < n->outputs; i++)
    if (y[i] && node_wants(c, i)) status = node_give(c, i, sequences_first(c, y[i], turn));
  return status;
}

/* --- indexes of several axes, masks --- */

static tn_status gather_nd(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  if (!node_needs(c, 1)) return TN_OK;
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_set(&k, "batch_dims", 0, (double)node_int(c, "batch_dims", 0));
  return call_run(&k, c->y, 1);
}

/* ONNX gives a new tensor, Tenon updates the one it gets. */
static tn_status scatter_nd(onnx_node *c, const char *op) {
  static const char *const names[][2] = {{"none", "scatter_nd"},
                                         {"add", "scatter_nd_add"},
                                         {"mul", "scatter_nd_mul"},
                                         {"min", "scatter_nd_min"},
                                         {"max", "scatter_nd_max"}};
  const char *reduction = NULL;
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (node_word(c, "reduction", names[i][0])) reduction = names[i][1];
  if (!reduction && node_has(c, "reduction"))
    return node_cannot(c, "a reduction other than ONNX's");
  tn_tensor *y = node_copy(c, c->x[0]);
  op_call k = call_begin(c, reduction ? reduction : op);
  call_in(&k, c->x[2]);
  call_in(&k, c->x[1]);
  call_update(&k, y);
  if (!y || !node_check(c, call_run(&k, NULL, 0))) return c->status;
  return node_give(c, 0, y);
}

/* The condition may be shorter than what it is about. */
static tn_status compress(onnx_node *c, const char *op) {
  if (!node_needs(c, 1)) return TN_OK;
  const int64_t length = c->in[1].elements;
  if (!node_has(c, "axis")) {
    tn_tensor *all = node_reshape(c, c->x[0], 1, &c->in[0].elements);
    if (length > c->in[0].elements) return node_cannot(c, "a condition longer than the input");
    return node_give(c, 0, node_do(c, op, node_slice(c, all, 0, 0, length), c->x[1]));
  }
  const int32_t axis = node_axis(c, node_int(c, "axis", 0), c->in[0].rank);
  tn_tensor *places = node_do(c, "nonzero", c->x[1], NULL);
  if (!places) return c->status;
  op_call k = call_begin(c, "index_select");
  call_in(&k, c->x[0]);
  call_in(&k, node_reshape(c, places, 1, tn_tensor_shape(places)));
  call_set(&k, "axis", 0, axis);
  return node_give(c, 0, node_made(&k));
}

/* --- activations --- */

/* An operator of ONNX whose attributes are the same in Tenon, one or two of them. */
static tn_status activation(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  if (!strcmp(op, "shrink")) {
    call_set(&k, "lambd", 0, node_float(c, "lambd", 0.5));
    call_set(&k, "bias", 0, node_float(c, "bias", 0));
  } else if (strcmp(op, "softsign") != 0) {
    call_set(&k, "alpha", 0, node_float(c, "alpha", 1));
  }
  return call_run(&k, c->y, 1);
}

/* Before opset 7 a list of slopes is one for each channel. */
static tn_status prelu(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0], *slope = &c->in[1];
  int64_t shape[TN_MAX_RANK];
  if (!node_needs(c, 1)) return TN_OK;
  tn_tensor *by_channel = c->x[1];
  if (c->opset < 7 && slope->rank == 1 && x->rank > 2 && slope->elements != 1) {
    for (int32_t i = 0; i < x->rank; i++) shape[i] = i ? 1 : slope->elements;
    by_channel = node_reshape(c, by_channel, x->rank - 1, shape);
  }
  return node_give(c, 0, node_do(c, op, c->x[0], by_channel));
}

const adapter_row adapters_rnn[] = {
    {"Celu", activation, "celu", 12, 0, NULL},
    {"Compress", compress, "masked_select", 9, 0, NULL},
    {"GRU", recurrent, "gru", 0, 0, NULL},
    {"GatherND", gather_nd, "gather_nd", 11, 0, NULL},
    {"LSTM", recurrent, "lstm", 0, 0, NULL},
    {"PRelu", prelu, "prelu", 0, 0, NULL},
    {"RNN", recurrent, "rnn", 0, 0, NULL},
    {"ScatterND", scatter_nd, "scatter_nd", 11, 0, NULL},
    {"Shrink", activation, "shrink", 9, 0, NULL},
    {"Softsign", activation, "softsign", 0, 0, NULL},
    {"ThresholdedRelu", activation, "thresholded_relu", 10, 0, NULL},
    {0},
};
