/*
 * Shape rules as pure functions: every rule's good answers against sizes worked out by
 * hand, its refusals, and sizes that would overflow.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/registry/schema.h"
#include "dispatcher/shape/shape.h"
#include "tests/suite.h"

static const tn_operator *row(uint32_t id) {
  for (size_t i = 0; i < builtin_operator_count; ++i)
    if (builtin_operators[i].id == id) return &builtin_operators[i];
  ck_abort_msg("no operator %u", id);
}

typedef struct dims {
  int32_t rank;
  int64_t dim[TN_MAX_RANK];
} dims;
#define D(...) ((dims){(int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), {__VA_ARGS__}})
static const dims scalar = {0, {0}};
static const dims absent = {-1, {0}};

static tn_status infer(uint32_t op, const void *attrs, const dims *in, uint32_t num_in,
                       extents *out) {
  DLTensor tensors[4];
  const DLTensor *pointers[4] = {NULL};
  for (uint32_t i = 0; i < num_in; ++i) {
    tensors[i] = (DLTensor){.ndim = in[i].rank, .shape = (int64_t *)in[i].dim};
    pointers[i] = in[i].rank < 0 ? NULL : &tensors[i];
  }
  shape_query q = {.op = row(op), .in = pointers, .num_in = num_in, .attrs = attrs};
  return shape_infer(&q, out, 1);
}

#define GIVES(op, attrs, want, ...)                                                                \
  do {                                                                                             \
    extents got_;                                                                                  \
    dims in_[] = {__VA_ARGS__};                                                                    \
    ck_assert_msg(infer(op, attrs, in_, sizeof in_ / sizeof *in_, &got_) == TN_OK, "%s",           \
                  tn_last_error());                                                                \
    ck_assert_int_eq(got_.rank, (want).rank);                                                      \
    for (int i_ = 0; i_ < got_.rank; ++i_) ck_assert_int_eq(got_.dim[i_], (want).dim[i_]);         \
  } while (0)

#define REFUSES(op, attrs, words, ...)                                                             \
  do {                                                                                             \
    extents got_;                                                                                  \
    dims in_[] = {__VA_ARGS__};                                                                    \
    ck_assert_int_eq(infer(op, attrs, in_, sizeof in_ / sizeof *in_, &got_),                       \
                     TN_ERR_INVALID_ARGUMENT);                                                     \
    ck_assert_msg(strstr(tn_last_error(), words), "'%s' not in '%s'", words, tn_last_error());     \
  } while (0)

START_TEST(broadcasting) {
  GIVES(TN_OP_ADD, NULL, D(2, 3), D(2, 3), D(2, 3));
  GIVES(TN_OP_ADD, NULL, D(2, 3), D(2, 1), D(3));
  GIVES(TN_OP_ADD, NULL, D(4, 2, 3), D(2, 3), D(4, 1, 1));
  GIVES(TN_OP_ADD, NULL, D(0), D(0), D(1));
  GIVES(TN_OP_ADD, NULL, D(2, 0), D(2, 1), D(0));
  GIVES(TN_OP_ADD, NULL, scalar, scalar, scalar);
  GIVES(TN_OP_ADD, NULL, D(7), scalar, D(7));
  REFUSES(TN_OP_ADD, NULL, "[2] and [3]", D(2), D(3));
  REFUSES(TN_OP_ADD, NULL, "tn_add", D(0), D(2));
}
END_TEST

START_TEST(reductions) {
  tn_sum_attrs a = TN_SUM_DEFAULTS;
  GIVES(TN_OP_SUM, &a, scalar, D(2, 3));
  GIVES(TN_OP_SUM, &a, scalar, scalar);
  a.keepdims = 1;
  GIVES(TN_OP_SUM, &a, D(1, 1), D(2, 3));
  a.axes = (tn_axes){2, {-1, 0}};
  GIVES(TN_OP_SUM, &a, D(1, 3, 1), D(2, 3, 4));
  a.keepdims = 0;
  GIVES(TN_OP_SUM, &a, D(3), D(2, 3, 4));
  GIVES(TN_OP_MAX, &a, D(0), D(2, 0, 4));
  REFUSES(TN_OP_MAX, &a, "no elements", D(0, 3, 4));
  REFUSES(TN_OP_SUM, &a, "does not have", scalar);
  a.axes = (tn_axes){2, {1, -2}};
  REFUSES(TN_OP_SUM, &a, "twice", D(2, 3, 4));
  a.axes.count = 9;
  REFUSES(TN_OP_SUM, &a, "out of range", D(2, 3, 4));
  a.axes.count = -1;
  REFUSES(TN_OP_SUM, &a, "out of range", D(2, 3, 4));
  tn_argmax_attrs m = TN_ARGMAX_DEFAULTS;
  GIVES(TN_OP_ARGMAX, &m, D(2), D(2, 3));
  m.axis = 0, m.keepdims = 1;
  GIVES(TN_OP_ARGMAX, &m, D(1, 3), D(2, 3));
  REFUSES(TN_OP_ARGMAX, &m, "no elements", D(0, 3));
  m.axis = INT64_MIN;
  REFUSES(TN_OP_ARGMAX, &m, "not an axis", D(2, 3));
  m.axis = 0;
  REFUSES(TN_OP_ARGMAX, &m, "not an axis", scalar);
}
END_TEST

START_TEST(products) {
  tn_matmul_attrs a = TN_MATMUL_DEFAULTS;
  GIVES(TN_OP_MATMUL, &a, D(2, 4), D(2, 3), D(3, 4), absent);
  GIVES(TN_OP_MATMUL, &a, D(5, 6, 2, 4), D(5, 1, 2, 3), D(6, 3, 4), D(4));
  GIVES(TN_OP_MATMUL, &a, D(2, 4), D(2, 0), D(0, 4), absent);
  REFUSES(TN_OP_MATMUL, &a, "must be equal", D(2, 3), D(4, 4), absent);
  REFUSES(TN_OP_MATMUL, &a, "at least 2", D(3), D(3, 4), absent);
  REFUSES(TN_OP_MATMUL, &a, "bias", D(2, 3), D(3, 4), D(3));
  REFUSES(TN_OP_MATMUL, &a, "batch", D(2, 2, 3), D(3, 3, 4), absent);
  a.trans_a = a.trans_b = 1;
  GIVES(TN_OP_MATMUL, &a, D(2, 4), D(3, 2), D(4, 3), absent);
}
END_TEST

START_TEST(convolutions) {
  tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
  GIVES(TN_OP_CONV2D, &a, D(8, 32, 26, 26), D(8, 1, 28, 28), D(32, 1, 3, 3), D(32));
  a.stride[0] = 2, a.padding[1] = 1, a.dilation[1] = 2;
  GIVES(TN_OP_CONV2D, &a, D(1, 4, 4, 8), D(1, 2, 9, 10), D(4, 2, 3, 3), absent);
  a.groups = 2;
  GIVES(TN_OP_CONV2D, &a, D(1, 4, 4, 8), D(1, 2, 9, 10), D(4, 1, 3, 3), absent);
  REFUSES(TN_OP_CONV2D, &a, "groups", D(1, 3, 9, 9), D(4, 1, 3, 3), absent);
  REFUSES(TN_OP_CONV2D, &a, "groups", D(1, 2, 9, 9), D(3, 1, 3, 3), absent);
  REFUSES(TN_OP_CONV2D, &a, "does not fit", D(1, 2, 2, 9), D(4, 1, 3, 3), absent);
  REFUSES(TN_OP_CONV2D, &a, "does not fit", D(1, 2, 9, 9), D(4, 1, 0, 3), absent);
  a.groups = 0;
  REFUSES(TN_OP_CONV2D, &a, "attrs->groups", D(1, 2, 9, 9), D(4, 1, 3, 3), absent);
  a.groups = INT64_MAX;
  REFUSES(TN_OP_CONV2D, &a, "groups", D(1, 2, 9, 9), D(4, 3, 3, 3), absent);
  a = (tn_conv2d_attrs)TN_CONV2D_DEFAULTS;
  a.padding[0] = INT64_MAX;
  REFUSES(TN_OP_CONV2D, &a, "does not fit", D(1, 2, 9, 9), D(4, 2, 3, 3), absent);
  a.padding[0] = 0, a.dilation[0] = INT64_MAX;
  REFUSES(TN_OP_CONV2D, &a, "does not fit", D(1, 2, 9, 9), D(4, 2, 3, 3), absent);
  a.dilation[0] = 1, a.stride[1] = 0;
  REFUSES(TN_OP_CONV2D, &a, "at least 1", D(1, 2, 9, 9), D(4, 2, 3, 3), absent);
}
END_TEST

/* Kernels add steps to places: what they cannot add up never gets to them. */
START_TEST(absurd_steps_of_windows) {
  for (int i = 0; i < 2; i++) {
    tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
    a.stride[i] = INT64_MAX;
    REFUSES(TN_OP_CONV2D, &a, "2^31", D(1, 2, 9, 9), D(4, 2, 3, 3), absent);
    a.stride[i] = (int64_t)INT32_MAX + 1;
    REFUSES(TN_OP_CONV2D, &a, "2^31", D(1, 2, 9, 9), D(4, 2, 3, 3), absent);
    a.stride[i] = INT32_MAX;
    GIVES(TN_OP_CONV2D, &a, D(1, 4, i == 0 ? 1 : 7, i == 0 ? 7 : 1), D(1, 2, 9, 9), D(4, 2, 3, 3),
          absent);
    a.stride[i] = 1, a.dilation[i] = INT64_MAX;
    REFUSES(TN_OP_CONV2D, &a, "2^31", D(1, 2, 9, 9), D(4, 2, 1, 1), absent);
    tn_conv_transpose2d_attrs t = TN_CONV_TRANSPOSE2D_DEFAULTS;
    t.stride[i] = INT64_MAX;
    REFUSES(TN_OP_CONV_TRANSPOSE2D, &t, "2^31", D(1, 2, 1, 1), D(2, 4, 3, 3), absent);
  }
}
END_TEST

START_TEST(groups_of_no_channel) {
  tn_group_norm_attrs a = TN_GROUP_NORM_DEFAULTS;
  a.groups = (int64_t)1 << 31;
  REFUSES(TN_OP_GROUP_NORM, &a, "no channel", D(1, 0, 4), absent, absent);
}
END_TEST

START_TEST(convolution_gradients) {
  tn_conv2d_grad_input_attrs i = TN_CONV2D_GRAD_INPUT_DEFAULTS;
  i.size[0] = i.size[1] = 28;
  GIVES(TN_OP_CONV2D_GRAD_INPUT, &i, D(8, 2, 28, 28), D(8, 4, 26, 26), D(4, 2, 3, 3));
  i.stride[0] = i.stride[1] = 2; /* 27 and 28 both give 13 windows */
  GIVES(TN_OP_CONV2D_GRAD_INPUT, &i, D(8, 2, 28, 28), D(8, 4, 13, 13), D(4, 2, 3, 3));
  i.size[0] = 30;
  REFUSES(TN_OP_CONV2D_GRAD_INPUT, &i, "not what the convolution makes", D(8, 4, 13, 13),
          D(4, 2, 3, 3));
  i.size[0] = -1;
  REFUSES(TN_OP_CONV2D_GRAD_INPUT, &i, "attrs->size", D(8, 4, 13, 13), D(4, 2, 3, 3));
  tn_conv2d_grad_weight_attrs w = TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  w.kernel[0] = 3, w.kernel[1] = 5, w.groups = 2;
  GIVES(TN_OP_CONV2D_GRAD_WEIGHT, &w, D(4, 1, 3, 5), D(8, 4, 7, 5), D(8, 2, 9, 9));
  REFUSES(TN_OP_CONV2D_GRAD_WEIGHT, &w, "divide", D(8, 4, 7, 5), D(8, 3, 9, 9));
  REFUSES(TN_OP_CONV2D_GRAD_WEIGHT, &w, "not what", D(8, 4, 7, 7), D(8, 2, 9, 9));
}
END_TEST

START_TEST(pooling) {
  tn_max_pool2d_attrs a = TN_MAX_POOL2D_DEFAULTS;
  GIVES(TN_OP_MAX_POOL2D, &a, D(2, 3, 4, 4), D(2, 3, 8, 9));
  a.kernel[0] = 3, a.stride[0] = 1, a.padding[0] = 1;
  GIVES(TN_OP_MAX_POOL2D, &a, D(2, 3, 8, 4), D(2, 3, 8, 9));
  a.padding[0] = 2;
  REFUSES(TN_OP_MAX_POOL2D, &a, "half the kernel", D(2, 3, 8, 9));
  a.padding[0] = 0, a.kernel[0] = 0;
  REFUSES(TN_OP_MAX_POOL2D, &a, "at least 1", D(2, 3, 8, 9));
  a.kernel[0] = 9;
  REFUSES(TN_OP_MAX_POOL2D, &a, "does not fit", D(2, 3, 8, 9));
  REFUSES(TN_OP_MAX_POOL2D, &a, "4 axes", D(3, 8, 9));
  a.kernel[0] = 1;
  REFUSES(TN_OP_MAX_POOL2D, &a, "2^31", D(1, 1, 1 << 20, 1 << 20));
  tn_max_pool2d_grad_attrs g = TN_MAX_POOL2D_GRAD_DEFAULTS;
  g.size[0] = 8, g.size[1] = 9;
  GIVES(TN_OP_MAX_POOL2D_GRAD, &g, D(2, 3, 8, 9), D(2, 3, 4, 4), D(2, 3, 4, 4));
  REFUSES(TN_OP_MAX_POOL2D_GRAD, &g, "index", D(2, 3, 4, 4), D(2, 3, 4, 5));
  g.size[0] = 20;
  REFUSES(TN_OP_MAX_POOL2D_GRAD, &g, "attrs->size", D(2, 3, 4, 4), D(2, 3, 4, 4));
}
END_TEST

START_TEST(losses_and_softmax) {
  tn_nll_loss_attrs a = TN_NLL_LOSS_DEFAULTS;
  GIVES(TN_OP_NLL_LOSS, &a, scalar, D(4, 10), D(4));
  a.reduction = TN_REDUCTION_NONE;
  GIVES(TN_OP_NLL_LOSS, &a, D(4, 5), D(4, 10, 5), D(4, 5));
  GIVES(TN_OP_NLL_LOSS_GRAD, &a, D(4, 10, 5), D(4, 5), D(4, 10, 5), D(4, 5));
  REFUSES(TN_OP_NLL_LOSS_GRAD, &a, "target's shape", scalar, D(4, 10), D(4));
  REFUSES(TN_OP_NLL_LOSS, &a, "[n, c, ...]", D(4, 10), D(5));
  REFUSES(TN_OP_NLL_LOSS, &a, "[n, c, ...]", D(4), D(4));
  a.reduction = 3;
  REFUSES(TN_OP_NLL_LOSS, &a, "tn_reduction", D(4, 10), D(4));
  a.reduction = TN_REDUCTION_SUM;
  REFUSES(TN_OP_NLL_LOSS_GRAD, &a, "scalar", D(4), D(4, 10), D(4));
  tn_softmax_attrs s = TN_SOFTMAX_DEFAULTS;
  GIVES(TN_OP_SOFTMAX, &s, D(2, 3), D(2, 3));
  REFUSES(TN_OP_SOFTMAX, &s, "axis", scalar);
  REFUSES(TN_OP_SOFTMAX_GRAD, &s, "equal", D(2, 3), D(3, 2));
}
END_TEST

START_TEST(element_counts_do_not_overflow) {
  int64_t n;
  ck_assert(shape_elements(2, (int64_t[]){1 << 30, 1 << 30}, 4, &n) && n == (int64_t)1 << 60);
  ck_assert(!shape_elements(2, (int64_t[]){1 << 30, 1 << 30}, 8, &n));
  ck_assert(!shape_elements(3, (int64_t[]){1 << 30, 1 << 30, 1 << 30}, 1, &n));
  /* Beside a 0 too, wherever it stands. */
  ck_assert(!shape_elements(3, (int64_t[]){INT64_MAX, INT64_MAX, 0}, 8, &n));
  ck_assert(!shape_elements(3, (int64_t[]){0, (int64_t)1 << 40, (int64_t)1 << 40}, 1, &n));
  ck_assert(!shape_elements(2, (int64_t[]){0, INT64_MAX}, 1, &n));
  ck_assert(shape_elements(2, (int64_t[]){0, (int64_t)1 << 62}, 1, &n) && n == 0);
  ck_assert(shape_elements(0, NULL, 8, &n) && n == 1);
}
END_TEST

START_TEST(the_table_is_sound) {
  const tn_operator *op = &builtin_operators[_i];
  ck_assert_uint_eq(op->struct_size, sizeof *op);
  for (int i = 0; i < _i; ++i) /* a family's rows stand together, whatever their numbers */
    ck_assert_msg(builtin_operators[i].id != op->id, "%s: its id is taken", op->name);
  ck_assert_uint_lt(op->id, 1024);
  ck_assert_msg(op->doc && op->doc[strlen(op->doc) - 1] == '.', "%s: doc", op->name);
  ck_assert_msg(op->maths && op->maths[0], "%s: maths", op->name);
  ck_assert_uint_gt(op->types[0], 0);
  ck_assert_uint_lt(op->shape, TN_SHAPE_RULES);
  ck_assert_uint_ne(op->shape, TN_SHAPE_CUSTOM);
  ck_assert_uint_le(op->num_args, TN_MAX_ARGS);
  for (uint32_t i = 1; i < op->num_args; ++i)
    ck_assert_msg(op->args[i].doc[0] &&
                      (op->args[i].kind + 1) / 2 >= (op->args[i - 1].kind + 1) / 2,
                  "%s: arguments come as inputs, in-out, outputs", op->name);
  for (uint32_t i = 0; i < op->num_attrs; ++i)
    ck_assert_uint_lt(op->attrs[i].offset, op->attrs_size);
}
END_TEST

/* Where axes_of_rules says that axes stand, and nowhere else. */
START_TEST(the_table_of_axes_is_whole) {
  const tn_operator *op = &builtin_operators[_i];
  const shape_axes *axes = &axes_of_rules[op->shape];
  bool found = false;
  for (uint32_t i = 0; i < op->num_attrs; ++i) {
    const tn_attr *a = &op->attrs[i];
    bool one = a->type == TN_ATTR_I64 && strcmp(a->name, "axis") == 0;
    if (!one && a->type != TN_ATTR_AXES) continue;
    ck_assert_msg(axes->offset == a->offset && axes->listed == !one,
                  "%s: attrs->%s is not in axes_of_rules", op->name, a->name);
    found = true;
  }
  ck_assert_msg(found == (axes->offset != 0), "%s: axes_of_rules names what is no axis", op->name);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, broadcasting);
  tcase_add_test(t, reductions);
  tcase_add_test(t, products);
  tcase_add_test(t, convolutions);
  tcase_add_test(t, absurd_steps_of_windows);
  tcase_add_test(t, groups_of_no_channel);
  tcase_add_test(t, convolution_gradients);
  tcase_add_test(t, pooling);
  tcase_add_test(t, losses_and_softmax);
  tcase_add_test(t, element_counts_do_not_overflow);
  tcase_add_loop_test(t, the_table_is_sound, 0, (int)builtin_operator_count);
  tcase_add_loop_test(t, the_table_of_axes_is_whole, 0, (int)builtin_operator_count);
}

int main(void) { return run_suite("shape", add_tests); }
