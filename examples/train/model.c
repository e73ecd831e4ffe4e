#include "model.h"

#include <math.h>
#include <stdio.h>

#include "../pass.h"

/* --------------------------------------------------------------- start, end --- */

/* He et al. 2015 with a = sqrt(5): uniform within 1 / sqrt(fan_in). */
static tn_status create_weight(model *m, int i) {
  const network_weight *w = &network_layout[i];
  tensors *own = &m->own;
  tn_uniform_attrs draw = TN_UNIFORM_DEFAULTS;
  draw.high = 1 / sqrt((double)w->fan_in);
  draw.low = -draw.high;
  tn_status s = tn_tensor_empty(m->device, TN_F32, w->rank, w->shape, &own->weights[i]);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, w->rank, w->shape, &own->first[i]);
  if (!s) s = tn_zeros(m->device, NULL, TN_F32, w->rank, w->shape, &own->second[i]);
  if (!s) s = tn_generator_next(m->generator, TN_OP_UNIFORM, own->weights[i], &draw);
  return s ? s : tn_uniform(NULL, own->weights[i], &draw);
}

static tn_status create_tape(model *m) {
  tn_status s = tn_tape_create(tn_device_runtime(m->device), &m->tape);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++) s = tn_tape_watch(m->tape, m->own.weights[i]);
  return s ? s : tn_tape_autocast(m->tape, m->products);
}

tn_status model_create(model *m, tn_device *device, uint64_t seed, double lr, bool eager,
                       tn_dtype products) {
  *m = (model){.device = device, .seed = seed, .lr = lr, .products = products};
  tn_status s = tn_generator_create(tn_device_runtime(device), seed, &m->generator);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++) s = create_weight(m, i);
  if (!s) s = tn_zeros(device, NULL, TN_I64, 0, NULL, &m->own.count);
  if (!s && products == TN_F16) s = loss_scale_create(device, &m->own.scale);
  return s || !eager ? s : create_tape(m);
}

static void drop_program(model *m) {
  program_remember(&m->story, m->program);
  tn_program_destroy(m->program);
  m->program = NULL;
  m->batch = 0;
}

static void release(tn_tensor **tensor) {
  tn_tensor_release(*tensor);
  *tensor = NULL;
}

static void drop_tensors(tensors *all) {
  for (int i = 0; i < NETWORK_WEIGHTS; i++) {
    release(&all->weights[i]);
    release(&all->gradients[i]);
    release(&all->first[i]);
    release(&all->second[i]);
  }
  release(&all->count);
  loss_scale_drop(&all->scale);
}

void model_destroy(model *m) {
  drop_program(m);
  tn_tape_destroy(m->tape);
  drop_tensors(&m->own);
  tn_generator_destroy(m->generator);
  *m = (model){0};
}

void model_state(const model *m, checkpoint_tensor state[MODEL_STATE_TENSORS]) {
  static const char *const suffix[] = {"", ".m", ".v"};
  for (int i = 0; i < NETWORK_WEIGHTS; i++) {
    tn_tensor *const part[] = {m->own.weights[i], m->own.first[i], m->own.second[i]};
    for (int j = 0; j < 3; j++, state++) {
      state->tensor = part[j];
      snprintf(state->name, sizeof state->name, "%s%s", network_layout[i].name, suffix[j]);
    }
  }
}

tn_status model_go_on(model *m, int64_t steps, uint64_t seed, uint64_t offset) {
  drop_program(m); /* it draws on from where it was compiled */
  m->seed = seed;
  m->steps = steps;
  tn_status s = tn_generator_set_state(m->generator, seed, offset);
  return s ? s : tn_tensor_write(NULL, m->own.count, &steps, sizeof steps);
}

/* ------------------------------------------------------------------- training --- */

/* Counts the step, and updates weights and moments in place. */
static tn_status update(const model *m, tensors *all) {
  tn_multi_adam_attrs adam = TN_MULTI_ADAM_DEFAULTS;
  tn_tensor *skip = NULL;
  tn_status s = loss_scale_step(&all->scale, all->gradients, NETWORK_WEIGHTS, all->count, &skip);
  adam.lr = m->lr;
  adam.step_from = all->count;
  adam.skip_if = skip;
  if (!s)
    s = tn_multi_adam(NULL, all->gradients, all->weights, all->first, all->second, NETWORK_WEIGHTS,
                      &adam);
  tn_tensor_release(skip);
  return s;
}

/* A graph under way. */
typedef struct draft {
  tn_graph *graph;
  tensors all;
  tn_tensor *images, *labels, *loss, *scaled;
} draft;

static void drop_draft(draft *d) {
  drop_tensors(&d->all);
  release(&d->images);
  release(&d->labels);
  release(&d->loss);
  release(&d->scaled);
  tn_graph_destroy(d->graph);
}

static tn_status add_parameters(const model *m, draft *d) {
  checkpoint_tensor state[MODEL_STATE_TENSORS];
  tn_status s = tn_graph_parameter(d->graph, "step", m->own.count, &d->all.count);
  if (!s) s = loss_scale_parameters(d->graph, &m->own.scale, &d->all.scale);
  model_state(m, state);
  for (int i = 0; i < NETWORK_WEIGHTS && !s; i++) {
    tn_tensor **const part[] = {&d->all.weights[i], &d->all.first[i], &d->all.second[i]};
    for (int j = 0; j < 3 && !s; j++) {
      const checkpoint_tensor *own = &state[3 * i + j];
      s = tn_graph_parameter(d->graph, own->name, own->tensor, part[j]);
    }
  }
  return s;
}

static tn_status draft_inputs(const model *m, int64_t batch, draft *d) {
  tn_status s = tn_graph_create(tn_device_runtime(m->device), "step", &d->graph);
  if (!s)
    s = tn_graph_input(d->graph, "images", TN_U8, 4, (int64_t[]){batch, 1, 28, 28}, &d->images);
  if (!s) s = tn_graph_input(d->graph, "labels", TN_I64, 1, &batch, &d->labels);
  return s ? s : add_parameters(m, d);
}

static tn_status draft_step(const model *m, draft *d) {
  tn_status s = tn_graph_autocast(d->graph, m->products);
  if (!s) s = network_loss(d->all.weights, d->images, d->labels, m->generator, &d->loss);
  if (!s) s = tn_graph_autocast(d->graph, TN_DTYPE_NONE);
  if (!s) s = tn_graph_output(d->graph, "loss", d->loss);
  if (!s) s = loss_scale_apply(&d->all.scale, d->loss, &d->scaled);
  if (!s)
    s = tn_graph_gradient(d->graph, d->scaled, NETWORK_WEIGHTS, d->all.weights, d->all.gradients);
  return s ? s : update(m, &d->all);
}

/* A program draws what its graph's dropout drew when it was written down, and on from there with
 * each run. So one for another batch begins where the sequence is now, and each run moves that on.
 */
static tn_status compile(model *m, int64_t batch) {
  draft d = {.graph = NULL};
  uint64_t begin = 0, end = 0;
  drop_program(m);
  tn_status s = draft_inputs(m, batch, &d);
  if (!s) s = tn_generator_get_state(m->generator, NULL, &begin);
  if (!s) s = draft_step(m, &d);
  if (!s) s = tn_generator_get_state(m->generator, NULL, &end);
  if (!s) s = tn_generator_set_state(m->generator, m->seed, begin);
  if (!s) s = tn_graph_compile(d.graph, m->device, NULL, &m->program);
  drop_draft(&d);
  if (s) return s;
  m->batch = batch;
  m->draws = end - begin;
  return TN_OK;
}

static tn_status step_program(model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *loss) {
  int64_t batch = tn_tensor_shape(images)[0];
  const tn_tensor *const in[] = {images, labels};
  uint64_t seed, offset;
  tn_status s = m->batch == batch ? TN_OK : compile(m, batch);
  if (!s) s = tn_generator_reserve(m->generator, m->draws, &seed, &offset);
  return s ? s : tn_program_run(m->program, NULL, 2, in, 1, &loss);
}

static tn_status step_eager(model *m, const tn_tensor *images, const tn_tensor *labels,
                            tn_tensor *loss) {
  tn_status s = tn_tape_begin(m->tape);
  if (s) return s;
  s = network_loss(m->own.weights, images, labels, m->generator, &loss);
  if (!s)
    s = tn_tape_gradient(m->tape, NULL, loss, m->own.scale.scale, NETWORK_WEIGHTS, m->own.weights,
                         m->own.gradients, 0);
  tn_status end = tn_tape_end(m->tape);
  if (!s && !end) s = update(m, &m->own);
  for (int i = 0; i < NETWORK_WEIGHTS; i++) release(&m->own.gradients[i]);
  return s ? s : end;
}

tn_status model_step(model *m, const tn_tensor *images, const tn_tensor *labels, tn_tensor *loss) {
  m->steps++;
  return m->tape ? step_eager(m, images, labels, loss) : step_program(m, images, labels, loss);
}

/* -------------------------------------------------------------------- testing --- */

tn_status model_count_correct(const model *m, const tn_tensor *images, const tn_tensor *labels,
                              tn_tensor *correct) {
  tn_sum_attrs count = TN_SUM_DEFAULTS;
  pass p = {.made = 0};
  tn_tensor **logits = pass_result(&p), **guess = pass_result(&p), **right = pass_result(&p),
            **sum = pass_result(&p);
  count.dtype = TN_I64;
  p.status = network_forward(m->own.weights, images, NULL, logits);
  if (!p.status) p.status = tn_argmax(NULL, *logits, NULL, guess);
  if (!p.status) p.status = tn_equal(NULL, *guess, labels, right);
  if (!p.status) p.status = tn_sum(NULL, *right, &count, sum);
  if (!p.status) p.status = tn_add(NULL, correct, *sum, &correct);
  return pass_end(&p);
}
