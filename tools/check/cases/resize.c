/* Cases of resizing: larger, smaller, the same size, single rows and columns. */
#include "combine.h"
#include "op_case.h"

typedef struct resize {
  int64_t n, c, size[2], output[2];
} resize;

static const resize resizes[] = {
    {2, 3, {4, 5}, {8, 10}},  {1, 1, {1, 1}, {1, 1}},    {2, 2, {7, 9}, {7, 9}},
    {1, 3, {8, 12}, {4, 6}},  {2, 1, {5, 7}, {9, 4}},    {1, 2, {1, 6}, {5, 1}},
    {1, 2, {3, 1}, {1, 8}},   {2, 3, {33, 31}, {7, 64}}, {0, 3, {4, 4}, {8, 8}},
    {3, 0, {4, 4}, {2, 2}},   {1, 1, {2, 200}, {3, 77}}, {1, 5, {16, 17}, {48, 51}},
    {1, 2, {2, 2}, {13, 17}},
};

static const value_kind values[] = {VALUES_PLAIN, VALUES_RANGE, VALUES_SPARSE};

static void shapes(op_case *c, const resize *r) {
  bool forward = c->op->shape == TN_SHAPE_RESIZE;
  const int64_t *size = forward ? r->size : r->output;
  const int64_t shape[] = {r->n, r->c, size[0], size[1]};
  case_shape(c, 0, 4, shape);
  case_set_pair(c, "output", r->output);
  case_set_pair(c, "size", r->size);
}

void cases_resize(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof resizes / sizeof *resizes; i++)
    for (unsigned round = 0; round < 8; round++) {
      op_case c = case_begin(op, types);
      shapes(&c, &resizes[i]);
      case_set(&c, "mode", 0, round % 4);
      case_set(&c, "align_corners", 0, round / 4);
      c.values = values[(i + round) % 3];
      c.seed += i * 8 + round;
      c.variants = round % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      c.typical = i == 0 && round == 1;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  const resize r = {size[0], size[1], {size[2], size[3]}, {size[4], size[5]}};
  shapes(c, &r);
  case_set(c, "mode", 0, (double)size[6]);
  case_set(c, "align_corners", 0, combination_choice(round, 0, 2));
  return true;
}

/* Images, channels, height and width before and after, and the mode. */
void degenerate_resize(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "12", "12", "12", "0123"};
  combine(op, types, &(combination){7, sizes, degenerate}, sink);
}

/* Images doubled bilinearly. */
void sizes_resize(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  resize r = {8, 64, {56, 56}, {112, 112}};
  op_case c = case_begin(op, types);
  if (large > 100 * 64 * 112 * 112) r.n = 64;
  shapes(&c, &r);
  sink.take(sink.ctx, &c);
}
