/*
 * The kernel of elementwise programs: one work-item per element of the output. Before it stand
 * apply_<OP>, of as many arguments as there are inputs and numbers, what it computes in
 * (LOADED(T, v) of a loaded element, NUMBER of a number), and STORE(p, i, v) of its result.
 * C0: inputs; C1: 1 where every tensor is one dense run; C2: numbers; C3: 1 where 32 bits do
 * not count the elements.
 */
#if C3
typedef ulong count_t;
#else
typedef uint count_t;
#endif

#if C0 > 0
#define INPUT_1(i) LOADED(T1, LOAD(T1, AT(T1, a) + (i), 0))
#endif
#if C0 > 1
#define INPUT_2(i) LOADED(T2, LOAD(T2, AT(T2, b) + (i), 0))
#endif
#if C0 > 2
#define INPUT_3(i) LOADED(T3, LOAD(T3, AT(T3, c) + (i), 0))
#endif

#if C0 == 0 && C2 == 1
#define RESULT APPLY(p)
#elif C0 == 1 && C2 == 0
#define RESULT APPLY(INPUT_1(ia))
#elif C0 == 1 && C2 == 1
#define RESULT APPLY(INPUT_1(ia), p)
#elif C0 == 1 && C2 == 2
#define RESULT APPLY(INPUT_1(ia), p, q)
#elif C0 == 2 && C2 == 0
#define RESULT APPLY(INPUT_1(ia), INPUT_2(ib))
#elif C0 == 2 && C2 == 1
#define RESULT APPLY(INPUT_1(ia), INPUT_2(ib), p)
#elif C0 == 2 && C2 == 2
#define RESULT APPLY(INPUT_1(ia), INPUT_2(ib), p, q)
#else
#define RESULT APPLY(INPUT_1(ia), INPUT_2(ib), INPUT_3(ic))
#endif

/* An input may be the output: each element is read before it is written. */
__kernel void walk(TENSOR(T0, y)
#if C0 > 0
                   , CONST_TENSOR(T1, a)
#endif
#if C0 > 1
                   , CONST_TENSOR(T2, b)
#endif
#if C0 > 2
                   , CONST_TENSOR(T3, c)
#endif
#if C2 > 0
                   , NUMBER p
#endif
#if C2 > 1
                   , NUMBER q
#endif
#if C1
                   , ulong count) {
  const count_t i = (count_t)get_global_id(0);
  if (i >= (count_t)count) return;
  const count_t iy = i, ia = i, ib = i, ic = i;
#else
                   , walk_t w) {
  count_t rest = (count_t)get_global_id(0);
  if (rest >= (count_t)w.count) return;
  long iy = 0, ia = 0, ib = 0, ic = 0;
  for (int d = w.rank - 1; d >= 0; d--) {
    const count_t size = (count_t)w.size[d], next = rest / size;
    const long r = (long)(rest - next * size);
    rest = next;
    iy += r * w.stride[0][d];
    ia += r * w.stride[1][d];
    ib += r * w.stride[2][d];
    ic += r * w.stride[3][d];
  }
#endif
  STORE(AT(T0, y) + iy, 0, RESULT);
}
