/*
 * Pooling over one to three spatial axes, one plane at a time on dense doubles. The
 * border takes no part: a window is cut to the plane.
 */
#include <math.h>

#include "iterate.h"
#include "kernels.h"
#include "kernels/common/window.h"

/* The three planes of a pooling operator; index holds numbers of image elements. */
enum { IMAGE, POOLED, INDEX, PLANES };

typedef struct pool_call pool_call;
typedef void (*plane_fn)(const pool_call *c, double *const *planes);

struct pool_call {
  const tn_host *host;
  bool adaptive;
  window_pool window;             /* unless adaptive */
  const DLTensor *tensor[PLANES]; /* NULL: the operator has none, or nobody wants it */
  unsigned loaded, stored;        /* bits of planes */
  view views[PLANES];
  int64_t size[3], out[3]; /* of the image and the pooled plane */
  plane_fn fn;
};

/* A window's part inside the image, begin <= i < end along each axis, and how many
 * elements an average divides by. */
typedef struct patch {
  int64_t begin[3], end[3], count;
} patch;

static int64_t at_least(int64_t x, int64_t bound) { return x < bound ? bound : x; }
static int64_t at_most(int64_t x, int64_t bound) { return x > bound ? bound : x; }

/* Window o of one axis; returns the elements counted. */
static int64_t span_at(const pool_call *c, int axis, int64_t o, int64_t *begin, int64_t *end) {
  int64_t size = c->size[axis], out = c->out[axis];
  if (c->adaptive) {
    *begin = o * size / out;
    *end = ((o + 1) * size + out - 1) / out;
    return *end - *begin;
  }
  int64_t first = o * c->window.stride[axis] - c->window.padding[axis];
  int64_t last = at_most(first + c->window.kernel[axis], size + c->window.padding[axis]);
  *begin = at_least(first, 0);
  *end = at_most(last, size);
  return c->window.count_padding ? last - first : *end - *begin;
}

static patch patch_at(const pool_call *c, int64_t window) {
  patch p = {.count = 1};
  for (int axis = 2; axis >= 0; --axis) {
    p.count *= span_at(c, axis, window % c->out[axis], &p.begin[axis], &p.end[axis]);
    window /= c->out[axis];
  }
  return p;
}

/* Row-major number of an element. */
static int64_t place(const pool_call *c, const int64_t at[3]) {
  return (at[0] * c->size[1] + at[1]) * c->size[2] + at[2];
}

/* Goes on to the next element of the patch; false after the last. */
static bool patch_next(const patch *p, int64_t at[3]) {
  for (int axis = 2; axis >= 0; --axis) {
    if (++at[axis] < p->end[axis]) return true;
    at[axis] = p->begin[axis];
  }
  return false;
}

#define EACH_IN_PATCH(p, at)                                                                       \
  for (int64_t at[3] = {p.begin[0], p.begin[1], p.begin[2]}, more = 1; more;                       \
       more = patch_next(&p, at))

static int64_t plane_size(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

static void max_plane(const pool_call *c, double *const *planes) {
  const double *image = planes[IMAGE];
  for (int64_t o = 0; o < plane_size(c->out); ++o) {
    patch p = patch_at(c, o);
    int64_t first = place(c, p.begin);
    double most = -INFINITY;
    EACH_IN_PATCH(p, at) {
      int64_t i = place(c, at);
      if (most != most || !(image[i] > most || image[i] != image[i])) continue;
      most = image[i];
      first = i;
    }
    planes[POOLED][o] = most;
    planes[INDEX][o] = (double)first;
  }
}

/* An index that the forward operator cannot have given is passed over. */
static void max_grad_plane(const pool_call *c, double *const *planes) {
  int64_t size = plane_size(c->size);
  for (int64_t i = 0; i < size; ++i) planes[IMAGE][i] = 0;
  for (int64_t o = 0; o < plane_size(c->out); ++o) {
    int64_t i = (int64_t)planes[INDEX][o];
    if (i >= 0 && i < size) planes[IMAGE][i] += planes[POOLED][o];
  }
}

static void avg_plane(const pool_call *c, double *const *planes) {
  for (int64_t o = 0; o < plane_size(c->out); ++o) {
    patch p = patch_at(c, o);
    double sum = 0;
    EACH_IN_PATCH(p, at) sum += planes[IMAGE][place(c, at)];
    planes[POOLED][o] = sum / (double)p.count;
  }
}

static void avg_grad_plane(const pool_call *c, double *const *planes) {
  for (int64_t i = 0; i < plane_size(c->size); ++i) planes[IMAGE][i] = 0;
  for (int64_t o = 0; o < plane_size(c->out); ++o) {
    patch p = patch_at(c, o);
    double share = planes[POOLED][o] / (double)p.count;
    EACH_IN_PATCH(p, at) planes[IMAGE][place(c, at)] += share;
  }
}

static view plane_of(view v, int64_t plane) {
  int64_t channels = v.shape[1];
  return view_slice(view_slice(v, 0, plane / channels, 1), 1, plane % channels, 1);
}

static tn_status pool_range(void *ctx, int64_t begin, int64_t end) {
  const pool_call *c = ctx;
  int64_t image = plane_size(c->size), pooled = plane_size(c->out);
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

static tn_status pool(pool_call *c, const tn_kernel_args *args, bool adaptive) {
  c->host = args->host;
  c->adaptive = adaptive;
  for (int v = 0; v < PLANES; ++v)
    if (c->tensor[v]) c->views[v] = view_of(c->tensor[v]);
  for (int d = 0; d < 3; ++d) {
    c->size[d] = window_shape_of(c->tensor[IMAGE]).size[2 + d];
    c->out[d] = window_shape_of(c->tensor[POOLED]).size[2 + d];
  }
  if (!adaptive)
    c->window = window_pool_of(args->attrs, window_axes(c->tensor[IMAGE]),
                               c->fn == avg_plane || c->fn == avg_grad_plane);
  int64_t planes = c->views[IMAGE].shape[0] * c->views[IMAGE].shape[1];
  if (planes == 0) return TN_OK;
  return c->host->parallel_for(c->host, planes, 1, pool_range, c);
}

static tn_status max_pool(const tn_kernel_args *args, bool adaptive) {
  pool_call c = {.tensor = {args->in[0], args->out[0], args->out[1]}, .fn = max_plane};
  c.loaded = 1u << IMAGE;
  c.stored = 1u << POOLED | (args->out[1] ? 1u << INDEX : 0);
  return pool(&c, args, adaptive);
}

static tn_status max_pool_grad(const tn_kernel_args *args, bool adaptive) {
  pool_call c = {.tensor = {args->out[0], args->in[0], args->in[1]}, .fn = max_grad_plane};
  c.loaded = 1u << POOLED | 1u << INDEX;
  c.stored = 1u << IMAGE;
  return pool(&c, args, adaptive);
}

static tn_status avg_pool(const tn_kernel_args *args, bool adaptive) {
  pool_call c = {.tensor = {args->in[0], args->out[0], NULL}, .fn = avg_plane};
  c.loaded = 1u << IMAGE;
  c.stored = 1u << POOLED;
  return pool(&c, args, adaptive);
}

static tn_status avg_pool_grad(const tn_kernel_args *args, bool adaptive) {
  pool_call c = {.tensor = {args->out[0], args->in[0], NULL}, .fn = avg_grad_plane};
  c.loaded = 1u << POOLED;
  c.stored = 1u << IMAGE;
  return pool(&c, args, adaptive);
}

#define POOL_KERNEL(name, fn)                                                                      \
  tn_status reference_##name(const tn_kernel_args *args) { return fn(args, false); }               \
  tn_status reference_adaptive_##name(const tn_kernel_args *args) { return fn(args, true); }
#define POOL(rank)                                                                                 \
  POOL_KERNEL(max_pool##rank, max_pool)                                                            \
  POOL_KERNEL(max_pool##rank##_grad, max_pool_grad)                                                \
  POOL_KERNEL(avg_pool##rank, avg_pool)                                                            \
  POOL_KERNEL(avg_pool##rank##_grad, avg_pool_grad)
POOL(1d)
POOL(2d)
POOL(3d)
