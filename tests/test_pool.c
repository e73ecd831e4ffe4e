/* The caching allocator: how large its blocks are, and that they are used again. See
 * pool_support.h. */
#include "tests/pool_support.h"

/* --- sizes --- */

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

/* --- reuse --- */

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

/* Takes blocks and gives them back in an order of the turn's. pre: count is at most 60 and no
 * multiple of 7. */
static void take_turn(int turn, int count, size_t (*bytes)(int i)) {
  block *held[60];
  for (int i = 0; i < count; i++) held[i] = take(0, bytes(i));
  for (int i = 0; i < count; i++) pool_free(held[(i * 7 + turn) % count]);
}

static size_t cubes(int i) { return (size_t)(i * i * i) * 37 + 4; }
static size_t many(int i) { return (12 + (size_t)i) * MIB; }
static size_t one_and_all(int i) { return (i ? 170 : 12) * MIB; }

START_TEST(a_repeated_pattern_takes_no_more) {
  open_pool(&synchronous_ops, 256, 0);
  long raws = 0;
  for (int step = 0; step < 50; step++) {
    take_turn(step, 60, cubes);
    if (step == 5) raws = device.raw_calls;
  }
  ck_assert_int_eq(device.raw_calls, raws);
  close_pool();
}
END_TEST

/* Sizes that rise, as those of a first step: what was outgrown goes back before more is taken, but
 * for a segment that is used, if only in part. */
START_TEST(outgrown_segments_go_back) {
  open_pool(&synchronous_ops, 64, 0);
  block *b = take(0, 30 * MIB);
  pool_free(b);
  block *part = take(0, 5 * MIB);
  for (size_t bytes = 20 * MIB; bytes <= 160 * MIB; bytes *= 2) {
    b = take(0, bytes);
    pool_free(b);
    ck_assert_uint_le(stats().reserved, bytes + 30 * MIB + MIB);
  }
  ck_assert_int_eq(device.raw_live, 2);
  ck_assert_uint_le(stats().peak_reserved, 191 * MIB);
  pool_free(part);
  close_pool();
}
END_TEST

/* What is taken for requests to come is little of what there is, and is filled by such as came: of
 * the first size a multiple of which a segment is, and of one that fills twice as much by itself.
 */
START_TEST(a_growing_pool_takes_little_ahead) {
  static const struct {
    size_t bytes, most; /* reserved at most, in hundredths of what is in use */
  } growing[] = {{2 * MIB, 110}, {MIB + MIB / 8, 135}, {3 * MIB, 120}};
  block *held[60];
  open_pool(&synchronous_ops, 64, 0);
  for (int i = 0; i < 60; i++) {
    held[i] = take(0, growing[_i].bytes);
    const tn_memory_stats now = stats();
    if (now.in_use >= 40 * MIB)
      ck_assert_uint_le(now.reserved * 100, now.in_use * growing[_i].most);
  }
  ck_assert(pool_is_valid(p));
  for (int i = 0; i < 60; i++) pool_free(held[i]);
  close_pool();
}
END_TEST

/* A device may be busy with what is free: it keeps all. */
START_TEST(streams_keep_outgrown_segments) {
  open_pool(&stream_ops, 64, 0);
  for (size_t bytes = 20 * MIB; bytes <= 160 * MIB; bytes *= 2) pool_free(take(0, bytes));
  ck_assert_int_eq(device.raw_live, 4);
  close_pool();
}
END_TEST

/* Ten tensors, then one as large as all of them beside one: after some rounds nothing is taken or
 * given back any more. */
START_TEST(turns_of_few_and_many_settle) {
  open_pool(&synchronous_ops, 256, 0);
  long raws = 0;
  for (int turn = 0; turn < 30; turn++) {
    take_turn(turn, 10, many);
    take_turn(turn, 2, one_and_all);
    if (turn == 9) raws = device.raw_calls;
  }
  ck_assert_int_eq(device.raw_calls, raws);
  ck_assert_uint_le(stats().reserved, 400 * MIB);
  close_pool();
}
END_TEST

START_TEST(nothing_is_destroyed) { pool_destroy(NULL); }
END_TEST

/* --- suite --- */

static void add_cases(Suite *suite) {
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
  tcase_add_test(reuse, outgrown_segments_go_back);
  tcase_add_loop_test(reuse, a_growing_pool_takes_little_ahead, 0, 3);
  tcase_add_test(reuse, streams_keep_outgrown_segments);
  tcase_add_test(reuse, turns_of_few_and_many_settle);
  tcase_add_test(reuse, nothing_is_destroyed);
  suite_add_tcase(suite, reuse);
}

int main(void) { return run_pool_suite("pool", add_cases); }
