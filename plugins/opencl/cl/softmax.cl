/*
 * Softmax along one axis, its logarithm and their gradients, over dense tensors seen as [outer,
 * n, inner]. C0 work-items share a slice: with 1 each has its own, with more they are one
 * work-group. Sums are kept in double where the device has it; a sum is taken in a fixed order.
 */
typedef WORK(T0) num;

#if C0 > 1
#define FOLD(f, value)                                                                             \
  room[me] = value;                                                                                \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
  for (uint half_way = C0 / 2; half_way > 0; half_way /= 2) {                                      \
    if (me < half_way) room[me] = f(room[me], room[me + half_way]);                                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
  }                                                                                                \
  value = room[0];                                                                                 \
  barrier(CLK_LOCAL_MEM_FENCE)
#else
#define FOLD(f, value)
#endif
#define ADD(a, b) ((a) + (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

#define EACH for (ulong i = me; i < (ulong)n; i += C0)
#define A(i) LOAD(T0, a, (i) * (ulong)inner)
#define B(i) LOAD(T0, b, (i) * (ulong)inner)
#define PUT(i, v) SAVE_WIDE(T0, y, (i) * (ulong)inner, v)

#define CENTRE                                                                                     \
  WIDE most = -INFINITY, sum = 0;                                                                  \
  EACH most = LARGER((WIDE)A(i), most);                                                            \
  FOLD(LARGER, most);                                                                              \
  EACH sum += (WIDE)exp((num)(A(i) - (num)most));                                                  \
  FOLD(ADD, sum);

#define apply_softmax CENTRE EACH PUT(i, (WIDE)exp((num)(A(i) - (num)most)) / sum);
#define apply_log_softmax                                                                          \
  CENTRE const WIDE log_sum = log(sum);                                                            \
  EACH PUT(i, (WIDE)A(i) - most - log_sum);

/* a is dy, b is y. */
#define apply_softmax_grad                                                                         \
  WIDE sum = 0;                                                                                    \
  EACH sum += (WIDE)A(i) * (WIDE)B(i);                                                             \
  FOLD(ADD, sum);                                                                                  \
  EACH PUT(i, (WIDE)B(i) * ((WIDE)A(i) - sum));
#define apply_log_softmax_grad                                                                     \
  WIDE sum = 0;                                                                                    \
  EACH sum += (WIDE)A(i);                                                                          \
  FOLD(ADD, sum);                                                                                  \
  EACH PUT(i, (WIDE)A(i) - (WIDE)exp(B(i)) * sum);

__kernel void slices(TENSOR(T0, out), CONST_TENSOR(T0, first), CONST_TENSOR(T0, second), long n,
                     long inner, long count) {
#if C0 > 1
  __local WIDE room[C0];
  const uint me = (uint)get_local_id(0);
  const ulong slice = get_group_id(0);
#else
  const uint me = 0;
  const ulong slice = get_global_id(0);
  if (slice >= (ulong)count) return;
#endif
  const ulong outer = slice / (ulong)inner;
  const ulong at = outer * (ulong)n * (ulong)inner + (slice - outer * (ulong)inner);
  __global STORED(T0) *y = AT(T0, out) + at;
  __global const STORED(T0) *a = AT(T0, first) + at, *b = AT(T0, second) + at;
  APPLY
}
