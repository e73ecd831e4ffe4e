/*
 * pad, tile, repeat, flip, roll. Each takes the axes one by one: an axis says which index
 * of x an index of y reads, in runs that step forward, stand still or step back. Axes that
 * are taken as they are join, and what lies inside the last axis that is not moves as one
 * block of bytes.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef enum axis_kind {
  AXIS_SAME,
  AXIS_PAD,
  AXIS_TILE,
  AXIS_REPEAT,
  AXIS_FLIP,
  AXIS_ROLL
} axis_kind;

typedef struct axis {
  axis_kind kind;
  int64_t in, out; /* sizes in x and y */
  int64_t by;      /* before of pad, repeats, shift of roll with 0 <= shift < in */
} axis;

typedef struct layout {
  const char *x;
  char *y;
  axis axis[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK]; /* bytes from one index of x to the next */
  int rank;                  /* 0: one block is all */
  int64_t block;             /* bytes inside the last axis */
  int64_t word;              /* the same where a block can be read at once, else 0 */
  int64_t mode;              /* of pad */
  size_t size;               /* of an element */
  uint64_t value;            /* bits of what pad puts there */
} layout;

/* Indexes of x from one index of y on: `from` -1 where nothing is read. */
typedef struct run {
  int64_t length, from, step;
} run;

static run pad_run(const axis *a, int64_t i, int64_t mode) {
  const int64_t at = i - a->by;
  if (at >= 0 && at < a->in) return (run){a->in - at, at, 1};
  const int64_t length = at < 0 ? -at : a->out - i;
  if (mode == TN_PAD_CONSTANT) return (run){length, -1, 0};
  if (mode == TN_PAD_EDGE) return (run){length, at < 0 ? 0 : a->in - 1, 0};
  return (run){length, at < 0 ? -at : 2 * (a->in - 1) - at, -1};
}

static run run_at(const axis *a, int64_t i, int64_t mode) {
  int64_t at;
  switch (a->kind) {
  case AXIS_PAD:
    return pad_run(a, i, mode);
  case AXIS_TILE:
    if (a->in == 1) return (run){a->out - i, 0, 0};
    return (run){a->in - i % a->in, i % a->in, 1};
  case AXIS_REPEAT:
    return (run){a->by - i % a->by, i / a->by, 0};
  case AXIS_FLIP:
    return (run){a->out - i, a->in - 1 - i, -1};
  case AXIS_ROLL:
    at = i < a->by ? i + a->in - a->by : i - a->by;
    return (run){cpu_min(a->in - at, a->out - i), at, 1};
  default:
    return (run){a->out - i, i, 1};
  }
}

/* --- one run --- */

#define RUN_LOOPS(U)                                                                               \
  {                                                                                                \
    const U *x = (const void *)from;                                                               \
    U *y = (void *)to;                                                                             \
    if (step == 0) {                                                                               \
      const U value = *x;                                                                          \
      for (int64_t i = 0; i < n; i++) y[i] = value;                                                \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) y[i] = x[-i];                                                \
    }                                                                                              \
    return;                                                                                        \
  }

/* n blocks, from one and the same or backwards. */
static void copy_blocks(char *to, const char *from, int64_t n, int64_t step, int64_t block,
                        int64_t word) {
  switch (word) {
  case 1:
    RUN_LOOPS(uint8_t)
  case 2:
    RUN_LOOPS(uint16_t)
  case 4:
    RUN_LOOPS(uint32_t)
  case 8:
    RUN_LOOPS(uint64_t)
  default:
    for (int64_t i = 0; i < n; i++) memcpy(to + i * block, from + i * step * block, (size_t)block);
  }
}

#define FILL_LOOP(U)                                                                               \
  for (int64_t i = 0; i < bytes / (int64_t)sizeof(U); i++) ((U *)(void *)y)[i] = (U)l->value;      \
  return;

static void fill(const layout *l, char *y, int64_t bytes) {
  switch (l->size) {
  case 1:
    memset(y, (int)l->value, (size_t)bytes);
    return;
  case 2:
    FILL_LOOP(uint16_t)
  case 4:
    FILL_LOOP(uint32_t)
  default:
    FILL_LOOP(uint64_t)
  }
}

/* n elements, each `by` times; of a constant `by` made vectors of. */
#define REPEAT_WHOLE(U, by)                                                                        \
  for (int64_t i = 0; i < n; i++)                                                                  \
    for (int64_t k = 0; k < (by); k++) to[i * (by) + k] = from[i];

/* Elements begin <= i < end of a row that repeats each of x's, more than once: the rest of the one
 * that a row before began with, whole ones, and the begin of one. */
#define REPEAT_LOOP(U)                                                                             \
  {                                                                                                \
    U *restrict to = (void *)y;                                                                    \
    const U *restrict from = (const U *)(const void *)x + begin / by;                              \
    const int64_t rest = cpu_min((by - begin % by) % by, end - begin);                             \
    const int64_t n = (end - begin - rest) / by;                                                   \
    for (int64_t i = 0; i < rest; i++) to[i] = *from;                                              \
    from += rest > 0, to += rest, begin += rest + n * by;                                          \
    if (by == 2)                                                                                   \
      REPEAT_WHOLE(U, 2)                                                                           \
    else if (by == 3)                                                                              \
      REPEAT_WHOLE(U, 3)                                                                           \
    else if (by == 4)                                                                              \
      REPEAT_WHOLE(U, 4)                                                                           \
    else                                                                                           \
      REPEAT_WHOLE(U, by)                                                                          \
    for (int64_t i = 0; i < end - begin; i++) to[n * by + i] = from[n];                            \
    return true;                                                                                   \
  }

/* False, with nothing done, where a block is no word. */
static bool repeat_row(char *y, const char *x, int64_t by, int64_t begin, int64_t end,
                       int64_t word) {
  switch (word) {
  case 1:
    REPEAT_LOOP(uint8_t)
  case 2:
    REPEAT_LOOP(uint16_t)
  case 4:
    REPEAT_LOOP(uint32_t)
  case 8:
    REPEAT_LOOP(uint64_t)
  default:
    return false;
  }
}

/* Blocks begin <= i < end of one row of y, which reads the row of x at `x`. */
static void copy_row(const layout *l, char *y, const char *x, int64_t begin, int64_t end) {
  const axis *a = &l->axis[l->rank - 1];
  if (a->kind == AXIS_REPEAT && repeat_row(y, x, a->by, begin, end, l->word)) return;
  while (begin < end) {
    const run r = run_at(a, begin, l->mode);
    const int64_t n = cpu_min(r.length, end - begin);
    if (r.from < 0)
      fill(l, y, n * l->block);
    else if (r.step == 1)
      memcpy(y, x + r.from * l->block, (size_t)(n * l->block));
    else
      copy_blocks(y, x + r.from * l->block, n, r.step, l->block, l->word);
    y += n * l->block;
    begin += n;
  }
}

/* Where row `row` of y reads; NULL for nowhere. */
static const char *row_source(const layout *l, int64_t row) {
  const char *x = l->x;
  for (int d = l->rank - 2; d >= 0; d--) {
    const int64_t from = run_at(&l->axis[d], row % l->axis[d].out, l->mode).from;
    if (from < 0) return NULL;
    x += from * l->step[d];
    row /= l->axis[d].out;
  }
  return x;
}

static tn_status copy_range(void *ctx, int64_t begin, int64_t end) {
  const layout *l = ctx;
  const int64_t width = l->axis[l->rank - 1].out;
  while (begin < end) {
    const int64_t at = begin % width, n = cpu_min(width - at, end - begin);
    const char *x = row_source(l, begin / width);
    char *y = l->y + begin * l->block;
    if (x)
      copy_row(l, y, x, at, at + n);
    else
      fill(l, y, n * l->block);
    begin += n;
  }
  return TN_OK;
}

/* --- the axes --- */

/* Appends an axis of y; begins with the outermost. */
static void add_axis(layout *l, axis a) {
  if (a.kind == AXIS_TILE && a.in == a.out) a.kind = AXIS_SAME;
  axis *last = l->rank ? &l->axis[l->rank - 1] : NULL;
  if (last && last->kind == AXIS_SAME && a.kind == AXIS_SAME) {
    last->in *= a.in;
    last->out *= a.out;
  } else {
    l->axis[l->rank++] = a;
  }
}

static tn_status run_layout(const tn_kernel_args *args, layout *l) {
  const int64_t count = cpu_count(args->out[0]);
  if (count == 0) return TN_OK;
  l->x = args->in[0]->data;
  l->y = args->out[0]->data;
  l->size = l->block = args->out[0]->dtype.bits / 8;
  if (l->rank && l->axis[l->rank - 1].kind == AXIS_SAME) l->block *= l->axis[--l->rank].out;
  if (l->rank == 0) l->axis[l->rank++] = (axis){AXIS_SAME, 1, 1, 0};
  l->word = cpu_is_word(l->block, l->x, l->y) ? l->block : 0;
  int64_t step = l->block;
  for (int d = l->rank - 1; d >= 0; d--) {
    l->step[d] = step;
    step *= l->axis[d].in;
  }
  const int64_t blocks = count * (int64_t)l->size / l->block;
  const int64_t grain = cpu_max(1, 4 * CPU_GRAIN_CHEAP / l->block);
  if (blocks <= grain) return copy_range(l, 0, blocks);
  return args->host->parallel_for(args->host, blocks, grain, copy_range, l);
}

tn_status ISA(pad_any)(const tn_kernel_args *args) {
  const tn_pad_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  layout l = {.mode = attrs->mode};
  ISA(value_bits)(y->dtype, attrs->value, &l.value);
  for (int d = 0; d < y->ndim; d++) {
    const axis_kind kind = x->shape[d] == y->shape[d] ? AXIS_SAME : AXIS_PAD;
    const int64_t before = attrs->before.count ? attrs->before.dim[d] : 0;
    add_axis(&l, (axis){kind, x->shape[d], y->shape[d], before});
  }
  return run_layout(args, &l);
}

tn_status ISA(tile_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  const int added = y->ndim - x->ndim;
  layout l = {0};
  for (int d = 0; d < y->ndim; d++)
    add_axis(&l, (axis){AXIS_TILE, d < added ? 1 : x->shape[d - added], y->shape[d], 0});
  return run_layout(args, &l);
}

tn_status ISA(repeat_any)(const tn_kernel_args *args) {
  const tn_repeat_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  const int64_t axis_of = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis;
  layout l = {0};
  for (int d = 0; d < y->ndim; d++) {
    const axis_kind kind = d == axis_of && attrs->repeats != 1 ? AXIS_REPEAT : AXIS_SAME;
    add_axis(&l, (axis){kind, x->shape[d], y->shape[d], attrs->repeats});
  }
  return run_layout(args, &l);
}

tn_status ISA(flip_any)(const tn_kernel_args *args) {
  const tn_axes *axes = &((const tn_flip_attrs *)args->attrs)->axes;
  const DLTensor *x = args->in[0];
  uint32_t marked = axes->count ? 0 : ~0u;
  for (int i = 0; i < axes->count; i++)
    marked |= 1u << (axes->axis[i] < 0 ? axes->axis[i] + x->ndim : axes->axis[i]);
  layout l = {0};
  for (int d = 0; d < x->ndim; d++) {
    const axis_kind kind = marked >> d & 1 && x->shape[d] != 1 ? AXIS_FLIP : AXIS_SAME;
    add_axis(&l, (axis){kind, x->shape[d], x->shape[d], 0});
  }
  return run_layout(args, &l);
}

tn_status ISA(roll_any)(const tn_kernel_args *args) {
  const tn_roll_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0];
  int64_t shift[TN_MAX_RANK] = {0};
  for (int i = 0; i < attrs->shifts.count; i++) {
    const int given = attrs->axes.count ? attrs->axes.axis[i] : i;
    const int d = given < 0 ? given + x->ndim : given;
    const int64_t n = x->shape[d], rest = n ? attrs->shifts.dim[i] % n : 0;
    shift[d] = rest < 0 ? rest + n : rest;
  }
  layout l = {0};
  for (int d = 0; d < x->ndim; d++)
    add_axis(&l, (axis){shift[d] ? AXIS_ROLL : AXIS_SAME, x->shape[d], x->shape[d], shift[d]});
  return run_layout(args, &l);
}
