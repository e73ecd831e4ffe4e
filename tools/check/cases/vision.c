/*
 * Cases of ops/vision.def: images read along an axis, by a grid and in boxes; boxes that overlap;
 * channels that normalise each other.
 */
#include <math.h>

#include "combine.h"
#include "op_case.h"

/* --- resample --- */

typedef struct resampled {
  int32_t rank, axis;
  int64_t shape[4], output;
} resampled;

static const resampled lines[] = {
    {1, 0, {5}, 8},          {2, 1, {3, 7}, 3},         {4, 2, {2, 3, 4, 5}, 8},
    {4, 3, {1, 2, 6, 9}, 4}, {3, 0, {6, 2, 3}, 11},     {4, -1, {2, 1, 3, 1}, 5},
    {2, 0, {1, 4}, 1},       {3, 1, {2, 40, 17}, 13},   {2, -1, {0, 4}, 8},
    {3, 1, {2, 5, 0}, 3},    {4, -2, {2, 3, 33, 8}, 7}, {2, 1, {65, 31}, 64},
};

/* How places follow from steps: what ONNX and PyTorch have names for, and what nobody has. */
typedef struct walk {
  double start, shift, span, count, stretch, cubic;
  int exclude_outside, extrapolate;
} walk;

static const walk walks[] = {
    {-0.5, 0.5, 0, 0, 1, -0.75, 0, 0},    /* half pixels */
    {0, 0, 3, 7, 1, -0.75, 0, 0},         /* aligned corners of 4 and 8 */
    {0, 0, 1, 0.6, 1, -0.5, 1, 0},        /* asymmetric, its border left out */
    {-0.5, 0.5, 1, 0.4, 2.5, -0.5, 0, 0}, /* smoothed */
    {-0.5, 0.5, 1, 0.7, 1 / 0.7, -0.75, 1, 0},
    {-1.25, 0, 4.5, 3, 1, -0.75, 0, 1}, /* a crop that goes beyond */
    {6, 0, -1.5, 2, 1, -0.75, 1, 1},    /* turned round */
    {1.5, 0, 0, 1, 3, -0.75, 0, 0},     /* all at one place */
    {-40, 0.5, 1, 1, 1, -0.75, 1, 0},   /* where there is nothing */
};
enum { WALKS = sizeof walks / sizeof *walks };

static void set_walk(op_case *c, const walk *w) {
  case_set(c, "start", 0, w->start);
  case_set(c, "shift", 0, w->shift);
  case_set(c, "span", 0, w->span);
  case_set(c, "count", 0, w->count);
  case_set(c, "stretch", 0, w->stretch);
  case_set(c, "cubic", 0, w->cubic);
  case_set(c, "exclude_outside", 0, w->exclude_outside);
  case_set(c, "extrapolate", 0, w->extrapolate);
}

static void shape_lines(op_case *c, const resampled *r) {
  const bool forward = c->op->id == TN_OP_RESAMPLE;
  const int32_t axis = r->axis < 0 ? r->axis + r->rank : r->axis;
  int64_t shape[4];
  for (int32_t d = 0; d < r->rank; d++) shape[d] = !forward && d == axis ? r->output : r->shape[d];
  case_shape(c, 0, r->rank, shape);
  case_set(c, "axis", 0, r->axis);
  if (forward) {
    case_set(c, "output", 0, (double)r->output);
    case_set(c, "value", 0, 0.375);
  } else {
    case_set(c, "size", 0, (double)r->shape[axis]);
  }
}

void cases_resample(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
    for (unsigned w = 0; w < WALKS; w++)
      for (unsigned k = 0; k < 2; k++) {
        const unsigned filter = k ? TN_RESAMPLE_LINEAR + (i + w) % 2 : (i + w) % 4;
        op_case c = case_begin(op, types);
        shape_lines(&c, &lines[i]);
        set_walk(&c, &walks[w]);
        case_set(&c, "filter", 0, filter);
        c.values = (i + w) % 2 ? VALUES_RANGE : VALUES_PLAIN;
        c.seed += (i * WALKS + w) * 2 + k;
        c.variants = w % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                           : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
        c.typical = i == 2 && w == 0 && k == 1;
        sink.take(sink.ctx, &c);
      }
}

static bool degenerate_lines(op_case *c, const int64_t *size, unsigned round) {
  const resampled r = {3, 1, {size[0], size[1], size[2]}, size[3]};
  shape_lines(c, &r);
  set_walk(c, &walks[combination_choice(round, 0, WALKS)]);
  case_set(c, "filter", 0, (double)size[4]);
  c->values = VALUES_POSITIVE;
  return true;
}

void degenerate_resample(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "12", "045"};
  combine(op, types, &(combination){5, sizes, degenerate_lines, .own_values = true}, sink);
}

void sizes_resample(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  resampled r = {4, 3, {8, 64, 56, 56}, 112};
  if (large > 100 * 64 * 112 * 112) r.shape[0] = 64;
  for (int32_t axis = 3; axis >= 2; axis--) {
    op_case c = case_begin(op, types);
    r.axis = axis;
    shape_lines(&c, &r);
    sink.take(sink.ctx, &c);
  }
}

/* --- grid_sample --- */

typedef struct grid {
  int32_t axes;
  int64_t n, c, size[3], out[3];
} grid;

static const grid grids[] = {
    {2, 2, 3, {4, 5}, {3, 4}},       {2, 1, 1, {1, 1}, {1, 1}},  {2, 1, 2, {7, 1}, {5, 3}},
    {3, 2, 2, {3, 4, 2}, {2, 3, 4}}, {1, 2, 3, {9}, {17}},       {2, 0, 3, {4, 4}, {8, 8}},
    {2, 2, 0, {4, 4}, {2, 2}},       {2, 2, 2, {4, 4}, {0, 3}},  {3, 1, 1, {1, 5, 1}, {2, 2, 2}},
    {2, 1, 5, {33, 18}, {21, 40}},   {2, 3, 1, {2, 2}, {13, 1}}, {1, 1, 1, {2}, {100}},
};

static void shape_grid(op_case *c, const grid *g, uint32_t images, uint32_t places) {
  int64_t image[5] = {g->n, g->c}, given[5] = {g->n, g->c}, place[5] = {g->n};
  for (int32_t d = 0; d < g->axes; d++) {
    image[2 + d] = g->size[d];
    given[2 + d] = place[1 + d] = g->out[d];
    if (case_has(c, "size")) case_set(c, "size", d, (double)g->size[d]);
  }
  place[1 + g->axes] = g->axes;
  if (c->op->id != TN_OP_GRID_SAMPLE) case_shape(c, 0, 2 + g->axes, given);
  if (c->op->id != TN_OP_GRID_SAMPLE_GRAD_INPUT) case_shape(c, images, 2 + g->axes, image);
  case_shape(c, places, 2 + g->axes, place);
}

static void make_grid(op_case *c, const grid *g, unsigned mode, unsigned padding, unsigned align) {
  const bool both = c->op->id == TN_OP_GRID_SAMPLE_GRAD_GRID;
  shape_grid(c, g, both ? 1 : 0, both ? 2 : 1);
  case_set(c, "mode", 0, mode);
  case_set(c, "padding", 0, padding);
  case_set(c, "align_corners", 0, align);
}

void cases_grid_sample(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof grids / sizeof *grids; i++)
    for (unsigned round = 0; round < 18; round++) {
      op_case c = case_begin(op, types);
      make_grid(&c, &grids[i], round % 3, round / 3 % 3, round / 9);
      c.values = (i + round) % 2 ? VALUES_RANGE : VALUES_PLAIN;
      c.seed += i * 18 + round;
      c.variants = round % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_grid(op_case *c, const int64_t *size, unsigned round) {
  const grid g = {2, size[0], size[1], {size[2], size[3]}, {size[4], size[5]}};
  make_grid(c, &g, (unsigned)size[6], combination_choice(round, 0, 3),
            combination_choice(round, 1, 2));
  c->values = round % 2 ? VALUES_RANGE : VALUES_PLAIN;
  return true;
}

void degenerate_grid_sample(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "12", "12", "12", "012"};
  combine(op, types, &(combination){7, sizes, degenerate_grid, .own_values = true}, sink);
}

void sizes_grid_sample(const tn_operator *op, const tn_dtype *types, int64_t large,
                       case_sink sink) {
  grid g = {2, 8, 64, {56, 56}, {56, 56}};
  op_case c = case_begin(op, types);
  if (large > 100 * 64 * 112 * 112) g.n = 64;
  make_grid(&c, &g, TN_GRID_LINEAR, TN_GRID_ZEROS, 0);
  sink.take(sink.ctx, &c);
}

/* --- roi_align --- */

typedef struct regions {
  int64_t n, c, size[2], count, bins[2];
} regions;

static const regions rois[] = {
    {2, 3, {8, 9}, 4, {2, 3}},   {1, 1, {1, 1}, 1, {1, 1}},  {2, 2, {16, 5}, 7, {3, 1}},
    {0, 2, {4, 4}, 2, {2, 2}},   {1, 0, {4, 4}, 2, {2, 2}},  {3, 1, {6, 6}, 0, {2, 2}},
    {1, 5, {20, 30}, 9, {7, 7}}, {2, 1, {3, 12}, 5, {1, 6}},
};

/* Corners in whole numbers, some outside the image and some boxes turned inside out; images one
 * in eight of which there are not. */
static int64_t draw_corner(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  (void)c, (void)arg;
  return (int64_t)(random % 12) - 3 + (at[1] >= 2 ? 4 : 0);
}

static int64_t draw_image(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  const int64_t n = case_has(c, "images") ? (int64_t)case_get(c, "images", 0) : c->arg[0].shape[0];
  (void)arg, (void)at;
  if (n == 0 || random % 8 == 0) return random / 8 % 2 ? n : -1;
  return (int64_t)(random / 8 % (uint64_t)n);
}

static void make_regions(op_case *c, const regions *r, unsigned round) {
  const bool forward = c->op->id != TN_OP_ROI_ALIGN_GRAD;
  const int64_t image[] = {r->n, r->c, r->size[0], r->size[1]};
  const int64_t given[] = {r->count, r->c, r->bins[0], r->bins[1]};
  case_shape(c, 0, 4, forward ? image : given);
  case_shape(c, 1, 2, (int64_t[]){r->count, 4});
  case_shape(c, 2, 1, &r->count);
  c->arg[1].index = draw_corner;
  c->arg[2].index = draw_image;
  if (forward) {
    case_set_pair(c, "output", r->bins);
  } else {
    case_set(c, "images", 0, (double)r->n);
    case_set_pair(c, "size", r->size);
  }
  case_set(c, "samples", 0, (double)(round % 3));
  case_set(c, "half_pixel", 0, round / 3 % 2);
  case_set(c, "scale", 0, round % 2 ? 0.8 : 1.5);
}

void cases_roi_align(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof rois / sizeof *rois; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = case_begin(op, types);
      make_regions(&c, &rois[i], round);
      c.values = round % 2 ? VALUES_RANGE : VALUES_PLAIN;
      c.seed += i * 12 + round;
      c.variants = round % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      c.typical = i == 0 && round == 4;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_regions(op_case *c, const int64_t *size, unsigned round) {
  const regions r = {size[0], size[1], {size[2], size[3]}, size[4], {size[5], size[6]}};
  make_regions(c, &r, combination_choice(round, 0, 6));
  return true;
}

void degenerate_roi_align(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "12", "12", "12", "12"};
  combine(op, types, &(combination){7, sizes, degenerate_regions, .own_values = true}, sink);
}

void sizes_roi_align(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  regions r = {2, 256, {50, 68}, 200, {7, 7}};
  op_case c = case_begin(op, types);
  if (large > 100 * 64 * 112 * 112) r.count = 1000;
  make_regions(&c, &r, 5);
  sink.take(sink.ctx, &c);
}

/* --- non_max_suppression --- */

static void make_boxes(op_case *c, const int64_t *size, unsigned round) {
  case_shape(c, 0, 3, (int64_t[]){size[0], size[2], 4});
  case_shape(c, 1, 3, size);
  if (round % 2) c->arg[0].index = draw_corner;
  c->values = round % 3 == 2 ? VALUES_TIES : VALUES_PLAIN;
  case_set(c, "most", 0, (double)(round % 4));
  case_set(c, "overlap", 0, (double)(round % 5) / 4.25);
  if (round % 2) case_set(c, "score", 0, -0.25);
  case_set(c, "centered", 0, round / 2 % 2);
}

void cases_non_max_suppression(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t sizes[][3] = {{1, 1, 6}, {2, 3, 9},  {1, 1, 1},   {1, 2, 0},   {0, 2, 4},
                                     {2, 0, 4}, {3, 2, 33}, {1, 4, 200}, {1, 1, 1500}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = case_begin(op, types);
      make_boxes(&c, sizes[i], round);
      c.seed += i * 12 + round;
      c.variants |= VARIANT_PREPARED;
      c.typical = i == 1 && round == 4;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_boxes(op_case *c, const int64_t *size, unsigned round) {
  make_boxes(c, size, combination_choice(round, 0, 12));
  return true;
}

void degenerate_non_max_suppression(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "123"};
  combine(op, types, &(combination){3, sizes, degenerate_boxes, .own_values = true}, sink);
}

void sizes_non_max_suppression(const tn_operator *op, const tn_dtype *types, int64_t large,
                               case_sink sink) {
  op_case c = case_begin(op, types);
  make_boxes(&c, (int64_t[]){1, 20, large > 100 * 64 * 112 * 112 ? 8400 : 2000}, 3);
  case_set(&c, "most", 0, 100);
  sink.take(sink.ctx, &c);
}

/* --- local_response_norm --- */

void cases_local_response_norm(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const resampled shapes[] = {{4, 0, {2, 7, 3, 4}, 5}, {2, 0, {3, 9}, 3},
                                     {3, 0, {2, 1, 5}, 4},    {4, 0, {1, 12, 5, 9}, 2},
                                     {3, 0, {2, 3, 8}, 9},    {3, 0, {0, 3, 8}, 3},
                                     {3, 0, {2, 0, 8}, 3},    {4, 0, {1, 33, 7, 65}, 1},
                                     {3, 0, {2, 3, 0}, 2},    {3, 0, {2, 5, 700}, 5}};
  static const double betas[] = {0.75, 0.5, 1, 0.6, 2};
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (unsigned round = 0; round < 5; round++) {
      op_case c = case_begin(op, types);
      case_shape(&c, 0, shapes[i].rank, shapes[i].shape);
      case_set(&c, "size", 0, (double)shapes[i].output);
      case_set(&c, "alpha", 0, round % 2 ? 0.2 : 1e-3);
      case_set(&c, "beta", 0, betas[round]);
      case_set(&c, "bias", 0, round % 2 ? 1 : 2);
      c.values = round % 2 ? VALUES_RANGE : VALUES_PLAIN;
      c.seed += i * 5 + round;
      c.variants = round % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_channels(op_case *c, const int64_t *size, unsigned round) {
  case_shape(c, 0, 2 + (int32_t)(round % 3), size);
  for (int32_t d = 2 + (int32_t)(round % 3); d < 4; d++)
    if (size[d] != 1) return false;
  case_set(c, "size", 0, (double)size[4]);
  return true;
}

void degenerate_local_response_norm(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "123", "12", "12", "123"};
  combine(op, types, &(combination){5, sizes, degenerate_channels, .own_values = true}, sink);
}

void sizes_local_response_norm(const tn_operator *op, const tn_dtype *types, int64_t large,
                               case_sink sink) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 4, (int64_t[]){large > 100 * 64 * 112 * 112 ? 64 : 4, 96, 55, 55});
  sink.take(sink.ctx, &c);
}
