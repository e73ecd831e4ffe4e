/*
 * Pooling over one to three axes and its gradients. The border takes no part: a window is cut
 * to the image. One work-item makes one element of the result, so that a gradient looks for
 * the windows that read its element. See pool.c.
 */

/* pool_shape of pool.c. Adaptive windows follow from the sizes alone. */
typedef struct {
  long planes, size[3], out[3], extent[3], stride[3], padding[3];
  int adaptive, count_padding;
} pool_t;

/* The part of a window inside the image, begin <= i < end, and the elements counted. */
typedef struct {
  long begin, end, count;
} span_t;

inline span_t span_of(const pool_t *p, int axis, long o) {
  const long size = p->size[axis], out = p->out[axis];
  span_t s;
  if (p->adaptive) {
    s.begin = o * size / out;
    s.end = ((o + 1) * size + out - 1) / out;
    s.count = s.end - s.begin;
    return s;
  }
  const long first = o * p->stride[axis] - p->padding[axis];
  const long last = min(first + p->extent[axis], size + p->padding[axis]);
  s.begin = max(first, 0L);
  s.end = min(last, size);
  s.count = p->count_padding ? last - first : s.end - s.begin;
  return s;
}

/* The windows begin <= o < end that read element i of an axis; all of them do that lie between. */
inline span_t readers_of(const pool_t *p, int axis, long i) {
  const long size = p->size[axis], out = p->out[axis];
  span_t s;
  s.count = 0;
  if (p->adaptive) {
    s.begin = i * out / size;
    s.end = ((i + 1) * out + size - 1) / size;
    return s;
  }
  const long at = i + p->padding[axis], stride = p->stride[axis], length = p->extent[axis];
  s.begin = at < length ? 0 : (at - length) / stride + 1;
  s.end = min(at / stride + 1, out);
  return s;
}

/* Splits the number of an element of planes of the given sizes. */
inline long split(long i, const long *size, long at[3]) {
  at[2] = i % size[2];
  i /= size[2];
  at[1] = i % size[1];
  i /= size[1];
  at[0] = i % size[0];
  return i / size[0];
}

inline long place(const long *size, long z, long y, long x) {
  return (z * size[1] + y) * size[2] + x;
}

inline long volume(const long *size) { return size[0] * size[1] * size[2]; }

__kernel void max_pool(CONST_TENSOR(T0, x), TENSOR(T0, y), TENSOR(i32, index),
                       const int wants_index, const pool_t p) {
  const long i = get_global_id(0);
  long at[3];
  if (i >= p.planes * volume(p.out)) return;
  const long plane = split(i, p.out, at);
  const span_t zs = span_of(&p, 0, at[0]), ys = span_of(&p, 1, at[1]), xs = span_of(&p, 2, at[2]);
  __global const STORED(T0) *image = AT(T0, x) + plane * volume(p.size);
  long first = place(p.size, zs.begin, ys.begin, xs.begin);
  WORK(T0) most = -INFINITY;
  for (long z = zs.begin; z < zs.end; ++z)
    for (long y = ys.begin; y < ys.end; ++y)
      for (long x = xs.begin; x < xs.end; ++x) {
        const long here = place(p.size, z, y, x);
        const WORK(T0) value = LOAD(T0, image, here);
        if (most == most && (value > most || value != value)) most = value, first = here;
      }
  SAVE(T0, AT(T0, y), i, most);
  if (wants_index) SAVE(i32, AT(i32, index), i, (int)first);
}

__kernel void max_pool_grad(CONST_TENSOR(T0, dy), CONST_TENSOR(i32, index), TENSOR(T0, dx),
                            const pool_t p) {
  const long i = get_global_id(0);
  long at[3];
  if (i >= p.planes * volume(p.size)) return;
  const long plane = split(i, p.size, at), begin = plane * volume(p.out);
  const span_t zs = readers_of(&p, 0, at[0]), ys = readers_of(&p, 1, at[1]);
  const span_t xs = readers_of(&p, 2, at[2]);
  const int here = (int)(i - plane * volume(p.size));
  WORK(T0) sum = 0;
  for (long z = zs.begin; z < zs.end; ++z)
    for (long y = ys.begin; y < ys.end; ++y)
      for (long x = xs.begin; x < xs.end; ++x) {
        const long o = begin + place(p.out, z, y, x);
        if (LOAD(i32, AT(i32, index), o) == here) sum += LOAD(T0, AT(T0, dy), o);
      }
  SAVE(T0, AT(T0, dx), i, sum);
}

__kernel void avg_pool(CONST_TENSOR(T0, x), TENSOR(T0, y), const pool_t p) {
  const long i = get_global_id(0);
  long at[3];
  if (i >= p.planes * volume(p.out)) return;
  const long plane = split(i, p.out, at);
  const span_t zs = span_of(&p, 0, at[0]), ys = span_of(&p, 1, at[1]), xs = span_of(&p, 2, at[2]);
  __global const STORED(T0) *image = AT(T0, x) + plane * volume(p.size);
  WIDE sum = 0;
  for (long z = zs.begin; z < zs.end; ++z)
    for (long y = ys.begin; y < ys.end; ++y)
      for (long x = xs.begin; x < xs.end; ++x) sum += LOAD(T0, image, place(p.size, z, y, x));
  SAVE(T0, AT(T0, y), i, (WORK(T0))(sum / (WIDE)(zs.count * ys.count * xs.count)));
}

__kernel void avg_pool_grad(CONST_TENSOR(T0, dy), TENSOR(T0, dx), const pool_t p) {
  const long i = get_global_id(0);
  long at[3];
  if (i >= p.planes * volume(p.size)) return;
  const long plane = split(i, p.size, at);
  const span_t zs = readers_of(&p, 0, at[0]), ys = readers_of(&p, 1, at[1]);
  const span_t xs = readers_of(&p, 2, at[2]);
  __global const STORED(T0) *dy = AT(T0, dy) + plane * volume(p.out);
  WIDE sum = 0;
  for (long z = zs.begin; z < zs.end; ++z)
    for (long y = ys.begin; y < ys.end; ++y) {
      const long above = span_of(&p, 0, z).count * span_of(&p, 1, y).count;
      for (long x = xs.begin; x < xs.end; ++x)
        sum += (WIDE)LOAD(T0, dy, place(p.out, z, y, x)) /
               (WIDE)(above * span_of(&p, 2, x).count);
    }
  SAVE(T0, AT(T0, dx), i, (WORK(T0))sum);
}
