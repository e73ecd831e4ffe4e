/*
 * Elements picked by index. An index below 0 counts from the end, except for embeddings; what is
 * outside the axis even so is read as 0. Bits are moved: T0 is the integer of an element's size;
 * T1 is the type of the index, T2 that of numbers given. One work-item per element of the result.
 * See index.c.
 */

/* An index as a place on an axis of n; -1 outside it. */
inline long place_of(long i, long n) {
  if (i < 0) i = i < -n ? -1 : i + n;
  return i < n ? i : -1;
}

/* y [before, count, after] from x [before, n, after]. */
__kernel void gather(CONST_TENSOR(T0, x), CONST_TENSOR(T1, index), TENSOR(T0, y),
                     const long total, const long count, const long n, const long after,
                     const int from_end) {
  const long i = get_global_id(0);
  if (i >= total) return;
  const long a = i % after, which = i / after % count, before = i / after / count;
  const long number = LOAD(T1, AT(T1, index), which);
  const long k = from_end ? place_of(number, n) : number < n ? number : -1;
  AT(T0, y)[i] = k < 0 ? 0 : AT(T0, x)[(before * n + k) * after + a];
}

/* dims: the index's shape and, as strides, those of x. */
__kernel void take_along(CONST_TENSOR(T0, x), CONST_TENSOR(T1, index), TENSOR(T0, y),
                         const long total, const int axis, const long n, const dims_t d) {
  const long i = get_global_id(0);
  if (i >= total) return;
  const long k = place_of(LOAD(T1, AT(T1, index), i), n);
  long rest = i, from = k * d.stride[axis];
  for (int a = d.rank - 1; a >= 0; --a) {
    if (a != axis) from += rest % d.size[a] * d.stride[a];
    rest /= d.size[a];
  }
  AT(T0, y)[i] = k < 0 ? 0 : AT(T0, x)[from];
}

/* y [before, classes, after] of an index [before, after]. */
__kernel void one_hot(CONST_TENSOR(T1, index), TENSOR(T0, y), const long total,
                      const long classes, const long after, const WORK(T2) on,
                      const WORK(T2) off) {
  const long i = get_global_id(0);
  if (i >= total) return;
  const long a = i % after, c = i / after % classes, before = i / after / classes;
  const long k = place_of(LOAD(T1, AT(T1, index), before * after + a), classes);
  SAVE(T2, (__global STORED(T2) *)AT(T0, y), i, c == k ? on : off);
}
