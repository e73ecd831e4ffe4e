/*
 * unique: the keys alone are sorted, for elements are made of them again, and each is written
 * once.
 */
#include "kernels/cpu/base/radix.h"
#include "kernels/cpu/index/sort_keys.h"

#define OWN_KEY(x) (x)
RADIX_SORTER(narrow, uint32_t, OWN_KEY)
RADIX_SORTER(wide, uint64_t, OWN_KEY)

typedef struct unique_call {
  slice s;
  void *keys;
} unique_call;

static tn_status take_keys(void *ctx, int64_t begin, int64_t end) {
  const unique_call *u = ctx;
  if (u->s.type.bits <= 32)
    keys_narrow(&u->s, begin, end - begin, (uint32_t *)u->keys + begin);
  else
    keys_wide(&u->s, begin, end - begin, (uint64_t *)u->keys + begin);
  return TN_OK;
}

/* Writes each of the sorted keys once, and where its run began in place of its count. */
#define UNIQUE_RUNS(bits, U, K)                                                                    \
  static int64_t runs_##bits(const slice *s, const void *sorted, U *y, int64_t *counts) {          \
    const K *keys = sorted;                                                                        \
    int64_t count = 0;                                                                             \
    for (int64_t i = 0; i < s->n; i++) {                                                           \
      if (i && keys[i] == keys[i - 1]) continue;                                                   \
      y[count] = (U)element_of_key(s, keys[i]);                                                    \
      if (counts) counts[count] = i;                                                               \
      count++;                                                                                     \
    }                                                                                              \
    return count;                                                                                  \
  }
UNIQUE_RUNS(8, uint8_t, uint32_t)
UNIQUE_RUNS(16, uint16_t, uint32_t)
UNIQUE_RUNS(32, uint32_t, uint32_t)
UNIQUE_RUNS(64, uint64_t, uint64_t)

static int64_t write_runs(const slice *s, const void *sorted, void *y, int64_t *counts) {
  switch (s->type.bits) {
  case 8:
    return runs_8(s, sorted, y, counts);
  case 16:
    return runs_16(s, sorted, y, counts);
  case 32:
    return runs_32(s, sorted, y, counts);
  default:
    return runs_64(s, sorted, y, counts);
  }
}

/* pre: tensors are contiguous. */
tn_status ISA(unique_any)(const tn_kernel_args *args) {
  const tn_host *host = args->host;
  const int64_t n = cpu_count(args->in[0]);
  unique_call u = {.s = slice_of(args->in[0], 0, n, 1, false)};
  const int bits = u.s.type.bits;
  const size_t bytes = (size_t)n * (bits <= 32 ? sizeof(uint32_t) : sizeof(uint64_t));
  const int64_t parts = radix_parts(host, n);
  radix_room *room = host->alloc(host, radix_room_bytes(parts) + 2 * bytes, 64);
  if (!room) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort in");
  room->host = host;
  u.keys = (char *)room + radix_room_bytes(parts);
  void *space = (char *)u.keys + bytes;
  tn_status status = n ? host->parallel_for(host, n, CPU_GRAIN_CHEAP, take_keys, &u) : TN_OK;
  const void *sorted = bits <= 32 ? (void *)narrow_sort(u.keys, space, n, 0, bits, parts, room)
                                  : (void *)wide_sort(u.keys, space, n, 0, bits, parts, room);
  int64_t *counts = args->out[1] ? args->out[1]->data : NULL;
  const int64_t count = write_runs(&u.s, sorted, args->out[0]->data, counts);
  for (int64_t i = 0; counts && i < count; i++)
    counts[i] = (i + 1 < count ? counts[i + 1] : n) - counts[i];
  *(int64_t *)args->out[2]->data = count;
  host->free(host, room);
  return status;
}
