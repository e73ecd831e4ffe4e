/*
 * Random numbers: element i of the logical row-major order draws from a counter that
 * follows from i alone, so layout and threads do not matter.
 */
#include <math.h>

#include "kernels.h"
#include "kernels/common/philox.h"
#include "kernels/common/scalars.h"
#include "kernels/common/uniform.h"
#include "map.h"

#define TWO_PI 6.28318530717958647693

/* The words of one counter, kept because neighbours share them. */
typedef struct source {
  uint64_t seed, offset, at;
  philox_words words;
} source;

static source source_of(uint64_t seed, uint64_t offset) {
  return (source){seed, offset, 0, philox_at(seed, offset)};
}

/* The words `index` counters behind the first. */
static const uint32_t *draw(source *s, uint64_t index) {
  if (s->at != index) s->words = philox_at(s->seed, s->offset + index);
  s->at = index;
  return s->words.w;
}

static void dropout_f64(const run *r, double *const *in, double *const *out) {
  const tn_dropout_attrs *attrs = r->attrs;
  double scale = 1 / (1 - attrs->p);
  if (r->dtype != TN_F64) scale = (float)scale;
  source s =
      source_of(SCALAR_SEED(attrs, tn_dropout_attrs), SCALAR_OFFSET(attrs, tn_dropout_attrs));
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t element = (uint64_t)(r->first + i);
    bool kept = (double)philox_uniform24(draw(&s, element / 4)[element % 4]) >= attrs->p;
    out[0][i] = kept ? in[0][i] * scale : 0;
    out[1][i] = kept;
  }
}

tn_status reference_dropout(const tn_kernel_args *args) { return map_f64(args, dropout_f64); }

static void dropout_grad_f64(const run *r, double *const *in, double *const *out) {
  const tn_dropout_grad_attrs *attrs = r->attrs;
  double scale = 1 / (1 - attrs->p);
  if (r->dtype != TN_F64) scale = (float)scale;
  for (int64_t i = 0; i < r->n; ++i) out[0][i] = in[1][i] != 0 ? in[0][i] * scale : 0;
}

tn_status reference_dropout_grad(const tn_kernel_args *args) {
  return map_f64(args, dropout_grad_f64);
}

/* In float, as every device computes it, so that the numbers agree to the bit. */
static double uniform_narrow(const uniform_range *range, source *s, uint64_t element) {
  float u = philox_uniform24(draw(s, element / 4)[element % 4]);
  return (double)fmaf((float)range->width, u, (float)range->low);
}

static double uniform_wide(const uniform_range *range, source *s, uint64_t element) {
  const uint32_t *w = draw(s, element / 2) + 2 * (element % 2);
  return range->low + range->width * philox_uniform53(w[0], w[1]);
}

static uniform_range range_of(const run *r) {
  const tn_uniform_attrs *attrs = r->attrs;
  uniform_type t = r->dtype == TN_F64   ? uniform_type_f64()
                   : r->dtype == TN_F32 ? uniform_type_f32()
                   : r->dtype == TN_F16 ? uniform_type_f16()
                                        : uniform_type_bf16();
  return uniform_range_of(attrs->low, attrs->high, t);
}

static void uniform_f64(const run *r, double *const *in, double *const *out) {
  const tn_uniform_attrs *attrs = r->attrs;
  const uniform_range range = range_of(r);
  source s =
      source_of(SCALAR_SEED(attrs, tn_uniform_attrs), SCALAR_OFFSET(attrs, tn_uniform_attrs));
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t element = (uint64_t)(r->first + i);
    double y = range.back * (r->dtype == TN_F64 ? uniform_wide(&range, &s, element)
                                                : uniform_narrow(&range, &s, element));
    out[0][i] = fmax(range.least, fmin(y, range.most));
  }
}

tn_status reference_uniform(const tn_kernel_args *args) { return map_f64(args, uniform_f64); }

/* Box and Muller 1958: a pair of elements from two uniform numbers. */
static double box_muller(double u1, double u2, bool odd) {
  double radius = sqrt(-2 * log(u1)), angle = TWO_PI * u2;
  return radius * (odd ? sin(angle) : cos(angle));
}

static double normal_narrow(source *s, uint64_t element) {
  const uint32_t *w = draw(s, element / 4) + 2 * (element % 4 / 2);
  return box_muller((double)philox_uniform24_positive(w[0]), (double)philox_uniform24(w[1]),
                    element % 2);
}

static double normal_wide(source *s, uint64_t element) {
  const uint32_t *w = draw(s, element / 2);
  return box_muller(philox_uniform53_positive(w[0], w[1]), philox_uniform53(w[2], w[3]),
                    element % 2);
}

static void normal_f64(const run *r, double *const *in, double *const *out) {
  const tn_normal_attrs *attrs = r->attrs;
  source s = source_of(SCALAR_SEED(attrs, tn_normal_attrs), SCALAR_OFFSET(attrs, tn_normal_attrs));
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) {
    uint64_t element = (uint64_t)(r->first + i);
    double z = r->dtype == TN_F64 ? normal_wide(&s, element) : normal_narrow(&s, element);
    out[0][i] = attrs->mean + attrs->std * z;
  }
}

tn_status reference_normal(const tn_kernel_args *args) { return map_f64(args, normal_f64); }
