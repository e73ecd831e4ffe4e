/*
 * Pooling over one to three axes and its gradients. The border takes no part: a window is cut
 * to the image. One work-item makes C0 neighbours of a row of the result, one after the other, so
 * that a gradient looks for the windows that read its element. See pool.c.
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
inline span_t readers_of(const pool_t *p, int axis, int i) {
  const int size = (int)p->size[axis], out = (int)p->out[axis];
  span_t s;
  s.count = 0;
  if (p->adaptive) {
    s.begin = (long)i * out / size;
    s.end = ((long)(i + 1) * out + size - 1) / size;
    return s;
  }
  const int at = i + (int)p->padding[axis], stride = (int)p->stride[axis];
  const int length = (int)p->extent[axis];
  s.begin = at < length ? 0 : (at - length) / stride + 1;
  s.end = min(at / stride + 1, out);
  return s;
}

/* A work-item's part of a row: elements first <= x < end of row (z, y) of a plane. */
typedef struct {
  long plane;
  int z, y, first, end;
} run_t;

/* The run of work-item i among planes of this size; plane is beyond the last for too many. */
inline run_t run_of(long i, const long *size) {
  const int wide = ((int)size[2] + C0 - 1) / C0;
  run_t r;
  r.first = (int)(i % wide) * C0;
  r.end = min(r.first + C0, (int)size[2]);
  i /= wide;
  r.y = (int)(i % size[1]);
  i /= size[1];
  r.z = (int)(i % size[0]);
  r.plane = i / size[0];
  return r;
}

inline long place(const long *size, long z, long y, long x) {
  return (z * size[1] + y) * size[2] + x;
}

inline long volume(const long *size) { return size[0] * size[1] * size[2]; }

/* Image elements are numbered in 31 bits, as index is I32. */
__kernel void max_pool(CONST_TENSOR(T0, x), TENSOR(T0, y), TENSOR(i32, index),
                       const int wants_index, const pool_t p) {
  const run_t r = run_of(get_global_id(0), p.out);
  if (r.plane >= p.planes) return;
  const span_t zs = span_of(&p, 0, r.z), ys = span_of(&p, 1, r.y);
  const int row = (int)p.size[2];
  __global const STORED(T0) *image = AT(T0, x) + r.plane * volume(p.size);
  for (int o = r.first; o < r.end; ++o) {
    const span_t xs = span_of(&p, 2, o);
    int first = (int)place(p.size, zs.begin, ys.begin, xs.begin);
    WORK(T0) most = -INFINITY;
    for (int z = (int)zs.begin; z < (int)zs.end; ++z)
      for (int y = (int)ys.begin; y < (int)ys.end; ++y) {
        const int line = (z * (int)p.size[1] + y) * row;
        for (int here = line + (int)xs.begin; here < line + (int)xs.end; ++here) {
          const WORK(T0) value = LOAD(T0, image, here);
          if (most == most && (value > most || value != value)) most = value, first = here;
        }
      }
    const long to = r.plane * volume(p.out) + place(p.out, r.z, r.y, o);
    SAVE(T0, AT(T0, y), to, most);
    if (wants_index) SAVE(i32, AT(i32, index), to, first);
  }
}

__kernel void max_pool_grad(CONST_TENSOR(T0, dy), CONST_TENSOR(i32, index), TENSOR(T0, dx),
                            const pool_t p) {
  const run_t r = run_of(get_global_id(0), p.size);
  if (r.plane >= p.planes) return;
  const span_t zs = readers_of(&p, 0, r.z), ys = readers_of(&p, 1, r.y);
  __global const STORED(T0) *dy = AT(T0, dy) + r.plane * volume(p.out);
  __global const int *index = AT(i32, index) + r.plane * volume(p.out);
  const int line = (int)place(p.size, r.z, r.y, 0);
  __global STORED(T0) *dx = AT(T0, dx) + r.plane * volume(p.size) + line;
  for (int i = r.first; i < r.end; ++i) {
    const span_t xs = readers_of(&p, 2, i);
    WORK(T0) sum = 0;
    for (int z = (int)zs.begin; z < (int)zs.end; ++z)
      for (int y = (int)ys.begin; y < (int)ys.end; ++y) {
        const int row = (z * (int)p.out[1] + y) * (int)p.out[2];
        for (int o = row + (int)xs.begin; o < row + (int)xs.end; ++o)
          if (index[o] == line + i) sum += LOAD(T0, dy, o);
      }
    SAVE(T0, dx, i, sum);
  }
}

__kernel void avg_pool(CONST_TENSOR(T0, x), TENSOR(T0, y), const pool_t p) {
  const run_t r = run_of(get_global_id(0), p.out);
  if (r.plane >= p.planes) return;
  const span_t zs = span_of(&p, 0, r.z), ys = span_of(&p, 1, r.y);
  __global const STORED(T0) *image = AT(T0, x) + r.plane * volume(p.size);
  for (int o = r.first; o < r.end; ++o) {
    const span_t xs = span_of(&p, 2, o);
    WIDE sum = 0;
    for (long z = zs.begin; z < zs.end; ++z)
      for (long y = ys.begin; y < ys.end; ++y) {
        const long line = place(p.size, z, y, 0);
        for (long x = xs.begin; x < xs.end; ++x) sum += LOAD(T0, image, line + x);
      }
    SAVE(T0, AT(T0, y), r.plane * volume(p.out) + place(p.out, r.z, r.y, o),
         (WORK(T0))(sum / (WIDE)(zs.count * ys.count * xs.count)));
  }
}

__kernel void avg_pool_grad(CONST_TENSOR(T0, dy), TENSOR(T0, dx), const pool_t p) {
  const run_t r = run_of(get_global_id(0), p.size);
  if (r.plane >= p.planes) return;
  const span_t zs = readers_of(&p, 0, r.z), ys = readers_of(&p, 1, r.y);
  __global const STORED(T0) *dy = AT(T0, dy) + r.plane * volume(p.out);
  for (int i = r.first; i < r.end; ++i) {
    const span_t xs = readers_of(&p, 2, i);
    WIDE sum = 0;
    for (long z = zs.begin; z < zs.end; ++z)
      for (long y = ys.begin; y < ys.end; ++y) {
        const long above = span_of(&p, 0, z).count * span_of(&p, 1, y).count;
        for (long x = xs.begin; x < xs.end; ++x)
          sum += (WIDE)LOAD(T0, dy, place(p.out, z, y, x)) /
                 (WIDE)(above * span_of(&p, 2, x).count);
      }
    SAVE(T0, AT(T0, dx), r.plane * volume(p.size) + place(p.size, r.z, r.y, i),
         (WORK(T0))sum);
  }
}
