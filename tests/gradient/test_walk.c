/*
 * What the walk over a graph does beside rules: which tensors gradients are by, what has none,
 * what stops and what overwrites, what is refused, and that whatever fails leaves the graph alone.
 */
#include "tests/gradient/functions.h"
#include "tests/scarce.h"

/* --- what gradients are by --- */

static tn_tensor *symbolic(tn_graph *g, const char *name, int64_t rows, int64_t columns) {
  tn_tensor *t = NULL;
  ok(tn_graph_input(g, name, TN_F64, 2, SHAPE(rows, columns), &t));
  return t;
}

/* Of a program that has one input of `n` numbers 1, 2, 3..., if any, and these outputs. */
static void computes(tn_graph *g, int64_t rows, int64_t columns, size_t count,
                     tn_tensor *const *outputs, const double *const *want) {
  double values[64], numbers[64];
  tn_tensor *in = NULL, *out[4] = {NULL};
  char name[32];
  for (int i = 0; i < 64; ++i) numbers[i] = i + 1;
  for (size_t i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "o%zu", i);
    ck_assert_ptr_nonnull(outputs[i]);
    ok(tn_graph_output(g, name, outputs[i]));
  }
  tn_program *p = compiled(g);
  ok(tn_tensor_from_host(device, TN_F64, 2, SHAPE(rows, columns), numbers, &in));
  ok(tn_program_run(p, NULL, rows != 0, (const tn_tensor *[]){in}, count, out));
  for (size_t i = 0; i < count; ++i) {
    ok(tn_tensor_to_host(out[i], values, tn_tensor_bytes(out[i])));
    for (int64_t k = 0; k < tn_tensor_elements(out[i]); ++k)
      ck_assert_msg(values[k] == want[i][k], "output %zu, element %d: %g, not %g", i, (int)k,
                    values[k], want[i][k]);
    tn_tensor_release(out[i]);
  }
  tn_tensor_release(in);
  tn_program_destroy(p);
}

START_TEST(of_an_input_that_is_the_loss) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 1, 1), *dx[2] = {NULL};
  ok(tn_graph_gradient(g, x, 2, (tn_tensor *[]){x, x}, dx));
  const double one[] = {1};
  computes(g, 1, 1, 2, dx, (const double *[]){one, one});
  RELEASE(x, dx[0], dx[1]);
  tn_graph_destroy(g);
}
END_TEST

/* y = 3 x, loss = sum(y y): by y, by x, by row 1 of x, by x again, by what it does not depend on.
 */
START_TEST(of_what_is_computed_and_of_views) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 2, 2), *three = NULL, *y = NULL, *square = NULL, *loss = NULL;
  tn_tensor *row = NULL, *other = NULL, *dx[5] = {NULL};
  ok(tn_scalar_f64(tn_graph_device(g), NULL, TN_F64, 3, &three));
  ok(tn_mul(NULL, x, three, &y));
  ok(tn_mul(NULL, y, y, &square));
  ok(tn_sum(NULL, square, NULL, &loss));
  ok(tn_exp(NULL, x, &other));
  ok(tn_tensor_slice(x, 0, 1, 2, 1, &row));
  ok(tn_graph_gradient(g, loss, 5, (tn_tensor *[]){y, x, row, x, other}, dx));
  ck_assert_ptr_null(dx[4]);
  const double by_y[] = {6, 12, 18, 24}, by_x[] = {18, 36, 54, 72};
  computes(g, 2, 2, 4, dx, (const double *[]){by_y, by_x, by_x + 2, by_x});
  RELEASE(x, three, y, square, loss, row, other, dx[0], dx[1], dx[2], dx[3]);
  tn_graph_destroy(g);
}
END_TEST

/* They are the caller's: writing to one changes no other. */
START_TEST(which_are_ones_own) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 1, 2), *y = NULL, *sum = NULL, *loss = NULL, *dx[2] = {NULL};
  ok(tn_copy(NULL, x, &y));
  ok(tn_add(NULL, x, y, &sum));
  ok(tn_sum(NULL, sum, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 2, (tn_tensor *[]){y, x}, dx));
  ok(tn_add(NULL, dx[0], dx[0], &dx[0]));
  const double by_y[] = {2, 2}, by_x[] = {2, 2};
  computes(g, 1, 2, 2, dx, (const double *[]){by_y, by_x});
  RELEASE(x, y, sum, loss, dx[0], dx[1]);
  tn_graph_destroy(g);
}
END_TEST

/* A constant's gradient, without any input, of zero elements. */
START_TEST(of_nothing) {
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *loss = NULL, *dx = NULL, *out = NULL;
  ok(tn_graph_input(g, "x", TN_F64, 2, SHAPE(0, 3), &x));
  ok(tn_sum(NULL, x, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  ok(tn_graph_gradient(g, loss, 0, NULL, NULL));
  ok(tn_graph_output(g, "dx", dx));
  tn_program *p = compiled(g);
  tn_tensor *real = NULL;
  ok(tn_tensor_empty(device, TN_F64, 2, SHAPE(0, 3), &real));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 1, &out));
  ck_assert_int_eq(tn_tensor_shape(out)[0], 0);
  ck_assert_int_eq(tn_tensor_shape(out)[1], 3);
  RELEASE(x, loss, dx, out, real);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* --- what overwrites, and what stops --- */

/* Rows of a copy of x are overwritten by what does not depend on it, one with nothing at all. */
static tn_tensor *overwritten_rows(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                                   uint64_t seed) {
  const double numbers[4] = {1, 2, 3, 4};
  tn_tensor *y = NULL, *row = NULL, *none = NULL, *c = NULL, *empty = NULL, *loss = NULL;
  ok(tn_mul(NULL, x, w, &y));
  ok(tn_tensor_from_host(on, TN_F64, 1, SHAPE(4), numbers, &c));
  ok(tn_tensor_select(y, 0, 2, &row));
  ok(tn_exp(NULL, c, &row));
  ok(tn_tensor_slice(y, 0, 4, 4, 1, &none));
  ok(tn_tensor_slice(x, 0, 0, 0, 1, &empty));
  ok(tn_sin(NULL, empty, &none));
  ok(tn_tanh(NULL, y, &y));
  loss = weighted_sum(on, y, seed);
  RELEASE(y, row, none, c, empty);
  return loss;
}

/* The same, overwritten whole: only what was read before counts. */
static tn_tensor *overwritten_whole(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                                    uint64_t seed) {
  tn_tensor *y = NULL, *t = NULL, *c = NULL, *loss = NULL;
  (void)w;
  ok(tn_sin(NULL, x, &y));
  loss = weighted_sum(on, y, seed);
  ok(tn_ones(on, NULL, TN_F64, 2, SHAPE(4, 4), &c));
  ok(tn_tensor_permute(y, (int32_t[]){1, 0}, &t));
  ok(tn_cos(NULL, c, &t));
  add_to(&loss, weighted_sum(on, y, seed + 1));
  RELEASE(y, t, c);
  return loss;
}

/* What a mask scales in place needs the mask alone. */
static tn_tensor *scaled_in_place(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                                  uint64_t seed) {
  const double mask[4] = {1, 0, 1, 2};
  tn_tensor *y = NULL, *c = NULL, *loss = NULL;
  ok(tn_mul(NULL, x, w, &y));
  ok(tn_tensor_from_host(on, TN_F64, 1, SHAPE(4), mask, &c));
  ok(tn_mul(NULL, y, c, &y));
  ok(tn_sub(NULL, x, y, &y));
  ok(tn_add(NULL, y, y, &y));
  ok(tn_tanh(NULL, y, &y));
  loss = weighted_sum(on, y, seed);
  RELEASE(y, c);
  return loss;
}

/* Two updates of parts that overlap, of a tensor that was never written whole. */
static tn_tensor *in_pieces(tn_device *on, const tn_tensor *x, const tn_tensor *w, uint64_t seed) {
  tn_tensor *y = NULL, *top = NULL, *bottom = NULL, *flat = NULL, *odd = NULL, *wide = NULL;
  ok(tn_tensor_empty(on, TN_F64, 2, SHAPE(6, 4), &y));
  ok(tn_tensor_slice(y, 0, 0, 4, 1, &top));
  ok(tn_tensor_slice(y, 0, 2, 6, 1, &bottom));
  ok(tn_sin(NULL, x, &top));
  ok(tn_mul(NULL, x, w, &bottom));
  ok(tn_tensor_reshape(y, 1, SHAPE(24), &flat));
  ok(tn_tensor_slice(flat, 0, 1, 24, 5, &odd));
  ok(tn_tensor_expand(w, 2, SHAPE(4, 4), &wide));
  ok(tn_add(NULL, bottom, wide, &bottom));
  ok(tn_tanh(NULL, odd, &odd));
  tn_tensor *loss = weighted_sum(on, flat, seed);
  RELEASE(y, top, bottom, flat, odd, wide);
  return loss;
}

/* In-out tensors of operators, and what one that counts its places adds to a view. */
static tn_tensor *added_by_index(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                                 uint64_t seed) {
  const int64_t rows[3] = {1, 0, 1};
  tn_tensor *y = NULL, *t = NULL, *part = NULL, *index = NULL, *updates = NULL;
  ok(tn_mul(NULL, x, x, &y));
  ok(tn_tensor_permute(y, (int32_t[]){1, 0}, &t));
  ok(tn_tensor_slice(t, 0, 1, 3, 1, &part));
  ok(tn_tensor_from_host(on, TN_I64, 1, SHAPE(3), rows, &index));
  ok(tn_tensor_expand(w, 2, SHAPE(3, 4), &updates));
  ok(tn_index_add(NULL, updates, index, part, NULL));
  ok(tn_tanh(NULL, part, &part));
  tn_tensor *loss = weighted_sum(on, y, seed);
  RELEASE(y, t, part, index, updates);
  return loss;
}

/* Steps of a loop, each into its own row of one tensor, from the row before: what a rule reads of
 * one row is there though others were written later. */
static tn_tensor *row_by_row(tn_device *on, const tn_tensor *x, const tn_tensor *w, uint64_t seed) {
  tn_tensor *all = NULL, *before = NULL;
  ok(tn_tensor_empty(on, TN_F64, 2, SHAPE(4, 4), &all));
  ok(tn_tensor_slice(w, 0, 0, 4, 1, &before));
  for (int i = 0; i < 4; ++i) {
    tn_tensor *row = NULL, *in = NULL, *product = NULL;
    ok(tn_tensor_select(all, 0, i, &row));
    ok(tn_tensor_select(x, 0, i, &in));
    ok(tn_mul(NULL, in, before, &product));
    ok(tn_tanh(NULL, product, &row));
    RELEASE(in, product, before);
    before = row;
  }
  tn_tensor *loss = weighted_sum(on, all, seed);
  RELEASE(all, before);
  return loss;
}

START_TEST(through_updates) {
  static const function all[] = {overwritten_rows, overwritten_whole, scaled_in_place,
                                 in_pieces,        added_by_index,    row_by_row};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    for (int order = 1; order <= 3; ++order) holds(all[i], 10 + i, order);
}
END_TEST

/* s = stop(x), y = x s + w in s's place: by s all of it, by x but what did not go through s. */
START_TEST(stopped) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 1, 2), *s = NULL, *product = NULL, *loss = NULL, *dx[2] = {NULL};
  ok(tn_graph_stop_gradient(g, x, &s));
  ok(tn_mul(NULL, x, s, &product));
  ok(tn_sum(NULL, product, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 2, (tn_tensor *[]){x, s}, dx));
  const double numbers[] = {1, 2};
  computes(g, 1, 2, 2, dx, (const double *[]){numbers, numbers});
  RELEASE(x, s, product, loss, dx[0], dx[1]);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(stopped_and_updated_later) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 1, 2), *s = NULL, *loss = NULL, *dx = NULL;
  ok(tn_graph_stop_gradient(g, x, &s));
  ok(tn_add(NULL, s, x, &s));
  ok(tn_sum(NULL, s, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  const double ones[] = {1, 1};
  computes(g, 1, 2, 1, &dx, (const double *[]){ones});
  RELEASE(x, s, loss, dx);
  tn_graph_destroy(g);
}
END_TEST

/* A step of an optimiser in the graph: gradients are of what was before it. */
START_TEST(and_then_a_step) {
  const double start[2] = {3, -1};
  const tn_sgd_step_attrs attrs = {sizeof attrs, 0.25, 0, 0, 0};
  tn_graph *g = make_graph();
  tn_tensor *real = NULL, *rest = NULL, *w = NULL, *v = NULL, *square = NULL, *loss = NULL;
  tn_tensor *dw = NULL, *late = NULL;
  ok(tn_tensor_from_host(device, TN_F64, 1, SHAPE(2), start, &real));
  ok(tn_zeros(device, NULL, TN_F64, 1, SHAPE(2), &rest));
  ok(tn_graph_parameter(g, "w", real, &w));
  ok(tn_graph_parameter(g, "v", rest, &v));
  ok(tn_mul(NULL, w, w, &square));
  ok(tn_sum(NULL, square, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &w, &dw));
  ok(tn_sgd_step(NULL, dw, w, v, &attrs));
  /* The loss does not depend on what w is now, and the node needs what it was. */
  ok(tn_graph_gradient(g, loss, 1, &w, &late));
  ck_assert_ptr_null(late);
  refused(tn_graph_gradient(g, loss, 1, &square, &late), TN_OK, "");
  ck_assert_ptr_nonnull(late);
  ok(tn_graph_output(g, "loss", loss));
  tn_program *p = compiled(g);
  for (int i = 0; i < 3; ++i) {
    tn_tensor *out = NULL;
    double got, want = 10 * pow(0.25, i);
    ok(tn_program_run(p, NULL, 0, NULL, 1, &out));
    ok(tn_tensor_to_host(out, &got, sizeof got));
    ck_assert_double_eq(got, want);
    tn_tensor_release(out);
  }
  tn_program_destroy(p);
  RELEASE(real, rest, w, v, square, loss, dw, late);
  tn_graph_destroy(g);
}
END_TEST

/* --- what is refused --- */

/* The graph in words. */
static char *printed(const tn_graph *g) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  ok(tn_graph_print(g, TN_GRAPH_TEXT, file));
  fclose(file);
  return text;
}

static void leaves(tn_graph *g, tn_status status, const char *words, const tn_tensor *loss,
                   tn_tensor *wrt) {
  char *before = printed(g), *after;
  tn_tensor *dx = (tn_tensor *)&before; /* not written to */
  refused(tn_graph_gradient(g, loss, 1, &wrt, &dx), status, words);
  ck_assert_ptr_eq(dx, (tn_tensor *)&before);
  after = printed(g);
  ck_assert_str_eq(before, after);
  free(before);
  free(after);
}

START_TEST(refused_with_a_name) {
  tn_graph *g = make_graph(), *other = make_graph();
  tn_tensor *x = symbolic(g, "x", 2, 2), *strange = symbolic(other, "x", 2, 2), *loss = NULL;
  tn_tensor *real = numbers(device, 1, 1, 1), *whole = NULL, *index = NULL, *y = NULL, *late = NULL;
  ok(tn_sum(NULL, x, NULL, &loss));
  ok(tn_argmax(NULL, x, NULL, &index));
  leaves(g, TN_ERR_INVALID_ARGUMENT, "4 elements, it must have one: sum it", x, x);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "loss 0 is", index, x);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "wrt 0 is i64", loss, index);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "wrt 0 is of ", loss, strange);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "wrt 0 is of ", loss, real);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "loss 0 is of ", real, x);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "NULL", loss, NULL);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "NULL", NULL, x);
  /* Overwritten: by which node, needed by which. */
  ok(tn_exp(NULL, x, &y));
  tn_call_site("layer 7");
  ok(tn_mul(NULL, y, y, &whole));
  tn_call_site("layer 8");
  ok(tn_neg(NULL, y, &y));
  tn_call_site(NULL);
  ok(tn_sum(NULL, whole, NULL, &late));
  leaves(g, TN_ERR_INVALID_ARGUMENT, "(tn_mul, at layer 7): it needs a tensor that node", late, x);
  leaves(g, TN_ERR_INVALID_ARGUMENT, "(tn_neg, at layer 8) has overwritten since", late, x);
  ck_assert_ptr_null(tn_call_site(NULL));
  RELEASE(x, strange, loss, real, whole, index, y, late);
  tn_graph_destroy(g);
  tn_graph_destroy(other);
}
END_TEST

/* An operator without a rule, behind what can be differentiated. */
START_TEST(refused_for_an_operator) {
  tn_graph *g = make_graph();
  tn_tensor *x = symbolic(g, "x", 2, 2), *y = NULL, *p = NULL, *v = NULL, *loss = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_copy(NULL, x, &p));
  ok(tn_copy(NULL, x, &v));
  tn_call_site("inner step");
  ok(tn_sgd_step(NULL, y, p, v, NULL));
  tn_call_site(NULL);
  ok(tn_sum(NULL, p, NULL, &loss));
  leaves(g, TN_ERR_UNSUPPORTED, "(tn_sgd_step, at inner step): tn_sgd_step has no gradient", loss,
         x);
  RELEASE(x, y, p, v, loss);
  tn_graph_destroy(g);
}
END_TEST

/* --- memory that runs out --- */

/* One request after the other fails; the graph is as before, and then the gradient can be had. */
static void fails_everywhere(function f) {
  tn_runtime *before_rt = rt;
  tn_device *before = device;
  rt = open_scarce();
  device = tn_runtime_device(rt);
  differentiated d = differentiate(f, 1, 1);
  tn_tensor *wrt[2] = {d.x, d.w}, *dx[2];
  char *text = printed(d.graph);
  const size_t values = tn_graph_num_values(d.graph);
  long failed = 0;
  for (long at = 0;; ++at) {
    scarce_begin(at, false);
    dx[0] = dx[1] = NULL;
    const tn_status status = tn_graph_gradient(d.graph, d.loss, 2, wrt, dx);
    (void)scarce_end();
    if (!status) break;
    ok_or_scarce(status, at);
    ck_assert(!dx[0] && !dx[1]);
    char *now = printed(d.graph);
    ck_assert_msg(!strcmp(now, text), "request %ld: the graph has changed", at);
    free(now);
    ++failed;
  }
  ck_assert_int_gt(failed, 5);
  ck_assert_uint_ge(tn_graph_num_values(d.graph), values);
  free(text);
  RELEASE(dx[0], dx[1]);
  ck_assert(gradient_holds(&d, 1));
  differentiated_free(&d);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
  rt = before_rt;
  device = before;
}

START_TEST(every_request_for_memory_fails) {
  fails_everywhere(in_pieces);
  fails_everywhere(added_by_index);
  fails_everywhere(scaled_in_place);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, of_an_input_that_is_the_loss);
  tcase_add_test(tcase, of_what_is_computed_and_of_views);
  tcase_add_test(tcase, which_are_ones_own);
  tcase_add_test(tcase, of_nothing);
  tcase_add_test(tcase, through_updates);
  tcase_add_test(tcase, stopped);
  tcase_add_test(tcase, stopped_and_updated_later);
  tcase_add_test(tcase, and_then_a_step);
  tcase_add_test(tcase, refused_with_a_name);
  tcase_add_test(tcase, refused_for_an_operator);
  tcase_add_test(tcase, every_request_for_memory_fails);
}

int main(void) { return run_suite("gradient walk", add_tests); }
