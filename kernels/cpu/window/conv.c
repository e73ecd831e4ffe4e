/*
 * Convolution, its gradients and transposed convolution over one to three spatial axes as
 * matrix products. A piece of the output image, some rows of one group of one image, is
 * unfolded into a matrix of patches that stays in cache ([c kd kh kw, windows],
 * "im2col"), which one product (gemm.h) multiplies with the weight. How the work is cut depends
 * on the shapes alone, so the bits do not depend on the threads.
 */
#include <stdatomic.h>
#include <string.h>

#include "kernels/common/window.h"
#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/matmul/gemm.h"
#include "kernels/cpu/matmul/tile.h"

/* Bytes of patches at a time: with the weight they should stay in a core's cache. */
#define CONV_PATCH_BYTES (768 * 1024)
/* Fewest windows in a piece that is less than a row: enough for the BLAS. */
#define CONV_LEAST_PIECE 64
/* Weights of a part of the channels that a single window is multiplied with, and such parts:
 * reading them is what that takes. */
#define CONV_PART_WEIGHTS (32 * 1024)
#define CONV_PARTS 16
/* Units of work that are enough for all threads. */
#define CONV_UNITS 8
/* Bytes of weight-gradient accumulators at the most. */
#define CONV_SUM_BYTES (32 * 1024 * 1024)
#define CONV_SUMS 16

/* Rows of x as a direct convolution reads them: padded, and with a stride apart into its phases, so
 * that windows side by side read elements side by side. In elements but for the counts. */
typedef struct conv_lines {
  bool flat;      /* strides of 1: the windows of several rows are one run */
  bool tiled;     /* in tiles of several channels, by weights that lie in panels */
  bool packed;    /* and whose windows are copied side by side; see conv_packed.h */
  int64_t phase;  /* from one phase of a line to the next */
  int64_t line;   /* from one line to the next */
  int64_t rows;   /* of y that are made at a time */
  int64_t lines;  /* of one slice that these read */
  int64_t room;   /* for the lines of all slices and channels */
  int64_t each;   /* from one image to the next, */
  int64_t images; /* which so many are packed of */
  int64_t block;  /* channels of x whose windows are packed at a time */
  int64_t beside; /* windows that are packed at a time */
  int64_t depth;  /* channels of x that tiles are summed over at a time */
  int64_t run;    /* windows side by side, in `runs` runs */
  int64_t runs;
} conv_lines;

typedef struct conv_call {
  const tn_host *host;
  const void *x, *w, *bias, *dy; /* in type T, those that the operator has */
  const void *addend;            /* likewise, of y's shape: what is added before the activation */
  void *y;                       /* what it writes */
  const void *weight;            /* w in type C */
  tn_kept *kept;                 /* NULL unless w never changes: where its panels stay */
  window_conv at;
  int64_t activation;               /* a tn_activation */
  int64_t n, c, k;                  /* c and k of one group */
  int64_t in[3], out[3], kernel[3]; /* depth, height and width of x, y and w */
  int64_t plane, image, window;     /* their products */
  int64_t patch;                    /* c times window */
  int64_t piece, pieces;            /* windows in a piece, pieces in an image */
  int64_t split; /* ways the channels are divided (grad_input), or k (forward, grad_weight) */
  int64_t sums;  /* accumulators of grad_weight */
  void *sum;
  const struct conv_last *last;     /* how grad_weight goes without patches, */
  const struct conv_joined *joined; /* or by windows of one place */
  conv_lines lines;                 /* of a convolution that is summed directly */
  bool turned;                      /* x is dy: w is [c, k], its windows turned round */
  bool infinite;  /* nothing was written: what pads dy would meet infinite weights */
  bool stays;     /* with patches, whatever its extents */
  int64_t parts;  /* of its channels, which are units of their own */
  int64_t points; /* windows of one place in a unit; see conv_point.h */
} conv_call;

/* Pieces of whole rows, equally many in each, or of parts of a row that is too long. */
static void conv_cut(conv_call *call, size_t element) {
  const int64_t row = call->out[2], rows = call->out[0] * call->out[1];
  const int64_t fit = CONV_PATCH_BYTES / cpu_max(1, call->patch * (int64_t)element);
  if (row == 0 || rows == 0) {
    call->piece = call->pieces = 0;
  } else if (fit >= row || row < 2 * CONV_LEAST_PIECE) {
    call->pieces = cpu_ceil_div(rows, cpu_max(1, fit / row));
    call->piece = cpu_ceil_div(rows, call->pieces) * row;
    call->pieces = cpu_ceil_div(call->image, call->piece);
  } else {
    call->piece = cpu_max(CONV_LEAST_PIECE, fit / CONV_LEAST_PIECE * CONV_LEAST_PIECE);
    call->pieces = cpu_ceil_div(call->image, call->piece);
  }
}

/* Parts of the channels of y, where images of one window leave no other way to cut the work. */
static int64_t conv_split(const conv_call *call) {
  if (call->image > 1) return 1;
  const int64_t parts = call->k * call->patch / CONV_PART_WEIGHTS;
  return cpu_max(
      1, cpu_min(cpu_min(parts, call->k), CONV_PARTS / cpu_max(1, call->n * call->at.groups)));
}

/* The last axis is one that windows run along, where there is such an axis: images of a column are
 * seen as images of a row. */
static void conv_turn(conv_call *call) {
  window_conv *at = &call->at;
  for (int turns = 0; turns < 2; turns++) {
    if (call->in[2] != 1 || call->out[2] != 1 || call->kernel[2] != 1 || at->padding[2] != 0)
      return;
    for (int d = 2; d > 0; d--) {
      call->in[d] = call->in[d - 1], call->out[d] = call->out[d - 1];
      call->kernel[d] = call->kernel[d - 1], at->stride[d] = at->stride[d - 1];
      at->padding[d] = at->padding[d - 1], at->dilation[d] = at->dilation[d - 1];
    }
    call->in[0] = call->out[0] = call->kernel[0] = at->stride[0] = at->dilation[0] = 1;
    at->padding[0] = 0;
  }
}

/* Where a program's call keeps panels of weights that never change, which are the second operand,
 * forward and backward; NULL of other calls. Shapes, and so the panels, are the call's. */
static tn_kept *conv_kept(const tn_kernel_args *args) {
  enum { WEIGHTS = 1 };
  tn_kept *kept = TN_FIELD_OR(args, tn_kernel_args, kept, NULL);
  return kept && kept->constants >> WEIGHTS & 1 ? kept : NULL;
}

static void conv_release(const tn_host *host, void *panels) { host->free(host, panels); }

/* Panels, freed unless status is TN_OK, go to what keeps them if anything does, else to `owned`. */
static tn_status conv_keep(const conv_call *call, void *panels, tn_status status, void **owned) {
  *owned = NULL;
  if (status != TN_OK) {
    call->host->free(call->host, panels);
  } else if (call->kept && !call->infinite) {
    call->kept->data = panels;
    call->kept->release = conv_release;
  } else {
    *owned = panels;
  }
  return status;
}

/* The convolution's view of a call: x, w and y are its tensors by their forward names. */
static void conv_geometry(conv_call *call, const tn_kernel_args *args, const DLTensor *x,
                          const DLTensor *w, const DLTensor *y, size_t element) {
  const window_shape sx = window_shape_of(x), sw = window_shape_of(w), sy = window_shape_of(y);
  call->host = args->host;
  call->kept = conv_kept(args);
  call->at = window_conv_of(args->attrs, window_axes(x));
  call->activation = window_activation(args);
  call->n = sx.size[0];
  call->c = sw.size[1];
  call->k = sw.size[0] / call->at.groups;
  call->plane = call->image = call->window = 1;
  for (int d = 0; d < 3; d++) {
    call->plane *= call->in[d] = sx.size[2 + d];
    call->image *= call->out[d] = sy.size[2 + d];
    call->window *= call->kernel[d] = sw.size[2 + d];
  }
  call->patch = call->c * call->window;
  conv_turn(call);
  conv_cut(call, element);
}

/* Whether windows cover x without meeting and without padding, each a whole number of times. */
static bool conv_is_apart(const conv_call *call) {
  bool is = true;
  for (int d = 0; d < 3; d++)
    is = is && call->kernel[d] == call->at.stride[d] && call->at.padding[d] == 0 &&
         (call->kernel[d] == 1 || call->at.dilation[d] == 1) &&
         call->in[d] == call->out[d] * call->kernel[d];
  return is;
}

/* Work on windows that lie apart can be cut between any two: into pieces of as many as are worth a
 * product, then by channels. */
static void conv_cut_apart(conv_call *call) {
  const int64_t images = call->n * call->at.groups;
  const int64_t wanted = cpu_max(1, CONV_UNITS / images);
  call->pieces = cpu_max(call->pieces, cpu_min(wanted, call->image / (4 * CONV_LEAST_PIECE)));
  call->piece = cpu_ceil_div(call->image, call->pieces);
  call->pieces = cpu_ceil_div(call->image, call->piece);
  call->split = cpu_max(1, cpu_min(call->c, wanted / call->pieces));
}

/* A place in the kernel's window, counted row by row. */
typedef struct conv_tap {
  int64_t o, p, q;
} conv_tap;

static inline conv_tap conv_tap_at(const conv_call *call, int64_t i) {
  const int64_t row = i / call->kernel[2];
  return (conv_tap){row / call->kernel[1], row % call->kernel[1], i % call->kernel[2]};
}

/* A run of windows in one row of an image: columns j <= column < j + n of row i of slice
 * z. */
typedef struct conv_run {
  int64_t z, i, j, n;
} conv_run;

/* The first run of the windows first <= window < last, and the one after a run, whose n
 * is 0 behind the last; `left` counts what is left. */
static inline conv_run conv_first_run(const conv_call *call, int64_t first, int64_t *left) {
  const int64_t row = first / call->out[2];
  conv_run run = {row / call->out[1], row % call->out[1], first % call->out[2], 0};
  run.n = cpu_min(*left, call->out[2] - run.j);
  *left -= run.n;
  return run;
}

static inline void conv_next_run(const conv_call *call, conv_run *run, int64_t *left) {
  run->j = 0;
  if (++run->i == call->out[1]) run->i = 0, run->z++;
  run->n = cpu_min(*left, call->out[2]);
  *left -= run->n;
}

/* Where the row of x begins that a tap of a run of windows reads: -1 outside x. */
static inline int64_t conv_row(const conv_call *call, conv_tap tap, conv_run run) {
  const window_conv *at = &call->at;
  const int64_t z = run.z * at->stride[0] + tap.o * at->dilation[0] - at->padding[0];
  const int64_t r = run.i * at->stride[1] + tap.p * at->dilation[1] - at->padding[1];
  if (z < 0 || z >= call->in[0] || r < 0 || r >= call->in[1]) return -1;
  return (z * call->in[1] + r) * call->in[2];
}

/* The outputs j, begin <= j < end, whose input j stride + at lies inside 0 <= i < size. */
typedef struct conv_span {
  int64_t begin, end;
} conv_span;

static inline conv_span conv_inside(int64_t at, int64_t stride, int64_t size, int64_t outputs) {
  const int64_t begin = at >= 0 ? 0 : cpu_ceil_div(-at, stride);
  const int64_t end = size > at ? cpu_ceil_div(size - at, stride) : 0;
  return (conv_span){cpu_min(begin, outputs), cpu_min(cpu_max(begin, end), outputs)};
}

static tn_status conv_no_memory(const tn_host *host, int64_t bytes) {
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld bytes of convolution workspace",
                    (long long)bytes);
}

#include "kernels/cpu/window/conv_lines.h"

#include "kernels/cpu/window/conv_packed.h"

#include "kernels/cpu/window/conv_direct.h"
#include "kernels/cpu/window/conv_phase.h"
#include "kernels/cpu/window/conv_point.h"
#include "kernels/cpu/window/conv_point_weight.h"
#include "kernels/cpu/window/conv_weight.h"

#define BODY "kernels/cpu/window/conv.inc"
#include "kernels/cpu/base/stamp_float.inc"
