/* Einstein's sums against sums over all indexes, on devices of every kind, of graphs too; and what
 * they refuse. */
#include <stdio.h>

#include "tenon/graph.h"
#include "tests/every_device.h"
#include "tests/scarce.h"

static tn_runtime *rt;
static tn_device *dev;
static void open_device(int i) { rt = open_every(i), dev = tn_runtime_device(rt); }

enum { MOST = 5 };

typedef struct sum {
  const char *equation, *full; /* full: with letters for "..." and its result, NULL: as it stands */
  struct {
    int rank;
    int64_t shape[5];
  } in[MOST];
} sum;

/* Letters of size 1 in one operand and more in another repeat. */
static const sum sums[] = {
    {"ij->ji", NULL, {{2, {3, 5}}}},
    {"ij", "ij->ij", {{2, {3, 5}}}},
    {"ba", "ba->ab", {{2, {3, 5}}}},
    {"bA", "bA->Ab", {{2, {3, 5}}}},
    {"ij->", NULL, {{2, {3, 5}}}},
    {"ij->j", NULL, {{2, {3, 5}}}},
    {"ii", "ii->", {{2, {4, 4}}}},
    {"ii->i", NULL, {{2, {4, 4}}}},
    {"iji->j", NULL, {{3, {3, 4, 3}}}},
    {"iijj->ji", NULL, {{4, {3, 3, 2, 2}}}},
    {"iii->i", NULL, {{3, {3, 3, 3}}}},
    {"ii->i", NULL, {{2, {1, 3}}}},
    {"...ii->...i", "abii->abi", {{4, {2, 3, 4, 4}}}},
    {"...", "abc->abc", {{3, {2, 3, 4}}}},
    {"i...->...", "iab->ab", {{3, {2, 3, 4}}}},
    {"i...", "iab->abi", {{3, {2, 3, 4}}}},
    {"a...b->b...", "apqb->bpq", {{4, {2, 3, 4, 5}}}},
    {"->", NULL, {{0, {0}}}},
    {"i,i", "i,i->", {{1, {7}}, {1, {7}}}},
    {"i,j", "i,j->ij", {{1, {4}}, {1, {5}}}},
    {" i j , j k -> i k ", "ij,jk->ik", {{2, {3, 4}}, {2, {4, 5}}}},
    {"ij,jk", "ij,jk->ik", {{2, {3, 4}}, {2, {4, 5}}}},
    {"ij,kj->ik", NULL, {{2, {3, 4}}, {2, {5, 4}}}},
    {"ji,kj->ki", NULL, {{2, {3, 4}}, {2, {5, 3}}}},
    {"bij,bjk->bik", NULL, {{3, {2, 3, 4}}, {3, {2, 4, 5}}}},
    {"bij,bkj->ibk", NULL, {{3, {2, 3, 4}}, {3, {2, 5, 4}}}},
    {"bhid,bhjd->bhij", NULL, {{4, {2, 3, 4, 5}}, {4, {2, 3, 2, 5}}}},
    {"bihd,bjhd->bhij", NULL, {{4, {2, 4, 3, 5}}, {4, {2, 2, 3, 5}}}},
    {"...ij,...jk->...ik", "abij,bjk->abik", {{4, {2, 3, 3, 4}}, {3, {3, 4, 5}}}},
    {"...ij,jk", "aij,jk->aik", {{3, {2, 3, 4}}, {2, {4, 5}}}},
    {"...,...", "ab,b->ab", {{2, {3, 4}}, {1, {4}}}},
    {"ij,ij->", NULL, {{2, {3, 4}}, {2, {3, 4}}}},
    {"ij,ij->i", NULL, {{2, {3, 4}}, {2, {3, 4}}}},
    {"ij,ij->ji", NULL, {{2, {3, 4}}, {2, {3, 4}}}},
    {"ij,kl->ljki", NULL, {{2, {3, 4}}, {2, {2, 5}}}},
    {"ijk,jil->kl", NULL, {{3, {3, 4, 5}}, {3, {4, 3, 2}}}},
    {"abcd,cdef->abef", NULL, {{4, {2, 3, 4, 2}}, {4, {4, 2, 3, 2}}}},
    {"ij,jk->ik", NULL, {{2, {3, 1}}, {2, {4, 5}}}},
    {"ij,ij->ij", NULL, {{2, {3, 1}}, {2, {1, 4}}}},
    {"ij,ij->i", NULL, {{2, {3, 1}}, {2, {1, 4}}}},
    {"ii,i->i", NULL, {{2, {4, 4}}, {1, {4}}}},
    {"ij,->ij", NULL, {{2, {3, 4}}, {0, {0}}}},
    {",", ",->", {{0, {0}}, {0, {0}}}},
    {"ij,jk->ik", NULL, {{2, {3, 0}}, {2, {0, 5}}}},
    {"ij,jk->ik", NULL, {{2, {0, 4}}, {2, {4, 5}}}},
    {"i->", NULL, {{1, {0}}}},
    {"ik,jkl,il->ij", NULL, {{2, {3, 4}}, {3, {5, 4, 6}}, {2, {3, 6}}}},
    {"ij,jk,kl,lm->im", NULL, {{2, {3, 4}}, {2, {4, 5}}, {2, {5, 6}}, {2, {6, 2}}}},
    {"a,b,c,d,e->edcba", NULL, {{1, {2}}, {1, {3}}, {1, {2}}, {1, {3}}, {1, {2}}}},
    {"ij,ij,ij->ij", NULL, {{2, {3, 4}}, {2, {3, 4}}, {2, {3, 4}}}},
    {"aab,bcc,c...->a...", "aab,bcc,cx->ax", {{3, {2, 2, 3}}, {3, {3, 4, 4}}, {2, {4, 5}}}},
};
enum { SUMS = sizeof sums / sizeof *sums };

/* Small whole numbers, so that sums are exact in every type. */
static int64_t number(int operand, int64_t i) { return (i * 7 + operand * 3 + 1) % 5 - 2; }

static tn_tensor *make_operand(const sum *s, int k, tn_dtype dtype) {
  int64_t n = 1;
  for (int i = 0; i < s->in[k].rank; ++i) n *= s->in[k].shape[i];
  double *values = malloc((size_t)(n + 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) values[i] = (double)number(k, i);
  tn_tensor *t = NULL, *y = NULL;
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = (int32_t)dtype;
  ok(tn_tensor_from_host(dev, TN_F64, s->in[k].rank, s->in[k].shape, values, &t));
  ok(tn_cast(NULL, t, &attrs, &y));
  tn_tensor_release(t);
  free(values);
  return y;
}

static int operands_of(const sum *s) {
  int count = 1;
  for (const char *at = s->equation; *at; ++at) count += *at == ',';
  return count;
}

/* Sizes of letters, and the sum over all their values. */
typedef struct naive {
  const char *term[MOST], *out;
  int count;
  int64_t size[128];
} naive;

static naive naive_of(const sum *s) {
  static char text[128];
  naive n = {.count = operands_of(s)};
  snprintf(text, sizeof text, "%s", s->full ? s->full : s->equation);
  n.out = strstr(text, "->") + 2;
  strstr(text, "->")[0] = 0;
  char *at = text;
  for (int k = 0; k < n.count; ++k) {
    n.term[k] = at;
    for (int i = 0; *at && *at != ','; ++at, ++i) {
      int64_t *size = &n.size[(int)*at], shape = s->in[k].shape[i];
      if (*size <= 1 || shape > 1) *size = shape;
    }
    if (*at) *at++ = 0;
  }
  return n;
}

static double term_value(const sum *s, const naive *n, int k, const int64_t *at) {
  int64_t place = 0;
  for (int i = 0; n->term[k][i]; ++i)
    place = place * s->in[k].shape[i] + (s->in[k].shape[i] == 1 ? 0 : at[(int)n->term[k][i]]);
  return (double)number(k, place);
}

/* Adds up one element of the result for each setting of the letters. */
static void add_up(const sum *s, const naive *n, double *y) {
  char letters[32] = "";
  size_t used = 0;
  for (int k = 0; k < n->count; ++k)
    for (const char *c = n->term[k]; *c; ++c)
      if (!strchr(letters, *c)) letters[used++] = *c, letters[used] = 0;
  int64_t at[128] = {0};
  for (size_t i = 0; i < used; ++i)
    if (n->size[(int)letters[i]] == 0) return;
  for (size_t i = 0;;) {
    double product = 1;
    int64_t place = 0;
    for (int k = 0; k < n->count; ++k) product *= term_value(s, n, k, at);
    for (const char *c = n->out; *c; ++c) place = place * n->size[(int)*c] + at[(int)*c];
    y[place] += product;
    for (i = 0; i < used && ++at[(int)letters[i]] == n->size[(int)letters[i]]; ++i)
      at[(int)letters[i]] = 0;
    if (i == used) return;
  }
}

static void expect_sum(const sum *s, const tn_tensor *y) {
  const naive n = naive_of(s);
  int64_t elements = 1;
  const int rank = (int)strlen(n.out);
  ck_assert_msg(tn_tensor_rank(y) == rank, "%s: rank %d", s->equation, tn_tensor_rank(y));
  for (int i = 0; i < rank; ++i) {
    ck_assert_msg(tn_tensor_shape(y)[i] == n.size[(int)n.out[i]], "%s: axis %d", s->equation, i);
    elements *= n.size[(int)n.out[i]];
  }
  ck_assert_msg(tn_tensor_is_contiguous(y), "%s: strides", s->equation);
  double *want = calloc((size_t)elements + 1, sizeof *want);
  double *got = calloc((size_t)elements + 1, sizeof *got);
  add_up(s, &n, want);
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = TN_F64;
  tn_tensor *wide = NULL;
  ok(tn_cast(NULL, y, &attrs, &wide));
  ok(tn_tensor_to_host(wide, got, (size_t)elements * sizeof *got));
  for (int64_t i = 0; i < elements; ++i)
    ck_assert_msg(got[i] == want[i], "%s: element %d is %g, not %g", s->equation, (int)i, got[i],
                  want[i]);
  tn_tensor_release(wide);
  free(want);
  free(got);
}

START_TEST(sums_are_those_over_all_indexes) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_I64, TN_I32, TN_F16};
  open_device(_i);
  for (int i = 0; i < SUMS; ++i) {
    tn_tensor *in[MOST] = {NULL}, *y = NULL;
    const int count = operands_of(&sums[i]);
    for (int k = 0; k < count; ++k) in[k] = make_operand(&sums[i], k, types[i % 5]);
    ok(tn_einsum(NULL, sums[i].equation, (const tn_tensor *const *)in, (size_t)count, &y));
    expect_sum(&sums[i], y);
    for (int k = 0; k < count; ++k) {
      ck_assert_ptr_ne(y, in[k]);
      tn_tensor_release(in[k]);
    }
    tn_tensor_release(y);
  }
  tn_runtime_close(rt);
}
END_TEST

START_TEST(operands_of_any_strides) {
  open_device(_i);
  const sum s = {"ij,jk->ik", NULL, {{2, {3, 4}}, {2, {4, 5}}}};
  tn_tensor *in[2] = {make_operand(&s, 0, TN_F32), make_operand(&s, 1, TN_F32)}, *y = NULL;
  for (int k = 0; k < 2; ++k) { /* the same numbers, columns first in memory */
    tn_tensor *t = NULL, *rows = NULL;
    ok(tn_tensor_permute(in[k], (int32_t[]){1, 0}, &t));
    ok(tn_tensor_contiguous(NULL, t, &rows));
    tn_tensor_release(t);
    tn_tensor_release(in[k]);
    ok(tn_tensor_permute(rows, (int32_t[]){1, 0}, &in[k]));
    tn_tensor_release(rows);
  }
  ok(tn_einsum(NULL, s.equation, (const tn_tensor *const *)in, 2, &y));
  expect_sum(&s, y);
  tn_tensor_release(y);
  for (int k = 0; k < 2; ++k) tn_tensor_release(in[k]);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(the_result_is_no_view_of_an_operand) {
  open_device(_i);
  const sum s = {"ij->ji", NULL, {{2, {3, 4}}}};
  tn_tensor *x = make_operand(&s, 0, TN_F32), *y = NULL;
  ok(tn_einsum(NULL, s.equation, (const tn_tensor *const[]){x}, 1, &y));
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 100;
  ok(tn_fill(NULL, x, &fill));
  expect_sum(&s, y);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused) {
  rt = open_host_runtime();
  dev = tn_runtime_device(rt);
  const sum s = {"", NULL, {{2, {3, 4}}, {2, {4, 5}}}};
  tn_tensor *a = make_operand(&s, 0, TN_F32), *b = make_operand(&s, 1, TN_F32);
  tn_tensor *wide = make_operand(&s, 1, TN_F64), *y = (tn_tensor *)a;
  const tn_tensor *in[] = {a, b}, *mixed[] = {a, wide}, *none[] = {a, NULL};
  static const struct {
    const char *equation, *words;
  } bad[] = {
      {"ij", "as many terms"},
      {"ij,jk,kl", "as many terms"},
      {"ij,jk->iz", "no operand has z"},
      {"ij,jk->ii", "a letter twice"},
      {"ij,j->i", "operand 1 has 2 axes and subscripts for 1"},
      {"i,jk->i", "operand 0 has 2 axes and subscripts for 1"},
      {"ijk,jk->i", "operand 0 has 2 axes and subscripts for 3"},
      {"ij,ik->jk", "operand 1 has 4 along i where another axis has 3"},
      {"ii,jk->i", "operand 0 has 4 along i where another axis has 3"},
      {"i1,jk->i", "subscripts are letters"},
      {"i.j,jk->i", "subscripts are letters"},
      {"i......,jk->i", "subscripts are letters"},
      {"ij,jk-ik", "subscripts are letters"},
      {"ij,jk->i->k", "subscripts are letters"},
      {"...,...", "\"...\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
    refused(tn_einsum(NULL, bad[i].equation, in, 2, &y), TN_ERR_INVALID_ARGUMENT, bad[i].words);
  refused(tn_einsum(NULL, "ij,jk", mixed, 2, &y), TN_ERR_INVALID_ARGUMENT, "operand 1 is f64");
  refused(tn_einsum(NULL, "ij,jk", none, 2, &y), TN_ERR_INVALID_ARGUMENT, "operand 1 is NULL");
  refused(tn_einsum(NULL, NULL, in, 2, &y), TN_ERR_INVALID_ARGUMENT, "the equation is NULL");
  refused(tn_einsum(NULL, "ij,jk", in, 2, NULL), TN_ERR_INVALID_ARGUMENT, "pointer is NULL");
  refused(tn_einsum(NULL, "", in, 0, &y), TN_ERR_INVALID_ARGUMENT, "1 to 32 operands");
  ck_assert_ptr_eq(y, a); /* untouched */
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(wide);
  tn_runtime_close(rt);
}
END_TEST

/* In a graph the calls become nodes, and the gradient of sum(a b) by a is b summed. */
START_TEST(graphs_record_it_and_gradients_pass) {
  rt = open_host_runtime();
  dev = tn_runtime_device(rt);
  const sum s = {"iij,jk->ik", NULL, {{3, {3, 3, 4}}, {2, {4, 5}}}};
  tn_graph *graph = NULL;
  tn_tensor *a = NULL, *b = NULL, *y = NULL, *total = NULL, *grads[2] = {NULL};
  ok(tn_graph_create(rt, "einsum", &graph));
  ok(tn_graph_input(graph, "a", TN_F32, 3, s.in[0].shape, &a));
  ok(tn_graph_input(graph, "b", TN_F32, 2, s.in[1].shape, &b));
  ok(tn_einsum(NULL, s.equation, (const tn_tensor *const[]){a, b}, 2, &y));
  ok(tn_sum(NULL, y, NULL, &total));
  ok(tn_graph_gradient(graph, total, 2, (tn_tensor *const[]){a, b}, grads));
  ok(tn_graph_output(graph, "y", y));
  ok(tn_graph_output(graph, "da", grads[0]));
  tn_program *program = NULL;
  ok(tn_graph_compile(graph, dev, NULL, &program));
  tn_tensor *in[2] = {make_operand(&s, 0, TN_F32), make_operand(&s, 1, TN_F32)};
  tn_tensor *out[2] = {NULL};
  ok(tn_program_run(program, NULL, 2, (const tn_tensor *const *)in, 2, out));
  expect_sum(&s, out[0]);
  float da[36];
  ok(tn_tensor_to_host(out[1], da, sizeof da));
  for (int i = 0; i < 36; ++i) {
    float want = 0;
    for (int k = 0; k < 5 && i / 12 == i / 4 % 3; ++k) want += (float)number(1, i % 4 * 5 + k);
    ck_assert_msg(da[i] == want, "gradient %d is %g, not %g", i, (double)da[i], (double)want);
  }
  for (int k = 0; k < 2; ++k) {
    tn_tensor_release(in[k]);
    tn_tensor_release(out[k]);
    tn_tensor_release(grads[k]);
  }
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(y);
  tn_tensor_release(total);
  tn_program_destroy(program);
  tn_graph_destroy(graph);
  tn_runtime_close(rt);
}
END_TEST

/* The first call of a runtime, which keeps nothing yet, while request `at` fails, alone or with all
 * behind it. Whether it succeeded. */
static bool survives_shortage(const sum *s, long at, bool once) {
  tn_tensor *in[3], *y = NULL;
  rt = open_scarce();
  dev = tn_runtime_device(rt);
  for (int k = 0; k < 3; ++k) in[k] = make_operand(s, k, TN_F32);
  ok(tn_device_trim(dev));
  scarce_begin(at, once);
  const tn_status status = tn_einsum(NULL, s->equation, (const tn_tensor *const *)in, 3, &y);
  const bool failed = scarce_end();
  ok_or_scarce(status, at);
  if (status == TN_OK) {
    expect_sum(s, y);
    tn_tensor_release(y);
  } else {
    ck_assert_ptr_eq(y, NULL);
  }
  for (int k = 0; k < 3; ++k) tn_tensor_release(in[k]);
  tn_runtime_close(rt);
  return !failed;
}

/* Steps of every kind; nothing is left of a call that fails at any of them. */
START_TEST(a_shortage_leaves_nothing_behind) {
  const sum s = {"iija,ajk,k->ik", NULL, {{4, {3, 3, 4, 2}}, {3, {2, 4, 5}}, {1, {5}}}};
  const bool once = _i;
  long at = 0, live = scarce.live;
  while (at < 1000 && !survives_shortage(&s, at, once)) ++at;
  ck_assert_int_gt(at, 3);
  ck_assert_int_lt(at, 1000);
  ck_assert_int_eq(scarce.live, live);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, sums_are_those_over_all_indexes, 0, EVERY_DEVICE);
  tcase_add_loop_test(tcase, operands_of_any_strides, 0, EVERY_DEVICE);
  tcase_add_loop_test(tcase, the_result_is_no_view_of_an_operand, 0, EVERY_DEVICE);
  tcase_add_test(tcase, what_makes_no_sense_is_refused);
  tcase_add_test(tcase, graphs_record_it_and_gradients_pass);
  tcase_add_loop_test(tcase, a_shortage_leaves_nothing_behind, 0, 2);
}

int main(void) { return run_suite("einsum", add_tests); }
