/* The caching allocator: a pair of tensor allocation and release by size, one at a time
 * and with many alive, and how often the backend was asked. */
#include <stdio.h>

#include "measure.h"

enum { ALIVE = 64 };

typedef struct job {
  bench *b;
  int64_t elements;
  tn_tensor *alive[ALIVE];
} job;

static void pair(void *ctx) {
  job *j = ctx;
  tn_tensor *t = NULL;
  must(tn_tensor_empty(j->b->device, TN_F32, 1, &j->elements, &t), "empty");
  tn_tensor_release(t);
}

/* Sizes differ from one tensor to the next, and go in the order they came. */
static void many(void *ctx) {
  job *j = ctx;
  for (int i = 0; i < ALIVE; i++) {
    int64_t n = j->elements / (1 + i % 7) + i;
    j->alive[i] = NULL;
    must(tn_tensor_empty(j->b->device, TN_F32, 1, &n, &j->alive[i]), "empty");
  }
  for (int i = 0; i < ALIVE; i++) tn_tensor_release(j->alive[i]);
}

static uint64_t raw_allocs(const bench *b) {
  tn_memory_stats stats = {.struct_size = sizeof stats};
  must(tn_device_memory_stats(b->device, &stats), "stats");
  return stats.raw_allocs;
}

int main(int argc, char **argv) {
  static const int64_t sizes[] = {1, 1000, 100000, 10000000};
  bench b = bench_begin("alloc", argc, argv, NULL);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    job j = {.b = &b, .elements = sizes[i]};
    char what[64];
    snprintf(what, sizeof what, "empty and release, %lld elements", (long long)sizes[i]);
    double one = bench_time(&b, pair, &j, 1e8);
    uint64_t before = raw_allocs(&b);
    bench_row(&b, what, 1, (figure[]){{"time_ns", one}});
    snprintf(what, sizeof what, "%d alive, up to %lld elements", ALIVE, (long long)sizes[i]);
    double each = bench_time(&b, many, &j, 1e8) / ALIVE;
    bench_row(&b, what, 2,
              (figure[]){{"time_ns", each}, {"raw_allocs", (double)(raw_allocs(&b) - before)}});
  }
  bench_end(&b);
  return 0;
}
