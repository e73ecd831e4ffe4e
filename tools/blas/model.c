/* The cost of products, from a few that are timed. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "routines.h"

/* A device has to win clearly: what is measured on an idle machine is not what is found later. */
#define MARGIN 0.8

/* The host is timed on products of which its threads get enough. */
enum { WARM_UP = 64, COPIED = 512, HOST_LEAST = 512, LARGEST = 2048 };
#define LONG_ENOUGH 0.01 /* seconds of a product after which no larger one is timed */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- timing --- */

typedef struct trial {
  element type;
  blas_int n, k; /* n x n results, of sums over k */
  void *a, *b, *c;
} trial;

static void fill(element type, void *data, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double x = (double)(i % 127) / 64 - 1;
    if (type == ELEMENT_D)
      ((double *)data)[i] = x;
    else
      ((float *)data)[i] = (float)x;
  }
}

static bool trial_make(trial *t, element type, int64_t most) {
  size_t part = type == ELEMENT_D ? sizeof(double) : sizeof(float), count = (size_t)(most * most);
  *t = (trial){.type = type, .a = malloc(count * part), .b = malloc(count * part)};
  t->c = calloc(count, part);
  if (!t->a || !t->b || !t->c) return false;
  fill(type, t->a, count);
  fill(type, t->b, count);
  return true;
}

static void trial_free(trial *t) {
  free(t->a);
  free(t->b);
  free(t->c);
}

static tn_status run_host(trial *t) {
  double one = 1, zero = 0;
  float one_f = 1, zero_f = 0;
  char letter = 'N';
  blas_int n = t->n, k = t->k;
  if (t->type == ELEMENT_D)
    HOST(dgemm)(&letter, &letter, &n, &n, &k, &one, t->a, &n, t->b, &k, &zero, t->c, &n, 1, 1);
  else
    HOST(sgemm)(&letter, &letter, &n, &n, &k, &one_f, t->a, &n, t->b, &k, &zero_f, t->c, &n, 1, 1);
  return TN_OK;
}

static tn_status run_device(trial *t) {
  static const double one = 1, zero = 0;
  static const float one_f = 1, zero_f = 0;
  bool wide = t->type == ELEMENT_D;
  return product_try(&(product){.type = t->type,
                                .ta = 'N',
                                .tb = 'N',
                                .m = t->n,
                                .n = t->n,
                                .k = t->k,
                                .alpha = wide ? (const void *)&one : &one_f,
                                .a = t->a,
                                .lda = t->n,
                                .b = t->b,
                                .ldb = t->k,
                                .beta = wide ? (const void *)&zero : &zero_f,
                                .c = t->c,
                                .ldc = t->n});
}

/* The least time of five, the first of which warms up; fewer where they take long. */
static tn_status least_time(tn_status (*run)(trial *), trial *t, blas_int n, blas_int k,
                            double *seconds) {
  *seconds = INFINITY;
  t->n = n, t->k = k;
  for (int i = 0; i < 5; ++i) {
    double begin = now();
    tn_status status = run(t);
    if (status) return status;
    double took = now() - begin;
    if (took < *seconds) *seconds = took;
    if (i > 0 && took > 3 * LONG_ENOUGH) break;
  }
  return TN_OK;
}

/* Larger and larger cubes, up to `least` at any rate, until one takes its time. */
static tn_status time_cube(tn_status (*run)(trial *), trial *t, blas_int least, blas_int *n,
                           double *seconds) {
  tn_status status = TN_OK;
  for (*n = 128; !status; *n *= 2) {
    status = least_time(run, t, *n, *n, seconds);
    if ((*n >= least && *seconds > LONG_ENOUGH) || *n == LARGEST) break;
  }
  return status;
}

static double cube_flops(blas_int n) { return product_flops(ELEMENT_S, n, n, n); }

/* Overhead and copies, from products too small to take time otherwise. */
static tn_status measure_copies(model *m, trial *t) {
  double small, large;
  tn_status status = least_time(run_device, t, WARM_UP, 8, &small);
  if (!status) status = least_time(run_device, t, COPIED, 8, &large);
  if (status) return status;
  double bytes = product_bytes(t->type, COPIED, COPIED, 8);
  m->overhead = small;
  m->copy_rate = bytes / fmax(large - small, 1e-6);
  return TN_OK;
}

static tn_status measure_type(model *m, element type) {
  trial t;
  blas_int n;
  double seconds;
  tn_status status = trial_make(&t, type, LARGEST) ? TN_OK : TN_ERR_OUT_OF_MEMORY;
  if (!status) status = time_cube(run_host, &t, HOST_LEAST, &n, &seconds);
  if (!status) m->host_rate[type] = cube_flops(n) / seconds;
  if (!status) status = measure_copies(m, &t);
  if (!status) status = time_cube(run_device, &t, WARM_UP, &n, &seconds);
  if (!status) {
    double copies = m->overhead + product_bytes(type, n, n, n) / m->copy_rate;
    m->device_rate[type] = cube_flops(n) / fmax(seconds - copies, seconds / 20);
  }
  trial_free(&t);
  return status;
}

/* A device without float64 serves float32 alone. */
tn_status model_measure(model *m) {
  *m = (model){.host_rate = {0}};
  tn_status status = measure_type(m, ELEMENT_S);
  if (status) return status;
  model with_doubles = *m;
  if (measure_type(&with_doubles, ELEMENT_D) == TN_OK) *m = with_doubles;
  return TN_OK;
}

/* --- deciding --- */

static bool positive(double x) { return isfinite(x) && x > 0; }

bool model_is_sound(const model *m) {
  bool doubles =
      m->device_rate[1] == 0 || (positive(m->device_rate[1]) && positive(m->host_rate[1]));
  return positive(m->host_rate[0]) && positive(m->device_rate[0]) && positive(m->copy_rate) &&
         positive(m->overhead) && doubles;
}

bool model_pays(const model *m, element type, int64_t rows, int64_t columns, int64_t k) {
  int wide = type & 1;
  if (m->device_rate[wide] == 0) return false;
  double flops = product_flops(type, rows, columns, k);
  double device = m->overhead + product_bytes(type, rows, columns, k) / m->copy_rate +
                  flops / m->device_rate[wide];
  return device < MARGIN * flops / m->host_rate[wide];
}

/* Of all shapes with as many multiplications the cube has the least to copy. */
double model_floor(const model *m, element type) {
  for (double n = 32; n < 65536; n *= 1.05)
    if (model_pays(m, type, (int64_t)n, (int64_t)n, (int64_t)n)) return n * n * n;
  return INFINITY;
}
