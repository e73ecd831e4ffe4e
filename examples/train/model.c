#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONV1_W, CONV1_B, CONV2_W, CONV2_B, FC1_W, FC1_B, FC2_W, FC2_B };

static const struct {
  const char *name;
  int32_t rank;
  int64_t shape[4];
  int64_t fan_in; /* inputs of one output */
} layout[MODEL_PARAMETERS] = {
    [CONV1_W] = {"conv1.weight", 4, {32, 1, 3, 3}, 9},    [CONV1_B] = {"conv1.bias", 1, {32}, 9},
    [CONV2_W] = {"conv2.weight", 4, {64, 32, 3, 3}, 288}, [CONV2_B] = {"conv2.bias", 1, {64}, 288},
    [FC1_W] = {"fc1.weight", 2, {128, 9216}, 9216},       [FC1_B] = {"fc1.bias", 1, {128}, 9216},
    [FC2_W] = {"fc2.weight", 2, {10, 128}, 128},          [FC2_B] = {"fc2.bias", 1, {10}, 128},
};

/* Mean and deviation of MNIST's training pixels, in 0..1. */
static const double pixel_mean = 0.1307, pixel_std = 0.3081;

/* --------------------------------------------------------------- start, end --- */

/* He et al. 2015 with a = sqrt(5): uniform within 1 / sqrt(fan_in). */
static tn_status create_parameter(model *m, int index) {
  parameter *p = &m->parameters[index];
  const int64_t *shape = layout[index].shape;
  int32_t rank = layout[index].rank;
  tn_status s = tn_tensor_empty(m->device, TN_F32, rank, shape, &p->value);
  if (!s) s = tn_tensor_empty(m->device, TN_F32, rank, shape, &p->grad);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, rank, shape, &p->m);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, rank, shape, &p->v);
  tn_uniform_attrs draw = TN_UNIFORM_DEFAULTS;
  draw.high = 1 / sqrt((double)layout[index].fan_in);
  draw.low = -draw.high;
  if (!s) s = tn_generator_next(m->generator, TN_OP_UNIFORM, p->value, &draw);
  return s ? s : tn_uniform(NULL, p->value, &draw);
}

tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr) {
  *m = (model){.device = device, .seed = seed, .lr = lr};
  tn_status s = tn_generator_create(tn_device_runtime(device), seed, &m->generator);
  if (!s) s = tn_scalar(device, NULL, TN_F32, 255 * pixel_mean, &m->centre);
  if (!s) s = tn_scalar(device, NULL, TN_F32, 1 / (255 * pixel_std), &m->scale);
  for (int i = 0; i < MODEL_PARAMETERS && !s; i++) s = create_parameter(m, i);
  return s;
}

void model_forget_pass(model *m) {
  activations *a = &m->act;
  tn_tensor **all[] = {&a->x,
                       &a->conv1,
                       &a->conv2,
                       &a->pool,
                       &a->pool_index,
                       &a->pool_flat,
                       &a->drop1,
                       &a->mask1,
                       &a->flat,
                       &a->hidden,
                       &a->drop2,
                       &a->mask2,
                       &a->logits,
                       &a->log_probabilities,
                       &a->d_log_probabilities,
                       &a->d_logits,
                       &a->d_drop2,
                       &a->d_hidden,
                       &a->d_flat,
                       &a->d_drop1,
                       &a->d_pool,
                       &a->d_conv2,
                       &a->d_conv1,
                       &a->guess,
                       &a->right,
                       &a->right_count};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tn_tensor_release(*all[i]);
  *a = (activations){0};
}

void model_destroy(model *m) {
  model_forget_pass(m);
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    parameter *p = &m->parameters[i];
    tn_tensor_release(p->value);
    tn_tensor_release(p->grad);
    tn_tensor_release(p->m);
    tn_tensor_release(p->v);
  }
  tn_tensor_release(m->centre);
  tn_tensor_release(m->scale);
  tn_generator_destroy(m->generator);
  *m = (model){0};
}

void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]) {
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    const parameter *p = &m->parameters[i];
    tn_tensor *part[] = {p->value, p->m, p->v};
    static const char *const suffix[] = {"", ".m", ".v"};
    for (int j = 0; j < 3; j++, state++) {
      state->tensor = part[j];
      snprintf(state->name, sizeof state->name, "%s%s", layout[i].name, suffix[j]);
    }
  }
}

/* ------------------------------------------------------------------ forward --- */

static tn_tensor *value(const model *m, int index) { return m->parameters[index].value; }

/* Makes the view once; the tensor under it stays the same from pass to pass. */
static tn_status view(const tn_tensor *x, int32_t rank, const int64_t *shape, tn_tensor **y) {
  return *y ? TN_OK : tn_tensor_reshape(x, rank, shape, y);
}

/* A pass over another number of images needs other tensors. */
static void begin_pass(model *m, const tn_tensor *images) {
  int64_t batch = tn_tensor_shape(images)[0];
  if (m->act.batch != batch) model_forget_pass(m);
  m->act.batch = batch;
}

/* Bytes to numbers around 0. */
static tn_status normalise(model *m, const tn_tensor *images) {
  activations *a = &m->act;
  tn_status s = tn_cast(NULL, images, NULL, &a->x);
  if (!s) s = tn_sub(NULL, a->x, m->centre, &a->x);
  if (!s) s = tn_mul(NULL, a->x, m->scale, &a->x);
  return s;
}

/* index: also tell where the maxima were, for the gradient. */
static tn_status convolutions(model *m, tn_tensor **index) {
  activations *a = &m->act;
  tn_status s = tn_conv2d(NULL, a->x, value(m, CONV1_W), value(m, CONV1_B), NULL, &a->conv1);
  if (!s) s = tn_relu(NULL, a->conv1, &a->conv1);
  if (!s) s = tn_conv2d(NULL, a->conv1, value(m, CONV2_W), value(m, CONV2_B), NULL, &a->conv2);
  if (!s) s = tn_relu(NULL, a->conv2, &a->conv2);
  if (!s) s = tn_max_pool2d(NULL, a->conv2, NULL, &a->pool, index);
  return s;
}

/* y = x w^T + bias, as weights are [outputs, inputs]. */
static tn_status linear(model *m, const tn_tensor *x, int weight, int bias, tn_tensor **y) {
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  attrs.trans_b = 1;
  return tn_matmul(NULL, x, value(m, weight), value(m, bias), &attrs, y);
}

static tn_status dropout(model *m, double p, const tn_tensor *x, tn_tensor **y, tn_tensor **mask) {
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  attrs.p = p;
  tn_status s = tn_generator_next(m->generator, TN_OP_DROPOUT, x, &attrs);
  return s ? s : tn_dropout(NULL, x, &attrs, y, mask);
}

static tn_status forward(model *m, const tn_tensor *images) {
  activations *a = &m->act;
  begin_pass(m, images);
  tn_status s = normalise(m, images);
  if (!s) s = convolutions(m, &a->pool_index);
  if (!s) s = dropout(m, 0.25, a->pool, &a->drop1, &a->mask1);
  if (!s) s = view(a->drop1, 2, (int64_t[]){a->batch, 9216}, &a->flat);
  if (!s) s = linear(m, a->flat, FC1_W, FC1_B, &a->hidden);
  if (!s) s = tn_relu(NULL, a->hidden, &a->hidden);
  if (!s) s = dropout(m, 0.5, a->hidden, &a->drop2, &a->mask2);
  if (!s) s = linear(m, a->drop2, FC2_W, FC2_B, &a->logits);
  if (!s) s = tn_log_softmax(NULL, a->logits, NULL, &a->log_probabilities);
  return s;
}

/* ----------------------------------------------------------------- backward --- */

/* Gradients of linear by its weight and bias, dy being the gradient by y. */
static tn_status linear_grad(model *m, const tn_tensor *dy, const tn_tensor *x, int weight,
                             int bias) {
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  tn_sum_attrs rows = TN_SUM_DEFAULTS;
  attrs.trans_a = 1;
  rows.axes = (tn_axes){.count = 1, .axis = {0}};
  tn_status s = tn_matmul(NULL, dy, x, NULL, &attrs, &m->parameters[weight].grad);
  if (!s) s = tn_sum(NULL, dy, &rows, &m->parameters[bias].grad);
  return s;
}

/* Gradients of a 3 x 3 convolution by its weight and bias. */
static tn_status conv_grad(model *m, const tn_tensor *dy, const tn_tensor *x, int weight,
                           int bias) {
  tn_conv2d_grad_weight_attrs attrs = TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  tn_sum_attrs images = TN_SUM_DEFAULTS;
  attrs.kernel[0] = attrs.kernel[1] = 3;
  images.axes = (tn_axes){.count = 3, .axis = {0, 2, 3}};
  tn_status s = tn_conv2d_grad_weight(NULL, dy, x, &attrs, &m->parameters[weight].grad);
  if (!s) s = tn_sum(NULL, dy, &images, &m->parameters[bias].grad);
  return s;
}

static tn_status backward_classifier(model *m, const tn_tensor *labels) {
  activations *a = &m->act;
  tn_dropout_grad_attrs half = TN_DROPOUT_GRAD_DEFAULTS;
  half.p = 0.5;
  tn_status s =
      tn_nll_loss_grad(NULL, NULL, a->log_probabilities, labels, NULL, &a->d_log_probabilities);
  if (!s)
    s = tn_log_softmax_grad(NULL, a->d_log_probabilities, a->log_probabilities, NULL, &a->d_logits);
  if (!s) s = linear_grad(m, a->d_logits, a->drop2, FC2_W, FC2_B);
  if (!s) s = tn_matmul(NULL, a->d_logits, value(m, FC2_W), NULL, NULL, &a->d_drop2);
  if (!s) s = tn_dropout_grad(NULL, a->d_drop2, a->mask2, &half, &a->d_hidden);
  if (!s) s = tn_relu_grad(NULL, a->d_hidden, a->hidden, &a->d_hidden);
  if (!s) s = linear_grad(m, a->d_hidden, a->flat, FC1_W, FC1_B);
  if (!s) s = tn_matmul(NULL, a->d_hidden, value(m, FC1_W), NULL, NULL, &a->d_flat);
  return s;
}

static tn_status backward_convolutions(model *m) {
  activations *a = &m->act;
  tn_dropout_grad_attrs quarter = TN_DROPOUT_GRAD_DEFAULTS;
  tn_max_pool2d_grad_attrs pool = TN_MAX_POOL2D_GRAD_DEFAULTS;
  tn_conv2d_grad_input_attrs conv = TN_CONV2D_GRAD_INPUT_DEFAULTS;
  quarter.p = 0.25;
  pool.size[0] = pool.size[1] = 24;
  conv.size[0] = conv.size[1] = 26;
  tn_status s = view(a->d_flat, 4, (int64_t[]){a->batch, 64, 12, 12}, &a->d_drop1);
  if (!s) s = tn_dropout_grad(NULL, a->d_drop1, a->mask1, &quarter, &a->d_pool);
  if (!s) s = tn_max_pool2d_grad(NULL, a->d_pool, a->pool_index, &pool, &a->d_conv2);
  if (!s) s = tn_relu_grad(NULL, a->d_conv2, a->conv2, &a->d_conv2);
  if (!s) s = conv_grad(m, a->d_conv2, a->conv1, CONV2_W, CONV2_B);
  if (!s) s = tn_conv2d_grad_input(NULL, a->d_conv2, value(m, CONV2_W), &conv, &a->d_conv1);
  if (!s) s = tn_relu_grad(NULL, a->d_conv1, a->conv1, &a->d_conv1);
  if (!s) s = conv_grad(m, a->d_conv1, a->x, CONV1_W, CONV1_B);
  return s;
}

static tn_status update(model *m) {
  const tn_tensor *grads[MODEL_PARAMETERS];
  tn_tensor *values[MODEL_PARAMETERS], *first[MODEL_PARAMETERS], *second[MODEL_PARAMETERS];
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    grads[i] = m->parameters[i].grad;
    values[i] = m->parameters[i].value;
    first[i] = m->parameters[i].m;
    second[i] = m->parameters[i].v;
  }
  tn_multi_adam_attrs adam = TN_MULTI_ADAM_DEFAULTS;
  adam.lr = m->lr;
  adam.step = ++m->steps;
  return tn_multi_adam(NULL, grads, values, first, second, MODEL_PARAMETERS, &adam);
}

tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss) {
  tn_status s = forward(m, images);
  if (!s) s = tn_nll_loss(NULL, m->act.log_probabilities, labels, NULL, &loss);
  if (!s) s = backward_classifier(m, labels);
  if (!s) s = backward_convolutions(m);
  if (!s) s = update(m);
  return s;
}

/* ------------------------------------------------------------------ testing --- */

/* Without dropout, and without what only a gradient needs. */
static tn_status classify(model *m, const tn_tensor *images) {
  activations *a = &m->act;
  begin_pass(m, images);
  tn_status s = normalise(m, images);
  if (!s) s = convolutions(m, NULL);
  if (!s) s = view(a->pool, 2, (int64_t[]){a->batch, 9216}, &a->pool_flat);
  if (!s) s = linear(m, a->pool_flat, FC1_W, FC1_B, &a->hidden);
  if (!s) s = tn_relu(NULL, a->hidden, &a->hidden);
  if (!s) s = linear(m, a->hidden, FC2_W, FC2_B, &a->logits);
  if (!s) s = tn_argmax(NULL, a->logits, NULL, &a->guess);
  return s;
}

tn_status model_count_correct(model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct) {
  activations *a = &m->act;
  tn_sum_attrs count = TN_SUM_DEFAULTS;
  count.dtype = TN_I64;
  tn_status s = classify(m, images);
  if (!s) s = tn_equal(NULL, a->guess, labels, &a->right);
  if (!s) s = tn_sum(NULL, a->right, &count, &a->right_count);
  if (!s) s = tn_add(NULL, correct, a->right_count, &correct);
  return s;
}
