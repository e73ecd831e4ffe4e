/*
 * Losses over classes and their gradients, in WIDE. Each target names one element of a slice of
 * x [samples, classes, inner] along axis 1. A target outside the classes makes its loss NaN and
 * its gradient 0; one that is ignored has loss and gradient 0 and does not count. OP is nll or
 * entropy. T0 is the type of x, T1 of the targets. See loss.c.
 */

/* class_shape of loss.c. */
typedef struct {
  long targets, classes, inner, ignored;
  int ignores, reserved;
} class_t;

inline __global const STORED(T0) *slice_of(__global const STORED(T0) *x, const class_t *c,
                                           long i) {
  return x + i / c->inner * c->classes * c->inner + i % c->inner;
}

inline bool is_ignored(const class_t *c, long target) {
  return c->ignores && target == c->ignored;
}

inline bool is_class(const class_t *c, long target) { return target >= 0 && target < c->classes; }

/* What all classes of a slice have in common. */
typedef struct {
  WIDE most, sum; /* the greatest x, and the sum of e^(x - most) */
} slice_t;

inline slice_t look_nll(__global const STORED(T0) *x, const class_t *c) {
  slice_t s = {0, 0};
  return s;
}

inline WIDE loss_nll(__global const STORED(T0) *x, const class_t *c, slice_t s, long target,
                     WIDE smoothing) {
  return -(WIDE)LOAD(T0, x, target * c->inner);
}

inline WIDE slope_nll(WIDE x, const class_t *c, slice_t s, bool hit, WIDE smoothing) {
  return hit ? -1 : 0;
}

inline slice_t look_entropy(__global const STORED(T0) *x, const class_t *c) {
  slice_t s = {-INFINITY, 0};
  for (long k = 0; k < c->classes; ++k) {
    const WIDE value = LOAD(T0, x, k * c->inner);
    if (value > s.most) s.most = value;
  }
  for (long k = 0; k < c->classes; ++k) s.sum += exp(LOAD(T0, x, k * c->inner) - s.most);
  return s;
}

inline WIDE loss_entropy(__global const STORED(T0) *x, const class_t *c, slice_t s, long target,
                         WIDE smoothing) {
  WIDE wanted = LOAD(T0, x, target * c->inner) - s.most;
  if (smoothing > 0) {
    WIDE together = 0;
    for (long k = 0; k < c->classes; ++k) together += LOAD(T0, x, k * c->inner) - s.most;
    wanted = (1 - smoothing) * wanted + smoothing / (WIDE)c->classes * together;
  }
  return log(s.sum) - wanted;
}

inline WIDE slope_entropy(WIDE x, const class_t *c, slice_t s, bool hit, WIDE smoothing) {
  return exp(x - s.most) / s.sum - (hit ? 1 - smoothing : 0) - smoothing / (WIDE)c->classes;
}

/* Work-item i of `parts` does targets i first + k step, 0 <= k < each, and writes the losses to y or its
 * sums of losses and counted targets to partial, as far as there are these. */
__kernel void class_loss(CONST_TENSOR(T0, x), CONST_TENSOR(T1, target), TENSOR(T0, y),
                         __global WIDE *partial_buffer, ulong partial_first, const long parts,
                         const long each, const long first, const long step, const int has_y,
                         const int has_partial, const WIDE smoothing, const class_t c) {
  const long me = get_global_id(0);
  WIDE sum = 0, counted = 0;
  if (me >= parts) return;
  for (long k = 0; k < each; ++k) {
    const long i = me * first + k * step;
    if (i >= c.targets) break;
    const long target = LOAD(T1, AT(T1, target), i);
    __global const STORED(T0) *x = slice_of(AT(T0, x), &c, i);
    WIDE loss = NAN;
    if (is_ignored(&c, target))
      loss = 0;
    else if (is_class(&c, target))
      loss = PASTE(loss_, OP)(x, &c, PASTE(look_, OP)(x, &c), target, smoothing);
    if (has_y) SAVE(T0, AT(T0, y), i, (WORK(T0))loss);
    sum += loss;
    counted += is_ignored(&c, target) ? 0 : 1;
  }
  if (!has_partial) return;
  __global WIDE *partial = partial_buffer + partial_first;
  partial[2 * me] = sum;
  partial[2 * me + 1] = counted;
}

/* Sums as those of class_loss, of the counted targets alone. */
__kernel void count_targets(CONST_TENSOR(T1, target), __global WIDE *partial_buffer,
                            ulong partial_first, const long parts, const long each,
                            const long first, const long step, const class_t c) {
  const long me = get_global_id(0);
  WIDE counted = 0;
  if (me >= parts) return;
  for (long k = 0; k < each; ++k) {
    const long i = me * first + k * step;
    if (i >= c.targets) break;
    counted += is_ignored(&c, LOAD(T1, AT(T1, target), i)) ? 0 : 1;
  }
  (partial_buffer + partial_first)[2 * me + 1] = counted;
}

/* One work-item per target. The gradient is divided by the divisor, or by partial[0] where it
 * is 0. */
__kernel void class_loss_grad(CONST_TENSOR(T0, dy), CONST_TENSOR(T0, x), CONST_TENSOR(T1, target),
                              TENSOR(T0, dx), __global const WIDE *partial_buffer,
                              ulong partial_first, const int one_dy, const WIDE divisor,
                              const WIDE smoothing, const class_t c) {
  const long i = get_global_id(0);
  if (i >= c.targets) return;
  const long target = LOAD(T1, AT(T1, target), i);
  const bool counts = is_class(&c, target) && !is_ignored(&c, target);
  __global const STORED(T0) *x = slice_of(AT(T0, x), &c, i);
  __global STORED(T0) *dx = AT(T0, dx) + (x - AT(T0, x));
  slice_t s = {0, 0};
  if (counts) s = PASTE(look_, OP)(x, &c);
  const WIDE scale = 1 / (divisor > 0 ? divisor : partial_buffer[partial_first]);
  const WIDE dy = LOAD(T0, AT(T0, dy), one_dy ? 0 : i);
  for (long k = 0; k < c.classes; ++k) {
    WIDE slope = 0;
    if (counts) {
      const WIDE value = LOAD(T0, x, k * c.inner);
      slope = PASTE(slope_, OP)(value, &c, s, k == target, smoothing);
      if (slope != 0) slope *= dy * scale;
    }
    SAVE(T0, dx, k * c.inner, (WORK(T0))slope);
  }
}
