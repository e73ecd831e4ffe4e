/* Softmax and the losses over classes. */
#include "harness.h"

static tensor *along(tn_kernel_fn fn, tensor *x, tensor *y, int64_t axis) {
  tn_softmax_attrs attrs = {sizeof attrs, axis}; /* the four structs lie alike */
  tensor *out = make_like(x, x->dtype, DENSE);
  call c = {fn, &attrs, y ? 2 : 1, 1, {x, y}, {out}};
  check_layouts(&c);
  return out;
}

START_TEST(softmax_sums_to_one) {
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *x = random_tensor(t, 1, -8, 8, SHAPE(2, 5, 3));
    tensor *y = along(reference_softmax, x, NULL, -2);
    tensor *z = along(reference_log_softmax, x, NULL, 1);
    for (int slice = 0; slice < 6; ++slice) {
      double sum = 0, tolerance = t == TN_F64 ? 1e-15 : t == TN_F32 ? 1e-6 : 1e-2;
      for (int i = 0; i < 5; ++i) sum += exp(get(x, slice / 3 * 15 + i * 3 + slice % 3));
      for (int i = 0; i < 5; ++i) {
        int at = slice / 3 * 15 + i * 3 + slice % 3;
        check_near(get(y, at), exp(get(x, at)) / sum, tolerance);
        check_near(get(z, at), get(x, at) - log(sum), tolerance);
      }
    }
  }
}
END_TEST

START_TEST(softmax_at_the_ends) {
  tensor *x = with(TN_F32, VALUES(1e4, 1e4, -INFINITY, 0), SHAPE(1, 4));
  check_values(along(reference_softmax, x, NULL, 1), VALUES(0.5, 0.5, 0, 0), 0);
  check_values(along(reference_log_softmax, x, NULL, 1),
               VALUES(-M_LN2, -M_LN2, -INFINITY, -1e4 - M_LN2), 1e-7);
  static const double bad[][2] = {{-INFINITY, -INFINITY}, {INFINITY, 0}, {NAN, 0}};
  for (int i = 0; i < 3; ++i) {
    tensor *b = with(TN_F32, bad[i], SHAPE(2));
    check_values(along(reference_softmax, b, NULL, 0), VALUES(NAN, NAN), 0);
    check_values(along(reference_log_softmax, b, NULL, 0), VALUES(NAN, NAN), 0);
  }
  tensor *none = make(TN_F32, DENSE, SHAPE(3, 0));
  along(reference_softmax, none, NULL, 0), along(reference_softmax, none, NULL, 1);
}
END_TEST

START_TEST(softmax_gradients) {
  tn_kernel_fn forward[] = {reference_softmax, reference_log_softmax};
  tn_kernel_fn backward[] = {reference_softmax_grad, reference_log_softmax_grad};
  for (int axis = 0; axis < 3; ++axis) {
    for (int f = 0; f < 2; ++f) {
      tn_softmax_attrs attrs = {sizeof attrs, axis};
      tensor *x = random_tensor(TN_F64, 2, -2, 2, SHAPE(3, 4, 2)), *y = make_like(x, TN_F64, DENSE);
      tensor *dy = random_tensor(TN_F64, 3, -1, 1, SHAPE(3, 4, 2));
      call c = {forward[f], &attrs, 1, 1, {x}, {y}};
      must(&c);
      check_gradient(&c, x, dy, along(backward[f], dy, y, axis));
    }
  }
}
END_TEST

/* ------------------------------------------------------------------- losses --- */

typedef struct loss {
  tn_kernel_fn forward, backward;
} loss;

static const loss losses[] = {{reference_nll_loss, reference_nll_loss_grad},
                              {reference_cross_entropy, reference_cross_entropy_grad}};

/* The four attribute structs lie alike. */
/* Of any of the four: cross_entropy's begin as nll_loss's do. */
static tn_cross_entropy_attrs reduction(int64_t r) {
  tn_cross_entropy_attrs attrs = TN_CROSS_ENTROPY_DEFAULTS;
  attrs.reduction = r;
  return attrs;
}

static tensor *loss_of(const loss *l, tensor *x, tensor *target, int64_t r) {
  tn_cross_entropy_attrs attrs = reduction(r);
  tensor *y =
      r == TN_REDUCTION_NONE ? make_like(target, x->dtype, DENSE) : make(x->dtype, DENSE, SCALAR);
  call c = {l->forward, &attrs, 2, 1, {x, target}, {y}};
  check_layouts(&c);
  return y;
}

static tensor *grad_of(const loss *l, tensor *dy, tensor *x, tensor *target, int64_t r) {
  tn_cross_entropy_attrs attrs = reduction(r);
  tensor *dx = make_like(x, x->dtype, DENSE);
  call c = {l->backward, &attrs, 3, 1, {dy, x, target}, {dx}};
  check_layouts(&c);
  return dx;
}

START_TEST(losses_by_hand) {
  for (tn_dtype t = TN_F32; t <= TN_F64; ++t) {
    tensor *x = with(t, VALUES(-1, -2, -3, -4, -5, -6), SHAPE(2, 3));
    tensor *target = with(_i ? TN_I64 : TN_I32, VALUES(2, 0), SHAPE(2));
    check_values(loss_of(&losses[0], x, target, TN_REDUCTION_NONE), VALUES(3, 4), 0);
    check_values(loss_of(&losses[0], x, target, TN_REDUCTION_SUM), VALUES(7), 0);
    check_values(loss_of(&losses[0], x, target, TN_REDUCTION_MEAN), VALUES(3.5), 0);
    double lse = log(1 + exp(-1) + exp(-2));
    double tolerance = t == TN_F64 ? 1e-15 : 1e-7;
    check_values(loss_of(&losses[1], x, target, TN_REDUCTION_NONE), VALUES(2 + lse, lse),
                 tolerance);
    check_values(loss_of(&losses[1], x, target, TN_REDUCTION_MEAN), VALUES(1 + lse), tolerance);
    tensor *dy = with(t, VALUES(2), SCALAR);
    check_values(grad_of(&losses[0], dy, x, target, TN_REDUCTION_MEAN), VALUES(0, 0, -1, -1, 0, 0),
                 0);
    check_values(grad_of(&losses[0], dy, x, target, TN_REDUCTION_SUM), VALUES(0, 0, -2, -2, 0, 0),
                 0);
  }
}
END_TEST

START_TEST(targets_outside_the_classes) {
  tensor *x = random_tensor(TN_F32, 4, -1, 1, SHAPE(4, 3));
  tensor *target = with(TN_I32, VALUES(1, -1, 3, 0), SHAPE(4)),
         *one = with(TN_F32, VALUES(1), SCALAR);
  for (int f = 0; f < 2; ++f) {
    tensor *y = loss_of(&losses[f], x, target, TN_REDUCTION_NONE);
    EXPECT(!isnan(get(y, 0)) && isnan(get(y, 1)) && isnan(get(y, 2)) && !isnan(get(y, 3)));
    EXPECT(isnan(get(loss_of(&losses[f], x, target, TN_REDUCTION_MEAN), 0)));
    EXPECT(isnan(get(loss_of(&losses[f], x, target, TN_REDUCTION_SUM), 0)));
    tensor *dx = grad_of(&losses[f], one, x, target, TN_REDUCTION_MEAN);
    for (int i = 3; i < 9; ++i) EXPECT(get(dx, i) == 0);
    EXPECT(get(dx, 1) < 0 && get(dx, 9) < 0);
  }
}
END_TEST

START_TEST(no_targets) {
  tensor *x = make(TN_F32, DENSE, SHAPE(0, 3)), *target = make(TN_I64, DENSE, SHAPE(0));
  tensor *one = with(TN_F32, VALUES(1), SCALAR);
  for (int f = 0; f < 2; ++f) {
    check_values(loss_of(&losses[f], x, target, TN_REDUCTION_MEAN), VALUES(NAN), 0);
    check_values(loss_of(&losses[f], x, target, TN_REDUCTION_SUM), VALUES(0), 0);
    loss_of(&losses[f], x, target, TN_REDUCTION_NONE);
    grad_of(&losses[f], one, x, target, TN_REDUCTION_MEAN);
  }
}
END_TEST

/* With and without axes behind the classes. */
START_TEST(loss_gradients) {
  const loss *l = &losses[_i / 6];
  int64_t r = _i % 3;
  bool image = _i / 3 % 2;
  tensor *x = image ? random_tensor(TN_F64, 5, -2, 2, SHAPE(2, 4, 3, 2))
                    : random_tensor(TN_F64, 5, -2, 2, SHAPE(12, 4));
  tensor *target = image ? random_tensor(TN_I64, 6, 0, 4, SHAPE(2, 3, 2))
                         : random_tensor(TN_I64, 6, 0, 4, SHAPE(12));
  tn_cross_entropy_attrs attrs = reduction(r);
  tensor *y =
      r == TN_REDUCTION_NONE ? make_like(target, TN_F64, DENSE) : make(TN_F64, DENSE, SCALAR);
  tensor *dy = random_tensor(TN_F64, 7, -1, 1, y->dl.ndim, y->shape);
  call c = {l->forward, &attrs, 2, 1, {x, target}, {y}};
  check_gradient(&c, x, dy, grad_of(l, dy, x, target, r));
}
END_TEST

START_TEST(large_logits) {
  tensor *x = with(TN_F32, VALUES(1e4, 0, -1e4, 3e4), SHAPE(2, 2));
  tensor *target = with(TN_I32, VALUES(1, 1), SHAPE(2));
  check_values(loss_of(&losses[1], x, target, TN_REDUCTION_NONE), VALUES(1e4, 0), 0);
}
END_TEST

Suite *softmax_suite(void) {
  Suite *s = suite_create("softmax and losses");
  TCase *c = add_case(s, "softmax");
  tcase_add_test(c, softmax_sums_to_one);
  tcase_add_test(c, softmax_at_the_ends);
  tcase_add_test(c, softmax_gradients);
  c = add_case(s, "losses");
  tcase_add_loop_test(c, losses_by_hand, 0, 2);
  tcase_add_test(c, targets_outside_the_classes);
  tcase_add_test(c, no_targets);
  tcase_add_loop_test(c, loss_gradients, 0, 12);
  tcase_add_test(c, large_logits);
  return s;
}
