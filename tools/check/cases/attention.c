/* Cases of embeddings, rotary positions and attention. */
#include "combine.h"
#include "number.h"
#include "op_case.h"

/* ------------------------------------------------------------- embeddings --- */

/* A row of the table, now and then none. */
static int64_t draw_row(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  bool gradient = c->op->shape == TN_SHAPE_EMBEDDING_GRAD;
  int64_t rows = gradient ? (int64_t)case_get(c, "rows", 0) : c->arg[0].shape[0];
  tn_dtype dtype = case_dtype(c, arg);
  const int64_t outside[] = {-1, rows, number_min_int(dtype), number_max_int(dtype)};
  (void)at;
  if (rows == 0 || (c->seed % 2 && random % 8 == 0)) return outside[random / 8 % 4];
  int64_t row = (int64_t)(random / 8 % (uint64_t)rows);
  return case_get(c, "from_end", 0) != 0 && random >> 60 & 1 ? row - rows : row;
}

/* One of 8 rows. */
static int64_t draw_again(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  (void)arg, (void)at;
  return (int64_t)(random % 8) * ((int64_t)case_get(c, "rows", 0) / 8);
}

typedef struct lookup {
  int64_t rows, d;
  int32_t rank;
  int64_t shape[4]; /* of the index */
} lookup;

static op_case look_up(const tn_operator *op, const tn_dtype *types, const lookup *l,
                       unsigned round) {
  op_case c = case_begin(op, types);
  int64_t dy[TN_MAX_RANK];
  for (int32_t i = 0; i < l->rank; i++) dy[i] = l->shape[i];
  dy[l->rank] = l->d;
  if (op->shape == TN_SHAPE_EMBEDDING)
    case_shape(&c, 0, 2, (int64_t[]){l->rows, l->d});
  else
    case_shape(&c, 0, l->rank + 1, dy);
  case_shape(&c, 1, l->rank, l->shape);
  c.arg[1].index = draw_row;
  case_set(&c, "rows", 0, (double)l->rows);
  case_set(&c, "padding_index", 0, round % 3 ? -1 : 1);
  case_set(&c, "from_end", 0, round / 2 % 2);
  c.seed += round;
  return c;
}

void cases_embedding(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const lookup list[] = {{7, 5, 2, {2, 3}},     {1, 1, 0, {0}},         {3, 4, 1, {0}},
                                {0, 3, 1, {4}},        {5, 0, 1, {3}},         {10, 16, 1, {33}},
                                {4, 33, 1, {64}},      {100, 8, 2, {5, 7}},    {2, 3, 1, {300}},
                                {3, 64, 3, {2, 3, 4}}, {50, 129, 1, {1}},      {9, 1, 2, {17, 3}},
                                {300, 2, 2, {40, 50}}, {6, 7, 4, {2, 1, 3, 2}}};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 4; k++) {
      op_case c = look_up(op, types, &list[i], 4 * i + k);
      c.values = k == 3 && op->shape == TN_SHAPE_EMBEDDING ? VALUES_SPECIAL : VALUES_PLAIN;
      c.typical = i == 0 && k == 0;
      if (k == 2) c.arg[0].expanded = 1;
      if (k == 1) c.variants |= VARIANT_PREPARED;
      if (c.arg[0].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
  if (op->shape == TN_SHAPE_EMBEDDING) return;
  /* Few rows of large tables, some of them several times. */
  static const lookup few[] = {
      {32800, 128, 1, {60}}, {32600, 129, 2, {3, 7}}, {70, 60000, 1, {35}}};
  for (unsigned i = 0; i < sizeof few / sizeof *few; i++) {
    op_case c = look_up(op, types, &few[i], i);
    c.arg[1].index = draw_again;
    c.variants = VARIANT_MADE;
    sink.take(sink.ctx, &c);
  }
}

static bool degenerate_lookup(op_case *c, const int64_t *size, unsigned round) {
  lookup l = {.rows = size[0], .d = size[1]};
  if (!combination_shape(size + 2, 2, &l.rank, l.shape)) return false;
  *c = look_up(c->op, c->types, &l, round);
  return true;
}

void degenerate_embedding(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "012", "12", "12"};
  combine(op, types, &(combination){5, sizes, degenerate_lookup}, sink);
}

void sizes_embedding(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const lookup list[] = {{1000, 64, 1, {64}}, {32000, 1024, 1, {large >= 1 << 26 ? 16384 : 512}}};
  for (unsigned i = 0; i < 2; i++) {
    op_case c = look_up(op, types, &list[i], 2);
    sink.take(sink.ctx, &c);
  }
}

/* ------------------------------------------------------------------- rope --- */

static int64_t draw_position(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  int64_t p = c->arg[1].shape[0];
  (void)arg, (void)at;
  if (p == 0 || (c->seed % 5 == 0 && random % 8 == 0)) return random & 8 ? -1 : p;
  return (int64_t)(random / 16 % (uint64_t)p);
}

static op_case rotate(const tn_operator *op, const tn_dtype *types, const int64_t *x, int64_t p,
                      int64_t half, unsigned round) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 4, x);
  case_shape(&c, 1, 2, (int64_t[]){p, half});
  case_shape(&c, 2, 2, (int64_t[]){p, half});
  case_shape(&c, 3, 2, (int64_t[]){x[0], x[2]});
  c.arg[3].index = draw_position;
  c.arg[3].absent = round & 1;
  case_set(&c, "interleaved", 0, round >> 1 & 1);
  case_set(&c, "inverse", 0, round >> 2 & 1);
  c.seed += round;
  return c;
}

void cases_rope(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t list[][6] = {
      {2, 3, 4, 8, 9, 4}, {1, 1, 1, 2, 1, 1},     {2, 2, 3, 7, 5, 3},     {1, 2, 5, 16, 5, 3},
      {0, 2, 3, 4, 3, 2}, {2, 0, 3, 4, 3, 2},     {1, 2, 0, 4, 0, 2},     {2, 1, 3, 5, 4, 0},
      {1, 2, 3, 4, 0, 2}, {1, 3, 17, 64, 20, 32}, {2, 2, 33, 30, 33, 15}, {1, 2, 6, 128, 4, 64}};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned round = 0; round < 8; round++) {
      op_case c = rotate(op, types, list[i], list[i][4], list[i][5], 8 * i + round);
      c.typical = i == 0 && round == 0;
      if (round == 3) c.arg[0].expanded = 1;
      c.variants |= VARIANT_CHANNELS_LAST | (round == 5 ? VARIANT_PREPARED : 0);
      sink.take(sink.ctx, &c);
    }
}

enum { ROPE_B, ROPE_H, ROPE_S, ROPE_D, ROPE_P, POSITIONS, ROPE_AXES };

static bool degenerate_rotation(op_case *c, const int64_t *size, unsigned round) {
  const unsigned form = combination_choice(round, 0, 4) << 1;
  if (!size[POSITIONS] && size[ROPE_P] < size[ROPE_S]) return false;
  *c = rotate(c->op, c->types, size, size[ROPE_P], size[ROPE_D] / 2, form | !size[POSITIONS]);
  return true;
}

void degenerate_rope(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[ROPE_AXES] = {"12", "12", "12", "1234", "12", "01"};
  combine(op, types, &(combination){ROPE_AXES, sizes, degenerate_rotation}, sink);
}

void sizes_rope(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t list[][4] = {{1, 8, 64, 64}, {1, 32, large >= 1 << 26 ? 4096 : 512, 128}};
  for (unsigned i = 0; i < 2; i++) {
    op_case c = rotate(op, types, list[i], list[i][2], list[i][3] / 2, 1);
    sink.take(sink.ctx, &c);
  }
}

/* -------------------------------------------------------------- attention --- */

typedef struct heads {
  int64_t b, h, g, s, t, d;
} heads;

enum { MASKS = 6 };

/* Shapes that broadcast to [b, h, s, t]. */
static void mask_shape(op_case *c, uint32_t arg, const heads *x, unsigned form) {
  const int64_t full[] = {x->b, x->h, x->s, x->t}, same[] = {x->s, x->t},
                keys[] = {x->b, 1, 1, x->t}, head[] = {x->h, x->s, x->t};
  switch (form % MASKS) {
  case 0:
    c->arg[arg].absent = true;
    break;
  case 1:
    case_shape(c, arg, 4, full);
    break;
  case 2:
    case_shape(c, arg, 2, same);
    break;
  case 3:
    case_shape(c, arg, 4, keys);
    break;
  case 4:
    case_shape(c, arg, 3, head);
    break;
  default:
    case_shape(c, arg, 1, &x->t);
    break;
  }
}

static op_case attend(const tn_operator *op, const tn_dtype *types, const heads *x,
                      unsigned round) {
  op_case c = case_begin(op, types);
  const int64_t q[] = {x->b, x->h, x->s, x->d}, k[] = {x->b, x->g, x->t, x->d};
  uint32_t first = op->shape == TN_SHAPE_ATTENTION_GRAD;
  if (first) case_shape(&c, 0, 4, q);
  case_shape(&c, first, 4, q);
  case_shape(&c, first + 1, 4, k);
  case_shape(&c, first + 2, 4, k);
  mask_shape(&c, first ? 6 : 3, x, round % 7);
  mask_shape(&c, first ? 7 : 4, x, round / 2 % 5);
  if (first) {
    case_shape(&c, 4, 4, q);
    case_shape(&c, 5, 3, q);
  } else {
    c.arg[6].absent = round % 4 == 3;
  }
  case_set(&c, "causal", 0, round % 3 == 1);
  case_set(&c, "causal_upper_left", 0, round % 2);
  case_set(&c, "scale", 0, round % 4 == 2 ? 0.25 : 0);
  c.seed += round;
  return c;
}

static void attention_cases(const tn_operator *op, const tn_dtype *types, case_sink sink,
                            const heads *list, unsigned count, unsigned rounds) {
  for (unsigned i = 0; i < count; i++)
    for (unsigned round = 0; round < rounds; round++) {
      op_case c = attend(op, types, &list[i], rounds * i + round);
      bool large = list[i].s * list[i].t > 4096, grad = op->shape == TN_SHAPE_ATTENTION_GRAD;
      if (i == 0 && round == 0) c = attend(op, types, &list[i], 16);
      c.typical = i == 0 && round == 0;
      if (large) c.variants = VARIANT_MADE | (round == 1 ? VARIANT_PERMUTED : 0);
      if (round == 2) c.arg[grad].expanded = 1;
      if (round == 3) c.variants |= VARIANT_PREPARED;
      if (i % 4 == 1) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

/* Infinities and NaN, where nothing is hidden. */
static void attention_specials(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const heads list[] = {{1, 2, 1, 5, 7, 4}, {1, 1, 1, 33, 40, 64}, {1, 4, 2, 1, 300, 64}};
  for (unsigned i = 0; i < 3 && op->shape == TN_SHAPE_ATTENTION; i++) {
    op_case c = attend(op, types, &list[i], 0);
    c.arg[3].absent = c.arg[4].absent = true;
    c.values = VALUES_SPARSE;
    sink.take(sink.ctx, &c);
  }
}

/* Nothing hides keys but causality: the commonest call, for which kernels have shorter ways. */
static void attention_causal(const tn_operator *op, const tn_dtype *types, case_sink sink,
                             const heads *list, unsigned count) {
  for (unsigned i = 0; i < 2 * count; i++) {
    op_case c = attend(op, types, &list[i / 2], 16 + i);
    const uint32_t mask = op->shape == TN_SHAPE_ATTENTION_GRAD ? 6 : 3;
    c.arg[mask].absent = c.arg[mask + 1].absent = true;
    case_set(&c, "causal", 0, 1);
    case_set(&c, "causal_upper_left", 0, i % 2);
    c.variants = VARIANT_MADE;
    sink.take(sink.ctx, &c);
  }
}

void cases_attention(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const heads small[] = {
      {2, 4, 2, 5, 7, 8},  {1, 1, 1, 1, 1, 1},     {1, 2, 2, 3, 2, 5},    {2, 3, 1, 1, 9, 16},
      {0, 2, 1, 3, 4, 4},  {2, 0, 0, 3, 4, 4},     {1, 2, 1, 0, 4, 4},    {1, 2, 2, 3, 0, 4},
      {1, 2, 2, 3, 4, 0},  {1, 2, 1, 16, 16, 64},  {1, 1, 1, 17, 33, 32}, {2, 2, 1, 9, 65, 24},
      {1, 6, 2, 3, 5, 96}, {1, 1, 1, 40, 20, 128}, {1, 2, 1, 33, 70, 20}, {1, 1, 1, 2, 67, 200}};
  static const heads large[] = {{1, 2, 1, 130, 135, 64},
                                {1, 1, 1, 64, 257, 128},
                                {1, 1, 1, 200, 100, 40},
                                {1, 2, 2, 65, 193, 72}};
  /* A decoder's: few queries to a head of keys, and on both sides of what kernels for them take. */
  static const heads few[] = {{2, 8, 2, 1, 300, 64},  {1, 4, 4, 1, 1030, 128},
                              {1, 8, 1, 3, 523, 40},  {1, 6, 2, 5, 129, 256},
                              {1, 16, 1, 4, 200, 96}, {1, 17, 1, 4, 160, 64},
                              {1, 3, 1, 6, 150, 72},  {3, 2, 1, 1, 127, 64},
                              {1, 1, 1, 1, 2100, 8},  {1, 2, 1, 8, 256, 264}};
  attention_cases(op, types, sink, small, sizeof small / sizeof *small, 7);
  if (op->shape == TN_SHAPE_ATTENTION)
    attention_cases(op, types, sink, few, sizeof few / sizeof *few, 5);
  attention_cases(op, types, sink, large, sizeof large / sizeof *large, 4);
  attention_causal(op, types, sink, large, sizeof large / sizeof *large);
  attention_specials(op, types, sink);
}

enum { B, PER_KEY_HEAD, KEY_HEADS, S, T, D, CAUSAL, ATTENTION_AXES };

static bool degenerate_heads(op_case *c, const int64_t *size, unsigned round) {
  const int64_t g = size[KEY_HEADS];
  const heads x = {size[B], size[PER_KEY_HEAD] * g, g, size[S], size[T], size[D]};
  *c = attend(c->op, c->types, &x, combination_choice(round, 0, 420));
  case_set(c, "causal", 0, (double)size[CAUSAL]);
  return true;
}

void degenerate_attention(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[ATTENTION_AXES] = {"12", "12", "12", "12", "12", "12", "01"};
  combine(op, types, &(combination){ATTENTION_AXES, sizes, degenerate_heads}, sink);
}

void sizes_attention(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const bool device = large >= 1 << 26;
  const bool forward = op->shape == TN_SHAPE_ATTENTION;
  const heads list[] = {{1, 8, 8, 128, 128, 64},
                        {device ? 4 : 1, 16, 16, device ? 2048 : 512, device ? 2048 : 512, 64},
                        {device ? 2 : 1, 32, 8, device ? 4096 : 256, device ? 4096 : 1024, 128},
                        {device ? 8 : 1, 32, 8, 1, device ? 8192 : 1024, 128},
                        {1, 32, 8, 4, device ? 32768 : 1024, 64}};
  for (unsigned i = 0; i < (forward ? 5 : 3); i++) { /* the last two: a decoder's */
    op_case c = attend(op, types, &list[i], 0);
    const uint32_t first = !forward;
    const heads *x = &list[i];
    c.arg[first ? 6 : 3].absent = c.arg[first ? 7 : 4].absent = true;
    c.flops = (first ? 10.0 : 4.0) * (double)(x->b * x->h * x->s * x->t * x->d);
    sink.take(sink.ctx, &c);
  }
}
