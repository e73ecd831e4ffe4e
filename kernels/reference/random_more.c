/* Random ones, integers, bounded normal numbers, draws by weight and permutations. */
#include <math.h>
#include <stdlib.h>

#include "kernels.h"
#include "kernels/common/draws.h"
#include "kernels/common/scalars.h"
#include "map.h"

static void bernoulli_f64(const run *r, double *const *in, double *const *out) {
  const tn_bernoulli_attrs *attrs = r->attrs;
  uint64_t threshold = bernoulli_threshold(attrs->p);
  uint64_t seed = SCALAR_SEED(attrs, tn_bernoulli_attrs);
  uint64_t offset = SCALAR_OFFSET(attrs, tn_bernoulli_attrs);
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t element = (uint64_t)(r->first + i);
    philox_words words = philox_at(seed, offset + element / 4);
    out[0][i] = words.w[element % 4] < threshold;
  }
}

tn_status reference_bernoulli(const tn_kernel_args *args) { return map_f64(args, bernoulli_f64); }

static void randint_i64(const run *r, int64_t *const *in, int64_t *const *out) {
  const tn_randint_attrs *attrs = r->attrs;
  uint64_t span = (uint64_t)attrs->high - (uint64_t)attrs->low;
  uint64_t seed = SCALAR_SEED(attrs, tn_randint_attrs);
  uint64_t offset = SCALAR_OFFSET(attrs, tn_randint_attrs);
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t bits = philox_pair(seed, offset, (uint64_t)(r->first + i));
    out[0][i] = (int64_t)((uint64_t)attrs->low + draw_below(bits, span));
  }
}

tn_status reference_randint(const tn_kernel_args *args) { return map(args, NULL, randint_i64); }

/* The middle of the step of 2^-24, or 2^-53, that the words name. */
static double middle(uint64_t seed, uint64_t offset, uint64_t element, bool wide) {
  if (wide) return ((double)(philox_pair(seed, offset, element) >> 11) + 0.5) * 0x1p-53;
  philox_words words = philox_at(seed, offset + element / 4);
  return ((words.w[element % 4] >> 8) + 0.5) * 0x1p-24;
}

static void truncated_normal_f64(const run *r, double *const *in, double *const *out) {
  const tn_truncated_normal_attrs *attrs = r->attrs;
  truncated between = truncated_between(attrs->low, attrs->high);
  uint64_t seed = SCALAR_SEED(attrs, tn_truncated_normal_attrs);
  uint64_t offset = SCALAR_OFFSET(attrs, tn_truncated_normal_attrs);
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t element = (uint64_t)(r->first + i);
    double u = middle(seed, offset, element, r->dtype == TN_F64);
    out[0][i] = attrs->mean + attrs->std * truncated_at(&between, u);
  }
}

tn_status reference_truncated_normal(const tn_kernel_args *args) {
  return map_f64(args, truncated_normal_f64);
}

/* ------------------------------------------------------------- multinomial --- */

/* Weights as whole numbers; returns their sum. */
static uint64_t take_weights(int64_t n, const double *weights, uint64_t *units) {
  double greatest = 0;
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    if (weight_counts(weights[i]) && weights[i] > greatest) greatest = weights[i];
  int shift = greatest > 0 ? weight_shift(greatest, n) : 0;
  for (int64_t i = 0; i < n; ++i) sum += units[i] = weight_units(weights[i], shift);
  return sum;
}

/* The first place whose sum from 0 on is more than `at`. pre: at is less than the sum. */
static int64_t place_of(const uint64_t *units, uint64_t at) {
  int64_t i = 0;
  for (; at >= units[i]; ++i) at -= units[i];
  return i;
}

static void draw_row(const tn_multinomial_attrs *attrs, int64_t row, uint64_t sum, uint64_t *units,
                     int64_t *places) {
  uint64_t seed = SCALAR_SEED(attrs, tn_multinomial_attrs);
  uint64_t offset = SCALAR_OFFSET(attrs, tn_multinomial_attrs);
  for (int64_t k = 0; k < attrs->samples; ++k) {
    uint64_t number = (uint64_t)(row * attrs->samples + k);
    places[k] = -1;
    if (sum == 0) continue;
    places[k] = place_of(units, draw_below(philox_pair(seed, offset, number), sum));
    if (attrs->replacement) continue;
    sum -= units[places[k]];
    units[places[k]] = 0;
  }
}

/* The elements at item `item` of v's axes but the last. */
static view row_of(view v, int64_t item) {
  int order[1] = {v.ndim - 1};
  for (int a = v.ndim - 2; a >= 0; --a) {
    int64_t size = v.shape[a];
    v = view_slice(v, a, item % size, 1);
    item /= size;
  }
  return view_permute(v, 1, order);
}

tn_status reference_multinomial(const tn_kernel_args *args) {
  const tn_multinomial_attrs *attrs = args->attrs;
  view weights = view_of(args->in[0]), y = view_of(args->out[0]);
  int64_t n = weights.shape[weights.ndim - 1], count = view_count(&y), space;
  if (count == 0) return TN_OK;
  if (__builtin_add_overflow(2 * n, attrs->samples, &space)) space = -1;
  double *room = scratch_alloc(args->host, space);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  uint64_t *units = (uint64_t *)(void *)(room + n);
  int64_t *places = (int64_t *)(void *)(room + 2 * n);
  for (int64_t row = 0; row < count / attrs->samples; ++row) {
    view to = row_of(y, row);
    gather(row_of(weights, row), room);
    draw_row(attrs, row, take_weights(n, room, units), units, places);
    store_i64(TN_I64, to.data, to.stride[0], attrs->samples, places);
  }
  args->host->free(args->host, room);
  return TN_OK;
}

/* ---------------------------------------------------------------- randperm --- */

typedef struct keyed {
  uint64_t key;
  int64_t place;
} keyed;

static int by_key(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

tn_status reference_randperm(const tn_kernel_args *args) {
  const tn_randperm_attrs *attrs = args->attrs;
  view y = view_of(args->out[0]);
  int64_t n = y.shape[0];
  uint64_t seed = SCALAR_SEED(attrs, tn_randperm_attrs);
  uint64_t offset = SCALAR_OFFSET(attrs, tn_randperm_attrs);
  keyed *list = (keyed *)(void *)scratch_alloc(args->host, 2 * n);
  if (!list) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; ++i) list[i] = (keyed){philox_pair(seed, offset, (uint64_t)i), i};
  if (n > 1) qsort(list, (size_t)n, sizeof *list, by_key);
  for (int64_t i = 0; i < n; ++i)
    store_i64(y.dtype, view_at(&y, i * y.stride[0]), 1, 1, &list[i].place);
  args->host->free(args->host, list);
  return TN_OK;
}
