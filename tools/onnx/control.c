/*
 * If, Loop, Scan and functions. Where the condition or the number of turns is known, the body's
 * nodes simply follow; in a run, both are read.
 */
#include <stdlib.h>
#include <string.h>

#include "lib.h"
#include "tenon/ops.h"

/* A number that decides what is evaluated. false: it is not known, or there was an error. */
static bool decide(evaluation *e, value *v, const char *what, int64_t *number) {
  if (!v || v->host.elements < 1)
    return eval_fail(e, TN_ERR_INVALID_ARGUMENT, "%s is not there", what), false;
  if (!v->host.data && !value_fetch(e, v)) {
    e->wants_run = e->wants_run || !e->status;
    return eval_fail(e, TN_ERR_UNSUPPORTED, "%s depends on numbers of the run", what), false;
  }
  if (v->host.dtype == TN_BOOL)
    *number = *(const uint8_t *)v->host.data;
  else if (v->host.dtype == TN_I64)
    *number = *(const int64_t *)v->host.data;
  else if (v->host.dtype == TN_I32)
    *number = *(const int32_t *)v->host.data;
  else
    return eval_fail(e, TN_ERR_INVALID_ARGUMENT, "%s is of type %s", what,
                     tn_dtype_name(v->host.dtype)),
           false;
  return true;
}

static bool has_counts(evaluation *e, const plan_node *n, const plan_graph *body, size_t in,
                       size_t out) {
  if (body->num_in == in && body->num_out == out) return true;
  eval_fail(e, TN_ERR_INVALID_ARGUMENT,
            "its graph %s has %u inputs and %u outputs in place of %zu "
            "and %zu",
            body->name, body->num_in, body->num_out, in, out);
  (void)n;
  return false;
}

static void eval_if(evaluation *e, frame *f, const plan_node *n, value **out) {
  int64_t condition;
  if (!decide(e, frame_value(f, n, 0), "the condition", &condition)) return;
  const plan_graph *branch = n->body[!condition];
  if (has_counts(e, n, branch, 0, n->node->n_output)) eval_graph(e, branch, f, f->scope, NULL, out);
}

static void eval_function(evaluation *e, frame *f, const plan_node *n, value **out) {
  node_scope scope = {n->node, n->function, f->scope};
  const plan_graph *body = n->body[0];
  value **in = calloc(body->num_in + 1, sizeof *in), **all = calloc(body->num_out + 1, sizeof *all);
  if (!in || !all || n->node->n_input > body->num_in || n->node->n_output > body->num_out) {
    eval_fail(e, in && all ? TN_ERR_INVALID_ARGUMENT : TN_ERR_OUT_OF_MEMORY,
              "more inputs or outputs than the function has");
  } else {
    for (size_t i = 0; i < body->num_in; i++) in[i] = frame_value(f, n, i);
    eval_graph(e, body, NULL, &scope, in, all);
    for (size_t i = 0; i < body->num_out; i++)
      if (i < n->node->n_output)
        out[i] = all[i];
      else
        value_release(all[i]);
  }
  free(in);
  free(all);
}

/* --- lists of values that become one --- */

typedef struct value_list {
  value **of;
  size_t count, room;
} value_list;

static void list_add(evaluation *e, value_list *l, value *v) {
  if (l->count == l->room) {
    size_t room = l->room ? 2 * l->room : 16;
    value **more = realloc(l->of, room * sizeof *more);
    if (!more) {
      eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a loop's values");
      return;
    }
    l->of = more;
    l->room = room;
  }
  l->of[l->count++] = value_keep(v);
}

static void list_free(value_list *l) {
  for (size_t i = 0; i < l->count; i++) value_release(l->of[i]);
  free(l->of);
}

static bool list_known(const value_list *l) {
  for (size_t i = 0; i < l->count; i++)
    if (!l->of[i]->host.data || l->count * (size_t)l->of[i]->host.elements > MAX_KNOWN)
      return false;
  return true;
}

/* One after the other along a new first axis, in host memory. */
static value *stack_known(evaluation *e, const value_list *l) {
  const onnx_tensor *first = &l->of[0]->host;
  int64_t shape[TN_MAX_RANK] = {(int64_t)l->count};
  memcpy(shape + 1, first->shape, (size_t)first->rank * sizeof *shape);
  value *all = value_of_numbers(e, first->dtype, first->rank + 1, shape, NULL);
  for (size_t i = 0; all && i < l->count; i++)
    if (host_bytes(first))
      memcpy((char *)all->host.data + i * host_bytes(first), l->of[i]->host.data,
             host_bytes(first));
  return all;
}

static tn_tensor *stack_some(evaluation *e, const value_list *l, size_t begin, size_t count,
                             int64_t axis) {
  const tn_tensor **x = calloc(count + 1, sizeof *x);
  tn_tensor *y = NULL;
  const tn_stack_attrs attrs = {.struct_size = sizeof attrs, .axis = axis};
  for (size_t i = 0; x && i < count && !e->status; i++) x[i] = value_tensor(e, l->of[begin + i]);
  tn_status status = x ? e->status : TN_ERR_OUT_OF_MEMORY;
  if (!status) status = tn_stack(e->stream, x, count, &attrs, &y);
  if (status) eval_fail(e, status, "stacking a loop's results: %s", tn_last_error());
  free(x);
  return y;
}

/* All of a list along a new axis. */
static value *stack_all(evaluation *e, const value_list *l, int64_t axis, bool reverse) {
  enum { AT_ONCE = 1024 };
  tn_tensor *parts[128] = {0}, *y = NULL;
  size_t count = 0;
  const onnx_tensor *first = &l->of[0]->host;
  for (size_t i = 0; i < l->count; i++)
    if (l->of[i]->host.rank != first->rank || l->of[i]->host.dtype != first->dtype ||
        memcmp(l->of[i]->host.shape, first->shape, (size_t)first->rank * sizeof *first->shape))
      return eval_fail(e, TN_ERR_INVALID_ARGUMENT, "turns give results of several shapes"), NULL;
  if (first->rank == TN_MAX_RANK || l->count > 128 * AT_ONCE)
    return eval_fail(e, TN_ERR_UNSUPPORTED, "results of too many axes or turns"), NULL;
  if (axis < 0) axis += first->rank + 1;
  for (size_t i = 0; reverse && i < l->count / 2; i++) {
    value *other = l->of[i];
    l->of[i] = l->of[l->count - 1 - i];
    l->of[l->count - 1 - i] = other;
  }
  if (!axis && list_known(l)) return stack_known(e, l);
  for (size_t i = 0; i < l->count && !e->status; i += AT_ONCE)
    parts[count++] = stack_some(e, l, i, l->count - i < AT_ONCE ? l->count - i : AT_ONCE, axis);
  if (count == 1 && !e->status) {
    y = parts[0];
    parts[0] = NULL;
  } else if (!e->status) {
    const tn_concat_attrs attrs = {.struct_size = sizeof attrs, .axis = axis};
    tn_status status = tn_concat(e->stream, parts, count, &attrs, &y);
    if (status) eval_fail(e, status, "joining a loop's results: %s", tn_last_error());
  }
  for (size_t i = 0; i < count; i++) tn_tensor_release(parts[i]);
  return y ? value_of_tensor(e, y) : NULL;
}

/* What a loop of no turns gives: as the body declares it, if that says all. */
static value *stack_none(evaluation *e, const plan_graph *body, size_t out) {
  const Onnx__ValueInfo *info = body->out_info ? body->out_info[out] : NULL;
  const Onnx__TensorType *type = info && info->type ? info->type->tensor_type : NULL;
  int64_t shape[TN_MAX_RANK] = {0};
  if (!type || !type->shape || type->shape->n_dim >= TN_MAX_RANK || !onnx_dtype(type->elem_type))
    return eval_fail(e, TN_ERR_UNSUPPORTED, "a loop of no turns whose results have no shape"), NULL;
  for (size_t i = 0; i < type->shape->n_dim; i++)
    shape[i + 1] = type->shape->dim[i]->dim_value > 0 ? type->shape->dim[i]->dim_value : 0;
  return value_of_numbers(e, onnx_dtype(type->elem_type), (int32_t)type->shape->n_dim + 1, shape,
                          NULL);
}

/* --- loops --- */

/* A loop's state: what is carried from turn to turn, what each turn adds, and the body's values. */
typedef struct turns {
  size_t carried, scanned;
  value **in, **out; /* of the body */
  value_list *scans;
} turns;

static bool turns_begin(evaluation *e, turns *t, const plan_graph *body) {
  t->in = calloc(body->num_in + 1, sizeof *t->in);
  t->out = calloc(body->num_out + 1, sizeof *t->out);
  t->scans = calloc(t->scanned + 1, sizeof *t->scans);
  if (t->in && t->out && t->scans) return true;
  return eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a loop"), false;
}

static void turns_end(turns *t, size_t num_in) {
  for (size_t i = 0; t->in && i < num_in; i++) value_release(t->in[i]);
  for (size_t i = 0; t->scans && i < t->scanned; i++) list_free(&t->scans[i]);
  free(t->in), free(t->out), free(t->scans);
}

/* After a turn: what is carried becomes the next one's, the rest is kept. skip: outputs of the body
 * before what is carried; first: the inputs. */
static void turns_step(evaluation *e, turns *t, size_t skip, size_t first) {
  for (size_t i = 0; i < t->carried; i++) {
    value_release(t->in[first + i]);
    t->in[first + i] = t->out[skip + i];
  }
  for (size_t i = 0; i < t->scanned; i++) {
    list_add(e, &t->scans[i], t->out[skip + t->carried + i]);
    value_release(t->out[skip + t->carried + i]);
  }
}

static void eval_loop(evaluation *e, frame *f, const plan_node *n, value **out) {
  const plan_graph *body = n->body[0];
  size_t ins = n->node->n_input, outs = n->node->n_output;
  turns t = {.carried = ins < 2 ? 0 : ins - 2};
  int64_t limit = INT64_MAX, condition = 1;
  if (outs < t.carried || !has_counts(e, n, body, t.carried + 2, outs + 1)) {
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "fewer outputs than values that are carried");
    return;
  }
  t.scanned = outs - t.carried;
  if (frame_value(f, n, 0) && !decide(e, frame_value(f, n, 0), "the number of turns", &limit))
    return;
  if (frame_value(f, n, 1) && !decide(e, frame_value(f, n, 1), "the condition", &condition)) return;
  if (!turns_begin(e, &t, body)) limit = 0;
  for (size_t i = 0; i < t.carried && t.in; i++) t.in[i + 2] = value_keep(frame_value(f, n, i + 2));
  for (int64_t turn = 0; turn < limit && condition && !e->status; turn++) {
    value_release(t.in[0]), value_release(t.in[1]);
    t.in[0] = value_of_numbers(e, TN_I64, 0, NULL, &turn);
    t.in[1] = value_of_numbers(e, TN_BOOL, 0, NULL, &(uint8_t){1});
    if (e->status || !eval_counts(e, 1 + body->num_weights / BUILT_TENSORS) ||
        eval_graph(e, body, f, f->scope, t.in, t.out))
      break;
    e->at = n;
    decide(e, t.out[0], "the condition of the next turn", &condition);
    value_release(t.out[0]);
    turns_step(e, &t, 1, 2);
  }
  for (size_t i = 0; i < t.carried && !e->status; i++) out[i] = value_keep(t.in[i + 2]);
  for (size_t i = 0; i < t.scanned && !e->status; i++)
    out[t.carried + i] = t.scans[i].count ? stack_all(e, &t.scans[i], 0, false)
                                          : stack_none(e, body, 1 + t.carried + i);
  turns_end(&t, body->num_in);
}

/* --- Scan --- */

/* Number i of a list of a Scan node. */
static int64_t listed(const onnx_node *c, const char *name, size_t i) {
  const int64_t *list;
  int count = node_ints(c, name, &list);
  return (int)i < count ? list[i] : 0;
}

/* The part of input i that a turn reads. */
static value *scan_part(evaluation *e, onnx_node *c, value *x, size_t i, int64_t turn,
                        int64_t count) {
  int64_t axis = listed(c, "scan_input_axes", i);
  int64_t at = listed(c, "scan_input_directions", i) ? count - 1 - turn : turn;
  tn_tensor *tensor = value_tensor(e, x), *part = NULL;
  tn_status status = tensor ? tn_tensor_select(tensor, (int32_t)axis, at, &part) : e->status;
  if (status) eval_fail(e, status, "%s", tn_last_error());
  return part ? value_of_tensor(e, part) : NULL;
}

/* How many turns the scanned inputs have; -1 where they do not agree. */
static int64_t scan_length(const onnx_node *c, frame *f, const plan_node *n, size_t carried,
                           size_t count) {
  int64_t length = -1;
  for (size_t i = 0; i < count; i++) {
    value *x = frame_value(f, n, carried + i);
    int64_t axis = listed(c, "scan_input_axes", i);
    if (!x || axis >= x->host.rank || axis < -x->host.rank) return -1;
    int64_t size = x->host.shape[axis < 0 ? axis + x->host.rank : axis];
    if (length >= 0 && size != length) return -1;
    length = size;
  }
  return length;
}

static void eval_scan(evaluation *e, frame *f, const plan_node *n, value **out) {
  const plan_graph *body = n->body[0];
  onnx_node *c = calloc(1, sizeof *c);
  size_t ins = n->node->n_input, outs = n->node->n_output;
  if (!c) {
    eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  c->node = n->node;
  c->scope = f->scope;
  int64_t scanned = node_int(c, "num_scan_inputs", 0);
  turns t = {.carried = scanned > 0 && (size_t)scanned <= ins ? ins - (size_t)scanned : ins};
  int64_t length = scan_length(c, f, n, t.carried, ins - t.carried);
  if (n->opset < 9)
    eval_fail(e, TN_ERR_UNSUPPORTED, "Scan of opset 8, over batches; opset 9 has it as it is now");
  else if (outs < t.carried || t.carried == ins || length < 0)
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "inputs and outputs that do not fit each other");
  else if (has_counts(e, n, body, ins, outs) &&
           (t.scanned = outs - t.carried, turns_begin(e, &t, body)))
    for (size_t i = 0; i < t.carried; i++) t.in[i] = value_keep(frame_value(f, n, i));
  for (int64_t turn = 0; turn < length && !e->status; turn++) {
    for (size_t i = t.carried; i < ins && !e->status; i++) {
      value_release(t.in[i]);
      t.in[i] = scan_part(e, c, frame_value(f, n, i), i - t.carried, turn, length);
    }
    if (e->status || !eval_counts(e, 1 + body->num_weights / BUILT_TENSORS) ||
        eval_graph(e, body, f, f->scope, t.in, t.out))
      break;
    e->at = n;
    turns_step(e, &t, 0, 0);
  }
  for (size_t i = 0; i < t.carried && !e->status; i++) out[i] = value_keep(t.in[i]);
  for (size_t i = 0; i < t.scanned && !e->status; i++)
    out[t.carried + i] = t.scans[i].count
                             ? stack_all(e, &t.scans[i], listed(c, "scan_output_axes", i),
                                         listed(c, "scan_output_directions", i))
                             : stack_none(e, body, t.carried + i);
  if (t.in) turns_end(&t, body->num_in);
  free(c);
}

tn_status eval_control(evaluation *e, frame *f, const plan_node *n, value **out) {
  if (n->kind == PLAN_IF)
    eval_if(e, f, n, out);
  else if (n->kind == PLAN_LOOP)
    eval_loop(e, f, n, out);
  else if (n->kind == PLAN_SCAN)
    eval_scan(e, f, n, out);
  else
    eval_function(e, f, n, out);
  return e->status;
}
