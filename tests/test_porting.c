/*
 * What whoever ports a program from NumPy, PyTorch or ONNX meets: attributes that make operators
 * mean what they mean there, with what those say written out by hand, and the default beside it.
 */
#include <pthread.h>

#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* ------------------------------------------------------------ causal attention --- */

typedef struct shape {
  int64_t s, t, d;
  tn_dtype dtype;
} shape;

/* The first and last keep to plain kernels, the others may go to those for tensor cores. */
static const shape shapes[] = {
    {3, 5, 2, TN_F32},    {5, 3, 2, TN_F64},     {70, 130, 64, TN_F16}, {130, 70, 64, TN_BF16},
    {64, 64, 64, TN_F16}, {90, 200, 32, TN_F32}, {1, 7, 8, TN_F16},     {7, 1, 8, TN_F32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Keys that query i sees, as PyTorch's is_causal or aligned to the last query. */
static int64_t keys_seen(const shape *x, int64_t i, bool upper_left) {
  int64_t seen = upper_left ? i + 1 : i + 1 + x->t - x->s;
  return seen < 0 ? 0 : seen < x->t ? seen : x->t;
}

/* Numbers that every type holds, of which no two neighbours are alike. */
static double *values(int64_t n) {
  double *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; ++i) v[i] = (double)(i * 5 % 17) / 8 - 1;
  return v;
}

static tn_tensor *vectors(int device, const shape *x, int64_t n, const double *v) {
  return numbers(b.devices[device], x->dtype, 4, SHAPE(1, 1, n, x->d), v);
}

/* All scores are 0 where q is 0: each query gets the mean of the values that it sees. */
static double *means(const shape *x, const double *v, bool upper_left) {
  double *y = calloc((size_t)(x->s * x->d), sizeof *y);
  for (int64_t i = 0; i < x->s; ++i)
    for (int64_t j = 0, n = keys_seen(x, i, upper_left); j < n; ++j)
      for (int64_t k = 0; k < x->d; ++k) y[i * x->d + k] += v[j * x->d + k] / (double)n;
  return y;
}

/* A value's gradient is the sum of its shares in those means. */
static double *value_grads(const shape *x, const double *dy, bool upper_left) {
  double *dv = calloc((size_t)(x->t * x->d), sizeof *dv);
  for (int64_t i = 0; i < x->s; ++i)
    for (int64_t j = 0, n = keys_seen(x, i, upper_left); j < n; ++j)
      for (int64_t k = 0; k < x->d; ++k) dv[j * x->d + k] += dy[i * x->d + k] / (double)n;
  return dv;
}

static void attend(int device, const shape *x, bool upper_left) {
  tn_scaled_dot_product_attention_attrs attrs = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  tn_scaled_dot_product_attention_grad_attrs back = TN_SCALED_DOT_PRODUCT_ATTENTION_GRAD_DEFAULTS;
  double *zero = calloc((size_t)(x->s * x->d), sizeof *zero), *v = values(x->t * x->d),
         *dy = values(x->s * x->d), *y = means(x, v, upper_left),
         *dv = value_grads(x, dy, upper_left);
  tn_tensor *tq = vectors(device, x, x->s, zero), *tv = vectors(device, x, x->t, v),
            *tdy = vectors(device, x, x->s, dy), *ty = NULL, *lse = NULL, *d[3] = {NULL};
  const double tolerance = x->dtype == TN_BF16 ? 0x1p-7 : x->dtype == TN_F16 ? 0x1p-9 : 1e-6;
  attrs.causal = back.causal = 1;
  attrs.causal_upper_left = back.causal_upper_left = upper_left;
  ok(tn_scaled_dot_product_attention(NULL, tq, tv, tv, NULL, NULL, &attrs, &ty, &lse));
  ok(tn_scaled_dot_product_attention_grad(NULL, tdy, tq, tv, tv, ty, lse, NULL, NULL, &back, &d[0],
                                          &d[1], &d[2]));
  must_be(&b, "attention", device, ty, x->s * x->d, y, tolerance);
  must_be(&b, "gradient by v", device, d[2], x->t * x->d, dv, tolerance);
  for (int i = 0; i < 2; ++i) tn_tensor_release(d[i]);
  tn_tensor *inputs[] = {tq, tv, tdy, lse};
  for (int i = 0; i < 4; ++i) tn_tensor_release(inputs[i]);
  free(zero), free(v), free(dy), free(y), free(dv);
}

START_TEST(causal_attention_is_aligned_to_the_first_query) {
  for (int d = 0; d < b.count; ++d) attend(d, &shapes[_i], true);
}
END_TEST

START_TEST(causal_attention_is_aligned_to_the_last_query_without_a_word) {
  for (int d = 0; d < b.count; ++d) attend(d, &shapes[_i], false);
}
END_TEST

START_TEST(the_upper_left_is_of_causal_calls) {
  tn_scaled_dot_product_attention_attrs attrs = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  attrs.causal_upper_left = 1;
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *q = numbers(b.devices[d], TN_F32, 4, SHAPE(1, 1, 1, 1), (double[]){0}), *y = NULL;
    tn_tensor *v = numbers(b.devices[d], TN_F32, 4, SHAPE(1, 1, 2, 1), (double[]){1, 2});
    attrs.causal_upper_left = 1;
    ok(tn_scaled_dot_product_attention(NULL, q, v, v, NULL, NULL, &attrs, &y, NULL));
    MUST_BE("all keys", d, y, 1.5);
    y = NULL, attrs.causal_upper_left = 2;
    refused(tn_scaled_dot_product_attention(NULL, q, v, v, NULL, NULL, &attrs, &y, NULL),
            TN_ERR_INVALID_ARGUMENT, "causal_upper_left");
    tn_tensor_release(q), tn_tensor_release(v);
  }
}
END_TEST

/* ----------------------------------------------------------------- ignore_index --- */

/* PyTorch passes targets of -100 over unless told otherwise; here they are no class. */
START_TEST(a_target_of_minus_100_is_no_class) {
  const double x[] = {-1, -2, -3, -4, -5, -6};
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype index = TN_I32; index <= TN_I64; ++index) {
      tn_tensor *tx = numbers(b.devices[d], TN_F32, 2, SHAPE(2, 3), x), *y = NULL;
      tn_tensor *target = numbers(b.devices[d], index, 1, SHAPE(2), (double[]){1, -100});
      tn_nll_loss_attrs attrs = TN_NLL_LOSS_DEFAULTS;
      tn_nll_loss_grad_attrs back = TN_NLL_LOSS_GRAD_DEFAULTS;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("mean", d, y, NAN);
      y = NULL, attrs.reduction = TN_REDUCTION_NONE;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("each", d, y, 2, NAN);
      y = NULL;
      ok(tn_cross_entropy(NULL, tx, target, NULL, &y));
      MUST_BE("cross entropy", d, y, NAN);
      y = NULL;
      ok(tn_nll_loss_grad(NULL, NULL, tx, target, &back, &y));
      MUST_BE("gradient", d, y, 0, -0.5, 0, 0, 0, 0);
      y = NULL, attrs.reduction = TN_REDUCTION_MEAN;
      attrs.ignore_index = back.ignore_index = -100;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("mean of the others", d, y, 2);
      y = NULL;
      ok(tn_nll_loss_grad(NULL, NULL, tx, target, &back, &y));
      MUST_BE("their gradient", d, y, 0, -1, 0, 0, 0, 0);
      tn_tensor_release(tx), tn_tensor_release(target);
    }
}
END_TEST

START_TEST(cross_entropy_passes_minus_100_over_when_told) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F64, 2, SHAPE(2, 2), (double[]){3, 3, 1, 9}), *y = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){0, -100});
    tn_cross_entropy_attrs attrs = TN_CROSS_ENTROPY_DEFAULTS;
    tn_cross_entropy_grad_attrs back = TN_CROSS_ENTROPY_GRAD_DEFAULTS;
    attrs.ignore_index = back.ignore_index = -100;
    ok(tn_cross_entropy(NULL, x, target, &attrs, &y));
    must_be(&b, "loss", d, y, 1, (double[]){log(2)}, 1e-14);
    y = NULL;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &back, &y));
    must_be(&b, "gradient", d, y, 4, (double[]){-0.5, 0.5, 0, 0}, 1e-14);
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

/* ------------------------------------------------------------- negative indexes --- */

START_TEST(rows_are_counted_from_the_end_when_told) {
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype index = TN_I32; index <= TN_I64; ++index) {
      tn_tensor *table = numbers(b.devices[d], TN_F32, 2, SHAPE(3, 1), (double[]){1, 2, 3});
      tn_tensor *at = numbers(b.devices[d], index, 1, SHAPE(5), (double[]){0, -1, -3, -4, 3});
      tn_tensor *dy = numbers(b.devices[d], TN_F32, 2, SHAPE(5, 1), (double[]){1, 2, 4, 8, 16});
      tn_embedding_grad_attrs back = TN_EMBEDDING_GRAD_DEFAULTS;
      tn_tensor *y = NULL;
      ok(tn_embedding(NULL, table, at, &y));
      MUST_BE("embedding", d, y, 1, 0, 0, 0, 0);
      y = NULL;
      ok(tn_gather(NULL, table, at, NULL, &y));
      MUST_BE("gather", d, y, 1, 3, 1, 0, 0);
      y = NULL, back.rows = 3;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient", d, y, 1, 0, 0);
      y = NULL, back.from_end = 1;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient from the end", d, y, 5, 0, 2);
      y = NULL, back.padding_index = 2;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient but of padding", d, y, 5, 0, 0);
      tn_tensor_release(table), tn_tensor_release(at), tn_tensor_release(dy);
    }
}
END_TEST

/* ------------------------------------------------------- gradients by a loss --- */

START_TEST(the_gradient_of_a_scalar_loss_may_be_left_out) {
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype dtype = TN_F16; dtype <= TN_F64; ++dtype) {
      tn_tensor *x = numbers(b.devices[d], dtype, 1, SHAPE(4), (double[]){1, 2, 3, 4}), *dx = NULL;
      tn_tensor *target = numbers(b.devices[d], dtype, 1, SHAPE(4), (double[]){0, 4, 3, 0});
      tn_mse_loss_grad_attrs attrs = TN_MSE_LOSS_GRAD_DEFAULTS;
      ok(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx));
      MUST_BE("mean", d, dx, 0.5, -1, 0, 2);
      dx = NULL, attrs.reduction = TN_REDUCTION_SUM;
      ok(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx));
      MUST_BE("sum", d, dx, 2, -4, 0, 8);
      dx = NULL;
      ok(tn_huber_loss_grad(NULL, NULL, x, target, NULL, &dx));
      MUST_BE("huber", d, dx, 0.25, -0.25, 0, 0.25);
      dx = NULL;
      ok(tn_kl_div_grad(NULL, NULL, x, target, NULL, &dx));
      MUST_BE("kl_div", d, dx, 0, -1, -0.75, 0);
      dx = NULL, attrs.reduction = TN_REDUCTION_NONE;
      refused(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx), TN_ERR_INVALID_ARGUMENT,
              "it may be left out only where the loss is a scalar");
      refused(tn_mse_loss_grad(NULL, NULL, x, NULL, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
              "target is NULL");
      refused(tn_mse_loss_grad(NULL, NULL, NULL, NULL, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
              "every tensor is NULL");
      tn_tensor_release(x), tn_tensor_release(target);
    }
}
END_TEST

START_TEST(losses_over_classes_too) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 2, SHAPE(2, 2), (double[]){0, 0, 0, 0}),
              *dx = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){0, 1});
    tn_cross_entropy_grad_attrs attrs = TN_CROSS_ENTROPY_GRAD_DEFAULTS;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx));
    MUST_BE("mean", d, dx, -0.25, 0.25, 0.25, -0.25);
    dx = NULL, attrs.reduction = TN_REDUCTION_SUM;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx));
    MUST_BE("sum", d, dx, -0.5, 0.5, 0.5, -0.5);
    dx = NULL, attrs.reduction = TN_REDUCTION_NONE;
    refused(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx), TN_ERR_INVALID_ARGUMENT,
            "it may be left out only where the loss is a scalar");
    /* An integer x is refused for its type, as it is with dy. */
    refused(tn_cross_entropy_grad(NULL, NULL, target, target, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
            "the operator does not take i64");
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

/* The scalar that stands in its place outlasts the call and its streams. */
START_TEST(prepared_gradients_and_other_streams) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, 3}), *dx = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){0, 0});
    tn_stream *stream = NULL;
    ok(tn_device_synchronize(b.devices[d]));
    ok(tn_stream_create(b.devices[d], &stream));
    tn_call call = {.struct_size = sizeof call,
                    .op = TN_OP_MSE_LOSS_GRAD,
                    .stream = stream,
                    .in = (const tn_tensor *[]){NULL, x, target},
                    .out = &dx,
                    .num_in = 3,
                    .num_out = 1};
    tn_prepared *prepared = NULL;
    ok(tn_prepare(&call, &prepared));
    for (int i = 0; i < 3; ++i) ok(tn_run(prepared));
    tn_prepared_release(prepared);
    ok(tn_stream_synchronize(stream));
    MUST_BE("prepared", d, dx, 1, 3);
    dx = NULL;
    ok(tn_mse_loss_grad(stream, NULL, x, target, NULL, &dx));
    ok(tn_stream_synchronize(stream));
    tn_stream_destroy(stream);
    MUST_BE("on the stream", d, dx, 1, 3);
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

typedef struct caller {
  pthread_t thread;
  tn_tensor *x, *target, *dx;
  tn_status status;
} caller;

static void *call_without_dy(void *of) {
  caller *c = of;
  c->status = tn_mse_loss_grad(NULL, NULL, c->x, c->target, NULL, &c->dx);
  return NULL;
}

/* Whoever comes first makes the scalar; the others use it, or theirs and give it back. */
START_TEST(threads_may_be_the_first_to_leave_it_out) {
  enum { THREADS = 4 };
  for (int d = 0; d < b.count; ++d) {
    caller callers[THREADS] = {{0}};
    for (int i = 0; i < THREADS; ++i) {
      callers[i].x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, i});
      callers[i].target = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){0, 0});
    }
    for (int i = 0; i < THREADS; ++i)
      ck_assert(!pthread_create(&callers[i].thread, NULL, call_without_dy, &callers[i]));
    for (int i = 0; i < THREADS; ++i) {
      ck_assert(!pthread_join(callers[i].thread, NULL));
      ck_assert_int_eq(callers[i].status, TN_OK);
      MUST_BE("of a thread", d, callers[i].dx, 1, i);
      tn_tensor_release(callers[i].x), tn_tensor_release(callers[i].target);
    }
  }
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_loop_test(c, causal_attention_is_aligned_to_the_first_query, 0, SHAPES);
  tcase_add_loop_test(c, causal_attention_is_aligned_to_the_last_query_without_a_word, 0, SHAPES);
  tcase_add_test(c, the_upper_left_is_of_causal_calls);
  tcase_add_test(c, a_target_of_minus_100_is_no_class);
  tcase_add_test(c, cross_entropy_passes_minus_100_over_when_told);
  tcase_add_test(c, rows_are_counted_from_the_end_when_told);
  tcase_add_test(c, the_gradient_of_a_scalar_loss_may_be_left_out);
  tcase_add_test(c, losses_over_classes_too);
  tcase_add_test(c, prepared_gradients_and_other_streams);
  tcase_add_test(c, threads_may_be_the_first_to_leave_it_out);
}

int main(void) { return run_suite("porting", add_tests); }
