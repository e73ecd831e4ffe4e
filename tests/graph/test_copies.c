/*
 * Copies of graphs, and the symbolic tensors by which calls go on from what was recorded; the
 * record's own lists, that grow, are shared, and find values among many.
 */
#include "tests/graph/graphs.h"

static tn_tensor *at(tn_graph *g, uint32_t value) {
  tn_tensor *t = NULL;
  ok(tn_graph_tensor_at(g, value, &t));
  return t;
}

static tn_graph *copy_of(const tn_graph *g) {
  tn_graph *copy = NULL;
  ok(tn_graph_copy(g, &copy));
  return copy;
}

static uint32_t value_of_output(const tn_graph *g, size_t index) {
  uint32_t value;
  ok(tn_graph_output_at(g, index, &value, NULL));
  return value;
}

/* The value of an input or parameter as it was given. */
static uint32_t value_named(const tn_graph *g, const char *name) {
  tn_graph_value v = {.struct_size = sizeof v};
  for (size_t i = 0; !tn_graph_value_at(g, i, &v); ++i)
    if (!strcmp(v.name, name) && v.version == 0) return (uint32_t)i;
  ck_abort_msg("no value %s", name);
  return TN_GRAPH_NONE;
}

static void run_alike(tn_graph *a, tn_graph *b, const tn_tensor *in, size_t num_out) {
  tn_program *p = compiled(a), *q = compiled(b);
  tn_tensor *x[4] = {NULL}, *y[4] = {NULL};
  ok(tn_program_run(p, NULL, 1, &in, num_out, x));
  ok(tn_program_run(q, NULL, 1, &in, num_out, y));
  for (size_t i = 0; i < num_out; ++i) {
    same(x[i], y[i]);
    RELEASE(x[i], y[i]);
  }
  tn_program_destroy(p);
  tn_program_destroy(q);
}

/* y = exp(x) w, and the second half of y's columns. */
static tn_graph *make_model(tn_tensor *real_w) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 3, 4), *w = NULL, *e = NULL, *y = NULL, *half = NULL, *s = NULL;
  tn_tensor *unused = input(g, "unused", 2, 2);
  const char *site = tn_call_site("model");
  ok(tn_graph_parameter(g, "w", real_w, &w));
  ok(tn_exp(NULL, x, &e));
  ok(tn_matmul(NULL, e, w, NULL, NULL, &y));
  ok(tn_tensor_slice(y, 1, 1, 2, 1, &half));
  ok(tn_sum(NULL, half, NULL, &s));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_output(g, "half", half));
  tn_call_site(site);
  RELEASE(x, w, e, y, half, s, unused);
  return g;
}

START_TEST(a_copy_has_all_of_it) {
  tn_tensor *w = numbers(device, 4, 2, -1);
  tn_graph *g = make_model(w), *copy = copy_of(g);
  char *texts[2];
  size_t sizes[2];
  for (int i = 0; i < 2; ++i) {
    FILE *file = open_memstream(&texts[i], &sizes[i]);
    ok(tn_graph_print(i ? copy : g, TN_GRAPH_TEXT, file));
    fclose(file);
  }
  ck_assert_str_eq(texts[0], texts[1]);
  ck_assert_uint_eq(tn_graph_num_values(copy), tn_graph_num_values(g));
  ck_assert_ptr_ne(tn_graph_device(copy), tn_graph_device(g));
  free(texts[0]);
  free(texts[1]);
  tn_tensor *x = numbers(device, 3, 4, 0.5f), *unused = numbers(device, 2, 2, 1);
  tn_program *p = compiled(copy), *q = compiled(g);
  tn_graph_destroy(g);
  tn_graph_destroy(copy);
  tn_tensor *a[2] = {NULL}, *b[2] = {NULL};
  ok(tn_program_run(p, NULL, 2, (const tn_tensor *[]){x, unused}, 2, a));
  ok(tn_program_run(q, NULL, 2, (const tn_tensor *[]){x, unused}, 2, b));
  same(a[0], b[0]);
  same(a[1], b[1]);
  tn_program_destroy(p);
  tn_program_destroy(q);
  RELEASE(w, x, unused, a[0], a[1], b[0], b[1]);
}
END_TEST

/* The copy goes on from an output and from a view; the graph itself stays what it was. */
START_TEST(calls_go_on_in_a_copy) {
  tn_tensor *w = numbers(device, 4, 2, -1);
  tn_graph *g = make_model(w), *copy = copy_of(g), *again;
  size_t nodes = tn_graph_num_nodes(g), values = tn_graph_num_values(g);
  tn_tensor *y = at(copy, value_of_output(copy, 0)), *half = at(copy, value_of_output(copy, 1));
  ck_assert_int_eq(tn_tensor_rank(half), 2);
  ck_assert_int_eq(tn_tensor_strides(half)[0], 2);
  ck_assert_ptr_eq(tn_tensor_graph(y), copy);
  tn_tensor *relu = NULL, *z = NULL;
  ok(tn_relu(NULL, y, &relu));
  ok(tn_mul(NULL, relu, half, &z));
  ok(tn_graph_output(copy, "z", z));
  ck_assert_uint_eq(tn_graph_num_nodes(copy), nodes + 2);
  ck_assert_uint_eq(tn_graph_num_values(copy), values + 2); /* y and half are what they were */
  ck_assert_uint_eq(tn_graph_num_nodes(g), nodes);
  /* As the calls themselves, and the same from a copy of the copy. */
  again = copy_of(copy);
  tn_graph_destroy(g);
  tn_tensor *x = numbers(device, 3, 4, 0.25f), *unused = numbers(device, 2, 2, 1);
  tn_tensor *e = NULL, *ry = NULL, *rh = NULL, *rr = NULL, *rz = NULL;
  ok(tn_exp(NULL, x, &e));
  ok(tn_matmul(NULL, e, w, NULL, NULL, &ry));
  ok(tn_tensor_slice(ry, 1, 1, 2, 1, &rh));
  ok(tn_relu(NULL, ry, &rr));
  ok(tn_mul(NULL, rr, rh, &rz));
  for (int i = 0; i < 2; ++i) {
    tn_program *p = compiled(i ? again : copy);
    tn_tensor *out[3] = {NULL};
    ok(tn_program_run(p, NULL, 2, (const tn_tensor *[]){x, unused}, 3, out));
    same(out[0], ry);
    same(out[1], rh);
    same(out[2], rz);
    RELEASE(out[0], out[1], out[2]);
    tn_program_destroy(p);
  }
  tn_graph_destroy(copy);
  tn_graph_destroy(again);
  RELEASE(w, y, half, relu, z, x, unused, e, ry, rh, rr, rz);
}
END_TEST

/* Parameters are the same real tensors; what writes to one in a copy is a version of the copy's. */
START_TEST(parameters_are_shared) {
  tn_tensor *real = numbers(device, 2, 3, 1), *kept = NULL, *twice = NULL;
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 3), *w = NULL, *y = NULL;
  ok(tn_graph_parameter(g, "w", real, &w));
  ok(tn_add(NULL, x, w, &y));
  ok(tn_graph_output(g, "y", y));
  tn_graph *copy = copy_of(g);
  tn_tensor *w2 = at(copy, value_named(copy, "w"));
  ok(tn_add(NULL, w2, w2, &w2));
  refused(tn_graph_tensor_at(copy, value_named(copy, "w"), &kept), TN_ERR_INVALID_ARGUMENT,
          "node 1 (tn_add) has written to what value");
  ck_assert_ptr_null(kept);
  tn_tensor *x2 = at(copy, value_named(copy, "x"));
  tn_exp(NULL, x2, &x2); /* inputs stay read-only */
  ck_assert_uint_eq(tn_graph_num_nodes(copy), 2);
  tn_program *p = compiled(copy);
  tn_tensor *in = numbers(device, 2, 3, 5), *got = NULL, *want = NULL;
  ok(tn_add(NULL, real, in, &want));
  ok(tn_add(NULL, real, real, &twice));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &got));
  same(got, want);
  same(real, twice);
  tn_program_destroy(p);
  tn_graph_destroy(copy);
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  tn_graph_destroy(g);
  RELEASE(real, twice, x, w, y, w2, x2, in, got, want);
}
END_TEST

/* In a graph itself: after an update the latest value is what a tensor can show. */
START_TEST(tensors_of_values) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 6), *t = NULL, *y = NULL, *z = NULL, *none = NULL;
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &t));
  ok(tn_exp(NULL, t, &y));
  ok(tn_neg(NULL, y, &y));
  tn_graph_value v = {.struct_size = sizeof v};
  size_t shown = 0;
  for (size_t i = 0; i < tn_graph_num_values(g); ++i) {
    ok(tn_graph_value_at(g, i, &v));
    tn_status status = tn_graph_tensor_at(g, i, &z);
    ck_assert_int_eq(status,
                     v.kind == TN_GRAPH_MADE && v.version == 1 ? TN_ERR_INVALID_ARGUMENT : TN_OK);
    if (status) continue;
    ++shown;
    ck_assert_int_eq(tn_tensor_rank(z), v.rank);
    ck_assert(memcmp(tn_tensor_shape(z), v.shape, (size_t)v.rank * sizeof *v.shape) == 0);
    ck_assert(memcmp(tn_tensor_strides(z), v.strides, (size_t)v.rank * sizeof *v.shape) == 0);
    tn_tensor_release(z);
    z = NULL;
  }
  ck_assert_uint_eq(shown, 3); /* x, its other order, y after neg */
  refused(tn_graph_tensor_at(g, 100, &none), TN_ERR_NOT_FOUND, "100 is no value");
  refused(tn_graph_tensor_at(g, 0, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_graph_tensor_at(NULL, 0, &none), TN_ERR_INVALID_ARGUMENT, "graph is NULL");
  refused(tn_graph_copy(NULL, &g), TN_ERR_INVALID_ARGUMENT, "graph is NULL");
  refused(tn_graph_copy(g, NULL), TN_ERR_INVALID_ARGUMENT, "copy is NULL");
  tn_graph_destroy(g);
  RELEASE(x, t, y);
}
END_TEST

/* A buffer that was first seen by a view of its middle: what goes on from there fits. */
START_TEST(views_of_a_middle) {
  tn_graph *g = make_graph();
  tn_tensor *all = NULL, *middle = NULL, *x = input(g, "x", 1, 3), *y = NULL;
  ok(tn_zeros(tn_graph_device(g), NULL, TN_F32, 2, SHAPE(5, 3), &all));
  ok(tn_tensor_slice(all, 0, 2, 3, 1, &middle));
  ok(tn_exp(NULL, x, &middle));
  ok(tn_graph_output(g, "all", all));
  tn_graph *copy = copy_of(g);
  tn_tensor *in = numbers(device, 1, 3, 1), *first = NULL;
  run_alike(g, copy, in, 1);
  tn_tensor *again = at(copy, value_of_output(copy, 0));
  ok(tn_tensor_slice(again, 0, 0, 1, 1, &first));
  ok(tn_neg(NULL, again, &y));
  ok(tn_add(NULL, first, first, &first));
  RELEASE(all, middle, x, y, in, first, again);
  tn_graph_destroy(copy);
  tn_graph_destroy(g);
}
END_TEST

/* --- the record --- */

/* Each row of an input once and again: one value each, however many there are. */
START_TEST(many_views_of_one_buffer) {
  enum { ROWS = 3000 };
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", ROWS, 2), *sum = NULL;
  for (int round = 0; round < 2; ++round)
    for (int64_t i = 0; i < ROWS; ++i) {
      tn_tensor *row = NULL, *next = NULL;
      ok(tn_tensor_slice(x, 0, i, i + 1, 1, &row));
      ok(sum ? tn_add(NULL, sum, row, &next) : tn_neg(NULL, row, &next));
      RELEASE(sum, row);
      sum = next;
    }
  /* The input, its rows, what each call made. */
  ck_assert_uint_eq(tn_graph_num_values(g), 1 + ROWS + 2 * ROWS);
  tn_graph_value first = {.struct_size = sizeof first};
  tn_graph_node a = {.struct_size = sizeof a}, b = a;
  for (size_t i = 1; i < ROWS; i += 311) {
    ok(tn_graph_node_at(g, i, &a));
    ok(tn_graph_node_at(g, ROWS + i, &b));
    ck_assert_uint_eq(a.in[1], b.in[1]);
    ok(tn_graph_value_at(g, a.in[1], &first));
    ck_assert_uint_eq(first.offset, i * 2 * sizeof(float));
  }
  tn_graph *copy = copy_of(g);
  tn_tensor *row = at(copy, b.in[1]), *y = NULL;
  size_t values = tn_graph_num_values(copy);
  ok(tn_neg(NULL, row, &y));
  ck_assert_uint_eq(tn_graph_num_values(copy), values + 1);
  tn_graph_destroy(copy);
  tn_graph_destroy(g);
  RELEASE(x, sum, row, y);
}
END_TEST

/* Sites are told apart by their words, not by where these lie. */
START_TEST(sites_of_nodes) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 1, 1), *y = NULL;
  tn_graph_node n = {.struct_size = sizeof n}, m = n;
  char site[32];
  for (int i = 0; i < 300; ++i) {
    snprintf(site, sizeof site, "layer %d", i % 150);
    tn_call_site(i == 7 ? NULL : site);
    ok(tn_neg(NULL, x, &y));
    tn_tensor_release(y);
    y = NULL;
  }
  tn_call_site(NULL);
  for (size_t i = 0; i < 300; ++i) {
    ok(tn_graph_node_at(g, i, &n));
    snprintf(site, sizeof site, "layer %d", (int)i % 150);
    ck_assert_str_eq(n.site, i == 7 ? "" : site);
  }
  ok(tn_graph_node_at(g, 20, &n));
  ok(tn_graph_node_at(g, 170, &m));
  ck_assert_ptr_eq(n.site, m.site);
  tn_graph_destroy(g);
  tn_tensor_release(x);
}
END_TEST

/* Calls that are refused leave no node, and the next finds the record as it was. */
START_TEST(refused_calls_between) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *c = NULL, *y = NULL;
  const float values[4] = {1, 2, 3, 4};
  ok(tn_tensor_from_host(tn_graph_device(g), TN_F32, 2, SHAPE(2, 2), values, &c));
  for (int i = 0; i < 50; ++i) {
    tn_tensor *z = NULL;
    refused(tn_neg(NULL, x, &c), TN_ERR_INVALID_ARGUMENT, "writes to a constant");
    ok(tn_add(NULL, y ? y : x, c, &z));
    tn_tensor_release(y);
    y = z;
  }
  ck_assert_uint_eq(tn_graph_num_nodes(g), 50);
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 2, 2, 0), *out = NULL;
  float before[4], after[4];
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out));
  ok(tn_tensor_to_host(in, before, sizeof before));
  ok(tn_tensor_to_host(out, after, sizeof after));
  for (int i = 0; i < 4; ++i) ck_assert_float_eq_tol(after[i], before[i] + 50 * values[i], 1e-3f);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  RELEASE(x, c, y, in, out);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, a_copy_has_all_of_it);
  tcase_add_test(tcase, calls_go_on_in_a_copy);
  tcase_add_test(tcase, parameters_are_shared);
  tcase_add_test(tcase, tensors_of_values);
  tcase_add_test(tcase, views_of_a_middle);
  tcase_add_test(tcase, many_views_of_one_buffer);
  tcase_add_test(tcase, sites_of_nodes);
  tcase_add_test(tcase, refused_calls_between);
}

int main(void) { return run_suite("graph_copies", add_tests); }
