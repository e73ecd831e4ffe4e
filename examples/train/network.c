#include "network.h"

#include "../pass.h"

const network_weight network_layout[NETWORK_WEIGHTS] = {
    [CONV1_W] = {"conv1.weight", 4, {32, 1, 3, 3}, 9},    [CONV1_B] = {"conv1.bias", 1, {32}, 9},
    [CONV2_W] = {"conv2.weight", 4, {64, 32, 3, 3}, 288}, [CONV2_B] = {"conv2.bias", 1, {64}, 288},
    [FC1_W] = {"fc1.weight", 2, {128, 9216}, 9216},       [FC1_B] = {"fc1.bias", 1, {128}, 9216},
    [FC2_W] = {"fc2.weight", 2, {10, 128}, 128},          [FC2_B] = {"fc2.bias", 1, {10}, 128},
};

/* Bytes to numbers around 0, by the mean and deviation of MNIST's training pixels in 0..1. */
static tn_tensor *normalise(pass *p, const tn_tensor *images) {
  const double mean = 255 * 0.1307, deviation = 255 * 0.3081;
  tn_device *device = tn_tensor_device(images);
  tn_tensor **x = pass_result(p), **centre = pass_result(p), **scale = pass_result(p);
  tn_tensor **moved = pass_result(p), **y = pass_result(p);
  if (!p->status) p->status = tn_cast(NULL, images, NULL, x);
  if (!p->status) p->status = tn_scalar(device, NULL, TN_F32, mean, centre);
  if (!p->status) p->status = tn_scalar(device, NULL, TN_F32, 1 / deviation, scale);
  if (!p->status) p->status = tn_sub(NULL, *x, *centre, moved);
  if (!p->status) p->status = tn_mul(NULL, *moved, *scale, y);
  return *y;
}

static tn_tensor *conv(pass *p, const tn_tensor *x, tn_tensor *const w[2]) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_conv2d(NULL, x, w[0], w[1], NULL, y);
  return *y;
}

static tn_tensor *relu(pass *p, const tn_tensor *x) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_relu(NULL, x, y);
  return *y;
}

static tn_tensor *pool(pass *p, const tn_tensor *x) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_max_pool2d(NULL, x, NULL, y, NULL);
  return *y;
}

static tn_tensor *drop(pass *p, const tn_tensor *x, double share, tn_generator *generator) {
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  tn_tensor **y = pass_result(p), **mask = pass_result(p);
  attrs.p = share;
  if (!p->status) p->status = tn_generator_next(generator, TN_OP_DROPOUT, x, &attrs);
  if (!p->status) p->status = tn_dropout(NULL, x, &attrs, y, mask);
  return *y;
}

/* Images as rows of numbers. */
static tn_tensor *flatten(pass *p, const tn_tensor *x) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_tensor_reshape(x, 2, (int64_t[]){-1, 9216}, y);
  return *y;
}

static tn_tensor *linear(pass *p, const tn_tensor *x, tn_tensor *const w[2]) {
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  tn_tensor **y = pass_result(p);
  attrs.trans_b = 1;
  if (!p->status) p->status = tn_matmul(NULL, x, w[0], w[1], &attrs, y);
  return *y;
}

static tn_tensor *classify(pass *p, tn_tensor *const w[], const tn_tensor *images,
                           tn_generator *dropout) {
  tn_tensor *x = normalise(p, images);
  x = relu(p, conv(p, x, &w[CONV1_W]));
  x = pool(p, relu(p, conv(p, x, &w[CONV2_W])));
  if (dropout) x = drop(p, x, 0.25, dropout);
  x = relu(p, linear(p, flatten(p, x), &w[FC1_W]));
  if (dropout) x = drop(p, x, 0.5, dropout);
  return linear(p, x, &w[FC2_W]);
}

tn_status network_forward(tn_tensor *const weights[], const tn_tensor *images,
                          tn_generator *dropout, tn_tensor **logits) {
  pass p = {.made = 0};
  tn_tensor *y = classify(&p, weights, images, dropout);
  if (!p.status) tn_tensor_retain(*logits = y);
  return pass_end(&p);
}

tn_status network_loss(tn_tensor *const weights[], const tn_tensor *images, const tn_tensor *labels,
                       tn_generator *dropout, tn_tensor **loss) {
  pass p = {.made = 0};
  tn_tensor *logits = classify(&p, weights, images, dropout), **logs = pass_result(&p);
  if (!p.status) p.status = tn_log_softmax(NULL, logits, NULL, logs);
  if (!p.status) p.status = tn_nll_loss(NULL, *logs, labels, NULL, loss);
  return pass_end(&p);
}
