/*
 * Batched matrix products in tiles through local memory, any strides. 16 x 16 work-items make a
 * tile of C0 x C0 elements, each of them every 16th in both directions. T0 is the element type;
 * sums are kept in float, of float64 in double. C1: a bias; C2: a tn_activation.
 */
/* A product and a sum may round once. */
#pragma OPENCL FP_CONTRACT ON
#define SIDE 16
#define EACH (C0 / SIDE)
#define DEPTH 16
typedef WORK(T0) num;

#if C2 == 1
#define ACTIVATE(v) ((v) <= 0 ? (num)0 : (v))
#elif C2 == 2
#define ACTIVATE(v) ((num)f_gelu((WIDE)(v)))
#elif C2 == 3
#define ACTIVATE(v) ((num)f_gelu_tanh((WIDE)(v)))
#else
#define ACTIVATE(v) (v)
#endif

/* Strides of one matrix: between rows and between columns. */
typedef struct {
  long row, column;
} pitch_t;

typedef struct {
  long m, n, k;
  pitch_t y, a, b;
  long bias;
} product_t;

/* Where the matrices of this group's batch item begin: y, a and b. */
#define BATCH_ITEM \
  ulong rest = get_group_id(2); \
  long at_y = 0, at_a = 0, at_b = 0; \
  for (int d = batch.rank - 1; d >= 0; d--) { \
    const ulong next = rest / (ulong)batch.size[d]; \
    const long r = (long)(rest - next * (ulong)batch.size[d]); \
    rest = next; \
    at_y += r * batch.stride[0][d]; \
    at_a += r * batch.stride[1][d]; \
    at_b += r * batch.stride[2][d]; \
  } \
  __global STORED(T0) *y = AT(T0, out) + at_y; \
  __global const STORED(T0) *a = AT(T0, left) + at_a, *b = AT(T0, right) + at_b;

/* Adds the bias, applies the activation and stores. */
#if C1
#define BIASED(v, column) ((v) + LOAD(T0, AT(T0, bias) + (column) * p.bias, 0))
#else
#define BIASED(v, column) (v)
#endif
#define STORE_RESULT(row, column, v)                                                               \
  const num biased = BIASED(v, column);                                                            \
  SAVE(T0, y + (row) * p.y.row + (column) * p.y.column, 0, ACTIVATE(biased))

/* `batch` walks y, a and b along the axes before the matrices. */
__kernel void product(TENSOR(T0, out), CONST_TENSOR(T0, left), CONST_TENSOR(T0, right),
                      CONST_TENSOR(T0, bias), product_t p, walk_t batch) {
  __local num tile_a[DEPTH][C0 + 1], tile_b[DEPTH][C0 + 1];
  const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), me = ly * SIDE + lx;
  const long first_row = (long)get_group_id(1) * C0, first_column = (long)get_group_id(0) * C0;
  BATCH_ITEM
  num sum[EACH][EACH];
  for (int i = 0; i < EACH; i++)
    for (int j = 0; j < EACH; j++) sum[i][j] = 0;

  for (long depth = 0; depth < p.k; depth += DEPTH) {
    for (int i = me; i < DEPTH * C0; i += SIDE * SIDE) {
      /* Neighbours read neighbours where the stride along k is 1, or the other one. */
      const int ka = p.a.column == 1 ? i % DEPTH : i / C0, ra = p.a.column == 1 ? i / DEPTH : i % C0;
      const int kb = p.b.row == 1 ? i % DEPTH : i / C0, cb = p.b.row == 1 ? i / DEPTH : i % C0;
      const long row = first_row + ra, column = first_column + cb;
      tile_a[ka][ra] = row < p.m && depth + ka < p.k
                           ? LOAD(T0, a + row * p.a.row + (depth + ka) * p.a.column, 0)
                           : (num)0;
      tile_b[kb][cb] = column < p.n && depth + kb < p.k
                           ? LOAD(T0, b + (depth + kb) * p.b.row + column * p.b.column, 0)
                           : (num)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < DEPTH; k++)
      for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
          sum[i][j] += tile_a[k][ly + i * SIDE] * tile_b[k][lx + j * SIDE];
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  for (int i = 0; i < EACH; i++) {
    for (int j = 0; j < EACH; j++) {
      const long row = first_row + ly + i * SIDE, column = first_column + lx + j * SIDE;
      if (row >= p.m || column >= p.n) continue;
      STORE_RESULT(row, column, sum[i][j]);
    }
  }
}
