/*
 * Every kernel that takes a call, behind one another on the same tensors: which is faster
 * where. Rounds of all candidates alternate and medians are compared, in processor time where
 * the device computes in host memory, since that of a shared machine is steadier than its
 * clock; run it with TENON_NUM_THREADS=1. `rate` is the best other candidate's time over
 * this one's: above 1 the kernel is the one to take. The reference is left out.
 *
 *   TENON_ONEDNN=all TENON_NUM_THREADS=1 build/bench/candidates --table [GROUP]
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "measure.h"
#include "tenon/plugin.h"

enum { ROUNDS = 7, CANDIDATES = 6 };
static const double ROUND_NS = 8e6;

/* One call of a group; x and w are the operands of products, or the tensors of the forward
 * convolution, of 2 axes behind [n, c] or [k, c]. */
typedef struct point {
  const char *group;
  uint32_t op;
  tn_dtype dtype, dtype_w;
  int32_t rank;
  int64_t x[5], w[5], stride, padding, groups;
} point;

typedef struct contender {
  tn_prepared *prepared;
  tn_kernel_info info;
  double rounds[ROUNDS], ns;
} contender;

static double clock_of(const bench *b) {
  struct timespec t;
  clock_gettime(b->host ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double round_of(const bench *b, contender *c, int64_t calls) {
  const double began = clock_of(b);
  for (int64_t i = 0; i < calls; i++) must(tn_run(c->prepared), c->info.name);
  must(tn_device_synchronize(b->device), "tn_device_synchronize");
  return (clock_of(b) - began) / (double)calls;
}

static size_t find_contenders(tn_call *call, contender *list) {
  size_t count = 0;
  for (uint32_t rank = 0; count < CANDIDATES; rank++) {
    contender *c = &list[count];
    *c = (contender){.info.struct_size = sizeof c->info};
    if (tn_prepare_candidate(call, rank, &c->prepared) != TN_OK) break;
    must(tn_prepared_kernel(c->prepared, &c->info), "tn_prepared_kernel");
    if (strcmp(c->info.plugin, "reference") != 0)
      count++;
    else
      tn_prepared_release(c->prepared);
  }
  return count;
}

static void compete(const bench *b, contender *list, size_t count) {
  const size_t rounds = bench_times(ROUNDS);
  int64_t calls[CANDIDATES];
  for (size_t i = 0; i < count; i++) {
    if (rounds > 1) (void)round_of(b, &list[i], 1);
    const double once = round_of(b, &list[i], 1);
    calls[i] = (int64_t)bench_times(1 + (size_t)(ROUND_NS / (once > 1 ? once : 1)));
  }
  for (size_t r = 0; r < rounds; r++)
    for (size_t i = 0; i < count; i++) list[i].rounds[r] = round_of(b, &list[i], calls[i]);
  for (size_t i = 0; i < count; i++) list[i].ns = median(list[i].rounds, rounds);
}

static void print(const bench *b, const char *what, const contender *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double other = 0;
    char text[200];
    for (size_t k = 0; k < count; k++)
      if (k != i && (other == 0 || list[k].ns < other)) other = list[k].ns;
    snprintf(text, sizeof text, "%s %s", what, list[i].info.name);
    const figure figures[] = {{"time_us", list[i].ns / 1e3}, {"rate", other / list[i].ns}};
    bench_row(b, text, count > 1 ? 2 : 1, figures);
  }
}

static void run_call(const bench *b, const char *what, tn_call *call) {
  contender list[CANDIDATES];
  const size_t count = find_contenders(call, list);
  compete(b, list, count);
  print(b, what, list, count);
  for (size_t i = 0; i < count; i++) tn_prepared_release(list[i].prepared);
}

static void describe(const bench *b, const point *p, char *text, size_t size) {
  const tn_operator *op = NULL;
  for (size_t i = 0; !op && i < tn_op_count(b->runtime); i++)
    if (tn_op_at(b->runtime, i)->id == p->op) op = tn_op_at(b->runtime, i);
  size_t used = (size_t)snprintf(text, size, "%s %s", op ? op->name : "?", tn_dtype_name(p->dtype));
  for (int t = 0; t < 2; t++)
    for (int32_t d = 0; d < p->rank; d++)
      used += (size_t)snprintf(text + used, size - used, "%c%lld", d ? 'x' : ' ',
                               (long long)(t ? p->w : p->x)[d]);
  if (p->stride > 1) snprintf(text + used, size - used, " stride %lld", (long long)p->stride);
}

/* Attributes of the convolutions over two axes, whose structs begin alike. */
typedef union attributes {
  tn_matmul_attrs matmul;
  tn_conv2d_attrs forward;
  tn_conv2d_grad_input_attrs input;
  tn_conv2d_grad_weight_attrs weight;
} attributes;

static void fill(const point *p, attributes *a) {
  memset(a, 0, sizeof *a);
  if (p->op == TN_OP_MATMUL) {
    a->matmul.struct_size = sizeof a->matmul;
    return;
  }
  for (int d = 0; d < 2; d++)
    a->forward.stride[d] = p->stride, a->forward.padding[d] = p->padding,
    a->forward.dilation[d] = 1;
  a->forward.groups = p->groups;
  a->forward.struct_size = sizeof a->forward;
  if (p->op == TN_OP_CONV2D_GRAD_INPUT) {
    a->input.struct_size = sizeof a->input;
    memcpy(a->input.size, p->x + 2, sizeof a->input.size);
  } else if (p->op == TN_OP_CONV2D_GRAD_WEIGHT) {
    a->weight.struct_size = sizeof a->weight;
    memcpy(a->weight.kernel, p->w + 2, sizeof a->weight.kernel);
  }
}

static void run_point(const bench *b, const point *p) {
  tn_tensor *x = bench_tensor(b, p->dtype, p->rank, p->x), *dy = NULL, *y = NULL;
  tn_tensor *w = bench_tensor(b, p->dtype_w ? p->dtype_w : p->dtype, p->rank, p->w);
  const bool integer = p->op == TN_OP_MATMUL_INTEGER, conv = !integer && p->op != TN_OP_MATMUL;
  attributes attrs;
  char what[160];
  describe(b, p, what, sizeof what);
  fill(p, &attrs);
  if (conv) {
    tn_conv2d_attrs forward = {
        sizeof forward, {p->stride, p->stride}, {p->padding, p->padding}, {1, 1}, p->groups};
    must(tn_conv2d(NULL, x, w, NULL, &forward, &dy), "tn_conv2d");
  }
  const tn_tensor *in[4] = {x, w, NULL, NULL};
  if (p->op == TN_OP_CONV2D_GRAD_INPUT) in[0] = dy;
  if (p->op == TN_OP_CONV2D_GRAD_WEIGHT) in[0] = dy, in[1] = x;
  tn_call call = {sizeof call, p->op, NULL, in, &y, integer ? NULL : &attrs, 3, 1, 0};
  if (integer) call.num_in = 4;
  if (conv && p->op != TN_OP_CONV2D) call.num_in = 2;
  run_call(b, what, &call);
  tn_tensor *all[] = {x, w, dy, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tn_tensor_release(all[i]);
}

/* --- the grid --- */

static void run_products(const bench *b, const char *group, uint32_t op, tn_dtype dtype,
                         tn_dtype dtype_w) {
  static const int64_t sizes[][3] = {
      {16, 16, 16},    {32, 32, 32},       {64, 64, 64},    {128, 128, 128}, {256, 256, 256},
      {512, 512, 512}, {1024, 1024, 1024}, {1, 1024, 1024}, {8, 1024, 1024}, {32, 768, 3072},
      {64, 10, 9216},  {1000, 7, 1000},    {4096, 16, 64},  {128, 4096, 64}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
    const point p = {group, op, dtype, dtype_w, 2, {m, k}, {k, n}, 0, 0, 0};
    run_point(b, &p);
  }
}

static void run_convolutions(const bench *b, const char *group, uint32_t op, tn_dtype dtype) {
  static const struct {
    int64_t n, c, k, size, kernel, stride, padding, groups;
  } list[] = {
      {64, 1, 32, 28, 3, 1, 0, 1},   {64, 32, 64, 26, 3, 1, 0, 1}, {8, 3, 64, 112, 7, 2, 3, 1},
      {8, 64, 64, 56, 3, 1, 1, 1},   {8, 64, 256, 56, 1, 1, 0, 1}, {8, 128, 128, 28, 3, 1, 1, 1},
      {8, 256, 256, 14, 3, 2, 1, 1}, {8, 512, 512, 7, 3, 1, 1, 1}, {1, 64, 64, 56, 3, 1, 1, 1},
      {1, 256, 256, 14, 3, 1, 1, 1}, {8, 96, 96, 28, 3, 1, 1, 96}, {8, 64, 64, 28, 3, 1, 1, 4},
      {2, 8, 8, 16, 3, 1, 1, 1},     {1, 16, 16, 8, 3, 1, 1, 1},   {4, 4, 4, 32, 3, 1, 1, 1},
      {1, 3, 8, 32, 3, 1, 1, 1}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    const point p = {group,
                     op,
                     dtype,
                     TN_DTYPE_NONE,
                     4,
                     {list[i].n, list[i].c, list[i].size, list[i].size},
                     {list[i].k, list[i].c / list[i].groups, list[i].kernel, list[i].kernel},
                     list[i].stride,
                     list[i].padding,
                     list[i].groups};
    run_point(b, &p);
  }
}

static void run_pools(const bench *b, uint32_t op, tn_dtype dtype) {
  static const int64_t list[][6] = {/* n, c, size, kernel, stride, padding */
                                    {64, 32, 24, 2, 2, 0}, {8, 64, 56, 3, 2, 1},
                                    {8, 256, 14, 3, 1, 1}, {8, 512, 7, 7, 7, 0},
                                    {1, 64, 56, 2, 2, 0},  {2, 8, 16, 2, 2, 0}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    const int64_t *l = list[i], shape[] = {l[0], l[1], l[2], l[2]};
    tn_avg_pool2d_attrs attrs = TN_AVG_POOL2D_DEFAULTS;
    for (int d = 0; d < 2; d++)
      attrs.kernel[d] = l[3], attrs.stride[d] = l[4], attrs.padding[d] = l[5];
    tn_tensor *x = bench_tensor(b, dtype, 4, shape), *y = NULL;
    const tn_tensor *in[] = {x};
    tn_call call = {sizeof call, op, NULL, in, &y, &attrs, 1, 1, 0};
    char what[160];
    snprintf(what, sizeof what, "avg_pool2d %s %lldx%lldx%lldx%lld window %lld stride %lld",
             tn_dtype_name(dtype), (long long)l[0], (long long)l[1], (long long)l[2],
             (long long)l[2], (long long)l[3], (long long)l[4]);
    run_call(b, what, &call);
    tn_tensor_release(x);
    tn_tensor_release(y);
  }
}

static const struct {
  const char *name;
  uint32_t op;
  tn_dtype dtype, dtype_w;
} groups[] = {{"matmul-f32", TN_OP_MATMUL, TN_F32, 0},
              {"matmul-bf16", TN_OP_MATMUL, TN_BF16, 0},
              {"integer-u8", TN_OP_MATMUL_INTEGER, TN_U8, TN_I8},
              {"integer-i8", TN_OP_MATMUL_INTEGER, TN_I8, TN_I8},
              {"conv-f32", TN_OP_CONV2D, TN_F32, 0},
              {"conv-bf16", TN_OP_CONV2D, TN_BF16, 0},
              {"input-f32", TN_OP_CONV2D_GRAD_INPUT, TN_F32, 0},
              {"input-bf16", TN_OP_CONV2D_GRAD_INPUT, TN_BF16, 0},
              {"weight-f32", TN_OP_CONV2D_GRAD_WEIGHT, TN_F32, 0},
              {"weight-bf16", TN_OP_CONV2D_GRAD_WEIGHT, TN_BF16, 0},
              {"pool-f32", TN_OP_AVG_POOL2D, TN_F32, 0},
              {"pool-bf16", TN_OP_AVG_POOL2D, TN_BF16, 0}};

int main(int argc, char **argv) {
  const char *wanted = argc > 1 && argv[argc - 1][0] != '-' ? argv[--argc] : NULL;
  bench b = bench_begin("candidates", argc, argv, "");
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    if (wanted && strcmp(wanted, groups[i].name) != 0) continue;
    if (groups[i].op == TN_OP_MATMUL || groups[i].op == TN_OP_MATMUL_INTEGER)
      run_products(&b, groups[i].name, groups[i].op, groups[i].dtype, groups[i].dtype_w);
    else if (groups[i].op == TN_OP_AVG_POOL2D)
      run_pools(&b, groups[i].op, groups[i].dtype);
    else
      run_convolutions(&b, groups[i].name, groups[i].op, groups[i].dtype);
  }
  bench_end(&b);
  return 0;
}
