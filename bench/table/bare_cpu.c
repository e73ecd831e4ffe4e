/*
 * The bare libraries' side of bench/table on the CPU: copies and additions as STREAM makes them,
 * over OpenMP's threads; OpenBLAS's products and oneDNN's convolutions, where this build has them,
 * on as many threads of their own. Commands and answers as in serve.c:
 *
 *   copy BYTES | add N
 *   gemm f32 M N K BATCH TRANS_A TRANS_B       row-major, as Tenon's matmul; BATCH is 1
 *   conv N C H W K KH KW STRIDE PADDING        f32, in the layouts that oneDNN likes best
 *   time MS | drop
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef BENCH_CBLAS
#include <cblas.h>
#endif
#ifdef BENCH_DNNL
#include "plugins/onednn/compat.h"
#endif

#include "../measure.h"

enum { ARRAYS = 3, NUMBERS = 9, TRIES = 4 };
static const double LONG_NS = 5e7; /* that is not tried again */

static struct {
  void (*call)(void);
  float *array[ARRAYS];
  size_t bytes[ARRAYS];
  int64_t number[NUMBERS];
  int64_t calls; /* in about a millisecond; 0 = not known yet */
} s;

static void drop(void) {
  for (int i = 0; i < ARRAYS; i++) free(s.array[i]);
  memset(&s, 0, sizeof s);
}

/* Random numbers in -1..1, first touched by the threads that use them. */
static bool take(int i, size_t bytes) {
  const int64_t n = (int64_t)(bytes / sizeof(float));
  float *x = aligned_alloc(64, (bytes + 127) / 64 * 64);
  s.array[i] = x;
  s.bytes[i] = bytes;
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < (x ? n : 0); k++) {
    uint32_t bits = (uint32_t)k * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    x[k] = (float)(bits >> 8) * 0x1p-23f - 1;
  }
  return x != NULL;
}

/* --- STREAM --- */

static void call_copy(void) {
  const float *x = s.array[0];
  float *y = s.array[1];
  const int64_t n = (int64_t)(s.bytes[0] / sizeof *x);
#pragma omp parallel for simd schedule(static) if (n > 32768)
  for (int64_t i = 0; i < n; i++) y[i] = x[i];
}

static void call_add(void) {
  const float *a = s.array[0], *b = s.array[1];
  float *y = s.array[2];
  const int64_t n = (int64_t)(s.bytes[0] / sizeof *a);
#pragma omp parallel for simd schedule(static) if (n > 32768)
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static bool make_stream(void (*call)(void), int arrays, size_t bytes) {
  for (int i = 0; i < arrays; i++)
    if (!take(i, bytes)) return false;
  s.call = call;
  return true;
}

/* --- OpenBLAS --- */

#ifdef BENCH_CBLAS
static void call_gemm(void) {
  const int m = (int)s.number[0], n = (int)s.number[1], k = (int)s.number[2];
  const bool ta = s.number[4], tb = s.number[5];
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
              k, 1, s.array[0], ta ? m : k, s.array[1], tb ? k : n, 0, s.array[2], n);
}

static bool make_gemm(const char *rest) {
  long long v[6];
  if (sscanf(rest, "f32 %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) !=
          6 ||
      v[3] != 1)
    return false;
  for (int i = 0; i < 6; i++) s.number[i] = v[i];
  const size_t m = (size_t)v[0], n = (size_t)v[1], k = (size_t)v[2];
  s.call = call_gemm;
  return take(0, 4 * m * k) && take(1, 4 * k * n) && take(2, 4 * m * n);
}
#else
static bool make_gemm(const char *rest) { return (void)rest, false; }
#endif

/* --- oneDNN --- */

#ifdef BENCH_DNNL
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_t primitive;
static dnnl_exec_arg_t args[ARRAYS];

static void call_conv(void) {
  (void)dnnl_primitive_execute(primitive, stream, ARRAYS, args);
  (void)dnnl_stream_wait(stream);
}

/* An array of random numbers in the layout that the primitive chose. */
static bool bind(int i, int arg, dnnl_query_t what, const_dnnl_primitive_desc_t pd) {
  const layout_ref of = (layout_ref)dnnl_primitive_desc_query_md(pd, what, 0);
  args[i].arg = arg;
  return take(i, dnnl_memory_desc_get_size(of)) &&
         dnnl_memory_create(&args[i].memory, of, engine, s.array[i]) == dnnl_success;
}

/* Primitives stay for the process: they are few. */
static bool make_conv(const char *rest) {
  long long v[NUMBERS];
  if (sscanf(rest, "%lld %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
             &v[4], &v[5], &v[6], &v[7], &v[8]) != NUMBERS)
    return false;
  const int64_t stride = v[7], padding = v[8], oh = (v[2] + 2 * padding - v[5]) / stride + 1;
  const int64_t ow = (v[3] + 2 * padding - v[6]) / stride + 1;
  const dnnl_dims_t strides = {stride, stride}, around = {padding, padding}, dense = {0};
  layout x, w, y;
  dnnl_primitive_desc_t pd;
  if ((!engine && (dnnl_engine_create(&engine, dnnl_cpu, 0) ||
                   dnnl_stream_create(&stream, engine, dnnl_stream_default_flags))) ||
      layout_make(&x, 4, (int64_t[]){v[0], v[1], v[2], v[3]}, dnnl_f32, NULL) ||
      layout_make(&w, 4, (int64_t[]){v[4], v[1], v[5], v[6]}, dnnl_f32, NULL) ||
      layout_make(&y, 4, (int64_t[]){v[0], v[4], oh, ow}, dnnl_f32, NULL))
    return false;
  const conv_desc c = {.src = layout_of(&x),
                       .weights = layout_of(&w),
                       .dst = layout_of(&y),
                       .strides = strides,
                       .dilates = dense,
                       .padding_l = around,
                       .padding_r = around};
  if (conv_describe(&pd, engine, &c, NULL, NULL) || dnnl_primitive_create(&primitive, pd))
    return false;
  s.call = call_conv;
  return bind(0, DNNL_ARG_SRC, dnnl_query_src_md, pd) &&
         bind(1, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, pd) &&
         bind(2, DNNL_ARG_DST, dnnl_query_dst_md, pd);
}
#else
static bool make_conv(const char *rest) { return (void)rest, false; }
#endif

/* --- commands --- */

static double round_ns(int64_t calls) {
  const double begin = now_ns();
  for (int64_t i = 0; i < calls; i++) s.call();
  return (now_ns() - begin) / (double)calls;
}

/* The least of some tries: threads that went to sleep meanwhile make the first ones longer. */
static double about_ns(void) {
  double least = round_ns(1);
  for (int i = 0; i < TRIES && least < LONG_NS; i++) {
    const double some = round_ns(least < 1e6 ? 20 : 1);
    if (some < least) least = some;
  }
  return least;
}

static double time_ns(double ms) {
  if (!s.calls) s.calls = (int64_t)(1e6 / about_ns()) + 1;
  const int64_t calls = s.calls > 1 ? (int64_t)((double)s.calls * ms) + 1 : 1 + (ms > 10);
  if (s.calls > 1) (void)round_ns(calls / 4 + 1);
  return round_ns(calls);
}

static bool make(const char *word, const char *rest) {
  const size_t count = (size_t)atoll(rest);
  drop();
  const bool made = !strcmp(word, "copy")   ? make_stream(call_copy, 2, count)
                    : !strcmp(word, "add")  ? make_stream(call_add, 3, count * sizeof(float))
                    : !strcmp(word, "gemm") ? make_gemm(rest)
                                            : make_conv(rest);
  if (made)
    (void)round_ns(2);
  else
    drop();
  return made;
}

static void obey(char *line) {
  static const char *const calls[] = {"copy", "add", "gemm", "conv"};
  char *rest = strchr(line, ' ');
  bool known = false;
  if (rest) *rest++ = 0;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) known |= !strcmp(line, calls[i]);
  if (known)
    puts(make(line, rest ? rest : "") ? "ok" : "error not here, or no memory");
  else if (!strcmp(line, "time") && s.call)
    printf("ok %.6g\n", time_ns(rest ? atof(rest) : 0));
  else if (!strcmp(line, "drop"))
    drop(), puts("ok");
  else
    puts("error no such command, or nothing was made");
}

int main(void) {
  char line[1024];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    obey(line);
    fflush(stdout);
  }
  drop();
  return 0;
}
