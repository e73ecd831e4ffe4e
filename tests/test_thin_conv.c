/*
 * Convolutions of few terms, which devices may sum window by window: strides, padding, dilation and
 * groups by turns, rows longer than any vector and images higher than what lies in cache, one axis
 * to three, columns. Inputs are small whole numbers and patches at most 64 elements, so that every
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
    {"depthwise, rows of several vectors",
     {2, 2, 1, 1, 5, {9, 150}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, many rows", {2, 1, 1, 1, 3, {700, 33}, {3, 3}, ONES, ONES, ONES, false}},
    {"depthwise, stride 2", {2, 1, 1, 1, 4, {41, 70}, {3, 3}, {2, 2}, ONES, ONES, true}},
    {"depthwise, stride 2, rows long",
     {2, 1, 1, 1, 2, {90, 301}, {5, 5}, {2, 2}, {2, 2}, ONES, true}},
    {"depthwise, rows of 3", {2, 1, 1, 1, 5, {6, 3}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 4", {2, 1, 1, 1, 5, {6, 4}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 7", {2, 1, 1, 1, 5, {7, 7}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 8", {2, 1, 1, 1, 5, {6, 8}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 15", {2, 1, 1, 1, 5, {6, 15}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 17", {2, 1, 1, 1, 5, {9, 17}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 23", {2, 1, 1, 1, 5, {24, 23}, {3, 3}, ONES, ONES, ONES, true}},
    {"depthwise, rows of 24", {2, 1, 1, 1, 5, {24, 24}, {3, 3}, ONES, ONES, ONES, true}},
    {"strides apart", {2, 1, 1, 1, 3, {17, 40}, {3, 3}, {1, 3}, {1, 2}, ONES, false}},
    {"the other way", {2, 1, 1, 1, 3, {17, 40}, {3, 3}, {3, 1}, {2, 1}, ONES, false}},
    {"dilated", {2, 1, 1, 2, 3, {20, 37}, {3, 5}, ONES, {4, 2}, {4, 2}, true}},
    {"dilated with stride", {2, 1, 1, 1, 3, {20, 37}, {3, 3}, {2, 3}, {3, 1}, {2, 2}, true}},
    {"more padding than image", {2, 1, 1, 1, 2, {2, 3}, {7, 7}, ONES, {6, 6}, ONES, true}},
    {"a seventh of a picture", {2, 1, 1, 1, 2, {30, 30}, {8, 8}, {4, 4}, {3, 3}, ONES, false}},
    {"first of a network", {2, 2, 3, 16, 1, {37, 41}, {3, 3}, {2, 2}, ONES, ONES, true}},
    {"channels but for one of four", {2, 1, 3, 7, 1, {20, 130}, {3, 3}, ONES, ONES, ONES, true}},
    {"groups of two and three", {2, 2, 2, 3, 4, {11, 18}, {3, 3}, ONES, ONES, ONES, true}},
    {"places", {2, 2, 16, 9, 1, {13, 21}, {1, 1}, ONES, {0}, ONES, true}},
    {"places of more terms", {2, 1, 40, 9, 2, {13, 21}, {1, 1}, ONES, {0}, ONES, true}},
    {"places with stride", {2, 1, 8, 9, 2, {13, 21}, {1, 1}, {2, 2}, {0}, ONES, true}},
    {"places with padding", {2, 1, 8, 9, 1, {3, 5}, {1, 1}, ONES, ONES, ONES, true}},
    {"places in tiles", {2, 3, 40, 16, 1, {4, 4}, {1, 1}, ONES, {0}, ONES, true}},
    {"places in tiles but for a kernel", {2, 3, 40, 15, 1, {4, 4}, {1, 1}, ONES, {0}, ONES, true}},
    {"places in tiles but for one", {2, 3, 40, 16, 1, {3, 5}, {1, 1}, ONES, {0}, ONES, true}},
    {"places in tiles, several images", {2, 7, 30, 21, 2, {7, 9}, {1, 1}, ONES, {0}, ONES, true}},
    {"places in several units", {2, 2, 64, 17, 1, {40, 41}, {1, 1}, ONES, {0}, ONES, false}},
    {"places in tiles with strides", {2, 3, 24, 19, 2, {9, 15}, {1, 1}, {2, 3}, {0}, ONES, true}},
    {"volumes of places", {3, 2, 9, 16, 1, {5, 4, 7}, ONES, {2, 1, 3}, {0}, ONES, true}},
    {"signals of places", {1, 2, 33, 18, 1, {131}, {1}, {2}, {0}, ONES, true}},
    {"more channels than terms", {2, 1, 1, 100, 1, {9, 9}, {3, 3}, ONES, ONES, ONES, true}},
    {"a column", {2, 1, 4, 6, 1, {200, 1}, {5, 1}, ONES, {2, 0}, ONES, true}},
    {"a column with stride", {2, 2, 1, 1, 6, {90, 1}, {3, 1}, {2, 5}, {1, 0}, ONES, true}},
    {"a thick column", {2, 1, 20, 6, 1, {100, 1}, {3, 1}, ONES, {1, 0}, ONES, true}},
    {"a column with padding", {2, 1, 4, 3, 1, {50, 1}, {3, 3}, ONES, {1, 1}, ONES, false}},
    {"signals", {1, 2, 1, 2, 7, {400}, {9}, ONES, {4}, ONES, true}},
    {"signals, stride 5", {1, 1, 3, 5, 1, {999}, {10}, {5}, {2}, ONES, true}},
    {"volumes", {3, 1, 1, 1, 4, {6, 9, 35}, {3, 3, 3}, ONES, ONES, ONES, true}},
    {"volumes with strides",
     {3, 2, 2, 3, 1, {7, 8, 9}, {2, 2, 2}, {2, 1, 2}, {1, 0, 1}, {1, 2, 1}, true}},
    {"a pile of rows", {3, 1, 2, 3, 1, {5, 60, 1}, {3, 3, 1}, ONES, {1, 1, 0}, ONES, true}},
    {"a pile of single elements",
     {3, 1, 2, 3, 2, {80, 1, 1}, {5, 1, 1}, {3, 1, 1}, {2, 0, 0}, ONES, true}},
};

START_TEST(as_the_reference) { windows_agree(&b, cases[_i].name, &cases[_i].s, false); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("thin_conv", add_tests); }
