/* Generators: what each random operator takes of a sequence, that calls never share any of it, and
 * that they go on where the last one ended. */
#include <pthread.h>

#include "tenon/plugin.h"
#include "tests/every_device.h"

static tn_runtime *rt;
static tn_device *dev;
static tn_generator *generator;
static void setup(void) {
  rt = open_host_runtime();
  dev = tn_runtime_device(rt);
  ok(tn_generator_create(rt, 42, &generator));
}
static void teardown(void) {
  tn_generator_destroy(generator);
  tn_runtime_close(rt);
}

static uint64_t offset_now(void) {
  uint64_t offset;
  ok(tn_generator_get_state(generator, NULL, &offset));
  return offset;
}

/* An operator that fills a tensor, by its number. */
typedef struct filler {
  uint32_t op;
  tn_dtype dtype;
  int numbers; /* of one counter */
} filler;
static const filler fillers[] = {
    {TN_OP_UNIFORM, TN_F32, 4},          {TN_OP_UNIFORM, TN_F16, 4},
    {TN_OP_UNIFORM, TN_F64, 2},          {TN_OP_NORMAL, TN_F32, 4},
    {TN_OP_NORMAL, TN_BF16, 4},          {TN_OP_NORMAL, TN_F64, 2},
    {TN_OP_BERNOULLI, TN_F32, 4},        {TN_OP_BERNOULLI, TN_BOOL, 4},
    {TN_OP_RANDINT, TN_I64, 2},          {TN_OP_RANDINT, TN_U8, 2},
    {TN_OP_TRUNCATED_NORMAL, TN_F32, 4}, {TN_OP_TRUNCATED_NORMAL, TN_F64, 2},
};
enum { FILLERS = sizeof fillers / sizeof *fillers };

/* Attributes of any of them. */
typedef union any_attrs {
  uint32_t struct_size;
  tn_uniform_attrs uniform;
  tn_normal_attrs normal;
  tn_bernoulli_attrs bernoulli;
  tn_randint_attrs randint;
  tn_truncated_normal_attrs truncated;
} any_attrs;

static any_attrs attrs_of(uint32_t op) {
  switch (op) {
  case TN_OP_UNIFORM:
    return (any_attrs){.uniform = TN_UNIFORM_DEFAULTS};
  case TN_OP_NORMAL:
    return (any_attrs){.normal = TN_NORMAL_DEFAULTS};
  case TN_OP_BERNOULLI:
    return (any_attrs){.bernoulli = TN_BERNOULLI_DEFAULTS};
  case TN_OP_RANDINT:
    return (any_attrs){.randint = TN_RANDINT_DEFAULTS};
  default:
    return (any_attrs){.truncated = TN_TRUNCATED_NORMAL_DEFAULTS};
  }
}

/* `count` elements drawn by the generator's next call, to bytes. */
static void draw(const filler *f, int64_t count, unsigned char *bytes) {
  any_attrs attrs = attrs_of(f->op);
  tn_tensor *y = shaped(dev, f->dtype, 1, &count);
  ok(tn_generator_next(generator, f->op, y, &attrs));
  const tn_call call = {
      .struct_size = sizeof call, .op = f->op, .out = &y, .num_out = 1, .attrs = &attrs};
  ok(tn_invoke(&call));
  ok(tn_tensor_to_host(y, bytes, tn_tensor_bytes(y)));
  tn_tensor_release(y);
}

/* Calls that end where a counter does are one long call, cut: nothing is drawn twice, and nothing
 * is left out. */
START_TEST(calls_go_on_where_the_last_ended) {
  const filler *f = &fillers[_i];
  unsigned char parts[8 * 200], whole[8 * 200];
  size_t size = tn_dtype_size(f->dtype);
  int64_t at = 0;
  for (int64_t count = f->numbers * 4; at < 192; at += count) {
    if (at + count > 192) count = 192 - at;
    draw(f, count, parts + (size_t)at * size);
  }
  uint64_t used = offset_now();
  ok(tn_generator_set_state(generator, 42, 0));
  draw(f, 192, whole);
  ck_assert_mem_eq(parts, whole, 192 * size);
  ck_assert_uint_eq(used, offset_now());
  ck_assert_uint_eq(used, 192 / (unsigned)f->numbers);
}
END_TEST

/* A call that ends inside a counter leaves the rest of it: the next begins at a fresh one. */
START_TEST(no_counter_is_used_twice) {
  const filler *f = &fillers[_i];
  unsigned char first[8 * 16], second[8 * 16], whole[8 * 64];
  size_t size = tn_dtype_size(f->dtype);
  for (int64_t count = 1; count <= 9; ++count) {
    ok(tn_generator_set_state(generator, 7, 0));
    draw(f, count, first);
    uint64_t used = offset_now();
    draw(f, count, second);
    ok(tn_generator_set_state(generator, 7, 0));
    draw(f, 64, whole);
    ck_assert_mem_eq(first, whole, (size_t)count * size);
    ck_assert_uint_ge(used * (uint64_t)f->numbers, (uint64_t)count);
    ck_assert_mem_eq(second, whole + used * (size_t)f->numbers * size, (size_t)count * size);
  }
  ok(tn_generator_set_state(generator, 7, 5));
  draw(f, 0, first);
  ck_assert_uint_eq(offset_now(), 5);
}
END_TEST

START_TEST(dropout_takes_counters_of_its_input) {
  for (int wide = 0; wide < 2; ++wide) {
    tn_tensor *x = NULL, *half = NULL, *y = NULL, *mask = NULL, *again = NULL, *whole = NULL;
    unsigned char kept[64], all[64];
    tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
    ok(tn_generator_set_state(generator, 9, 0));
    ok(tn_ones(dev, NULL, wide ? TN_F64 : TN_F32, 1, SHAPE(64), &x));
    ok(tn_tensor_slice(x, 0, 0, 32, 1, &half));
    ok(tn_generator_next(generator, TN_OP_DROPOUT, half, &attrs));
    ck_assert_uint_eq(offset_now(), wide ? 16 : 8);
    ok(tn_dropout(NULL, half, &attrs, &y, &mask));
    ok(tn_tensor_to_host(mask, kept, 32));
    tn_tensor_release(y);
    y = NULL;
    ok(tn_generator_next(generator, TN_OP_DROPOUT, half, &attrs));
    ok(tn_dropout(NULL, half, &attrs, &y, &again));
    ok(tn_tensor_to_host(again, kept + 32, 32));
    tn_tensor_release(y);
    y = NULL;
    ok(tn_generator_set_state(generator, 9, 0));
    ok(tn_generator_next(generator, TN_OP_DROPOUT, x, &attrs));
    ok(tn_dropout(NULL, x, &attrs, &y, &whole));
    ok(tn_tensor_to_host(whole, all, 64));
    ck_assert_mem_eq(kept, all, 32);
    if (!wide) ck_assert_mem_eq(kept, all, 64); /* a mask of float64 takes half of what it may */
    tn_tensor_release(x), tn_tensor_release(half), tn_tensor_release(y), tn_tensor_release(mask);
    tn_tensor_release(again), tn_tensor_release(whole);
  }
}
END_TEST

START_TEST(draws_by_weight_and_permutations) {
  tn_multinomial_attrs attrs = TN_MULTINOMIAL_DEFAULTS;
  attrs.samples = 3;
  tn_tensor *weights = NULL, *row = NULL, *y = NULL, *z = NULL;
  int64_t got[6], again[3];
  ok(tn_ones(dev, NULL, TN_F32, 2, SHAPE(2, 5), &weights));
  ok(tn_generator_next(generator, TN_OP_MULTINOMIAL, weights, &attrs));
  ck_assert_uint_eq(offset_now(), 3); /* six numbers, two a counter */
  ok(tn_multinomial(NULL, weights, &attrs, &y));
  ok(tn_tensor_to_host(y, got, sizeof got));
  /* The first row alone draws the same. */
  ok(tn_tensor_select(weights, 0, 0, &row));
  ok(tn_generator_set_state(generator, 42, 0));
  ok(tn_generator_next(generator, TN_OP_MULTINOMIAL, row, &attrs));
  ck_assert_uint_eq(offset_now(), 2);
  ok(tn_multinomial(NULL, row, &attrs, &z));
  ok(tn_tensor_to_host(z, again, sizeof again));
  ck_assert_mem_eq(got, again, sizeof again);
  tn_tensor *order = shaped(dev, TN_I32, 1, SHAPE(7));
  tn_randperm_attrs permute = TN_RANDPERM_DEFAULTS;
  ok(tn_generator_next(generator, TN_OP_RANDPERM, order, &permute));
  ck_assert_uint_eq(permute.offset, 2);
  ck_assert_uint_eq(permute.seed, 42);
  ck_assert_uint_eq(offset_now(), 6);
  tn_tensor_release(order), tn_tensor_release(weights), tn_tensor_release(row);
  tn_tensor_release(y), tn_tensor_release(z);
}
END_TEST

/* Whoever adds a random operator says here, in generator.c, what it takes. */
START_TEST(every_random_operator_is_known) {
  int known = 0;
  for (size_t i = 0; i < tn_op_count(rt); ++i) {
    const tn_operator *op = tn_op_at(rt, i);
    union {
      uint32_t struct_size;
      unsigned char bytes[512];
    } attrs = {0};
    tn_tensor *t = shaped(dev, TN_F32, 1, SHAPE(4));
    attrs.struct_size = op->attrs_size;
    bool random = op->flags & TN_OPERATOR_RANDOM;
    ck_assert_uint_le(op->attrs_size, sizeof attrs);
    tn_status status =
        op->attrs_size ? tn_generator_next(generator, op->id, t, &attrs) : TN_ERR_INVALID_ARGUMENT;
    ck_assert_msg(status == (random ? TN_OK : TN_ERR_INVALID_ARGUMENT), "tn_%s: %s", op->name,
                  tn_last_error());
    known += random;
    tn_tensor_release(t);
  }
  ck_assert_int_ge(known, 8);
}
END_TEST

START_TEST(state_is_kept_and_restored) {
  uint64_t seed, offset, first, second;
  ok(tn_generator_reserve(generator, 100, &seed, &first));
  ck_assert_uint_eq(first, 0);
  ok(tn_generator_get_state(generator, &seed, &offset));
  ck_assert(seed == 42 && offset == 100);
  ok(tn_generator_reserve(generator, 5, &seed, &first));
  ok(tn_generator_set_state(generator, seed, offset));
  ok(tn_generator_reserve(generator, 5, &seed, &second));
  ck_assert_uint_eq(first, second);
}
END_TEST

START_TEST(nonsense_is_refused) {
  tn_generator *none = NULL;
  tn_tensor *x = counting(dev, 4);
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  uint64_t seed, offset;
  refused(tn_generator_create(NULL, 1, &none), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_generator_create(rt, 1, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_generator_next(NULL, TN_OP_UNIFORM, x, &attrs), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_generator_next(generator, TN_OP_UNIFORM, NULL, &attrs), TN_ERR_INVALID_ARGUMENT,
          "NULL");
  refused(tn_generator_next(generator, TN_OP_UNIFORM, x, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_generator_next(generator, TN_OP_CAST, x, &cast), TN_ERR_INVALID_ARGUMENT,
          "tn_cast draws no random numbers");
  refused(tn_generator_next(generator, 4000000, x, &attrs), TN_ERR_NOT_FOUND, "4000000");
  attrs.struct_size = offsetof(tn_uniform_attrs, offset);
  refused(tn_generator_next(generator, TN_OP_UNIFORM, x, &attrs), TN_ERR_INVALID_ARGUMENT,
          "struct_size");
  ok(tn_generator_set_state(generator, 1, UINT64_MAX - 2));
  refused(tn_generator_reserve(generator, 3, &seed, &offset), TN_ERR_INVALID_ARGUMENT, "used up");
  ok(tn_generator_reserve(generator, 2, &seed, &offset));
  ck_assert_uint_eq(offset, UINT64_MAX - 2);
  refused(tn_generator_reserve(generator, 3, NULL, &offset), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_generator_destroy(NULL);
  tn_tensor_release(x);
}
END_TEST

START_TEST(it_outlives_its_runtime) {
  tn_runtime *other = open_host_runtime();
  tn_generator *g = NULL;
  uint64_t seed, offset;
  ok(tn_generator_create(other, 3, &g));
  tn_runtime_close(other);
  refused(tn_generator_reserve(g, 1, &seed, &offset), TN_ERR_CLOSED, "closed");
  refused(tn_generator_get_state(g, &seed, &offset), TN_ERR_CLOSED, "closed");
  tn_generator_destroy(g);
}
END_TEST

enum { THREADS = 4, CALLS = 20000 };
static void *reserve_many(void *arg) {
  uint64_t *offsets = arg, seed;
  for (int i = 0; i < CALLS; ++i)
    if (tn_generator_reserve(generator, 3, &seed, &offsets[i])) return generator;
  return NULL;
}

START_TEST(threads_never_share_a_counter) {
  static uint64_t offsets[THREADS][CALLS];
  static unsigned char seen[THREADS * CALLS];
  pthread_t threads[THREADS];
  for (int t = 0; t < THREADS; ++t) pthread_create(&threads[t], NULL, reserve_many, offsets[t]);
  for (int t = 0; t < THREADS; ++t) {
    void *failed;
    pthread_join(threads[t], &failed);
    ck_assert_ptr_null(failed);
  }
  for (int t = 0; t < THREADS; ++t)
    for (int i = 0; i < CALLS; ++i) {
      ck_assert_uint_eq(offsets[t][i] % 3, 0);
      ck_assert_int_eq(seen[offsets[t][i] / 3]++, 0);
    }
  ck_assert_uint_eq(offset_now(), 3 * THREADS * CALLS);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, calls_go_on_where_the_last_ended, 0, FILLERS);
  tcase_add_loop_test(t, no_counter_is_used_twice, 0, FILLERS);
  tcase_add_test(t, dropout_takes_counters_of_its_input);
  tcase_add_test(t, draws_by_weight_and_permutations);
  tcase_add_test(t, every_random_operator_is_known);
  tcase_add_test(t, state_is_kept_and_restored);
  tcase_add_test(t, nonsense_is_refused);
  tcase_add_test(t, it_outlives_its_runtime);
  tcase_add_test(t, threads_never_share_a_counter);
}

int main(void) { return run_suite("generator", add_tests); }
