/*
 * What tensors share, against a count of all their bytes: random small views of one storage,
 * and forms that must be decided however large they are.
 */
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/tensor.h"

#include "tests/support.h"

enum { ROOM = 4096 };
static char memory[3 * ROOM];
static storage store;
static tn_device device;

static uint64_t state;
static int64_t draw(int64_t from, int64_t to) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return from + (int64_t)((state >> 33) % (uint64_t)(to - from + 1));
}

static tn_tensor view(tn_dtype dtype, int64_t offset, int32_t rank, const int64_t *shape,
                      const int64_t *strides) {
  tn_tensor t = {.dtype = (uint8_t)dtype, .storage = &store, .device = &device};
  t.dl.data = memory + ROOM + offset;
  t.dl.ndim = rank;
  memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
  memcpy(t.strides, strides, (size_t)rank * sizeof *strides);
  t.elements = 1;
  for (int32_t i = 0; i < rank; ++i) t.elements *= shape[i];
  t.contiguous = strides_are_contiguous(rank, shape, strides);
  return t;
}

/* Strides of all sorts: nested, equal, negative, zero, crossing. */
static tn_tensor random_view(void) {
  static const tn_dtype dtypes[] = {TN_U8, TN_I16, TN_F32, TN_F32, TN_F64};
  tn_dtype dtype = dtypes[draw(0, 4)];
  int64_t shape[4], strides[4], step = 1;
  int32_t rank = (int32_t)draw(0, 4);
  for (int32_t i = rank - 1; i >= 0; --i) {
    shape[i] = draw(1, 4);
    strides[i] = draw(0, 2) ? step * draw(1, 3) : draw(-7, 7);
    step = strides[i] > 0 ? strides[i] * shape[i] + draw(0, 1) : step;
    if (step > 40) step = draw(1, 9);
  }
  return view(dtype, draw(-16, 16) * (int64_t)tn_dtype_size(draw(0, 3) ? dtype : TN_U8), rank,
              shape, strides);
}

/* Counts how often each byte belongs to an element. Returns the most. */
static int paint(const tn_tensor *t, unsigned char *bytes) {
  int64_t index[4] = {0}, size = (int64_t)tn_dtype_size((tn_dtype)t->dtype);
  int most = 0;
  for (int64_t n = t->elements; n > 0; --n) {
    int64_t at = (char *)t->dl.data - memory;
    for (int32_t i = 0; i < t->dl.ndim; ++i) at += index[i] * t->strides[i] * size;
    ck_assert(at >= 0 && at + size <= (int64_t)sizeof memory);
    for (int64_t k = 0; k < size; ++k)
      if (++bytes[at + k] > most) most = bytes[at + k];
    for (int32_t i = t->dl.ndim - 1; i >= 0 && ++index[i] == t->shape[i]; --i) index[i] = 0;
  }
  return most;
}

static unsigned char in_a[sizeof memory], in_b[sizeof memory];

#ifdef __SANITIZE_ADDRESS__ /* which is slow, and has the same ways to see */
enum { ROUNDS = 1000 };
#else
enum { ROUNDS = 5000 };
#endif

START_TEST(sharing_is_what_counting_says) {
  int shared = 0, apart = 0;
  state = (uint64_t)_i + 1;
  for (int round = 0; round < ROUNDS; ++round) {
    tn_tensor a = random_view(), b = random_view();
    memset(in_a, 0, sizeof in_a);
    memset(in_b, 0, sizeof in_b);
    paint(&a, in_a);
    paint(&b, in_b);
    bool want = false;
    for (size_t i = 0; i < sizeof memory; ++i) want |= in_a[i] && in_b[i];
    uint32_t work = OVERLAP_WORK;
    bool interleave = tensors_interleave(&a, &b);
    bool got = interleave && tensors_share_elements(&a, &b, &work);
    ck_assert_msg(work > 0, "round %d took too many steps", round);
    ck_assert_msg(got == want, "round %d: %d in place of %d", round, got, want);
    shared += want;
    apart += interleave && !want;
  }
  ck_assert(shared > ROUNDS / 10 && apart > ROUNDS / 25);
}
END_TEST

START_TEST(repeating_is_what_counting_says) {
  int repeats = 0, crossing = 0;
  state = (uint64_t)_i + 100;
  for (int round = 0; round < ROUNDS; ++round) {
    tn_tensor a = random_view();
    memset(in_a, 0, sizeof in_a);
    bool want = paint(&a, in_a) > 1, got = tensor_repeats_elements(&a);
    ck_assert_msg(got == want, "round %d: %d in place of %d", round, got, want);
    repeats += want;
    crossing += !want && !a.contiguous;
  }
  ck_assert(repeats > ROUNDS / 10 && crossing > ROUNDS / 10);
}
END_TEST

static bool share(const tn_tensor *a, const tn_tensor *b, uint32_t *work) {
  return tensors_interleave(a, b) && tensors_share_elements(a, b, work);
}

START_TEST(large_views_are_decided_in_few_steps) {
  uint32_t work = 1000;
  const int64_t n = (int64_t)1 << 40;
  const int64_t rows[2] = {n, 64}, packed[2] = {192, 1}, one[1] = {n}, three[1] = {3};
  tn_tensor q = view(TN_F32, 0, 2, rows, packed), k = view(TN_F32, 256, 2, rows, packed);
  tn_tensor v = view(TN_F32, 512, 2, rows, packed), wide = view(TN_F32, 4, 2, rows, packed);
  ck_assert(!share(&q, &k, &work) && !share(&k, &v, &work) && !share(&v, &q, &work));
  ck_assert(share(&q, &wide, &work) && share(&wide, &k, &work) && !share(&wide, &v, &work));
  tn_tensor a = view(TN_F64, 0, 1, one, three), b = view(TN_F64, 8, 1, one, three);
  ck_assert(!share(&a, &b, &work));
  tn_tensor bytes = view(TN_U8, 11, 1, one, (int64_t[]){24});
  ck_assert(!share(&a, &bytes, &work) && share(&b, &bytes, &work));
  ck_assert(work > 0);
}
END_TEST

/* Where nothing can be known, or not soon, tensors count as sharing. */
START_TEST(what_is_not_decided_is_refused) {
  const int64_t pairs[2] = {2, 2}, far[2] = {INT64_MAX / 16, 3};
  tn_tensor a = view(TN_F64, 0, 2, pairs, far), b = view(TN_F64, 9, 2, pairs, far);
  uint32_t work = OVERLAP_WORK, none = 0;
  ck_assert(tensors_share_elements(&a, &b, &work)); /* the sum of both has no room */
  const int64_t row[1] = {4}, two[1] = {2};
  tn_tensor even = view(TN_F32, 0, 1, row, two), odd = view(TN_F32, 4, 1, row, two);
  ck_assert(!tensors_share_elements(&even, &odd, &work));
  const int64_t sizes[4] = {90, 90, 90, 90}, steps[4] = {10007, 10009, 10037, 10039};
  tn_tensor x = view(TN_F32, 0, 4, sizes, steps), y = view(TN_F32, 4, 4, sizes, steps);
  (void)tensors_share_elements(&x, &y, &work); /* hard, but done with */
  ck_assert(tensors_share_elements(&x, &y, &none));
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, sharing_is_what_counting_says, 0, 8);
  tcase_add_loop_test(t, repeating_is_what_counting_says, 0, 4);
  tcase_add_test(t, large_views_are_decided_in_few_steps);
  tcase_add_test(t, what_is_not_decided_is_refused);
}

int main(void) { return run_suite("overlap", add_tests); }
