/*
 * Normalisation. A set is what mean and variance are taken of: `segments` runs of `length`
 * neighbours, `gap` elements from begin to begin. Every element belongs to a channel, which has
 * a weight: runs of batches and images have one channel each, rows one per element. One
 * work-group does one set. T0 is the type of x, T1 of the weights, T2 of the statistics. See
 * norm.c.
 *
 * Constant C0: partial sums of one work-item, which a processor adds to side by side.
 */

/* norm_shape of norm.c. The first channel of a set is set % groups * set_channels. */
typedef struct {
  long sets, segments, length, gap, set_step;
  long groups, set_channels, segment_channels, element_channels;
  long samples, channels, inner; /* x as [samples, channels, inner] */
} norm_t;

enum { CENTRED = 1, HAS_GAMMA = 2, HAS_BETA = 4, HAS_MEAN = 8, HAS_RSTD = 16, HAS_RUNNING = 32 };

/* The sum of the group's numbers, in all of its work-items. */
inline WIDE sum_of_group(WIDE value, __local WIDE *room) {
  const int me = get_local_id(0);
  room[me] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    if (me < half_size) room[me] += room[me + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const WIDE sum = room[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

inline WIDE sum_of_parts(const WIDE *part) {
  WIDE sum = 0;
  for (int i = 0; i < C0; ++i) sum += part[i];
  return sum;
}

/* Adds x - shift, or its square, of this work-item's share of `length` neighbours. */
inline void add_run(__global const STORED(T0) *x, long length, WIDE shift, bool squared,
                    WIDE *part) {
  const long step = (long)get_local_size(0) * C0, me = get_local_id(0);
  const long whole = length / C0 * C0;
  for (long i = me * C0; i < whole; i += step)
    for (int k = 0; k < C0; ++k) {
      const WIDE d = LOAD(T0, x, i + k) - shift;
      part[k] += squared ? d * d : d;
    }
  for (long i = whole + me; i < length; i += get_local_size(0)) {
    const WIDE d = LOAD(T0, x, i) - shift;
    part[0] += squared ? d * d : d;
  }
}

inline WIDE mean_of(__global const STORED(T0) *x, const norm_t *s, WIDE shift, bool squared,
                    __local WIDE *room) {
  WIDE part[C0];
  for (int k = 0; k < C0; ++k) part[k] = 0;
  for (long i = 0; i < s->segments; ++i) add_run(x + i * s->gap, s->length, shift, squared, part);
  return sum_of_group(sum_of_parts(part), room) / (WIDE)(s->segments * s->length);
}

/* y = (x - mean) scale gamma + beta of one set. */
inline void transform(__global const STORED(T0) *x, __global STORED(T0) *y,
                      __global const STORED(T1) *gamma, __global const STORED(T1) *beta, int has,
                      long channel, const norm_t *s, WIDE mean, WIDE scale) {
  const long step = get_local_size(0);
  for (long k = 0; k < s->segments; ++k, channel += s->segment_channels) {
    __global const STORED(T0) *from = x + k * s->gap;
    __global STORED(T0) *to = y + k * s->gap;
    if (s->element_channels == 0) {
      const WIDE g = (has & HAS_GAMMA ? LOAD(T1, gamma, channel) : 1) * scale;
      const WIDE b = has & HAS_BETA ? LOAD(T1, beta, channel) : 0;
      for (long i = get_local_id(0); i < s->length; i += step)
        SAVE(T0, to, i, (WORK(T0))((LOAD(T0, from, i) - mean) * g + b));
    } else {
      for (long i = get_local_id(0); i < s->length; i += step) {
        const WIDE g = has & HAS_GAMMA ? LOAD(T1, gamma, i) : 1;
        const WIDE b = has & HAS_BETA ? LOAD(T1, beta, i) : 0;
        SAVE(T0, to, i, (WORK(T0))((LOAD(T0, from, i) - mean) * scale * g + b));
      }
    }
  }
}

inline void move_towards(__global STORED(T2) *running, long i, WIDE now, WIDE momentum) {
  const WIDE old = LOAD(T2, running, i);
  SAVE(T2, running, i, (WORK(T2))(old + momentum * (now - old)));
}

__kernel void norm_forward(CONST_TENSOR(T0, x), CONST_TENSOR(T1, gamma), CONST_TENSOR(T1, beta),
                           TENSOR(T0, y), TENSOR(T2, mean), TENSOR(T2, rstd),
                           TENSOR(T2, running_mean), TENSOR(T2, running_var), const int has,
                           const WIDE eps, const WIDE momentum, const norm_t s,
                           __local WIDE *room) {
  const long set = get_group_id(0), count = s.segments * s.length;
  __global const STORED(T0) *x = AT(T0, x) + set * s.set_step;
  WIDE mean = 0;
  if (has & CENTRED) { /* equal elements have exactly themselves as mean */
    const WIDE some = count ? (WIDE)LOAD(T0, x, 0) : 0;
    const WIDE first = isfinite(some) ? some : 0;
    mean = first + mean_of(x, &s, first, false, room);
  }
  const WIDE var = mean_of(x, &s, mean, true, room);
  const WIDE scale = 1 / sqrt(var + eps);
  if (get_local_id(0) == 0) {
    if (has & HAS_MEAN) SAVE(T2, AT(T2, mean), set, (WORK(T2))mean);
    if (has & HAS_RSTD) SAVE(T2, AT(T2, rstd), set, (WORK(T2))scale);
    if (has & HAS_RUNNING && count) {
      move_towards(AT(T2, running_mean), set, mean, momentum);
      if (count > 1) /* one value has no unbiased variance */
        move_towards(AT(T2, running_var), set, var * ((WIDE)count / (WIDE)(count - 1)), momentum);
    }
  }
  transform(x, AT(T0, y) + set * s.set_step, AT(T1, gamma), AT(T1, beta), has,
            set % s.groups * s.set_channels, &s, mean, scale);
}

__kernel void norm_inference(CONST_TENSOR(T0, x), CONST_TENSOR(T2, mean), CONST_TENSOR(T2, var),
                             CONST_TENSOR(T1, gamma), CONST_TENSOR(T1, beta), TENSOR(T0, y),
                             const int has, const WIDE eps, const norm_t s) {
  const long set = get_group_id(0);
  const WIDE scale = 1 / sqrt((WIDE)LOAD(T2, AT(T2, var), set) + eps);
  transform(AT(T0, x) + set * s.set_step, AT(T0, y) + set * s.set_step, AT(T1, gamma),
            AT(T1, beta), has, set, &s, LOAD(T2, AT(T2, mean), set), scale);
}

/* dx = rstd (g - mean g - z mean (g z)), g = dy gamma and z = (x - mean) rstd. */
__kernel void norm_grad_input(CONST_TENSOR(T0, dy), CONST_TENSOR(T0, x), CONST_TENSOR(T2, mean),
                              CONST_TENSOR(T2, rstd), CONST_TENSOR(T1, gamma), TENSOR(T0, dx),
                              const int has, const norm_t s, __local WIDE *room) {
  const long set = get_group_id(0), me = get_local_id(0), step = get_local_size(0);
  const long begin = set * s.set_step, channel = set % s.groups * s.set_channels;
  __global const STORED(T0) *x = AT(T0, x), *dy = AT(T0, dy);
  __global STORED(T0) *dx = AT(T0, dx);
  const WIDE mean = has & HAS_MEAN ? LOAD(T2, AT(T2, mean), set) : 0;
  const WIDE rstd = LOAD(T2, AT(T2, rstd), set);
  WIDE of_g = 0, of_gz = 0;
  for (long k = 0; k < s.segments; ++k)
    for (long i = me; i < s.length; i += step) {
      const long at = begin + k * s.gap + i;
      const long c = channel + k * s.segment_channels + i * s.element_channels;
      const WIDE gamma = has & HAS_GAMMA ? LOAD(T1, AT(T1, gamma), c) : 1;
      const WIDE g = LOAD(T0, dy, at) * gamma;
      of_g += g;
      of_gz += g * ((LOAD(T0, x, at) - mean) * rstd);
    }
  const WIDE count = (WIDE)(s.segments * s.length);
  of_g = sum_of_group(of_g, room) / count;
  of_gz = sum_of_group(of_gz, room) / count;
  if (!(has & CENTRED)) of_g = 0;
  for (long k = 0; k < s.segments; ++k)
    for (long i = me; i < s.length; i += step) {
      const long at = begin + k * s.gap + i;
      const long c = channel + k * s.segment_channels + i * s.element_channels;
      const WIDE gamma = has & HAS_GAMMA ? LOAD(T1, AT(T1, gamma), c) : 1;
      const WIDE z = (LOAD(T0, x, at) - mean) * rstd;
      SAVE(T0, dx, at, (WORK(T0))(rstd * (LOAD(T0, dy, at) * gamma - of_g - z * of_gz)));
    }
}

/* dgamma = sum dy z and dbeta = sum dy of one channel, over all samples: one work-group, which
 * is one work-item where inner is 1. */
__kernel void norm_grad_weight(CONST_TENSOR(T0, dy), CONST_TENSOR(T0, x), CONST_TENSOR(T2, mean),
                               CONST_TENSOR(T2, rstd), TENSOR(T1, dgamma), TENSOR(T1, dbeta),
                               const int has, const int batch, const norm_t s,
                               __local WIDE *room) {
  const long channel = get_group_id(0), step = get_local_size(0);
  WIDE of_dyz = 0, of_dy = 0;
  for (long n = 0; n < s.samples; ++n) {
    const long set = batch ? channel : n * s.groups + channel / (s.channels / s.groups);
    const long begin = (n * s.channels + channel) * s.inner;
    const WIDE mean = has & HAS_MEAN ? LOAD(T2, AT(T2, mean), set) : 0;
    const WIDE rstd = LOAD(T2, AT(T2, rstd), set);
    for (long i = get_local_id(0); i < s.inner; i += step) {
      const WIDE dy = LOAD(T0, AT(T0, dy), begin + i);
      of_dyz += dy * ((LOAD(T0, AT(T0, x), begin + i) - mean) * rstd);
      of_dy += dy;
    }
  }
  of_dyz = sum_of_group(of_dyz, room);
  of_dy = sum_of_group(of_dy, room);
  if (get_local_id(0)) return;
  if (has & HAS_GAMMA) SAVE(T1, AT(T1, dgamma), channel, (WORK(T1))of_dyz);
  if (has & HAS_BETA) SAVE(T1, AT(T1, dbeta), channel, (WORK(T1))of_dy);
}
