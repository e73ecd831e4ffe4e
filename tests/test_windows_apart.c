/*
 * Transposed convolutions whose windows lie side by side without meeting, which devices may compute
 * as a product, and those that only nearly do: with elements added at the end, padding, dilation,
 * one stride that is less. Inputs are small whole numbers and channels at most 64, so that every
 * type and every device has the reference's result exactly; outputs hold NaN before the call.
 */
#include "windows.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static const struct {
  const char *name;
  windows s;
} cases[] = {
    {"twos", {2, 2, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, true, NONE}},
    {"twos without bias", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, false, NONE}},
    {"many windows", {2, 1, 8, 7, 1, {61, 77}, {2, 2}, {2, 2}, NONE, ONES, true, NONE}},
    {"more than fit", {2, 1, 64, 64, 1, {20, 20}, {4, 4}, {4, 4}, NONE, ONES, true, NONE}},
    {"groups", {2, 2, 3, 5, 3, {9, 20}, {2, 2}, {2, 2}, NONE, ONES, true, NONE}},
    {"depthwise", {2, 1, 1, 1, 9, {9, 20}, {2, 2}, {2, 2}, NONE, ONES, true, NONE}},
    {"threes", {2, 1, 6, 5, 1, {7, 40}, {3, 3}, {3, 3}, NONE, ONES, true, NONE}},
    {"fours", {2, 1, 6, 5, 1, {7, 40}, {4, 4}, {4, 4}, NONE, ONES, true, NONE}},
    {"fives by ones", {2, 1, 6, 5, 1, {7, 40}, {5, 1}, {5, 1}, NONE, ONES, true, NONE}},
    {"ones by twos", {2, 1, 6, 5, 1, {7, 40}, {1, 2}, {1, 2}, NONE, ONES, true, NONE}},
    {"a column", {2, 1, 6, 5, 1, {40, 1}, {2, 1}, {2, 1}, NONE, ONES, true, NONE}},
    {"one window", {2, 3, 6, 5, 1, {1, 1}, {2, 2}, {2, 2}, NONE, ONES, true, NONE}},
    {"signals", {1, 2, 6, 5, 1, {900}, {8}, {8}, NONE, ONES, true, NONE}},
    {"long signals", {1, 1, 2, 1, 1, {70000}, {2}, {2}, NONE, ONES, true, NONE}},
    {"volumes", {3, 1, 6, 5, 1, {5, 6, 7}, {2, 3, 2}, {2, 3, 2}, NONE, ONES, true, NONE}},
    {"dilated along a single tap", {1, 1, 6, 5, 1, {40}, {1}, {1}, NONE, {3}, true, NONE}},
    {"elements added", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, true, {1, 1}}},
    {"padded", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, ONES, ONES, true, NONE}},
    {"padded and added", {2, 1, 6, 5, 1, {9, 13}, {3, 3}, {3, 3}, ONES, ONES, true, {2, 2}}},
    {"dilated", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, {2, 2}, true, NONE}},
    {"meeting along one axis", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 1}, NONE, ONES, true, NONE}},
    {"with gaps", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {3, 3}, NONE, ONES, true, NONE}},
};

START_TEST(as_the_reference) { windows_agree(&b, cases[_i].name, &cases[_i].s, true); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("windows_apart", add_tests); }
