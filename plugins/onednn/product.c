/*
 * Matrix products of floats and of 8-bit integers. A product is cut along the longer side of
 * its result into blocks for the threads to share, by shapes alone; matrices of a batch are
 * blocks of their own. Operands are taken as they lie, transposed ones included.
 *
 * oneDNN multiplies integers exactly, but takes the sums through float32 wherever it has zero
 * points or the sign of `a` to make up for. So it never gets to see a sum beyond 2^24, up to
 * which float32 is exact: deeper products are sums of slices, which are added here.
 */
#include <assert.h>
#include <string.h>

#include "onednn.h"
#include "plan.h"

/* Blocks at the most, multiplications that make one worth its handling, and what the side of
 * a block is a multiple of. */
enum { BLOCKS = 16, LEAST_WORK = 2000000, SIDE = 64 };

/* Depths at which no sum of integers passes 2^24, oneDNN's intermediate ones included: a term
 * of u8 by i8 is at most 255 * 128; the parts that make up for zero points, 2 * 255 * 128. */
enum { DEPTH = 512, DEPTH_ZEROS = 256 };
static_assert(DEPTH * 255 * 128 <= 1 << 24 && DEPTH_ZEROS * 2 * 255 * 128 <= 1 << 24,
              "float32 holds the sums of a slice");

/* One block, and the key of its plan. */
typedef struct block_shape {
  int64_t type_a, type_b, type_y, m, n, k, a_row, a_col, b_row, b_col, y_row, bias, zero_a, zero_b;
} block_shape;

typedef struct product_call {
  const tn_kernel_args *args;
  block_shape shape; /* of a whole matrix, then of a block */
  const DLTensor *a, *b, *bias, *y, *zero[2];
  bool trans_a, trans_b;
  int rank; /* batch axes */
  int64_t size[TN_MAX_RANK], step[3][TN_MAX_RANK], batches;
  bool cut_rows;         /* blocks are rows of y, else columns */
  int64_t extent, block; /* of the side that is cut */
  int64_t slice;         /* of k; as long as k where there is one slice */
  plan *plans[2][2];     /* [of the last block][of the last slice], where they are smaller */
} product_call;

/* --- the shape --- */

static void batch_steps(const DLTensor *t, const product_call *c, int64_t *steps) {
  const int behind = c->rank - (t->ndim - 2);
  for (int d = 0; d < c->rank; d++)
    steps[d] = d < behind || t->shape[d - behind] == 1 ? 0 : t->strides[d - behind];
}

/* Whether oneDNN takes a matrix as it lies; steps along one element are made sensible. */
static bool tidy(int64_t rows, int64_t cols, int64_t *row, int64_t *col) {
  if (cols == 1 && *row != 1) *col = 1;
  if (rows == 1 && *col != 1) *row = 1;
  if (rows == 1 && cols == 1) *row = *col = 1;
  if (*col == 1 && rows == 1) *row = cols;
  if (*row == 1 && cols == 1) *col = rows;
  return (*col == 1 && *row >= cols) || (*row == 1 && *col >= rows);
}

static void matrix_steps(const DLTensor *t, bool transposed, int64_t *row, int64_t *col) {
  *row = t->strides[t->ndim - (transposed ? 1 : 2)];
  *col = t->strides[t->ndim - (transposed ? 2 : 1)];
}

/* Matrices of a batch that lie below each other are one where all share b. */
static void fold_batch(product_call *c) {
  block_shape *s = &c->shape;
  int64_t a = s->a_row * s->m, y = s->y_row * s->m;
  if (c->batches == 1 || s->a_col != 1) return;
  for (int d = c->rank - 1; d >= 0; d--) {
    if (c->size[d] == 1) continue;
    if (c->step[1][d] != 0 || c->step[0][d] != a || c->step[2][d] != y) return;
    a *= c->size[d];
    y *= c->size[d];
  }
  s->m *= c->batches;
  c->batches = 1;
  c->rank = 0;
}

static void cut(product_call *c) {
  const block_shape *s = &c->shape;
  const double work = (double)s->m * (double)s->n * (double)s->k;
  const int64_t wanted =
      min_of(BLOCKS / min_of(BLOCKS, c->batches), 1 + (int64_t)(work / LEAST_WORK));
  c->cut_rows = s->m > s->n;
  c->extent = c->cut_rows ? s->m : s->n;
  c->block = ((c->extent + wanted - 1) / wanted + SIDE - 1) / SIDE * SIDE;
  if (c->block >= c->extent) c->block = c->extent;
}

static void cut_depth(product_call *c) {
  const block_shape *s = &c->shape;
  const int64_t most = s->zero_a || s->zero_b ? DEPTH_ZEROS : DEPTH;
  c->slice = s->type_y == dnnl_s32 ? min_of(s->k, most) : s->k;
}

/* pre: the tensors are named. */
static bool read_shape(product_call *c) {
  block_shape *s = &c->shape;
  const DLTensor *y = c->y;
  int64_t y_col = y->strides[y->ndim - 1];
  c->rank = y->ndim - 2;
  c->batches = 1;
  for (int d = 0; d < c->rank; d++) c->batches *= c->size[d] = y->shape[d];
  batch_steps(c->a, c, c->step[0]), batch_steps(c->b, c, c->step[1]);
  batch_steps(y, c, c->step[2]);
  s->type_a = data_type_of(c->a->dtype), s->type_b = data_type_of(c->b->dtype);
  s->m = y->shape[c->rank], s->n = y->shape[c->rank + 1];
  s->k = c->a->shape[c->a->ndim - (c->trans_a ? 2 : 1)];
  s->y_row = y->strides[c->rank];
  s->bias = c->bias != NULL, s->zero_a = c->zero[0] != NULL, s->zero_b = c->zero[1] != NULL;
  if (c->batches * s->m * s->n * s->k == 0) return false;
  matrix_steps(c->a, c->trans_a, &s->a_row, &s->a_col);
  matrix_steps(c->b, c->trans_b, &s->b_row, &s->b_col);
  if (!tidy(s->m, s->k, &s->a_row, &s->a_col) || !tidy(s->k, s->n, &s->b_row, &s->b_col))
    return false;
  if (!tidy(s->m, s->n, &s->y_row, &y_col) || y_col != 1) return false;
  if (c->bias && s->n > 1 && c->bias->strides[0] != 1) return false;
  fold_batch(c);
  cut(c);
  cut_depth(c);
  return true;
}

/* --- the plan --- */

static dnnl_status_t matrix(layout *l, int64_t rows, int64_t cols, int64_t type, int64_t row,
                            int64_t col) {
  const int64_t size[] = {rows, cols};
  const int64_t stride[] = {row, col};
  return layout_make(l, 2, size, (dnnl_data_type_t)type, stride);
}

static dnnl_status_t user_layouts(const block_shape *s, plan *p) {
  slot *slots = p->slots;
  dnnl_status_t status = matrix(&slots[SLOT_A].user, s->m, s->k, s->type_a, s->a_row, s->a_col);
  if (status == dnnl_success)
    status = matrix(&slots[SLOT_B].user, s->k, s->n, s->type_b, s->b_row, s->b_col);
  if (status == dnnl_success)
    status = matrix(&slots[SLOT_Y].user, s->m, s->n, s->type_y, s->y_row, 1);
  if (status == dnnl_success && s->bias)
    status = matrix(&slots[SLOT_BIAS].user, 1, s->n, s->type_a, s->n, 1);
  return status;
}

static dnnl_status_t describe(dnnl_engine_t engine, const block_shape *s, const plan *p,
                              dnnl_primitive_desc_t *desc) {
  const slot *slots = p->slots;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_status_t status = plan_attr(&attr);
  if (status == dnnl_success && s->zero_a) status = attr_zero_point(attr, DNNL_ARG_SRC);
  if (status == dnnl_success && s->zero_b) status = attr_zero_point(attr, DNNL_ARG_WEIGHTS);
  if (status == dnnl_success)
    status = matmul_describe(
        desc, engine, layout_of(&slots[SLOT_A].user), layout_of(&slots[SLOT_B].user),
        s->bias ? layout_of(&slots[SLOT_BIAS].user) : NULL, layout_of(&slots[SLOT_Y].user), attr);
  (void)dnnl_primitive_attr_destroy(attr);
  return status;
}

static dnnl_status_t build(dnnl_engine_t engine, plan *p, const void *ctx) {
  const block_shape *s = ctx;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = user_layouts(s, p);
  if (status == dnnl_success) status = describe(engine, s, p, &desc);
  if (status == dnnl_success)
    status = plan_finish_main(p, desc, (dnnl_data_type_t)s->type_a,
                              (double)s->m * (double)s->n * (double)s->k);
  p->zero_points[0] = s->zero_a, p->zero_points[1] = s->zero_b;
  if (status == dnnl_success)
    status = plan_finish_slot(engine, p, SLOT_A, dnnl_query_src_md, DNNL_ARG_SRC, false);
  if (status == dnnl_success)
    status = plan_finish_slot(engine, p, SLOT_B, dnnl_query_weights_md, DNNL_ARG_WEIGHTS, false);
  if (status == dnnl_success)
    status = plan_finish_slot(engine, p, SLOT_Y, dnnl_query_dst_md, DNNL_ARG_DST, false);
  if (status == dnnl_success && s->bias)
    p->slots[SLOT_BIAS].present = true, p->slots[SLOT_BIAS].arg = DNNL_ARG_BIAS;
  return status;
}

enum { KIND_PRODUCT = 2 };
static_assert(sizeof(block_shape) <= sizeof((plan_key *)0)->numbers, "a key holds the shape");

static bool is_sliced(const product_call *c) { return c->slice < c->shape.k; }

/* The product of a slice lies by itself, row behind row. */
static block_shape shape_of(const product_call *c, bool tail, bool rest) {
  block_shape s = c->shape;
  *(c->cut_rows ? &s.m : &s.n) = tail ? c->extent % c->block : c->block;
  s.k = rest ? c->shape.k % c->slice : c->slice;
  if (is_sliced(c)) s.y_row = s.n;
  return s;
}

static plan *take(const product_call *c, bool tail, bool rest) {
  plan_key key;
  const block_shape s = shape_of(c, tail, rest);
  memset(&key, 0, sizeof key);
  key.kind = KIND_PRODUCT;
  memcpy(key.numbers, &s, sizeof s);
  return plan_take(c->args, &key, build, &s);
}

static void give_back(product_call *c) {
  for (int i = 0; i < 4; i++) plan_give_back(c->args, c->plans[i / 2][i % 2]);
}

static bool has_tail(const product_call *c) { return c->extent % c->block != 0; }
static bool has_rest(const product_call *c) { return c->shape.k % c->slice != 0; }

static bool take_plans(product_call *c) {
  bool taken = true;
  for (int tail = 0; tail <= has_tail(c); tail++)
    for (int rest = 0; rest <= has_rest(c) && taken; rest++)
      taken = (c->plans[tail][rest] = take(c, tail, rest)) != NULL;
  if (!taken) give_back(c);
  return taken;
}

/* --- the call --- */

static char *at(const DLTensor *t, int64_t elements) {
  return (char *)t->data + elements * (t->dtype.bits / 8);
}

static int32_t zero_of(const DLTensor *t) {
  if (!t) return 0;
  return t->dtype.code == kDLInt ? *(const int8_t *)t->data : *(const uint8_t *)t->data;
}

static int64_t blocks_of(const product_call *c) { return (c->extent + c->block - 1) / c->block; }
static int64_t slices_of(const product_call *c) { return (c->shape.k + c->slice - 1) / c->slice; }

/* One block of a matrix, one slice of it. */
typedef struct part {
  int64_t unit, slice; /* units are blocks, counted through the batch */
  int64_t first;       /* of the side that is cut */
  bool tail;           /* the last block, and smaller */
  int64_t offset[3];   /* in elements, of a, b and y */
  plan *plan;
} part;

static part part_of(const product_call *c, int64_t unit, int64_t slice) {
  const block_shape *s = &c->shape;
  const int64_t blocks = blocks_of(c), index = unit % blocks, depth = slice * c->slice;
  part p = {.unit = unit, .slice = slice, .first = index * c->block};
  const int64_t i = c->cut_rows ? p.first : 0, j = c->cut_rows ? 0 : p.first;
  p.offset[0] = i * s->a_row + depth * s->a_col;
  p.offset[1] = depth * s->b_row + j * s->b_col;
  p.offset[2] = i * s->y_row + j;
  for (int64_t d = c->rank - 1, item = unit / blocks; d >= 0; item /= c->size[d], d--)
    for (int t = 0; t < 3; t++) p.offset[t] += item % c->size[d] * c->step[t][d];
  p.tail = has_tail(c) && index == blocks - 1;
  p.plan = c->plans[p.tail][has_rest(c) && slice == slices_of(c) - 1];
  return p;
}

/* Adds the product of a slice to y, as int32 adds: without a word where it passes its range. */
static void add_slice(const product_call *c, const part *p, const uint32_t *sums) {
  const block_shape s = shape_of(c, p->tail, false);
  uint32_t *y = (uint32_t *)(void *)at(c->y, p->offset[2]);
  for (int64_t i = 0; i < s.m; i++, y += c->shape.y_row, sums += s.n)
    for (int64_t j = 0; j < s.n; j++) y[j] = (p->slice ? y[j] : 0) + sums[j];
}

static tn_status run_part(runner *r, const product_call *c, const part *p, uint32_t *sums) {
  tn_status status = runner_load(r, SLOT_A, at(c->a, p->offset[0]));
  if (status == TN_OK) status = runner_load(r, SLOT_B, at(c->b, p->offset[1]));
  if (status == TN_OK && c->bias)
    status = runner_load(r, SLOT_BIAS, at(c->bias, c->cut_rows ? 0 : p->first));
  if (status == TN_OK) status = runner_run(r, sums ? (void *)sums : at(c->y, p->offset[2]));
  if (status == TN_OK && sums) add_slice(c, p, sums);
  return status;
}

static tn_status open_runner(runner *r, const product_call *c, plan *p) {
  tn_status status = runner_open(r, c->args, p, 0);
  for (int i = 0; i < 2 && status == TN_OK; i++) r->zeros[i] = zero_of(c->zero[i]);
  return status;
}

/* Slice by slice, so that runners change as seldom as plans do. */
static tn_status run_units(const product_call *c, int64_t begin, int64_t end, uint32_t *sums) {
  const int64_t slices = slices_of(c);
  runner r;
  const plan *open = NULL;
  tn_status status = TN_OK;
  for (int64_t i = 0; i < slices * (end - begin) && status == TN_OK; i++) {
    const part p = part_of(c, begin + i % (end - begin), i / (end - begin));
    if (p.plan != open) {
      if (open) runner_close(&r);
      status = open_runner(&r, c, p.plan);
      open = status == TN_OK ? p.plan : NULL;
    }
    if (status == TN_OK) status = run_part(&r, c, &p, sums);
  }
  if (open) runner_close(&r);
  return status;
}

static tn_status range(void *ctx, int64_t begin, int64_t end) {
  const product_call *c = ctx;
  const tn_host *host = c->args->host;
  const block_shape s = shape_of(c, false, false);
  const size_t bytes = (size_t)(s.m * s.n) * sizeof(uint32_t);
  if (!is_sliced(c)) return run_units(c, begin, end, NULL);
  uint32_t *sums = host->alloc(host, bytes, 64);
  if (!sums) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %zu bytes of a product", bytes);
  tn_status status = run_units(c, begin, end, sums);
  host->free(host, sums);
  return status;
}

static tn_status run(product_call *c) {
  const tn_host *host = c->args->host;
  const int64_t blocks = blocks_of(c);
  const double work = (double)c->shape.m * (double)c->shape.n * (double)c->shape.k;
  const int64_t grain = 1 + (int64_t)(LEAST_WORK / (work / (double)blocks + 1));
  tn_status status = host->parallel_for(host, c->batches * blocks, grain, range, c);
  give_back(c);
  return status;
}

static bool read_matmul(product_call *c, const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  memset(c, 0, sizeof *c);
  c->args = args;
  c->a = args->in[0], c->b = args->in[1], c->bias = args->in[2], c->y = args->out[0];
  c->trans_a = attrs->trans_a, c->trans_b = attrs->trans_b;
  c->shape.type_y = data_type_of(c->y->dtype);
  return attrs->activation == TN_ACTIVATION_NONE && read_shape(c);
}

/* A product that ours cuts into blocks which OpenBLAS multiplies without packing: faster than
 * oneDNN unless a side is very thin or the result goes to memory. */
static bool is_in_place(const block_shape *s) {
  return s->k <= 384 && min_of(s->m, s->n) >= 8 && s->m * s->n < 1 << 19;
}

/* A product whose operands both are dense along long sums, which ours takes as they lie. oneDNN's
 * copies are slow where rows are a multiple of a page apart, by up to 10 times; two and three rows,
 * and 25 to 64 columns by more rows than 16, it multiplies as fast or faster all the same. */
static bool is_deep(const block_shape *s) {
  if (s->a_col != 1 || s->b_row != 1 || s->k < 512 || min_of(s->m, s->n) < 4) return false;
  return s->m <= 16 || s->n <= 24 || s->n > 64;
}

/* Depth up to which it multiplies integers faster than ours, which lays a's rows out before. */
enum { SHALLOW = 64 };

/* Where the kernels were measured to be faster than ours; docs/onednn.md has the figures. A BLAS
 * that knows its processor is as good at large products, but not at thin ones. */
static bool is_faster(const product_call *c) {
  const block_shape *s = &c->shape;
  const int64_t thin = min_of(s->m, s->n);
  const double work = (double)s->m * (double)s->n * (double)s->k;
  if (work < 1e5 || !onednn_has_avx512()) return false;
  if (s->type_y == dnnl_s32) return onednn_has_amx() || s->m == 1 || s->k <= SHALLOW;
  if (s->type_y == dnnl_bf16) return work >= 1e6 && thin <= 32;
  return work >= 1e6 && thin > 1 && min_of(thin, s->k) <= 128 && !is_in_place(s) && !is_deep(s);
}

/* Its bf16 kernels multiply pairs of terms, with AMX 32 at once, and fill up what is missing with
 * 0 times what lies there: NaN for a sum that is infinite (uxlfoundation/oneDNN issue 5717). */
static bool is_wrong(const product_call *c) {
  if (c->shape.type_y != dnnl_bf16) return false;
  return c->shape.k % 2 != 0 || (c->shape.k % 32 != 0 && onednn_has_amx());
}

bool matmul_supports(const tn_kernel_args *args) {
  product_call c;
  if (!read_matmul(&c, args) || is_wrong(&c)) return false;
  if (!plans_take_all(args) && !is_faster(&c)) return false;
  if (!take_plans(&c)) return false;
  give_back(&c);
  return true;
}

tn_status matmul_run(const tn_kernel_args *args) {
  product_call c;
  if (!read_matmul(&c, args) || !take_plans(&c))
    return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to plan a product");
  return run(&c);
}

static bool read_integer(product_call *c, const tn_kernel_args *args) {
  memset(c, 0, sizeof *c);
  c->args = args;
  c->a = args->in[0], c->b = args->in[1], c->y = args->out[0];
  c->zero[0] = args->in[2], c->zero[1] = args->in[3];
  c->shape.type_y = dnnl_s32;
  return read_shape(c);
}

bool matmul_integer_supports(const tn_kernel_args *args) {
  product_call c;
  if (!read_integer(&c, args)) return false;
  if (!plans_take_all(args) && !is_faster(&c)) return false;
  if (!onednn_has_vnni()) return false; /* others add pairs of terms in 16 bits, and saturate */
  if (!take_plans(&c)) return false;
  give_back(&c);
  return true;
}

tn_status matmul_integer_run(const tn_kernel_args *args) {
  product_call c;
  if (!read_integer(&c, args) || !take_plans(&c))
    return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to plan a product");
  return run(&c);
}
