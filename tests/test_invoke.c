/*
 * Operator calls: what validation refuses and leaves alone, aliasing, optional
 * arguments, attributes of other versions, prepared calls.
 */
#include <stdio.h>

#include "tenon/plugin.h"
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;
static void setup(void) { rt = open_runtime(NULL), dev = tn_runtime_device(rt); }
static void teardown(void) { tn_runtime_close(rt); }

static void expect_counting(const tn_tensor *t, float factor) {
  float got[16];
  int64_t n = tn_tensor_elements(t);
  ok(tn_tensor_to_host(t, got, (size_t)n * 4));
  for (int64_t i = 0; i < n; ++i) ck_assert(got[i] == factor * (float)(i + 1));
}

START_TEST(refusals_name_operator_tensors_and_remedy) {
  tn_tensor *a = counting(dev, 3), *b = counting(dev, 4), *i = NULL, *y = NULL;
  ok(tn_tensor_empty(dev, TN_I32, 1, SHAPE(3), &i));
  refused(tn_add(NULL, a, b, &y), TN_ERR_INVALID_ARGUMENT, "tn_add: the shapes do not broadcast");
  refused(tn_add(NULL, a, NULL, &y), TN_ERR_INVALID_ARGUMENT, "b is NULL");
  refused(tn_add(NULL, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, "every tensor is NULL");
  refused(tn_add(NULL, a, a, NULL), TN_ERR_INVALID_ARGUMENT, "result pointer");
  refused(tn_add(NULL, a, i, &y), TN_ERR_INVALID_ARGUMENT, "use tn_cast");
  refused(tn_exp(NULL, i, &y), TN_ERR_INVALID_ARGUMENT, "does not take i32");
  ck_assert_ptr_null(y);
  y = b;
  refused(tn_add(NULL, a, a, &y), TN_ERR_INVALID_ARGUMENT, "y must have shape [3]");
  y = i;
  refused(tn_add(NULL, a, a, &y), TN_ERR_INVALID_ARGUMENT, "y is i32 where f32");
  expect_counting(b, 1);
  tn_tensor_release(i);
  tn_tensor_release(b);
  tn_tensor_release(a);
}
END_TEST

START_TEST(aliasing_is_exact_or_refused) {
  tn_tensor *x = counting(dev, 8), *head = NULL, *tail = NULL, *y;
  ok(tn_tensor_slice(x, 0, 0, 4, 1, &head));
  ok(tn_tensor_slice(x, 0, 2, 6, 1, &tail));
  y = tail;
  refused(tn_add(NULL, head, head, &y), TN_ERR_INVALID_ARGUMENT, "y overlaps a");
  expect_counting(x, 1);
  y = x;
  ok(tn_add(NULL, x, x, &y));
  expect_counting(x, 2);
  tn_tensor *wide = NULL, *one = NULL;
  ok(tn_tensor_slice(x, 0, 0, 1, 1, &one));
  ok(tn_tensor_expand(one, 1, SHAPE(4), &wide));
  y = wide;
  refused(tn_add(NULL, tail, tail, &y), TN_ERR_INVALID_ARGUMENT, "several places");
  tn_tensor *square = NULL;
  ok(tn_tensor_reshape(head, 2, SHAPE(2, 2), &square));
  y = square;
  refused(tn_matmul(NULL, square, square, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, "overlaps");
  tn_tensor_release(square);
  tn_tensor_release(wide);
  tn_tensor_release(one);
  tn_tensor_release(tail);
  tn_tensor_release(head);
  tn_tensor_release(x);
}
END_TEST

START_TEST(interleaved_views_are_apart) {
  tn_tensor *x = counting(dev, 8), *even = NULL, *odd = NULL, *third = NULL;
  ok(tn_tensor_slice(x, 0, 0, 8, 2, &even));
  ok(tn_tensor_slice(x, 0, 1, 8, 2, &odd));
  ok(tn_tensor_slice(x, 0, 0, 8, 3, &third)); /* meets both */
  ok(tn_neg(NULL, even, &odd));
  float got[8];
  ok(tn_tensor_to_host(x, got, sizeof got));
  for (int i = 0; i < 8; ++i) ck_assert(got[i] == (float)(i % 2 ? -i : i + 1));
  tn_tensor *half = NULL;
  ok(tn_tensor_slice(odd, 0, 0, 3, 1, &half));
  refused(tn_neg(NULL, third, &half), TN_ERR_INVALID_ARGUMENT, "y overlaps x");
  tn_multi_sgd_attrs sgd = TN_MULTI_SGD_DEFAULTS; /* a list: parameters and velocity in one */
  tn_tensor *params[2] = {odd, counting(dev, 2)}, *velocity[2] = {even, counting(dev, 2)};
  tn_tensor *four = counting(dev, 4), *two = counting(dev, 2);
  const tn_tensor *grads[2] = {four, two};
  ok(tn_multi_sgd(NULL, grads, params, velocity, 2, &sgd));
  grads[0] = even;
  refused(tn_multi_sgd(NULL, grads, params, velocity, 2, &sgd), TN_ERR_INVALID_ARGUMENT,
          "velocity[0] overlaps grads[0]");
  tn_tensor *all[] = {two, four, params[1], velocity[1], half, third, odd, even, x};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

/* The gradients of q, k and v as parts of one tensor, as they go on to one projection. */
START_TEST(packed_gradients) {
  const int64_t shape[4] = {2, 3, 5, 4};
  tn_tensor *packed = shaped(dev, TN_F32, 4, SHAPE(2, 3, 5, 12)), *part[3], *apart[3] = {NULL};
  tn_tensor *x = NULL, *y = NULL, *lse = NULL;
  float values[120];
  for (int i = 0; i < 120; ++i) values[i] = (float)(i * 37 % 101) / 101;
  ok(tn_tensor_from_host(dev, TN_F32, 4, shape, values, &x));
  ok(tn_tensor_split(packed, 3, 3, NULL, part));
  ok(tn_scaled_dot_product_attention(NULL, x, x, x, NULL, NULL, NULL, &y, &lse));
  ok(tn_scaled_dot_product_attention_grad(NULL, y, x, x, x, y, lse, NULL, NULL, NULL, &apart[0],
                                          &apart[1], &apart[2]));
  ok(tn_scaled_dot_product_attention_grad(NULL, y, x, x, x, y, lse, NULL, NULL, NULL, &part[0],
                                          &part[1], &part[2]));
  float got[120], want[120];
  for (int i = 0; i < 3; ++i) {
    ok(tn_tensor_to_host(part[i], got, sizeof got));
    ok(tn_tensor_to_host(apart[i], want, sizeof want));
    for (int k = 0; k < 120; ++k) ck_assert_float_eq_tol(got[k], want[k], 1e-6f);
    tn_tensor_release(apart[i]);
    tn_tensor_release(part[i]);
  }
  tn_tensor *all[] = {lse, y, x, packed};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

START_TEST(broadcasting_into_strided_outputs) {
  tn_tensor *col = NULL, *flat = counting(dev, 2), *row = counting(dev, 3), *y = NULL;
  tn_tensor *store = shaped(dev, TN_F32, 2, SHAPE(3, 2));
  float got[6];
  ok(tn_tensor_reshape(flat, 2, SHAPE(2, 1), &col));
  ok(tn_tensor_permute(store, (int32_t[]){1, 0}, &y));
  ok(tn_mul(NULL, col, row, &y));
  ok(tn_tensor_to_host(y, got, sizeof got));
  const float want[6] = {1, 2, 3, 2, 4, 6};
  ck_assert_mem_eq(got, want, sizeof want);
  ok(tn_tensor_to_host(store, got, sizeof got));
  const float stored[6] = {1, 2, 2, 4, 3, 6};
  ck_assert_mem_eq(got, stored, sizeof stored);
  tn_tensor_release(y);
  tn_tensor_release(store);
  tn_tensor_release(row);
  tn_tensor_release(flat);
  tn_tensor_release(col);
}
END_TEST

START_TEST(optional_arguments_may_be_absent) {
  tn_tensor *flat = counting(dev, 4), *x = NULL, *y = NULL, *index = NULL, *w = NULL;
  ok(tn_tensor_reshape(flat, 4, SHAPE(1, 1, 2, 2), &x));
  ok(tn_max_pool2d(NULL, x, NULL, &y, NULL));
  float top;
  ok(tn_tensor_to_host(y, &top, sizeof top));
  ck_assert(top == 4);
  tn_tensor_release(y), y = NULL;
  ok(tn_max_pool2d(NULL, x, NULL, &y, &index));
  int32_t at;
  ok(tn_tensor_to_host(index, &at, sizeof at));
  ck_assert_int_eq(at, 3);
  tn_tensor_release(y), y = NULL;
  ok(tn_tensor_reshape(flat, 4, SHAPE(4, 1, 1, 1), &w));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &y));
  ck_assert_int_eq(tn_tensor_elements(y), 16);
  tn_tensor_release(w);
  tn_tensor_release(index);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(flat);
}
END_TEST

START_TEST(attributes_of_other_versions) {
  tn_tensor *flat = counting(dev, 6), *x = NULL, *y = NULL;
  ok(tn_tensor_reshape(flat, 2, SHAPE(2, 3), &x));
  /* From the past: keepdims did not exist yet. */
  struct {
    uint32_t struct_size;
    tn_axes axes;
  } past = {sizeof past, {1, {1}}};
  ok(tn_sum(NULL, x, (const tn_sum_attrs *)(const void *)&past, &y));
  ck_assert_int_eq(tn_tensor_rank(y), 1);
  tn_tensor_release(y), y = NULL;
  /* From the future: an unknown field, harmless while it is zero. */
  struct {
    tn_sum_attrs known;
    uint32_t fancy;
  } future = {TN_SUM_DEFAULTS, 0};
  future.known.struct_size = sizeof future;
  ok(tn_sum(NULL, x, &future.known, &y));
  tn_tensor_release(y), y = NULL;
  future.fancy = 1;
  refused(tn_sum(NULL, x, &future.known, &y), TN_ERR_UNSUPPORTED, "does not know");
  tn_sum_attrs wrong = TN_SUM_DEFAULTS;
  wrong.struct_size = 0;
  refused(tn_sum(NULL, x, &wrong, &y), TN_ERR_INVALID_ARGUMENT, "struct_size");
  wrong = (tn_sum_attrs)TN_SUM_DEFAULTS;
  wrong.axes = (tn_axes){2, {0, -2}};
  refused(tn_sum(NULL, x, &wrong, &y), TN_ERR_INVALID_ARGUMENT, "twice");
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  cast.dtype = 77;
  refused(tn_cast(NULL, x, &cast, &y), TN_ERR_INVALID_ARGUMENT, "attrs->dtype");
  tn_tensor_release(x);
  tn_tensor_release(flat);
}
END_TEST

START_TEST(malformed_calls_are_refused) {
  tn_tensor *x = counting(dev, 2), *out[2] = {NULL, NULL};
  const tn_tensor *in[3] = {x, x, x};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .in = in, .out = out, .num_in = 2, .num_out = 1};
  refused(tn_invoke(NULL), TN_ERR_INVALID_ARGUMENT, "call is NULL");
  call.op = 511;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "no operator");
  call.op = 9999;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "no operator");
  call.op = TN_OP_ADD, call.num_in = 3;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "3 inputs");
  call.num_in = 200;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "200 inputs");
  call.num_in = 2, call.struct_size = 8;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "is 8: set it to sizeof(tn_call)");
  call.struct_size = sizeof call, call.in = NULL;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "call->in is NULL, call->num_in is 2");
  ck_assert_ptr_null(out[0]);
  tn_tensor_release(x);
}
END_TEST

/* A struct that the caller forgot to give a size. */
START_TEST(structs_without_size_are_named) {
  tn_tensor *x = counting(dev, 2), *y = NULL;
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .out = &y, .num_in = 1, .num_out = 1};
  call.in = (const tn_tensor *[]){x};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  refused(tn_plugin_report(rt, 0, &(tn_plugin_info){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_plugin_info)");
  refused(tn_duplicate_library_at(rt, 0, &(tn_duplicate_library){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_duplicate_library)");
  refused(tn_device_get_info(dev, &(tn_device_info){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_device_info)");
  refused(tn_device_memory_stats(dev, &(tn_memory_stats){0}), TN_ERR_INVALID_ARGUMENT,
          "stats->struct_size is 0: set it to sizeof(tn_memory_stats)");
  refused(tn_kernel_find(dev, TN_OP_NEG, TN_F32, 0, &(tn_kernel_info){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_kernel_info)");
  refused(tn_prepared_kernel(p, &(tn_kernel_info){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_kernel_info)");
  refused(tn_kernel_at(rt, 0, &(tn_kernel_row){0}), TN_ERR_INVALID_ARGUMENT,
          "row->struct_size is 0: set it to sizeof(tn_kernel_row)");
  refused(tn_layer_at(rt, 0, &(tn_layer_info){0}), TN_ERR_INVALID_ARGUMENT,
          "info->struct_size is 0: set it to sizeof(tn_layer_info)");
  refused(tn_fallback_get_stats(dev, 0, &(tn_fallback_stats){0}), TN_ERR_INVALID_ARGUMENT,
          "stats->struct_size is 0: set it to sizeof(tn_fallback_stats)");
  refused(tn_cast(NULL, x, &(tn_cast_attrs){0}, &y), TN_ERR_INVALID_ARGUMENT,
          "attrs->struct_size is 0: set it to sizeof(tn_cast_attrs)");
  refused(tn_layer_at(rt, 0, NULL), TN_ERR_INVALID_ARGUMENT, "info is NULL");
  refused(tn_layer_at(NULL, 0, NULL), TN_ERR_INVALID_ARGUMENT, "runtime is NULL");
  tn_prepared_release(p);
  tn_tensor_release(y);
  tn_tensor_release(x);
}
END_TEST

START_TEST(refusals_name_the_function_called) {
  tn_tensor *x = counting(dev, 2);
  float values[2];
  refused(tn_tensor_to_host(x, values, 3), TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_host: 3 bytes");
  refused(tn_tensor_to_host(x, NULL, 8), TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_host: data");
  refused(tn_tensor_read(NULL, x, values, 3), TN_ERR_INVALID_ARGUMENT, "tn_tensor_read: 3 bytes");
  refused(tn_tensor_write(NULL, x, values, 3), TN_ERR_INVALID_ARGUMENT, "tn_tensor_write: 3 bytes");
  tn_tensor_release(x);
}
END_TEST

START_TEST(prepared_calls_follow_their_inputs) {
  tn_tensor *x = counting(dev, 4), *out[1] = {NULL};
  const tn_tensor *in[2] = {x, x};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .in = in, .out = out, .num_in = 2, .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ck_assert_ptr_nonnull(out[0]);
  ok(tn_run(p));
  expect_counting(out[0], 2);
  float doubled[4] = {2, 4, 6, 8};
  ok(tn_tensor_write(NULL, x, doubled, sizeof doubled));
  tn_tensor_release(x); /* the prepared call keeps its own reference */
  ok(tn_run(p));
  expect_counting(out[0], 4);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  refused(tn_run(NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_prepare(NULL, &p), TN_ERR_INVALID_ARGUMENT, "call is NULL");
  tn_prepared_release(NULL);
}
END_TEST

START_TEST(prepared_attributes_are_copied) {
  tn_tensor *flat = counting(dev, 6), *x = NULL, *out[1] = {NULL};
  ok(tn_tensor_reshape(flat, 2, SHAPE(2, 3), &x));
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  attrs.axes = (tn_axes){1, {0}};
  const tn_tensor *in[1] = {x};
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_SUM,
                  .in = in,
                  .out = out,
                  .attrs = &attrs,
                  .num_in = 1,
                  .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  memset(&attrs, 0xff, sizeof attrs);
  ok(tn_run(p));
  float got[3];
  ok(tn_tensor_to_host(out[0], got, sizeof got));
  ck_assert(got[0] == 5 && got[1] == 7 && got[2] == 9);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(x);
  tn_tensor_release(flat);
}
END_TEST

START_TEST(operators_and_kernels_can_be_asked_for) {
  uint32_t op = 0;
  ok(tn_op_find(rt, "conv2d", &op));
  ck_assert_uint_eq(op, TN_OP_CONV2D);
  refused(tn_op_find(rt, "conv9d", &op), TN_ERR_NOT_FOUND, "conv9d");
  size_t count = tn_op_count(rt);
  ck_assert_uint_ge(count, 50);
  for (size_t i = 0; i < count; ++i) {
    const struct tn_operator *row = tn_op_at(rt, i);
    ck_assert_msg(row->doc && row->doc[strlen(row->doc) - 1] == '.', "%s: doc", row->name);
    ck_assert_msg(row->maths && row->maths[0], "%s: maths", row->name);
    for (int d = 0; d < TN_DTYPE_SLOTS; ++d) {
      if (!(row->types[0] >> d & 1)) continue;
      tn_kernel_info info = {.struct_size = sizeof info};
      ok(tn_kernel_find(dev, row->id, (tn_dtype)d, 0, &info));
      ck_assert(info.name && info.plugin);
    }
  }
  ck_assert_ptr_null(tn_op_at(rt, count));
  tn_kernel_info info = {.struct_size = sizeof info};
  refused(tn_kernel_find(dev, TN_OP_EXP, TN_I32, 0, &info), TN_ERR_UNSUPPORTED, "i32");
}
END_TEST

START_TEST(every_candidate_can_be_run) {
  tn_tensor *a = counting(dev, 6), *x = NULL, *transposed = NULL, *y = NULL;
  ok(tn_tensor_reshape(a, 2, SHAPE(2, 3), &x));
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &transposed));
  const tn_tensor *in[] = {transposed, x, NULL};
  tn_call call = {sizeof call, TN_OP_MATMUL, NULL, in, &y, NULL, 3, 1, 0};
  const float want[] = {17, 22, 27, 22, 29, 36, 27, 36, 45};
  uint32_t rank = 0, at = 0;
  bool passed_over = false;
  for (tn_prepared *p = NULL;; p = NULL, rank++) {
    if (tn_prepare_candidate(&call, rank, &p)) {
      /* One that takes row-major tensors alone counts, and is not run. */
      if (!strstr(tn_last_error(), "row-major")) break;
      passed_over = true;
      continue;
    }
    tn_kernel_info info = {.struct_size = sizeof info}, listed = {.struct_size = sizeof listed};
    float got[9] = {0};
    ok(tn_prepared_kernel(p, &info));
    do ok(tn_kernel_find(dev, TN_OP_MATMUL, TN_F32, at++, &listed));
    while (strcmp(info.name, listed.name) != 0 && (listed.some_calls || passed_over));
    ck_assert_str_eq(info.name, listed.name);
    ck_assert_ptr_eq(info.note, listed.note);
    ck_assert_uint_eq(info.some_calls, listed.some_calls);
    ok(tn_run(p));
    ok(tn_tensor_to_host(y, got, sizeof got));
    ck_assert_mem_eq(got, want, sizeof want);
    tn_prepared_release(p);
    tn_tensor_release(y);
    y = NULL;
  }
  ck_assert_uint_ge(rank, 1);
  tn_prepared *p = NULL;
  char fewer[32];
  snprintf(fewer, sizeof fewer, "fewer than %u kernels", rank + 1);
  refused(tn_prepare_candidate(&call, rank, &p), TN_ERR_UNSUPPORTED, fewer);
  ck_assert(!p && !y);
  tn_kernel_info info = {.struct_size = sizeof info};
  refused(tn_prepared_kernel(NULL, &info), TN_ERR_INVALID_ARGUMENT, "prepared is NULL");
  refused(tn_prepare_candidate(&call, 0, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(transposed);
  tn_tensor_release(x);
  tn_tensor_release(a);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, refusals_name_operator_tensors_and_remedy);
  tcase_add_test(t, aliasing_is_exact_or_refused);
  tcase_add_test(t, interleaved_views_are_apart);
  tcase_add_test(t, packed_gradients);
  tcase_add_test(t, broadcasting_into_strided_outputs);
  tcase_add_test(t, optional_arguments_may_be_absent);
  tcase_add_test(t, attributes_of_other_versions);
  tcase_add_test(t, malformed_calls_are_refused);
  tcase_add_test(t, structs_without_size_are_named);
  tcase_add_test(t, refusals_name_the_function_called);
  tcase_add_test(t, prepared_calls_follow_their_inputs);
  tcase_add_test(t, prepared_attributes_are_copied);
  tcase_add_test(t, operators_and_kernels_can_be_asked_for);
  tcase_add_test(t, every_candidate_can_be_run);
}

int main(void) { return run_suite("invoke", add_tests); }
