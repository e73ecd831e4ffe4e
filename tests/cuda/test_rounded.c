/*
 * Sums rounded once and sums of rounded parts (kernels/cuda/base/rounded.c) in both types of 16
 * bits. Needs no GPU.
 */
#include "kernels/cuda/base/rounded.h"

#include <string.h>

#include "kernels/common/half.h"
#include "tests/support.h"

enum { SUMS = 2048, TERMS = 4000 };

static uint16_t narrowed(float x, tn_dtype dtype) {
  return dtype == TN_F16 ? f16_from_f32(x) : bf16_from_f32(x);
}
static float widened(uint16_t bits, tn_dtype dtype) {
  return dtype == TN_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/* Sums of products of numbers between 1 and 2 and their negatives, in float, in `parts` parts that
 * are joined in float, or in the type itself where `rounds`. */
static void add_up(uint16_t *to, tn_dtype dtype, int parts, bool rounds) {
  uint32_t seed = 1;
  for (int i = 0; i < SUMS; ++i) {
    float all = 0, part = 0;
    for (int k = 0; k < TERMS; ++k) {
      seed = seed * 1664525u + 1013904223u;
      const float x = 1 + (float)(seed >> 8 & 127) / 128, y = 1 + (float)(seed >> 16 & 127) / 128;
      part += seed >> 31 ? x * y : -x * y;
      if ((k + 1) % (TERMS / parts) != 0) continue;
      all += rounds ? widened(narrowed(part, dtype), dtype) : part;
      if (rounds) all = widened(narrowed(all, dtype), dtype);
      part = 0;
    }
    to[i] = narrowed(all, dtype);
  }
}

START_TEST(tells_orders_from_roundings) {
  static const tn_dtype types[] = {TN_F16, TN_BF16};
  static uint16_t once[SUMS], other[SUMS];
  const tn_dtype dtype = types[_i];
  add_up(once, dtype, 1, false);
  ck_assert(cuda_rounded_alike(once, once, SUMS, dtype));
  for (int parts = 2; parts <= 80; parts *= 2 + parts / 20) {
    add_up(other, dtype, parts, false);
    ck_assert_msg(cuda_rounded_alike(once, other, SUMS, dtype), "%d parts in float", parts);
    add_up(other, dtype, parts, true);
    ck_assert_msg(!cuda_rounded_alike(once, other, SUMS, dtype), "%d parts rounded", parts);
  }
}
END_TEST

START_TEST(sees_what_is_not_there) {
  static uint16_t once[SUMS], other[SUMS];
  add_up(once, TN_BF16, 1, false);
  memset(other, 0, sizeof other);
  ck_assert(!cuda_rounded_alike(once, other, SUMS, TN_BF16));
  memset(other, 0xff, sizeof other);
  ck_assert(!cuda_rounded_alike(once, other, SUMS, TN_BF16));
  ck_assert(!cuda_rounded_alike(once, once, 0, TN_BF16));
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, tells_orders_from_roundings, 0, 2);
  tcase_add_test(tcase, sees_what_is_not_there);
}

int main(void) { return run_suite("rounded", add_tests); }
