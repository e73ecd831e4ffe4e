/*
 * Losses of elements in pairs and their gradients, in WIDE. OP is mse, bce, huber or kl, and
 * `option` the operator's own attribute. T0 is the type of the tensors. See loss.c.
 */

/* What stands behind one element. */
typedef struct {
  WIDE x, target, weight, pos_weight;
} pair_t;

enum { HAS_WEIGHT = 1, HAS_POS_WEIGHT = 2 };

inline WIDE loss_mse(pair_t p, WIDE option) { return (p.x - p.target) * (p.x - p.target); }

inline WIDE slope_mse(pair_t p, WIDE option) { return 2 * (p.x - p.target); }

/* Both parts are 0 or more: nothing cancels, not even where x is infinite. */
inline WIDE loss_bce(pair_t p, WIDE option) {
  const WIDE tail = log1p(exp(-fabs(p.x)));
  return (1 - p.target) * (p.x > 0 ? p.x + tail : tail) +
         p.pos_weight * p.target * (p.x < 0 ? tail - p.x : tail);
}

inline WIDE slope_bce(pair_t p, WIDE option) {
  return 1 - p.target - (1 + (p.pos_weight - 1) * p.target) / (1 + exp(p.x));
}

inline WIDE loss_huber(pair_t p, WIDE option) {
  const WIDE d = fabs(p.x - p.target);
  return d <= option ? d * d / 2 : option * (d - option / 2);
}

inline WIDE slope_huber(pair_t p, WIDE option) {
  const WIDE d = p.x - p.target;
  return d > option ? option : d < -option ? -option : d;
}

inline WIDE loss_kl(pair_t p, WIDE option) {
  if (option != 0) return exp(p.target) * (p.target - p.x);
  return p.target == 0 ? 0 : p.target * (log(p.target) - p.x);
}

inline WIDE slope_kl(pair_t p, WIDE option) { return option != 0 ? -exp(p.target) : -p.target; }

inline pair_t pair_at(__global const STORED(T0) *x, __global const STORED(T0) *target,
                      __global const STORED(T0) *weight, __global const STORED(T0) *pos_weight,
                      int has, long last, long i) {
  pair_t p;
  p.x = LOAD(T0, x, i);
  p.target = LOAD(T0, target, i);
  p.weight = has & HAS_WEIGHT ? LOAD(T0, weight, i) : 1;
  p.pos_weight = has & HAS_POS_WEIGHT ? LOAD(T0, pos_weight, i % last) : 1;
  return p;
}

/* Work-item i of `parts` does elements i first + k step, 0 <= k < each, and writes the losses to y or
 * their sum to partial, as far as there are these. `last` is the size of the last axis. */
__kernel void pair_loss(CONST_TENSOR(T0, x), CONST_TENSOR(T0, target), CONST_TENSOR(T0, weight),
                        CONST_TENSOR(T0, pos_weight), TENSOR(T0, y),
                        __global WIDE *partial_buffer, ulong partial_first, const long count,
                        const long parts, const long each, const long first, const long step, const int has_y,
                        const int has_partial, const int has, const long last,
                        const WIDE option) {
  const long me = get_global_id(0);
  WIDE sum = 0;
  if (me >= parts) return;
  for (long k = 0; k < each; ++k) {
    const long i = me * first + k * step;
    if (i >= count) break;
    const pair_t p = pair_at(AT(T0, x), AT(T0, target), AT(T0, weight), AT(T0, pos_weight), has,
                             last, i);
    const WIDE loss = p.weight * PASTE(loss_, OP)(p, option);
    if (has_y) SAVE(T0, AT(T0, y), i, (WORK(T0))loss);
    sum += loss;
  }
  if (!has_partial) return;
  __global WIDE *partial = partial_buffer + partial_first;
  partial[2 * me] = sum;
  partial[2 * me + 1] = 0;
}

__kernel void pair_loss_grad(CONST_TENSOR(T0, dy), CONST_TENSOR(T0, x), CONST_TENSOR(T0, target),
                             CONST_TENSOR(T0, weight), CONST_TENSOR(T0, pos_weight),
                             TENSOR(T0, dx), const long count, const int one_dy,
                             const WIDE divisor, const int has, const long last,
                             const WIDE option) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const pair_t p =
      pair_at(AT(T0, x), AT(T0, target), AT(T0, weight), AT(T0, pos_weight), has, last, i);
  const WIDE dy = LOAD(T0, AT(T0, dy), one_dy ? 0 : i);
  SAVE(T0, AT(T0, dx), i,
       (WORK(T0))(p.weight * PASTE(slope_, OP)(p, option) * dy * (1 / divisor)));
}
