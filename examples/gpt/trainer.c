#include "trainer.h"

#include <math.h>
#include <stdio.h>

#include "../pass.h"

/* ---------------------------------------------------------------- start, end --- */

double trainer_rate(const recipe *r, int64_t step) {
  const double pi = 3.14159265358979323846, least = 0.1;
  if (step < r->warm_up) return r->lr * (double)step / (double)r->warm_up;
  if (step >= r->steps) return r->lr * least;
  double done = (double)(step - r->warm_up) / (double)(r->steps - r->warm_up);
  return r->lr * (least + (1 - least) * 0.5 * (1 + cos(pi * done)));
}

static tn_status create_rates(trainer *t) {
  double rates[1024];
  const int64_t count = t->recipe.steps + 1, most = sizeof rates / sizeof *rates;
  tn_status s = tn_tensor_empty(t->device, TN_F64, 1, &count, &t->own.rates);
  for (int64_t begin = 0; begin < count && !s; begin += most) {
    tn_tensor *part = NULL;
    int64_t end = begin + most < count ? begin + most : count;
    for (int64_t i = begin; i < end; i++) rates[i - begin] = trainer_rate(&t->recipe, i);
    s = tn_tensor_slice(t->own.rates, 0, begin, end, 1, &part);
    if (!s) s = tn_tensor_write(NULL, part, rates, tn_tensor_bytes(part));
    tn_tensor_release(part);
  }
  return s;
}

static tn_status create_positions(trainer *t) {
  int32_t numbers[MODEL_MAX_CONTEXT];
  int64_t length = t->recipe.length;
  for (int64_t i = 0; i < length; i++) numbers[i] = (int32_t)i;
  return tn_tensor_from_host(t->device, TN_I32, 1, &length, numbers, &t->own.positions);
}

tn_status trainer_create(trainer *t, tn_device *device, const model_size *size, const recipe *r,
                         uint64_t seed) {
  const int64_t one = 1;
  *t = (trainer){.device = device, .size = size, .recipe = *r, .count = model_weights(size)};
  tensors *own = &t->own;
  tn_status s = model_create(device, size, seed, own->weights);
  for (int i = 0; i < t->count && !s; i++) {
    s = tn_zeros_like(NULL, own->weights[i], &own->first[i]);
    if (!s) s = tn_zeros_like(NULL, own->weights[i], &own->second[i]);
  }
  if (!s) s = tn_zeros(device, NULL, TN_I64, 1, &one, &own->count);
  if (!s && r->products == TN_F16) s = loss_scale_create(device, &own->scale);
  if (!s) s = create_rates(t);
  return s ? s : create_positions(t);
}

static void release(tn_tensor **tensor) {
  tn_tensor_release(*tensor);
  *tensor = NULL;
}

static void drop_tensors(tensors *all, int count) {
  for (int i = 0; i < count; i++) {
    release(&all->weights[i]);
    release(&all->gradients[i]);
    release(&all->first[i]);
    release(&all->second[i]);
  }
  release(&all->positions);
  release(&all->count);
  release(&all->rates);
  loss_scale_drop(&all->scale);
}

void trainer_destroy(trainer *t) {
  tn_tape_destroy(t->tape);
  tn_program_destroy(t->step);
  tn_program_destroy(t->test);
  drop_tensors(&t->own, t->count);
  *t = (trainer){0};
}

tn_status trainer_set_steps(trainer *t, int64_t steps) {
  t->steps = steps;
  return tn_tensor_write(NULL, t->own.count, &steps, sizeof steps);
}

void trainer_state(const trainer *t, checkpoint_tensor state[]) {
  static const char *const suffix[] = {"", ".m", ".v"};
  for (int i = 0; i < t->count; i++) {
    weight w;
    tn_tensor *const part[] = {t->own.weights[i], t->own.first[i], t->own.second[i]};
    model_describe(t->size, i, &w);
    for (int j = 0; j < 3; j++, state++) {
      state->tensor = part[j];
      snprintf(state->name, sizeof state->name, "%s%s", w.name, suffix[j]);
    }
  }
}

/* ----------------------------------------------------------------- what a step is --- */

/* AdamW for the weights of a rank; only matrices decay. */
static tn_status update_rank(const trainer *t, tensors *all, int32_t rank, const tn_tensor *rate,
                             const tn_tensor *skip) {
  tn_tensor *gradients[MODEL_MAX_WEIGHTS], *weights[MODEL_MAX_WEIGHTS];
  tn_tensor *first[MODEL_MAX_WEIGHTS], *second[MODEL_MAX_WEIGHTS];
  size_t count = 0;
  for (int i = 0; i < t->count; i++) {
    if (tn_tensor_rank(all->weights[i]) != rank) continue;
    gradients[count] = all->gradients[i];
    weights[count] = all->weights[i];
    first[count] = all->first[i];
    second[count++] = all->second[i];
  }
  tn_multi_adamw_attrs adam = TN_MULTI_ADAMW_DEFAULTS;
  adam.lr_from = rate;
  adam.skip_if = skip;
  adam.step_from = all->count;
  adam.beta2 = 0.99; /* a step sees few bytes: 0.95 would follow their noise */
  adam.weight_decay = rank == 2 ? t->recipe.decay : 0;
  return tn_multi_adamw(NULL, gradients, weights, first, second, count, &adam);
}

/* Counts the step, clips the gradients, and updates weights and moments in place. */
static tn_status update(const trainer *t, tensors *all, tn_tensor **norm) {
  tn_clip_grad_norm_attrs clip = TN_CLIP_GRAD_NORM_DEFAULTS;
  pass p = {.made = 0};
  tn_tensor **skip = pass_result(&p), **rate = pass_result(&p);
  const char *before = tn_call_site("optimiser");
  clip.max_norm = t->recipe.clip;
  p.status = loss_scale_step(&all->scale, all->gradients, (size_t)t->count, all->count, skip);
  if (!p.status) p.status = tn_index_select(NULL, all->rates, all->count, NULL, rate);
  if (!p.status) p.status = tn_clip_grad_norm(NULL, all->gradients, (size_t)t->count, &clip, norm);
  if (!p.status) p.status = update_rank(t, all, 2, *rate, *skip);
  if (!p.status) p.status = update_rank(t, all, 1, *rate, *skip);
  tn_call_site(before);
  return pass_end(&p);
}

/* -------------------------------------------------------------------- programs --- */

/* A graph under way. */
typedef struct draft {
  tn_graph *graph;
  tensors all;
  tn_tensor *tokens, *targets, *loss, *scaled, *norm;
} draft;

static void drop_draft(draft *d, int count) {
  drop_tensors(&d->all, count);
  release(&d->tokens);
  release(&d->targets);
  release(&d->loss);
  release(&d->scaled);
  release(&d->norm);
  tn_graph_destroy(d->graph);
}

static tn_status add_parameters(const trainer *t, draft *d) {
  checkpoint_tensor state[TRAINER_MAX_TENSORS];
  tn_status s = TN_OK;
  trainer_state(t, state);
  for (int i = 0; i < t->count && !s; i++) {
    tn_tensor **const part[] = {&d->all.weights[i], &d->all.first[i], &d->all.second[i]};
    for (int j = 0; j < 3 && !s; j++) {
      const checkpoint_tensor *own = &state[3 * i + j];
      s = tn_graph_parameter(d->graph, own->name, own->tensor, part[j]);
    }
  }
  if (!s) s = tn_graph_parameter(d->graph, "step", t->own.count, &d->all.count);
  if (!s) s = loss_scale_parameters(d->graph, &t->own.scale, &d->all.scale);
  if (!s) s = tn_graph_constant(d->graph, "rates", t->own.rates, &d->all.rates);
  return s ? s : tn_graph_constant(d->graph, "places", t->own.positions, &d->all.positions);
}

/* What steps and tests have in common: two inputs, and the loss as the first output. */
static tn_status draft_loss(const trainer *t, const char *name, tn_dtype products, draft *d) {
  const recipe *r = &t->recipe;
  const int64_t windows[] = {r->batch, r->length}, bytes = r->batch * r->length;
  *d = (draft){.graph = NULL};
  tn_status s = tn_graph_create(tn_device_runtime(t->device), name, &d->graph);
  if (!s) s = tn_graph_input(d->graph, "bytes", TN_I32, 2, windows, &d->tokens);
  if (!s) s = tn_graph_input(d->graph, "next bytes", TN_I32, 1, &bytes, &d->targets);
  if (!s) s = add_parameters(t, d);
  if (!s) s = tn_graph_autocast(d->graph, products);
  if (!s)
    s = model_loss(t->size, d->all.weights, d->tokens, d->all.positions, d->targets, &d->loss);
  if (!s) s = tn_graph_autocast(d->graph, TN_DTYPE_NONE);
  return s ? s : tn_graph_output(d->graph, "loss", d->loss);
}

static tn_status draft_update(const trainer *t, draft *d) {
  tn_status s = loss_scale_apply(&d->all.scale, d->loss, &d->scaled);
  if (!s)
    s = tn_graph_gradient(d->graph, d->scaled, (size_t)t->count, d->all.weights, d->all.gradients);
  if (!s) s = update(t, &d->all, &d->norm);
  return s ? s : tn_graph_output(d->graph, "norm", d->norm);
}

static tn_status compile(trainer *t) {
  draft d;
  tn_status s = draft_loss(t, "step", t->recipe.products, &d);
  if (!s) s = draft_update(t, &d);
  if (!s) s = tn_graph_compile(d.graph, t->device, NULL, &t->step);
  drop_draft(&d, t->count);
  if (s) return s;
  s = draft_loss(t, "test", TN_DTYPE_NONE, &d);
  if (!s) s = tn_graph_compile(d.graph, t->device, NULL, &t->test);
  drop_draft(&d, t->count);
  return s;
}

tn_status trainer_prepare(trainer *t) {
  if (!t->recipe.eager) return compile(t);
  tn_status s = tn_tape_create(tn_device_runtime(t->device), &t->tape);
  for (int i = 0; i < t->count && !s; i++) s = tn_tape_watch(t->tape, t->own.weights[i]);
  return s ? s : tn_tape_autocast(t->tape, t->recipe.products);
}

/* --------------------------------------------------------------------- running --- */

static tn_status own_loss(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                          tn_tensor **loss) {
  return model_loss(t->size, t->own.weights, tokens, t->own.positions, targets, loss);
}

static tn_status record_gradients(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                                  tn_tensor **loss) {
  tn_status s = tn_tape_begin(t->tape);
  if (s) return s;
  s = own_loss(t, tokens, targets, loss);
  if (!s)
    s = tn_tape_gradient(t->tape, NULL, *loss, t->own.scale.scale, (size_t)t->count, t->own.weights,
                         t->own.gradients, 0);
  tn_status end = tn_tape_end(t->tape);
  return s ? s : end;
}

static tn_status step_eager(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                            tn_tensor **loss, tn_tensor **norm) {
  tn_status s = record_gradients(t, tokens, targets, loss);
  if (!s) s = update(t, &t->own, norm);
  for (int i = 0; i < t->count; i++) release(&t->own.gradients[i]);
  return s;
}

tn_status trainer_step(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss, tn_tensor **norm) {
  const tn_tensor *const in[] = {tokens, targets};
  tn_tensor *out[] = {NULL, NULL};
  tn_status s = t->tape ? step_eager(t, tokens, targets, &out[0], &out[1])
                        : tn_program_run(t->step, NULL, 2, in, 2, out);
  *loss = out[0];
  *norm = out[1];
  if (!s) t->steps++;
  return s;
}

tn_status trainer_test(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss) {
  const tn_tensor *const in[] = {tokens, targets};
  return t->tape ? own_loss(t, tokens, targets, loss)
                 : tn_program_run(t->test, NULL, 2, in, 1, loss);
}
