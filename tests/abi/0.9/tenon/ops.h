/* Printed by opgen from ops.def: change that file, not this one. */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#include "tenon/tenon.h"

/*
 * One function per operator; the rules are in tenon.h under "Operators".
 * Every function is thread-safe as far as its tensors and stream are.
 */
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Copies a tensor.
 *     y = x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_copy(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Converts element types: to a float by rounding to nearest even, from a float to an integer towards zero with saturation and NaN to 0, to a bool by x != 0, between integers modulo 2^bits.
 *     y = (dtype) x
 * x: input, any shape (T)
 * y: output, shape of x (U)
 * attrs->dtype: element type of y (default TN_F32)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cast(tn_stream *stream, const tn_tensor *x, const tn_cast_attrs *attrs, tn_tensor **y);

/* Sets every element to one value.
 *     y = value
 * y: updated, tensor to fill (T)
 * attrs->value: the value, converted as tn_cast converts from float64 (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_fill(tn_stream *stream, tn_tensor *y, const tn_fill_attrs *attrs);

/* Adds; integers wrap.
 *     y = a + b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_add(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Subtracts; integers wrap.
 *     y = a - b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sub(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Multiplies; integers wrap.
 *     y = a b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mul(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Divides; integers towards zero, with 0 for a zero divisor and wrapping for minimum / -1.
 *     y = a / b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_div(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The larger of two elements; NaN if either is NaN.
 *     y = max(a, b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_maximum(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The smaller of two elements; NaN if either is NaN.
 *     y = min(a, b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_minimum(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether elements are equal; NaN equals nothing.
 *     y = (a == b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_equal(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether elements differ; NaN differs from all.
 *     y = (a != b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_not_equal(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether a is less than b.
 *     y = (a < b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_less(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether a is at most b.
 *     y = (a <= b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_less_equal(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether a is greater than b.
 *     y = (a > b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_greater(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether a is at least b.
 *     y = (a >= b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_greater_equal(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Changes the sign; integers wrap.
 *     y = -x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_neg(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The exponential function.
 *     y = e^x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_exp(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The natural logarithm: -Inf at 0, NaN below.
 *     y = ln x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The square root, correctly rounded: NaN below 0.
 *     y = sqrt(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sqrt(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The rectified linear unit; NaN stays NaN.
 *     y = max(x, 0)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Source: Nair and Hinton 2010.
 * Since ABI 1. */
tn_status tn_relu(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The logistic function.
 *     y = 1 / (1 + e^-x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sigmoid(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The hyperbolic tangent.
 *     y = tanh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_tanh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The Gaussian error linear unit; 0 at -Inf.
 *     y = x Phi(x); with tanh: y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->tanh: 1 uses the tanh approximation (default 0)
 * T: f16 bf16 f32 f64
 * Source: Hendrycks and Gimpel 2016, arXiv 1606.08415.
 * Since ABI 1. */
tn_status tn_gelu(tn_stream *stream, const tn_tensor *x, const tn_gelu_attrs *attrs, tn_tensor **y);

/* Gradient of relu.
 *     dx = y > 0 ? dy : 0
 * dy: gradient of the loss by y (T)
 * y: output of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_relu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *y, tn_tensor **dx);

/* Gradient of sigmoid.
 *     dx = dy y (1 - y)
 * dy: gradient of the loss by y (T)
 * y: output of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sigmoid_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *y, tn_tensor **dx);

/* Gradient of tanh.
 *     dx = dy (1 - y^2)
 * dy: gradient of the loss by y (T)
 * y: output of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_tanh_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *y, tn_tensor **dx);

/* Gradient of gelu.
 *     dx = dy d/dx gelu(x)
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->tanh: 1 uses the tanh approximation (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_gelu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_gelu_grad_attrs *attrs, tn_tensor **dx);

/* Sum over axes; 0 over none; integers wrap.
 *     y = sum x
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sum(tn_stream *stream, const tn_tensor *x, const tn_sum_attrs *attrs, tn_tensor **y);

/* Mean over axes; NaN over none.
 *     y = sum x / count
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mean(tn_stream *stream, const tn_tensor *x, const tn_mean_attrs *attrs, tn_tensor **y);

/* Maximum over axes, which must not be empty; NaN wins.
 *     y = max x
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max(tn_stream *stream, const tn_tensor *x, const tn_max_attrs *attrs, tn_tensor **y);

/* Index of the first maximum along an axis, which must not be empty; NaN wins.
 *     y = argmax x
 * x: input, any shape (T)
 * y: index along axis, shape of x without axis (I64)
 * attrs->axis: axis to search (default -1)
 * attrs->keepdims: 1 keeps the axis with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_argmax(tn_stream *stream, const tn_tensor *x, const tn_argmax_attrs *attrs, tn_tensor **y);

/* Matrix product, batched.
 *     y = activation(a b + bias)
 * a: [..., m, k], or [..., k, m] with trans_a (T)
 * b: [..., k, n], or [..., n, k] with trans_b (T)
 * bias: optional, [n], added to every row (T)
 * y: [..., m, n]; batch axes broadcast (T)
 * attrs->trans_a: 1 uses a with its last two axes swapped (default 0)
 * attrs->trans_b: 1 uses b with its last two axes swapped (default 0)
 * attrs->activation: a tn_activation, applied to every element (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_matmul(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, const tn_tensor *bias, const tn_matmul_attrs *attrs, tn_tensor **y);

/* Two-dimensional convolution (cross-correlation) of images.
 *     y[n,k,i,j] = bias[k] + sum x[n,c,i s + p d - pad,j s + q d - pad] w[k,c,p,q]
 * x: [n, c, h, w] (T)
 * w: [k, c / groups, kh, kw] (T)
 * bias: optional, [k] (T)
 * y: [n, k, oh, ow], oh = (h + 2 padding - dilation (kh - 1) - 1) / stride + 1 (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv2d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv2d_attrs *attrs, tn_tensor **y);

/* Gradient of conv2d by its input.
 *     dx = sum dy w over the windows that read x
 * dy: [n, k, oh, ow] (T)
 * w: [k, c / groups, kh, kw] (T)
 * dx: [n, c, h, w] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->size: h, w of the forward input (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_conv2d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv2d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv2d by its weight; by its bias, sum dy over axes 0, 2, 3.
 *     dw = sum dy x over images and windows
 * dy: [n, k, oh, ow] (T)
 * x: [n, c, h, w] (T)
 * dw: [k, c / groups, kh, kw] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->kernel: kh, kw of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_conv2d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv2d_grad_weight_attrs *attrs, tn_tensor **dw);

/* Largest element of each window; NaN wins.
 *     y = max of the window
 * x: [n, c, h, w] (T)
 * y: [n, c, oh, ow], oh = (h + 2 padding - kernel) / stride + 1 (T)
 * index: optional, [n, c, oh, ow], row * w + column of the first maximum (I32)
 * attrs->kernel: height and width of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool2d(tn_stream *stream, const tn_tensor *x, const tn_max_pool2d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of max_pool2d.
 *     dx[index] += dy
 * dy: [n, c, oh, ow] (T)
 * index: what max_pool2d gave, shape of dy (I32)
 * dx: [n, c, h, w] (T)
 * attrs->kernel: height and width of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->size: h, w of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool2d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_max_pool2d_grad_attrs *attrs, tn_tensor **dx);

/* Mean of each window.
 *     y = sum of the window / count
 * x: [n, c, h, w] (T)
 * y: [n, c, oh, ow], oh = (h + 2 padding - kernel) / stride + 1 (T)
 * attrs->kernel: height and width of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool2d(tn_stream *stream, const tn_tensor *x, const tn_avg_pool2d_attrs *attrs, tn_tensor **y);

/* Gradient of avg_pool2d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, oh, ow] (T)
 * dx: [n, c, h, w] (T)
 * attrs->kernel: height and width of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->size: h, w of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool2d_grad(tn_stream *stream, const tn_tensor *dy, const tn_avg_pool2d_grad_attrs *attrs, tn_tensor **dx);

/* Softmax along an axis.
 *     y = e^(x - max x) / sum e^(x - max x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->axis: axis along which y sums to 1 (default -1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_softmax(tn_stream *stream, const tn_tensor *x, const tn_softmax_attrs *attrs, tn_tensor **y);

/* Logarithm of softmax along an axis.
 *     y = x - max x - ln sum e^(x - max x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->axis: axis along which y sums to 1 (default -1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log_softmax(tn_stream *stream, const tn_tensor *x, const tn_log_softmax_attrs *attrs, tn_tensor **y);

/* Gradient of softmax.
 *     dx = y (dy - sum dy y)
 * dy: gradient of the loss by y (T)
 * y: output of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->axis: axis along which y sums to 1 (default -1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_softmax_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *y, const tn_softmax_grad_attrs *attrs, tn_tensor **dx);

/* Gradient of log_softmax.
 *     dx = dy - e^y sum dy
 * dy: gradient of the loss by y (T)
 * y: output of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->axis: axis along which y sums to 1 (default -1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log_softmax_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *y, const tn_log_softmax_grad_attrs *attrs, tn_tensor **dx);

/* Negative log-likelihood loss; NaN for a target outside the classes.
 *     y = mean -x[n, target[n]]
 * x: log-probabilities, [n, c] or [n, c, ...] (T)
 * target: class of each sample, [n] or [n, ...], 0 <= class < c (U)
 * y: the loss: scalar, or the shape of target without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over targets (default TN_REDUCTION_MEAN)
 * attrs->ignore_index: a target that does not count, also not in the mean; INT64_MIN: none (default INT64_MIN)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_nll_loss(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_nll_loss_attrs *attrs, tn_tensor **y);

/* Gradient of nll_loss; 0 for a target outside the classes.
 *     dx[n, c] = c == target[n] ? -dy / N : 0, N the targets that count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in nll_loss (T)
 * target: as in nll_loss (U)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over targets (default TN_REDUCTION_MEAN)
 * attrs->ignore_index: a target that does not count, also not in the mean; INT64_MIN: none (default INT64_MIN)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_nll_loss_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_nll_loss_grad_attrs *attrs, tn_tensor **dx);

/* Cross-entropy of logits, log_softmax and nll_loss in one; NaN for a target outside the classes.
 *     y = mean -sum_c q[n, c] log_softmax(x)[n, c], q = (1 - s) (c == target[n]) + s / c, s the smoothing
 * x: logits, [n, c] or [n, c, ...] (T)
 * target: class of each sample, [n] or [n, ...], 0 <= class < c (U)
 * y: the loss: scalar, or the shape of target without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over targets (default TN_REDUCTION_MEAN)
 * attrs->ignore_index: a target that does not count, also not in the mean; INT64_MIN: none (default INT64_MIN)
 * attrs->label_smoothing: share of the target that all classes have alike (default 0)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_cross_entropy(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_cross_entropy_attrs *attrs, tn_tensor **y);

/* Gradient of cross_entropy; 0 for a target outside the classes.
 *     dx[n, c] = (softmax(x)[n, c] - q[n, c]) dy / N, q as in cross_entropy, N the targets that count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in nll_loss (T)
 * target: as in nll_loss (U)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over targets (default TN_REDUCTION_MEAN)
 * attrs->ignore_index: a target that does not count, also not in the mean; INT64_MIN: none (default INT64_MIN)
 * attrs->label_smoothing: share of the target that all classes have alike (default 0)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_cross_entropy_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_cross_entropy_grad_attrs *attrs, tn_tensor **dx);

/* Drops elements at random and scales the rest, with the same mask on every device.
 *     mask = u >= p; y = mask ? x / (1 - p) : 0
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * mask: 1 where x was kept, shape of x (BOOL)
 * attrs->p: probability of dropping an element (default 0.5)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (elements + 3) / 4, in float64 twice that (default 0)
 * T: f16 bf16 f32 f64
 * Source: Srivastava et al. 2014; Philox4x32-10, Salmon et al. 2011.
 * Since ABI 1. */
tn_status tn_dropout(tn_stream *stream, const tn_tensor *x, const tn_dropout_attrs *attrs, tn_tensor **y, tn_tensor **mask);

/* Gradient of dropout.
 *     dx = mask ? dy / (1 - p) : 0
 * dy: gradient of the loss by y (T)
 * mask: what dropout gave, shape of dy (BOOL)
 * dx: gradient by x, shape of dy (T)
 * attrs->p: as in dropout (default 0.5)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_dropout_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *mask, const tn_dropout_grad_attrs *attrs, tn_tensor **dx);

/* Uniform random numbers, the same on every device.
 *     y = low + (high - low) u
 * y: updated, tensor to fill (T)
 * attrs->low: least value (default 0)
 * attrs->high: bound of the values, low <= high (default 1)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (elements + 3) / 4, in float64 twice that (default 0)
 * T: f16 bf16 f32 f64
 * Source: Philox4x32-10, Salmon et al. 2011.
 * Since ABI 1. */
tn_status tn_uniform(tn_stream *stream, tn_tensor *y, const tn_uniform_attrs *attrs);

/* Normal random numbers, the same on every device to rounding.
 *     y = mean + std z, z by Box and Muller
 * y: updated, tensor to fill (T)
 * attrs->mean: centre (default 0)
 * attrs->std: standard deviation (default 1)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (elements + 3) / 4, in float64 twice that (default 0)
 * T: f16 bf16 f32 f64
 * Source: Box and Muller 1958; Philox4x32-10, Salmon et al. 2011.
 * Since ABI 1. */
tn_status tn_normal(tn_stream *stream, tn_tensor *y, const tn_normal_attrs *attrs);

/* One step of stochastic gradient descent with momentum.
 *     g = grad + wd param; v = momentum v + g; param -= lr (nesterov ? g + momentum v : v)
 * grad: gradient by param (T)
 * param: updated, parameter, updated (T)
 * velocity: updated, momentum buffer, updated; zero before the first step (T)
 * attrs->lr: learning rate (default 0.01)
 * attrs->momentum: decay of the momentum buffer (default 0)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * attrs->nesterov: 1 looks ahead along the momentum (default 0)
 * T: f16 bf16 f32 f64
 * Source: Sutskever et al. 2013.
 * Since ABI 1. */
tn_status tn_sgd_step(tn_stream *stream, const tn_tensor *grad, tn_tensor *param, tn_tensor *velocity, const tn_sgd_step_attrs *attrs);

/* One step of Adam.
 *     m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; param -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 * grad: gradient by param (T)
 * param: updated, parameter, updated (T)
 * m: updated, first moment, updated; zero before the first step (T)
 * v: updated, second moment, updated; zero before the first step (T)
 * attrs->lr: learning rate (default 0.001)
 * attrs->beta1: decay of m (default 0.9)
 * attrs->beta2: decay of v (default 0.999)
 * attrs->eps: added to the denominator (default 1e-8)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * attrs->step: number of this step, from 1 (default 1)
 * T: f16 bf16 f32 f64
 * Source: Kingma and Ba 2015, arXiv 1412.6980.
 * Since ABI 1. */
tn_status tn_adam_step(tn_stream *stream, const tn_tensor *grad, tn_tensor *param, tn_tensor *m, tn_tensor *v, const tn_adam_step_attrs *attrs);

/* The magnitude; integers wrap, so the least one stays as it is.
 *     y = |x|
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_abs(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* 1, 0 or -1 as x is above, at or below 0; zeros and NaN stay as they are.
 *     y = x / |x|
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sign(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* One over x, correctly rounded.
 *     y = 1 / x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_reciprocal(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The square; integers wrap.
 *     y = x x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_square(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* One over the square root: infinite at 0, with its sign; NaN below.
 *     y = 1 / sqrt(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_rsqrt(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The cube root, also of negative numbers.
 *     y = x^(1/3)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cbrt(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Two to the power of x.
 *     y = 2^x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_exp2(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The exponential function less 1, precise around 0.
 *     y = e^x - 1
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_expm1(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The logarithm to base 2: -Inf at 0, NaN below.
 *     y = log2 x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log2(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The logarithm to base 10: -Inf at 0, NaN below.
 *     y = log10 x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log10(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The natural logarithm of 1 + x, precise around 0: -Inf at -1, NaN below.
 *     y = ln(1 + x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_log1p(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The sine of an angle in radians; NaN at the infinities.
 *     y = sin x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sin(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The cosine of an angle in radians; NaN at the infinities.
 *     y = cos x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cos(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The tangent of an angle in radians; NaN at the infinities.
 *     y = tan x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_tan(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The arc sine in radians: NaN outside -1 .. 1.
 *     y = asin x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_asin(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The arc cosine in radians: NaN outside -1 .. 1.
 *     y = acos x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_acos(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The arc tangent in radians.
 *     y = atan x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_atan(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The hyperbolic sine.
 *     y = sinh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sinh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The hyperbolic cosine.
 *     y = cosh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cosh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The inverse hyperbolic sine.
 *     y = asinh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_asinh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The inverse hyperbolic cosine: NaN below 1.
 *     y = acosh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_acosh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The inverse hyperbolic tangent: infinite at -1 and 1, NaN beyond.
 *     y = atanh x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_atanh(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The error function.
 *     y = 2 / sqrt(pi) integral of e^-t^2 from 0 to x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_erf(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The complementary error function, precise where erf is close to 1.
 *     y = 1 - erf x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_erfc(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* A smooth relu; x itself where beta x > threshold.
 *     y = ln(1 + e^(beta x)) / beta
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->beta: how sharp the bend is (default 1)
 * attrs->threshold: beta x beyond which the output is x (default 20)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_softplus(tn_stream *stream, const tn_tensor *x, const tn_softplus_attrs *attrs, tn_tensor **y);

/* relu with a slope below 0.
 *     y = x > 0 ? x : slope x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->slope: the slope below 0 (default 0.01)
 * T: f16 bf16 f32 f64
 * Source: Maas, Hannun and Ng 2013.
 * Since ABI 1. */
tn_status tn_leaky_relu(tn_stream *stream, const tn_tensor *x, const tn_leaky_relu_attrs *attrs, tn_tensor **y);

/* The exponential linear unit.
 *     y = x > 0 ? x : alpha (e^x - 1)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->alpha: less the limit at -Inf (default 1)
 * T: f16 bf16 f32 f64
 * Source: Clevert, Unterthiner and Hochreiter 2015, arXiv 1511.07289.
 * Since ABI 1. */
tn_status tn_elu(tn_stream *stream, const tn_tensor *x, const tn_elu_attrs *attrs, tn_tensor **y);

/* The scaled exponential linear unit.
 *     y = 1.0507... (x > 0 ? x : 1.6732... (e^x - 1))
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Source: Klambauer et al. 2017, arXiv 1706.02515.
 * Since ABI 1. */
tn_status tn_selu(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The sigmoid linear unit, also called swish; 0 at -Inf.
 *     y = x / (1 + e^-x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Source: Elfwing, Uchibe and Doya 2017, arXiv 1702.03118.
 * Since ABI 1. */
tn_status tn_silu(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* A smooth activation without bound above; 0 at -Inf.
 *     y = x tanh(ln(1 + e^x))
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Source: Misra 2019, arXiv 1908.08681.
 * Since ABI 1. */
tn_status tn_mish(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* silu in straight pieces; 0 at -Inf.
 *     y = x min(max(x + 3, 0), 6) / 6
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Source: Howard et al. 2019, arXiv 1905.02244.
 * Since ABI 1. */
tn_status tn_hardswish(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* sigmoid in straight pieces.
 *     y = min(max(x + 3, 0), 6) / 6
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: f16 bf16 f32 f64
 * Source: Howard et al. 2019, arXiv 1905.02244.
 * Since ABI 1. */
tn_status tn_hardsigmoid(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The greatest whole number not above x; integers stay as they are.
 *     y = floor(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_floor(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The least whole number not below x; integers stay as they are.
 *     y = ceil(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_ceil(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* The nearest whole number, the even one of two; integers stay as they are.
 *     y = round(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_round(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* x without its fraction; integers stay as they are.
 *     y = trunc(x)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_trunc(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Whether x is not a number.
 *     y = (x != x)
 * x: input, any shape (T)
 * y: output, shape of x (BOOL)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_isnan(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Whether x is Inf or -Inf.
 *     y = (|x| == Inf)
 * x: input, any shape (T)
 * y: output, shape of x (BOOL)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_isinf(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Whether x is neither infinite nor NaN.
 *     y = (|x| < Inf)
 * x: input, any shape (T)
 * y: output, shape of x (BOOL)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_isfinite(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Whether x is 0; NaN is not.
 *     y = (x == 0)
 * x: input, any shape (T)
 * y: output, shape of x (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_logical_not(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Every bit inverted; of a bool, its opposite.
 *     y = ~x
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * T: bool u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_bitwise_not(tn_stream *stream, const tn_tensor *x, tn_tensor **y);

/* Divides and rounds down, as Python's //: an integer divided by 0 gives 0, minimum / -1 wraps; a float divided by 0 gives a / b, an infinite a gives NaN.
 *     y = floor(a / b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_floor_div(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The remainder of floor_div, which has the sign of b, as Python's %; 0 for an integer b of 0, NaN for a float one.
 *     y = a - b floor(a / b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mod(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The remainder of a division towards zero, which has the sign of a, as C's fmod and %; 0 for an integer b of 0, NaN for a float one.
 *     y = a - b trunc(a / b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_fmod(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Raises to a power. Floats as C's pow. Integers wrap; to a negative power they give 1 / a^-b rounded towards zero: 0 but for a = 1 and a = -1; 0^0 is 1.
 *     y = a^b
 * a: base (T)
 * b: exponent (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_pow(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The angle from the first axis to the point (b, a), from -pi to pi, as C's atan2.
 *     y = atan2(a, b)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_atan2(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The length of the vector (a, b) without needless overflow; infinite if either is, even beside NaN.
 *     y = sqrt(a^2 + b^2)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_hypot(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether both elements are other than 0; NaN is.
 *     y = (a != 0) and (b != 0)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_logical_and(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether either element is other than 0; NaN is.
 *     y = (a != 0) or (b != 0)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_logical_or(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Whether exactly one of two elements is other than 0; NaN is.
 *     y = (a != 0) != (b != 0)
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (BOOL)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_logical_xor(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The bits that both elements have.
 *     y = a & b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: bool u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_bitwise_and(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The bits that either element has.
 *     y = a | b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: bool u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_bitwise_or(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* The bits that one element has and the other has not.
 *     y = a ^ b
 * a: left operand (T)
 * b: right operand (T)
 * y: output, the broadcast shape of a and b (T)
 * T: bool u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_bitwise_xor(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Shifts bits up, zeros from below; 0 where the places are negative or as many as T has bits, or more.
 *     y = a 2^b
 * a: bits (T)
 * b: places (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_left_shift(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Shifts bits down, the sign from above; -1 or 0 by the sign of a where the places are negative or as many as T has bits, or more.
 *     y = floor(a / 2^b)
 * a: bits (T)
 * b: places (T)
 * y: output, the broadcast shape of a and b (T)
 * T: u8 i8 i16 i32 i64
 * Since ABI 1. */
tn_status tn_right_shift(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Takes each element from one of two tensors.
 *     y = condition ? a : b
 * condition: which element to take (BOOL)
 * a: taken where condition holds (T)
 * b: taken elsewhere (T)
 * y: output, the broadcast shape of the inputs (T)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_where(tn_stream *stream, const tn_tensor *condition, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Limits elements to a range; NaN stays NaN. The bounds are converted to T as tn_cast converts from float64; where min > max the result is max.
 *     y = min(max(x, min), max)
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->min: lower bound; NaN: none (default -INFINITY)
 * attrs->max: upper bound; NaN: none (default INFINITY)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_clamp(tn_stream *stream, const tn_tensor *x, const tn_clamp_attrs *attrs, tn_tensor **y);

/* Gradient of clamp: dy where x is within the bounds or NaN, 0 elsewhere.
 *     dx = x < min or x > max ? 0 : dy
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->min: lower bound; NaN: none (default -INFINITY)
 * attrs->max: upper bound; NaN: none (default INFINITY)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_clamp_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_clamp_grad_attrs *attrs, tn_tensor **dx);

/* Linear interpolation, exact at both ends; computed in float64 and rounded once.
 *     y = t < 1/2 ? a + t (b - a) : b - (1 - t) (b - a)
 * a: where t is 0 (T)
 * b: where t is 1 (T)
 * t: weight, any number (T)
 * y: output, the broadcast shape of the inputs (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_lerp(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, const tn_tensor *t, tn_tensor **y);

/* Multiplies and adds with one rounding; integers wrap.
 *     y = a b + c
 * a: left factor (T)
 * b: right factor (T)
 * c: added to the product (T)
 * y: output, the broadcast shape of the inputs (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_fma(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, const tn_tensor *c, tn_tensor **y);

/* Gradient of silu.
 *     dx = dy d/dx silu(x)
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_silu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, tn_tensor **dx);

/* Gradient of mish.
 *     dx = dy d/dx mish(x)
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mish_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, tn_tensor **dx);

/* Gradient of softplus.
 *     dx = beta x > threshold ? dy : dy sigmoid(beta x)
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->beta: how sharp the bend is (default 1)
 * attrs->threshold: beta x beyond which the output is x (default 20)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_softplus_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_softplus_grad_attrs *attrs, tn_tensor **dx);

/* Gradient of leaky_relu.
 *     dx = x > 0 ? dy : slope dy
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->slope: the slope below 0 (default 0.01)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_leaky_relu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_leaky_relu_grad_attrs *attrs, tn_tensor **dx);

/* Gradient of elu.
 *     dx = x > 0 ? dy : alpha e^x dy
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * attrs->alpha: less the limit at -Inf (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_elu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_elu_grad_attrs *attrs, tn_tensor **dx);

/* Gradient of selu.
 *     dx = 1.0507... (x > 0 ? dy : 1.6732... e^x dy)
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_selu_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, tn_tensor **dx);

/* Gradient of hardswish: 0 at x = -3, dy at 3.
 *     dx = x <= -3 ? 0 : x >= 3 ? dy : dy (2 x + 3) / 6
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_hardswish_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, tn_tensor **dx);

/* Gradient of hardsigmoid: 0 at -3 and 3.
 *     dx = |x| < 3 ? dy / 6 : 0
 * dy: gradient of the loss by y (T)
 * x: input of the forward operator, shape of dy (T)
 * dx: gradient by x, shape of dy (T)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_hardsigmoid_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, tn_tensor **dx);

/* Product over axes; 1 over none; integers wrap.
 *     y = prod x
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_prod(tn_stream *stream, const tn_tensor *x, const tn_prod_attrs *attrs, tn_tensor **y);

/* Minimum over axes, which must not be empty; NaN wins.
 *     y = min x
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_min(tn_stream *stream, const tn_tensor *x, const tn_min_attrs *attrs, tn_tensor **y);

/* Whether any element over axes is other than 0, as NaN is; none gives false.
 *     y = or (x != 0)
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (BOOL)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_any(tn_stream *stream, const tn_tensor *x, const tn_any_attrs *attrs, tn_tensor **y);

/* Whether all elements over axes are other than 0, as NaN is; none gives true.
 *     y = and (x != 0)
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (BOOL)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_all(tn_stream *stream, const tn_tensor *x, const tn_all_attrs *attrs, tn_tensor **y);

/* Index of the first minimum along an axis, which must not be empty; NaN wins.
 *     y = argmin x
 * x: input, any shape (T)
 * y: index along axis, shape of x without axis (I64)
 * attrs->axis: axis to search (default -1)
 * attrs->keepdims: 1 keeps the axis with size 1 (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_argmin(tn_stream *stream, const tn_tensor *x, const tn_argmin_attrs *attrs, tn_tensor **y);

/* Variance over axes, from distances to the mean; NaN where NaN or an infinity is among the elements, and over none.
 *     y = sum (x - mean x)^2 / max(count - correction, 0)
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * attrs->correction: what the divisor, the count, is lowered by; the divisor is at least 0 (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_var(tn_stream *stream, const tn_tensor *x, const tn_var_attrs *attrs, tn_tensor **y);

/* Standard deviation over axes: the square root of var.
 *     y = sqrt(sum (x - mean x)^2 / max(count - correction, 0))
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * attrs->correction: what the divisor, the count, is lowered by; the divisor is at least 0 (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_std(tn_stream *stream, const tn_tensor *x, const tn_std_attrs *attrs, tn_tensor **y);

/* Logarithm of the sum of exponentials over axes, without needless overflow; Inf where Inf is among the elements and NaN is not, -Inf over none and over -Inf alone.
 *     y = max x + ln sum e^(x - max x)
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_logsumexp(tn_stream *stream, const tn_tensor *x, const tn_logsumexp_attrs *attrs, tn_tensor **y);

/* Vector norm over axes, without needless overflow: the sum of magnitudes, the root of the sum of squares, or the largest magnitude; NaN wins; 0 over none.
 *     y = (sum |x|^ord)^(1/ord)
 * x: input, any shape (T)
 * y: output, shape of x without the reduced axes (T)
 * attrs->axes: axes to reduce; none means all (default 0)
 * attrs->keepdims: 1 keeps reduced axes with size 1 (default 0)
 * attrs->ord: 1, 2 or INFINITY (default 2)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_norm(tn_stream *stream, const tn_tensor *x, const tn_norm_attrs *attrs, tn_tensor **y);

/* Running sum along an axis; integers wrap. Its gradient is the scan of dy the other way round.
 *     y_i = sum_(k <= i) x_k; exclusive: k < i
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->axis: axis along which the scan runs (default -1)
 * attrs->reverse: 1 runs from the last element to the first (default 0)
 * attrs->exclusive: 1 leaves each element out of its own result (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cumsum(tn_stream *stream, const tn_tensor *x, const tn_cumsum_attrs *attrs, tn_tensor **y);

/* Running product along an axis; integers wrap.
 *     y_i = prod_(k <= i) x_k; exclusive: k < i
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->axis: axis along which the scan runs (default -1)
 * attrs->reverse: 1 runs from the last element to the first (default 0)
 * attrs->exclusive: 1 leaves each element out of its own result (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cumprod(tn_stream *stream, const tn_tensor *x, const tn_cumprod_attrs *attrs, tn_tensor **y);

/* Running maximum along an axis; NaN wins from where it stands.
 *     y_i = max_(k <= i) x_k
 * x: input, any shape (T)
 * y: running maximum, shape of x (T)
 * index: optional, where along axis the maximum stands: the first that the scan met (I64)
 * attrs->axis: axis along which the scan runs (default -1)
 * attrs->reverse: 1 runs from the last element to the first (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_cummax(tn_stream *stream, const tn_tensor *x, const tn_cummax_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Puts elements around a tensor: a value, its reflection without the edge, or its edge.
 *     y[i] = x[i - before]; outside x: value, x mirrored at its edge, or x at its edge
 * x: input, any shape (T)
 * y: size before[d] + size of x + after[d] along axis d (T)
 * attrs->before: elements put before each axis; none means 0 everywhere (default 0)
 * attrs->after: elements put behind each axis; none means 0 everywhere (default 0)
 * attrs->mode: a tn_pad_mode: constant, reflect (fewer than the axis has) or edge (default TN_PAD_CONSTANT)
 * attrs->value: what mode constant puts there, converted as tn_cast converts from float64 (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_pad(tn_stream *stream, const tn_tensor *x, const tn_pad_attrs *attrs, tn_tensor **y);

/* Gradient of pad.
 *     dx[j] = sum of dy[i] over the i that read x[j]
 * dy: gradient of the loss by y (T)
 * dx: gradient by x: dy without what was put on (T)
 * attrs->before: elements put before each axis; none means 0 everywhere (default 0)
 * attrs->after: elements put behind each axis; none means 0 everywhere (default 0)
 * attrs->mode: a tn_pad_mode: constant, reflect (fewer than the axis has) or edge (default TN_PAD_CONSTANT)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_pad_grad(tn_stream *stream, const tn_tensor *dy, const tn_pad_grad_attrs *attrs, tn_tensor **dx);

/* Repeats a tensor as a whole along its axes.
 *     y[i] = x[i mod shape of x]
 * x: input, any shape; gets leading axes of size 1 where reps has more entries (T)
 * y: size of x times reps along each axis (T)
 * attrs->reps: times to repeat each axis, for the last axes where it has fewer entries (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_tile(tn_stream *stream, const tn_tensor *x, const tn_tile_attrs *attrs, tn_tensor **y);

/* Repeats each entry of an axis, side by side.
 *     y[..., i, ...] = x[..., i / repeats, ...]
 * x: input, rank at least 1 (T)
 * y: shape of x, axis times repeats (T)
 * attrs->repeats: times to repeat each entry (default 1)
 * attrs->axis: axis along which to repeat (default -1)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_repeat(tn_stream *stream, const tn_tensor *x, const tn_repeat_attrs *attrs, tn_tensor **y);

/* Reverses axes.
 *     y[i] = x[size - 1 - i]
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->axes: axes to reverse; none means all (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_flip(tn_stream *stream, const tn_tensor *x, const tn_flip_attrs *attrs, tn_tensor **y);

/* Moves elements along axes; what leaves at one end comes in at the other.
 *     y[i] = x[(i - shift) mod size]
 * x: input, any shape (T)
 * y: output, shape of x (T)
 * attrs->shifts: places to move along each of axes, negative to the front (default 0)
 * attrs->axes: axes to move along; none means all, in order (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_roll(tn_stream *stream, const tn_tensor *x, const tn_roll_attrs *attrs, tn_tensor **y);

/* Picks entries of an axis.
 *     y[..., k, ...] = x[..., index[k], ...]
 * x: data, rank at least 1 (T)
 * index: [k], -size <= index < size along axis; outside, the entry is 0 (U)
 * y: shape of x with size k along axis (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_index_select(tn_stream *stream, const tn_tensor *x, const tn_tensor *index, const tn_index_select_attrs *attrs, tn_tensor **y);

/* Adds to entries of an axis, in place; the gradient of index_select from a y of zeros.
 *     y[..., index[k], ...] += updates[..., k, ...]
 * updates: shape of y with size k along axis (T)
 * index: [k], -size <= index < size along axis; outside, the entry is skipped (U)
 * y: updated, what is added to (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_index_add(tn_stream *stream, const tn_tensor *updates, const tn_tensor *index, tn_tensor *y, const tn_index_add_attrs *attrs);

/* Picks entries of an axis by an index of any shape.
 *     y[before..., i..., after...] = x[before..., index[i...], after...]
 * x: data, rank at least 1 (T)
 * index: any shape, -size <= index < size along axis; outside, the entry is 0 (U)
 * y: shape of x with the index's shape in place of axis (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_gather(tn_stream *stream, const tn_tensor *x, const tn_tensor *index, const tn_gather_attrs *attrs, tn_tensor **y);

/* Picks one element along an axis for each index.
 *     y[..., i, ...] = x[..., index[..., i, ...], ...]
 * x: data, rank at least 1 (T)
 * index: rank of x and no larger than x except along axis; -size <= index < size along axis; outside, the entry is 0 (U)
 * y: shape of index (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_take_along_axis(tn_stream *stream, const tn_tensor *x, const tn_tensor *index, const tn_take_along_axis_attrs *attrs, tn_tensor **y);

/* Writes elements along an axis, in place; of several to one place, the last in row-major order stays.
 *     y[..., index[..., i, ...], ...] = updates[..., i, ...]
 * updates: rank of y and no larger than y except along axis (T)
 * index: shape of updates, -size <= index < size along axis; outside, the update is skipped (U)
 * y: updated, what is written to (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_scatter(tn_stream *stream, const tn_tensor *updates, const tn_tensor *index, tn_tensor *y, const tn_scatter_attrs *attrs);

/* Adds elements along an axis, in place; the gradient of take_along_axis from a y of zeros.
 *     y[..., index[..., i, ...], ...] += updates[..., i, ...]
 * updates: rank of y and no larger than y except along axis (T)
 * index: shape of updates, -size <= index < size along axis; outside, the update is skipped (U)
 * y: updated, what is written to (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_scatter_add(tn_stream *stream, const tn_tensor *updates, const tn_tensor *index, tn_tensor *y, const tn_scatter_add_attrs *attrs);

/* Raises elements along an axis, in place, to the largest update; NaN wins.
 *     y[..., index[..., i, ...], ...] max= updates[..., i, ...]
 * updates: rank of y and no larger than y except along axis (T)
 * index: shape of updates, -size <= index < size along axis; outside, the update is skipped (U)
 * y: updated, what is written to (T)
 * attrs->axis: axis of the data that the index goes along (default 0)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_scatter_max(tn_stream *stream, const tn_tensor *updates, const tn_tensor *index, tn_tensor *y, const tn_scatter_max_attrs *attrs);

/* Marks the index along a new axis.
 *     y[..., c, ...] = c == index ? on : off
 * index: any shape, -classes <= index < classes; outside, every entry is off (T)
 * y: shape of index with an axis of size classes put in (U)
 * attrs->classes: size of the new axis (default 1)
 * attrs->axis: where the new axis stands in y (default -1)
 * attrs->dtype: element type of y (default TN_F32)
 * attrs->on: the value at the index, converted as tn_cast converts from float64 (default 1)
 * attrs->off: the value elsewhere (default 0)
 * T: i32 i64
 * U: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_one_hot(tn_stream *stream, const tn_tensor *index, const tn_one_hot_attrs *attrs, tn_tensor **y);

/* The indices of the elements that are not zero; NaN is not zero.
 *     y[k] = the k-th index i with x[i] != 0
 * x: input, any shape (T)
 * y: [count, rank of x]: where the elements are, in row-major order (I64)
 * count: how many there are, a scalar (I64)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_nonzero(tn_stream *stream, const tn_tensor *x, tn_tensor **y, tn_tensor **count);

/* Counts in row-major order, in float64 with one rounding at the end; integers take start and step as tn_cast to i64 would, and wrap.
 *     y[i] = start + i step
 * y: updated, tensor to fill, any shape (T)
 * attrs->start: the first number (default 0)
 * attrs->step: from one to the next, not 0 (default 1)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_arange(tn_stream *stream, tn_tensor *y, const tn_arange_attrs *attrs);

/* Numbers at equal distances in row-major order, in float64 with one rounding at the end; the last is stop itself, a lone one is start.
 *     y[i] = start + i (stop - start) / (n - 1)
 * y: updated, tensor to fill, any shape (T)
 * attrs->start: the first number (default 0)
 * attrs->stop: the last number (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_linspace(tn_stream *stream, tn_tensor *y, const tn_linspace_attrs *attrs);

/* Ones on a diagonal of the last two axes, zeros elsewhere.
 *     y[..., i, j] = (j - i == diagonal)
 * y: updated, tensor to fill, [..., rows, columns] (T)
 * attrs->diagonal: 0 is the main one, more lies above it, less below (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_eye(tn_stream *stream, tn_tensor *y, const tn_eye_attrs *attrs);

/* The lower triangle of the last two axes, zeros above the diagonal.
 *     y[..., i, j] = j - i <= diagonal ? x[..., i, j] : 0
 * x: [..., rows, columns] (T)
 * y: output, shape of x (T)
 * attrs->diagonal: 0 is the main one, more lies above it, less below (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_tril(tn_stream *stream, const tn_tensor *x, const tn_tril_attrs *attrs, tn_tensor **y);

/* The upper triangle of the last two axes, zeros below the diagonal.
 *     y[..., i, j] = j - i >= diagonal ? x[..., i, j] : 0
 * x: [..., rows, columns] (T)
 * y: output, shape of x (T)
 * attrs->diagonal: 0 is the main one, more lies above it, less below (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_triu(tn_stream *stream, const tn_tensor *x, const tn_triu_attrs *attrs, tn_tensor **y);

/* Joins tensors along an axis that they have.
 *     y = [x0 | x1 | ...] along axis
 * x: list, inputs, of one shape but for the axis (T)
 * y: output, along the axis as long as all inputs together (T)
 * count: tensors in each list
 * attrs->axis: the axis along which they are joined (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Source: NumPy, concatenate.
 * Since ABI 1. */
tn_status tn_concat(tn_stream *stream, const tn_tensor *const *x, size_t count, const tn_concat_attrs *attrs, tn_tensor **y);

/* Joins tensors along a new axis.
 *     y[..., i, ...] = xi[...]
 * x: list, inputs, of one shape (T)
 * y: output, with one more axis, as long as the list (T)
 * count: tensors in each list
 * attrs->axis: where the new axis stands in y (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Source: NumPy, stack.
 * Since ABI 1. */
tn_status tn_stack(tn_stream *stream, const tn_tensor *const *x, size_t count, const tn_stack_attrs *attrs, tn_tensor **y);

/* Sorts along an axis, stably; NaN is larger than every number, -0 equals 0.
 *     y = x[index], y[i] <= y[i + 1]
 * x: input, any shape but a scalar (T)
 * y: sorted, shape of x (T)
 * index: optional, where along axis each element stood, shape of x (I64)
 * attrs->axis: axis to sort along (default -1)
 * attrs->descending: 1 puts the largest first (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_sort(tn_stream *stream, const tn_tensor *x, const tn_sort_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* The stable order of the elements along an axis; NaN is larger than every number.
 *     x[y[i]] <= x[y[i + 1]]
 * x: input, any shape but a scalar (T)
 * index: where along axis the elements stand in their order, shape of x (I64)
 * attrs->axis: axis to sort along (default -1)
 * attrs->descending: 1 puts the largest first (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_argsort(tn_stream *stream, const tn_tensor *x, const tn_argsort_attrs *attrs, tn_tensor **index);

/* The k largest or smallest elements along an axis, in order; of equal ones the first. NaN is larger than every number.
 *     y = sort(x)[0 .. k)
 * x: input, any shape but a scalar (T)
 * y: the k elements, in order, shape of x with k along axis (T)
 * index: optional, where along axis each stood, shape of y (I64)
 * attrs->k: how many, at most the size of axis (default 1)
 * attrs->axis: axis to search (default -1)
 * attrs->largest: 1 finds the largest, largest first; 0 the smallest, smallest first (default 1)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_topk(tn_stream *stream, const tn_tensor *x, const tn_topk_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* The different elements of a tensor, rising; all NaN count as one, the last.
 *     y = {x}
 * x: input, any shape, n elements (T)
 * y: [count] of at most [n], rising (T)
 * counts: optional, [count], how often each stands in x (I64)
 * count: how many there are, a scalar (I64)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_unique(tn_stream *stream, const tn_tensor *x, tn_tensor **y, tn_tensor **counts, tn_tensor **count);

/* Scalar products along the last axis; integers wrap.
 *     y = sum over k of a b
 * a: [..., k] (T)
 * b: [..., k] (T)
 * y: [...]; batch axes broadcast (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_dot(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* Every element of a times every element of b, batched; integers wrap.
 *     y[m, n] = a[m] b[n]
 * a: [..., m] (T)
 * b: [..., n] (T)
 * y: [..., m, n]; batch axes broadcast (T)
 * T: u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_outer(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

/* One-dimensional convolution (cross-correlation) of signals.
 *     y[n,k,i] = bias[k] + sum x[n,c,i s + p d - pad] w[k,c,p]
 * x: [n, c, size...] (T)
 * w: [k, c / groups, kernel...] (T)
 * bias: optional, [k] (T)
 * y: [n, k, out...], out = (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1 (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv1d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv1d_attrs *attrs, tn_tensor **y);

/* Gradient of conv1d by its input.
 *     dx = sum dy w over the windows that read x
 * dy: [n, k, out...] (T)
 * w: [k, c / groups, kernel...] (T)
 * dx: [n, c, size...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->size: length of the forward input (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv1d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv1d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv1d by its weight; by its bias, sum dy over axes 0, 2.
 *     dw = sum dy x over images and windows
 * dy: [n, k, out...] (T)
 * x: [n, c, size...] (T)
 * dw: [k, c / groups, kernel...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->kernel: length of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv1d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv1d_grad_weight_attrs *attrs, tn_tensor **dw);

/* Three-dimensional convolution (cross-correlation) of volumes.
 *     y[n,k,i] = bias[k] + sum x[n,c,i s + p d - pad] w[k,c,p]
 * x: [n, c, size...] (T)
 * w: [k, c / groups, kernel...] (T)
 * bias: optional, [k] (T)
 * y: [n, k, out...], out = (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1 (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv3d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv3d_attrs *attrs, tn_tensor **y);

/* Gradient of conv3d by its input.
 *     dx = sum dy w over the windows that read x
 * dy: [n, k, out...] (T)
 * w: [k, c / groups, kernel...] (T)
 * dx: [n, c, size...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->size: d, h, w of the forward input (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv3d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv3d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv3d by its weight; by its bias, sum dy over axes 0, 2, 3, 4.
 *     dw = sum dy x over images and windows
 * dy: [n, k, out...] (T)
 * x: [n, c, size...] (T)
 * dw: [k, c / groups, kernel...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->kernel: d, h, w of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv3d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv3d_grad_weight_attrs *attrs, tn_tensor **dw);

/* One-dimensional transposed convolution: conv1d_grad_input and a bias.
 *     y[n,k,i s + p d - pad] = bias[k] + sum x[n,c,i] w[c,k,p]
 * x: [n, c, size...] (T)
 * w: [c, k / groups, kernel...] (T)
 * bias: optional, [k] (T)
 * y: [n, k, out...], out = (size - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose1d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv_transpose1d_attrs *attrs, tn_tensor **y);

/* Gradient of conv_transpose1d by its input: conv1d of dy.
 *     dx[n,c,i] = sum dy[n,k,i s + p d - pad] w[c,k,p]
 * dy: [n, k, out...] (T)
 * w: [c, k / groups, kernel...] (T)
 * dx: [n, c, size...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose1d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv_transpose1d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv_transpose1d by its weight; by its bias, sum dy over axes 0, 2.
 *     dw[c,k,p] = sum dy[n,k,i s + p d - pad] x[n,c,i]
 * dy: [n, k, out...] (T)
 * x: [n, c, size...] (T)
 * dw: [c, k / groups, kernel...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * attrs->kernel: length of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose1d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv_transpose1d_grad_weight_attrs *attrs, tn_tensor **dw);

/* Two-dimensional transposed convolution: conv2d_grad_input and a bias.
 *     y[n,k,i s + p d - pad] = bias[k] + sum x[n,c,i] w[c,k,p]
 * x: [n, c, size...] (T)
 * w: [c, k / groups, kernel...] (T)
 * bias: optional, [k] (T)
 * y: [n, k, out...], out = (size - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose2d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv_transpose2d_attrs *attrs, tn_tensor **y);

/* Gradient of conv_transpose2d by its input: conv2d of dy.
 *     dx[n,c,i] = sum dy[n,k,i s + p d - pad] w[c,k,p]
 * dy: [n, k, out...] (T)
 * w: [c, k / groups, kernel...] (T)
 * dx: [n, c, size...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose2d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv_transpose2d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv_transpose2d by its weight; by its bias, sum dy over axes 0, 2, 3.
 *     dw[c,k,p] = sum dy[n,k,i s + p d - pad] x[n,c,i]
 * dy: [n, k, out...] (T)
 * x: [n, c, size...] (T)
 * dw: [c, k / groups, kernel...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * attrs->kernel: h, w of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose2d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv_transpose2d_grad_weight_attrs *attrs, tn_tensor **dw);

/* Three-dimensional transposed convolution: conv3d_grad_input and a bias.
 *     y[n,k,i s + p d - pad] = bias[k] + sum x[n,c,i] w[c,k,p]
 * x: [n, c, size...] (T)
 * w: [c, k / groups, kernel...] (T)
 * bias: optional, [k] (T)
 * y: [n, k, out...], out = (size - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose3d(tn_stream *stream, const tn_tensor *x, const tn_tensor *w, const tn_tensor *bias, const tn_conv_transpose3d_attrs *attrs, tn_tensor **y);

/* Gradient of conv_transpose3d by its input: conv3d of dy.
 *     dx[n,c,i] = sum dy[n,k,i s + p d - pad] w[c,k,p]
 * dy: [n, k, out...] (T)
 * w: [c, k / groups, kernel...] (T)
 * dx: [n, c, size...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose3d_grad_input(tn_stream *stream, const tn_tensor *dy, const tn_tensor *w, const tn_conv_transpose3d_grad_input_attrs *attrs, tn_tensor **dx);

/* Gradient of conv_transpose3d by its weight; by its bias, sum dy over axes 0, 2, 3, 4.
 *     dw[c,k,p] = sum dy[n,k,i s + p d - pad] x[n,c,i]
 * dy: [n, k, out...] (T)
 * x: [n, c, size...] (T)
 * dw: [c, k / groups, kernel...] (T)
 * attrs->stride: step of the window (default 1)
 * attrs->padding: zeros on either side (default 0)
 * attrs->dilation: distance of kernel elements (default 1)
 * attrs->groups: groups of channels that do not mix (default 1)
 * attrs->output_padding: elements added at the end of y, less than stride (default 0)
 * attrs->kernel: d, h, w of the forward weight (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dumoulin and Visin 2016, arXiv 1603.07285.
 * Since ABI 1. */
tn_status tn_conv_transpose3d_grad_weight(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_conv_transpose3d_grad_weight_attrs *attrs, tn_tensor **dw);

/* Largest element of each window; NaN wins.
 *     y = max of the window
 * x: [n, c, size...] (T)
 * y: [n, c, out...], out = (size + 2 padding - kernel) / stride + 1 (T)
 * index: optional, [n, c, out...], row-major place among size... of the first maximum (I32)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool1d(tn_stream *stream, const tn_tensor *x, const tn_max_pool1d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of max_pool1d.
 *     dx[index] += dy
 * dy: [n, c, out...] (T)
 * index: what the forward operator gave, shape of dy (I32)
 * dx: [n, c, size...] (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->size: length of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool1d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_max_pool1d_grad_attrs *attrs, tn_tensor **dx);

/* Mean of each window.
 *     y = sum of the window / count
 * x: [n, c, size...] (T)
 * y: [n, c, out...], out = (size + 2 padding - kernel) / stride + 1 (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool1d(tn_stream *stream, const tn_tensor *x, const tn_avg_pool1d_attrs *attrs, tn_tensor **y);

/* Gradient of avg_pool1d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, out...] (T)
 * dx: [n, c, size...] (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->size: length of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool1d_grad(tn_stream *stream, const tn_tensor *dy, const tn_avg_pool1d_grad_attrs *attrs, tn_tensor **dx);

/* Largest element of each window; NaN wins.
 *     y = max of the window
 * x: [n, c, size...] (T)
 * y: [n, c, out...], out = (size + 2 padding - kernel) / stride + 1 (T)
 * index: optional, [n, c, out...], row-major place among size... of the first maximum (I32)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool3d(tn_stream *stream, const tn_tensor *x, const tn_max_pool3d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of max_pool3d.
 *     dx[index] += dy
 * dy: [n, c, out...] (T)
 * index: what the forward operator gave, shape of dy (I32)
 * dx: [n, c, size...] (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->size: d, h, w of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_max_pool3d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_max_pool3d_grad_attrs *attrs, tn_tensor **dx);

/* Mean of each window.
 *     y = sum of the window / count
 * x: [n, c, size...] (T)
 * y: [n, c, out...], out = (size + 2 padding - kernel) / stride + 1 (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool3d(tn_stream *stream, const tn_tensor *x, const tn_avg_pool3d_attrs *attrs, tn_tensor **y);

/* Gradient of avg_pool3d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, out...] (T)
 * dx: [n, c, size...] (T)
 * attrs->kernel: size of the window (default 2)
 * attrs->stride: step of the window; 0 means kernel (default 0)
 * attrs->padding: border on either side, at most kernel / 2 (default 0)
 * attrs->count_padding: 1 divides by all of the window, 0 by the elements inside x (default 1)
 * attrs->size: d, h, w of the forward input (default 0)
 * attrs->ceil_mode: 1 keeps a last window that the end cuts off, if it begins inside (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_avg_pool3d_grad(tn_stream *stream, const tn_tensor *dy, const tn_avg_pool3d_grad_attrs *attrs, tn_tensor **dx);

/* Largest elements of windows that divide the input evenly; NaN wins.
 *     y = max of the window
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * index: optional, [n, c, output...], row-major place among size... of the first maximum (I32)
 * attrs->output: length of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool1d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_max_pool1d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of adaptive_max_pool1d.
 *     dx[index] += dy
 * dy: [n, c, out...] (T)
 * index: what the forward operator gave, shape of dy (I32)
 * dx: [n, c, size...] (T)
 * attrs->size: length of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool1d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_adaptive_max_pool1d_grad_attrs *attrs, tn_tensor **dx);

/* Means of windows that divide the input evenly.
 *     y = sum of the window / count
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * attrs->output: length of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool1d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_avg_pool1d_attrs *attrs, tn_tensor **y);

/* Gradient of adaptive_avg_pool1d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, out...] (T)
 * dx: [n, c, size...] (T)
 * attrs->size: length of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool1d_grad(tn_stream *stream, const tn_tensor *dy, const tn_adaptive_avg_pool1d_grad_attrs *attrs, tn_tensor **dx);

/* Largest elements of windows that divide the input evenly; NaN wins.
 *     y = max of the window
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * index: optional, [n, c, output...], row-major place among size... of the first maximum (I32)
 * attrs->output: h, w of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool2d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_max_pool2d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of adaptive_max_pool2d.
 *     dx[index] += dy
 * dy: [n, c, out...] (T)
 * index: what the forward operator gave, shape of dy (I32)
 * dx: [n, c, size...] (T)
 * attrs->size: h, w of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool2d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_adaptive_max_pool2d_grad_attrs *attrs, tn_tensor **dx);

/* Means of windows that divide the input evenly.
 *     y = sum of the window / count
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * attrs->output: h, w of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool2d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_avg_pool2d_attrs *attrs, tn_tensor **y);

/* Gradient of adaptive_avg_pool2d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, out...] (T)
 * dx: [n, c, size...] (T)
 * attrs->size: h, w of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool2d_grad(tn_stream *stream, const tn_tensor *dy, const tn_adaptive_avg_pool2d_grad_attrs *attrs, tn_tensor **dx);

/* Largest elements of windows that divide the input evenly; NaN wins.
 *     y = max of the window
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * index: optional, [n, c, output...], row-major place among size... of the first maximum (I32)
 * attrs->output: d, h, w of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool3d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_max_pool3d_attrs *attrs, tn_tensor **y, tn_tensor **index);

/* Gradient of adaptive_max_pool3d.
 *     dx[index] += dy
 * dy: [n, c, out...] (T)
 * index: what the forward operator gave, shape of dy (I32)
 * dx: [n, c, size...] (T)
 * attrs->size: d, h, w of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_max_pool3d_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_adaptive_max_pool3d_grad_attrs *attrs, tn_tensor **dx);

/* Means of windows that divide the input evenly.
 *     y = sum of the window / count
 * x: [n, c, size...] (T)
 * y: [n, c, output...] (T)
 * attrs->output: d, h, w of y (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool3d(tn_stream *stream, const tn_tensor *x, const tn_adaptive_avg_pool3d_attrs *attrs, tn_tensor **y);

/* Gradient of adaptive_avg_pool3d.
 *     dx = sum dy / count over the windows that read x
 * dy: [n, c, out...] (T)
 * dx: [n, c, size...] (T)
 * attrs->size: d, h, w of the forward input (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_adaptive_avg_pool3d_grad(tn_stream *stream, const tn_tensor *dy, const tn_adaptive_avg_pool3d_grad_attrs *attrs, tn_tensor **dx);

/* Images of another size, interpolated; elements outside x repeat its border.
 *     y[i] = sum of x near s weighed by distance; s = (i + 0.5) size / out - 0.5, with align_corners i (size - 1) / (out - 1)
 * x: [n, c, h, w] (T)
 * y: [n, c, output] (T)
 * attrs->output: height and width of y (default 1)
 * attrs->mode: tn_resize_mode (default TN_RESIZE_BILINEAR)
 * attrs->align_corners: 1 maps corner elements on each other, 0 corners of the image (default 0)
 * T: f16 bf16 f32 f64
 * Source: Keys 1981, with a = -0.75.
 * Since ABI 1. */
tn_status tn_resize(tn_stream *stream, const tn_tensor *x, const tn_resize_attrs *attrs, tn_tensor **y);

/* Gradient of resize.
 *     dx = sum dy times its weight over the elements of y that read x
 * dy: [n, c, oh, ow] (T)
 * dx: [n, c, size] (T)
 * attrs->size: h, w of the forward input (default 1)
 * attrs->mode: tn_resize_mode (default TN_RESIZE_BILINEAR)
 * attrs->align_corners: 1 maps corner elements on each other, 0 corners of the image (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_resize_grad(tn_stream *stream, const tn_tensor *dy, const tn_resize_grad_attrs *attrs, tn_tensor **dx);

/* Normalises each channel by the mean and variance of the batch, and keeps running ones.
 *     y = (x - mean) rstd gamma + beta, mean and variance over all axes but 1
 * x: [n, c, ...] (T)
 * gamma: optional, scale, [c]; of type T, or F32 beside 16-bit x (U)
 * beta: optional, shift, [c] (U)
 * running_mean: updated, [c], moved towards the batch's mean (WIDE_T)
 * running_var: updated, [c], moved towards the batch's unbiased variance (WIDE_T)
 * y: shape of x (T)
 * mean: optional, the batch's, [c] (WIDE_T)
 * rstd: optional, 1 / sqrt(variance + eps), [c] (WIDE_T)
 * attrs->eps: added to the variance (default 1e-5)
 * attrs->momentum: share of this batch in the running statistics (default 0.1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Ioffe and Szegedy 2015, arXiv 1502.03167.
 * Since ABI 1. */
tn_status tn_batch_norm(tn_stream *stream, const tn_tensor *x, const tn_tensor *gamma, const tn_tensor *beta, tn_tensor *running_mean, tn_tensor *running_var, const tn_batch_norm_attrs *attrs, tn_tensor **y, tn_tensor **mean, tn_tensor **rstd);

/* Normalises each channel by statistics that are given.
 *     y = (x - mean) / sqrt(var + eps) gamma + beta
 * x: [n, c, ...] (T)
 * mean: [c] (WIDE_T)
 * var: variance, [c] (WIDE_T)
 * gamma: optional, scale, [c]; of type T, or F32 beside 16-bit x (U)
 * beta: optional, shift, [c] (U)
 * y: shape of x (T)
 * attrs->eps: added to the variance (default 1e-5)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_batch_norm_inference(tn_stream *stream, const tn_tensor *x, const tn_tensor *mean, const tn_tensor *var, const tn_tensor *gamma, const tn_tensor *beta, const tn_batch_norm_inference_attrs *attrs, tn_tensor **y);

/* Gradients of batch_norm.
 *     z = (x - mean) rstd, g = dy gamma; dx = rstd (g - mean g - z mean(g z)), means over the normalised set; dgamma = sum dy z, dbeta = sum dy
 * dy: gradient of the loss by y (T)
 * x: as in the forward operator, shape of dy (T)
 * mean: what the forward operator gave (WIDE_T)
 * rstd: what the forward operator gave (WIDE_T)
 * gamma: optional, as in the forward operator; finite (U)
 * dx: gradient by x, shape of x (T)
 * dgamma: optional, gradient by gamma (U)
 * dbeta: optional, gradient by beta (U)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_batch_norm_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean, const tn_tensor *rstd, const tn_tensor *gamma, tn_tensor **dx, tn_tensor **dgamma, tn_tensor **dbeta);

/* Normalises over the axes from one on to the last.
 *     y = (x - mean) rstd gamma + beta
 * x: input, of rank 1 or more (T)
 * gamma: optional, scale, shape of x from axis on; of type T, or F32 beside 16-bit x (U)
 * beta: optional, shift, shape of gamma (U)
 * y: shape of x (T)
 * mean: optional, shape of x before axis (WIDE_T)
 * rstd: optional, 1 / sqrt(variance + eps), shape of mean (WIDE_T)
 * attrs->axis: first of the normalised axes (default -1)
 * attrs->eps: added to the variance (default 1e-5)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Ba et al. 2016, arXiv 1607.06450.
 * Since ABI 1. */
tn_status tn_layer_norm(tn_stream *stream, const tn_tensor *x, const tn_tensor *gamma, const tn_tensor *beta, const tn_layer_norm_attrs *attrs, tn_tensor **y, tn_tensor **mean, tn_tensor **rstd);

/* Gradients of layer_norm.
 *     z = (x - mean) rstd, g = dy gamma; dx = rstd (g - mean g - z mean(g z)), means over the normalised set; dgamma = sum dy z, dbeta = sum dy
 * dy: gradient of the loss by y (T)
 * x: as in the forward operator, shape of dy (T)
 * mean: what the forward operator gave (WIDE_T)
 * rstd: what the forward operator gave (WIDE_T)
 * gamma: optional, as in the forward operator; finite (U)
 * dx: gradient by x, shape of x (T)
 * dgamma: optional, gradient by gamma (U)
 * dbeta: optional, gradient by beta (U)
 * attrs->axis: first of the normalised axes (default -1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_layer_norm_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean, const tn_tensor *rstd, const tn_tensor *gamma, const tn_layer_norm_grad_attrs *attrs, tn_tensor **dx, tn_tensor **dgamma, tn_tensor **dbeta);

/* Normalises groups of neighbouring channels of each sample.
 *     y = (x - mean) rstd gamma + beta
 * x: [n, c, ...] (T)
 * gamma: optional, scale, [c]; of type T, or F32 beside 16-bit x (U)
 * beta: optional, shift, [c] (U)
 * y: shape of x (T)
 * mean: optional, [n, groups] (WIDE_T)
 * rstd: optional, 1 / sqrt(variance + eps), [n, groups] (WIDE_T)
 * attrs->groups: divides c (default 1)
 * attrs->eps: added to the variance (default 1e-5)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Wu and He 2018, arXiv 1803.08494.
 * Since ABI 1. */
tn_status tn_group_norm(tn_stream *stream, const tn_tensor *x, const tn_tensor *gamma, const tn_tensor *beta, const tn_group_norm_attrs *attrs, tn_tensor **y, tn_tensor **mean, tn_tensor **rstd);

/* Gradients of group_norm.
 *     z = (x - mean) rstd, g = dy gamma; dx = rstd (g - mean g - z mean(g z)), means over the normalised set; dgamma = sum dy z, dbeta = sum dy
 * dy: gradient of the loss by y (T)
 * x: as in the forward operator, shape of dy (T)
 * mean: what the forward operator gave (WIDE_T)
 * rstd: what the forward operator gave (WIDE_T)
 * gamma: optional, as in the forward operator; finite (U)
 * dx: gradient by x, shape of x (T)
 * dgamma: optional, gradient by gamma (U)
 * dbeta: optional, gradient by beta (U)
 * attrs->groups: divides c (default 1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_group_norm_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean, const tn_tensor *rstd, const tn_tensor *gamma, const tn_group_norm_grad_attrs *attrs, tn_tensor **dx, tn_tensor **dgamma, tn_tensor **dbeta);

/* Normalises each channel of each sample.
 *     y = (x - mean) rstd gamma + beta
 * x: [n, c, ...] (T)
 * gamma: optional, scale, [c]; of type T, or F32 beside 16-bit x (U)
 * beta: optional, shift, [c] (U)
 * y: shape of x (T)
 * mean: optional, [n, c] (WIDE_T)
 * rstd: optional, 1 / sqrt(variance + eps), [n, c] (WIDE_T)
 * attrs->eps: added to the variance (default 1e-5)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Ulyanov et al. 2016, arXiv 1607.08022.
 * Since ABI 1. */
tn_status tn_instance_norm(tn_stream *stream, const tn_tensor *x, const tn_tensor *gamma, const tn_tensor *beta, const tn_instance_norm_attrs *attrs, tn_tensor **y, tn_tensor **mean, tn_tensor **rstd);

/* Gradients of instance_norm.
 *     z = (x - mean) rstd, g = dy gamma; dx = rstd (g - mean g - z mean(g z)), means over the normalised set; dgamma = sum dy z, dbeta = sum dy
 * dy: gradient of the loss by y (T)
 * x: as in the forward operator, shape of dy (T)
 * mean: what the forward operator gave (WIDE_T)
 * rstd: what the forward operator gave (WIDE_T)
 * gamma: optional, as in the forward operator; finite (U)
 * dx: gradient by x, shape of x (T)
 * dgamma: optional, gradient by gamma (U)
 * dbeta: optional, gradient by beta (U)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_instance_norm_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean, const tn_tensor *rstd, const tn_tensor *gamma, tn_tensor **dx, tn_tensor **dgamma, tn_tensor **dbeta);

/* Divides by the root of the mean square over the axes from one on to the last.
 *     y = x rstd gamma, rstd = 1 / sqrt(mean x^2 + eps)
 * x: input, of rank 1 or more (T)
 * gamma: optional, scale, shape of x from axis on; of type T, or F32 beside 16-bit x (U)
 * y: shape of x (T)
 * rstd: optional, 1 / sqrt(mean x^2 + eps), shape of x before axis (WIDE_T)
 * attrs->axis: first of the normalised axes (default -1)
 * attrs->eps: added to the mean square (default 1e-6)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Zhang and Sennrich 2019, arXiv 1910.07467.
 * Since ABI 1. */
tn_status tn_rms_norm(tn_stream *stream, const tn_tensor *x, const tn_tensor *gamma, const tn_rms_norm_attrs *attrs, tn_tensor **y, tn_tensor **rstd);

/* Gradients of rms_norm.
 *     z = x rstd, g = dy gamma; dx = rstd (g - z mean(g z)); dgamma = sum dy z
 * dy: gradient of the loss by y (T)
 * x: as in rms_norm, shape of dy (T)
 * rstd: what rms_norm gave (WIDE_T)
 * gamma: optional, as in rms_norm; finite (U)
 * dx: gradient by x, shape of x (T)
 * dgamma: optional, gradient by gamma (U)
 * attrs->axis: first of the normalised axes (default -1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_rms_norm_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *rstd, const tn_tensor *gamma, const tn_rms_norm_grad_attrs *attrs, tn_tensor **dx, tn_tensor **dgamma);

/* Squared error.
 *     y = mean (x - target)^2
 * x: prediction, any shape (T)
 * target: shape of x (T)
 * y: the loss: scalar, or the shape of x without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mse_loss(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_mse_loss_attrs *attrs, tn_tensor **y);

/* Gradient of mse_loss.
 *     dx = 2 (x - target) dy / count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in the forward operator (T)
 * target: as in the forward operator (T)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_mse_loss_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_mse_loss_grad_attrs *attrs, tn_tensor **dx);

/* Binary cross-entropy of logits; the mean divides by the elements, not the weights.
 *     y = mean weight ((1 - target) x + (1 + (pos_weight - 1) target) ln(1 + e^-x))
 * x: logits, any shape (T)
 * target: probability, shape of x (T)
 * weight: optional, of each element's loss, shape of x (T)
 * pos_weight: optional, of targets that are 1, along the last axis of x, [c] (T)
 * y: the loss: scalar, or the shape of x without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_bce_with_logits(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_tensor *weight, const tn_tensor *pos_weight, const tn_bce_with_logits_attrs *attrs, tn_tensor **y);

/* Gradient of bce_with_logits.
 *     dx = weight (1 - target - (1 + (pos_weight - 1) target) / (1 + e^x)) dy / count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in bce_with_logits (T)
 * target: as in bce_with_logits (T)
 * weight: optional, of each element's loss, shape of x (T)
 * pos_weight: optional, of targets that are 1, along the last axis of x, [c] (T)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_bce_with_logits_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_tensor *weight, const tn_tensor *pos_weight, const tn_bce_with_logits_grad_attrs *attrs, tn_tensor **dx);

/* Squared error near 0, absolute error beyond delta.
 *     d = |x - target|; y = mean (d <= delta ? d^2 / 2 : delta (d - delta / 2))
 * x: prediction, any shape (T)
 * target: shape of x (T)
 * y: the loss: scalar, or the shape of x without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * attrs->delta: difference from which the loss grows evenly (default 1)
 * T: f16 bf16 f32 f64
 * Source: Huber 1964.
 * Since ABI 1. */
tn_status tn_huber_loss(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_huber_loss_attrs *attrs, tn_tensor **y);

/* Gradient of huber_loss.
 *     dx = min(max(x - target, -delta), delta) dy / count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in the forward operator (T)
 * target: as in the forward operator (T)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * attrs->delta: difference from which the loss grows evenly (default 1)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_huber_loss_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_huber_loss_grad_attrs *attrs, tn_tensor **dx);

/* Kullback-Leibler divergence of x from target, element by element; 0 where target is 0.
 *     y = mean target (ln target - x); with log_target: mean e^target (target - x)
 * x: log-probabilities, any shape (T)
 * target: probabilities, or their logarithms with log_target; shape of x (T)
 * y: the loss: scalar, or the shape of x without reduction (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * attrs->log_target: 1 says that target holds logarithms (default 0)
 * T: f16 bf16 f32 f64
 * Source: Kullback and Leibler 1951.
 * Since ABI 1. */
tn_status tn_kl_div(tn_stream *stream, const tn_tensor *x, const tn_tensor *target, const tn_kl_div_attrs *attrs, tn_tensor **y);

/* Gradient of kl_div.
 *     dx = -target dy / count; with log_target: -e^target dy / count
 * dy: gradient by the loss, shape of the loss (T)
 * x: as in the forward operator (T)
 * target: as in the forward operator (T)
 * dx: gradient by x, shape of x (T)
 * attrs->reduction: a tn_reduction: none, mean or sum over elements (default TN_REDUCTION_MEAN)
 * attrs->log_target: 1 says that target holds logarithms (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_kl_div_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *target, const tn_kl_div_grad_attrs *attrs, tn_tensor **dx);

/* Rows of a table by their numbers.
 *     y[i..., :] = table[index[i...], :]
 * table: [v, d] (T)
 * index: rows of table, any shape (U)
 * y: [index's shape, d]; zeros where index is outside 0..v-1 (T)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_embedding(tn_stream *stream, const tn_tensor *table, const tn_tensor *index, tn_tensor **y);

/* Gradient of embedding: sums over the places where a row was used.
 *     dtable[r, :] = sum over index[i...] = r of dy[i..., :]
 * dy: gradient of the loss by y, [index's shape, d] (T)
 * index: what embedding was given; numbers outside the table count for nothing (U)
 * dtable: gradient by table, [rows, d] (T)
 * attrs->rows: rows of the table (default 1)
 * attrs->padding_index: a row whose gradient stays 0; -1 for none (default -1)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Since ABI 1. */
tn_status tn_embedding_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *index, const tn_embedding_grad_attrs *attrs, tn_tensor **dtable);

/* Rotary position embedding: turns pairs of elements by angles that depend on position.
 *     (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin)
 * x: [b, h, s, d] (T)
 * cos: [p, r / 2], cosines of the angles at each position; r <= d elements are turned (WIDE_T)
 * sin: [p, r / 2], their sines (WIDE_T)
 * positions: optional, [b, s], rows of cos and sin; absent: 0, 1, ... s-1 (U)
 * y: [b, h, s, d]; NaN where a position is outside 0..p-1 (T)
 * attrs->interleaved: 1 pairs elements 2 i and 2 i + 1; 0 pairs i and i + r / 2 (default 0)
 * attrs->inverse: 1 turns the other way: y's gradient into x's (default 0)
 * T: f16 bf16 f32 f64
 * U: i32 i64
 * Source: Su et al. 2021, arXiv 2104.09864.
 * Since ABI 1. */
tn_status tn_rope(tn_stream *stream, const tn_tensor *x, const tn_tensor *cos, const tn_tensor *sin, const tn_tensor *positions, const tn_rope_attrs *attrs, tn_tensor **y);

/* Attention of queries to keys. A value that is hidden must still be finite.
 *     y = softmax(scale q k^T + bias, over visible keys) v
 * q: queries [b, h, s, d] (T)
 * k: keys [b, g, t, d], h a multiple of g: h / g heads of q share one of k and v (T)
 * v: values [b, g, t, d] (T)
 * mask: optional, broadcasts to [b, h, s, t]; 0 hides a key from a query (BOOL)
 * bias: optional, broadcasts to [b, h, s, t]; added to the scores; -infinity hides (T)
 * y: [b, h, s, d]; 0 for a query that sees no key (T)
 * lse: optional, [b, h, s], logarithm of each query's sum of e^score, for the gradient (WIDE_T)
 * attrs->scale: factor of q k^T; 0 means 1 / sqrt d (default 0)
 * attrs->causal: 1 lets query i see keys up to i + t - s: the last query sees all keys (default 0)
 * T: f16 bf16 f32 f64
 * Source: Vaswani et al. 2017; Dao et al. 2022, arXiv 2205.14135.
 * Since ABI 1. */
tn_status tn_scaled_dot_product_attention(tn_stream *stream, const tn_tensor *q, const tn_tensor *k, const tn_tensor *v, const tn_tensor *mask, const tn_tensor *bias, const tn_scaled_dot_product_attention_attrs *attrs, tn_tensor **y, tn_tensor **lse);

/* Gradient of scaled_dot_product_attention.
 *     p = e^(scale q k^T + bias - lse); ds = p (dy v^T - sum dy y); dq = scale ds k; dk = scale ds^T q; dv = p^T dy
 * dy: gradient of the loss by y, [b, h, s, d] (T)
 * q: as in the forward operator (T)
 * k: as in the forward operator (T)
 * v: as in the forward operator (T)
 * y: what the forward operator gave (T)
 * lse: what the forward operator gave (WIDE_T)
 * mask: optional, as in the forward operator (BOOL)
 * bias: optional, as in the forward operator (T)
 * dq: gradient by q (T)
 * dk: gradient by k (T)
 * dv: gradient by v (T)
 * attrs->scale: factor of q k^T; 0 means 1 / sqrt d (default 0)
 * attrs->causal: 1 lets query i see keys up to i + t - s: the last query sees all keys (default 0)
 * T: f16 bf16 f32 f64
 * Source: Dao 2023, arXiv 2307.08691.
 * Since ABI 1. */
tn_status tn_scaled_dot_product_attention_grad(tn_stream *stream, const tn_tensor *dy, const tn_tensor *q, const tn_tensor *k, const tn_tensor *v, const tn_tensor *y, const tn_tensor *lse, const tn_tensor *mask, const tn_tensor *bias, const tn_scaled_dot_product_attention_grad_attrs *attrs, tn_tensor **dq, tn_tensor **dk, tn_tensor **dv);

/* One step of stochastic gradient descent with momentum, of many parameters at once.
 *     g = grad + wd param; v = momentum v + g; param -= lr (nesterov ? g + momentum v : v)
 * grads: list, gradients, shapes of params (T)
 * params: list, updated, parameters, updated (T)
 * velocity: list, updated, momentum buffers, updated; zero before the first step (U)
 * count: tensors in each list
 * attrs->lr: learning rate (default 0.01)
 * attrs->momentum: decay of the momentum buffers (default 0)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * attrs->nesterov: 1 looks ahead along the momentum (default 0)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Sutskever et al. 2013.
 * Since ABI 1. */
tn_status tn_multi_sgd(tn_stream *stream, const tn_tensor *const *grads, tn_tensor *const *params, tn_tensor *const *velocity, size_t count, const tn_multi_sgd_attrs *attrs);

/* One step of Adam, of many parameters at once.
 *     g = grad + wd param; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; param -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 * grads: list, gradients, shapes of params (T)
 * params: list, updated, parameters, updated (T)
 * m: list, updated, first moments, updated; zero before the first step (U)
 * v: list, updated, second moments, updated; zero before the first step (U)
 * count: tensors in each list
 * attrs->lr: learning rate (default 0.001)
 * attrs->beta1: decay of m (default 0.9)
 * attrs->beta2: decay of v (default 0.999)
 * attrs->eps: added to the denominator (default 1e-8)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * attrs->step: number of this step, from 1 (default 1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Kingma and Ba 2015, arXiv 1412.6980.
 * Since ABI 1. */
tn_status tn_multi_adam(tn_stream *stream, const tn_tensor *const *grads, tn_tensor *const *params, tn_tensor *const *m, tn_tensor *const *v, size_t count, const tn_multi_adam_attrs *attrs);

/* One step of Adam with decoupled weight decay, of many parameters at once.
 *     m = b1 m + (1-b1) grad; v = b2 v + (1-b2) grad^2; param = param (1 - lr wd) - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 * grads: list, gradients, shapes of params (T)
 * params: list, updated, parameters, updated (T)
 * m: list, updated, first moments, updated; zero before the first step (U)
 * v: list, updated, second moments, updated; zero before the first step (U)
 * count: tensors in each list
 * attrs->lr: learning rate (default 0.001)
 * attrs->beta1: decay of m (default 0.9)
 * attrs->beta2: decay of v (default 0.999)
 * attrs->eps: added to the denominator (default 1e-8)
 * attrs->weight_decay: share of the parameter taken off, times lr (default 0.01)
 * attrs->step: number of this step, from 1 (default 1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Loshchilov and Hutter 2019, arXiv 1711.05101.
 * Since ABI 1. */
tn_status tn_multi_adamw(tn_stream *stream, const tn_tensor *const *grads, tn_tensor *const *params, tn_tensor *const *m, tn_tensor *const *v, size_t count, const tn_multi_adamw_attrs *attrs);

/* One step of RMSprop with momentum, of many parameters at once.
 *     g = grad + wd param; v = decay v + (1-decay) g^2; b = momentum b + g / (sqrt(v) + eps); param -= lr b
 * grads: list, gradients, shapes of params (T)
 * params: list, updated, parameters, updated (T)
 * v: list, updated, mean squares, updated; zero before the first step (U)
 * velocity: list, updated, momentum buffers, updated; zero before the first step (U)
 * count: tensors in each list
 * attrs->lr: learning rate (default 0.01)
 * attrs->decay: decay of v (default 0.99)
 * attrs->momentum: decay of the momentum buffers (default 0)
 * attrs->eps: added to the denominator (default 1e-8)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Tieleman and Hinton 2012; Graves 2013, arXiv 1308.0850.
 * Since ABI 1. */
tn_status tn_multi_rmsprop(tn_stream *stream, const tn_tensor *const *grads, tn_tensor *const *params, tn_tensor *const *v, tn_tensor *const *velocity, size_t count, const tn_multi_rmsprop_attrs *attrs);

/* One step of Adagrad, of many parameters at once.
 *     g = grad + wd param; sum += g^2; param -= lr / (1 + (t-1) lr_decay) g / (sqrt(sum) + eps)
 * grads: list, gradients, shapes of params (T)
 * params: list, updated, parameters, updated (T)
 * sum: list, updated, sums of squares, updated; zero or more before the first step (U)
 * count: tensors in each list
 * attrs->lr: learning rate (default 0.01)
 * attrs->lr_decay: decay of the learning rate (default 0)
 * attrs->eps: added to the denominator (default 1e-10)
 * attrs->weight_decay: L2 penalty added to the gradient (default 0)
 * attrs->step: number of this step, from 1 (default 1)
 * T: f16 bf16 f32 f64
 * U: f16 bf16 f32 f64
 * Source: Duchi et al. 2011.
 * Since ABI 1. */
tn_status tn_multi_adagrad(tn_stream *stream, const tn_tensor *const *grads, tn_tensor *const *params, tn_tensor *const *sum, size_t count, const tn_multi_adagrad_attrs *attrs);

/* Scales gradients down to a norm of all of them together.
 *     norm = sqrt(sum g^2); g *= min(1, max_norm / (norm + 1e-6))
 * grads: list, updated, gradients of any shapes, scaled (T)
 * norm: norm of all gradients together as they were, a scalar (rank 0) (WIDE_T)
 * count: tensors in each list
 * attrs->max_norm: norm above which gradients are scaled down (default 1)
 * T: f16 bf16 f32 f64
 * Source: Pascanu et al. 2013, arXiv 1211.5063.
 * Since ABI 1. */
tn_status tn_clip_grad_norm(tn_stream *stream, tn_tensor *const *grads, size_t count, const tn_clip_grad_norm_attrs *attrs, tn_tensor **norm);

/* Divides gradients by the scale of the loss and looks for infinities and NaN in them.
 *     found_inf |= any(not finite g); g /= scale
 * scale: what the loss was multiplied by, a scalar (rank 0) (F32)
 * grads: list, updated, gradients of any shapes, divided by scale (T)
 * found_inf: updated, a scalar, set to 1 where a gradient is infinite or NaN, else kept (BOOL)
 * count: tensors in each list
 * T: f16 bf16 f32 f64
 * Source: Micikevicius et al. 2018, arXiv 1710.03740.
 * Since ABI 1. */
tn_status tn_unscale_grads(tn_stream *stream, const tn_tensor *scale, tn_tensor *const *grads, size_t count, tn_tensor *found_inf);

/* Adapts the scale of the loss: down after a step with infinities, up after enough steps without; never up to infinity.
 *     found_inf ? (scale *= backoff; n = 0) : ++n == interval ? (scale *= growth; n = 0)
 * found_inf: what tn_unscale_grads found in this step, a scalar (rank 0) (BOOL)
 * scale: updated, scale of the loss, updated; a scalar (F32)
 * good_steps: updated, steps since scale changed, updated; a scalar (T)
 * attrs->growth: what scale is multiplied by after enough good steps (default 2)
 * attrs->backoff: what scale is multiplied by after a bad step (default 0.5)
 * attrs->interval: good steps after which scale grows (default 2000)
 * T: i32 i64
 * Source: Micikevicius et al. 2018, arXiv 1710.03740.
 * Since ABI 1. */
tn_status tn_update_loss_scale(tn_stream *stream, const tn_tensor *found_inf, tn_tensor *scale, tn_tensor *good_steps, const tn_update_loss_scale_attrs *attrs);

/* Ones with a given probability, else zeros, the same on every device.
 *     y = w < probability 2^32, w a random word
 * y: updated, tensor to fill (T)
 * attrs->probability: of a 1 (default 0.5)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (elements + 3) / 4, in float64 twice that (default 0)
 * T: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64
 * Source: Philox4x32-10, Salmon et al. 2011.
 * Since ABI 1. */
tn_status tn_bernoulli(tn_stream *stream, tn_tensor *y, const tn_bernoulli_attrs *attrs);

/* Uniform random integers, the same on every device.
 *     y = low + floor((high - low) w / 2^64), w two random words
 * y: updated, tensor to fill (T)
 * attrs->low: least value (default 0)
 * attrs->high: one more than the greatest value, > low (default 2)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (numbers + 1) / 2 (default 0)
 * T: u8 i8 i16 i32 i64
 * Source: Lemire 2019, arXiv 1805.10941, without its rejection: no value is off by 2^-64 or more.
 * Since ABI 1. */
tn_status tn_randint(tn_stream *stream, tn_tensor *y, const tn_randint_attrs *attrs);

/* Normal random numbers inside bounds, the same on every device to rounding.
 *     y = mean + std z, Phi(z) uniform from Phi(low) to Phi(high)
 * y: updated, tensor to fill (T)
 * attrs->mean: centre of the whole distribution (default 0)
 * attrs->std: its standard deviation (default 1)
 * attrs->low: least value of (y - mean) / std (default -2)
 * attrs->high: greatest value of (y - mean) / std, > low (default 2)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (elements + 3) / 4, in float64 twice that (default 0)
 * T: f16 bf16 f32 f64
 * Source: Wichura 1988, AS 241, for the inverse of Phi.
 * Since ABI 1. */
tn_status tn_truncated_normal(tn_stream *stream, tn_tensor *y, const tn_truncated_normal_attrs *attrs);

/* Places drawn with probabilities in proportion to weights, the same on every device: weights are taken in whole 2^-b of the greatest one, b at least 31.
 *     P(y = i) = weights[i] / sum of weights that are left
 * weights: [n] or [b, n]; negative, infinite and NaN count as 0 (T)
 * y: [samples] or [b, samples], places in weights; -1 where no weight is left (I64)
 * attrs->samples: numbers to draw from each row (default 1)
 * attrs->replacement: 1 may draw a place more than once (default 0)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (numbers + 1) / 2 (default 0)
 * T: f16 bf16 f32 f64
 * Since ABI 1. */
tn_status tn_multinomial(tn_stream *stream, const tn_tensor *weights, const tn_multinomial_attrs *attrs, tn_tensor **y);

/* A random permutation of 0..n-1, the same on every device.
 *     y = the order that sorts n random 64-bit keys, the earlier first where they are equal
 * y: updated, [n], to be filled (T)
 * attrs->seed: key of the random sequence (default 0)
 * attrs->offset: first counter used; a call uses (numbers + 1) / 2 (default 0)
 * T: i32 i64
 * Source: Philox4x32-10, Salmon et al. 2011.
 * Since ABI 1. */
tn_status tn_randperm(tn_stream *stream, tn_tensor *y, const tn_randperm_attrs *attrs);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* TENON_OPS_H */
