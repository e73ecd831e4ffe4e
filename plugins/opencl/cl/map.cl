/*
 * y = f(x) at every place, over dense tensors (flat_) and any others (strided_). T0 is the
 * output's type, T1 .. T3 the inputs'.
 */
#define apply_copy(x) (x)

#define APPLY PASTE(apply_, OP)

__kernel void flat_1(TENSOR(T0, y), CONST_TENSOR(T1, x), walk_t w) {
  ulong i = get_global_id(0);
  if (i < (ulong)w.count) SAVE(T0, AT(T0, y), i, APPLY(LOAD(T1, AT(T1, x), i)));
}

__kernel void strided_1(TENSOR(T0, y), CONST_TENSOR(T1, x), walk_t w) {
  ulong i = get_global_id(0);
  if (i >= (ulong)w.count) return;
  long iy = 0, ix = 0;
  for (int d = w.rank - 1; d >= 0; d--) {
    long r = i % w.size[d];
    i /= w.size[d];
    iy += r * w.stride[0][d];
    ix += r * w.stride[1][d];
  }
  SAVE(T0, AT(T0, y) + iy, 0, APPLY(LOAD(T1, AT(T1, x) + ix, 0)));
}
