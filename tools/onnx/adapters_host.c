/*
 * ONNX's operators that are computed here, on numbers in host memory: where a run has to tell them,
 * the model runs node by node.
 */
#include "adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All numbers of input 0; NULL with c->cannot set where they are not known. Extended precision
 * holds 64-bit integers. */
static long double *numbers_of(onnx_node *c) {
  int64_t n = c->in[0].elements;
  bool whole = TN_SET(c->in[0].dtype) & TN_SET_BITS;
  long double *numbers = malloc(((size_t)n + 1) * sizeof *numbers);
  if (!numbers) return node_check(c, TN_ERR_OUT_OF_MEMORY), NULL;
  for (int64_t i = 0; i < n && !*c->cannot && !c->status; i++)
    numbers[i] = whole ? (long double)node_value(c, 0, i) : (long double)node_number(c, 0, i);
  if (!*c->cannot && !c->status) return numbers;
  free(numbers);
  return NULL;
}

/* --- Unique --- */

/* Entries of an axis, or elements, by their place; those that are equal get one group. */
typedef struct entries {
  const long double *numbers;
  int64_t count, before, after; /* entries; elements of axes before, and behind */
  int64_t *order, *group, *first, *times, *spare, groups; /* spare: of twice the room */
} entries;

static int compare_entries(const entries *e, int64_t a, int64_t b) {
  for (int64_t i = 0; i < e->before; i++)
    for (int64_t k = 0; k < e->after; k++) {
      long double x = e->numbers[(i * e->count + a) * e->after + k];
      long double y = e->numbers[(i * e->count + b) * e->after + k];
      if (x != y) return x < y ? -1 : 1;
    }
  return 0;
}

static _Thread_local const entries *sorted_entries; /* qsort passes nothing on */

static int by_numbers(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  int order = compare_entries(sorted_entries, x, y);
  return order ? order : (x > y) - (x < y);
}

/* Groups by rising numbers, or in the order in which they first come. */
static void group_entries(entries *e, bool rising) {
  for (int64_t i = 0; i < e->count; i++) e->order[i] = i;
  sorted_entries = e;
  qsort(e->order, (size_t)e->count, sizeof *e->order, by_numbers);
  for (int64_t i = 0; i < e->count; i++) {
    bool same = i && !compare_entries(e, e->order[i - 1], e->order[i]);
    if (!same) e->first[e->groups] = e->order[i], e->times[e->groups++] = 0;
    e->group[e->order[i]] = e->groups - 1;
    e->times[e->groups - 1]++;
  }
  if (rising) return;
  int64_t *as = e->order, next = 0; /* the new number of a group */
  int64_t *first = e->spare;
  for (int64_t i = 0; i < e->groups; i++) as[i] = -1;
  for (int64_t i = 0; i < e->count; i++) {
    int64_t old = e->group[i];
    if (as[old] < 0) {
      first[2 * next] = e->first[old], first[2 * next + 1] = e->times[old];
      as[old] = next++;
    }
    e->group[i] = as[old];
  }
  for (int64_t i = 0; i < e->groups; i++)
    e->first[i] = first[2 * i], e->times[i] = first[2 * i + 1];
}

static tn_status give_unique(onnx_node *c, const entries *e, int32_t axis, bool flat) {
  tn_tensor *first = node_from_host(c, TN_I64, 1, &e->groups, e->first);
  op_call k = call_begin(c, "gather");
  call_in(&k, flat ? node_reshape(c, c->x[0], 1, &c->in[0].elements) : c->x[0]);
  call_in(&k, first);
  call_set(&k, "axis", 0, flat ? 0 : axis);
  node_give(c, 0, node_made(&k));
  if (node_wants(c, 1)) node_give(c, 1, first);
  if (node_wants(c, 2)) node_give(c, 2, node_from_host(c, TN_I64, 1, &e->count, e->group));
  if (node_wants(c, 3)) node_give(c, 3, node_from_host(c, TN_I64, 1, &e->groups, e->times));
  return c->status;
}

static tn_status unique(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  bool flat = !node_has(c, "axis");
  int32_t axis = flat ? 0 : node_axis(c, node_int(c, "axis", 0), x->rank);
  entries e = {.count = flat ? x->elements : x->shape[axis], .before = 1, .after = 1};
  (void)op;
  for (int32_t i = 0; i < x->rank && !flat; i++)
    if (i != axis) *(i < axis ? &e.before : &e.after) *= x->shape[i];
  long double *numbers = numbers_of(c);
  int64_t *room = numbers ? malloc(6 * ((size_t)e.count + 1) * sizeof *room) : NULL;
  e.numbers = numbers;
  e.order = room;
  if (!room) {
    free(numbers);
    return c->status || *c->cannot ? c->status : TN_ERR_OUT_OF_MEMORY;
  }
  e.group = room + e.count, e.first = e.group + e.count, e.times = e.first + e.count;
  e.spare = e.times + e.count;
  group_entries(&e, node_int(c, "sorted", 1));
  tn_status status = give_unique(c, &e, axis, flat);
  free(room);
  free(numbers);
  return status;
}

/* --- Det --- */

/* Of one matrix, by elimination with the largest pivot; it is spent. */
static double determinant(long double *m, int64_t n) {
  long double product = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabsl(m[i * n + k]) > fabsl(m[best * n + k])) best = i;
    product *= best == k ? m[best * n + k] : -m[best * n + k];
    if (m[best * n + k] == 0) return 0;
    for (int64_t j = k; j < n && best != k; j++) {
      long double other = m[k * n + j];
      m[k * n + j] = m[best * n + j];
      m[best * n + j] = other;
    }
    for (int64_t i = k + 1; i < n; i++) {
      long double by = m[i * n + k] / m[k * n + k];
      for (int64_t j = k; j < n; j++) m[i * n + j] -= by * m[k * n + j];
    }
  }
  return (double)product;
}

static tn_status det(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  (void)op;
  if (x->rank < 2 || x->shape[x->rank - 1] != x->shape[x->rank - 2])
    return node_cannot(c, "the determinant of what is not square");
  int64_t n = x->shape[x->rank - 1], count = 1;
  for (int32_t i = 0; i < x->rank - 2; i++) count *= x->shape[i];
  long double *numbers = numbers_of(c);
  double *all = numbers ? malloc(((size_t)count + 1) * sizeof *all) : NULL;
  for (int64_t i = 0; all && i < count; i++) all[i] = determinant(numbers + i * n * n, n);
  tn_tensor *y = all ? node_from_host(c, TN_F64, x->rank - 2, x->shape, all) : NULL;
  free(all);
  free(numbers);
  return node_give(c, 0, node_cast(c, y, x->dtype));
}

const adapter_row adapters_host[] = {
    {"Det", det, NULL, 0, 0, NULL},
    {"Unique", unique, NULL, 0, 0, NULL},
    {0},
};
