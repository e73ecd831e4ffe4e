/* Gradients of graphs: chains, sums over what is used twice, views, updates in place. */
#include "tenon/plugin.h"
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

/* exp(exp(...)) by `depth`, all but every fourth computed again where `again`. */
static tn_program *tower(int depth, bool again, uint32_t *nodes) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 64, 64), *dx = NULL, *loss = NULL, *y = x;
  for (int i = 0; i < depth; ++i) {
    tn_tensor *s = NULL, *next = NULL;
    ok(tn_sin(NULL, y, &s));
    ok(tn_mul(NULL, s, y, &next));
    if (again) ok(tn_graph_recompute(g, s));
    if (again && i % 4 != 3) ok(tn_graph_recompute(g, next));
    tn_tensor_release(s);
    if (y != x) tn_tensor_release(y);
    y = next;
  }
  ok(tn_sum(NULL, y, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  ok(tn_graph_output(g, "dx", dx));
  tn_program *p = compiled(g);
  *nodes = (uint32_t)tn_graph_num_nodes(g);
  tn_tensor *all[] = {x, y, loss, dx};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_graph_destroy(g);
  return p;
}

START_TEST(computed_again) {
  uint32_t nodes[2];
  tn_program *p[2] = {tower(32, false, &nodes[0]), tower(32, true, &nodes[1])};
  tn_tensor *x = numbers(device, 64, 64, -1), *dx[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i)
    ok(tn_program_run(p[i], NULL, 1, (const tn_tensor *[]){x}, 1, &dx[i]));
  same(dx[0], dx[1]);
  ck_assert_uint_gt(nodes[1], nodes[0]);
  ck_assert_uint_lt(report(p[1]).live_bytes * 2, report(p[0]).live_bytes);
  for (int i = 0; i < 2; ++i) {
    tn_tensor_release(dx[i]);
    tn_program_destroy(p[i]);
  }
  tn_tensor_release(x);
}
END_TEST

START_TEST(only_what_a_call_made_is_computed_again) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 3), *y = NULL;
  ck_assert_int_eq(tn_graph_recompute(g, x), TN_ERR_INVALID_ARGUMENT);
  ok(tn_exp(NULL, x, &y));
  ok(tn_exp(NULL, y, &y));
  ck_assert_int_eq(tn_graph_recompute(g, y), TN_ERR_INVALID_ARGUMENT);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_graph_destroy(g);
}
END_TEST

/* What layer_norm's rule reads is there though the call leaves it out, and computed by programs
 * only where there is a gradient. */
START_TEST(outputs_that_rules_read) {
  uint64_t planned[2];
  for (int with = 0; with < 2; ++with) {
    tn_graph *g = make_graph();
    tn_tensor *x = input(g, "x", 64, 64), *y = NULL, *loss = NULL, *dx = NULL;
    ok(tn_layer_norm(NULL, x, NULL, NULL, NULL, &y, NULL, NULL));
    ok(tn_sum(NULL, y, NULL, &loss));
    ok(tn_graph_output(g, "loss", loss));
    size_t nodes = tn_graph_num_nodes(g);
    if (with) ok(tn_graph_gradient(g, loss, 1, &x, &dx));
    if (with) ok(tn_graph_output(g, "dx", dx));
    for (size_t k = nodes; with && k < tn_graph_num_nodes(g); ++k) {
      tn_graph_node n = {.struct_size = sizeof n};
      ok(tn_graph_node_at(g, k, &n));
      ck_assert_str_ne(n.op->name, "mean");
    }
    tn_program *p = compiled(g);
    planned[with] = report(p).planned_bytes;
    tn_program_destroy(p);
    tn_tensor *all[] = {x, y, loss, dx};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
    tn_graph_destroy(g);
  }
  ck_assert_uint_le(planned[0], 64 * 64 * sizeof(float)); /* y alone */
  ck_assert_uint_gt(planned[1], planned[0]);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, of_what_is_used_twice);
  tcase_add_test(tcase, through_views);
  tcase_add_test(tcase, of_what_is_overwritten_in_part);
  tcase_add_test(tcase, computed_again);
  tcase_add_test(tcase, only_what_a_call_made_is_computed_again);
  tcase_add_test(tcase, outputs_that_rules_read);
}

int main(void) { return run_suite("gradient", add_tests); }
