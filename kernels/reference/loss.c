/*
 * Losses over classes. Each target names one element of a slice of x along axis 1. A
 * target outside the classes makes its loss NaN and its gradient 0; one that equals
 * ignore_index has loss and gradient 0 and is not counted.
 */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

/* The loss of one target, or its gradient by the slice of x (with dy = 1). */
typedef double (*loss_fn)(int64_t classes, const double *x, int64_t target, double smoothing);
typedef void (*loss_grad_fn)(int64_t classes, const double *x, int64_t target, double smoothing,
                             double *dx);

enum { X, TARGET, DY, DX, LOSS_VIEWS };

typedef struct loss_call {
  const tn_host *host;
  view views[LOSS_VIEWS];           /* one element per target; X and DX without axis 1 */
  int64_t classes, x_step, dx_step; /* along axis 1 */
  int64_t count;                    /* of targets */
  int64_t ignored;                  /* the target that does not count */
  double smoothing;
  double scale;   /* of gradients */
  double *losses; /* one per target */
  loss_fn loss;
  loss_grad_fn grad;
} loss_call;

static loss_call loss_call_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *target,
                              int64_t ignored, double smoothing) {
  loss_call c = {.host = args->host, .ignored = ignored, .smoothing = smoothing};
  view all = view_of(x);
  c.classes = all.shape[1];
  c.x_step = all.stride[1];
  c.views[X] = view_drop(all, 1);
  c.views[TARGET] = view_of(target);
  c.count = view_count(&c.views[TARGET]);
  return c;
}

static bool loss_ignores(const loss_call *c, int64_t target) {
  return target == c->ignored && target != INT64_MIN;
}

/* The targets that are not ignored. */
static double loss_counted(const loss_call *c) {
  int64_t counted = 0, target;
  walk w = walk_over(&c->views[TARGET], 1, 0, c->count);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      load_i64(c->views[TARGET].dtype, walk_at(&w, 0, i), 1, 1, &target);
      counted += !loss_ignores(c, target);
    }
  }
  return (double)counted;
}

static tn_status loss_range(void *ctx, int64_t begin, int64_t end) {
  const loss_call *c = ctx;
  double *x = scratch_alloc(c->host, c->classes);
  if (!x) return TN_ERR_OUT_OF_MEMORY;
  walk w = walk_over(c->views, 2, begin, end);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t target;
      load_i64(c->views[TARGET].dtype, walk_at(&w, TARGET, i), 1, 1, &target);
      load_f64(c->views[X].dtype, walk_at(&w, X, i), c->x_step, c->classes, x);
      bool valid = target >= 0 && target < c->classes;
      double *loss = &c->losses[w.first + i];
      *loss = valid ? c->loss(c->classes, x, target, c->smoothing) : NAN;
      if (loss_ignores(c, target)) *loss = 0;
    }
  }
  c->host->free(c->host, x);
  return TN_OK;
}

static int64_t loss_grain(const loss_call *c) { return 1 + 4096 / (c->classes + 1); }

/* Writes the losses, or their sum or mean in the targets' order. */
static void store_losses(const loss_call *c, view y, tn_reduction reduction) {
  double total = 0;
  if (reduction == TN_REDUCTION_NONE) {
    scatter(y, c->losses);
    return;
  }
  for (int64_t i = 0; i < c->count; ++i) total += c->losses[i];
  if (reduction == TN_REDUCTION_MEAN) total /= loss_counted(c);
  store_f64(y.dtype, y.data, 1, 1, &total);
}

static tn_status loss_forward(const tn_kernel_args *args, int64_t reduction, int64_t ignored,
                              double smoothing, loss_fn fn) {
  loss_call c = loss_call_of(args, args->in[0], args->in[1], ignored, smoothing);
  tn_status status = TN_OK;
  c.loss = fn;
  c.losses = scratch_alloc(c.host, c.count);
  if (!c.losses) return TN_ERR_OUT_OF_MEMORY;
  if (c.count) status = c.host->parallel_for(c.host, c.count, loss_grain(&c), loss_range, &c);
  if (status == TN_OK) store_losses(&c, view_of(args->out[0]), (tn_reduction)reduction);
  c.host->free(c.host, c.losses);
  return status;
}

/* The gradient of one target's slice, in dx. */
static void slice_grad(const loss_call *c, const walk *w, int64_t i, double *x, double *dx) {
  int64_t target;
  double dy;
  load_i64(c->views[TARGET].dtype, walk_at(w, TARGET, i), 1, 1, &target);
  load_f64(c->views[DY].dtype, walk_at(w, DY, i), 1, 1, &dy);
  load_f64(c->views[X].dtype, walk_at(w, X, i), c->x_step, c->classes, x);
  if (target < 0 || target >= c->classes || loss_ignores(c, target)) {
    for (int64_t k = 0; k < c->classes; ++k) dx[k] = 0;
    return;
  }
  c->grad(c->classes, x, target, c->smoothing, dx);
  for (int64_t k = 0; k < c->classes; ++k)
    if (dx[k] != 0) dx[k] *= dy * c->scale;
}

static tn_status loss_grad_range(void *ctx, int64_t begin, int64_t end) {
  const loss_call *c = ctx;
  double *x = scratch_alloc(c->host, 2 * c->classes);
  if (!x) return TN_ERR_OUT_OF_MEMORY;
  double *dx = x + c->classes;
  walk w = walk_over(c->views, LOSS_VIEWS, begin, end);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      slice_grad(c, &w, i, x, dx);
      store_f64(c->views[DX].dtype, walk_at(&w, DX, i), c->dx_step, c->classes, dx);
    }
  }
  c->host->free(c->host, x);
  return TN_OK;
}

static tn_status loss_backward(const tn_kernel_args *args, int64_t reduction, int64_t ignored,
                               double smoothing, loss_grad_fn fn) {
  loss_call c = loss_call_of(args, args->in[1], args->in[2], ignored, smoothing);
  view dx = view_of(args->out[0]), dy = view_of(args->in[0]);
  c.grad = fn;
  c.dx_step = dx.stride[1];
  c.views[DX] = view_drop(dx, 1);
  c.views[DY] = view_broadcast(dy, c.views[TARGET].ndim, c.views[TARGET].shape);
  c.scale = reduction == TN_REDUCTION_MEAN ? 1 / loss_counted(&c) : 1;
  if (c.count == 0) return TN_OK;
  return c.host->parallel_for(c.host, c.count, loss_grain(&c), loss_grad_range, &c);
}

static double nll(int64_t classes, const double *x, int64_t target, double smoothing) {
  (void)classes, (void)smoothing;
  return -x[target];
}

static void nll_grad(int64_t classes, const double *x, int64_t target, double smoothing,
                     double *dx) {
  (void)x, (void)smoothing;
  for (int64_t k = 0; k < classes; ++k) dx[k] = k == target ? -1 : 0;
}

static double maximum_of(int64_t n, const double *x) {
  double most = -INFINITY;
  for (int64_t k = 0; k < n; ++k)
    if (x[k] > most) most = x[k];
  return most;
}

static double cross_entropy(int64_t classes, const double *x, int64_t target, double smoothing) {
  double most = maximum_of(classes, x), sum = 0, all = 0;
  for (int64_t k = 0; k < classes; ++k) {
    sum += exp(x[k] - most);
    all += x[k] - most;
  }
  double wanted = x[target] - most;
  if (smoothing > 0) wanted = (1 - smoothing) * wanted + smoothing / (double)classes * all;
  return log(sum) - wanted;
}

static void cross_entropy_grad(int64_t classes, const double *x, int64_t target, double smoothing,
                               double *dx) {
  double most = maximum_of(classes, x), sum = 0, share = smoothing / (double)classes;
  for (int64_t k = 0; k < classes; ++k) sum += dx[k] = exp(x[k] - most);
  for (int64_t k = 0; k < classes; ++k)
    dx[k] = dx[k] / sum - (k == target ? 1 - smoothing : 0) - share;
}

#define LOSS_KERNEL(name, run, fn, smoothing)                                                      \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return run(args, attrs->reduction, attrs->ignore_index, smoothing, fn);                        \
  }

LOSS_KERNEL(nll_loss, loss_forward, nll, 0)
LOSS_KERNEL(nll_loss_grad, loss_backward, nll_grad, 0)
LOSS_KERNEL(cross_entropy, loss_forward, cross_entropy, attrs->label_smoothing)
LOSS_KERNEL(cross_entropy_grad, loss_backward, cross_entropy_grad, attrs->label_smoothing)
