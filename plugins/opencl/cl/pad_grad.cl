/*
 * The gradient of padding: each element of dx adds up the elements of dy that padding made of
 * it. Along an axis these are a run of neighbours or, mirrored, up to three. One work-item per
 * element of dx. See move.c.
 */

enum { PAD_CONSTANT = 0, PAD_REFLECT = 1 };

/* padding_shape of move.c: sizes of dx, of dy, and what stands before each axis. */
typedef struct {
  int mode, rank;
  long count;
  long size[8], padded[8], stride[8], before[8];
} padding_t;

/* The places of dy that element i of an axis gave: `run` neighbours from `first` on, or two
 * more places that mirror it, -1 where there is none. */
typedef struct {
  long first, run, low, high;
} places_t;

inline places_t places_of(const padding_t *p, int axis, long i) {
  const long n = p->size[axis], before = p->before[axis], padded = p->padded[axis];
  places_t at = {before + i, 1, -1, -1};
  if (p->mode == PAD_REFLECT) {
    const long high = before + 2 * (n - 1) - i;
    if (i > 0 && i <= before) at.low = before - i;
    if (i < n - 1 && high < padded) at.high = high;
  } else if (p->mode != PAD_CONSTANT) {
    const long end = i == n - 1 ? padded : before + i + 1;
    if (i == 0) at.first = 0;
    at.run = end - at.first;
  }
  return at;
}

inline long places_count(places_t at) { return at.run + (at.low >= 0) + (at.high >= 0); }

inline long place_number(places_t at, long k) {
  if (k < at.run) return at.first + k;
  return k == at.run && at.low >= 0 ? at.low : at.high;
}

__kernel void pad_grad(CONST_TENSOR(T0, dy), TENSOR(T0, dx), const padding_t p) {
  const long i = get_global_id(0);
  places_t at[8];
  long total = 1, rest = i;
  WIDE sum = 0;
  if (i >= p.count) return;
  for (int axis = p.rank - 1; axis >= 0; --axis) {
    at[axis] = places_of(&p, axis, rest % p.size[axis]);
    rest /= p.size[axis];
    total *= places_count(at[axis]);
  }
  for (long k = 0; k < total; ++k) {
    long from = 0;
    rest = k;
    for (int axis = p.rank - 1; axis >= 0; --axis) {
      const long many = places_count(at[axis]);
      from += place_number(at[axis], rest % many) * p.stride[axis];
      rest /= many;
    }
    sum += LOAD(T0, AT(T0, dy), from);
  }
  SAVE(T0, AT(T0, dx), i, (WORK(T0))sum);
}
