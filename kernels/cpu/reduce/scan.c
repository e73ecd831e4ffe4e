/*
 * cumsum, cumprod and cummax along one axis. Floats are summed and multiplied in double.
 */
#include "kernels/cpu/reduce/scan.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
  PART = 16384,      /* elements of a part */
  PARTS_EACH = 16,   /* parts that a thread gets in a round, about its share of the caches */
  FEW_TILES = 16,    /* with fewer, lines fall into parts */
  NARROW_TILE = 128, /* lines of a tile that falls into parts */
};

/* Whole lines: index t is a tile. */
static tn_status scan_tiles(void *ctx, int64_t begin, int64_t end) {
  const scan_call *call = ctx;
  for (int64_t t = begin; t < end; t++) {
    const scan_stretch s = scan_stretch_of(call, t, 0, call->view.size);
    call->fns.scan(call, &s, NULL, NULL);
  }
  return TN_OK;
}

/* The items before part k of the round of a tile. */
static char *items_at(const scan_call *call, int64_t tile, int64_t k) {
  const int64_t bytes = call->width * (int64_t)call->fns.item;
  return call->items + (tile * (call->round + 1) + k) * bytes;
}

static char *after_at(const scan_call *call, int64_t tile, int64_t k) {
  return call->after + (tile * call->round + k) * call->width * (int64_t)call->fns.item;
}

static scan_stretch part_of(const scan_call *call, int64_t tile, int64_t k) {
  const int64_t first = (call->begin + k) * call->part;
  return scan_stretch_of(call, tile, first, cpu_min(call->part, call->view.size - first));
}

static tn_status fold_parts(void *ctx, int64_t begin, int64_t end) {
  const scan_call *call = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t tile = i / call->count, k = i % call->count;
    const scan_stretch s = part_of(call, tile, k);
    const bool last = s.first + s.n == call->view.size;
    call->unsafe[tile * call->round + k] =
        !last && !call->fns.fold(call, &s, items_at(call, tile, k + 1));
  }
  return TN_OK;
}

static tn_status scan_parts(void *ctx, int64_t begin, int64_t end) {
  const scan_call *call = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t tile = i / call->count, k = i % call->count;
    const scan_stretch s = part_of(call, tile, k);
    call->fns.scan(call, &s, s.first ? items_at(call, tile, k) : NULL, after_at(call, tile, k));
  }
  return TN_OK;
}

static void join_parts(const scan_call *call) {
  for (int64_t t = 0; t < call->tiles; t++)
    for (int64_t k = 0; k < call->count; k++) {
      const scan_stretch s = part_of(call, t, k);
      if (s.first && s.first + s.n < call->view.size)
        call->fns.join(items_at(call, t, k), items_at(call, t, k + 1), s.lines);
    }
}

/* How many parts of the round come before the first that is unsafe in any tile. */
static int64_t safe_parts(const scan_call *call) {
  for (int64_t k = 0; k < call->count; k++)
    for (int64_t t = 0; t < call->tiles; t++)
      if (call->unsafe[t * call->round + k]) return k;
  return call->count;
}

/* All that comes behind the first `k` parts of the round, in one piece. */
static void scan_rest(const scan_call *call, int64_t k) {
  for (int64_t t = 0; t < call->tiles; t++) {
    scan_stretch s = part_of(call, t, k);
    s.n = call->view.size - s.first;
    call->fns.scan(call, &s, s.first ? items_at(call, t, k) : NULL, NULL);
  }
}

/* How many parts of the round come before the first that began with something other than what the
 * one before it ended with, which all tiles then have in its place. */
static int64_t agreed_parts(const scan_call *call) {
  const size_t bytes = (size_t)call->width * call->fns.item;
  bool agree = true;
  for (int64_t k = 0; call->fns.agree && k < call->count; k++) {
    for (int64_t t = 0; t < call->tiles && agree; t++) {
      const scan_stretch s = part_of(call, t, k);
      if (s.first + s.n == call->view.size) return call->count;
      agree = call->fns.agree(after_at(call, t, k), items_at(call, t, k + 1), s.lines);
    }
    if (agree) continue;
    for (int64_t t = 0; t < call->tiles; t++)
      memcpy(items_at(call, t, k + 1), after_at(call, t, k), bytes);
    return k + 1;
  }
  return call->count;
}

static tn_status scan_rounds(const tn_host *host, scan_call *call) {
  for (; call->begin < call->parts; call->begin += call->round) {
    const int64_t count = cpu_min(call->round, call->parts - call->begin);
    call->count = count;
    tn_status status = host->parallel_for(host, count * call->tiles, 1, fold_parts, call);
    if (status) return status;
    call->count = safe_parts(call);
    join_parts(call);
    status = host->parallel_for(host, call->count * call->tiles, 1, scan_parts, call);
    if (status) return status;
    const int64_t agreed = agreed_parts(call);
    if (agreed < call->count) return scan_rest(call, agreed), TN_OK;
    if (call->count < count) return scan_rest(call, call->count), TN_OK;
    const size_t bytes = (size_t)call->width * call->fns.item;
    for (int64_t t = 0; t < call->tiles; t++)
      memcpy(items_at(call, t, 0), items_at(call, t, call->round), bytes);
  }
  return TN_OK;
}

/* By parts, in rounds that stay in the caches from the first pass to the second. */
static tn_status scan_by_parts(const tn_host *host, scan_call *call) {
  const int64_t each = host->num_threads > 1 ? (int64_t)host->num_threads * PARTS_EACH : 4;
  call->round = cpu_min(call->parts, cpu_max(1, each / call->tiles));
  const size_t items = (size_t)(call->tiles * (call->round + 1) * call->width) * call->fns.item;
  const size_t after = (size_t)(call->tiles * call->round * call->width) * call->fns.item;
  const size_t flags = (size_t)(call->tiles * call->round) * sizeof *call->unsafe;
  call->items = host->alloc(host, items + after + flags, 64);
  if (!call->items)
    return host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes for the parts of a scan",
                      items + after + flags);
  call->after = call->items + items;
  call->unsafe = (bool *)(call->after + after);
  const tn_status status = scan_rounds(host, call);
  host->free(host, call->items);
  return status;
}

static tn_status scan_run(const tn_kernel_args *args, int64_t axis, bool reverse, bool exclusive,
                          scan_fns fns) {
  scan_call call = {.x = args->in[0]->data,
                    .y = args->out[0]->data,
                    .index = args->num_out > 1 && args->out[1] ? args->out[1]->data : NULL,
                    .view = cpu_view_axis(args->in[0], axis),
                    .reverse = reverse,
                    .exclusive = exclusive,
                    .fns = fns,
                    .width = NARROW_TILE};
  const cpu_axis_view v = call.view;
  const int64_t lines = v.outer * v.inner;
  if (lines * v.size == 0) return TN_OK;
  call.tiles = v.outer * cpu_ceil_div(v.inner, call.width);
  call.part = PART / cpu_min(v.inner, call.width);
  call.parts = cpu_ceil_div(v.size, call.part);
  const bool whole = fns.exact && args->host->num_threads < 2;
  if (call.tiles < FEW_TILES && call.parts > 1 && !whole) return scan_by_parts(args->host, &call);
  /* Wide tiles read long runs of memory; each thread should still get some. */
  while (call.width < SCAN_TILE && lines > 4 * call.width * (int64_t)args->host->num_threads)
    call.width *= 2;
  call.tiles = v.outer * cpu_ceil_div(v.inner, call.width);
  const int64_t work = v.size * cpu_min(v.inner, call.width);
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / work);
  if (call.tiles <= grain) return scan_tiles(&call, 0, call.tiles);
  return args->host->parallel_for(args->host, call.tiles, grain, scan_tiles, &call);
}

/* Products in double: what is below its normal numbers counts as 0, as it does in every
 * narrower type; to multiply it would take a hundred times as long. */
static inline double settle_double(double x) { return fabs(x) < DBL_MIN ? copysign(0, x) : x; }

/* The product of two that are safe loses nothing. */
static inline int is_unsafe(double x) { return !((fabs(x) >= 0x1p-500) & (fabs(x) <= 0x1p500)); }

/* A sum of doubles that others might take out of range, or that has left it, be it that elements
 * had done so before. */
static inline int is_huge(double x) { return !(fabs(x) <= 0x1p1000); }

/* Rounding apart. Infinities and zeros are themselves alone. */
static inline bool is_alike(double a, double b) {
  return a == b || fabs(a - b) <= 0x1p-30 * fabs(b) || (isnan(a) && isnan(b));
}

#define BODY "kernels/cpu/reduce/scan.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
