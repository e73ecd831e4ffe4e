/*
 * softmax, log_softmax and their gradients along one axis, seen as [outer, size, inner].
 * Slices that lie side by side (inner > 1) are worked on together.
 */
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
#include <immintrin.h>

/* e^x of numbers that are at most 0, by the steps of exp_f but the scale, which one instruction
 * applies with one rounding. NaN stays NaN. */
static inline __m512 softmax_exp(__m512 x) {
  const __m512 c = _mm512_max_ps(_mm512_set1_ps(-104.0f), x), round = _mm512_set1_ps(0x1.8p23f);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(c, _mm512_set1_ps(1.44269504f), round), round);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), c);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.42860682e-6f), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(1.392691806e-3f), r, _mm512_set1_ps(8.363767023e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.166655016e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.666657342e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  const __m512 y = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
  return _mm512_scalef_ps(_mm512_add_ps(y, _mm512_set1_ps(1.0f)), n);
}

static inline __m512d softmax_add(__m512d sum, __m512 terms) {
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(terms, 1));
  return _mm512_add_pd(_mm512_add_pd(sum, high), _mm512_cvtps_pd(_mm512_castps512_ps256(terms)));
}
#endif

#define SOFTMAX_TILE 64

typedef struct softmax_call {
  const void *a, *b;
  void *y;
  cpu_axis_view view;
} softmax_call;

/* Tiles of SOFTMAX_TILE slices; one slice where they do not lie side by side. */
static tn_status softmax_run(const tn_kernel_args *args, int64_t axis, tn_range_fn fn) {
  softmax_call call = {.a = args->in[0]->data,
                       .b = args->num_in > 1 ? args->in[1]->data : NULL,
                       .y = args->out[0]->data,
                       .view = cpu_view_axis(args->in[0], axis)};
  const cpu_axis_view v = call.view;
  if (v.outer * v.size * v.inner == 0) return TN_OK;
  const int64_t tiles = v.outer * cpu_ceil_div(v.inner, SOFTMAX_TILE);
  const int64_t work = v.size * cpu_min(v.inner, SOFTMAX_TILE);
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / work);
  if (tiles <= grain) return fn(&call, 0, tiles);
  return args->host->parallel_for(args->host, tiles, grain, fn, &call);
}

/* Where tile t of a view begins, and how many slices it has. */
static inline int64_t softmax_tile(const cpu_axis_view *v, int64_t t, int64_t *slices) {
  const int64_t per = cpu_ceil_div(v->inner, SOFTMAX_TILE), at = t % per * SOFTMAX_TILE;
  *slices = cpu_min(SOFTMAX_TILE, v->inner - at);
  return t / per * v->size * v->inner + at;
}

#define BODY "kernels/cpu/norm/softmax.inc"
#include "kernels/cpu/base/stamp_float.inc"
