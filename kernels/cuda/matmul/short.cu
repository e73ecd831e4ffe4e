/*
 * Products that are over in some microseconds, which is as long as a call of cuBLASLt takes on the
 * host, where one launch of ours takes less; those of few rows or columns of 16-bit numbers, as
 * decoders have them, which read a matrix at the speed of memory; and those of few results that are
 * sums of many terms, as the gradients of small layers are, by two launches. They go by the tiles
 * of short.cuh, in the way that a model of their times names.
 */
#include <limits.h>

#include "kernels/cuda/matmul/short.cuh"

namespace {

/* Multiplications and additions of all, which 32 bits count. */
const double most_terms = 1 << 30;
enum { most_down = 65535 /* of a grid's second and third dimension */ };

/* An operand of vectors and terms, by their strides. False where it does not lie so that 16 bytes
 * can be read at a time. */
bool describe_operand(short_operand *o, const DLTensor *t, const DLTensor *y, int vector_axis,
                      int term_axis) {
  const int part = 128 / t->dtype.bits;
  const int64_t vectors = t->shape[vector_axis], terms = t->shape[term_axis];
  const int64_t of_vector = t->strides[vector_axis], of_term = t->strides[term_axis];
  if (of_term == 1) {
    o->along = true;
    o->line = vectors == 1 ? 0 : of_vector;
  } else if (of_vector == 1) {
    o->along = false;
    o->line = of_term;
  } else {
    return false;
  }
  if (o->line % part != 0 || !is_aligned(t->data, 16)) return false;
  if ((o->along ? terms : vectors) % part != 0) return false;
  for (int d = 0; d < y->ndim - 2; d++) {
    const int axis = d - (y->ndim - t->ndim);
    o->batch[d] = axis < 0 || t->shape[axis] == 1 ? 0 : t->strides[axis];
    if (o->batch[d] % part != 0) return false;
  }
  return true;
}

/* The innermost batch axes become rows where b is the same for all of them and rows go on. */
void take_rows(short_call *c) {
  for (; c->rank > 0; c->rank--) {
    const int d = c->rank - 1;
    if (c->size[d] == 1) continue;
    if (!c->of_a.along || c->of_b.batch[d] != 0) return;
    if (c->m == 1) {
      c->of_a.line = c->of_a.batch[d];
      c->line_y = c->batch_y[d];
    } else if (c->of_a.batch[d] != c->m * c->of_a.line || c->batch_y[d] != c->m * c->line_y) {
      return;
    }
    c->m *= c->size[d];
  }
}

/* Whether y takes so many elements at a time. */
bool is_wide(const short_call &c, const DLTensor *y, int elements) {
  const size_t bytes = (size_t)least(16, elements * y->dtype.bits / 8);
  bool all = c.n % elements == 0 && c.line_y % elements == 0 && is_aligned(y->data, bytes);
  for (int d = 0; d < c.rank; d++) all = all && c.batch_y[d] % elements == 0;
  return all;
}

/* All but where tensors lie and how the work is dealt out; false where it is none of these. */
bool describe(short_call *c, const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *bias = args->in[2], *y = args->out[0];
  const tn_matmul_attrs *attrs = (const tn_matmul_attrs *)args->attrs;
  const int last = y->ndim - 1, swapped_a = attrs->trans_a != 0, swapped_b = attrs->trans_b != 0;
  const int a_row = a->ndim - 2 + swapped_a, a_term = a->ndim - 1 - swapped_a;
  const int b_column = b->ndim - 1 - swapped_b, b_term = b->ndim - 2 + swapped_b;
  const int64_t m = y->shape[last - 1], n = y->shape[last], k = a->shape[a_term];
  const int64_t items = cuda_size(y, 0, last - 1);
  if (items < 1 || m < 1 || n < 1 || k < 1) return false;
  if ((double)m * (double)n * (double)k * (double)items > most_terms) return false;
  if (y->strides[last] != 1 && n > 1) return false;
  if (!is_simple_activation((int)attrs->activation)) return false;
  if (!describe_operand(&c->of_a, a, y, a_row, a_term) ||
      !describe_operand(&c->of_b, b, y, b_column, b_term))
    return false;
  c->m = (int)m;
  c->n = (int)n;
  c->k = (int)k;
  c->line_y = m == 1 ? 0 : y->strides[last - 1];
  c->rank = last - 1;
  for (int d = 0; d < c->rank; d++) {
    c->size[d] = (int)y->shape[d];
    c->batch_y[d] = y->shape[d] == 1 ? 0 : y->strides[d];
  }
  c->bias_step = bias && bias->shape[0] > 1 ? bias->strides[0] : 0;
  c->activation = (int)attrs->activation;
  take_rows(c);
  c->whole = is_wide(*c, y, 4);
  c->wide = is_wide(*c, y, 8);
  return true;
}

/* How a product is dealt out: tiles, whose terms 2^split_bits blocks share, of each of 2^part_bits
 * parts. */
enum short_shape {
  flat_shape,
  tall_shape,
  middle_shape,
  square_shape,
  wide_shape,
  low_shape,
  high_shape,
  tf32_shape,
  shapes
};
struct short_plan {
  int shape, split_bits, part_bits, panels; /* panels: of a block */
  int across, down, items;                  /* tiles */
  int ns;                                   /* what it should take */
};

/* Of a shape: the logarithms of a tile's sides, and what it takes, in ns: a launch, a panel of a
 * block that has a multiprocessor to itself, one of each of several, which are at most `resident`,
 * and blocks of a cluster to share their sums. Measured on an H200. The square and the wide want
 * wgmma; the three behind them are of floats, the last for tensor cores. */
struct short_cost {
  int row_bits, column_bits, launch, alone, shared, resident, share;
};
constexpr short_cost costs[shapes] = {
    {4, 6, 1400, 220, 145, 3, 1200}, {6, 4, 1400, 220, 150, 3, 1200},
    {5, 6, 1400, 255, 190, 3, 1600}, {6, 6, 1500, 235, 183, 3, 2000},
    {6, 7, 1970, 270, 200, 2, 2800}, {5, 6, 1300, 820, 500, 4, 1700},
    {6, 6, 1700, 980, 880, 3, 2800}, {5, 6, 1450, 305, 235, 4, 1700}};
/* Above these cuBLASLt is as quick, or quicker: what its shortest products of 16 bits take, or its
 * call on the host; and of floats, or of those that may be rounded to TF32. But where few rows or
 * columns are read, or few terms added, not much slower than memory is, both take what it does. */
enum { most_ns = 7000, most_float_ns = 12000, most_tf32_ns = 8000 };
enum {
  skinny = 16,
  most_skinny_ns = 100000,
  skinny_times = 2 /* of the least that memory takes */
};
const double bytes_per_us = 4.5e6; /* of memory */
/* Where few tiles have many terms, parts of their sums are added by another launch, which takes so
 * long, and so long for each part. */
enum { many_terms = 4096, most_part_bits = 6, add_ns = 1500, add_part_ns = 35 };
/* What parts serve. cuBLASLt does not share the sums of a batch among blocks, and takes time for
 * each term. Blocks of floats are slow where clusters of more than two find no multiprocessor for
 * each. */
struct parts_limits {
  int tiles;                    /* of 64 by 64, of one product */
  int of_item, of_batch;        /* of each product of a batch, and of all */
  int ns;                       /* that one product should take at most */
  int batch_ns, tenths_of_term; /* and a batch: so many, and tenths of one for each term */
  int most_split_bits;
};
constexpr parts_limits parts_of_16_bits = {8, 1, 32, 14000, 2000, 15, most_split_bits},
                       parts_of_floats = {8, 4, 64, 26000, 0, 165, 1},
                       parts_of_tf32 = {8, 4, 64, 14000, 0, 70, 1};
const parts_limits &limits_of_parts(const tn_kernel_args *args) {
  if (args->out[0]->dtype.bits != 32) return parts_of_16_bits;
  return args->host->math == TN_MATH_IEEE ? parts_of_floats : parts_of_tf32;
}

template <class Fn> auto with_tile(int shape, Fn fn) {
  switch (shape) {
  case flat_shape:
    return fn(flat_tile());
  case tall_shape:
    return fn(tall_tile());
  case middle_shape:
    return fn(middle_tile());
  case square_shape:
    return fn(square_tile());
  default:
    return fn(wide_tile());
  }
}
template <class Fn> auto with_float_tile(int shape, Fn fn) {
  switch (shape) {
  case low_shape:
    return fn(low_tile());
  case high_shape:
    return fn(high_tile());
  default:
    return fn(middle_tile());
  }
}

/* How often 2^bits goes into n, rounded up. */
int times(int n, int bits) { return (n + (1 << bits) - 1) >> bits; }

/* What all plans of a product have in common. `scattered`: lines begin anywhere in memory's own
 * lines of 128 bytes, so that each part of 128 bytes has its share of two. */
struct short_choice {
  int first, last, items; /* of shapes, without the last; of the batch */
  unsigned processors;
  bool clusters, scattered;

  short_choice(const short_call &c, const tn_kernel_args *args) : items(1) {
    const cuda_info *info = (const cuda_info *)args->device;
    const int bits = args->out[0]->dtype.bits, line = 1024 / bits;
    clusters = info->early && compiled_to_wait(); /* compute capability 9.0 */
    if (bits == 32) {
      first = low_shape;
      last = args->host->math == TN_MATH_IEEE ? tf32_shape : shapes;
    } else {
      first = flat_shape;
      last = clusters && compiled_for_wgmma ? low_shape : square_shape;
    }
    processors = (unsigned)info->multiprocessors;
    scattered = c.of_a.line % line != 0 || c.of_b.line % line != 0;
    for (int d = 0; d < c.rank; d++) items *= c.size[d];
  }
};

/* A plan of a shape's tiles; false where a grid has no room for them. */
bool begin_plan(short_plan *p, const short_call &c, const short_choice &choice, int shape) {
  *p = {};
  p->shape = shape;
  p->items = choice.items;
  p->down = times(c.m, costs[shape].row_bits);
  p->across = times(c.n, costs[shape].column_bits);
  return p->down <= most_down && p->items <= most_down;
}
unsigned blocks_of(const short_plan &p) {
  return (unsigned)(p.items * p.down * p.across) << (p.split_bits + p.part_bits);
}

/* All of a plan but its tiles and how their terms are shared, which it has. */
void estimate(short_plan *p, const short_choice &choice, int k) {
  const short_cost &cost = costs[p->shape];
  const unsigned processors = choice.processors, blocks = blocks_of(*p);
  const int depth_bits = p->shape >= low_shape ? 5 : 6;
  p->panels = times(times(k, depth_bits), p->split_bits + p->part_bits);
  /* Large clusters find room in some places alone. */
  const unsigned room = p->split_bits == most_split_bits ? processors - processors / 5 : processors;
  const unsigned each = (blocks + room - 1) / room, resident = (unsigned)cost.resident;
  const unsigned beside = p->split_bits == most_split_bits ? 1 : each < resident ? each : resident;
  unsigned panel = beside * (unsigned)cost.shared;
  if (panel < (unsigned)cost.alone) panel = (unsigned)cost.alone;
  if (choice.scattered) panel += panel / 2;
  const unsigned waves = (each + beside - 1) / beside;
  const int64_t ns = (int64_t)waves * p->panels * panel + cost.launch;
  p->ns = (int)(ns < INT_MAX / 2 ? ns : INT_MAX / 2) + (p->split_bits ? cost.share : 0);
  if (p->part_bits) p->ns += add_ns + (add_part_ns << p->part_bits);
}

/* What memory takes at least. */
double least_ns_of(const short_plan &p, const short_call &c, const tn_kernel_args *args) {
  const double moved = ((double)c.m * c.k + (double)c.k * c.n + (double)c.m * c.n) * p.items;
  return args->out[0]->dtype.bits / 8 * moved / bytes_per_us * 1000 + costs[p.shape].launch;
}

/* Whether a plan is worth it. */
bool is_quick(const short_plan &p, const short_call &c, const tn_kernel_args *args) {
  const double least_ns = least_ns_of(p, c, args);
  int limit = most_ns;
  if (args->out[0]->dtype.bits == 32)
    limit = args->host->math == TN_MATH_IEEE ? most_float_ns : most_tf32_ns;
  else if ((c.m <= skinny || c.n <= skinny) && p.ns <= skinny_times * least_ns)
    limit = most_skinny_ns;
  return p.ns <= limit && least_ns <= limit;
}

/* The quickest way in one launch. False where cuBLASLt should take it. */
bool plan_of(const short_call &c, const tn_kernel_args *args, short_plan *best) {
  const short_choice choice(c, args);
  best->ns = INT_MAX;
  for (int shape = choice.first; shape < choice.last; shape++) {
    short_plan p;
    if (!begin_plan(&p, c, choice, shape)) continue;
    for (p.split_bits = 0;; p.split_bits++) {
      estimate(&p, choice, c.k);
      if (p.ns < best->ns) *best = p;
      if (!choice.clusters || p.split_bits == most_split_bits || p.panels == 1) break;
      if (blocks_of(p) > choice.processors) break;
    }
  }
  return best->ns < INT_MAX && is_quick(*best, c, args);
}

/* The quickest way in parts. False where there are not so many terms, or cuBLASLt should take it.
 */
bool plan_of_parts(const short_call &c, const tn_kernel_args *args, short_plan *best) {
  const short_choice choice(c, args);
  const parts_limits &limits = limits_of_parts(args);
  const bool batch = choice.items > 1;
  const double each = (double)times(c.m, 6) * times(c.n, 6), all = choice.items * each;
  if (c.k < many_terms || each > (batch ? limits.of_item : limits.tiles)) return false;
  if (batch && all > limits.of_batch) return false;
  best->ns = INT_MAX;
  for (int shape = choice.first; shape < choice.last; shape++) {
    short_plan p;
    if (!begin_plan(&p, c, choice, shape)) continue;
    const int most_bits = choice.clusters ? limits.most_split_bits : 0;
    for (p.split_bits = 0; p.split_bits <= most_bits; p.split_bits++)
      for (p.part_bits = 1; p.part_bits <= most_part_bits; p.part_bits++) {
        if (blocks_of(p) > choice.processors) break;
        if (4 * blocks_of(p) < choice.processors) continue; /* too few, as a rule */
        estimate(&p, choice, c.k);
        if (p.ns < best->ns) *best = p;
      }
  }
  if (best->ns == INT_MAX) return false;
  const double limit = batch ? limits.batch_ns + limits.tenths_of_term / 10.0 * c.k : limits.ns;
  return best->ns <= limit && least_ns_of(*best, c, args) <= limit;
}

template <class T, class Tile> const void *kernel_of(const short_call &c) {
  if (c.of_a.along)
    return c.of_b.along ? (const void *)short_product<T, Tile, true, true>
                        : (const void *)short_product<T, Tile, true, false>;
  return c.of_b.along ? (const void *)short_product<T, Tile, false, true>
                      : (const void *)short_product<T, Tile, false, false>;
}

template <class T>
tn_status run_short(const tn_kernel_args *args, const short_call &c, const short_plan &p) {
  const cuda_info *info = (const cuda_info *)args->device;
  auto run = [&](auto tile) {
    using Tile = decltype(tile);
    cuda_start start = {};
    start.grid = dim3((unsigned)(p.across << p.split_bits), (unsigned)p.down,
                      (unsigned)(p.items << p.part_bits));
    start.block = dim3(threads);
    start.shared_bytes = (size_t)Tile::bytes(p.panels);
    start.most_shared_bytes = (size_t)Tile::bytes(Tile::stages);
    start.cluster = 1u << p.split_bits;
    start.early = info->early && compiled_to_wait();
    void *list[] = {(void *)&c};
    return cuda_launch_as(args, kernel_of<T, Tile>(c), &start, list);
  };
  if constexpr (std::is_same_v<T, float>)
    return with_float_tile(p.shape, run);
  else
    return with_tile(p.shape, run);
}

/* Of the parts of sums, whose rows begin at multiples of 16 bytes. */
int line_of_parts(const short_call &c) { return (c.n + 3) / 4 * 4; }

/* A product whose parts workspace has room for. */
template <class T>
tn_status run_parts(const tn_kernel_args *args, const short_call &c, const short_plan &p) {
  const cuda_info *info = (const cuda_info *)args->device;
  short_call parts = c;
  int line = line_of_parts(c);
  parts.y = args->workspace;
  parts.line_y = line;
  parts.part_bits = p.part_bits;
  const tn_status status = run_short<T>(args, parts, p);
  if (status != TN_OK) return status;
  parts.y = c.y;
  parts.line_y = c.line_y;
  const int64_t sums = (int64_t)c.m * line;
  cuda_start start = {};
  start.grid = dim3((unsigned)((sums + adders - 1) / adders), (unsigned)p.items);
  start.block = dim3(adders);
  start.cluster = 1;
  start.early = info->early && compiled_to_wait();
  void *list[] = {&parts, (void *)&args->workspace, &line};
  return cuda_launch_as(args, (const void *)add_parts<T>, &start, list);
}

/* All of a call but how it is dealt out, from tensors that were described. */
void take_data(short_call *c, const tn_kernel_args *args) {
  const DLTensor *bias = args->in[2];
  c->a = args->in[0]->data;
  c->b = args->in[1]->data;
  c->bias = bias ? bias->data : NULL;
  c->y = args->out[0]->data;
}

} // namespace

bool cuda_matmul_short_supports(const tn_kernel_args *args) {
  short_call c;
  short_plan p;
  return describe(&c, args) && plan_of(c, args, &p);
}

tn_status cuda_run_matmul_short(const tn_kernel_args *args) {
  short_call c = {};
  short_plan p;
  if (!describe(&c, args) || !plan_of(c, args, &p))
    return args->host->fail(TN_ERR_INTERNAL, "%s: not a short product", args->kernel->name);
  take_data(&c, args);
  c.split_bits = p.split_bits;
  c.plain = c.wide && !p.split_bits && !c.bias && !c.activation;
  if (args->out[0]->dtype.bits == 32) return run_short<float>(args, c, p);
  return is_brain(args->out[0]) ? run_short<bfloat_t>(args, c, p) : run_short<half_t>(args, c, p);
}

bool cuda_matmul_parts_supports(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0];
  const tn_matmul_attrs *attrs = (const tn_matmul_attrs *)args->attrs;
  short_call c;
  short_plan p;
  if (a->shape[a->ndim - 1 - (attrs->trans_a != 0)] < many_terms) return false; /* as most */
  return describe(&c, args) && plan_of_parts(c, args, &p);
}

tn_status cuda_matmul_parts_workspace(const tn_kernel_args *args, size_t *bytes) {
  short_call c;
  short_plan p;
  *bytes = 0;
  if (describe(&c, args) && plan_of_parts(c, args, &p))
    *bytes = ((size_t)p.items * (size_t)c.m * (size_t)line_of_parts(c) * sizeof(float))
             << p.part_bits;
  return TN_OK;
}

tn_status cuda_run_matmul_parts(const tn_kernel_args *args) {
  short_call c = {};
  short_plan p;
  if (!describe(&c, args) || !plan_of_parts(c, args, &p))
    return args->host->fail(TN_ERR_INTERNAL, "%s: not a long sum", args->kernel->name);
  take_data(&c, args);
  c.split_bits = p.split_bits;
  if (args->out[0]->dtype.bits == 32) return run_parts<float>(args, c, p);
  return is_brain(args->out[0]) ? run_parts<bfloat_t>(args, c, p) : run_parts<half_t>(args, c, p);
}
