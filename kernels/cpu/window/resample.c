/*
 * Reading one axis at places. What an output reads along the axis is worked out once per call, as a
 * list of places and weights for each output; the gradient runs the same on the list turned round.
 * Where other axes lie behind, rows of them are blended; else a few lines are read together.
 */
#include <string.h>

#include "kernels/common/resample.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { RESAMPLE_RUN = 256, RESAMPLE_LINES = 4 };

/* For each of `rows` results: entries begin[i] <= k < begin[i + 1]. */
typedef struct resample_table {
  int64_t rows, entries;
  int64_t *begin;
  double *weight;
  int32_t *at;
} resample_table;

typedef struct resample_call {
  const tn_host *host;
  const void *from;
  void *to;
  const void *weight; /* the table's in type C */
  resample_table table;
  int64_t outer, inner, size; /* size: of `from` along the axis */
  double value;               /* of results that read nothing */
} resample_call;

/* The first and last element of x that a reading stands for. */
static void resample_ends(const resample_plan *p, const resample_reading *r, int64_t ends[2]) {
  const bool any = r->first <= r->last;
  ends[0] = any ? resample_inside(p, r->first) : 0;
  ends[1] = any ? resample_inside(p, r->last) : -1;
}

static tn_status resample_alloc(const tn_host *host, resample_table *t, size_t more) {
  const size_t entry = sizeof *t->weight + sizeof *t->at + more;
  char *room = host->alloc(
      host, (size_t)(t->rows + 1) * sizeof *t->begin + (size_t)t->entries * entry + 64, 64);
  if (room == NULL) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for resample's weights");
  t->begin = (int64_t *)(void *)room;
  t->weight = (double *)(void *)(t->begin + t->rows + 1);
  t->at = (int32_t *)(void *)((char *)(t->weight + t->entries) + (size_t)t->entries * more);
  return TN_OK;
}

/* The entries of output i, of which those that one border stands for are one. */
static int64_t resample_fill(const resample_plan *p, int64_t i, int32_t *at, double *weight) {
  const resample_reading r = resample_read(p, i);
  int64_t n = 0;
  for (int64_t j = r.first; j <= r.last; j++) {
    const int32_t place = (int32_t)resample_inside(p, j);
    const double w = resample_weight(p, r.place, j) / r.total;
    if (n > 0 && at[n - 1] == place) {
      weight[n - 1] += w;
    } else {
      at[n] = place;
      weight[n++] = w;
    }
  }
  return n;
}

/* The table of the forward operator; `more` bytes of each entry are the caller's. */
static tn_status resample_table_of(const tn_host *host, const resample_plan *p, size_t more,
                                   resample_table *t) {
  t->rows = p->out;
  t->entries = 0;
  for (int64_t i = 0; i < p->out; i++) {
    const resample_reading r = resample_read(p, i);
    int64_t ends[2];
    resample_ends(p, &r, ends);
    t->entries += ends[1] - ends[0] + 1;
  }
  const tn_status status = resample_alloc(host, t, more);
  if (status != TN_OK) return status;
  t->begin[0] = 0;
  for (int64_t i = 0; i < p->out; i++) {
    const int64_t from = t->begin[i];
    t->begin[i + 1] = from + resample_fill(p, i, t->at + from, t->weight + from);
  }
  return TN_OK;
}

/* The same by the elements of x that are read: where they go, in order. Takes `t` over. */
static tn_status resample_turn(const tn_host *host, const resample_plan *p, size_t more,
                               resample_table *t) {
  resample_table by = {.rows = p->size, .entries = t->entries};
  const tn_status status = resample_alloc(host, &by, more);
  if (status == TN_OK) {
    memset(by.begin, 0, (size_t)(by.rows + 1) * sizeof *by.begin);
    for (int64_t k = 0; k < t->begin[t->rows]; k++) by.begin[t->at[k] + 1]++;
    for (int64_t j = 0; j < by.rows; j++) by.begin[j + 1] += by.begin[j];
    for (int64_t i = 0; i < t->rows; i++)
      for (int64_t k = t->begin[i]; k < t->begin[i + 1]; k++) {
        const int64_t to = by.begin[t->at[k]]++;
        by.at[to] = (int32_t)i;
        by.weight[to] = t->weight[k];
      }
    for (int64_t j = by.rows; j > 0; j--) by.begin[j] = by.begin[j - 1];
    by.begin[0] = 0;
  }
  host->free(host, t->begin);
  *t = by;
  return status;
}

#define BODY "kernels/cpu/window/resample.inc"
#include "kernels/cpu/base/stamp_float.inc"
