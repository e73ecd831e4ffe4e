/*
 * Convolutions and poolings of every rank, transposed and adaptive ones and resize against
 * numbers worked out by hand, and their gradients against differences.
 */
#include "harness.h"

START_TEST(transposed_by_hand) {
  tn_conv_transpose1d_attrs a = TN_CONV_TRANSPOSE1D_DEFAULTS;
  a.stride = 2, a.padding = 1, a.output_padding = 1;
  tensor *x = with(TN_F64, VALUES(1, 2, 3), SHAPE(1, 1, 3));
  tensor *w = with(TN_F64, VALUES(1, 10, 100), SHAPE(1, 1, 3));
  tensor *bias = with(TN_F64, VALUES(0.5), SHAPE(1));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 1, 6));
  must(&(call){reference_conv_transpose1d, &a, 3, 1, {x, w, bias}, {y}});
  check_values(y, VALUES(10.5, 102.5, 20.5, 203.5, 30.5, 300.5), 1e-12);
}
END_TEST

START_TEST(three_axes_by_hand) {
  tn_conv3d_attrs a = TN_CONV3D_DEFAULTS;
  tensor *x = with(TN_F64, VALUES(1, 2, 3, 4, 5, 6, 7, 8), SHAPE(1, 1, 2, 2, 2));
  tensor *w = with(TN_F64, VALUES(1, 10, 100, 1000), SHAPE(1, 1, 2, 1, 2));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 1, 1, 2, 1));
  must(&(call){reference_conv3d, &a, 3, 1, {x, w}, {y}});
  check_values(y, VALUES(6521, 8743), 1e-12);
}
END_TEST

START_TEST(poolings_by_hand) {
  tensor *x = with(TN_F64, VALUES(1, 2, 3, 4, 5), SHAPE(1, 1, 5));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 1, 3)), *index = make(TN_I32, DENSE, SHAPE(1, 1, 3));
  tn_adaptive_avg_pool1d_attrs share = {.struct_size = sizeof share, .output = 3};
  must(&(call){reference_adaptive_avg_pool1d, &share, 1, 1, {x}, {y}});
  check_values(y, VALUES(1.5, 3, 4.5), 1e-12);
  must(&(call){reference_adaptive_max_pool1d, &share, 1, 2, {x}, {y, index}});
  check_values(y, VALUES(2, 4, 5), 0);
  ck_assert_int_eq(get_i64(index, 1), 3);
  tn_avg_pool1d_attrs a = TN_AVG_POOL1D_DEFAULTS;
  a.ceil_mode = 1;
  must(&(call){reference_avg_pool1d, &a, 1, 1, {x}, {y}});
  check_values(y, VALUES(1.5, 3.5, 5), 1e-12);
}
END_TEST

START_TEST(resize_by_hand) {
  tensor *x = with(TN_F64, VALUES(1, 2, 3, 4), SHAPE(1, 1, 1, 4));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 1, 1, 8)), *z = make(TN_F64, DENSE, SHAPE(1, 1, 1, 7));
  tensor *v = make(TN_F64, DENSE, SHAPE(1, 1, 1, 3));
  tn_resize_attrs a = {.struct_size = sizeof a, .output = {1, 8}, .mode = TN_RESIZE_BILINEAR};
  must(&(call){reference_resize, &a, 1, 1, {x}, {y}});
  check_values(y, VALUES(1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4), 1e-12);
  a.mode = TN_RESIZE_BICUBIC;
  must(&(call){reference_resize, &a, 1, 1, {x}, {y}});
  check_near(get(y, 0), 0.89453125, 1e-12);
  a.align_corners = 1, a.mode = TN_RESIZE_BILINEAR;
  must(&(call){reference_resize, &a, 1, 1, {x}, {z}});
  check_values(z, VALUES(1, 1.5, 2, 2.5, 3, 3.5, 4), 1e-12);
  a.align_corners = 0, a.mode = TN_RESIZE_NEAREST;
  must(&(call){reference_resize, &a, 1, 1, {x}, {v}});
  check_values(v, VALUES(1, 2, 3), 0); /* floor(0, 4/3, 8/3) */
  a.mode = TN_RESIZE_NEAREST_EXACT;
  must(&(call){reference_resize, &a, 1, 1, {x}, {v}});
  check_values(v, VALUES(1, 3, 4), 0); /* floor(2/3, 2, 10/3) */
}
END_TEST

/* Checks both gradients of a transposed convolution of three axes. */
START_TEST(transposed_gradients) {
  tn_conv_transpose3d_attrs a = TN_CONV_TRANSPOSE3D_DEFAULTS;
  a.stride[1] = 2, a.output_padding[1] = 1, a.padding[2] = 1, a.dilation[0] = 2, a.groups = 2;
  tn_conv_transpose3d_grad_weight_attrs g = TN_CONV_TRANSPOSE3D_GRAD_WEIGHT_DEFAULTS;
  g.stride[1] = 2, g.output_padding[1] = 1, g.padding[2] = 1, g.dilation[0] = 2, g.groups = 2;
  g.kernel[0] = 2, g.kernel[1] = 2, g.kernel[2] = 3;
  tensor *x = random_tensor(TN_F64, 1, -1, 1, SHAPE(2, 4, 2, 3, 3));
  tensor *w = random_tensor(TN_F64, 2, -1, 1, SHAPE(4, 3, 2, 2, 3));
  tensor *y = make(TN_F64, DENSE, SHAPE(2, 6, 4, 7, 3)), *dx = make_like(x, TN_F64, DENSE);
  tensor *dy = random_tensor(TN_F64, 3, -1, 1, SHAPE(2, 6, 4, 7, 3));
  tensor *dw = make_like(w, TN_F64, DENSE);
  call forward = {reference_conv_transpose3d, &a, 3, 1, {x, w}, {y}};
  must(&(call){reference_conv_transpose3d_grad_input, &a, 2, 1, {dy, w}, {dx}});
  check_gradient(&forward, x, dy, dx);
  must(&(call){reference_conv_transpose3d_grad_weight, &g, 2, 1, {dy, x}, {dw}});
  check_gradient(&forward, w, dy, dw);
  check_layouts(&forward);
}
END_TEST

START_TEST(conv_gradients) {
  tn_conv1d_attrs a = TN_CONV1D_DEFAULTS;
  a.stride = 2, a.padding = 2, a.dilation = 2;
  tn_conv1d_grad_input_attrs i = TN_CONV1D_GRAD_INPUT_DEFAULTS;
  i.stride = 2, i.padding = 2, i.dilation = 2, i.size = 9;
  tn_conv1d_grad_weight_attrs g = TN_CONV1D_GRAD_WEIGHT_DEFAULTS;
  g.stride = 2, g.padding = 2, g.dilation = 2, g.kernel = 3;
  tensor *x = random_tensor(TN_F64, 1, -1, 1, SHAPE(2, 3, 9));
  tensor *w = random_tensor(TN_F64, 2, -1, 1, SHAPE(4, 3, 3));
  tensor *y = make(TN_F64, DENSE, SHAPE(2, 4, 5)), *dx = make_like(x, TN_F64, DENSE);
  tensor *dy = random_tensor(TN_F64, 3, -1, 1, SHAPE(2, 4, 5)), *dw = make_like(w, TN_F64, DENSE);
  call forward = {reference_conv1d, &a, 3, 1, {x, w}, {y}};
  must(&(call){reference_conv1d_grad_input, &i, 2, 1, {dy, w}, {dx}});
  check_gradient(&forward, x, dy, dx);
  must(&(call){reference_conv1d_grad_weight, &g, 2, 1, {dy, x}, {dw}});
  check_gradient(&forward, w, dy, dw);
}
END_TEST

START_TEST(pool_gradients) {
  tn_avg_pool3d_attrs a = TN_AVG_POOL3D_DEFAULTS;
  tn_avg_pool3d_grad_attrs g = TN_AVG_POOL3D_GRAD_DEFAULTS;
  a.ceil_mode = g.ceil_mode = 1;
  a.padding[2] = g.padding[2] = 1;
  g.size[0] = 3, g.size[1] = 4, g.size[2] = 4;
  tensor *x = random_tensor(TN_F64, 1, -1, 1, SHAPE(1, 2, 3, 4, 4));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 2, 2, 2, 3)), *dx = make_like(x, TN_F64, DENSE);
  tensor *dy = random_tensor(TN_F64, 2, -1, 1, SHAPE(1, 2, 2, 2, 3));
  must(&(call){reference_avg_pool3d_grad, &g, 1, 1, {dy}, {dx}});
  check_gradient(&(call){reference_avg_pool3d, &a, 1, 1, {x}, {y}}, x, dy, dx);
  tn_adaptive_avg_pool3d_attrs s = {.struct_size = sizeof s, .output = {2, 2, 3}};
  tn_adaptive_avg_pool3d_grad_attrs t = {.struct_size = sizeof t, .size = {3, 4, 4}};
  must(&(call){reference_adaptive_avg_pool3d_grad, &t, 1, 1, {dy}, {dx}});
  check_gradient(&(call){reference_adaptive_avg_pool3d, &s, 1, 1, {x}, {y}}, x, dy, dx);
}
END_TEST

/* The loop counts the modes, without and with aligned corners. */
START_TEST(resize_gradients) {
  tn_resize_attrs a = {.struct_size = sizeof a, .output = {5, 3}, .mode = _i / 2};
  tn_resize_grad_attrs g = {.struct_size = sizeof g, .size = {3, 7}, .mode = _i / 2};
  a.align_corners = g.align_corners = _i % 2;
  tensor *x = random_tensor(TN_F64, 1, -1, 1, SHAPE(1, 2, 3, 7));
  tensor *y = make(TN_F64, DENSE, SHAPE(1, 2, 5, 3)), *dx = make_like(x, TN_F64, DENSE);
  tensor *dy = random_tensor(TN_F64, 2, -1, 1, SHAPE(1, 2, 5, 3));
  call forward = {reference_resize, &a, 1, 1, {x}, {y}};
  must(&(call){reference_resize_grad, &g, 1, 1, {dy}, {dx}});
  check_gradient(&forward, x, dy, dx);
  check_layouts(&forward);
}
END_TEST

Suite *window_suite(void) {
  Suite *s = suite_create("windows");
  TCase *c = add_case(s, "windows");
  tcase_add_test(c, transposed_by_hand);
  tcase_add_test(c, three_axes_by_hand);
  tcase_add_test(c, poolings_by_hand);
  tcase_add_test(c, resize_by_hand);
  tcase_add_test(c, transposed_gradients);
  tcase_add_test(c, conv_gradients);
  tcase_add_test(c, pool_gradients);
  tcase_add_loop_test(c, resize_gradients, 0, 8);
  return s;
}
