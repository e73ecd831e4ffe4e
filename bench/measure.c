/*
 * What every bench does alike. Figures are medians over rounds, so that a disturbed
 * round does not count; a round is long enough for the clock.
 */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15 };

double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double median(double *numbers, size_t count) {
  qsort(numbers, count, sizeof *numbers, by_value);
  return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

void must(tn_status status, const char *what) {
  if (status == TN_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, tn_status_name(status), tn_last_error());
  exit(1);
}

static bool quick;

size_t bench_times(size_t usual) { return quick ? 1 : usual; }

bench bench_options(const char *name, int argc, char **argv, const char *extra) {
  bench b = {.name = name, .info = {.struct_size = sizeof b.info, .id = "cpu"}};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--table"))
      b.table = true;
    else if (!strcmp(argv[i], "--quick"))
      quick = true;
    else if (argv[i][0] == '-' && strcmp(argv[i], "--json") && (!extra || strcmp(argv[i], extra))) {
      fprintf(stderr, "usage: %s [--json | --table] [--quick]%s%s\n", argv[0], extra ? " " : "",
              extra ? extra : "");
      exit(2);
    }
  }
  return b;
}

bench bench_begin(const char *name, int argc, char **argv, const char *extra) {
  bench b = bench_options(name, argc, argv, extra);
  must(tn_runtime_open(NULL, &b.runtime), "tn_runtime_open");
  b.device = tn_runtime_device(b.runtime);
  must(tn_device_get_info(b.device, &b.info), "tn_device_get_info");
  b.host = b.info.host_memory;
  fprintf(stderr, "%s on %s (%s)\n", name, b.info.id, b.info.name);
  return b;
}

void bench_end(bench *b) {
  tn_runtime_close(b->runtime);
  if (fflush(stdout) == 0 && !ferror(stdout)) return;
  perror("cannot write the figures");
  exit(1);
}

void bench_row(const bench *b, const char *what, size_t count, const figure *figures) {
  if (b->table)
    printf("%-44s", what);
  else
    printf("{\"bench\": \"%s\", \"device\": \"%s\", \"case\": \"%s\"", b->name, b->info.id, what);
  for (size_t i = 0; i < count; i++) {
    bool known = isfinite(figures[i].value);
    if (b->table && known) printf("  %12.4g %-10s", figures[i].value, figures[i].key);
    if (!b->table && known) printf(", \"%s\": %.6g", figures[i].key, figures[i].value);
    if (!b->table && !known) printf(", \"%s\": null", figures[i].key);
  }
  puts(b->table ? "" : "}");
  fflush(stdout);
}

tn_tensor *bench_tensor(const bench *b, tn_dtype dtype, int32_t rank, const int64_t *shape) {
  static uint64_t seed = 1;
  tn_tensor *single = NULL, *t = NULL;
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  attrs.low = -1;
  attrs.seed = seed++;
  cast.dtype = dtype;
  must(tn_tensor_empty(b->device, TN_F32, rank, shape, &single), "input");
  must(tn_uniform(NULL, single, &attrs), "uniform");
  if (dtype == TN_F32) return single;
  must(tn_cast(NULL, single, &cast, &t), "cast");
  tn_tensor_release(single);
  return t;
}

static double round_ns(const bench *b, void (*body)(void *), void *ctx, int64_t calls) {
  double begin = now_ns();
  for (int64_t i = 0; i < calls; i++) body(ctx);
  must(tn_device_synchronize(b->device), "synchronize");
  return now_ns() - begin;
}

double bench_time(const bench *b, void (*body)(void *), void *ctx, double budget_ns) {
  double rounds[ROUNDS];
  round_ns(b, body, ctx, (int64_t)bench_times(3));
  double once = round_ns(b, body, ctx, 1);
  const size_t calls = bench_times((size_t)(budget_ns / ROUNDS / once) + 1);
  const size_t count = bench_times(once > budget_ns / 3 ? 3 : ROUNDS);
  for (size_t i = 0; i < count; i++)
    rounds[i] = round_ns(b, body, ctx, (int64_t)calls) / (double)calls;
  return median(rounds, count);
}
