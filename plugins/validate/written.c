/*
 * Tensors that are read and were never written. What was written of a piece of memory is kept as
 * a few runs of bytes, from the first to the last of each write; where there are more of them
 * the nearest grow together, so that what is forgotten hides a finding and makes none up. Memory
 * whose address the program has, and memory of others, may be written without a word.
 */
#include <stdio.h>
#include <string.h>

#include "validate.h"

static bool meets_written(const memory *m, int64_t lo, int64_t hi) {
  for (uint32_t i = 0; i < m->num_written; ++i)
    if (m->written[i].lo < hi && lo < m->written[i].hi) return true;
  return false;
}

/* Takes run i out. */
static run take_run(memory *m, uint32_t i) {
  run taken = m->written[i];
  m->written[i] = m->written[--m->num_written];
  return taken;
}

static int64_t gap_between(run a, run b) {
  int64_t gap = a.lo < b.lo ? b.lo - a.hi : a.lo - b.hi;
  return gap > 0 ? gap : 0;
}

static uint32_t nearest(const memory *m, run r) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < m->num_written; ++i)
    if (gap_between(m->written[i], r) < gap_between(m->written[best], r)) best = i;
  return best;
}

void written_add(memory *m, int64_t lo, int64_t hi) {
  run r = {lo, hi};
  while (m->num_written) {
    uint32_t i = nearest(m, r);
    if (gap_between(m->written[i], r) > 0 && m->num_written < RUNS_MAX) break;
    run old = take_run(m, i);
    if (old.lo < r.lo) r.lo = old.lo;
    if (old.hi > r.hi) r.hi = old.hi;
  }
  m->written[m->num_written++] = r;
}

bool written_lacks(const memory *m, const extent *e) {
  return !m->exposed && !m->imported && e->lo >= m->lo && e->hi <= m->hi &&
         !meets_written(m, e->lo, e->hi);
}

/* What fills tensors, and scatter, which may write all of one, do not read it. */
bool written_is_read(const tn_operator *op) {
  return op->shape != TN_SHAPE_GIVEN && op->shape != TN_SHAPE_GIVEN_RANDOM &&
         op->shape != TN_SHAPE_CREATE && op->id != TN_OP_SCATTER;
}

void written_exposed(validate *v, const void *identity) {
  memory *m = map_get(&v->memories, identity, 0);
  if (m) m->exposed = true;
}
