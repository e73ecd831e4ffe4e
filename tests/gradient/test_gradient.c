/* Gradients of graphs: chains, sums over what is used twice, views, updates in place. */
#include "tests/graph/graphs.h"

/* The gradient of f's result by x, computed by a program, as numbers. */
typedef tn_tensor *(*function)(tn_tensor *x);

static void gradient_is(function f, const float *want, int64_t rows, int64_t columns) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", rows, columns), *dx = NULL, *got = NULL;
  tn_tensor *real = numbers(device, rows, columns, 0.5f), *loss = f(x);
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  ck_assert_ptr_nonnull(dx);
  ok(tn_graph_output(g, "dx", dx));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 1, &got));
  float values[64];
  ok(tn_tensor_to_host(got, values, tn_tensor_bytes(got)));
  for (int64_t i = 0; i < rows * columns; ++i) ck_assert_float_eq_tol(values[i], want[i], 1e-5f);
  tn_program_destroy(p);
  tn_tensor *all[] = {x, dx, got, real, loss};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_graph_destroy(g);
}

/* sum((x + x) x) */
static tn_tensor *twice(tn_tensor *x) {
  tn_tensor *a = NULL, *b = NULL, *y = NULL;
  ok(tn_add(NULL, x, x, &a));
  ok(tn_mul(NULL, a, x, &b));
  ok(tn_sum(NULL, b, NULL, &y));
  tn_tensor_release(a);
  tn_tensor_release(b);
  return y;
}

START_TEST(of_what_is_used_twice) {
  float want[6];
  for (int i = 0; i < 6; ++i) want[i] = 4 * (0.5f + (float)((i * 37) % 101) / 50);
  gradient_is(twice, want, 2, 3);
}
END_TEST

/* Row 0 counts once, row 1 squared; column 1 once more. */
static tn_tensor *views(tn_tensor *x) {
  tn_tensor *row0 = NULL, *row1 = NULL, *column = NULL, *t = NULL, *square = NULL,
            *sums[4] = {NULL};
  ok(tn_tensor_slice(x, 0, 0, 1, 1, &row0));
  ok(tn_tensor_slice(x, 0, 1, 2, 1, &row1));
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &t));
  ok(tn_tensor_select(t, 0, 1, &column));
  ok(tn_mul(NULL, row1, row1, &square));
  ok(tn_sum(NULL, row0, NULL, &sums[0]));
  ok(tn_sum(NULL, square, NULL, &sums[1]));
  ok(tn_sum(NULL, column, NULL, &sums[2]));
  ok(tn_add(NULL, sums[0], sums[1], &sums[3]));
  ok(tn_add(NULL, sums[3], sums[2], &sums[3]));
  tn_tensor *all[] = {row0, row1, column, t, square, sums[0], sums[1], sums[2]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return sums[3];
}

START_TEST(through_views) {
  float want[6];
  for (int i = 0; i < 6; ++i) {
    float x = 0.5f + (float)((i * 37) % 101) / 50;
    want[i] = (i < 3 ? 1 : 2 * x) + (i % 3 == 1 ? 1 : 0);
  }
  gradient_is(views, want, 2, 3);
}
END_TEST

/* y = x; y's row 0 is overwritten with 3 x's row 1; sum(y). */
static tn_tensor *updates(tn_tensor *x) {
  tn_tensor *y = NULL, *row0 = NULL, *row1 = NULL, *three = NULL, *sum = NULL;
  ok(tn_copy(NULL, x, &y));
  ok(tn_tensor_slice(y, 0, 0, 1, 1, &row0));
  ok(tn_tensor_slice(x, 0, 1, 2, 1, &row1));
  ok(tn_scalar(tn_tensor_device(x), NULL, TN_F32, 3, &three));
  ok(tn_mul(NULL, row1, three, &row0));
  ok(tn_sum(NULL, y, NULL, &sum));
  tn_tensor *all[] = {y, row0, row1, three};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return sum;
}

START_TEST(of_what_is_overwritten_in_part) {
  const float want[6] = {0, 0, 0, 4, 4, 4};
  gradient_is(updates, want, 2, 3);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, of_what_is_used_twice);
  tcase_add_test(tcase, through_views);
  tcase_add_test(tcase, of_what_is_overwritten_in_part);
}

int main(void) { return run_suite("gradient", add_tests); }
