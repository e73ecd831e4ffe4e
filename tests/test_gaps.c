/* Where buffers of a plan fit: as a search through all of them says, at a fraction of its steps. */
#include <stdlib.h>
#include <string.h>

#include "graph/gaps.h"
#include "tests/support.h"

static uint64_t random_state = 88172645463325252u;
static uint32_t random_below(uint32_t most) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 32) % most;
}

/* The tightest gap, by looking at every buffer. pre: they are in the order of their offsets. */
static uint64_t plain_gap(planned_buffer *const *placed, uint32_t count, const planned_buffer *b) {
  uint64_t wanted = plan_rounded(b->bytes), end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  for (uint32_t i = 0; i < count; ++i) {
    const planned_buffer *o = placed[i];
    if (o->last < b->first || o->first > b->last) continue;
    if (o->offset > end && o->offset - end >= wanted && o->offset - end < best_gap) {
      best = end;
      best_gap = o->offset - end;
    }
    if (o->offset + plan_rounded(o->bytes) > end) end = o->offset + plan_rounded(o->bytes);
  }
  return best == UINT64_MAX ? end : best;
}

static void insert(planned_buffer **placed, uint32_t count, planned_buffer *b) {
  for (; count > 0 && placed[count - 1]->offset > b->offset; --count)
    placed[count] = placed[count - 1];
  placed[count] = b;
}

/* Lives of up to `longest` nodes of NODES, sizes of up to `largest` bytes, none among them. */
START_TEST(gaps_are_those_of_a_plain_search) {
  enum { COUNT = 3000, NODES = 500 };
  static const struct {
    uint32_t longest, largest;
  } cases[] = {{1, 1}, {3, 5000}, {40, 300}, {NODES, 1}, {NODES, 100000}, {20, 100000}};
  planned_buffer *buffers = calloc(COUNT, sizeof *buffers), *placed[COUNT];
  gap_finder finder;
  ok(gap_finder_make(&host_memory_default, COUNT, &finder));
  for (int again = 0; again < 2; ++again) {
    gap_finder_clear(&finder);
    for (uint32_t i = 0; i < COUNT; ++i) {
      planned_buffer *b = &buffers[i];
      b->first = random_below(NODES);
      b->last = b->first + random_below(cases[_i].longest);
      b->bytes = random_below(cases[_i].largest + 1);
      b->offset = gap_find(&finder, b);
      ck_assert_uint_eq(b->offset, plain_gap(placed, i, b));
      gap_place(&finder, b);
      insert(placed, i, b);
    }
  }
  gap_finder_free(&host_memory_default, &finder);
  free(buffers);
}
END_TEST

/* A chain of nodes, each of which reads the one before; and as many results that all live to the
 * end. */
START_TEST(long_plans_take_few_steps) {
  enum { COUNT = 1 << 15 };
  planned_buffer *buffers = calloc(COUNT, sizeof *buffers);
  gap_finder finder;
  ok(gap_finder_make(&host_memory_default, COUNT, &finder));
  for (uint32_t i = 0; i < COUNT; ++i) {
    planned_buffer *b = &buffers[i];
    *b = (planned_buffer){.first = i, .last = _i ? COUNT : i + 1, .bytes = 8};
    b->offset = gap_find(&finder, b);
    gap_place(&finder, b);
    ck_assert_uint_eq(b->offset, PLAN_ALIGNMENT * (uint64_t)(_i ? i : i % 2));
  }
  ck_assert_uint_lt(finder.looked, (uint64_t)COUNT * COUNT / 64); /* COUNT * COUNT / 2 otherwise */
  gap_finder_free(&host_memory_default, &finder);
  free(buffers);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, gaps_are_those_of_a_plain_search, 0, 6);
  tcase_add_loop_test(t, long_plans_take_few_steps, 0, 2);
}

int main(void) { return run_suite("gaps", add_tests); }
