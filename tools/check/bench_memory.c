/*
 * tenon bench memory: what a device's caching allocator costs and keeps. Three parts: the time of a
 * tensor made and released again, what is taken from the device for tensors of random sizes that
 * come and go, beside what they hold themselves, and requests for which memory is short until
 * cached memory is given back.
 */
#include "bench_memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../command.h"
#include "../json.h"
#include "../plain.h"
#include "../progress.h"
#include "tenon/tenon.h"
#include "timeline.h"

enum {
  HELD = 1000, /* tensors at a time */
  SIZES = 3,
  PAIRS = 100000,
  SHORT_CACHED = 3, /* blocks of chance sizes in the cache */
};
static const int64_t pair_bytes[SIZES] = {1 << 10, 1 << 20, 100 << 20};
static const uint64_t short_limit = UINT64_C(64) << 20;

typedef struct memory_bench {
  const memory_options *options;
  tn_runtime *runtime;
  tn_device *device;
  tn_device_info info;
  uint64_t random; /* state of xorshift64: Marsaglia, Xorshift RNGs, 2003 */
  double pair_ns[SIZES];
  double live, reserved; /* bytes at most */
  uint64_t raw_allocs, made;
  uint64_t shortages, served; /* requests for which memory was short at first */
  timeline lines;
} memory_bench;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t draw(memory_bench *b) {
  b->random ^= b->random << 13;
  b->random ^= b->random >> 7;
  return b->random ^= b->random << 17;
}

/* Log-uniform: a power of two from 2^8 to 2^23, and up to as much again. */
static int64_t draw_bytes(memory_bench *b) {
  const uint64_t least = UINT64_C(256) << draw(b) % 16;
  return (int64_t)(least + draw(b) % least);
}

static tn_status make(tn_device *device, int64_t bytes, tn_tensor **t) {
  *t = NULL;
  return tn_tensor_empty(device, TN_U8, 1, &bytes, t);
}

/* --- the parts --- */

static tn_status time_pairs(memory_bench *b) {
  for (int k = 0; k < SIZES; k++) {
    tn_tensor *t;
    tn_status status = make(b->device, pair_bytes[k], &t); /* the cache has it from here on */
    double best = INFINITY;
    tn_tensor_release(t);
    for (int round = 0; !status && round < 5; round++) {
      const double start = now_ns();
      for (int i = 0; !status && i < PAIRS; i++) {
        status = make(b->device, pair_bytes[k], &t);
        tn_tensor_release(t);
      }
      const double each = (now_ns() - start) / PAIRS;
      if (each < best) best = each;
    }
    if (status) return status;
    b->pair_ns[k] = best;
  }
  return tn_device_trim(b->device);
}

static tn_status note(memory_bench *b, double live) {
  tn_memory_stats stats = {.struct_size = sizeof stats};
  tn_status status = tn_device_memory_stats(b->device, &stats);
  if (live > b->live) b->live = live;
  if ((double)stats.reserved > b->reserved) b->reserved = (double)stats.reserved;
  b->raw_allocs = stats.raw_allocs;
  timeline_add(&b->lines, live, (double)stats.reserved);
  return status;
}

static tn_status come_and_go(memory_bench *b) {
  static tn_tensor *held[HELD];
  double live = 0;
  tn_status status = TN_OK;
  for (uint64_t i = 0; !status && i < b->options->tensors; i++) {
    tn_tensor **slot = &held[draw(b) % HELD];
    const int64_t bytes = draw_bytes(b);
    if (*slot) live -= (double)tn_tensor_bytes(*slot);
    tn_tensor_release(*slot);
    status = make(b->device, bytes, slot);
    if (status) break;
    live += (double)bytes;
    ++b->made;
    status = note(b, live);
    if (i % 1000 == 0) progress_show("%s: tensor %" PRIu64, b->info.id, i);
  }
  for (int i = 0; i < HELD; i++) {
    tn_tensor_release(held[i]);
    held[i] = NULL;
  }
  progress_clear();
  return status;
}

/* One live tensor, a cache full of other sizes, and a request that the rest of the limit would
 * serve once the cache is given back. */
static tn_status run_short(memory_bench *b, tn_device *device, bool *was_short, bool *served) {
  tn_memory_stats before = {.struct_size = sizeof before}, after = before;
  tn_tensor *live, *cached[SHORT_CACHED] = {NULL}, *wanted = NULL;
  const int64_t least = (int64_t)short_limit / 8;
  tn_status status = tn_device_trim(device);
  if (!status) status = make(device, 1 + (int64_t)(draw(b) % (uint64_t)least), &live);
  if (status) return status;
  for (int i = 0; i < SHORT_CACHED; i++)
    (void)make(device, least + (int64_t)(draw(b) % (uint64_t)least), &cached[i]);
  for (int i = 0; i < SHORT_CACHED; i++) tn_tensor_release(cached[i]);
  status = tn_device_memory_stats(device, &before);
  *served = !make(device, 4 * least + (int64_t)(draw(b) % (uint64_t)least), &wanted);
  if (!status) status = tn_device_memory_stats(device, &after);
  *was_short = after.out_of_memory > before.out_of_memory;
  tn_tensor_release(wanted);
  tn_tensor_release(live);
  return status;
}

static tn_status run_short_often(memory_bench *b) {
  tn_runtime *limited;
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = b->options->device,
                                .memory_limit = short_limit,
                                .fallback = TN_FALLBACK_ERROR};
  tn_status status = tn_runtime_open(&options, &limited);
  if (status) return status;
  for (uint64_t i = 0; !status && i < b->options->tensors / 2; i++) {
    bool was_short = false, served = false;
    status = run_short(b, tn_runtime_device(limited), &was_short, &served);
    b->shortages += was_short;
    b->served += was_short && served;
    if (i % 100 == 0) progress_show("%s: short of memory, %" PRIu64, b->info.id, i);
  }
  progress_clear();
  tn_runtime_close(limited);
  return status;
}

/* --- printing --- */

static double times(const memory_bench *b) { return b->live > 0 ? b->reserved / b->live : 0; }

static void print_text(const memory_bench *b) {
  printf("%s (%s)\n\n", plain(b->info.id), plain(b->info.name));
  printf("a tensor made and released   ");
  for (int k = 0; k < SIZES; k++)
    printf("%s %.1f ns at %s", k ? "," : "", b->pair_ns[k],
           (const char *[]){"1 KiB", "1 MiB", "100 MiB"}[k]);
  printf("\n%" PRIu64 " tensors of 256 B to 16 MiB, %d at a time\n", b->made, HELD);
  printf("  live at most               %.1f MB\n", b->live / 1e6);
  printf("  reserved at most           %.1f MB, %.3f times that\n", b->reserved / 1e6, times(b));
  printf("  calls of the device's own  %" PRIu64 "\n", b->raw_allocs);
  printf("short of memory              %" PRIu64 " times; served by giving the cache back %" PRIu64
         "\n\n",
         b->shortages, b->served);
  timeline_print(&b->lines, stdout);
}

static void print_line(const memory_bench *b) {
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "bench", "memory");
  json_string(&j, "device", b->info.id);
  json_real(&j, "pair_1k_ns", b->pair_ns[0]);
  json_real(&j, "pair_1m_ns", b->pair_ns[1]);
  json_real(&j, "pair_100m_ns", b->pair_ns[2]);
  json_number(&j, "tensors", b->made);
  json_number(&j, "seed", b->options->seed);
  json_real(&j, "live_bytes", b->live);
  json_real(&j, "reserved_bytes", b->reserved);
  json_real(&j, "reserved_over_live", times(b));
  json_number(&j, "raw_allocs", b->raw_allocs);
  json_number(&j, "short", b->shortages);
  json_number(&j, "short_served", b->served);
  json_close(&j, '}');
}

static int draw_file(const memory_bench *b) {
  FILE *f = fopen(b->options->svg, "w");
  if (f) timeline_draw(&b->lines, b->info.id, f);
  bool written = f && !ferror(f);
  if (f && fclose(f)) written = false;
  if (!written) perror(plain(b->options->svg));
  return written ? EXIT_OK : EXIT_FAILED;
}

int bench_memory(const memory_options *o) {
  memory_bench b = {.options = o,
                    .info = {.struct_size = sizeof b.info},
                    .random = o->seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
  tn_runtime_options options = {.struct_size = sizeof options, .device = o->device};
  options.fallback = TN_FALLBACK_ERROR;
  tn_status status = tn_runtime_open(&options, &b.runtime);
  if (!status) {
    b.device = tn_runtime_device(b.runtime);
    status = tn_device_get_info(b.device, &b.info);
  }
  timeline_begin(&b.lines, o->tensors);
  progress_begin(!o->as_json);
  if (!status) status = time_pairs(&b);
  if (!status) status = come_and_go(&b);
  tn_runtime_close(b.runtime);
  if (!status) status = run_short_often(&b);
  if (status) {
    fprintf(stderr, "tenon bench: %s\n", plain(tn_last_error()));
    return EXIT_FAILED;
  }
  o->as_json ? print_line(&b) : print_text(&b);
  const int drawn = o->svg ? draw_file(&b) : EXIT_OK;
  return b.served < b.shortages ? EXIT_FAILED : drawn;
}
