/*
 * Reductions: y = fold of x over some axes. OP names the fold; T0 is the output's type, T1 the
 * input's, which sums and products may widen. C0 work-items share an output: with 1 each has its own, with more they are one
 * work-group, which folds its partial results in local memory in a fixed order.
 * C1: 1 where indexes among the reduced elements need 64 bits.
 */
#if C1
typedef ulong count_t;
#else
typedef uint count_t;
#endif

typedef WORK(T1) num;
#if IS_FLOAT(T1)
typedef WIDE sum_t;
#define STORE_SUM(p, v) SAVE_WIDE(T0, p, 0, v)
#else
typedef ulong sum_t;
#define STORE_SUM(p, v) SAVE(T0, p, 0, (WORK(T0))(v))
#endif

#if IS_FLOAT(T1)
#define IS_NAN(v) ((v) != (v))
#else
#define IS_NAN(v) false
#endif

/* An element and where it stands; nothing yet where at < 0. NaN is beyond everything, and of
 * equals the first wins. */
typedef struct {
  num value;
  long at;
} found_t;

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define EITHER(a, b) ((a) | (b))
#define BOTH(a, b) ((a) & (b))
#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

static inline bool is_before(num a, num b, bool smallest) { return smallest ? a < b : a > b; }

static inline found_t further(found_t a, found_t b, bool smallest) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  const bool nan_a = IS_NAN(a.value), nan_b = IS_NAN(b.value);
  if (nan_a || nan_b) return nan_a && (!nan_b || a.at < b.at) ? a : b;
  if (is_before(a.value, b.value, smallest)) return a;
  if (is_before(b.value, a.value, smallest)) return b;
  return a.at < b.at ? a : b;
}
#define FURTHEST(a, b) further(a, b, false)
#define NEAREST(a, b) further(a, b, true)

/* Replaces every item's value by the fold of all. */
#if C0 > 1
#define SHARED(type, room) __local type room[C0]
#define FOLD(f, room, value)                                                                       \
  room[me] = value;                                                                                \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
  for (uint half_way = C0 / 2; half_way > 0; half_way /= 2) {                                      \
    if (me < half_way) room[me] = f(room[me], room[me + half_way]);                                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
  }                                                                                                \
  value = room[0];                                                                                 \
  barrier(CLK_LOCAL_MEM_FENCE)
#else
#define SHARED(type, room)
#define FOLD(f, room, value)
#endif

static inline long place_of(const walk_t *w, count_t i) {
  long at = 0;
  for (int d = w->rank - 1; d > 0; d--) {
    const count_t size = (count_t)w->size[d], next = i / size;
    at += (long)(i - next * size) * w->stride[0][d];
    i = next;
  }
  return at + (long)i * w->stride[0][0];
}

/* Runs the statement for every reduced element v, number i, of this item's share. */
#define EACH(statement)                                                                            \
  for (count_t i = me; i < n; i += C0) {                                                           \
    const num v = LOAD(T1, x + place_of(&reduced, i), 0);                                          \
    statement;                                                                                     \
  }

/* What a fold does, given x, n, me and the output's place y. */
#define apply_sum                                                                                  \
  sum_t total = 0;                                                                                 \
  EACH(total += (sum_t)v)                                                                          \
  FOLD(ADD, sums, total);                                                                          \
  if (me == 0) STORE_SUM(y, total);
#define apply_mean                                                                                 \
  sum_t total = 0;                                                                                 \
  EACH(total += (sum_t)v)                                                                          \
  FOLD(ADD, sums, total);                                                                          \
  if (me == 0) STORE_SUM(y, total / (sum_t)n);
#define apply_prod                                                                                 \
  sum_t total = 1;                                                                                 \
  EACH(total *= (sum_t)v)                                                                          \
  FOLD(MULTIPLY, sums, total);                                                                     \
  if (me == 0) STORE_SUM(y, total);
#define apply_any                                                                                  \
  uint seen = 0;                                                                                   \
  EACH(seen |= v != 0)                                                                             \
  FOLD(EITHER, flags, seen);                                                                       \
  if (me == 0) *y = (uchar)seen;
#define apply_all                                                                                  \
  uint seen = 1;                                                                                   \
  EACH(seen &= v != 0)                                                                             \
  FOLD(BOTH, flags, seen);                                                                         \
  if (me == 0) *y = (uchar)seen;

#define EXTREME(FURTHER)                                                                           \
  found_t best = {0, -1};                                                                          \
  EACH(const found_t here = {v COMMA (long)i}; best = FURTHER(best, here))                         \
  FOLD(FURTHER, founds, best);
#define COMMA ,
#define apply_max EXTREME(FURTHEST) if (me == 0) SAVE(T0, y, 0, (WORK(T0))best.value);
#define apply_min EXTREME(NEAREST) if (me == 0) SAVE(T0, y, 0, (WORK(T0))best.value);
#define apply_argmax EXTREME(FURTHEST) if (me == 0) SAVE(T0, y, 0, (WORK(T0))best.at);
#define apply_argmin EXTREME(NEAREST) if (me == 0) SAVE(T0, y, 0, (WORK(T0))best.at);

/* From distances to a mean that is taken twice; `number` is the correction. */
#define VARIANCE                                                                                   \
  sum_t mean = 0, off = 0, squares = 0;                                                            \
  EACH(mean += (sum_t)v)                                                                           \
  FOLD(ADD, sums, mean);                                                                           \
  mean /= (sum_t)n;                                                                                \
  EACH(off += (sum_t)v - mean)                                                                     \
  FOLD(ADD, sums, off);                                                                            \
  mean += off / (sum_t)n;                                                                          \
  EACH(const sum_t away = (sum_t)v - mean; squares += away * away)                                 \
  FOLD(ADD, sums, squares);                                                                        \
  squares /= fmax((sum_t)n - number, (sum_t)0);
#define apply_var VARIANCE if (me == 0) STORE_SUM(y, squares);
#define apply_std VARIANCE if (me == 0) STORE_SUM(y, sqrt(squares));

/* Around the largest, so that nothing overflows needlessly. */
#define apply_logsumexp                                                                            \
  sum_t most = -INFINITY, total = 0;                                                               \
  EACH(most = LARGER((sum_t)v, most))                                                              \
  FOLD(LARGER, sums, most);                                                                        \
  EACH(total += exp((sum_t)v - most))                                                              \
  FOLD(ADD, sums, total);                                                                          \
  if (me == 0) STORE_SUM(y, fabs(most) < INFINITY ? most + log(total) : most);

/* `number` is the order. */
#define apply_norm                                                                                 \
  sum_t most = 0, total = 0;                                                                       \
  EACH(most = LARGER(fabs((sum_t)v), most))                                                        \
  FOLD(LARGER, sums, most);                                                                        \
  EACH(const sum_t part = fabs((sum_t)v) / most; total += number == 1 ? part : part * part)        \
  FOLD(ADD, sums, total);                                                                          \
  if (most > 0 && most < INFINITY && number < INFINITY)                                            \
    most *= number == 1 ? total : sqrt(total);                                                     \
  if (me == 0) STORE_SUM(y, most);

/* `kept` walks y and x along the axes that stay, `reduced` x along the others. */
__kernel void reduce(TENSOR(T0, out), CONST_TENSOR(T1, in), walk_t kept, walk_t reduced,
                     WIDE number) {
  SHARED(sum_t, sums);
  SHARED(uint, flags);
  SHARED(found_t, founds);
#if C0 > 1
  const uint me = (uint)get_local_id(0);
  ulong rest = get_group_id(0);
#else
  const uint me = 0;
  ulong rest = get_global_id(0);
  if (rest >= (ulong)kept.count) return;
#endif
  const count_t n = (count_t)reduced.count;
  long at_y = 0, at_x = 0;
  for (int d = kept.rank - 1; d >= 0; d--) {
    const ulong next = rest / (ulong)kept.size[d];
    const long r = (long)(rest - next * (ulong)kept.size[d]);
    rest = next;
    at_y += r * kept.stride[0][d];
    at_x += r * kept.stride[1][d];
  }
  __global STORED(T0) *y = AT(T0, out) + at_y;
  __global const STORED(T1) *x = AT(T1, in) + at_x;
  APPLY
}
