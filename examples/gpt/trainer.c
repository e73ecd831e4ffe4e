#include "trainer.h"

#include <math.h>
#include <stdio.h>

/* ---------------------------------------------------------------- start, end --- */

static void sort_weights(trainer *t) {
  int vectors = 0;
  for (int i = 0; i < t->count; i++) t->matrices += tn_tensor_rank(t->weights[i]) == 2;
  for (int i = 0, matrices = 0; i < t->count; i++)
    if (tn_tensor_rank(t->weights[i]) == 2)
      t->order[matrices++] = i;
    else
      t->order[t->matrices + vectors++] = i;
}

tn_status trainer_create(trainer *t, tn_device *device, const model_size *size, const recipe *r,
                         uint64_t seed) {
  *t = (trainer){.device = device, .size = size, .recipe = *r, .count = model_weights(size)};
  tn_status s = model_create(device, size, seed, t->weights);
  for (int i = 0; i < t->count && !s; i++) {
    s = tn_zeros_like(NULL, t->weights[i], &t->first[i]);
    if (!s) s = tn_zeros_like(NULL, t->weights[i], &t->second[i]);
  }
  if (!s) sort_weights(t);
  return s;
}

void trainer_destroy(trainer *t) {
  tn_program_destroy(t->step);
  tn_program_destroy(t->test);
  for (int i = 0; i < t->count; i++) {
    tn_tensor_release(t->weights[i]);
    tn_tensor_release(t->first[i]);
    tn_tensor_release(t->second[i]);
    tn_tensor_release(t->gradients[i]);
  }
  *t = (trainer){0};
}

void trainer_state(const trainer *t, checkpoint_tensor state[]) {
  static const char *const suffix[] = {"", ".m", ".v"};
  for (int i = 0; i < t->count; i++) {
    weight w;
    tn_tensor *const part[] = {t->weights[i], t->first[i], t->second[i]};
    model_describe(t->size, i, &w);
    for (int j = 0; j < 3; j++, state++) {
      state->tensor = part[j];
      snprintf(state->name, sizeof state->name, "%s%s", w.name, suffix[j]);
    }
  }
}

/* ------------------------------------------------------------------- programs --- */

/* A graph under way: the model's weights in it, and the loss. */
typedef struct draft {
  tn_graph *graph;
  int count;
  tn_tensor *tokens, *targets, *positions, *loss;
  tn_tensor *weights[MODEL_MAX_WEIGHTS], *gradients[MODEL_MAX_WEIGHTS];
} draft;

static void drop_draft(draft *d) {
  for (int i = 0; i < d->count; i++) {
    tn_tensor_release(d->weights[i]);
    tn_tensor_release(d->gradients[i]);
  }
  tn_tensor_release(d->tokens);
  tn_tensor_release(d->targets);
  tn_tensor_release(d->positions);
  tn_tensor_release(d->loss);
  tn_graph_destroy(d->graph);
}

static tn_status add_positions(draft *d, int64_t length) {
  int32_t numbers[MODEL_MAX_CONTEXT];
  for (int64_t i = 0; i < length; i++) numbers[i] = (int32_t)i;
  return tn_tensor_from_host(tn_graph_device(d->graph), TN_I32, 1, &length, numbers, &d->positions);
}

static tn_status add_weights(const trainer *t, draft *d) {
  tn_status s = TN_OK;
  for (int i = 0; i < t->count && !s; i++) {
    weight w;
    model_describe(t->size, i, &w);
    s = tn_graph_parameter(d->graph, w.name, t->weights[i], &d->weights[i]);
  }
  return s;
}

/* What steps and tests have in common: two inputs, and the loss as the first output. */
static tn_status draft_loss(const trainer *t, const char *name, draft *d) {
  const recipe *r = &t->recipe;
  const int64_t windows[] = {r->batch, r->length}, bytes = r->batch * r->length;
  *d = (draft){.count = t->count};
  tn_status s = tn_graph_create(tn_device_runtime(t->device), name, &d->graph);
  if (!s) s = tn_graph_input(d->graph, "bytes", TN_I32, 2, windows, &d->tokens);
  if (!s) s = tn_graph_input(d->graph, "next bytes", TN_I32, 1, &bytes, &d->targets);
  if (!s) s = add_positions(d, r->length);
  if (!s) s = add_weights(t, d);
  if (!s) s = model_loss(t->size, d->weights, d->tokens, d->positions, d->targets, &d->loss);
  return s ? s : tn_graph_output(d->graph, "loss", d->loss);
}

static tn_status draft_gradients(const trainer *t, draft *d) {
  tn_status s = tn_graph_gradient(d->graph, d->loss, (size_t)t->count, d->weights, d->gradients);
  for (int i = 0; i < t->count && !s; i++) {
    weight w;
    model_describe(t->size, i, &w);
    s = tn_graph_output(d->graph, w.name, d->gradients[i]);
  }
  return s;
}

tn_status trainer_compile(trainer *t) {
  draft d;
  tn_status s = draft_loss(t, "step", &d);
  if (!s) s = draft_gradients(t, &d);
  if (!s) s = tn_graph_compile(d.graph, t->device, NULL, &t->step);
  drop_draft(&d);
  if (s) return s;
  s = draft_loss(t, "test", &d);
  if (!s) s = tn_graph_compile(d.graph, t->device, NULL, &t->test);
  drop_draft(&d);
  return s;
}

/* --------------------------------------------------------------------- running --- */

double trainer_rate(const recipe *r, int64_t step) {
  const double pi = 3.14159265358979323846, least = 0.1;
  if (step <= r->warm_up) return r->lr * (double)step / (double)r->warm_up;
  if (step >= r->steps) return r->lr * least;
  double done = (double)(step - r->warm_up) / (double)(r->steps - r->warm_up);
  return r->lr * (least + (1 - least) * 0.5 * (1 + cos(pi * done)));
}

/* Tensors begin..end of `order`, which all decay alike. */
static tn_status update_some(trainer *t, int begin, int end, double decay) {
  const tn_tensor *gradients[MODEL_MAX_WEIGHTS];
  tn_tensor *weights[MODEL_MAX_WEIGHTS], *first[MODEL_MAX_WEIGHTS], *second[MODEL_MAX_WEIGHTS];
  for (int i = begin; i < end; i++) {
    gradients[i] = t->gradients[t->order[i]];
    weights[i] = t->weights[t->order[i]];
    first[i] = t->first[t->order[i]];
    second[i] = t->second[t->order[i]];
  }
  tn_multi_adamw_attrs adam = TN_MULTI_ADAMW_DEFAULTS;
  adam.lr = trainer_rate(&t->recipe, t->steps);
  adam.beta2 = 0.95;
  adam.weight_decay = decay;
  adam.step = t->steps;
  return tn_multi_adamw(NULL, gradients + begin, weights + begin, first + begin, second + begin,
                        (size_t)(end - begin), &adam);
}

tn_status trainer_step(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss, tn_tensor **norm) {
  tn_tensor *out[1 + MODEL_MAX_WEIGHTS] = {*loss};
  tn_clip_grad_norm_attrs clip = TN_CLIP_GRAD_NORM_DEFAULTS;
  clip.max_norm = t->recipe.clip;
  for (int i = 0; i < t->count; i++) out[1 + i] = t->gradients[i];
  tn_status s = tn_program_run(t->step, NULL, 2, (const tn_tensor *[]){tokens, targets},
                               (size_t)t->count + 1, out);
  if (s) return s;
  *loss = out[0];
  for (int i = 0; i < t->count; i++) t->gradients[i] = out[1 + i];
  t->steps++;
  s = tn_clip_grad_norm(NULL, t->gradients, (size_t)t->count, &clip, norm);
  if (!s) s = update_some(t, 0, t->matrices, t->recipe.decay);
  return s ? s : update_some(t, t->matrices, t->count, 0);
}

tn_status trainer_test(trainer *t, const tn_tensor *tokens, const tn_tensor *targets,
                       tn_tensor **loss) {
  return tn_program_run(t->test, NULL, 2, (const tn_tensor *[]){tokens, targets}, 1, loss);
}
