/*
 * Einstein's sums as calls: diagonals and sums of single operands first, then pairs of operands by
 * matrix products, at each step the pair that costs least. Everything is a view or a call on public
 * functions, so that graphs record it and gradients pass through it.
 */
#include "dispatcher/composite/einsum.h"

/* An operand, or what became of several; owned. */
typedef struct part {
  tn_tensor *tensor;
  einsum_axes axes;
} part;

typedef struct contraction {
  tn_stream *stream;
  const einsum_plan *plan;
  part part[EINSUM_OPERANDS];
  size_t count;
  bool computed; /* the one part that is left is a tensor of our own */
} contraction;

static bool has(uint64_t set, int label) { return set >> label & 1; }

static int32_t place_of(const einsum_axes *a, int label) {
  int32_t i = 0;
  while (i < a->rank && a->label[i] != label) ++i;
  return i;
}

static void drop_axis(einsum_axes *a, int32_t axis) {
  for (int32_t i = axis; i + 1 < a->rank; ++i) a->label[i] = a->label[i + 1];
  --a->rank;
}

/* Puts a new tensor, if a call gave one, in a part's place. */
static tn_status replace(part *p, tn_status status, tn_tensor *const *tensor) {
  if (status) return status;
  tn_tensor_release(p->tensor);
  p->tensor = *tensor;
  return TN_OK;
}

static tn_status permute(part *p, const einsum_axes *to) {
  int32_t order[TN_MAX_RANK];
  tn_tensor *view = NULL;
  bool moves = false;
  for (int32_t i = 0; i < to->rank; ++i) {
    order[i] = place_of(&p->axes, to->label[i]);
    moves = moves || order[i] != i;
  }
  p->axes = *to;
  return moves ? replace(p, tn_tensor_permute(p->tensor, order, &view), &view) : TN_OK;
}

/* A reshape, of a copy where strides do not allow it otherwise. */
static tn_status reshape(tn_stream *stream, part *p, int32_t rank, const int64_t *shape) {
  tn_tensor *view = NULL, *copy = NULL;
  tn_status status = tn_tensor_reshape(p->tensor, rank, shape, &view);
  if (!status || tn_tensor_is_contiguous(p->tensor)) return replace(p, status, &view);
  status = replace(p, tn_tensor_contiguous(stream, p->tensor, &copy), &copy);
  if (status) return status;
  return replace(p, tn_tensor_reshape(p->tensor, rank, shape, &view), &view);
}

/* --- one operand --- */

/* The diagonal of two axes of one label, which stand last then: of n by n elements in a row those
 * that are n + 1 apart. */
static tn_status take_diagonal(contraction *c, part *p, int32_t first, int32_t second) {
  const int64_t n = tn_tensor_shape(p->tensor)[first];
  const int32_t rank = p->axes.rank;
  int32_t order[TN_MAX_RANK], used = 0;
  int64_t shape[TN_MAX_RANK];
  einsum_axes axes = {0};
  tn_tensor *view = NULL;
  for (int32_t i = 0; i < rank; ++i) {
    if (i == first || i == second) continue;
    shape[used] = tn_tensor_shape(p->tensor)[i];
    axes.label[used] = p->axes.label[i];
    order[used++] = i;
  }
  axes.label[used] = p->axes.label[first];
  order[used] = first;
  order[used + 1] = second;
  shape[used] = n * n;
  axes.rank = rank - 1;
  tn_status status = replace(p, tn_tensor_permute(p->tensor, order, &view), &view);
  if (!status) status = reshape(c->stream, p, rank - 1, shape);
  if (!status && n > 1)
    status = replace(p, tn_tensor_slice(p->tensor, used, 0, n * n, n + 1, &view), &view);
  p->axes = axes;
  return status;
}

/* Every label once: of two equal axes the diagonal, of one that has 1 element the other. */
static tn_status make_labels_single(contraction *c, part *p) {
  tn_status status = TN_OK;
  for (int32_t i = 0; i < p->axes.rank && !status; ++i)
    for (int32_t k = i + 1; k < p->axes.rank; ++k) {
      if (p->axes.label[i] != p->axes.label[k]) continue;
      const int64_t *shape = tn_tensor_shape(p->tensor);
      if (shape[i] == shape[k]) {
        status = take_diagonal(c, p, i, k);
      } else {
        const int32_t unit = shape[i] == 1 ? i : k;
        tn_tensor *view = NULL;
        status = replace(p, tn_tensor_squeeze(p->tensor, unit, &view), &view);
        drop_axis(&p->axes, unit);
      }
      i = -1; /* from the beginning */
      break;
    }
  return status;
}

/* Without axes of 1 element where others have more: they repeat, so that nothing depends on them.
 */
static tn_status drop_units(contraction *c, part *p) {
  tn_status status = TN_OK;
  for (int32_t i = p->axes.rank - 1; i >= 0 && !status; --i) {
    tn_tensor *view = NULL;
    if (tn_tensor_shape(p->tensor)[i] != 1 || c->plan->size[p->axes.label[i]] == 1) continue;
    status = replace(p, tn_tensor_squeeze(p->tensor, i, &view), &view);
    drop_axis(&p->axes, i);
  }
  return status;
}

/* Labels that anything but part `a` and part `b` needs. */
static uint64_t needed_beside(const contraction *c, size_t a, size_t b) {
  uint64_t set = einsum_set(&c->plan->out);
  for (size_t i = 0; i < c->count; ++i)
    if (i != a && i != b) set |= einsum_set(&c->part[i].axes);
  return set;
}

/* Sums over the axes that nothing else needs. */
static tn_status sum_alone(contraction *c, size_t number) {
  part *p = &c->part[number];
  const uint64_t needed = needed_beside(c, number, number);
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  tn_tensor *sum = NULL;
  for (int32_t i = 0; i < p->axes.rank; ++i)
    if (!has(needed, p->axes.label[i])) attrs.axes.axis[attrs.axes.count++] = i;
  if (attrs.axes.count == 0) return TN_OK;
  for (int32_t i = attrs.axes.count - 1; i >= 0; --i) drop_axis(&p->axes, attrs.axes.axis[i]);
  c->computed = true;
  return replace(p, tn_sum(c->stream, p->tensor, &attrs, &sum), &sum);
}

/* --- two operands --- */

/* What becomes of the labels of a pair: those of both that are kept, those of both that are summed
 * over, and those of one alone. */
typedef struct pairing {
  einsum_axes both, summed, left, right;
} pairing;

static void append(einsum_axes *to, int label) { to->label[to->rank++] = (uint8_t)label; }

static pairing pair_labels(const contraction *c, size_t a, size_t b) {
  const einsum_axes *left = &c->part[a].axes, *right = &c->part[b].axes;
  const uint64_t needed = needed_beside(c, a, b);
  pairing p = {{0}, {0}, {0}, {0}};
  for (int32_t i = 0; i < left->rank; ++i) {
    const int label = left->label[i];
    if (!has(einsum_set(right), label))
      append(&p.left, label);
    else
      append(has(needed, label) ? &p.both : &p.summed, label);
  }
  for (int32_t i = 0; i < right->rank; ++i)
    if (!has(einsum_set(left), right->label[i])) append(&p.right, right->label[i]);
  return p;
}

static int32_t result_rank(const pairing *p) { return p->both.rank + p->left.rank + p->right.rank; }

/* Sizes of axes, one after the other; their product. */
static int64_t sizes_of(const contraction *c, const einsum_axes *a, int64_t *shape) {
  int64_t product = 1;
  for (int32_t i = 0; i < a->rank; ++i) product *= shape[i] = c->plan->size[a->label[i]];
  return product;
}

static einsum_axes joined(const einsum_axes *a, const einsum_axes *b, const einsum_axes *c) {
  einsum_axes all = *a;
  for (int32_t i = 0; i < b->rank; ++i) append(&all, b->label[i]);
  for (int32_t i = 0; c && i < c->rank; ++i) append(&all, c->label[i]);
  return all;
}

/* With no axis to sum over: a product with axes of one element where a part has none. */
static tn_status multiply_elements(contraction *c, part *a, part *b, const pairing *p) {
  const einsum_axes all = joined(&p->both, &p->left, &p->right);
  part *parts[2] = {a, b};
  tn_tensor *y = NULL;
  tn_status status = TN_OK;
  for (int k = 0; k < 2 && !status; ++k) {
    const uint64_t own = einsum_set(&parts[k]->axes);
    einsum_axes order = {0};
    for (int32_t i = 0; i < all.rank; ++i)
      if (has(own, all.label[i])) append(&order, all.label[i]);
    status = permute(parts[k], &order);
    for (int32_t i = 0; i < all.rank && !status; ++i) {
      tn_tensor *view = NULL;
      if (!has(own, all.label[i]))
        status = replace(parts[k], tn_tensor_unsqueeze(parts[k]->tensor, i, &view), &view);
    }
  }
  if (!status) status = tn_mul(c->stream, a->tensor, b->tensor, &y);
  a->axes = all;
  return replace(a, status, &y);
}

static tn_status matrix_product(tn_stream *stream, const tn_tensor *a, const tn_tensor *b,
                                tn_tensor **y) {
  if (TN_SET(tn_tensor_dtype(a)) & TN_SET_FLOAT) return tn_matmul(stream, a, b, NULL, NULL, y);
  return tn_matmul_int(stream, a, b, y);
}

/* As [both, left, summed] by [both, summed, right]. */
static tn_status multiply_matrices(contraction *c, part *a, part *b, const pairing *p) {
  const einsum_axes of_a = joined(&p->both, &p->left, &p->summed);
  const einsum_axes of_b = joined(&p->both, &p->summed, &p->right);
  const einsum_axes all = joined(&p->both, &p->left, &p->right);
  int64_t shape[TN_MAX_RANK];
  const int64_t batch = sizes_of(c, &p->both, shape), m = sizes_of(c, &p->left, shape);
  const int64_t k = sizes_of(c, &p->summed, shape), n = sizes_of(c, &p->right, shape);
  const int32_t from = p->both.rank == 0;
  tn_tensor *y = NULL;
  tn_status status = permute(a, &of_a);
  if (!status) status = permute(b, &of_b);
  if (!status && (p->left.rank != 1 || p->summed.rank != 1 || p->both.rank > 1))
    status = reshape(c->stream, a, 3 - from, (const int64_t[]){batch, m, k} + from);
  if (!status && (p->right.rank != 1 || p->summed.rank != 1 || p->both.rank > 1))
    status = reshape(c->stream, b, 3 - from, (const int64_t[]){batch, k, n} + from);
  if (!status) status = matrix_product(c->stream, a->tensor, b->tensor, &y);
  status = replace(a, status, &y);
  a->axes = all;
  sizes_of(c, &all, shape);
  return status ? status : reshape(c->stream, a, all.rank, shape);
}

/* Part a becomes the product of both; the last part takes b's place. */
static tn_status contract(contraction *c, size_t a, size_t b) {
  const pairing p = pair_labels(c, a, b);
  if (result_rank(&p) > TN_MAX_RANK)
    return fail(TN_ERR_UNSUPPORTED,
                "tn_einsum: the product of two operands would have %d axes, more than %d; "
                "contract the operands in several calls",
                result_rank(&p), TN_MAX_RANK);
  tn_status status = p.summed.rank ? multiply_matrices(c, &c->part[a], &c->part[b], &p)
                                   : multiply_elements(c, &c->part[a], &c->part[b], &p);
  c->computed = true;
  if (status) return status;
  tn_tensor_release(c->part[b].tensor);
  c->part[b] = c->part[--c->count];
  return TN_OK;
}

/* Multiplications that a pair takes, less a bit for what it removes of its operands' elements. */
static double cost_of(const contraction *c, size_t a, size_t b) {
  const uint64_t set = einsum_set(&c->part[a].axes) | einsum_set(&c->part[b].axes);
  double cost = 1;
  for (int label = 0; label < EINSUM_LABELS; ++label)
    if (has(set, label)) cost *= (double)c->plan->size[label];
  const pairing p = pair_labels(c, a, b);
  return result_rank(&p) > TN_MAX_RANK ? cost * 1e30 : cost;
}

static tn_status contract_cheapest(contraction *c) {
  size_t best_a = 0, best_b = 1;
  double best = cost_of(c, 0, 1);
  for (size_t a = 0; a < c->count; ++a)
    for (size_t b = a + 1; b < c->count; ++b) {
      const double cost = cost_of(c, a, b);
      if (cost >= best) continue;
      best = cost;
      best_a = a;
      best_b = b;
    }
  return contract(c, best_a, best_b);
}

/* --- the call --- */

/* The last part with the axes of the result, row-major and no operand's memory. */
static tn_status finish(contraction *c, tn_tensor **result) {
  part *p = &c->part[0];
  tn_status status = permute(p, &c->plan->out);
  if (status) return status;
  if (!c->computed) return tn_copy(c->stream, p->tensor, result);
  return tn_tensor_contiguous(c->stream, p->tensor, result);
}

static tn_status check(const char *equation, const tn_tensor *const *operands, size_t count,
                       tn_tensor **result) {
  if (!equation || !operands || !result)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: %s is NULL",
                !equation   ? "the equation"
                : !operands ? "the list of operands"
                            : "the result pointer");
  if (count < 1 || count > EINSUM_OPERANDS)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: 1 to %d operands, not %zu", EINSUM_OPERANDS,
                count);
  for (size_t i = 0; i < count; ++i) {
    if (!operands[i]) return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: operand %zu is NULL", i);
    if (tn_tensor_dtype(operands[i]) != tn_tensor_dtype(operands[0]))
      return fail(
          TN_ERR_INVALID_ARGUMENT, "tn_einsum: operand %zu is %s, the first is %s; use tn_cast", i,
          tn_dtype_name(tn_tensor_dtype(operands[i])), tn_dtype_name(tn_tensor_dtype(operands[0])));
  }
  if (tn_tensor_dtype(operands[0]) == TN_BOOL)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: bools have no products; use tn_cast");
  return TN_OK;
}

tn_status tn_einsum(tn_stream *stream, const char *equation, const tn_tensor *const *operands,
                    size_t count, tn_tensor **result) {
  einsum_plan plan;
  tn_status status = check(equation, operands, count, result);
  if (!status) status = einsum_read(equation, operands, count, &plan);
  if (status) return status;
  contraction c = {.stream = stream, .plan = &plan, .count = count};
  for (size_t i = 0; i < count; ++i) {
    c.part[i] = (part){(tn_tensor *)(uintptr_t)operands[i], plan.in[i]};
    tn_tensor_retain(c.part[i].tensor);
  }
  for (size_t i = 0; i < count && !status; ++i) {
    status = make_labels_single(&c, &c.part[i]);
    if (!status) status = drop_units(&c, &c.part[i]);
  }
  for (size_t i = 0; i < count && !status; ++i) status = sum_alone(&c, i);
  while (!status && c.count > 1) status = contract_cheapest(&c);
  tn_tensor *made = NULL;
  if (!status) status = finish(&c, &made);
  for (size_t i = 0; i < c.count; ++i) tn_tensor_release(c.part[i].tensor);
  if (!status) *result = made;
  return status;
}
