/*
 * Where a runtime's memory comes from and what taking it costs: the host's allocator, its help
 * on shortage, and pools with very many tensors.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/support.h"

#ifndef TENON_CHECKS
#define TENON_CHECKS 0
#endif

/* ------------------------------------------------------------------- many tensors --- */

static int64_t thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Time of this thread for large tensors that each take memory of their own: the least of
 * several goes, so that a busy machine does not count. */
static int64_t cost_of_growing(tn_device *device) {
  enum { GOES = 7, TENSORS = 16 };
  int64_t best = INT64_MAX;
  for (int go = 0; go < GOES; go++) {
    tn_tensor *large[TENSORS];
    int64_t begin = thread_ns();
    for (int i = 0; i < TENSORS; i++) large[i] = shaped(device, TN_U8, 1, SHAPE(12 << 20));
    int64_t ns = thread_ns() - begin;
    best = ns < best ? ns : best;
    for (int i = 0; i < TENSORS; i++) tn_tensor_release(large[i]);
    ok(tn_device_trim(device));
  }
  return best;
}

START_TEST(taking_memory_costs_the_same_however_much_lives) {
  enum { LIVING = 100000 };
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference"};
  tn_runtime *runtime = open_runtime(&options);
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor **living = malloc(LIVING * sizeof *living);
  int64_t alone = cost_of_growing(device);
  for (int i = 0; i < LIVING; i++) living[i] = shaped(device, TN_F32, 1, SHAPE(25));
  int64_t in_company = cost_of_growing(device);
  ck_assert_msg(in_company < 10 * alone, "%lld ns with %d tensors alive, %lld ns without",
                (long long)in_company, LIVING, (long long)alone);
  for (int i = 0; i < LIVING; i++) tn_tensor_release(living[i]);
  tn_runtime_close(runtime);
  free(living);
}
END_TEST

/* A tensor given back after the close must not count all that were given back before it. */
START_TEST(releasing_after_the_close_costs_the_same_however_much_lives) {
  enum { FEW = 1000, MANY = 16 * FEW };
  int64_t ns[2];
  for (int round = 0; round < 2; round++) {
    int count = round ? MANY : FEW;
    tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference"};
    tn_runtime *runtime = open_runtime(&options);
    tn_tensor **living = malloc((size_t)count * sizeof *living);
    for (int i = 0; i < count; i++)
      living[i] = shaped(tn_runtime_device(runtime), TN_F32, 1, SHAPE(25));
    tn_runtime_close(runtime);
    int64_t begin = thread_ns();
    for (int i = 1; i < count; i++) tn_tensor_release(living[i]);
    ns[round] = (thread_ns() - begin) / (count - 1);
    tn_tensor_release(living[0]);
    free(living);
  }
  ck_assert_msg(ns[1] < 6 * ns[0] + 100, "%lld ns each of many, %lld ns each of few",
                (long long)ns[1], (long long)ns[0]);
}
END_TEST

/* ----------------------------------------------------------------------- shortage --- */

enum { MATRIX = 1024, LIMIT = 32 << 20 };

typedef struct spill {
  tn_tensor *kept; /* to be read to the host and released */
  float *copy;
  int calls, depth, deepest;
  tn_status read;
  bool allocates;
} spill;

/* What a host does in its need: reads a tensor back and gives it up. */
static bool spill_one(void *user, tn_device *device, size_t bytes) {
  spill *s = user;
  (void)bytes;
  s->calls++;
  if (++s->depth > s->deepest) s->deepest = s->depth;
  bool helped = false;
  if (s->depth < 100 && s->kept) {
    s->read = tn_tensor_to_host(s->kept, s->copy, MATRIX * MATRIX * sizeof(float));
    tn_tensor *more = NULL;
    if (s->allocates)
      refused(tn_tensor_empty(device, TN_U8, 1, SHAPE(LIMIT), &more), TN_ERR_DEVICE_OUT_OF_MEMORY,
              "out_of_memory");
    tn_tensor_release(s->kept);
    s->kept = NULL;
    helped = true;
  }
  s->depth--;
  return helped;
}

static tn_runtime *open_limited(spill *s) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference",
                                .memory_limit = LIMIT,
                                .out_of_memory = spill_one,
                                .out_of_memory_user = s};
  return open_runtime(&options);
}

/* A matrix and its transpose, of which the latter is kept: its reading wants a row-major copy
 * on the device, for which there is no memory. */
static void keep_matrix(spill *s, tn_device *device, bool transposed) {
  tn_tensor *matrix = shaped(device, TN_F32, 2, SHAPE(MATRIX, MATRIX));
  ok(tn_fill(NULL, matrix, &(tn_fill_attrs){.struct_size = sizeof(tn_fill_attrs), .value = 7}));
  s->kept = matrix;
  if (!transposed) return;
  ok(tn_tensor_permute(matrix, (int32_t[]){1, 0}, &s->kept));
  tn_tensor_release(matrix);
}

START_TEST(help_that_wants_memory_itself_does_not_recur) {
  bool transposed = _i;
  spill s = {.copy = malloc(MATRIX * MATRIX * sizeof(float)), .allocates = true};
  tn_runtime *runtime = open_limited(&s);
  tn_device *device = tn_runtime_device(runtime);
  keep_matrix(&s, device, transposed);
  tn_tensor *most = shaped(device, TN_U8, 1, SHAPE(26 << 20)), *matrix = NULL;
  ok(tn_tensor_empty(device, TN_F32, 2, SHAPE(MATRIX, MATRIX), &matrix));
  ck_assert_int_eq(s.calls, 1);
  ck_assert_int_eq(s.deepest, 1);
  ck_assert_int_eq(s.read, transposed ? TN_ERR_DEVICE_OUT_OF_MEMORY : TN_OK);
  if (!transposed) ck_assert(s.copy[MATRIX * MATRIX - 1] == 7);
  /* The next shortage asks again. */
  tn_tensor *more = NULL;
  refused(tn_tensor_empty(device, TN_F32, 2, SHAPE(MATRIX, MATRIX), &more),
          TN_ERR_DEVICE_OUT_OF_MEMORY, "reserved");
  ck_assert_int_eq(s.calls, 2);
  tn_tensor_release(matrix);
  tn_tensor_release(most);
  tn_runtime_close(runtime);
  free(s.copy);
}
END_TEST

static void *allocate_and_release(void *arg) {
  tn_tensor *large = NULL;
  tn_status status = tn_tensor_empty(arg, TN_U8, 1, SHAPE(30 << 20), &large);
  tn_tensor_release(large);
  return (void *)(uintptr_t)status;
}

static tn_device *other_device;
static int asked_by_others;

/* The first call of the callback has another thread run short meanwhile. */
static bool ask_another_thread(void *user, tn_device *device, size_t bytes) {
  (void)user, (void)device, (void)bytes;
  pthread_t thread;
  void *result;
  if (++asked_by_others > 1) return false;
  ck_assert_int_eq(pthread_create(&thread, NULL, allocate_and_release, other_device), 0);
  ck_assert_int_eq(pthread_join(thread, &result), 0);
  ck_assert_uint_eq((uintptr_t)result, TN_ERR_DEVICE_OUT_OF_MEMORY);
  return false;
}

START_TEST(another_threads_shortage_asks_all_the_same) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference",
                                .memory_limit = LIMIT,
                                .out_of_memory = ask_another_thread};
  tn_runtime *runtime = open_runtime(&options);
  other_device = tn_runtime_device(runtime);
  tn_tensor *most = shaped(other_device, TN_U8, 1, SHAPE(20 << 20)), *more = NULL;
  refused(tn_tensor_empty(other_device, TN_U8, 1, SHAPE(20 << 20), &more),
          TN_ERR_DEVICE_OUT_OF_MEMORY, "reserved");
  ck_assert_int_eq(asked_by_others, 2);
  tn_tensor_release(most);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------------------- the log --- */

typedef struct listener {
  tn_device *device;
  int requests, waits, depth;
} listener;

/* Asks for figures, and makes a stream, while a device's function speaks. */
static void listen(void *user, tn_log_level level, const char *line) {
  listener *l = user;
  tn_memory_stats stats = {.struct_size = sizeof stats};
  tn_stream *stream = NULL;
  (void)level;
  if (!l->device || l->depth) return;
  l->depth++;
  l->requests += strstr(line, "bytes are asked for") != NULL;
  l->waits += strstr(line, "a queue is waited for") != NULL;
  ok(tn_device_memory_stats(l->device, &stats));
  ok(tn_stream_create(l->device, &stream));
  tn_stream_destroy(stream);
  l->depth--;
}

START_TEST(the_log_may_ask_the_device_that_speaks) {
  listener l = {NULL, 0, 0, 0};
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference,sim",
                                .plugin_path = SIM_PLUGIN,
                                .device = "sim",
                                .log = listen,
                                .log_user = &l,
                                .log_level = TN_LOG_DEBUG + 1};
  tn_runtime *runtime = open_runtime(&options);
  tn_stream *stream = NULL;
  l.device = tn_runtime_device(runtime);
  tn_tensor *x = counting(l.device, 1 << 20);
  ck_assert_int_eq(l.requests, 1);
  ok(tn_stream_create(l.device, &stream));
  ok(tn_device_synchronize(l.device));
  ck_assert_int_ge(l.waits, 2);
  l.device = NULL;
  tn_stream_destroy(stream);
  tn_tensor_release(x);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------ the host's allocator --- */

/* Pages of its own for each request, so that what comes from elsewhere shows in mallinfo. */
enum { RANGES = 8192 };
typedef struct pages {
  pthread_mutex_t mutex;
  struct range {
    char *begin, *mapped;
    size_t bytes, mapped_bytes;
  } range[RANGES];
  size_t live_bytes, requests;
} pages;

static struct range *find_range(pages *p, const char *begin) {
  for (int i = 0; i < RANGES; i++)
    if (p->range[i].begin == begin) return &p->range[i];
  return NULL;
}

static void *pages_alloc(void *user, size_t bytes, size_t align) {
  pages *p = user;
  size_t mapped_bytes = bytes + align + 4096;
  char *mapped =
      mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  char *begin = mapped + (-(uintptr_t)mapped & (align - 1));
  pthread_mutex_lock(&p->mutex);
  struct range *r = find_range(p, NULL);
  if (r) *r = (struct range){begin, mapped, bytes, mapped_bytes};
  p->live_bytes += bytes;
  p->requests++;
  pthread_mutex_unlock(&p->mutex);
  return r ? begin : NULL;
}

static void pages_free(void *user, void *ptr) {
  pages *p = user;
  pthread_mutex_lock(&p->mutex);
  struct range *r = find_range(p, ptr), was = {0};
  if (r) was = *r, *r = (struct range){0};
  p->live_bytes -= was.bytes;
  pthread_mutex_unlock(&p->mutex);
  ck_assert_msg(was.mapped != NULL, "%p was not allocated here", ptr);
  munmap(was.mapped, was.mapped_bytes);
}

static bool is_inside(pages *p, const void *data, size_t bytes) {
  for (int i = 0; i < RANGES; i++) {
    const struct range *r = &p->range[i];
    if (r->begin && (const char *)data >= r->begin &&
        (const char *)data + bytes <= r->begin + r->bytes)
      return true;
  }
  return false;
}

static size_t malloced(void) {
  struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

static uint64_t reserved(tn_device *device) {
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(device, &stats));
  return stats.reserved;
}

/* A call that wants a workspace: both devices' convolutions do for this form. */
static void convolve(tn_device *device) {
  tn_tensor *x = shaped(device, TN_F32, 4, SHAPE(2, 16, 64, 64)),
            *w = shaped(device, TN_F32, 4, SHAPE(32, 16, 3, 3)), *y = NULL;
  ok(tn_fill(NULL, x, NULL));
  ok(tn_fill(NULL, w, NULL));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &y));
  tn_tensor_release(x);
  tn_tensor_release(w);
  tn_tensor_release(y);
}

START_TEST(device_memory_is_the_allocators) {
  static const char *const devices[] = {"reference", "cpu"};
  static const int64_t sizes[] = {4, 5000, 3 << 20, 40 << 20};
  static pages p = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  tn_allocator allocator = {pages_alloc, pages_free, &p};
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference",
                                .device = devices[_i],
                                .num_threads = 1,
                                .allocator = &allocator};
  tn_runtime *runtime = open_runtime(&options);
  tn_device *device = tn_runtime_device(runtime);
  size_t elsewhere = malloced();
  tn_tensor *tensors[4];
  for (int i = 0; i < 4; i++) {
    tensors[i] = shaped(device, TN_U8, 1, &sizes[i]);
    ck_assert_msg(is_inside(&p, tn_tensor_data(tensors[i]), (size_t)sizes[i]),
                  "%lld bytes come from elsewhere", (long long)sizes[i]);
  }
  convolve(device);
  ck_assert_uint_le(reserved(device), p.live_bytes);
  ck_assert_uint_gt(reserved(device), 43 << 20);
  void *pinned = NULL;
  ok(tn_pinned_alloc(device, 3 << 20, &pinned));
  ck_assert(is_inside(&p, pinned, 3 << 20));
  ck_assert_uint_le(malloced(), elsewhere + (1 << 20));
  tn_pinned_free(device, pinned);
  for (int i = 0; i < 4; i++) tn_tensor_release(tensors[i]);
  tn_runtime_close(runtime);
  ck_assert_uint_gt(p.requests, 10);
  ck_assert_uint_eq(p.live_bytes, 0);
}
END_TEST

static void add_tests(TCase *t) {
  if (TENON_CHECKS < 2) /* which walks over all, on purpose */
    tcase_add_test(t, taking_memory_costs_the_same_however_much_lives);
  tcase_add_test(t, releasing_after_the_close_costs_the_same_however_much_lives);
  tcase_add_loop_test(t, help_that_wants_memory_itself_does_not_recur, 0, 2);
  tcase_add_test(t, another_threads_shortage_asks_all_the_same);
  tcase_add_test(t, the_log_may_ask_the_device_that_speaks);
  tcase_add_loop_test(t, device_memory_is_the_allocators, 0, 2);
}

int main(void) { return run_suite("memory", add_tests); }
