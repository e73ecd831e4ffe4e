/*
 * Elements moved about, each result element from the one it reads. Bits are moved, not values:
 * T0 is the integer of an element's size, T1 the type of a number that is put where nothing is
 * read. One work-item per element of the result. See move.c.
 */

enum { PAD = 0, TILE = 1, REPEAT = 2, FLIP = 3, ROLL = 4 };
enum { PAD_CONSTANT = 0, PAD_REFLECT = 1 };

/* arrangement of move.c: x and y of one rank; `step` is what the kind wants to know of each
 * axis. */
typedef struct {
  int kind, mode, rank, reserved;
  long count;
  long x_size[8], x_stride[8], y_size[8], step[8];
} arrangement_t;

/* The index along an axis of x that index i of y reads; -1 for none. */
inline long source_of(const arrangement_t *a, int axis, long i) {
  const long n = a->x_size[axis], step = a->step[axis];
  switch (a->kind) {
  case TILE:
    return i % n;
  case REPEAT:
    return i / step;
  case FLIP:
    return step ? n - 1 - i : i;
  case ROLL:
    return i < step ? i + (n - step) : i - step;
  default:
    i -= step;
    if (i >= 0 && i < n) return i;
    if (a->mode == PAD_CONSTANT) return -1;
    if (a->mode == PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    return i < 0 ? 0 : n - 1;
  }
}

__kernel void arrange(CONST_TENSOR(T0, x), TENSOR(T0, y), const WORK(T1) otherwise,
                      const arrangement_t a) {
  const long i = get_global_id(0);
  long rest = i, from = 0;
  if (i >= a.count) return;
  for (int axis = a.rank - 1; axis >= 0; --axis) {
    const long at = source_of(&a, axis, rest % a.y_size[axis]);
    rest /= a.y_size[axis];
    if (at < 0) {
      SAVE(T1, (__global STORED(T1) *)AT(T0, y), i, otherwise);
      return;
    }
    from += at * a.x_stride[axis];
  }
  AT(T0, y)[i] = AT(T0, x)[from];
}

/* Copies blocks of `length` neighbours that lie y_gap elements from each other in y, `first`
 * elements into it: one input of a list that is joined. */
__kernel void join(CONST_TENSOR(T0, x), TENSOR(T0, y), const long count, const long length,
                   const long y_gap, const long first) {
  const long i = get_global_id(0);
  if (i >= count) return;
  AT(T0, y)[first + i / length * y_gap + i % length] = AT(T0, x)[i];
}

/* y = x where j - i <= diagonal, or where j - i >= diagonal if `upper`; 0 elsewhere. */
__kernel void triangle(CONST_TENSOR(T0, x), TENSOR(T0, y), const long count, const long rows,
                       const long columns, const long diagonal, const int upper) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long column = i % columns, row = i / columns % rows, at = column - row;
  const bool kept = upper ? at >= diagonal : at <= diagonal;
  AT(T0, y)[i] = kept ? AT(T0, x)[i] : 0;
}
