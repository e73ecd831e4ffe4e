/*
 * For the tests of the caching allocator: a mock device, whose memory can run out or fail, and
 * streams whose work is done when the test says so. Blocks are real memory, so that the
 * tests can write to them and sanitizers see two blocks that overlap.
 */
#ifndef TENON_TESTS_POOL_SUPPORT_H
#define TENON_TESTS_POOL_SUPPORT_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/memory/pool.h"
#include "tests/suite.h"

#define MIB ((size_t)1 << 20)

/* --- host memory --- */

typedef struct counted_memory {
  _Atomic(long) live, calls;
  long fail_at; /* the call that fails; -1 none */
} counted_memory;

static inline void *counted_alloc(void *user, size_t bytes, size_t align) {
  counted_memory *m = user;
  if (atomic_fetch_add(&m->calls, 1) == m->fail_at) return NULL;
  atomic_fetch_add(&m->live, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static inline void counted_free(void *user, void *ptr) {
  atomic_fetch_sub(&((counted_memory *)user)->live, 1);
  free(ptr);
}

/* --- mock device --- */

typedef struct mock_stream {
  _Atomic(uint64_t) submitted, completed;
} mock_stream;

typedef struct mock_mark {
  mock_stream *stream;
  uint64_t position;
} mock_mark;

typedef struct mock_device {
  size_t capacity, taken;
  long raw_live, raw_calls, marks_live, waits, pressures;
  tn_status raw_error;          /* not TN_OK: what raw_alloc says */
  bool marks_fail, streams_run; /* streams_run: work is done as soon as submitted */
  bool (*on_pressure)(struct mock_device *d);
  pool *pool;
  block *victim;
} mock_device;

typedef struct raw {
  size_t bytes;
  char *memory;
} raw;

static inline tn_status mock_raw_alloc(void *ctx, size_t bytes, void **handle) {
  mock_device *d = ctx;
  d->raw_calls++;
  if (d->raw_error) return fail(d->raw_error, "mock says no");
  if (bytes > d->capacity - d->taken) return fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "mock is full");
  raw *r = malloc(sizeof *r);
  r->bytes = bytes;
  r->memory = malloc(bytes);
  d->taken += bytes;
  d->raw_live++;
  *handle = r;
  return TN_OK;
}

static inline void mock_raw_free(void *ctx, void *handle) {
  mock_device *d = ctx;
  raw *r = handle;
  d->taken -= r->bytes;
  d->raw_live--;
  free(r->memory);
  free(r);
}

static inline tn_status mock_mark_make(void *ctx, void *stream, void **mark) {
  mock_device *d = ctx;
  if (d->marks_fail) return fail(TN_ERR_BACKEND, "no mark");
  mock_mark *m = malloc(sizeof *m);
  m->stream = stream;
  m->position = atomic_load(&m->stream->submitted);
  d->marks_live++;
  *mark = m;
  return TN_OK;
}

static inline bool mock_passed(void *ctx, void *mark) {
  mock_device *d = ctx;
  mock_mark *m = mark;
  return d->streams_run || atomic_load(&m->stream->completed) >= m->position;
}

static inline void mock_wait(void *ctx, void *mark) {
  mock_device *d = ctx;
  mock_mark *m = mark;
  d->waits++;
  if (atomic_load(&m->stream->completed) < m->position)
    atomic_store(&m->stream->completed, m->position);
}

static inline void mock_unmark(void *ctx, void *mark) {
  ((mock_device *)ctx)->marks_live--;
  free(mark);
}

static inline bool mock_pressure(void *ctx, size_t bytes) {
  mock_device *d = ctx;
  ck_assert_uint_gt(bytes, 0);
  d->pressures++;
  return d->on_pressure && d->on_pressure(d);
}

static const pool_ops synchronous_ops = {
    .raw_alloc = mock_raw_alloc, .raw_free = mock_raw_free, .pressure = mock_pressure};
static const pool_ops stream_ops = {
    .raw_alloc = mock_raw_alloc,
    .raw_free = mock_raw_free,
    .mark = mock_mark_make,
    .passed = mock_passed,
    .wait = mock_wait,
    .unmark = mock_unmark,
    .pressure = mock_pressure,
};

/* --- fixture --- */

enum { STREAMS = 4, HEADER_BYTES = 40 };

static counted_memory host;
static tn_allocator memory = {counted_alloc, counted_free, &host};
static mock_device device;
static mock_stream streams[STREAMS];
static pool *p;
static pool_cache *caches[STREAMS];

static inline void open_pool(const pool_ops *ops, size_t alignment, uint64_t limit) {
  host = (counted_memory){.fail_at = -1};
  device = (mock_device){.capacity = (size_t)1 << 40};
  pool_config config = {
      .ops = ops,
      .ctx = &device,
      .memory = &memory,
      .alignment = alignment,
      .header_bytes = HEADER_BYTES,
      .limit = limit,
  };
  ck_assert_int_eq(pool_create(&config, &p), TN_OK);
  device.pool = p;
  for (int i = 0; i < STREAMS; i++) {
    streams[i] = (mock_stream){0};
    ck_assert_int_eq(pool_cache_open(p, &streams[i], &caches[i]), TN_OK);
  }
}

static inline void close_pool(void) {
  ck_assert_uint_eq(pool_blocks_in_use(p), 0);
  ck_assert(pool_is_valid(p));
  pool_destroy(p);
  ck_assert_int_eq(device.raw_live, 0);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_int_eq(atomic_load(&host.live), 0);
}

static inline char *data(const block *b) { return ((raw *)b->handle)->memory + b->offset; }

static inline block *take(int stream, size_t bytes) {
  block *b = NULL;
  ck_assert_msg(pool_alloc(caches[stream], bytes, &b) == TN_OK, "%s", tn_last_error());
  ck_assert_uint_ge(b->bytes, bytes);
  ck_assert_ptr_eq(b->cache, caches[stream]);
  return b;
}

static inline tn_memory_stats stats(void) {
  tn_memory_stats s = {.struct_size = sizeof s};
  pool_stats(p, &s);
  return s;
}

static inline uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static inline void submit(int stream) { atomic_fetch_add(&streams[stream].submitted, 1); }
static inline void complete(int stream) {
  atomic_store(&streams[stream].completed, atomic_load(&streams[stream].submitted));
}

/* --- suite --- */

static inline int run_pool_suite(const char *name, void (*add_cases)(Suite *suite)) {
  Suite *suite = suite_create(name);
  add_cases(suite);
  return run_runner(srunner_create(suite));
}

#endif
