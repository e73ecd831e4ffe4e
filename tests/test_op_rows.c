/*
 * What tenon/op_rows.h and the lists beside it say of operators is what the runtime's schema says:
 * numbers, element types as sets and one by one, which operators are elementwise or reductions.
 */
#include "tenon/op_rows.h" /* first, so that it is seen to need nothing before it */
#include "tenon/plugin.h"
#include "tests/support.h"

static tn_runtime *rt;

static void setup(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference",
                                .device = "reference",
                                .num_threads = 1};
  rt = open_runtime(&options);
}
static void teardown(void) { tn_runtime_close(rt), rt = NULL; }

static const tn_operator *schema_of(const char *name) {
  for (size_t i = 0; i < tn_op_count(rt); i++)
    if (strcmp(tn_op_at(rt, i)->name, name) == 0) return tn_op_at(rt, i);
  ck_abort_msg("no operator %s", name);
  return NULL;
}

#define BIT(seed, d, DTYPE) +TN_SET(TN_##DTYPE)
#define ONE(seed, d, DTYPE) +1

typedef struct printed_op {
  const char *name;
  uint32_t id;
  tn_dtype_set types[TN_MAX_TYPE_VARS + 1]; /* one more, to see that there are not too many */
  tn_dtype_set one_by_one;                  /* a sum: a type that came twice is another bit */
  int count;
} printed_op;

static const printed_op printed[] = {
#define OP(number, op, NAME, ...)                                                                  \
  {#op, TN_OP_##op, {TN_TYPES_##op}, 0 TN_EACH_TYPE_##op(BIT, ), 0 TN_EACH_TYPE_##op(ONE, )},
#include "ops.def"
};
enum { PRINTED = sizeof printed / sizeof *printed };

START_TEST(types_are_the_schemas) {
  ck_assert_uint_eq(PRINTED, tn_op_count(rt));
  for (int i = 0; i < PRINTED; i++) {
    const printed_op *p = &printed[i];
    const tn_operator *op = schema_of(p->name);
    ck_assert_uint_eq(p->id, op->id);
    for (int v = 0; v < TN_MAX_TYPE_VARS; v++)
      ck_assert_msg(p->types[v] == op->types[v], "%s: type variable %d", p->name, v);
    ck_assert_uint_eq(p->types[TN_MAX_TYPE_VARS], 0);
    ck_assert_msg(p->one_by_one == op->types[0], "%s: one by one", p->name);
    ck_assert_int_eq(p->count, __builtin_popcount(op->types[0]));
  }
}
END_TEST

START_TEST(elementwise_operators_are_all_there) {
  static const char *const listed[] = {
#define TN_ELEMENTWISE(op) #op,
#include "tenon/elementwise.def"
  };
  size_t at = 0, num_listed = sizeof listed / sizeof *listed;
  for (size_t i = 0; i < tn_op_count(rt); i++) {
    const tn_operator *op = tn_op_at(rt, i);
    if (!(op->flags & TN_OPERATOR_ELEMENTWISE) || op->flags & TN_OPERATOR_RANDOM) continue;
    ck_assert_msg(at < num_listed && strcmp(listed[at], op->name) == 0, "%s", op->name);
    at++;
  }
  ck_assert_uint_eq(at, num_listed);
}
END_TEST

START_TEST(reductions_are_all_there) {
  static const char *const listed[] = {
#define TN_REDUCTION(op) #op,
#include "tenon/reductions.def"
  };
  size_t at = 0, num_listed = sizeof listed / sizeof *listed;
  for (size_t i = 0; i < tn_op_count(rt); i++) {
    const tn_operator *op = tn_op_at(rt, i);
    if (op->shape != TN_SHAPE_REDUCE) continue;
    ck_assert_msg(at < num_listed && strcmp(listed[at], op->name) == 0, "%s", op->name);
    at++;
  }
  ck_assert_uint_eq(at, num_listed);
}
END_TEST

START_TEST(elementwise_operators_can_be_left_out) {
  static const char *const listed[] = {
#define TN_ELEMENTWISE(op) #op,
#define TN_WITHOUT_add
#define TN_WITHOUT_exp
#include "tenon/elementwise.def"
  };
  static const char *const all[] = {
#define TN_ELEMENTWISE(op) #op,
#include "tenon/elementwise.def" /* nothing of the above is left defined */
  };
  ck_assert_uint_eq(sizeof listed / sizeof *listed + 2, sizeof all / sizeof *all);
  for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
    ck_assert(strcmp(listed[i], "add") != 0 && strcmp(listed[i], "exp") != 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, types_are_the_schemas);
  tcase_add_test(t, elementwise_operators_are_all_there);
  tcase_add_test(t, reductions_are_all_there);
  tcase_add_test(t, elementwise_operators_can_be_left_out);
}

int main(void) { return run_suite("op_rows", add_tests); }
