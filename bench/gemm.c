/*
 * Matrix products and convolutions against OpenBLAS alone, in turns within one run: for a
 * product the same product, for a convolution the one product that holds its arithmetic.
 * share: the bare time over ours, 1 where Tenon costs nothing. Not on devices that do not
 * compute in host memory: bench/peers has those.
 */
#include <math.h>
#include <stdio.h>

#include "bare_blas.h"
#include "measure.h"

enum { ROUNDS = 9 };

typedef struct product {
  const char *what;
  int64_t m, n, k;
  int64_t x[4], w[4]; /* of a convolution; empty for a matrix product */
} product;

static const product products[] = {
    {"matmul 64", 64, 64, 64, {0}, {0}},
    {"matmul 256", 256, 256, 256, {0}, {0}},
    {"matmul 1024", 1024, 1024, 1024, {0}, {0}},
    {"matmul 64 x 9216 x 128", 64, 128, 9216, {0}, {0}},
    {"matmul 1000 x 1000 x 7", 1000, 1000, 7, {0}, {0}},
    {"conv2d 1 to 32, 3x3, batch 64", 32, 64 * 26 * 26, 9, {64, 1, 28, 28}, {32, 1, 3, 3}},
    {"conv2d 32 to 64, 3x3, batch 64", 64, 64 * 24 * 24, 288, {64, 32, 26, 26}, {64, 32, 3, 3}},
    {"conv2d 64 to 64, 1x1, batch 16", 64, 16 * 28 * 28, 64, {16, 64, 28, 28}, {64, 64, 1, 1}},
};

typedef struct job {
  tn_tensor *a, *b, *y;
  bool convolution;
} job;

static job job_make(const bench *b, const product *p) {
  job j = {.convolution = p->x[0] != 0};
  j.a = j.convolution ? bench_tensor(b, TN_F32, 4, p->x)
                      : bench_tensor(b, TN_F32, 2, (int64_t[]){p->m, p->k});
  j.b = j.convolution ? bench_tensor(b, TN_F32, 4, p->w)
                      : bench_tensor(b, TN_F32, 2, (int64_t[]){p->k, p->n});
  return j;
}

static void run(job *j) {
  if (j->convolution)
    must(tn_conv2d(NULL, j->a, j->b, NULL, NULL, &j->y), "conv2d");
  else
    must(tn_matmul(NULL, j->a, j->b, NULL, NULL, &j->y), "matmul");
}

static double round_ns(const bench *b, job *j, int64_t calls) {
  double begin = now_ns();
  for (int64_t i = 0; i < calls; i++) run(j);
  must(tn_device_synchronize(b->device), "synchronize");
  return (now_ns() - begin) / (double)calls;
}

static void measure(const bench *b, const product *p) {
  job j = job_make(b, p);
  double ours[ROUNDS], bare[ROUNDS], flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
  round_ns(b, &j, 2);
  const int64_t calls = (int64_t)bench_times((size_t)(2e7 / round_ns(b, &j, 1)) + 1);
  const size_t rounds = bench_times(ROUNDS);
  for (size_t r = 0; r < rounds; r++) {
    ours[r] = round_ns(b, &j, calls);
    bare[r] = b->host ? bare_blas_ns(p->m, p->n, p->k, calls) : (double)NAN;
  }
  double a = median(ours, rounds), c = median(bare, rounds);
  bench_row(b, p->what, 4,
            (figure[]){{"time_us", a / 1e3},
                       {"gflops", flops / a},
                       {"bare_gflops", flops / c},
                       {"share", c / a}});
  tn_tensor_release(j.a);
  tn_tensor_release(j.b);
  tn_tensor_release(j.y);
}

int main(int argc, char **argv) {
  bool peer = bare_blas_start();
  bench b = bench_begin("gemm", argc, argv, NULL);
  if (!peer) fprintf(stderr, "built without OpenBLAS: no bare figures\n");
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) measure(&b, &products[i]);
  bench_end(&b);
  bare_blas_stop();
  return 0;
}
