/*
 * Plans for select_delegates.cu. Limits are from times on an H200 of float32 rows, 1x2^24,
 * 64x262144, 1024x16384, 33x16386, 7x100001 and 1x10^6, of which 10, 100 and 1,000 are wanted.
 */
#include "kernels/cuda/index/select_plan.h"

enum {
  alone_row = 8192,  /* up to it one block is as soon done as many blocks and one more launch */
  short_row = 32768, /* up to it a block is, where rows are many */
  small_list_row = 1 << 17, /* up to it a block of half the threads is faster */
  most_blocks = INT32_MAX,
  shared_unasked = 48 * 1024, /* bytes of all that a block has, up to which nothing is asked for */
};

/* What a block of a row may be. A list has room for the elements of all groups that are looked at,
 * and before that for the delegates, two in the place of an element. */
typedef struct block_kind {
  int threads;
  uint32_t list, finals; /* finals: a power of two, 512 or more, no less than k */
} block_kind;

static const block_kind small = {256, 4096, 1024}, middle = {512, 4096, 1024},
                        middle_long = {512, 8192, 1024}, large = {1024, 22528, 2048},
                        large_less = {1024, 16384, 2048}; /* where a block has no 227 KB */

static uint32_t rounded_up(uint32_t a, uint32_t to) { return (a + to - 1) / to * to; }

static size_t bytes_of(const block_kind *b, bool two) {
  const size_t groups = b->list / CUDA_SELECT_LANE;
  return ((size_t)b->list + b->finals) * sizeof(uint64_t) + groups * (two ? 2 : 1) * 4;
}

static bool fits(const block_kind *b, size_t shared_bytes) {
  return bytes_of(b, true) + CUDA_SELECT_BLOCK_BYTES <= shared_bytes;
}

/* Groups as large as can be while those that are looked at have no more than `most` elements. Of
 * equal delegates in a tile all are taken once one is; where rows have fewer groups than elements
 * are wanted, all must be. Delegates in memory are read four by a thread, by all threads as often.
 */
static bool takes_of(cuda_select_plan *p, cuda_select_way way, const block_kind *b, int64_t k,
                     uint32_t most) {
  const uint32_t step = way == CUDA_SELECT_ALONE ? 1 : 4 * (uint32_t)b->threads;
  for (int lane_bits = 5; lane_bits >= 0; lane_bits--) {
    const uint32_t in_tile = 32u >> lane_bits, groups = p->tiles * in_tile;
    const uint32_t most_groups = most / ((uint32_t)CUDA_SELECT_LANE << lane_bits);
    if (rounded_up(groups, step) > 2 * b->list) continue;
    if (groups > most_groups && (k + in_tile - 1 > most_groups || groups < k)) continue;
    p->way = way;
    p->threads = b->threads;
    p->list = b->list;
    p->finals = b->finals;
    p->lane_bits = lane_bits;
    p->groups = groups;
    p->stride = rounded_up(groups, 4);
    p->most_groups = most_groups;
    return true;
  }
  return false;
}

/* Rather a quarter of a row or half of it than as much as there is room for: what is not listed
 * need not be sorted. */
static bool takes(cuda_select_plan *p, cuda_select_way way, const block_kind *b, int64_t n,
                  int64_t k) {
  if (k > b->finals || p->tiles > 2 * b->list) return false;
  for (int part = 4; part > 1; part /= 2)
    if (n / part < b->list && takes_of(p, way, b, k, (uint32_t)(n / part))) return true;
  return takes_of(p, way, b, k, b->list);
}

/* Tiles are the groups first; of those that are chosen, lanes are. */
static bool takes_two(cuda_select_plan *p, const block_kind *b, int64_t k) {
  const uint32_t most = b->list / CUDA_SELECT_LANE;
  if (k > b->finals || k + 31 > most ||
      rounded_up(p->tiles, 4 * (uint32_t)b->threads) > 2 * b->list)
    return false;
  if (p->tiles > most && p->tiles < k) return false;
  p->way = CUDA_SELECT_TWO;
  p->threads = b->threads;
  p->list = b->list;
  p->finals = b->finals;
  p->lane_bits = 5;
  p->groups = p->tiles;
  p->stride = rounded_up(p->groups, 4);
  p->most_groups = most;
  p->most_tiles = p->tiles < most ? p->tiles : most;
  return true;
}

static bool takes_alone(cuda_select_plan *p, int64_t rows, int64_t n, int64_t k,
                        int multiprocessors, const block_kind *most) {
  const bool crowd = rows >= 4 * (int64_t)multiprocessors;
  return (crowd && takes(p, CUDA_SELECT_ALONE, &small, n, k)) ||
         (n <= short_row && takes(p, CUDA_SELECT_ALONE, &middle, n, k)) ||
         takes(p, CUDA_SELECT_ALONE, &middle_long, n, k) ||
         (most && takes(p, CUDA_SELECT_ALONE, most, n, k));
}

cuda_select_plan cuda_select_plan_of(int64_t rows, int64_t n, int64_t k, int multiprocessors,
                                     size_t shared_bytes) {
  cuda_select_plan p = {0};
  const int64_t tiles = (n + CUDA_SELECT_TILE - 1) / CUDA_SELECT_TILE;
  if (n <= CUDA_SELECT_SHORT || k > CUDA_SELECT_WANTED || !fits(&middle_long, shared_bytes))
    return p;
  if (tiles > most_blocks / rows) return p;
  p.tiles = (uint32_t)tiles;
  const block_kind *most = fits(&large, shared_bytes)        ? &large
                           : fits(&large_less, shared_bytes) ? &large_less
                                                             : NULL;
  const bool alone =
      n <= alone_row || rows >= multiprocessors || (n <= short_row && rows >= multiprocessors / 4);
  if (alone && takes_alone(&p, rows, n, k, multiprocessors, most)) return p;
  if (n <= small_list_row &&
      (takes(&p, CUDA_SELECT_ONE, &middle, n, k) || takes(&p, CUDA_SELECT_ONE, &middle_long, n, k)))
    return p;
  if (takes(&p, CUDA_SELECT_ONE, most ? most : &middle_long, n, k)) return p;
  if (most) (void)takes_two(&p, most, k);
  return p;
}

size_t cuda_select_shared_bytes(const cuda_select_plan *plan) {
  const block_kind b = {plan->threads, plan->list, plan->finals};
  return bytes_of(&b, plan->way == CUDA_SELECT_TWO);
}

size_t cuda_select_most_shared_bytes(const cuda_select_plan *plan) {
  const block_kind b = {plan->threads, plan->list, plan->finals};
  const size_t most = bytes_of(plan->threads == middle.threads ? &middle_long : &b, true);
  return most > shared_unasked ? most : shared_unasked; /* lists alone may need no asking */
}

cuda_select_memory cuda_select_memory_of(const cuda_select_plan *plan, int64_t rows) {
  cuda_select_memory m = {0};
  const size_t count = (size_t)rows, each = sizeof(uint32_t);
  if (plan->way == CUDA_SELECT_OTHERWISE || plan->way == CUDA_SELECT_ALONE) return m;
  m.lanes = m.bytes = count * plan->stride * each;
  if (plan->way == CUDA_SELECT_ONE) return m;
  m.chosen = m.lanes + count * plan->most_tiles * 32 * each;
  m.how_many = m.chosen + count * plan->most_tiles * each;
  m.bytes = m.how_many + count * each;
  return m;
}
