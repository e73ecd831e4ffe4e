#include "model.h"

#include <math.h>
#include <stdio.h>

#include "../pass.h"

/* --------------------------------------------------------------- start, end --- */

/* He et al. 2015 with a = sqrt(5): uniform within 1 / sqrt(fan_in). */
static tn_status create_weight(model *m, int i) {
  const network_weight *w = &network_layout[i];
  tn_uniform_attrs draw = TN_UNIFORM_DEFAULTS;
  draw.high = 1 / sqrt((double)w->fan_in);
  draw.low = -draw.high;
  tn_status s = tn_tensor_empty(m->device, TN_F32, w->rank, w->shape, &m->weights[i]);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, w->rank, w->shape, &m->first[i]);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, w->rank, w->shape, &m->second[i]);
  if (!s) s = tn_generator_next(m->generator, TN_OP_UNIFORM, m->weights[i], &draw);
  return s ? s : tn_uniform(NULL, m->weights[i], &draw);
}

tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr) {
  *m = (model){.device = device, .seed = seed, .lr = lr};
  tn_status s = tn_generator_create(tn_device_runtime(device), seed, &m->generator);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++) s = create_weight(m, i);
  return s;
}

static void drop_program(model *m) {
  tn_program_destroy(m->program);
  m->program = NULL;
  m->batch = 0;
}

void model_destroy(model *m) {
  drop_program(m);
  for (int i = 0; i < NETWORK_WEIGHTS; i++) {
    tn_tensor_release(m->weights[i]);
    tn_tensor_release(m->gradients[i]);
    tn_tensor_release(m->first[i]);
    tn_tensor_release(m->second[i]);
  }
  tn_generator_destroy(m->generator);
  *m = (model){0};
}

void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]) {
  static const char *const suffix[] = {"", ".m", ".v"};
  for (int i = 0; i < NETWORK_WEIGHTS; i++) {
    tn_tensor *const part[] = {m->weights[i], m->first[i], m->second[i]};
    for (int j = 0; j < 3; j++, state++) {
      state->tensor = part[j];
      snprintf(state->name, sizeof state->name, "%s%s", network_layout[i].name, suffix[j]);
    }
  }
}

tn_status model_set_random(model *m, uint64_t seed, uint64_t offset) {
  drop_program(m); /* it draws on from where it was compiled */
  m->seed = seed;
  return tn_generator_set_state(m->generator, seed, offset);
}

/* ------------------------------------------------------------------- training --- */

/* A graph under way. */
typedef struct draft {
  tn_graph *graph;
  tn_tensor *images, *labels, *loss;
  tn_tensor *weights[NETWORK_WEIGHTS], *gradients[NETWORK_WEIGHTS];
} draft;

static tn_status draft_inputs(const model *m, int64_t batch, draft *d) {
  tn_status s = tn_graph_create(tn_device_runtime(m->device), "step", &d->graph);
  if (!s)
    s = tn_graph_input(d->graph, "images", TN_U8, 4, (int64_t[]){batch, 1, 28, 28}, &d->images);
  if (!s) s = tn_graph_input(d->graph, "labels", TN_I64, 1, &batch, &d->labels);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++)
    s = tn_graph_parameter(d->graph, network_layout[i].name, m->weights[i], &d->weights[i]);
  return s;
}

static tn_status draft_outputs(draft *d) {
  tn_status s =
      tn_graph_gradient(d->graph, d->loss, NETWORK_WEIGHTS, d->weights, d->gradients);
  if (!s) s = tn_graph_output(d->graph, "loss", d->loss);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++)
    s = tn_graph_output(d->graph, network_layout[i].name, d->gradients[i]);
  return s;
}

static void drop_draft(draft *d) {
  for (int i = 0; i < NETWORK_WEIGHTS; i++) {
    tn_tensor_release(d->weights[i]);
    tn_tensor_release(d->gradients[i]);
  }
  tn_tensor_release(d->images);
  tn_tensor_release(d->labels);
  tn_tensor_release(d->loss);
  tn_graph_destroy(d->graph);
}

/* A program draws what its graph's dropout drew when it was written down, and on from there with
 * each run. So one for another batch begins where the sequence is now, and each run moves that on. */
static tn_status compile(model *m, int64_t batch) {
  draft d = {.graph = NULL};
  uint64_t begin = 0, end = 0;
  drop_program(m);
  tn_status s = draft_inputs(m, batch, &d);
  if (!s) s = tn_generator_get_state(m->generator, NULL, &begin);
  if (!s) s = network_loss(d.weights, d.images, d.labels, m->generator, &d.loss);
  if (!s) s = tn_generator_get_state(m->generator, NULL, &end);
  if (!s) s = tn_generator_set_state(m->generator, m->seed, begin);
  if (!s) s = draft_outputs(&d);
  if (!s) s = tn_graph_compile(d.graph, m->device, NULL, &m->program);
  drop_draft(&d);
  if (s) return s;
  m->batch = batch;
  m->draws = end - begin;
  return TN_OK;
}

static tn_status update(model *m) {
  tn_multi_adam_attrs adam = TN_MULTI_ADAM_DEFAULTS;
  adam.lr = m->lr;
  adam.step = ++m->steps;
  return tn_multi_adam(NULL, m->gradients, m->weights, m->first, m->second, NETWORK_WEIGHTS,
                       &adam);
}

tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss) {
  int64_t batch = tn_tensor_shape(images)[0];
  tn_tensor *out[1 + NETWORK_WEIGHTS] = {loss};
  uint64_t seed, offset;
  tn_status s = m->batch == batch ? TN_OK : compile(m, batch);
  for (int i = 0; i < NETWORK_WEIGHTS; i++) out[1 + i] = m->gradients[i];
  if (!s) s = tn_generator_reserve(m->generator, m->draws, &seed, &offset);
  if (!s)
    s = tn_program_run(m->program, NULL, 2, (const tn_tensor *[]){images, labels},
                       1 + NETWORK_WEIGHTS, out);
  if (s) return s;
  for (int i = 0; i < NETWORK_WEIGHTS; i++) m->gradients[i] = out[1 + i];
  return update(m);
}

/* -------------------------------------------------------------------- testing --- */

tn_status model_count_correct(const model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct) {
  tn_sum_attrs count = TN_SUM_DEFAULTS;
  pass p = {.made = 0};
  tn_tensor **logits = pass_result(&p), **guess = pass_result(&p), **right = pass_result(&p),
            **sum = pass_result(&p);
  count.dtype = TN_I64;
  p.status = network_forward(m->weights, images, NULL, logits);
  if (!p.status) p.status = tn_argmax(NULL, *logits, NULL, guess);
  if (!p.status) p.status = tn_equal(NULL, *guess, labels, right);
  if (!p.status) p.status = tn_sum(NULL, *right, &count, sum);
  if (!p.status) p.status = tn_add(NULL, correct, *sum, &correct);
  return pass_end(&p);
}
