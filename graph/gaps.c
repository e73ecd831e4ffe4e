/*
 * The buffers placed so far, in runs of up to RUN_MOST by offset. A run knows when the first of its
 * buffers begins to live and the last one ends, and the other way round, so that most runs are
 * passed at once: those that live at another time, and those that live meanwhile and leave no gap
 * that is large enough. A plan of n buffers then takes n * n / RUN_MOST steps rather than n * n.
 */
#include "graph/gaps.h"

#include <string.h>

enum { RUN_MOST = 128 };

struct gap_run {
  uint32_t count;
  uint32_t first, last;                 /* from the first that begins to the last that ends */
  uint32_t latest_first, earliest_last; /* from the last that begins to the first that ends */
  uint64_t begin, end;                  /* where the first lies, and how far the furthest reaches */
  uint64_t widest;                      /* of the gaps between all of them */
  planned_buffer *of[RUN_MOST];
};

static uint64_t end_of(const planned_buffer *b) { return b->offset + plan_rounded(b->bytes); }

tn_status gap_finder_make(const host_memory *memory, uint32_t most, gap_finder *finder) {
  const size_t runs = (size_t)most / (RUN_MOST / 2) + 1; /* all but one are half full */
  *finder = (gap_finder){.runs = host_alloc(memory, runs * sizeof *finder->runs),
                         .order = host_alloc(memory, runs * sizeof *finder->order)};
  if (finder->runs && finder->order) return TN_OK;
  gap_finder_free(memory, finder);
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
}

void gap_finder_free(const host_memory *memory, gap_finder *finder) {
  host_free(memory, finder->runs);
  host_free(memory, finder->order);
  *finder = (gap_finder){NULL};
}

void gap_finder_clear(gap_finder *finder) {
  finder->num_runs = 0;
  finder->looked = 0;
}

/* --- finding --- */

typedef struct search {
  uint64_t wanted, end, best, best_gap;
} search;

/* What lies from `offset` to `end` is in the way. */
static void pass(search *s, uint64_t offset, uint64_t end) {
  if (offset > s->end && offset - s->end >= s->wanted && offset - s->end < s->best_gap) {
    s->best = s->end;
    s->best_gap = offset - s->end;
  }
  if (end > s->end) s->end = end;
}

/* Returns how many buffers it looks at, and one for the run. */
static uint64_t pass_run(search *s, const gap_run *run, const planned_buffer *b) {
  if (run->last < b->first || run->first > b->last) return 1;
  const bool all = run->earliest_last >= b->first && run->latest_first <= b->last;
  if (all && run->widest < s->wanted) {
    pass(s, run->begin, run->end);
    return 1;
  }
  for (uint32_t i = 0; i < run->count; ++i) {
    const planned_buffer *other = run->of[i];
    if (other->last < b->first || other->first > b->last) continue;
    pass(s, other->offset, end_of(other));
  }
  return 1 + run->count;
}

uint64_t gap_find(gap_finder *finder, const planned_buffer *b) {
  search s = {.wanted = plan_rounded(b->bytes), .best = UINT64_MAX, .best_gap = UINT64_MAX};
  for (uint32_t i = 0; i < finder->num_runs; ++i)
    finder->looked += pass_run(&s, &finder->runs[finder->order[i]], b);
  return s.best == UINT64_MAX ? s.end : s.best;
}

/* --- placing --- */

static void sum_up(gap_run *run) {
  run->first = run->earliest_last = UINT32_MAX;
  run->last = run->latest_first = 0;
  run->begin = run->end = run->of[0]->offset;
  run->widest = 0;
  for (uint32_t i = 0; i < run->count; ++i) {
    const planned_buffer *b = run->of[i];
    if (b->first < run->first) run->first = b->first;
    if (b->first > run->latest_first) run->latest_first = b->first;
    if (b->last > run->last) run->last = b->last;
    if (b->last < run->earliest_last) run->earliest_last = b->last;
    if (b->offset > run->end && b->offset - run->end > run->widest)
      run->widest = b->offset - run->end;
    if (end_of(b) > run->end) run->end = end_of(b);
  }
}

/* By offset; at one offset by time, so that neighbours live at about the same time. */
static bool lies_before(const planned_buffer *a, const planned_buffer *b) {
  return a->offset != b->offset ? a->offset < b->offset : a->first <= b->first;
}

/* The last run whose first buffer lies before `b`, or the first of all. pre: there is one. */
static uint32_t run_for(const gap_finder *finder, const planned_buffer *b) {
  uint32_t low = 0, high = finder->num_runs;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (lies_before(finder->runs[finder->order[middle]].of[0], b))
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* The upper half of a full run becomes one of its own, behind it. */
static void split(gap_finder *finder, uint32_t at) {
  gap_run *from = &finder->runs[finder->order[at]], *to = &finder->runs[finder->num_runs];
  from->count = to->count = RUN_MOST / 2;
  memcpy(to->of, from->of + RUN_MOST / 2, to->count * sizeof *to->of);
  sum_up(from);
  sum_up(to);
  memmove(finder->order + at + 2, finder->order + at + 1,
          (finder->num_runs - at - 1) * sizeof *finder->order);
  finder->order[at + 1] = finder->num_runs++;
}

void gap_place(gap_finder *finder, planned_buffer *b) {
  if (!finder->num_runs) {
    finder->order[0] = finder->num_runs++;
    finder->runs[0].count = 0;
  }
  uint32_t at = run_for(finder, b);
  if (finder->runs[finder->order[at]].count == RUN_MOST) {
    split(finder, at);
    at += lies_before(finder->runs[finder->order[at + 1]].of[0], b);
  }
  gap_run *run = &finder->runs[finder->order[at]];
  uint32_t i = run->count++;
  for (; i > 0 && !lies_before(run->of[i - 1], b); --i) run->of[i] = run->of[i - 1];
  run->of[i] = b;
  sum_up(run);
}
