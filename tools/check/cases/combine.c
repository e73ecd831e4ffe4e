/* Every combination of small sizes; see combine.h. */
#include "combine.h"

unsigned combination_choice(unsigned round, unsigned which, unsigned count) {
  return (unsigned)(case_mix((uint64_t)round << 8 | which) >> 32) % count;
}

bool combination_shape(const int64_t *size, int32_t most, int32_t *rank, int64_t *shape) {
  *rank = (int32_t)size[0];
  for (int32_t i = 0; i < most; i++) {
    if (i >= *rank && size[1 + i] != 1) return false;
    shape[i] = size[1 + i];
  }
  return true;
}

/* Layouts in turn, another for each element type and operator. */
static uint32_t variant_of(const op_case *c, unsigned round) {
  static const uint32_t turn[] = {VARIANT_MADE, VARIANT_SLICED, VARIANT_PERMUTED,
                                  VARIANT_PREPARED | VARIANT_CHANNELS_LAST, VARIANT_GIVEN};
  const unsigned types = (unsigned)c->types[0] + (unsigned)c->types[1];
  return turn[(round + c->op->id + types) % (sizeof turn / sizeof *turn)];
}

/* The next combination, the last axis first; false after the last one. */
static bool advance(const combination *m, uint32_t *digit) {
  for (uint32_t i = m->axes; i-- > 0; digit[i] = 0)
    if (m->sizes[i][++digit[i]]) return true;
  return false;
}

static void take(const combination *m, op_case *c, unsigned round, case_sink sink) {
  const bool sums = c->op->flags & TN_OPERATOR_ACCUMULATES;
  if (sums && !m->own_values && TN_SET(c->types[0]) & TN_SET_FLOAT) c->values = VALUES_TIES;
  c->seed += 5000 + round;
  c->variants = variant_of(c, round);
  if (c->arg[0].rank != 4) c->variants &= ~(uint32_t)VARIANT_CHANNELS_LAST;
  sink.take(sink.ctx, c);
}

void combine(const tn_operator *op, const tn_dtype *types, const combination *m, case_sink sink) {
  uint32_t digit[COMBINED_AXES] = {0};
  unsigned round = 0;
  do {
    int64_t size[COMBINED_AXES];
    for (uint32_t i = 0; i < m->axes; i++) size[i] = m->sizes[i][digit[i]] - '0';
    op_case c = case_begin(op, types);
    if (m->make(&c, size, round)) take(m, &c, round, sink);
    round++;
  } while (advance(m, digit));
}
