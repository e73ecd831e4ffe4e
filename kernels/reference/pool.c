/*
 * Pooling, one image plane at a time on dense doubles. The border takes no part: a
 * window is cut to the plane.
 */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

/* The three planes of a pooling operator; index holds numbers of image elements. */
enum { IMAGE, POOLED, INDEX, PLANES };

typedef struct pool_call pool_call;
typedef void (*plane_fn)(const pool_call *c, double *const *planes);

struct pool_call {
  const tn_host *host;
  int64_t kernel[2], stride[2], padding[2];
  bool count_padding;
  const DLTensor *tensor[PLANES]; /* NULL: the operator has none, or nobody wants it */
  unsigned loaded, stored;        /* bits of planes */
  view views[PLANES];
  plane_fn fn;
};

/* A window's part inside the image. */
typedef struct patch {
  int64_t top, bottom, left, right; /* rows top <= r < bottom, and so on */
} patch;

static int64_t at_least(int64_t x, int64_t bound) { return x < bound ? bound : x; }
static int64_t at_most(int64_t x, int64_t bound) { return x > bound ? bound : x; }

static patch patch_at(const pool_call *c, int64_t window) {
  int64_t columns = c->views[POOLED].shape[3];
  int64_t top = window / columns * c->stride[0] - c->padding[0];
  int64_t left = window % columns * c->stride[1] - c->padding[1];
  return (patch){at_least(top, 0), at_most(top + c->kernel[0], c->views[IMAGE].shape[2]),
                 at_least(left, 0), at_most(left + c->kernel[1], c->views[IMAGE].shape[3])};
}

static int64_t plane_size(const view *v) { return v->shape[2] * v->shape[3]; }

static view plane_of(view v, int64_t plane) {
  int64_t channels = v.shape[1];
  return view_slice(view_slice(v, 0, plane / channels, 1), 1, plane % channels, 1);
}

static void max_plane(const pool_call *c, double *const *planes) {
  const double *image = planes[IMAGE];
  int64_t width = c->views[IMAGE].shape[3], windows = plane_size(&c->views[POOLED]);
  for (int64_t o = 0; o < windows; ++o) {
    patch p = patch_at(c, o);
    double most = -INFINITY;
    int64_t first = p.top * width + p.left;
    for (int64_t row = p.top; row < p.bottom; ++row) {
      for (int64_t i = row * width + p.left; i < row * width + p.right; ++i) {
        if (most != most || !(image[i] > most || image[i] != image[i])) continue;
        most = image[i];
        first = i;
      }
    }
    planes[POOLED][o] = most;
    planes[INDEX][o] = (double)first;
  }
}

/* An index that max_pool2d cannot have given is passed over. */
static void max_grad_plane(const pool_call *c, double *const *planes) {
  int64_t size = plane_size(&c->views[IMAGE]), windows = plane_size(&c->views[POOLED]);
  for (int64_t i = 0; i < size; ++i) planes[IMAGE][i] = 0;
  for (int64_t o = 0; o < windows; ++o) {
    int64_t i = (int64_t)planes[INDEX][o];
    if (i >= 0 && i < size) planes[IMAGE][i] += planes[POOLED][o];
  }
}

static double patch_count(const pool_call *c, const patch *p) {
  if (c->count_padding) return (double)(c->kernel[0] * c->kernel[1]);
  return (double)((p->bottom - p->top) * (p->right - p->left));
}

static void avg_plane(const pool_call *c, double *const *planes) {
  int64_t width = c->views[IMAGE].shape[3], windows = plane_size(&c->views[POOLED]);
  for (int64_t o = 0; o < windows; ++o) {
    patch p = patch_at(c, o);
    double sum = 0;
    for (int64_t row = p.top; row < p.bottom; ++row)
      for (int64_t column = p.left; column < p.right; ++column)
        sum += planes[IMAGE][row * width + column];
    planes[POOLED][o] = sum / patch_count(c, &p);
  }
}

static void avg_grad_plane(const pool_call *c, double *const *planes) {
  int64_t width = c->views[IMAGE].shape[3], windows = plane_size(&c->views[POOLED]);
  for (int64_t i = 0; i < plane_size(&c->views[IMAGE]); ++i) planes[IMAGE][i] = 0;
  for (int64_t o = 0; o < windows; ++o) {
    patch p = patch_at(c, o);
    double share = planes[POOLED][o] / patch_count(c, &p);
    for (int64_t row = p.top; row < p.bottom; ++row)
      for (int64_t column = p.left; column < p.right; ++column)
        planes[IMAGE][row * width + column] += share;
  }
}

static tn_status pool_range(void *ctx, int64_t begin, int64_t end) {
  const pool_call *c = ctx;
  int64_t image = plane_size(&c->views[IMAGE]), pooled = plane_size(&c->views[POOLED]);
  double *room = scratch_alloc(c->host, image + 2 * pooled);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  double *planes[PLANES] = {room, room + image, room + image + pooled};
  for (int64_t plane = begin; plane < end; ++plane) {
    for (int v = 0; v < PLANES; ++v)
      if (c->loaded >> v & 1) gather(plane_of(c->views[v], plane), planes[v]);
    c->fn(c, planes);
    for (int v = 0; v < PLANES; ++v)
      if (c->stored >> v & 1) scatter(plane_of(c->views[v], plane), planes[v]);
  }
  c->host->free(c->host, room);
  return TN_OK;
}

/* A stride of 0 stands for the kernel. */
static void set_window(pool_call *c, const int64_t *kernel, const int64_t *stride,
                       const int64_t *padding) {
  for (int axis = 0; axis < 2; ++axis) {
    c->kernel[axis] = kernel[axis];
    c->stride[axis] = stride[axis] ? stride[axis] : kernel[axis];
    c->padding[axis] = padding[axis];
  }
}

static tn_status pool(pool_call *c, const tn_kernel_args *args) {
  c->host = args->host;
  for (int v = 0; v < PLANES; ++v)
    if (c->tensor[v]) c->views[v] = view_of(c->tensor[v]);
  int64_t planes = c->views[IMAGE].shape[0] * c->views[IMAGE].shape[1];
  if (planes == 0) return TN_OK;
  return c->host->parallel_for(c->host, planes, 1, pool_range, c);
}

tn_status reference_max_pool2d(const tn_kernel_args *args) {
  const tn_max_pool2d_attrs *attrs = args->attrs;
  pool_call c = {.tensor = {args->in[0], args->out[0], args->out[1]}, .fn = max_plane};
  c.loaded = 1u << IMAGE;
  c.stored = 1u << POOLED | (args->out[1] ? 1u << INDEX : 0);
  set_window(&c, attrs->kernel, attrs->stride, attrs->padding);
  return pool(&c, args);
}

tn_status reference_max_pool2d_grad(const tn_kernel_args *args) {
  const tn_max_pool2d_grad_attrs *attrs = args->attrs;
  pool_call c = {.tensor = {args->out[0], args->in[0], args->in[1]}, .fn = max_grad_plane};
  c.loaded = 1u << POOLED | 1u << INDEX;
  c.stored = 1u << IMAGE;
  set_window(&c, attrs->kernel, attrs->stride, attrs->padding);
  return pool(&c, args);
}

tn_status reference_avg_pool2d(const tn_kernel_args *args) {
  const tn_avg_pool2d_attrs *attrs = args->attrs;
  pool_call c = {.tensor = {args->in[0], args->out[0], NULL}, .fn = avg_plane};
  c.loaded = 1u << IMAGE;
  c.stored = 1u << POOLED;
  c.count_padding = attrs->count_padding;
  set_window(&c, attrs->kernel, attrs->stride, attrs->padding);
  return pool(&c, args);
}

tn_status reference_avg_pool2d_grad(const tn_kernel_args *args) {
  const tn_avg_pool2d_grad_attrs *attrs = args->attrs;
  pool_call c = {.tensor = {args->out[0], args->in[0], NULL}, .fn = avg_grad_plane};
  c.loaded = 1u << POOLED;
  c.stored = 1u << IMAGE;
  c.count_padding = attrs->count_padding;
  set_window(&c, attrs->kernel, attrs->stride, attrs->padding);
  return pool(&c, args);
}
