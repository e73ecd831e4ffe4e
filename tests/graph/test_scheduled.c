/*
 * What programs may not compute again or move: what reads memory that is written in between. Then
 * graphs by chance, against the same nodes run as they were called.
 */
#include "steps.h"

enum { RUNS = 3 };

/* --- what must not be computed again --- */

enum {
  NOTHING,
  A_PARAMETER, /* what it is computed from is updated */
  A_COPY,      /* and is no parameter */
  ITSELF,      /* it is updated */
  A_COUNTER,   /* where it draws from moves on */
  CHANGES
};

/* `y`, cheap, is read at both ends of a graph that needs much memory in between; `what` is written
 * meanwhile. */
static void add_middle(const tn_tensor *x, tn_tensor **sum) {
  tn_tensor *a = NULL, *b = NULL, *c = NULL, *d = NULL;
  ok(tn_exp(NULL, x, &a));
  ok(tn_sin(NULL, x, &b));
  ok(tn_cos(NULL, x, &c));
  tn_tensor *const all[] = {a, b, c, a};
  ok(tn_concat(NULL, all, 4, NULL, &d));
  ok(tn_sum(NULL, d, NULL, sum));
  RELEASE(a, b, c, d);
}

static void add_cheap(int change, const tn_tensor *w, const tn_tensor *counter, tn_tensor **from,
                      tn_tensor **y) {
  tn_dropout_attrs drop = TN_DROPOUT_DEFAULTS;
  tn_tensor *mask = NULL;
  drop.offset_from = counter;
  if (change == A_COPY) ok(tn_copy(NULL, w, from));
  if (change == A_COUNTER)
    ok(tn_dropout(NULL, w, &drop, y, &mask));
  else
    ok(tn_relu(NULL, *from ? *from : w, y));
  tn_tensor_release(mask);
}

static tn_graph *changing(int change, tn_tensor *w_value, tn_tensor *counter_value) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 128, 128), *w = NULL, *counter = NULL, *from = NULL, *y = NULL;
  tn_tensor *early = NULL, *middle = NULL, *late = NULL, *one = NULL, *step = NULL;
  ok(tn_graph_parameter(g, "w", w_value, &w));
  ok(tn_graph_parameter(g, "counter", counter_value, &counter));
  add_cheap(change, w, counter, &from, &y);
  ok(tn_scalar(tn_graph_device(g), NULL, TN_F32, 0.25, &one));
  ok(tn_scalar(tn_graph_device(g), NULL, TN_I64, 128 * 128, &step));
  ok(tn_mean(NULL, y, NULL, &early));
  if (change == A_PARAMETER) ok(tn_sub(NULL, w, one, &w));
  if (change == A_COPY) ok(tn_sub(NULL, from, one, &from));
  if (change == ITSELF) ok(tn_sub(NULL, y, one, &y));
  if (change == A_COUNTER) ok(tn_add(NULL, counter, step, &counter));
  add_middle(x, &middle);
  ok(tn_sum(NULL, y, NULL, &late));
  tn_tensor *const out[] = {early, middle, late};
  for (int i = 0; i < 3; ++i) ok(tn_graph_output(g, name('y', i), out[i]));
  if (from) ok(tn_graph_output(g, "from", from));
  RELEASE(x, w, counter, from, y, early, middle, late, one, step);
  return g;
}

START_TEST(changes_between) {
  const int change = _i % CHANGES;
  const uint32_t flags = _i < CHANGES ? TN_COMPILE_NO_REORDERING : 0;
  tn_tensor *w[2], *counter[2], *x = numbers(device, 128, 128, -1);
  tn_program *p[2];
  for (int i = 0; i < 2; ++i) {
    w[i] = numbers(device, 128, 128, -1);
    ok(tn_zeros(device, NULL, TN_I64, 0, NULL, &counter[i]));
    tn_graph *g = changing(change, w[i], counter[i]);
    p[i] = compiled_for(g, device, i ? TN_COMPILE_AS_CALLED : flags, 100);
    tn_graph_destroy(g);
  }
  /* Without a change it is. In another order there is nothing to gain. */
  ck_assert_uint_eq(report(p[0]).recomputed, change == NOTHING && flags != 0);
  for (int run = 0; run < RUNS; ++run) {
    enum { MOST = 4 };
    const size_t num_out = change == A_COPY ? 4 : 3;
    tn_tensor *out[2][MOST] = {{NULL}};
    for (int i = 0; i < 2; ++i)
      ok(tn_program_run(p[i], NULL, 1, (const tn_tensor *[]){x}, num_out, out[i]));
    for (size_t i = 0; i < num_out; ++i) {
      same(out[0][i], out[1][i]);
      RELEASE(out[0][i], out[1][i]);
    }
    same(w[0], w[1]);
    same(counter[0], counter[1]);
  }
  for (int i = 0; i < 2; ++i) {
    tn_program_destroy(p[i]);
    RELEASE(w[i], counter[i]);
  }
  tn_tensor_release(x);
}
END_TEST

/* Two parameters of one memory: a sum of one after a step of the other stays behind it, however
 * early that runs. */
START_TEST(parameters_of_one_memory) {
  tn_tensor *x = numbers(device, 96, 96, 1), *w[2], *sums[2], *out[2] = {NULL, NULL};
  tn_program *p[2];
  for (int i = 0; i < 2; ++i) {
    tn_graph *g = make_graph();
    tn_tensor *in = input(g, "x", 96, 96), *a = NULL, *b = NULL, *grad = NULL, *more = NULL;
    tn_tensor *seen = NULL, *sum = NULL, *m = NULL;
    w[i] = numbers(device, 96, 96, -1);
    ok(tn_zeros_like(NULL, w[i], &sums[i]));
    ok(tn_graph_parameter(g, "a", w[i], &a));
    ok(tn_graph_parameter(g, "b", w[i], &b));
    ok(tn_graph_parameter(g, "m", sums[i], &m));
    ok(tn_matmul(NULL, in, a, NULL, NULL, &grad));
    add_middle(in, &more);
    ok(tn_multi_adagrad(NULL, &grad, &a, &m, 1, NULL));
    ok(tn_sum(NULL, b, NULL, &seen));
    ok(tn_add(NULL, seen, more, &sum));
    ok(tn_graph_output(g, "sum", sum));
    p[i] = compiled_for(g, device, i ? TN_COMPILE_AS_CALLED : TN_COMPILE_NO_RECOMPUTING, 0);
    tn_graph_destroy(g);
    RELEASE(in, a, b, m, grad, more, seen, sum);
  }
  ck_assert_uint_lt(report(p[0]).planned_bytes, report(p[1]).planned_bytes);
  for (int run = 0; run < RUNS; ++run) {
    for (int i = 0; i < 2; ++i)
      ok(tn_program_run(p[i], NULL, 1, (const tn_tensor *[]){x}, 1, &out[i]));
    same(out[0], out[1]);
    same(w[0], w[1]);
  }
  for (int i = 0; i < 2; ++i) {
    tn_program_destroy(p[i]);
    RELEASE(w[i], sums[i], out[i]);
  }
  tn_tensor_release(x);
}
END_TEST

/* --- graphs by chance --- */

enum { TENSORS = 40, SIDE = 64, NODES = 45 };

/* One thread makes and plans them. */
#ifdef __SANITIZE_THREAD__
enum { GRAPHS = 20 };
#else
enum { GRAPHS = 120 };
#endif

typedef struct dice {
  uint64_t state;
} dice;

static uint32_t draw(dice *d, uint32_t below) {
  d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(d->state >> 33) % below;
}

/* Tensors of the graph, of which the first five are two inputs and three parameters. */
typedef struct chance {
  tn_tensor *at[TENSORS];
  uint32_t count;
  bool made[TENSORS]; /* may be written to */
} chance;

static tn_tensor *any(dice *d, const chance *c) { return c->at[draw(d, c->count)]; }

static void keep(chance *c, tn_tensor *t, bool made) {
  if (c->count == TENSORS) { /* in place of one that is no input */
    uint32_t old = TENSORS - 8;
    tn_tensor_release(c->at[old]);
    c->at[old] = t;
    c->made[old] = made;
    return;
  }
  c->made[c->count] = made;
  c->at[c->count++] = t;
}

static void write_somewhere(dice *d, chance *c) {
  uint32_t to = draw(d, c->count);
  tn_tensor *from = any(d, c), *copy = NULL;
  if (!c->made[to]) return;
  ok(tn_copy(NULL, from, &copy));
  ok(tn_sub(NULL, c->at[to], copy, &c->at[to]));
  tn_tensor_release(copy);
}

static void add_node(dice *d, chance *c, int k) {
  tn_tensor *a = any(d, c), *b = any(d, c), *y = NULL, *mask = NULL;
  tn_dropout_attrs drop = TN_DROPOUT_DEFAULTS;
  drop.offset = (uint64_t)k * SIDE * SIDE;
  switch (draw(d, 11)) {
  case 0:
    ok(tn_relu(NULL, a, &y));
    break;
  case 1:
    ok(tn_tanh(NULL, a, &y));
    break;
  case 2:
    ok(tn_add(NULL, a, b, &y));
    break;
  case 3:
    ok(tn_mul(NULL, a, b, &y));
    break;
  case 4:
    ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
    break;
  case 5:
    ok(tn_softmax(NULL, a, NULL, &y));
    break;
  case 6:
    ok(tn_dropout(NULL, a, &drop, &y, &mask));
    break;
  case 7:
    ok(tn_tensor_permute(a, (int32_t[]){1, 0}, &y));
    keep(c, y, false); /* what it shows may be written */
    return;
  case 8:
    ok(tn_copy(NULL, a, &y));
    break;
  case 9:
    ok(tn_copy(NULL, a, &y));
    ok(tn_sgd_step(NULL, y, c->at[2], c->at[4], NULL));
    break;
  default:
    write_somewhere(d, c);
    return;
  }
  tn_tensor_release(mask);
  keep(c, y, true);
}

static tn_program *by_chance(uint64_t seed, tn_tensor *const real[3], uint32_t flags) {
  dice d = {seed * 77 + 5};
  chance c = {.count = 0};
  tn_graph *g = make_graph();
  tn_tensor *t = NULL;
  for (int i = 0; i < 2; ++i) keep(&c, input(g, name('x', i), SIDE, SIDE), false);
  for (int i = 0; i < 3; ++i) {
    ok(tn_graph_parameter(g, name('w', i), real[i], &t));
    keep(&c, t, i == 1);
  }
  for (int k = 0; k < NODES; ++k) add_node(&d, &c, k);
  for (uint32_t i = 5; i < c.count; i += 3) {
    tn_tensor *sum = NULL;
    ok(tn_sum(NULL, c.at[i], NULL, &sum));
    ok(tn_add(NULL, c.at[3], sum, &c.at[3])); /* so that it is needed */
    tn_tensor_release(sum);
  }
  for (int i = 0; i < 3; ++i) ok(tn_graph_output(g, name('y', i), c.at[c.count - 1 - (uint32_t)i]));
  tn_program *p = compiled_for(g, device, flags, 100);
  for (uint32_t i = 0; i < c.count; ++i) tn_tensor_release(c.at[i]);
  tn_graph_destroy(g);
  return p;
}

START_TEST(any_graph) {
  tn_tensor *x[2] = {numbers(device, SIDE, SIDE, -1), numbers(device, SIDE, SIDE, -2)};
  uint64_t recomputed = 0, less = 0;
  for (uint64_t seed = 0; seed < GRAPHS; ++seed) {
    tn_tensor *w[2][3];
    tn_program *p[2];
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 3; ++k) w[i][k] = numbers(device, SIDE, SIDE, (float)k - 1);
      p[i] = by_chance(seed, w[i], i ? TN_COMPILE_AS_CALLED : TN_COMPILE_NO_FUSION);
    }
    recomputed += report(p[0]).recomputed;
    less += report(p[0]).planned_bytes < report(p[1]).planned_bytes;
    for (int run = 0; run < 2; ++run) {
      tn_tensor *out[2][3] = {{NULL}};
      for (int i = 0; i < 2; ++i)
        ok(tn_program_run(p[i], NULL, 2, (const tn_tensor *const *)x, 3, out[i]));
      for (int k = 0; k < 3; ++k) {
        same(out[0][k], out[1][k]);
        RELEASE(out[0][k], out[1][k]);
      }
      for (int k = 0; k < 3; ++k) same(w[0][k], w[1][k]);
    }
    for (int i = 0; i < 2; ++i) {
      tn_program_destroy(p[i]);
      RELEASE(w[i][0], w[i][1], w[i][2]);
    }
  }
  ck_assert_uint_gt(recomputed, GRAPHS / 2);
  ck_assert_uint_gt(less, GRAPHS / 4);
  RELEASE(x[0], x[1]);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, changes_between, 0, 2 * CHANGES);
  tcase_add_test(tcase, parameters_of_one_memory);
  tcase_add_test(tcase, any_graph);
}

int main(void) { return run_suite("scheduled", add_tests); }
