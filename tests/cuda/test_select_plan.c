/*
 * Plans of topk by delegates (kernels/cuda/index/select_plan.c): for rows of any size every plan's
 * lists have room for what comes into them, and fit the device. Needs no GPU.
 */
#include "kernels/cuda/index/select_plan.h"

#include "tests/suite.h"

enum { LARGE = 227 * 1024, LESS = 163 * 1024, SMALL = 99 * 1024, TINY = 48 * 1024 };

static int64_t rounded_up(int64_t a, int64_t to) { return (a + to - 1) / to * to; }

#define HOLDS(condition)                                                                           \
  if (!(condition))                                                                                \
  ck_abort_msg("not %s: %lldx%lld, k %lld", #condition, (long long)rows, (long long)n, (long long)k)

/* A block that is given so many groups, `in_tile` of a tile, chooses among them and lists the
 * elements of those chosen. `elements`: of a group. */
static void has_room(const cuda_select_plan *p, int64_t rows, int64_t n, int64_t k, int64_t groups,
                     int64_t in_tile, int64_t elements, int64_t most) {
  const int64_t step = p->way == CUDA_SELECT_ALONE ? 1 : 4 * (int64_t)p->threads;
  HOLDS(rounded_up(groups, step) <= 2 * (int64_t)p->list);
  HOLDS(groups <= most || groups >= k);
  /* As many as are needed, and those of the last one's tile. */
  HOLDS((groups < most ? groups : most) <= p->list / CUDA_SELECT_LANE);
  HOLDS(groups <= most || k + in_tile - 1 <= most);
  HOLDS(most * elements <= p->list);
}

static void holds(int64_t rows, int64_t n, int64_t k, int multiprocessors, size_t shared_bytes) {
  const cuda_select_plan p = cuda_select_plan_of(rows, n, k, multiprocessors, shared_bytes);
  const cuda_select_memory m = cuda_select_memory_of(&p, rows);
  if (p.way == CUDA_SELECT_OTHERWISE) {
    HOLDS(m.bytes == 0);
    return;
  }
  const int64_t in_tile = 32 >> p.lane_bits, elements = CUDA_SELECT_LANE << p.lane_bits;
  HOLDS(n > CUDA_SELECT_SHORT && k <= CUDA_SELECT_WANTED);
  HOLDS(cuda_select_shared_bytes(&p) <= cuda_select_most_shared_bytes(&p));
  HOLDS(cuda_select_most_shared_bytes(&p) + CUDA_SELECT_BLOCK_BYTES <= shared_bytes);
  HOLDS((int64_t)p.tiles * CUDA_SELECT_TILE >= n && ((int64_t)p.tiles - 1) * CUDA_SELECT_TILE < n);
  HOLDS(p.groups == p.tiles * (uint32_t)in_tile);
  HOLDS(p.finals >= 512 && (p.finals & (p.finals - 1)) == 0 && p.finals >= k && p.finals < p.list);
  HOLDS((int64_t)p.tiles * rows <= INT32_MAX);
  if (p.way != CUDA_SELECT_TWO) {
    has_room(&p, rows, n, k, p.groups, in_tile, elements, p.most_groups);
  } else { /* tiles are chosen, then lanes: as many as there may be */
    HOLDS(p.lane_bits == 5);
    HOLDS(p.groups <= p.most_groups || (p.groups >= k && k <= p.most_groups));
    HOLDS(p.most_tiles == (p.groups < p.most_groups ? p.groups : p.most_groups));
    HOLDS(rounded_up(p.groups, 4 * (int64_t)p.threads) <= 2 * (int64_t)p.list);
    has_room(&p, rows, n, k, (int64_t)p.most_tiles * 32, 32, CUDA_SELECT_LANE, p.most_groups);
    /* Or as few. */
    const int64_t fewest = p.groups < k ? p.groups : k;
    HOLDS(fewest * 32 >= k || fewest * 32 <= p.most_groups);
  }
  HOLDS(p.way == CUDA_SELECT_ALONE ? m.bytes == 0 : m.lanes >= 4 * (size_t)rows * p.stride);
  HOLDS(p.stride >= p.groups && p.stride % 4 == 0 && m.lanes % 16 == 0);
  if (p.way != CUDA_SELECT_TWO) return;
  HOLDS(m.chosen - m.lanes == (size_t)rows * p.most_tiles * 128);
  HOLDS(m.how_many - m.chosen == (size_t)rows * p.most_tiles * 4);
  HOLDS(m.bytes - m.how_many == (size_t)rows * 4);
}

static const size_t rooms[] = {LARGE, LESS, SMALL, TINY};

START_TEST(lists_have_room) {
  static const int64_t ks[] = {1,   2,   10,  31,  32,  33,   100,  193, 194, 225,  226,
                               255, 256, 257, 481, 482, 1000, 1001, 993, 994, 1023, 1024};
  static const int64_t many[] = {1, 2, 32, 33, 131, 132, 133, 527, 528, 5000};
  for (int64_t tiles = 4; tiles < 60000; tiles += 1 + tiles / 64)
    for (int d = -1; d < 2; ++d)
      for (unsigned i = 0; i < sizeof ks / sizeof *ks; ++i)
        for (unsigned r = 0; r < sizeof many / sizeof *many; ++r) {
          const int64_t n = tiles * CUDA_SELECT_TILE + d;
          if (ks[i] <= n / 4) holds(many[r], n, ks[i], 132, rooms[_i]);
        }
}
END_TEST

START_TEST(every_k_has_room) {
  static const int64_t sizes[] = {4096, 4097, 8193, 16385, 32769, 131073, 720896, 720897, 1 << 24};
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (int64_t k = 1; k <= 1024 && k <= sizes[s] / 4; ++k) {
      holds(1, sizes[s], k, 132, rooms[_i]);
      holds(600, sizes[s], k, 132, rooms[_i]);
    }
}
END_TEST

/* The ways that were measured. */
START_TEST(goes_by_the_fastest_way) {
  static const struct {
    int64_t rows, n, k;
    cuda_select_way way;
    int threads;
  } measured[] = {
      {1, 1 << 24, 10, CUDA_SELECT_ONE, 1024},      {1, 1 << 24, 100, CUDA_SELECT_TWO, 1024},
      {1, 1 << 24, 1000, CUDA_SELECT_TWO, 1024},    {64, 1 << 18, 10, CUDA_SELECT_ONE, 1024},
      {64, 1 << 18, 100, CUDA_SELECT_ONE, 1024},    {64, 1 << 18, 1000, CUDA_SELECT_ONE, 1024},
      {1024, 1 << 14, 10, CUDA_SELECT_ALONE, 256},  {1024, 1 << 14, 100, CUDA_SELECT_ALONE, 256},
      {1024, 16384, 1000, CUDA_SELECT_ALONE, 1024}, {1, 1000003, 10, CUDA_SELECT_ONE, 1024},
      {1, 1000003, 1000, CUDA_SELECT_TWO, 1024},    {7, 100001, 10, CUDA_SELECT_ONE, 512},
      {7, 100001, 1000, CUDA_SELECT_ONE, 1024},     {33, 16386, 10, CUDA_SELECT_ALONE, 512},
      {2, 2500, 10, CUDA_SELECT_ALONE, 512},        {2, 2500, 625, CUDA_SELECT_ALONE, 512},
      {1, 2048, 10, CUDA_SELECT_OTHERWISE, 0},      {1, 1 << 25, 10, CUDA_SELECT_OTHERWISE, 0},
  };
  for (unsigned i = 0; i < sizeof measured / sizeof *measured; ++i) {
    const int64_t rows = measured[i].rows, n = measured[i].n, k = measured[i].k;
    const cuda_select_plan p = cuda_select_plan_of(rows, n, k, 132, LARGE);
    HOLDS(p.way == measured[i].way);
    HOLDS(p.threads == measured[i].threads);
  }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, lists_have_room, 0, sizeof rooms / sizeof *rooms);
  tcase_add_loop_test(tcase, every_k_has_room, 0, sizeof rooms / sizeof *rooms);
  tcase_add_test(tcase, goes_by_the_fastest_way);
}

int main(void) { return run_suite("cuda-select-plan", add_tests); }
