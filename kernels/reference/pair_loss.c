/* Losses of elements in pairs, and their gradients: one walk over x and what it is held to. */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

/* What stands behind one element. */
typedef struct pair {
  double x, target, weight, pos_weight;
} pair;

/* The loss of a pair or its derivative by x; `option` is the operator's own attribute. */
typedef double (*pair_fn)(const pair *p, double option);

enum { AT_X, AT_TARGET, AT_WEIGHT, AT_POS, AT_DY, AT_OUT, PAIR_VIEWS };

/* A tensor spread over x's shape; x itself, never read, where it is absent. */
static view spread(const DLTensor *t, const view *x) {
  return t ? view_broadcast(view_of(t), x->ndim, x->shape) : *x;
}

static pair pair_at(const walk *w, int64_t i, const DLTensor *const *in, int num_in) {
  pair p = {.weight = 1, .pos_weight = 1};
  double *to[] = {&p.x, &p.target, &p.weight, &p.pos_weight};
  for (int v = 0; v < num_in; ++v)
    if (in[v]) load_f64(w->views[v].dtype, walk_at(w, v, i), 1, 1, to[v]);
  return p;
}

static tn_status pair_forward(const tn_kernel_args *args, int64_t reduction, pair_fn loss,
                              double option) {
  view x = view_of(args->in[0]), y = view_of(args->out[0]), views[PAIR_VIEWS];
  for (int v = 0; v < AT_DY; ++v) views[v] = spread(v < args->num_in ? args->in[v] : NULL, &x);
  views[AT_DY] = x;
  views[AT_OUT] = reduction == TN_REDUCTION_NONE ? y : x;
  double total = 0;
  walk w = walk_over(views, PAIR_VIEWS, 0, view_count(&x));
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      pair p = pair_at(&w, i, args->in, args->num_in);
      double value = p.weight * loss(&p, option);
      if (reduction == TN_REDUCTION_NONE) store_f64(y.dtype, walk_at(&w, AT_OUT, i), 1, 1, &value);
      total += value;
    }
  }
  if (reduction == TN_REDUCTION_MEAN) total /= (double)view_count(&x);
  if (reduction != TN_REDUCTION_NONE) store_f64(y.dtype, y.data, 1, 1, &total);
  return TN_OK;
}

static tn_status pair_backward(const tn_kernel_args *args, int64_t reduction, pair_fn slope,
                               double option) {
  const DLTensor *const *in = args->in + 1;
  int num_in = args->num_in - 1;
  view x = view_of(in[0]), views[PAIR_VIEWS];
  for (int v = 0; v < AT_DY; ++v) views[v] = spread(v < num_in ? in[v] : NULL, &x);
  views[AT_DY] = spread(args->in[0], &x);
  views[AT_OUT] = view_of(args->out[0]);
  double scale = reduction == TN_REDUCTION_MEAN ? 1 / (double)view_count(&x) : 1, dy;
  walk w = walk_over(views, PAIR_VIEWS, 0, view_count(&x));
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      pair p = pair_at(&w, i, in, num_in);
      load_f64(views[AT_DY].dtype, walk_at(&w, AT_DY, i), 1, 1, &dy);
      double dx = p.weight * slope(&p, option) * dy * scale;
      store_f64(views[AT_OUT].dtype, walk_at(&w, AT_OUT, i), 1, 1, &dx);
    }
  }
  return TN_OK;
}

static double mse(const pair *p, double none) {
  (void)none;
  return (p->x - p->target) * (p->x - p->target);
}

static double mse_slope(const pair *p, double none) {
  (void)none;
  return 2 * (p->x - p->target);
}

/* Both parts are 0 or more: the loss of a target of 0 is small where x is far below 0, and is no
 * difference of two that are not. */
static double bce(const pair *p, double none) {
  const double tail = log1p(exp(-fabs(p->x))), x = p->x;
  (void)none;
  return (1 - p->target) * (x > 0 ? x + tail : tail) +
         p->pos_weight * p->target * (x < 0 ? tail - x : tail);
}

static double bce_slope(const pair *p, double none) {
  (void)none;
  return 1 - p->target - (1 + (p->pos_weight - 1) * p->target) / (1 + exp(p->x));
}

static double huber(const pair *p, double delta) {
  double d = fabs(p->x - p->target);
  return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}

static double huber_slope(const pair *p, double delta) {
  double d = p->x - p->target;
  return d > delta ? delta : d < -delta ? -delta : d;
}

static double kl(const pair *p, double log_target) {
  if (log_target != 0) return exp(p->target) * (p->target - p->x);
  return p->target == 0 ? 0 : p->target * (log(p->target) - p->x);
}

static double kl_slope(const pair *p, double log_target) {
  return log_target != 0 ? -exp(p->target) : -p->target;
}

#define PAIR_KERNEL(name, run, fn, option)                                                         \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return run(args, attrs->reduction, fn, option);                                                \
  }

PAIR_KERNEL(mse_loss, pair_forward, mse, 0)
PAIR_KERNEL(mse_loss_grad, pair_backward, mse_slope, 0)
PAIR_KERNEL(bce_with_logits, pair_forward, bce, 0)
PAIR_KERNEL(bce_with_logits_grad, pair_backward, bce_slope, 0)
PAIR_KERNEL(huber_loss, pair_forward, huber, attrs->delta)
PAIR_KERNEL(huber_loss_grad, pair_backward, huber_slope, attrs->delta)
PAIR_KERNEL(kl_div, pair_forward, kl, attrs->log_target)
PAIR_KERNEL(kl_div_grad, pair_backward, kl_slope, attrs->log_target)
