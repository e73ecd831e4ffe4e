/* ONNX's operators that move elements, give them another shape or make them. */
#include "adapters.h"

#include <math.h>

static tn_status transpose(onnx_node *c, const char *op) {
  const int64_t *perm;
  int32_t axes[16];
  int count = node_ints(c, "perm", &perm);
  if (count && count != c->in[0].rank)
    return node_cannot(c, "a permutation of %d axes of a tensor of %d", count, c->in[0].rank);
  for (int i = 0; i < c->in[0].rank; i++)
    axes[i] = count ? (int32_t)perm[i] : c->in[0].rank - 1 - i;
  tn_tensor *view = NULL;
  tn_status status = tn_tensor_permute(c->x[0], axes, &view);
  if (status != TN_OK) return status;
  op_call k = call_begin(c, op);
  call_in(&k, view);
  status = call_run(&k, c->y, 1);
  tn_tensor_release(view);
  return status;
}

/* A shape as it is written down, axis by axis. */
typedef struct shape {
  int32_t rank;
  int64_t size[TN_MAX_RANK];
} shape;

static void shape_add(onnx_node *c, shape *s, int64_t size) {
  if (s->rank == TN_MAX_RANK)
    node_cannot(c, "a tensor of more than %d axes", TN_MAX_RANK);
  else
    s->size[s->rank++] = size;
}

static tn_status give_shape(onnx_node *c, const shape *s) {
  return node_give(c, 0, node_reshape(c, c->x[0], s->rank, s->size));
}

/* 0 keeps an axis as it is, -1 is what is left. */
static tn_status reshape(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  shape s = {0};
  int64_t known = 1, open = -1;
  (void)op;
  if (!c->in[1].present) return node_cannot(c, "a shape by an attribute");
  for (int64_t i = 0; i < c->in[1].elements && !*c->cannot; i++) {
    int64_t size = node_value(c, 1, i);
    if (size == 0 && !node_int(c, "allowzero", 0)) size = i < x->rank ? x->shape[i] : 0;
    if (size == -1)
      open = i;
    else if (__builtin_mul_overflow(known, size, &known))
      return node_cannot(c, "a shape of more elements than can be counted");
    shape_add(c, &s, size);
  }
  if (open >= 0 && !*c->cannot) s.size[open] = known ? x->elements / known : 0;
  return give_shape(c, &s);
}

/* The axes before one, and from it on. */
static tn_status flatten(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  shape s = {2, {1, 1}};
  int64_t axis = node_int(c, "axis", 1);
  (void)op;
  if (axis < 0) axis += x->rank;
  for (int32_t i = 0; i < x->rank; i++) s.size[i >= axis] *= x->shape[i];
  return give_shape(c, &s);
}

/* The axes that an attribute or input 1 lists, as bits, of a tensor of `rank` and of as many more
 * as are listed where `more` says so; *count: how many. */
static uint32_t listed_axes(onnx_node *c, int32_t rank, bool more, int *count) {
  const int64_t *list;
  uint32_t bits = 0;
  bool input = c->num_in > 1 && c->in[1].present;
  *count = input ? (int)c->in[1].elements : node_ints(c, "axes", &list);
  for (int i = 0; i < *count && !*c->cannot; i++) {
    int64_t axis = input ? node_value(c, 1, i) : list[i], all = rank + (more ? *count : 0);
    if (axis < 0) axis += all;
    if (axis < 0 || axis >= all || axis >= TN_MAX_RANK)
      node_cannot(c, "axis %lld of a tensor of %d", (long long)axis, (int)all);
    else
      bits |= 1u << axis;
  }
  return bits;
}

/* Without axes all those of size 1 go. */
static tn_status squeeze(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  shape s = {0};
  int count;
  uint32_t gone = listed_axes(c, x->rank, false, &count);
  (void)op;
  for (int32_t i = 0; i < x->rank; i++)
    if (count ? !(gone >> i & 1) : x->shape[i] != 1) shape_add(c, &s, x->shape[i]);
  return give_shape(c, &s);
}

static tn_status unsqueeze(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  shape s = {0};
  int count;
  uint32_t made = listed_axes(c, x->rank, true, &count);
  (void)op;
  for (int32_t i = 0, from = 0; i < x->rank + count && !*c->cannot; i++)
    shape_add(c, &s, made >> i & 1 ? 1 : x->shape[from++]);
  return give_shape(c, &s);
}

/* Inputs data and index; the default of axis is 0. */
static tn_status take(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", 0));
  return call_run(&k, c->y, 1);
}

/* ONNX gives a new tensor, Tenon updates the one it gets. */
static tn_status scatter(onnx_node *c, const char *op) {
  if (node_has(c, "reduction") && !node_word(c, "reduction", "none")) {
    if (node_word(c, "reduction", "add"))
      op = "scatter_add";
    else if (node_word(c, "reduction", "mul"))
      op = "scatter_mul";
    else if (node_word(c, "reduction", "min"))
      op = "scatter_min";
    else if (node_word(c, "reduction", "max"))
      op = "scatter_max";
    else
      return node_cannot(c, "scatter with another reduction");
  }
  op_call copy = call_begin(c, "copy"), k = call_begin(c, op);
  call_in(&copy, c->x[0]);
  tn_status status = call_run(&copy, c->y, 1);
  if (status != TN_OK) return status;
  call_in(&k, c->x[2]);
  call_in(&k, c->x[1]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", 0));
  call_update(&k, c->y[0]);
  return call_run(&k, NULL, 0);
}

static tn_status one_hot(onnx_node *c, const char *op) {
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  bool index = TN_SET(c->in[0].dtype) & TN_SET_INDEX;
  op_call k = call_begin(c, op);
  call_in(&k, index ? c->x[0] : node_cast(c, c->x[0], TN_I64));
  call_set(&k, "classes", 0, node_number(c, 1, 0));
  call_set(&k, "axis", 0, (double)node_int(c, "axis", -1));
  call_set(&k, "dtype", 0, c->in[2].dtype);
  call_set(&k, "off", 0, node_number(c, 2, 0));
  call_set(&k, "on", 0, node_number(c, 2, 1));
  return call_run(&k, c->y, 1);
}

/* ONNX has one row per axis, Tenon one per element. */
static tn_status nonzero(onnx_node *c, const char *op) {
  tn_tensor *index = NULL;
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  tn_status status = call_run(&k, &index, 1);
  if (status == TN_OK && index) status = tn_tensor_permute(index, (int32_t[]){1, 0}, &c->y[0]);
  tn_tensor_release(index);
  return status;
}

/* Elements before and behind each axis: an input, of some axes, or before opset 11 an attribute. */
static void pad_sizes(onnx_node *c, int64_t *before, int64_t *after) {
  const int64_t *list;
  int64_t count = c->num_in > 1 ? c->in[1].elements / 2 : node_ints(c, "pads", &list) / 2;
  bool some = node_given(c, 3);
  if (some ? c->in[3].elements != count : count != c->in[0].rank)
    node_cannot(c, c->num_in > 1 ? "numbers of input 1 that are not there" : "pads of other axes");
  for (int64_t i = 0; i < count && !*c->cannot; i++) {
    int32_t axis = some ? node_axis(c, node_value(c, 3, i), c->in[0].rank) : (int32_t)i;
    before[axis] = c->num_in > 1 ? node_value(c, 1, i) : list[i];
    after[axis] = c->num_in > 1 ? node_value(c, 1, count + i) : list[count + i];
  }
}

/* Ends that are cut go first; a tensor that goes round is joined to its own ends. */
static tn_tensor *pad_first(onnx_node *c, tn_tensor *x, int64_t *before, int64_t *after,
                            bool wrap) {
  for (int32_t i = 0; i < c->in[0].rank && x; i++) {
    int64_t begin = before[i] < 0 ? -before[i] : 0, n = tn_tensor_shape(x)[i];
    int64_t end = after[i] < 0 ? n + after[i] : n;
    if (begin || end < n) x = node_slice(c, x, i, begin, end < begin ? begin : end);
    before[i] = before[i] < 0 ? 0 : before[i];
    after[i] = after[i] < 0 ? 0 : after[i];
    if (!wrap || !x || (!before[i] && !after[i])) continue;
    n = tn_tensor_shape(x)[i];
    if (before[i] > n || after[i] > n) return node_cannot(c, "padding round more than once"), NULL;
    op_call k = call_begin(c, "concat");
    if (before[i]) call_in(&k, node_slice(c, x, i, n - before[i], n));
    call_in(&k, x);
    if (after[i]) call_in(&k, node_slice(c, x, i, 0, after[i]));
    call_set(&k, "axis", 0, i);
    x = node_made(&k);
    before[i] = after[i] = 0;
  }
  return x;
}

static tn_status pad(onnx_node *c, const char *op) {
  int64_t before[16] = {0}, after[16] = {0};
  bool reflect = node_word(c, "mode", "reflect"), edge = node_word(c, "mode", "edge");
  pad_sizes(c, before, after);
  if (*c->cannot) return TN_OK;
  tn_tensor *x = pad_first(c, c->x[0], before, after, node_word(c, "mode", "wrap"));
  op_call k = call_begin(c, op);
  call_in(&k, x);
  for (int i = 0; i < c->in[0].rank; i++) {
    call_set(&k, "before", i, (double)before[i]);
    call_set(&k, "after", i, (double)after[i]);
  }
  call_set(&k, "mode", 0, reflect ? TN_PAD_REFLECT : edge ? TN_PAD_EDGE : TN_PAD_CONSTANT);
  if (c->num_in == 1) call_set(&k, "value", 0, node_float(c, "value", 0));
  if (node_given(c, 2)) call_set(&k, "value", 0, node_number(c, 2, 0));
  return x ? node_give(c, 0, node_made(&k)) : c->status;
}

static tn_status tile(onnx_node *c, const char *op) {
  if (!node_needs(c, 1)) return TN_OK;
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  for (int64_t i = 0; i < c->in[1].elements; i++)
    call_set(&k, "reps", (int)i, (double)node_value(c, 1, i));
  return call_run(&k, c->y, 1);
}

static tn_status triangle(onnx_node *c, const char *op) {
  op_call k = call_begin(c, node_int(c, "upper", 1) ? "triu" : op);
  call_in(&k, c->x[0]);
  if (c->num_in > 1 && c->in[1].present) call_set(&k, "diagonal", 0, (double)node_value(c, 1, 0));
  return call_run(&k, c->y, 1);
}

static tn_status join(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  for (int i = 0; i < c->num_in; i++) call_in(&k, c->x[i]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", 0));
  return call_run(&k, c->y, 1);
}

/* Operators that fill a tensor. */
static tn_status filled(op_call *k, tn_dtype dtype, int32_t rank, const int64_t *size) {
  onnx_node *c = k->c;
  if (*c->cannot) return TN_OK;
  tn_status status = tn_tensor_empty(c->device, dtype, rank, size, &c->y[0]);
  if (status != TN_OK) return status;
  call_update(k, c->y[0]);
  return call_run(k, NULL, 0);
}

static tn_status eye(onnx_node *c, const char *op) {
  tn_dtype dtype = c->in[0].dtype;
  if (node_has(c, "dtype")) dtype = onnx_dtype((int32_t)node_int(c, "dtype", 0));
  if (!dtype) return node_cannot(c, "an eye of a type that Tenon lacks");
  op_call k = call_begin(c, op);
  call_set(&k, "diagonal", 0, (double)node_int(c, "k", 0));
  return filled(&k, dtype, c->in[0].rank, c->in[0].shape);
}

static tn_status range(onnx_node *c, const char *op) {
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  double start = node_number(c, 0, 0), step = node_number(c, 2, 0);
  double count = ceil((node_number(c, 1, 0) - start) / step);
  if (*c->cannot) return TN_OK;
  if (!(fabs(count) < 0x1p53)) return node_cannot(c, "a range without an end");
  op_call k = call_begin(c, op);
  call_set(&k, "start", 0, start);
  call_set(&k, "step", 0, step);
  return filled(&k, c->in[0].dtype, 1, (int64_t[]){count > 0 ? (int64_t)count : 0});
}

/* To a shape that the tensor's own may reach beyond. */
static tn_status expand(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  int64_t rank = c->in[1].elements, skip = rank > x->rank ? 0 : x->rank - rank;
  int64_t fewer = rank > x->rank ? rank - x->rank : 0;
  shape s = {0};
  (void)op;
  if (!node_needs(c, 1)) return TN_OK;
  for (int64_t i = 0; i < rank + skip && !*c->cannot; i++) {
    int64_t own = i < fewer ? 1 : x->shape[i - fewer];
    int64_t asked = i < skip ? 1 : node_value(c, 1, i - skip);
    shape_add(c, &s, asked == 1 ? own : asked);
  }
  return *c->cannot ? TN_OK : tn_tensor_expand(c->x[0], s.rank, s.size, &c->y[0]);
}

/* Number i of a list that is input `in`, or before opset 10 an attribute. */
static int64_t listed_number(onnx_node *c, int in, const char *name, int64_t i) {
  const int64_t *list;
  if (c->num_in > 1) return node_value(c, in, i);
  return i < node_ints(c, name, &list) ? list[i] : (node_cannot(c, "no number in %s", name), 0);
}

static int64_t inside(int64_t at, int64_t least, int64_t most) {
  return at < least ? least : at > most ? most : at;
}

/* Ends may lie outside; a negative step takes the elements from the other end, and turns them. */
static tn_tensor *slice_axis(onnx_node *c, tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                             int64_t step) {
  int64_t n = c->in[0].shape[axis], least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
  if (!x) return NULL;
  if (!step || step == INT64_MIN) return node_cannot(c, "a slice with a step of 0"), NULL;
  begin = inside(begin < 0 && begin >= -n ? begin + n : begin, least, most);
  end = inside(end < 0 && end >= -n ? end + n : end, least, most);
  if (step > 0) {
    if (end < begin) end = begin;
    return node_slice_by(c, x, axis, begin, end, step > n ? n + 1 : step);
  }
  int64_t stride = -step > n ? n + 1 : -step, count = (begin - end + stride - 1) / stride;
  int64_t low = count > 0 ? begin - (count - 1) * stride : 0;
  tn_tensor *part = node_slice_by(c, x, axis, low, count > 0 ? begin + 1 : 0, stride);
  if (!part) return NULL;
  op_call k = call_begin(c, "flip");
  call_in(&k, part);
  call_set(&k, "axes", 0, axis);
  return node_made(&k);
}

static tn_status slice(onnx_node *c, const char *op) {
  const int64_t *list;
  bool old = c->num_in == 1;
  tn_tensor *y = c->x[0];
  (void)op;
  if (!old && (!node_needs(c, 1) || !node_needs(c, 2))) return TN_OK;
  int64_t count = old ? node_ints(c, "starts", &list) : c->in[1].elements;
  bool axes = old ? node_has(c, "axes") : node_given(c, 3);
  for (int64_t i = 0; i < count && y; i++) {
    int64_t at = axes ? listed_number(c, 3, "axes", i) : i;
    int32_t axis = node_axis(c, at, c->in[0].rank);
    int64_t begin = listed_number(c, 1, "starts", i), end = listed_number(c, 2, "ends", i);
    int64_t step = node_given(c, 4) ? node_value(c, 4, i) : 1;
    y = *c->cannot ? NULL : slice_axis(c, y, axis, begin, end, step);
  }
  return node_give(c, 0, y);
}

/* Parts one after the other, of the sizes that an attribute or input 1 lists, or all alike. */
static tn_status split(onnx_node *c, const char *op) {
  const int64_t *list;
  int listed = node_ints(c, "split", &list);
  if (node_has(c, "num_outputs") && node_int(c, "num_outputs", 0) < c->num_out)
    return node_cannot(c, "a split into fewer parts than outputs");
  int64_t axis = node_int(c, "axis", 0), begin = 0;
  bool input = c->num_in > 1 && c->in[1].present;
  tn_status status = TN_OK;
  (void)op;
  if (axis < 0) axis += c->in[0].rank;
  if (axis < 0 || axis >= c->in[0].rank || (!input && listed && listed != c->num_out))
    return node_cannot(c, "a split that does not fit its tensor");
  int64_t whole = c->in[0].shape[axis], part = (whole + c->num_out - 1) / c->num_out;
  for (int i = 0; i < c->num_out && status == TN_OK && !*c->cannot; i++) {
    int64_t size = input ? node_value(c, 1, i) : listed ? list[i] : part;
    if (!input && !listed && begin + size > whole) size = whole - begin;
    status = tn_tensor_slice(c->x[0], (int32_t)axis, begin, begin + size, 1, &c->y[i]);
    begin += size;
  }
  return status;
}

const adapter_row adapters_move[] = {
    {"Concat", join, "concat"},
    {"Expand", expand, NULL},
    {"EyeLike", eye, "eye"},
    {"Flatten", flatten, NULL},
    {"Gather", take, "gather"},
    {"GatherElements", take, "take_along_axis"},
    {"NonZero", nonzero, "nonzero"},
    {"OneHot", one_hot, "one_hot"},
    {"Pad", pad, "pad"},
    {"Range", range, "arange"},
    {"Reshape", reshape, NULL},
    {"Scatter", scatter, "scatter"},
    {"ScatterElements", scatter, "scatter"},
    {"Slice", slice, NULL},
    {"Split", split, NULL},
    {"Squeeze", squeeze, NULL},
    {"Tile", tile, "tile"},
    {"Transpose", transpose, "copy"},
    {"Trilu", triangle, "tril"},
    {"Unsqueeze", unsqueeze, NULL},
    {0},
};
