/*
 * The driver of elementwise kernels: turns the tensors of a call into as few and as long
 * inner loops as their strides allow, and spreads them over threads. Elements are visited
 * in the output's memory order, so nothing here may depend on the logical order.
 */
#include "kernels/cpu/base/stream.h"
#include "kernels/cpu/cpu.h"

typedef struct plan {
  elementwise_fn fn;
  const void *ctx;
  int count, rank;
  int64_t size[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK][ELEMENTWISE_MAX]; /* in elements */
  char *base[ELEMENTWISE_MAX];
  int64_t bytes[ELEMENTWISE_MAX];
  int64_t n, unit; /* elements, and how many of them are one of the range */
  bool streamed;   /* one run of elements, whose results go past the caches */
} plan;

/* Of a run, so that threads share no line, and vectors of aligned tensors stay in one. */
enum { RUN_UNIT = 64 };

static bool is_contiguous(const DLTensor *t) {
  int64_t want = 1;
  for (int d = t->ndim - 1; d >= 0; d--) {
    if (t->strides[d] != want && t->shape[d] != 1) return false;
    want *= t->shape[d];
  }
  return true;
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

static void swap_dims(plan *p, int a, int b) {
  const int64_t size = p->size[a];
  p->size[a] = p->size[b];
  p->size[b] = size;
  for (int i = 0; i < p->count; i++) {
    const int64_t step = p->step[a][i];
    p->step[a][i] = p->step[b][i];
    p->step[b][i] = step;
  }
}

/* Largest output step first; equal ones keep their order. */
static void sort_dims(plan *p) {
  const int out = p->count - 1;
  for (int i = 1; i < p->rank; i++)
    for (int j = i; j > 0 && magnitude(p->step[j - 1][out]) < magnitude(p->step[j][out]); j--)
      swap_dims(p, j - 1, j);
}

static bool can_merge(const plan *p, int outer, int inner) {
  for (int i = 0; i < p->count; i++)
    if (p->step[outer][i] != p->step[inner][i] * p->size[inner]) return false;
  return true;
}

static void merge_dims(plan *p) {
  int last = 0;
  for (int d = 1; d < p->rank; d++) {
    if (can_merge(p, last, d)) {
      p->size[d] *= p->size[last];
    } else {
      last++;
    }
    if (last != d) swap_dims(p, last, d);
  }
  p->rank = last + 1;
}

/* pre: the output has at least one element. */
static void plan_build(plan *p, const DLTensor *const *t) {
  const DLTensor *out = t[p->count - 1];
  p->rank = 0;
  for (int d = 0; d < out->ndim; d++) {
    if (out->shape[d] == 1) continue;
    p->size[p->rank] = out->shape[d];
    for (int i = 0; i < p->count; i++) p->step[p->rank][i] = t[i]->strides[d];
    p->rank++;
  }
  if (p->rank == 0) {
    p->rank = 1;
    p->size[0] = 1;
    for (int i = 0; i < p->count; i++) p->step[0][i] = 1;
  }
  sort_dims(p);
  merge_dims(p);
  for (int i = 0; i < p->count; i++) {
    p->base[i] = t[i]->data;
    p->bytes[i] = (t[i]->dtype.bits + 7) / 8;
  }
}

static void move(const plan *p, void **ptr, int dim, int64_t by) {
  for (int i = 0; i < p->count; i++) ptr[i] = (char *)ptr[i] + by * p->step[dim][i] * p->bytes[i];
}

/* Advances the outer dimensions by one row, as an odometer. */
static void next_row(const plan *p, void **ptr, int64_t *index) {
  for (int d = p->rank - 2; d >= 0; d--) {
    move(p, ptr, d, 1);
    if (++index[d] < p->size[d]) return;
    move(p, ptr, d, -index[d]);
    index[d] = 0;
  }
}

/* Of one result alone; and what is written over an input is there already. */
static bool is_streamed(const plan *p, const tn_kernel_args *args) {
  const int out = p->count - 1;
  int64_t bytes = p->n * p->bytes[out];
  if (p->rank != 1 || p->step[0][out] != 1 || args->num_out != 1) return false;
  for (int i = 0; i < out; i++) {
    if (p->base[i] == p->base[out]) return false;
    if (p->step[0][i] != 0) bytes += p->n * p->bytes[i];
  }
  return stream_pays(bytes);
}

/* Asks for elements begin <= i < end of the inputs, which are not read while a block is written. */
static void fetch_inputs(const plan *p, void *const *ptr, int64_t begin, int64_t end) {
  for (int i = 0; i < p->count - 1; i++)
    for (int64_t j = begin * p->bytes[i]; p->step[0][i] == 1 && j < end * p->bytes[i];
         j += STREAM_LINE)
      __builtin_prefetch((const char *)ptr[i] + j);
}

/* Writes a block, and between its parts asks for as many of the next n elements, so that neither
 * waits for the other. */
static void write_block(const plan *p, void *const *ptr, char *y, const char *block, int64_t m,
                        int64_t n) {
  enum { PART = 4 * STREAM_LINE };
  const int64_t size = p->bytes[p->count - 1], bytes = m * size;
  int64_t part = PART - (int64_t)((uintptr_t)y % STREAM_LINE);
  for (int64_t at = 0; at < bytes; at += part, part = PART) {
    part = cpu_min(part, bytes - at);
    fetch_inputs(p, ptr, at / size, cpu_min((at + part) / size, n));
    stream_out(y + at, block + at, part);
  }
}

static void run_streamed(const plan *p, int64_t n, void **ptr) {
  const int out = p->count - 1;
  _Alignas(STREAM_LINE) char room[STREAM_BLOCK + STREAM_LINE];
  for (int64_t m; n > 0; n -= m) {
    char *y = ptr[out];
    const int64_t behind = (int64_t)((uintptr_t)y % STREAM_LINE);
    m = cpu_min(n, (STREAM_BLOCK - behind) / p->bytes[out]);
    ptr[out] = room + behind;
    p->fn(m, ptr, p->step[0], p->ctx);
    ptr[out] = y;
    move(p, ptr, 0, m);
    write_block(p, ptr, y, room + behind, m, n - m);
  }
  stream_end();
}

static tn_status run_range(void *ctx, int64_t begin, int64_t end) {
  const plan *p = ctx;
  const int inner = p->rank - 1;
  begin *= p->unit;
  end = cpu_min(end * p->unit, p->n);
  int64_t index[TN_MAX_RANK] = {0}, rest = begin / p->size[inner], at = begin % p->size[inner];
  void *ptr[ELEMENTWISE_MAX];
  for (int i = 0; i < p->count; i++) ptr[i] = p->base[i];
  for (int d = inner - 1; d >= 0; d--) {
    index[d] = rest % p->size[d];
    rest /= p->size[d];
    move(p, ptr, d, index[d]);
  }
  while (begin < end) {
    const int64_t n = cpu_min(p->size[inner] - at, end - begin);
    move(p, ptr, inner, at);
    if (p->streamed) {
      run_streamed(p, n, ptr);
      return TN_OK;
    }
    p->fn(n, ptr, p->step[inner], p->ctx);
    move(p, ptr, inner, -at);
    next_row(p, ptr, index);
    begin += n;
    at = 0;
  }
  return TN_OK;
}

/* pre: there are elements. */
static tn_status run_general(const tn_kernel_args *args, const DLTensor *const *t, int count,
                             elementwise_fn fn, const void *ctx, int64_t grain) {
  plan p = {.fn = fn, .ctx = ctx, .count = count, .n = cpu_count(t[count - 1])};
  plan_build(&p, t);
  p.unit = p.rank == 1 ? RUN_UNIT : 1;
  p.streamed = is_streamed(&p, args);
  const int64_t units = cpu_ceil_div(p.n, p.unit);
  if (p.n <= grain) return run_range(&p, 0, units);
  return args->host->parallel_for(args->host, units, cpu_ceil_div(grain, p.unit), run_range, &p);
}

tn_status ISA(elementwise)(const tn_kernel_args *args, elementwise_fn fn, const void *ctx,
                           int64_t grain) {
  const DLTensor *t[ELEMENTWISE_MAX];
  void *ptr[ELEMENTWISE_MAX];
  int64_t step[ELEMENTWISE_MAX];
  int count = 0;
  for (int i = 0; i < args->num_in; i++) t[count++] = args->in[i];
  for (int i = 0; i < args->num_out; i++) t[count++] = args->out[i];
  const int rank = t[count - 1]->ndim;
  /* Small calls must not pay for a plan: one dimension needs none, nor do dense ones. */
  const int64_t n = rank == 0 ? 1 : rank == 1 ? t[count - 1]->shape[0] : cpu_count(t[count - 1]);
  if (n == 0) return TN_OK;
  if (n > grain) return run_general(args, t, count, fn, ctx, grain);
  for (int i = 0; i < count; i++) {
    ptr[i] = t[i]->data;
    step[i] = rank == 1 && n != 1 ? t[i]->strides[0] : 1;
    if (rank > 1 && !is_contiguous(t[i])) return run_general(args, t, count, fn, ctx, grain);
  }
  fn(n, ptr, step, ctx);
  return TN_OK;
}
