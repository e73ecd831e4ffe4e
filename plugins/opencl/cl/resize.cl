/*
 * Resizing images and its gradient. Output i of an axis lies at (scale i + shift) / unit of the
 * input, all whole numbers, so that the elements read are exact. One work-item per element of
 * the result: a gradient looks for the outputs that read its element. See resize.c.
 */

/* resize_axis and resize_shape of resize.c. A mode reads `taps` elements from the whole part
 * minus `lead` on; those outside are the nearest inside. */
typedef struct {
  long scale, shift, unit, size, out;
} axis_t;

typedef struct {
  long count;
  int taps, lead;
  axis_t axis[2];
} resize_t;

inline long floor_div(long a, long b) {
  const long q = a / b;
  return a % b < 0 ? q - 1 : q;
}

/* The weights of a mode for the fraction t between element `lead` and the next; four as Keys
 * 1981 with a = -0.75. */
inline void weights_of(int taps, WIDE t, WIDE w[4]) {
  const WIDE s = 1 - t, a = (WIDE)-0.75;
  if (taps == 1) {
    w[0] = 1;
  } else if (taps == 2) {
    w[0] = s;
    w[1] = t;
  } else {
    w[0] = a * t * s * s;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * s - (a + 3)) * s * s + 1;
    w[3] = a * s * t * t;
  }
}

/* Where output i reads an axis: elements at[k] with weights w[k]. */
inline void read_axis(const axis_t *a, const resize_t *r, long i, long at[4], WIDE w[4]) {
  const long number = a->scale * i + a->shift, whole = floor_div(number, a->unit);
  weights_of(r->taps, (WIDE)(number - whole * a->unit) / (WIDE)a->unit, w);
  for (int k = 0; k < r->taps; ++k) at[k] = clamp(whole - r->lead + k, 0L, a->size - 1);
}

__kernel void resize(CONST_TENSOR(T0, x), TENSOR(T0, y), const resize_t r) {
  const long i = get_global_id(0);
  if (i >= r.count) return;
  const long row = i / r.axis[1].out % r.axis[0].out, plane = i / r.axis[1].out / r.axis[0].out;
  long v[4], h[4];
  WIDE p[4], q[4], sum = 0;
  read_axis(&r.axis[0], &r, row, v, p);
  read_axis(&r.axis[1], &r, i % r.axis[1].out, h, q);
  __global const STORED(T0) *x = AT(T0, x) + plane * r.axis[0].size * r.axis[1].size;
  for (int j = 0; j < r.taps; ++j)
    for (int k = 0; k < r.taps; ++k)
      sum += p[j] * q[k] * LOAD(T0, x, v[j] * r.axis[1].size + h[k]);
  SAVE(T0, AT(T0, y), i, (WORK(T0))sum);
}

/* The first output whose whole part is at least `whole`, 0 <= it <= out. */
inline long output_from(const axis_t *a, long whole) {
  if (a->scale == 0) return floor_div(a->shift, a->unit) >= whole ? 0 : a->out;
  const long first = -floor_div(a->shift - whole * a->unit, a->scale);
  return clamp(first, 0L, a->out);
}

/* Outputs begin <= i < end are all that may read element e; border elements stand for those
 * outside as well. */
inline void readers_of(const axis_t *a, const resize_t *r, long e, long *begin, long *end) {
  *begin = e == 0 ? 0 : output_from(a, e + r->lead - r->taps + 1);
  *end = e == a->size - 1 ? a->out : output_from(a, e + r->lead + 1);
}

/* What row j of dy gives to an element of its column that it reads with the weight p. Weights
 * are taken one by one, so that an infinity among dy meets those of both signs. */
inline WIDE gather_row(__global const STORED(T0) *dy, const resize_t *r, long column, long left,
                       long right, WIDE p) {
  long at[4];
  WIDE q[4], sum = 0;
  for (long k = left; k < right; ++k) {
    read_axis(&r->axis[1], r, k, at, q);
    for (int i = 0; i < r->taps; ++i)
      if (at[i] == column) sum += p * q[i] * LOAD(T0, dy, k);
  }
  return sum;
}

__kernel void resize_grad(CONST_TENSOR(T0, dy), TENSOR(T0, dx), const resize_t r) {
  const long i = get_global_id(0);
  if (i >= r.count) return;
  const long column = i % r.axis[1].size, row = i / r.axis[1].size % r.axis[0].size;
  const long plane = i / r.axis[1].size / r.axis[0].size;
  __global const STORED(T0) *dy = AT(T0, dy) + plane * r.axis[0].out * r.axis[1].out;
  long top, bottom, left, right;
  WIDE sum = 0;
  readers_of(&r.axis[0], &r, row, &top, &bottom);
  readers_of(&r.axis[1], &r, column, &left, &right);
  for (long j = top; j < bottom; ++j) {
    long at[4];
    WIDE p[4];
    read_axis(&r.axis[0], &r, j, at, p);
    for (int k = 0; k < r.taps; ++k)
      if (at[k] == row)
        sum += gather_row(dy + j * r.axis[1].out, &r, column, left, right, p[k]);
  }
  SAVE(T0, AT(T0, dx), i, (WORK(T0))sum);
}
