/*
 * Pooling over one to three spatial axes and its gradients, plane by plane, and of images with
 * channels last, row of windows by row of windows. A window reads
 * only what lies inside the image, so padding never wins. Where windows lie along an axis
 * is worked out once per call.
 */
#include <math.h>
#include <string.h>

#include "kernels/common/window.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

/* The part of a window that lies inside the image, begin <= i < end along one axis, and
 * how many elements an average counts there. */
typedef struct pool_span {
  int64_t begin, end, count;
} pool_span;

typedef struct pool_call {
  const void *x;        /* or dy */
  const int32_t *index; /* of the gradient of a maximum */
  void *y;              /* or dx */
  int32_t *index_out;   /* may be NULL */
  int64_t size[3], out[3];
  int64_t plane, windows; /* their products */
  int64_t channels;       /* of images with channels last */
  bool is_2x2;            /* windows of 2 x 2 side by side, without border or rest */
  const pool_span *span[3];
  const tn_host *host;
  int64_t stride, kernel, padding; /* along the last axis; stride is 0 where windows' sizes vary */
} pool_call;

static pool_span pool_window(const window_pool *w, int axis, int64_t o, int64_t size) {
  const int64_t begin = o * w->stride[axis] - w->padding[axis];
  const int64_t end = cpu_min(begin + w->kernel[axis], size + w->padding[axis]);
  pool_span s = {cpu_max(begin, 0), cpu_min(end, size), end - begin};
  if (!w->count_padding) s.count = s.end - s.begin;
  return s;
}

static pool_span pool_share(int64_t o, int64_t size, int64_t out) {
  const int64_t begin = o * size / out, end = cpu_ceil_div((o + 1) * size, out);
  return (pool_span){begin, end, end - begin};
}

/* window: NULL in adaptive pooling. */
static void pool_spans(pool_call *call, const window_pool *window, pool_span *spans) {
  for (int d = 0; d < 3; d++) {
    call->span[d] = spans;
    for (int64_t o = 0; o < call->out[d]; o++)
      *spans++ = window ? pool_window(window, d, o, call->size[d])
                        : pool_share(o, call->size[d], call->out[d]);
  }
}

static bool pool_is_2x2(const pool_call *call) {
  for (int d = 0; d < 3; d++) {
    const int64_t side = d == 0 ? 1 : 2;
    for (int64_t o = 0; o < call->out[d]; o++)
      if (call->span[d][o].begin != side * o || call->span[d][o].end != side * (o + 1))
        return false;
  }
  return true;
}

/* What an operator is: its tensors by their forward names, and its loop over planes. */
typedef struct pool_kind {
  const DLTensor *image, *pooled;
  bool adaptive, average, last;
  tn_range_fn fn; /* over planes; with channels last over rows of windows */
} pool_kind;

static tn_status pool_run(const tn_kernel_args *args, pool_call *call, const pool_kind *kind) {
  const window_shape image = window_shape_of(kind->image), pooled = window_shape_of(kind->pooled);
  const tn_host *host = args->host;
  const int64_t planes = image.size[0] * image.size[1];
  window_pool window;
  call->host = host;
  call->y = args->out[0]->data;
  call->plane = call->windows = 1;
  for (int d = 0; d < 3; d++) {
    call->plane *= call->size[d] = image.size[2 + d];
    call->windows *= call->out[d] = pooled.size[2 + d];
  }
  if (planes * call->plane == 0) return TN_OK;
  if (!kind->adaptive) {
    window = window_pool_of(args->attrs, window_axes(kind->image), kind->average);
    call->stride = window.stride[2], call->kernel = window.kernel[2];
    call->padding = window.padding[2];
  } else if (call->out[2] && call->size[2] % call->out[2] == 0) {
    call->stride = call->kernel = call->size[2] / call->out[2];
  }
  const int64_t count = call->out[0] + call->out[1] + call->out[2];
  pool_span *spans = host->alloc(host, (size_t)count * sizeof *spans, 64);
  if (spans == NULL) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for pooling windows");
  pool_spans(call, kind->adaptive ? NULL : &window, spans);
  call->is_2x2 = pool_is_2x2(call);
  int64_t reads = call->windows, work = call->plane, units = planes;
  for (int d = 0; d < 3; d++) reads *= cpu_max(1, spans->end - spans->begin);
  work += reads;
  if (kind->last) {
    call->channels = image.size[1];
    units = image.size[0] * call->out[1];
    work = work * call->channels / cpu_max(1, call->out[1]);
  }
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / cpu_max(1, work));
  tn_status status = units <= grain ? kind->fn(call, 0, units)
                                    : host->parallel_for(host, units, grain, kind->fn, call);
  host->free(host, spans);
  return status;
}

/* The three spans of a window. */
typedef struct pool_box {
  pool_span z, r, c;
} pool_box;

static inline pool_box pool_box_at(const pool_call *call, int64_t z, int64_t i, int64_t j) {
  return (pool_box){call->span[0][z], call->span[1][i], call->span[2][j]};
}

static inline int64_t pool_count(const pool_box *box) {
  return box->z.count * box->r.count * box->c.count;
}

/* -------------------------------------------------- many windows at once --- */

enum {
  POOL_COUNTED = 1 << 24, /* elements of a plane whose windows' counts are 32 bits */
  POOL_AT_ONCE = 256,     /* windows, or more where a row has them */
  POOL_NARROW = 16,       /* columns from which on rows go side by side */
  POOL_PLANE = 1 << 16,   /* elements of a plane whose windows are tables */
};

/* Some rows of windows at work: what their columns come to, the maxima with where those stand, row
 * by row, and which columns each window has. */
typedef struct pool_rows {
  void *line, *best;     /* [rows, width of the image], [rows, windows of a row] numbers */
  int32_t *at;           /* as line */
  int32_t *first, *last; /* as best: columns, by their place in line */
  int32_t *count;        /* as best: what an average is of */
  int64_t rows;
  int32_t longest; /* columns that a window has */
} pool_rows;

static bool pool_make(const pool_call *call, size_t bytes, void **room) {
  *room = call->host->alloc(call->host, bytes, 64);
  if (!*room) call->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to pool in");
  return *room;
}

/* Numbers are of `size` bytes. False, with a message, without memory; the caller frees m->line. */
static bool pool_rows_make(const pool_call *call, size_t size, pool_rows *m) {
  const int64_t width = call->out[2];
  m->rows = cpu_min(call->out[0] * call->out[1], cpu_max(1, POOL_AT_ONCE / cpu_max(1, width)));
  const size_t columns = (size_t)(m->rows * call->size[2]), windows = (size_t)(m->rows * width);
  const size_t numbers = (columns + windows) * size;
  if (!pool_make(call, numbers + (columns + 3 * windows) * sizeof(int32_t), &m->line)) return false;
  m->best = (char *)m->line + columns * size;
  m->at = (int32_t *)(void *)((char *)m->line + numbers);
  m->first = m->at + columns;
  m->last = m->first + windows;
  m->count = m->last + windows;
  for (int64_t j = 0; j < width; j++) {
    const pool_span s = call->span[2][j];
    m->longest = (int32_t)cpu_max(m->longest, s.end - s.begin);
    for (int64_t i = 0; i < m->rows; i++) {
      m->first[i * width + j] = (int32_t)(i * call->size[2] + s.begin);
      m->last[i * width + j] = (int32_t)(i * call->size[2] + s.end - 1);
    }
  }
  return true;
}

/* Whether columns are summed first: rows that are vectors, and windows that are short in them. */
static bool avg_is_wide(const pool_call *call) {
  int64_t longest = 0;
  for (int64_t j = 0; j < call->out[2]; j++)
    longest = cpu_max(longest, call->span[2][j].end - call->span[2][j].begin);
  return call->size[2] >= POOL_NARROW && longest <= POOL_NARROW && call->plane <= POOL_COUNTED;
}

/* A row of windows at work that follow each other by a stride: the sums of its columns between
 * borders of zeros, as far as windows reach, and what averages are of. Both are numbers. */
typedef struct avg_slide {
  void *line, *divisor;
  int64_t length, filled; /* of the line; columns of the image in it */
  int64_t rows;           /* elements of a window in a column that the divisors are for; 0: none */
} avg_slide;

/* Whether windows go by a stride, are short in their rows, and more than a few. */
static bool avg_slides(const pool_call *call) {
  return call->stride && call->out[2] > 2 && call->kernel <= POOL_NARROW;
}

/* As pool_rows_make. */
static bool avg_slide_make(const pool_call *call, size_t size, avg_slide *m) {
  m->length = (call->out[2] - 1) * call->stride + call->kernel;
  m->filled = cpu_max(0, cpu_min(call->size[2], m->length - call->padding));
  if (!pool_make(call, (size_t)(m->length + call->out[2]) * size, &m->line)) return false;
  m->divisor = (char *)m->line + (size_t)m->length * size;
  memset(m->line, 0, (size_t)m->length * size);
  return true;
}

/* Some rows of windows at work on the gradient of an average: what each window gives its elements,
 * what that comes to in each column, row by row, and which windows a column has. */
typedef struct avg_rows {
  void *line, *share,
      *count;            /* [rows, width of the image], [rows, windows of a row] twice: numbers */
  void *plane;           /* numbers, one for each element of planes of halves */
  int32_t *first, *last; /* as line: windows, by their place in share, which ends with a 0 */
  int64_t rows, counted; /* counted: the first of the rows that the counts are of, or -1 */
  int32_t longest;       /* windows that a column has */
} avg_rows;

/* Numbers are of `size` bytes. False, with a message, without memory; the caller frees m->line. */
static bool avg_rows_make(const pool_call *call, size_t size, bool halves, avg_rows *m) {
  const int64_t width = call->out[2], w = call->size[2];
  m->rows = cpu_min(call->out[0] * call->out[1], cpu_max(1, POOL_AT_ONCE / cpu_max(1, width)));
  m->counted = -1;
  const size_t columns = (size_t)(m->rows * w), windows = (size_t)(m->rows * width);
  const size_t plane = halves ? (size_t)call->plane : 0;
  const size_t numbers = (columns + 2 * windows + 1 + plane) * size;
  if (!pool_make(call, numbers + 2 * columns * sizeof(int32_t), &m->line)) return false;
  m->share = (char *)m->line + columns * size;
  m->count = (char *)m->share + (windows + 1) * size;
  m->plane = (char *)m->count + windows * size;
  m->first = (int32_t *)(void *)((char *)m->line + numbers);
  m->last = m->first + columns;
  int64_t from = 0, to = 0; /* the windows from <= j < to have column c */
  for (int64_t c = 0; c < w; c++) {
    while (to < width && call->span[2][to].begin <= c) to++;
    while (from < to && call->span[2][from].end <= c) from++;
    m->longest = (int32_t)cpu_max(m->longest, to - from);
    for (int64_t i = 0; i < m->rows; i++) {
      m->first[i * w + c] = (int32_t)(from < to ? i * width + from : (int64_t)windows);
      m->last[i * w + c] = (int32_t)(from < to ? i * width + to - 1 : (int64_t)windows);
    }
  }
  return true;
}

/* Whether columns are summed first: there are few windows to a column. */
static bool avg_grad_is_wide(const pool_call *call) {
  int64_t longest = 0;
  for (int64_t j = 0, from = 0; j < call->out[2]; j++) {
    while (from < j && call->span[2][from].end <= call->span[2][j].begin) from++;
    longest = cpu_max(longest, j - from + 1);
  }
  return longest <= POOL_NARROW && call->plane <= POOL_COUNTED;
}

static bool max_line_make(const pool_call *call, size_t size, pool_rows *m) {
  return pool_make(call, (size_t)call->size[2] * size, &m->line);
}

/* The windows of some small planes at work, each at its k-th element at a time. */
typedef struct max_small {
  void *best;       /* numbers, one for each window */
  void *wide;       /* numbers, one for each element of planes of halves */
  int32_t *first;   /* the element that a window begins with, counted from the first plane */
  int32_t *most[3]; /* along each axis: steps from there to the last */
  int32_t *origin;  /* its plane's first element */
  int64_t planes, longest[3]; /* at once; of any window */
} max_small;

/* Whether a plane is one row and its windows are of those that have loops of their own. */
static bool max_is_row(const pool_call *call) {
  if (call->plane != call->size[2] || call->windows != call->out[2]) return false;
  return call->stride == 2 ? call->kernel == 2 || call->kernel == 3
                           : call->kernel == 3 && (call->stride == 1 || call->stride == 3);
}

/* Rows that are shorter than vectors are picked from instead of going side by side. */
static bool max_is_small(const pool_call *call) {
  return call->size[2] < POOL_NARROW && call->plane <= POOL_PLANE;
}

static void max_small_fill(const pool_call *call, max_small *m) {
  int64_t j = 0;
  for (int64_t p = 0; p < m->planes; p++)
    for (int64_t z = 0; z < call->out[0]; z++)
      for (int64_t r = 0; r < call->out[1]; r++)
        for (int64_t c = 0; c < call->out[2]; c++, j++) {
          const pool_span s[] = {call->span[0][z], call->span[1][r], call->span[2][c]};
          const int64_t row = s[0].begin * call->size[1] + s[1].begin;
          m->origin[j] = (int32_t)(p * call->plane);
          m->first[j] = (int32_t)(p * call->plane + row * call->size[2] + s[2].begin);
          for (int d = 0; d < 3; d++) {
            m->most[d][j] = (int32_t)(s[d].end - s[d].begin - 1);
            m->longest[d] = cpu_max(m->longest[d], s[d].end - s[d].begin);
          }
        }
}

/* As pool_rows_make, with room for planes where they are `halves`; the caller frees m->best. */
static bool max_small_make(const pool_call *call, size_t size, bool halves, max_small *m) {
  m->planes = cpu_min(POOL_PLANE / call->plane, 1 + POOL_AT_ONCE / cpu_max(1, call->windows));
  const size_t n = (size_t)(m->planes * call->windows);
  const size_t wide = halves ? (size_t)(m->planes * call->plane) * size : 0;
  if (!pool_make(call, wide + n * (size + 5 * sizeof(int32_t)), &m->best)) return false;
  m->wide = (char *)m->best + n * size;
  m->first = (int32_t *)(void *)((char *)m->wide + wide);
  for (int d = 0; d < 3; d++) m->most[d] = m->first + (size_t)(1 + d) * n;
  m->origin = m->first + 4 * n;
  max_small_fill(call, m);
  return true;
}

#define BODY "kernels/cpu/window/pool.inc"
#include "kernels/cpu/base/stamp_float.inc"
