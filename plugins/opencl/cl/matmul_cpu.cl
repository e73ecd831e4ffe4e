/*
 * Batched matrix products on processors: a work-item makes a block of the output in vectors of
 * 16, which the device's own vectors are made of, without local memory. With C3 0 vectors lie
 * along a row of b, with 1 along k, where both operands' neighbours are. The rest is as in
 * product of matmul.cl, which stands before.
 */
#define LANES 16
#if C3
#define ROWS 4
#define COLUMNS 4
#else
#define ROWS 8
#define COLUMNS LANES
#endif

#define vector_f32 float16
#define vector_f16 float16
#define vector_bf16 float16
#define vector_f64 double16
typedef PASTE(vector_, T0) vector;
#define lanes_f32(p) vload16(0, p)
#define lanes_f64(p) vload16(0, p)
#define lanes_f16(p) vload_half16(0, p)
#define lanes_bf16(p) as_float16(convert_uint16(vload16(0, p)) << 16)

/* The 16 elements from p on, `step` apart; 0 from number `left` on. */
static inline vector lanes_of(__global const STORED(T0) *p, long step, long left) {
  if (step == 1 && left >= LANES) return PASTE(lanes_, T0)(p);
  num lane[LANES];
  for (int i = 0; i < LANES; i++) lane[i] = i < left ? LOAD(T0, p + i * step, 0) : (num)0;
  return vload16(0, lane);
}

static inline num sum_of(vector v) {
  num lane[LANES], total = 0;
  vstore16(v, 0, lane);
  for (int i = 0; i < LANES; i++) total += lane[i];
  return total;
}

__kernel void product_cpu(TENSOR(T0, out), CONST_TENSOR(T0, left), CONST_TENSOR(T0, right),
                          CONST_TENSOR(T0, bias), product_t p, walk_t batch) {
  const long first_row = (long)get_group_id(1) * ROWS;
  const long first_column = (long)get_group_id(0) * COLUMNS;
  BATCH_ITEM
  num result[ROWS][COLUMNS];
#if C3
  vector sum[ROWS][COLUMNS];
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) sum[r][c] = (vector)0;
  for (long k = 0; k < p.k; k += LANES) {
    vector bv[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
      bv[c] = lanes_of(b + min(first_column + c, p.n - 1) * p.b.column + k, 1, p.k - k);
    for (int r = 0; r < ROWS; r++) {
      const vector av = lanes_of(a + min(first_row + r, p.m - 1) * p.a.row + k, 1, p.k - k);
      for (int c = 0; c < COLUMNS; c++) sum[r][c] += av * bv[c];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) result[r][c] = sum_of(sum[r][c]);
#else
  vector sum[ROWS];
  for (int r = 0; r < ROWS; r++) sum[r] = (vector)0;
  for (long k = 0; k < p.k; k++) {
    const vector bv =
        lanes_of(b + k * p.b.row + first_column * p.b.column, p.b.column, p.n - first_column);
    for (int r = 0; r < ROWS; r++) {
      const long row = min(first_row + r, p.m - 1);
      sum[r] += LOAD(T0, a + row * p.a.row + k * p.a.column, 0) * bv;
    }
  }
  for (int r = 0; r < ROWS; r++) vstore16(sum[r], 0, result[r]);
#endif
  for (int r = 0; r < ROWS && first_row + r < p.m; r++) {
    for (int c = 0; c < COLUMNS && first_column + c < p.n; c++) {
      const long row = first_row + r, column = first_column + c;
      STORE_RESULT(row, column, result[r][c]);
    }
  }
}
