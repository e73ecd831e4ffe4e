/*
 * The operators by size: GB/s of what an operator must read and write, or GFLOP/s where
 * it multiplies. The elementwise and reducing operators come from the schema; the others
 * have shapes of a small network.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"
#include "tenon/plugin.h"

static const double BUDGET_NS = 1.5e8;

typedef struct job {
  tn_call call;
  const tn_tensor *in[TN_MAX_ARGS];
  tn_tensor *out[TN_MAX_ARGS];
} job;

static void run(void *ctx) {
  job *j = ctx;
  must(tn_invoke(&j->call), "invoke");
}

static double job_bytes(const job *j) {
  double bytes = 0;
  for (int i = 0; i < j->call.num_in; i++)
    bytes += j->in[i] ? (double)tn_tensor_bytes(j->in[i]) : 0;
  for (int i = 0; i < j->call.num_out; i++)
    bytes += j->out[i] ? (double)tn_tensor_bytes(j->out[i]) : 0;
  return bytes;
}

static void job_free(job *j) {
  union {
    const tn_tensor *borrowed;
    tn_tensor *owned;
  } t;
  for (int i = 0; i < j->call.num_in; i++) {
    t.borrowed = j->in[i];
    tn_tensor_release(t.owned);
  }
  for (int i = 0; i < j->call.num_out; i++) tn_tensor_release(j->out[i]);
}

/* Times a job whose first run makes its outputs. flops 0: only bytes count. */
static void measure(const bench *b, job *j, const char *what, double flops) {
  j->call.struct_size = sizeof j->call;
  j->call.in = j->in;
  j->call.out = j->out;
  if (tn_invoke(&j->call) != TN_OK) {
    fprintf(stderr, "%s: %s\n", what, tn_last_error());
    job_free(j);
    return;
  }
  double ns = bench_time(b, run, j, BUDGET_NS);
  bench_row(b, what, 3,
            (figure[]){{"time_us", ns / 1e3},
                       {"gbytes_s", job_bytes(j) / ns},
                       {"gflops", flops ? flops / ns : (double)NAN}});
  job_free(j);
}

static bool has_kernel(const bench *b, uint32_t op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return tn_kernel_find(b->device, op, dtype, 0, &info) == TN_OK;
}

/* Operators with one type variable, no bool mask and the shape of their inputs. */
static bool is_plain(const tn_operator *op) {
  bool plain = op->shape == TN_SHAPE_SAME || op->shape == TN_SHAPE_BROADCAST ||
               op->shape == TN_SHAPE_UPDATE || op->shape == TN_SHAPE_GIVEN ||
               op->shape == TN_SHAPE_REDUCE;
  for (uint32_t i = 0; i < op->num_args; i++)
    plain = plain && !(op->args[i].kind == TN_ARG_IN && op->args[i].type & 0x40);
  return plain && !op->types[1];
}

static void measure_plain(const bench *b, const tn_operator *op, tn_dtype dtype, int32_t rank,
                          const int64_t *shape, const char *size) {
  job j = {.call = {.op = op->id}};
  char what[96];
  for (uint32_t i = 0; i < op->num_args; i++) {
    bool in = op->args[i].kind == TN_ARG_IN || op->args[i].kind == TN_ARG_OPTIONAL_IN;
    if (in)
      j.in[j.call.num_in++] = bench_tensor(b, dtype, rank, shape);
    else if (op->args[i].kind == TN_ARG_INOUT)
      j.out[j.call.num_out++] = bench_tensor(b, dtype, rank, shape);
    else
      j.call.num_out++;
  }
  snprintf(what, sizeof what, "%s %s %s", op->name, tn_dtype_name(dtype), size);
  measure(b, &j, what, 0);
}

static void plain_operators(const bench *b) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  int64_t large = b->host ? 10000000 : 100000000;
  for (size_t i = 0; i < tn_op_count(b->runtime); i++) {
    const tn_operator *op = tn_op_at(b->runtime, i);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && is_plain(op); d++) {
      if (!(op->types[0] >> dtypes[d] & 1) || !has_kernel(b, op->id, dtypes[d])) continue;
      if (d == 0) measure_plain(b, op, dtypes[d], 1, (int64_t[]){1000}, "1e3");
      if (d == 0) measure_plain(b, op, dtypes[d], 1, (int64_t[]){100000}, "1e5");
      measure_plain(b, op, dtypes[d], 1, &large, b->host ? "1e7" : "1e8");
    }
  }
}

/* Reductions by axis: rows (contiguous) and columns. */
static void reductions(const bench *b) {
  int64_t side = b->host ? 2048 : 16384;
  for (int axis = 0; axis < 2; axis++) {
    job j = {.call = {.op = TN_OP_SUM, .num_in = 1, .num_out = 1}};
    tn_sum_attrs attrs = TN_SUM_DEFAULTS;
    attrs.axes = (tn_axes){1, {axis}};
    j.call.attrs = &attrs;
    j.in[0] = bench_tensor(b, TN_F32, 2, (int64_t[]){side, side});
    measure(b, &j, axis ? "sum f32 of rows" : "sum f32 of columns", 0);
  }
}

static void broadcasts(const bench *b) {
  job j = {.call = {.op = TN_OP_ADD, .num_in = 2, .num_out = 1}};
  j.in[0] = bench_tensor(b, TN_F32, 4, (int64_t[]){64, 64, 24, 24});
  j.in[1] = bench_tensor(b, TN_F32, 4, (int64_t[]){1, 64, 1, 1});
  measure(b, &j, "add f32 [64,64,24,24] + [64,1,1]", 0);
  tn_tensor *x = bench_tensor(b, TN_F32, 2, (int64_t[]){2048, 2048}), *turned = NULL;
  must(tn_tensor_permute(x, (int32_t[]){1, 0}, &turned), "permute");
  job copy = {.call = {.op = TN_OP_COPY, .num_in = 1, .num_out = 1}};
  int64_t shape[] = {2048, 2048};
  copy.in[0] = turned;
  must(tn_tensor_empty(b->device, TN_F32, 2, shape, &copy.out[0]), "empty");
  measure(b, &copy, "copy f32 transposed [2048,2048]", 0);
  tn_tensor_release(x);
}

static void products(const bench *b) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  static const int64_t sides[] = {128, 512, 1024, 4096, 8192};
  for (size_t i = 0; i < (b->host ? 3 : 5); i++)
    for (size_t d = 0; d < (b->host ? 1 : 3); d++) {
      job j = {.call = {.op = TN_OP_MATMUL, .num_in = 3, .num_out = 1}};
      int64_t n = sides[i];
      char what[64];
      j.in[0] = bench_tensor(b, dtypes[d], 2, (int64_t[]){n, n});
      j.in[1] = bench_tensor(b, dtypes[d], 2, (int64_t[]){n, n});
      snprintf(what, sizeof what, "matmul %s %lld", tn_dtype_name(dtypes[d]), (long long)n);
      measure(b, &j, what, 2.0 * (double)(n * n * n));
    }
}

/* The second convolution of the example network, and its gradients. */
static void convolutions(const bench *b) {
  static const int64_t x[] = {64, 32, 26, 26}, w[] = {64, 32, 3, 3}, y[] = {64, 64, 24, 24};
  static const double flops = 2.0 * 64 * 64 * 24 * 24 * 32 * 9;
  job forward = {.call = {.op = TN_OP_CONV2D, .num_in = 3, .num_out = 1}};
  forward.in[0] = bench_tensor(b, TN_F32, 4, x);
  forward.in[1] = bench_tensor(b, TN_F32, 4, w);
  measure(b, &forward, "conv2d f32 [64,32,26,26] by [64,32,3,3]", flops);
  tn_conv2d_grad_input_attrs by_input = TN_CONV2D_GRAD_INPUT_DEFAULTS;
  by_input.size[0] = by_input.size[1] = 26;
  job grad_x = {.call = {.op = TN_OP_CONV2D_GRAD_INPUT, .num_in = 2, .num_out = 1}};
  grad_x.call.attrs = &by_input;
  grad_x.in[0] = bench_tensor(b, TN_F32, 4, y);
  grad_x.in[1] = bench_tensor(b, TN_F32, 4, w);
  measure(b, &grad_x, "conv2d_grad_input f32, the same", flops);
  tn_conv2d_grad_weight_attrs by_weight = TN_CONV2D_GRAD_WEIGHT_DEFAULTS;
  by_weight.kernel[0] = by_weight.kernel[1] = 3;
  job grad_w = {.call = {.op = TN_OP_CONV2D_GRAD_WEIGHT, .num_in = 2, .num_out = 1}};
  grad_w.call.attrs = &by_weight;
  grad_w.in[0] = bench_tensor(b, TN_F32, 4, y);
  grad_w.in[1] = bench_tensor(b, TN_F32, 4, x);
  measure(b, &grad_w, "conv2d_grad_weight f32, the same", flops);
}

static void rest(const bench *b) {
  job pool = {.call = {.op = TN_OP_MAX_POOL2D, .num_in = 1, .num_out = 2}};
  pool.in[0] = bench_tensor(b, TN_F32, 4, (int64_t[]){64, 64, 24, 24});
  measure(b, &pool, "max_pool2d f32 [64,64,24,24] with index", 0);
  for (uint32_t op = TN_OP_SOFTMAX; op <= TN_OP_LOG_SOFTMAX; op++) {
    job j = {.call = {.op = op, .num_in = 1, .num_out = 1}};
    j.in[0] = bench_tensor(b, TN_F32, 2, (int64_t[]){1024, 1000});
    measure(b, &j, op == TN_OP_SOFTMAX ? "softmax f32 [1024,1000]" : "log_softmax f32 [1024,1000]",
            0);
  }
  job drop = {.call = {.op = TN_OP_DROPOUT, .num_in = 1, .num_out = 2}};
  drop.in[0] = bench_tensor(b, TN_F32, 2, (int64_t[]){64, 9216});
  measure(b, &drop, "dropout f32 [64,9216]", 0);
  job cast = {.call = {.op = TN_OP_CAST, .num_in = 1, .num_out = 1}};
  tn_cast_attrs to_half = TN_CAST_DEFAULTS;
  to_half.dtype = TN_F16;
  cast.call.attrs = &to_half;
  cast.in[0] = bench_tensor(b, TN_F32, 1, (int64_t[]){1000000});
  measure(b, &cast, "cast f32 to f16 1e6", 0);
}

int main(int argc, char **argv) {
  bench b = bench_begin("ops", argc, argv, NULL);
  products(&b);
  convolutions(&b);
  rest(&b);
  reductions(&b);
  broadcasts(&b);
  plain_operators(&b);
  bench_end(&b);
  return 0;
}
