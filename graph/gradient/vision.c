/*
 * Rules of ops/vision.def. Reading images is linear in them: of each operator and its gradient the
 * one's rule is the other.
 */
#include <string.h>

#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

/* x, or dy: `sized` says how large what the other operator gives is along the axis. */
static void resampled(rule *r, uint32_t op, const char *sized) {
  const int64_t axis = ((const tn_resample_attrs *)r->attrs)->axis; /* both have it first */
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *given = NULL;
  if (!rule_wants(r, 0)) return;
  rule_call_sized(r, op, sized, &shape->size[axis < 0 ? axis + shape->rank : axis], 1,
                  r->out_gradient, &given);
  rule_give(r, 0, given);
}

void gradient_resample(rule *r) { resampled(r, TN_OP_RESAMPLE_GRAD, "size"); }
void gradient_resample_grad(rule *r) { resampled(r, TN_OP_RESAMPLE, "output"); }

/* x, grid */
void gradient_grid_sample(rule *r) {
  const tn_grid_sample_attrs *a = r->attrs;
  const rule_shape *x = &r->in_shape[0];
  const tn_tensor *dy = r->out_gradient[0];
  tn_grid_sample_grad_input_attrs by_input = {.struct_size = sizeof by_input,
                                              .mode = a->mode,
                                              .padding = a->padding,
                                              .align_corners = a->align_corners,
                                              .size = {.count = x->rank - 2}};
  memcpy(by_input.size.dim, x->size + 2, (size_t)(x->rank - 2) * sizeof *x->size);
  if (rule_wants(r, 0)) rule_give(r, 0, grid_sample_grad_input(dy, r->in[1], &by_input));
  if (rule_wants(r, 1)) rule_give(r, 1, grid_sample_grad_grid(dy, r->in[0], r->in[1], SAME));
}

/* dy, grid: the same with images and what is made of them changed about. */
void gradient_grid_sample_grad_input(rule *r) {
  const tn_tensor *v = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, grid_sample(v, r->in[1], SAME));
  if (rule_wants(r, 1)) rule_give(r, 1, grid_sample_grad_grid(r->in[0], v, r->in[1], SAME));
}

/* x; boxes get none */
void gradient_roi_align(rule *r) {
  const tn_roi_align_attrs *a = r->attrs;
  const int64_t *x = r->in_shape[0].size;
  const tn_roi_align_grad_attrs attrs = {.struct_size = sizeof attrs,
                                         .images = x[0],
                                         .size = {x[2], x[3]},
                                         .samples = a->samples,
                                         .scale = a->scale,
                                         .half_pixel = a->half_pixel};
  if (rule_wants(r, 0))
    rule_give(r, 0, roi_align_grad(r->out_gradient[0], r->in[1], r->in[2], &attrs));
}

/* --- local_response_norm --- */

/*
 * Sums of x over `size` channels, `before` of them before each: a pooling of one channel whose rows
 * are the channels. Where the window would be larger than all channels, its border is cut to them.
 */
static const tn_tensor *channel_sums(rule *r, const tn_tensor *x, int64_t before, int64_t behind) {
  const rule_shape *shape = &r->in_shape[0];
  const int64_t channels = shape->size[1];
  int64_t images[4] = {shape->size[0], 1, channels, 1};
  for (int32_t d = 2; d < shape->rank; ++d) images[3] *= shape->size[d];
  if (before >= channels) before = channels - 1;
  if (behind >= channels) behind = channels - 1;
  const tn_pad_attrs around = {.struct_size = sizeof around,
                               .before = {.count = 4, .dim = {0, 0, before, 0}},
                               .after = {.count = 4, .dim = {0, 0, behind, 0}}};
  const tn_avg_pool2d_attrs window = {.struct_size = sizeof window,
                                      .kernel = {before + 1 + behind, 1},
                                      .stride = {1, 1},
                                      .count_padding = 1};
  const tn_tensor *rows = pad(rule_reshape(r, x, 4, images), &around);
  return rule_scale(r, reshaped(avg_pool2d(rows, &window), shape), (double)(before + 1 + behind));
}

void gradient_local_response_norm(rule *r) {
  const tn_local_response_norm_attrs *a = r->attrs;
  const tn_tensor *x = r->in[0], *dy = r->out_gradient[0];
  const int64_t before = (a->size - 1) / 2, behind = a->size / 2;
  const double share = a->alpha / (double)a->size;
  if (!rule_wants(r, 0)) return;
  if (rule_count(&r->in_shape[0], NULL) == 0) {
    rule_give(r, 0, mul(dy, x)); /* no window fits */
    return;
  }
  const tn_tensor *squares = rule_scale(r, channel_sums(r, mul(x, x), before, behind), share);
  const tn_tensor *s = add(squares, num(x, a->bias));
  const tn_tensor *power = pow(s, num(x, -a->beta));
  const tn_tensor *read = channel_sums(r, div(mul(mul(dy, x), power), s), behind, before);
  rule_give(r, 0, sub(mul(dy, power), rule_scale(r, mul(x, read), 2 * a->beta * share)));
}
