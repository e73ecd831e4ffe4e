/*
 * The caching allocator against a mock device: memory that can run out or fail, and
 * streams whose work is done when the test says so. Blocks are real memory, so that the
 * tests can write to them and sanitizers see two blocks that overlap.
 */
#include "dispatcher/memory/pool.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#undef fail /* an old macro of check.h; error.h's function is meant */
#define MIB ((size_t)1 << 20)

/* --------------------------------------------------------------- host memory --- */

typedef struct counted_memory {
  _Atomic(long) live, calls;
  long fail_at; /* the call that fails; -1 none */
} counted_memory;

static void *counted_alloc(void *user, size_t bytes, size_t align) {
  counted_memory *m = user;
  if (atomic_fetch_add(&m->calls, 1) == m->fail_at) return NULL;
  atomic_fetch_add(&m->live, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void counted_free(void *user, void *ptr) {
  atomic_fetch_sub(&((counted_memory *)user)->live, 1);
  free(ptr);
}

/* -------------------------------------------------------------- mock device --- */

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

static tn_status mock_raw_alloc(void *ctx, size_t bytes, void **handle) {
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

static void mock_raw_free(void *ctx, void *handle) {
  mock_device *d = ctx;
  raw *r = handle;
  d->taken -= r->bytes;
  d->raw_live--;
  free(r->memory);
  free(r);
}

static tn_status mock_mark_make(void *ctx, void *stream, void **mark) {
  mock_device *d = ctx;
  if (d->marks_fail) return fail(TN_ERR_BACKEND, "no mark");
  mock_mark *m = malloc(sizeof *m);
  m->stream = stream;
  m->position = atomic_load(&m->stream->submitted);
  d->marks_live++;
  *mark = m;
  return TN_OK;
}

static bool mock_passed(void *ctx, void *mark) {
  mock_device *d = ctx;
  mock_mark *m = mark;
  return d->streams_run || atomic_load(&m->stream->completed) >= m->position;
}

static void mock_wait(void *ctx, void *mark) {
  mock_device *d = ctx;
  mock_mark *m = mark;
  d->waits++;
  if (atomic_load(&m->stream->completed) < m->position)
    atomic_store(&m->stream->completed, m->position);
}

static void mock_unmark(void *ctx, void *mark) {
  ((mock_device *)ctx)->marks_live--;
  free(mark);
}

static bool mock_pressure(void *ctx, size_t bytes) {
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

/* ------------------------------------------------------------------ fixture --- */

enum { STREAMS = 4, HEADER_BYTES = 40 };

static counted_memory host;
static tn_allocator memory = {counted_alloc, counted_free, &host};
static mock_device device;
static mock_stream streams[STREAMS];
static pool *p;
static pool_cache *caches[STREAMS];

static void open_pool(const pool_ops *ops, size_t alignment, uint64_t limit) {
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

static void close_pool(void) {
  ck_assert_uint_eq(pool_blocks_in_use(p), 0);
  ck_assert(pool_is_valid(p));
  pool_destroy(p);
  ck_assert_int_eq(device.raw_live, 0);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_int_eq(atomic_load(&host.live), 0);
}

static char *data(const block *b) { return ((raw *)b->handle)->memory + b->offset; }

static block *take(int stream, size_t bytes) {
  block *b = NULL;
  ck_assert_msg(pool_alloc(caches[stream], bytes, &b) == TN_OK, "%s", tn_last_error());
  ck_assert_uint_ge(b->bytes, bytes);
  ck_assert_ptr_eq(b->cache, caches[stream]);
  return b;
}

static tn_memory_stats stats(void) {
  tn_memory_stats s = {.struct_size = sizeof s};
  pool_stats(p, &s);
  return s;
}

static uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/* -------------------------------------------------------------------- sizes --- */

START_TEST(sizes_are_rounded_little) {
  open_pool(&synchronous_ops, 64, 0);
  for (size_t power = 1; power <= 64 * MIB; power *= 2) {
    for (int step = 0; step < 24; step++) {
      size_t bytes = power + power * (size_t)step / 24 + (size_t)(step % 3) - 1;
      block *b = take(0, bytes);
      size_t waste = b->bytes - bytes;
      ck_assert_msg(waste <= (bytes <= MIB ? bytes / 8 + 256 : bytes / 32 + 32768), "%zu -> %zu",
                    bytes, b->bytes);
      pool_free(b);
    }
  }
  close_pool();
}
END_TEST

START_TEST(no_bytes_are_a_block) {
  open_pool(&synchronous_ops, 64, 0);
  block *a = take(0, 0), *b = take(0, 0), *c = take(0, 1);
  ck_assert_ptr_ne(data(a), data(b));
  ck_assert_ptr_ne(data(b), data(c));
  ck_assert_uint_eq(pool_blocks_in_use(p), 3);
  pool_free(a), pool_free(b), pool_free(c);
  close_pool();
}
END_TEST

START_TEST(impossible_sizes_fail) {
  open_pool(&synchronous_ops, 64, 0);
  block *b = NULL;
  size_t sizes[] = {SIZE_MAX, SIZE_MAX - MIB, SIZE_MAX / 2, (size_t)1 << 41};
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(pool_alloc(caches[0], sizes[i], &b), TN_ERR_DEVICE_OUT_OF_MEMORY);
    ck_assert_ptr_null(b);
    ck_assert(pool_is_valid(p));
  }
  pool_free(take(0, 100));
  close_pool();
}
END_TEST

START_TEST(blocks_are_aligned) {
  static const size_t alignments[] = {1, 2, 64, 256, 512, 4096, 65536, 2097152};
  size_t alignment = alignments[_i];
  open_pool(&synchronous_ops, alignment, 0);
  block *held[200];
  uint32_t seed = 7;
  for (int i = 0; i < 200; i++) {
    held[i] = take(0, next_random(&seed) % (1u << (i % 20 + 1)));
    ck_assert_uint_eq(held[i]->offset % alignment, 0);
    ck_assert_uint_eq(held[i]->bytes % alignment, 0);
  }
  ck_assert(pool_is_valid(p));
  /* A size asked for again is served from its stack, whatever the alignment. */
  long raws = device.raw_calls;
  for (int i = 0; i < 200; i++) {
    size_t bytes = held[i]->bytes;
    uint64_t offset = held[i]->offset;
    pool_free(held[i]);
    held[i] = take(0, bytes);
    ck_assert_uint_eq(held[i]->offset, offset);
  }
  ck_assert_int_eq(device.raw_calls, raws);
  for (int i = 0; i < 200; i++) pool_free(held[i]);
  close_pool();
}
END_TEST

/* -------------------------------------------------------------------- reuse --- */

START_TEST(a_freed_block_is_reused_at_once) {
  open_pool(&stream_ops, 64, 0);
  for (size_t bytes = 1; bytes < 100 * MIB; bytes = bytes * 3 + 1) {
    block *a = take(0, bytes);
    pool_free(a);
    ck_assert_ptr_eq(take(0, bytes), a);
    pool_free(a);
  }
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(headers_begin_as_zero_and_survive_reuse) {
  open_pool(&synchronous_ops, 64, 0);
  static const char zero[HEADER_BYTES];
  block *b = take(0, 1000);
  ck_assert_uint_eq((uintptr_t)block_header(b) % 16, 0);
  ck_assert_mem_eq(block_header(b), zero, HEADER_BYTES);
  memset(block_header(b), 0x5a, HEADER_BYTES);
  pool_free(b);
  block *again = take(0, 1000);
  ck_assert_ptr_eq(again, b);
  ck_assert_int_eq(((char *)block_header(b))[HEADER_BYTES - 1], 0x5a);
  block *all[100];
  for (int i = 0; i < 100; i++) {
    all[i] = take(0, 300);
    ck_assert_mem_eq(block_header(all[i]), zero, HEADER_BYTES);
    memset(block_header(all[i]), i, HEADER_BYTES);
  }
  for (int i = 0; i < 100; i++)
    ck_assert_int_eq(((char *)block_header(all[i]))[HEADER_BYTES - 1], i);
  for (int i = 0; i < 100; i++) pool_free(all[i]);
  pool_free(again);
  close_pool();
}
END_TEST

START_TEST(freed_neighbours_merge) {
  open_pool(&synchronous_ops, 64, 2 * MIB);
  block *held[8];
  for (int i = 0; i < 8; i++) held[i] = take(0, 128 * 1024);
  for (int i = 0; i < 8; i += 2) pool_free(held[i]);
  for (int i = 1; i < 8; i += 2) pool_free(held[i]);
  block *whole = take(0, MIB);
  ck_assert_uint_le(stats().reserved, 2 * MIB);
  pool_free(whole);
  pool_trim(p);
  ck_assert_uint_eq(stats().reserved, 0);
  ck_assert_uint_eq(stats().segments, 0);
  close_pool();
}
END_TEST

START_TEST(a_small_pool_takes_little) {
  open_pool(&synchronous_ops, 64, 0);
  block *b = take(0, 100);
  ck_assert_uint_le(stats().reserved, MIB / 4);
  pool_free(b);
  b = take(0, 3 * MIB);
  ck_assert_uint_le(stats().reserved, 5 * MIB);
  pool_free(b);
  close_pool();
}
END_TEST

typedef struct held_block {
  block *b;
  unsigned char fill;
} held_block;

static void fill(held_block *h, uint32_t value) {
  h->fill = (unsigned char)value;
  data(h->b)[0] = data(h->b)[h->b->bytes - 1] = (char)h->fill;
}

static bool is_filled(const held_block *h) {
  return data(h->b)[0] == (char)h->fill && data(h->b)[h->b->bytes - 1] == (char)h->fill;
}

START_TEST(random_work_keeps_to_its_blocks) {
  open_pool(&synchronous_ops, 64, 0);
  held_block held[300] = {0};
  uint64_t live = 0, peak = 0;
  uint32_t seed = 1234567;
  for (int i = 0; i < 40000; i++) {
    held_block *h = &held[next_random(&seed) % 300];
    if (h->b) {
      ck_assert(is_filled(h));
      live -= h->b->bytes;
      pool_free(h->b);
      h->b = NULL;
    } else {
      uint32_t r = next_random(&seed);
      h->b = take(0, r % 16 ? r % 60000 : r % (3 * MIB));
      fill(h, r);
      live += h->b->bytes;
      if (live > peak) peak = live;
    }
    if (i % 1000 == 0) ck_assert(pool_is_valid(p));
  }
  tn_memory_stats s = stats();
  ck_assert_uint_eq(s.in_use, live);
  ck_assert_msg(s.peak_reserved < peak * 3 / 2 + 24 * MIB, "%zu for %zu", (size_t)s.peak_reserved,
                (size_t)peak);
  for (int i = 0; i < 300; i++)
    if (held[i].b) pool_free(held[i].b);
  close_pool();
}
END_TEST

START_TEST(a_repeated_pattern_takes_no_more) {
  open_pool(&synchronous_ops, 256, 0);
  long raws = 0;
  for (int step = 0; step < 50; step++) {
    block *held[60];
    for (int i = 0; i < 60; i++) held[i] = take(0, (size_t)(i * i * i) * 37 + 4);
    for (int i = 0; i < 60; i++) pool_free(held[(i * 7 + step) % 60]);
    if (step == 5) raws = device.raw_calls;
  }
  ck_assert_int_eq(device.raw_calls, raws);
  close_pool();
}
END_TEST

/* ----------------------------------------------------------------- shortage --- */

START_TEST(the_limit_holds) {
  open_pool(&synchronous_ops, 64, 5 * MIB + 12345);
  block *held[64];
  int count = 0;
  tn_status status;
  while ((status = pool_alloc(caches[0], 400000, &held[count])) == TN_OK) count++;
  ck_assert_int_eq(status, TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "400000 bytes"));
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "limit 5255225"));
  ck_assert_int_ge(count, 10);
  ck_assert_uint_le(stats().peak_reserved, 5 * MIB + 12345);
  ck_assert_uint_eq(stats().limit, 5 * MIB + 12345);
  ck_assert_uint_eq(stats().out_of_memory, 1);
  ck_assert(pool_is_valid(p));
  pool_free(held[--count]);
  held[count] = take(0, 400000);
  for (int i = 0; i <= count; i++) pool_free(held[i]);
  /* All of it serves one large request now, and small ones again afterwards. */
  block *b = take(0, 4 * MIB);
  pool_free(b);
  pool_free(take(0, 100));
  ck_assert(pool_is_valid(p));
  close_pool();
}
END_TEST

START_TEST(less_than_a_segment_is_taken_when_that_is_all) {
  open_pool(&synchronous_ops, 64, 0);
  device.capacity = 300;
  pool_free(take(0, 10));
  device.capacity = 3 * MIB;
  block *b = take(0, 2 * MIB + 1);
  ck_assert_uint_le(stats().reserved, 3 * MIB);
  pool_free(b);
  close_pool();
}
END_TEST

START_TEST(caches_are_emptied_on_shortage) {
  open_pool(&stream_ops, 64, 0);
  device.capacity = 16 * MIB;
  for (int i = 0; i < 4; i++) pool_free(take(i, 4 * MIB - 4096));
  atomic_fetch_add(&streams[1].submitted, 1); /* not done: has to be waited for */
  block *b = take(0, 15 * MIB);
  ck_assert_uint_eq(stats().out_of_memory, 1);
  ck_assert_int_ge(device.waits, 1);
  ck_assert_int_eq(device.pressures, 0);
  pool_free(b);
  close_pool();
}
END_TEST

static bool free_the_victim(mock_device *d) {
  if (!d->victim) return false;
  pool_free(d->victim); /* would hang if the lock were held */
  tn_memory_stats s = {.struct_size = sizeof s};
  pool_stats(d->pool, &s);
  d->victim = NULL;
  return true;
}

START_TEST(the_host_is_asked_for_help) {
  open_pool(&synchronous_ops, 64, 8 * MIB);
  device.on_pressure = free_the_victim;
  device.victim = take(1, 6 * MIB);
  block *b = take(0, 5 * MIB);
  ck_assert_int_eq(device.pressures, 1);
  block *none = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 5 * MIB, &none), TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_int_eq(device.pressures, 2);
  ck_assert_ptr_null(none);
  pool_free(b);
  close_pool();
}
END_TEST

static bool always_yes(mock_device *d) { return d != NULL; }

START_TEST(a_host_that_always_says_yes_does_not_hang) {
  open_pool(&synchronous_ops, 64, 8 * MIB);
  device.on_pressure = always_yes;
  block *b = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 9 * MIB, &b), TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_int_gt(device.pressures, 1);
  close_pool();
}
END_TEST

START_TEST(other_errors_pass_through) {
  open_pool(&synchronous_ops, 64, 0);
  device.raw_error = TN_ERR_DEVICE_LOST;
  block *b = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 100, &b), TN_ERR_DEVICE_LOST);
  ck_assert_str_eq(tn_last_error(), "mock says no");
  ck_assert_int_eq(device.raw_calls, 1);
  device.raw_error = TN_OK;
  pool_free(take(0, 100));
  close_pool();
}
END_TEST

START_TEST(small_requests_may_use_large_segments_in_need) {
  open_pool(&synchronous_ops, 64, 4 * MIB);
  block *large = take(0, 2 * MIB - 4096);
  block *held[2000];
  int count = 0;
  while (count < 2000 && pool_alloc(caches[0], 10000, &held[count]) == TN_OK) count++;
  ck_assert_int_gt(count, 190);
  pool_free(large);
  int more = count;
  while (more < 2000 && pool_alloc(caches[0], 10000, &held[more]) == TN_OK) more++;
  ck_assert_int_gt(more, count + 150);
  ck_assert(pool_is_valid(p));
  for (int i = 0; i < more; i++) pool_free(held[i]);
  block *again = take(0, 3 * MIB);
  pool_free(again);
  close_pool();
}
END_TEST

/* ------------------------------------------------------------ other streams --- */

static void submit(int stream) { atomic_fetch_add(&streams[stream].submitted, 1); }
static void complete(int stream) {
  atomic_store(&streams[stream].completed, atomic_load(&streams[stream].submitted));
}

START_TEST(a_block_waits_for_its_other_users) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  submit(2);
  for (int i = 0; i < 1000; i++) {
    pool_note_use(b, caches[0]);
    pool_note_use(b, caches[1]);
    pool_note_use(b, caches[2]);
  }
  pool_free(b);
  ck_assert_uint_eq(pool_blocks_in_use(p), 0);
  ck_assert_uint_eq(stats().in_use, b->bytes);
  block *others[3];
  others[0] = take(0, 1000);
  ck_assert_ptr_ne(others[0], b);
  complete(1);
  others[1] = take(0, 1000);
  ck_assert_ptr_ne(others[1], b);
  complete(2);
  others[2] = take(0, 1000);
  ck_assert_ptr_eq(others[2], b);
  /* Its new user is alone with it. */
  pool_free(others[2]);
  ck_assert_ptr_eq(take(0, 1000), b);
  for (int i = 0; i < 3; i++) pool_free(others[i]);
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(a_users_work_after_the_free_is_not_waited_for) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  complete(1);
  submit(1);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b);
  close_pool();
}
END_TEST

START_TEST(marks_that_fail_are_made_later) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  device.marks_fail = true;
  pool_free(b);
  block *c = take(0, 1000), *d = NULL;
  ck_assert_ptr_ne(b, c);
  device.marks_fail = false;
  d = take(0, 1000);
  ck_assert_ptr_ne(b, d);
  complete(1);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b), pool_free(c), pool_free(d);
  close_pool();
}
END_TEST

START_TEST(shortage_waits_for_pending_blocks) {
  open_pool(&stream_ops, 64, 8 * MIB);
  block *b = take(0, 6 * MIB);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  block *c = take(0, 6 * MIB);
  ck_assert_int_ge(device.waits, 1);
  pool_free(c);
  b = take(0, 6 * MIB);
  submit(2);
  pool_note_use(b, caches[2]);
  pool_free(b);
  block *d = take(3, 7 * MIB); /* another cache, another size */
  pool_free(d);
  close_pool();
}
END_TEST

START_TEST(closing_a_user_frees_what_waited_for_it) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000), *kept = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_note_use(kept, caches[1]);
  pool_free(b);
  pool_cache_close(caches[1]);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b);
  pool_free(kept); /* its user is gone */
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(huge_blocks_wait_as_well) {
  open_pool(&stream_ops, 64, 0);
  size_t bytes = 1025 * MIB;
  block *b = take(0, bytes);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  block *c = take(0, bytes);
  ck_assert_ptr_ne(c->handle, b->handle);
  complete(1);
  void *handle = b->handle;
  block *d = take(0, bytes);
  ck_assert_ptr_eq(d->handle, handle);
  pool_free(c), pool_free(d);
  close_pool();
}
END_TEST

START_TEST(hundreds_of_streams) {
  enum { MANY = 200 };
  open_pool(&stream_ops, 64, 0);
  static mock_stream many[MANY];
  pool_cache *cache[MANY];
  for (int i = 0; i < MANY; i++) {
    many[i] = (mock_stream){.submitted = 1};
    ck_assert_int_eq(pool_cache_open(p, &many[i], &cache[i]), TN_OK);
  }
  block *b = take(0, 1000);
  pool_note_use(b, cache[10]);
  pool_note_use(b, cache[MANY - 1]);
  pool_note_use(b, cache[MANY - 2]);
  pool_free(b);
  block *own; /* of a cache that shares its bit with others */
  ck_assert_int_eq(pool_alloc(cache[150], 1000, &own), TN_OK);
  pool_note_use(own, cache[150]);
  pool_note_use(own, cache[151]);
  pool_free(own);
  block *held[MANY + 1];
  for (int i = 0; i < MANY; i++) {
    held[i] = take(0, 1000);
    if (atomic_load(&many[MANY - 1].completed) == 0) ck_assert_ptr_ne(held[i], b);
    atomic_store(&many[i].completed, 1);
  }
  ck_assert_int_gt(device.marks_live, -1);
  for (int i = 0; i < MANY; i++) pool_free(held[i]);
  held[0] = take(1, 1); /* a slow path, to poll */
  pool_free(held[0]);
  pool_trim(p);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_uint_eq(stats().in_use, 0);
  close_pool();
}
END_TEST

START_TEST(idle_segments_change_hands) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 50 * MIB);
  void *handle = b->handle;
  submit(0);
  pool_free(b);
  pool_cache *c0 = caches[0];
  pool_free(take(0, 60 * MIB)); /* sends the first one to the bins */
  block *c = take(1, 50 * MIB);
  ck_assert_ptr_ne(c->handle, handle);
  complete(0);
  block *d = take(2, 50 * MIB);
  ck_assert_ptr_eq(d->handle, handle);
  ck_assert_ptr_ne(d->cache, c0);
  pool_free(c), pool_free(d);
  ck_assert(pool_is_valid(p));
  close_pool();
}
END_TEST

START_TEST(an_idle_mark_goes_when_the_segment_is_used_again) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 50 * MIB);
  void *handle = b->handle;
  submit(0);
  pool_free(b);
  pool_free(take(0, 60 * MIB));
  block *c = take(1, 50 * MIB); /* marks the idle segment */
  ck_assert_int_ge(device.marks_live, 1);
  block *again = take(0, 50 * MIB);
  ck_assert_ptr_eq(again->handle, handle);
  complete(0);
  submit(0);
  pool_free(again);
  block *d = take(0, 61 * MIB); /* to the bins once more; its work is not done */
  block *e = take(1, 50 * MIB);
  ck_assert_ptr_ne(e->handle, handle);
  pool_free(c), pool_free(d), pool_free(e);
  close_pool();
}
END_TEST

START_TEST(a_closed_cache_frees_and_is_reused) {
  open_pool(&stream_ops, 64, 0);
  block *small = take(1, 1000), *large = take(1, 5 * MIB), *huge = take(1, 30 * MIB);
  void *handle = huge->handle;
  pool_free(huge);
  pool_cache_close(caches[1]);
  ck_assert_uint_eq(pool_blocks_in_use(p), 2);
  block *taken = take(0, 30 * MIB); /* without any mark */
  ck_assert_ptr_eq(taken->handle, handle);
  pool_free(small);
  pool_free(large);
  ck_assert_uint_eq(pool_blocks_in_use(p), 1);
  pool_cache *again;
  ck_assert_int_eq(pool_cache_open(p, &streams[1], &again), TN_OK);
  ck_assert_ptr_eq(again, caches[1]);
  ck_assert_ptr_eq(take(1, 1000), small);
  pool_free(small);
  pool_free(taken);
  close_pool();
}
END_TEST

START_TEST(trim_waits_before_it_gives_back) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  pool_free(take(0, 40 * MIB));
  submit(0);
  pool_trim(p);
  ck_assert_int_ge(device.waits, 1);
  ck_assert_uint_eq(stats().segments, 1);
  pool_free(b);
  pool_trim(p);
  ck_assert_uint_eq(stats().reserved, 0);
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(pending_blocks_may_be_left_at_the_end) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  ck_assert_int_eq(device.marks_live, 1);
  close_pool();
}
END_TEST

/* ----------------------------------------------------- failing host memory --- */

/* Returns whether the failure came up. */
static bool work_with_failure(long at) {
  host = (counted_memory){.fail_at = at};
  device = (mock_device){.capacity = 64 * MIB};
  pool_config config = {.ops = &stream_ops, .ctx = &device, .memory = &memory, .alignment = 256};
  pool_cache *c[2];
  if (pool_create(&config, &p) != TN_OK) return true;
  streams[0] = streams[1] = (mock_stream){0};
  for (int i = 0; i < 2; i++) {
    tn_status status = pool_cache_open(p, &streams[i], &c[i]);
    ck_assert(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
    if (status != TN_OK) ck_assert_int_eq(pool_cache_open(p, &streams[i], &c[i]), TN_OK);
  }
  block *held[120] = {0};
  for (int i = 0; i < 120; i++) {
    size_t bytes = (size_t)i * (size_t)i * (size_t)i * 3;
    uint64_t before = pool_blocks_in_use(p);
    tn_status status = pool_alloc(c[i % 2], bytes, &held[i]);
    if (status != TN_OK) {
      ck_assert(status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_OUT_OF_MEMORY);
      ck_assert_ptr_null(held[i]);
      ck_assert_uint_eq(pool_blocks_in_use(p), before);
      ck_assert(pool_is_valid(p));
      if (status == TN_ERR_OUT_OF_MEMORY) status = pool_alloc(c[i % 2], bytes, &held[i]);
      ck_assert(status == TN_OK || status == TN_ERR_DEVICE_OUT_OF_MEMORY);
      if (status != TN_OK) continue;
    }
    submit(1);
    pool_note_use(held[i], c[1]);
    if (i % 3 == 0) pool_free(held[i]), held[i] = NULL;
  }
  for (int i = 0; i < 120; i++)
    if (held[i]) pool_free(held[i]);
  bool came_up = atomic_load(&host.calls) > at;
  close_pool();
  return came_up;
}

START_TEST(host_memory_fails_at_every_point) {
  long at = 0;
  while (work_with_failure(at)) at++;
  ck_assert_int_gt(at, 10);
}
END_TEST

/* ------------------------------------------------------------------ threads --- */

enum { THREADS = 4, SLOTS = 64, ROUNDS = 20000 };

static _Atomic(block *) slots[SLOTS];
static _Atomic(int) spoiled;

/* Takes blocks, marks them as its own, hands them to other threads to free. */
static void *hammer(void *arg) {
  uint32_t seed = (uint32_t)(uintptr_t)arg * 2654435761u + 1, which = (uint32_t)(uintptr_t)arg;
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t r = next_random(&seed);
    pool_cache *cache = caches[r % 8 ? 0 : which % STREAMS];
    block *b;
    if (pool_alloc(cache, r % 5 ? 500 : r % 100000, &b) != TN_OK) {
      atomic_fetch_add(&spoiled, 1);
      break;
    }
    memset(data(b), (int)which, 64);
    if (r % 7 == 0) pool_note_use(b, caches[r % STREAMS]);
    for (int k = 0; k < 64; k++)
      if (data(b)[k] != (char)which) atomic_fetch_add(&spoiled, 1);
    b = atomic_exchange(&slots[r / 64 % SLOTS], b);
    if (b) pool_free(b);
    if (r % 2048 == 0) pool_trim(p);
    if (r % 1024 == 1) (void)pool_blocks_in_use(p);
    if (r % 1024 == 2) (void)stats();
  }
  return NULL;
}

static void run_threads(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

START_TEST(threads_share_caches) {
  open_pool(_i ? &stream_ops : &synchronous_ops, 64, 0);
  device.streams_run = true;
  run_threads(hammer);
  uint64_t held = 0;
  for (int i = 0; i < SLOTS; i++) held += atomic_load(&slots[i]) != NULL;
  ck_assert_uint_eq(pool_blocks_in_use(p), held);
  for (int i = 0; i < SLOTS; i++) {
    block *b = atomic_exchange(&slots[i], NULL);
    if (b) pool_free(b);
  }
  ck_assert_int_eq(atomic_load(&spoiled), 0);
  ck_assert_uint_lt(stats().peak_reserved, 100 * MIB);
  close_pool();
}
END_TEST

/* One size, one cache: the worst case of the stacks. */
static void *pairs(void *arg) {
  (void)arg;
  block *b[8];
  for (int i = 0; i < ROUNDS; i++) {
    for (int k = 0; k < 8; k++)
      if (pool_alloc(caches[0], 4000, &b[k]) != TN_OK) atomic_fetch_add(&spoiled, 1);
    for (int k = 0; k < 8; k++) *(void **)data(b[k]) = &b[k];
    for (int k = 0; k < 8; k++)
      if (*(void **)data(b[k]) != &b[k]) atomic_fetch_add(&spoiled, 1);
    for (int k = 0; k < 8; k++) pool_free(b[k]);
  }
  return NULL;
}

START_TEST(threads_share_one_stack) {
  open_pool(&synchronous_ops, 64, 0);
  run_threads(pairs);
  ck_assert_int_eq(atomic_load(&spoiled), 0);
  /* 32 blocks at most were out at once; collisions may add some, not without bound. */
  ck_assert_uint_le(stats().peak_reserved, 2 * MIB);
  close_pool();
}
END_TEST

static block *last_blocks[THREADS + 1][50];
static _Atomic(int) saw_none;

static void *free_and_ask(void *arg) {
  for (int i = 0; i < 50; i++) {
    pool_free(last_blocks[(uintptr_t)arg][i]);
    if (pool_blocks_in_use(p) == 0) atomic_fetch_add(&saw_none, 1);
  }
  return NULL;
}

START_TEST(the_thread_that_frees_the_last_block_sees_it) {
  open_pool(&synchronous_ops, 64, 0);
  for (int round = 0; round < 20; round++) {
    for (int t = 1; t <= THREADS; t++)
      for (int i = 0; i < 50; i++) last_blocks[t][i] = take(t % 2, (size_t)i * 100);
    atomic_store(&saw_none, 0);
    run_threads(free_and_ask);
    ck_assert_int_ge(atomic_load(&saw_none), 1);
    ck_assert_int_le(atomic_load(&saw_none), THREADS);
  }
  close_pool();
}
END_TEST

START_TEST(nothing_is_destroyed) { pool_destroy(NULL); }
END_TEST

/* -------------------------------------------------------------------- suite --- */

static Suite *pool_suite(void) {
  Suite *suite = suite_create("pool");
  TCase *sizes = tcase_create("sizes");
  tcase_add_test(sizes, sizes_are_rounded_little);
  tcase_add_test(sizes, no_bytes_are_a_block);
  tcase_add_test(sizes, impossible_sizes_fail);
  tcase_add_loop_test(sizes, blocks_are_aligned, 0, 8);
  suite_add_tcase(suite, sizes);

  TCase *reuse = tcase_create("reuse");
  tcase_set_timeout(reuse, 120);
  tcase_add_test(reuse, a_freed_block_is_reused_at_once);
  tcase_add_test(reuse, headers_begin_as_zero_and_survive_reuse);
  tcase_add_test(reuse, freed_neighbours_merge);
  tcase_add_test(reuse, a_small_pool_takes_little);
  tcase_add_test(reuse, random_work_keeps_to_its_blocks);
  tcase_add_test(reuse, a_repeated_pattern_takes_no_more);
  tcase_add_test(reuse, nothing_is_destroyed);
  suite_add_tcase(suite, reuse);

  TCase *shortage = tcase_create("shortage");
  tcase_set_timeout(shortage, 120);
  tcase_add_test(shortage, the_limit_holds);
  tcase_add_test(shortage, less_than_a_segment_is_taken_when_that_is_all);
  tcase_add_test(shortage, caches_are_emptied_on_shortage);
  tcase_add_test(shortage, the_host_is_asked_for_help);
  tcase_add_test(shortage, a_host_that_always_says_yes_does_not_hang);
  tcase_add_test(shortage, other_errors_pass_through);
  tcase_add_test(shortage, small_requests_may_use_large_segments_in_need);
  tcase_add_test(shortage, host_memory_fails_at_every_point);
  suite_add_tcase(suite, shortage);

  TCase *others = tcase_create("other streams");
  tcase_add_test(others, a_block_waits_for_its_other_users);
  tcase_add_test(others, a_users_work_after_the_free_is_not_waited_for);
  tcase_add_test(others, marks_that_fail_are_made_later);
  tcase_add_test(others, shortage_waits_for_pending_blocks);
  tcase_add_test(others, closing_a_user_frees_what_waited_for_it);
  tcase_add_test(others, huge_blocks_wait_as_well);
  tcase_add_test(others, hundreds_of_streams);
  tcase_add_test(others, idle_segments_change_hands);
  tcase_add_test(others, an_idle_mark_goes_when_the_segment_is_used_again);
  tcase_add_test(others, a_closed_cache_frees_and_is_reused);
  tcase_add_test(others, trim_waits_before_it_gives_back);
  tcase_add_test(others, pending_blocks_may_be_left_at_the_end);
  suite_add_tcase(suite, others);

  TCase *threads = tcase_create("threads");
  tcase_set_timeout(threads, 120);
  tcase_add_loop_test(threads, threads_share_caches, 0, 2);
  tcase_add_test(threads, threads_share_one_stack);
  tcase_add_test(threads, the_thread_that_frees_the_last_block_sees_it);
  suite_add_tcase(suite, threads);
  return suite;
}

int main(void) {
  SRunner *runner = srunner_create(pool_suite());
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
