/*
 * Gradients of chains of calls made up at random: views of views, updates in place through any of
 * them, tensors that are used before and after, against differences of the same program.
 */
#include "tests/gradient/functions.h"

enum { TENSORS = 14, STEPS = 18, CHAINS = 500, HIGHER = 60, TAPES = 300 };

/* The tensors that a chain has, and its random numbers. */
typedef struct chain {
  tn_tensor *tensors[TENSORS];
  int count;
  uint64_t state;
} chain;

static uint32_t below(chain *c, uint32_t n) {
  return (uint32_t)(number_at(c->state++) * (double)n);
}
static tn_tensor *any(chain *c) { return c->tensors[below(c, (uint32_t)c->count)]; }

static void keep(chain *c, tn_tensor *t) {
  if (!t || tn_tensor_elements(t) > 256) {
    tn_tensor_release(t);
    return;
  }
  if (c->count < TENSORS) {
    c->tensors[c->count++] = t;
    return;
  }
  tn_tensor **place = &c->tensors[2 + below(c, TENSORS - 2)];
  tn_tensor_release(*place);
  *place = t;
}

/* What does not fit is refused and changes nothing. */
static tn_tensor *view(chain *c) {
  const tn_tensor *t = any(c);
  const int32_t rank = tn_tensor_rank(t);
  const int64_t *shape = tn_tensor_shape(t);
  tn_tensor *v = NULL;
  if (rank == 0) return NULL;
  const int32_t axis = (int32_t)below(c, (uint32_t)rank);
  const int64_t begin = below(c, (uint32_t)shape[axis] + 1);
  switch (below(c, 5)) {
  case 0:
    tn_tensor_permute(t, rank == 2 ? (int32_t[]){1, 0} : (int32_t[]){0}, &v);
    break;
  case 1:
    tn_tensor_slice(t, axis, begin, shape[axis], 1 + below(c, 2), &v);
    break;
  case 2:
    tn_tensor_select(t, axis, begin, &v);
    break;
  case 3:
    tn_tensor_expand(t, 2, SHAPE(4, shape[rank - 1]), &v);
    break;
  default:
    tn_tensor_reshape(t, 1, SHAPE(-1), &v);
  }
  return v;
}

static tn_tensor *made(chain *c) {
  const tn_tensor *a = any(c), *b = any(c);
  tn_tensor *y = NULL;
  switch (below(c, 6)) {
  case 0:
    tn_sin(NULL, a, &y);
    break;
  case 1:
    tn_copy(NULL, a, &y);
    break;
  case 2:
    tn_add(NULL, a, b, &y);
    break;
  case 3:
    tn_mul(NULL, a, b, &y);
    break;
  case 4:
    tn_sigmoid(NULL, a, &y);
    break;
  default:
    tn_sum(NULL, a, NULL, &y);
  }
  return y;
}

static void update(chain *c) {
  const tn_fill_attrs half = {sizeof half, 0.5};
  tn_tensor *y = any(c);
  const tn_tensor *a = any(c), *b = any(c);
  switch (below(c, 7)) {
  case 0:
    tn_add(NULL, y, a, &y);
    break;
  case 1:
    tn_sub(NULL, a, y, &y);
    break;
  case 2:
    tn_mul(NULL, y, b, &y);
    break;
  case 3:
    tn_sin(NULL, a, &y);
    break;
  case 4:
    tn_copy(NULL, a, &y);
    break;
  case 5:
    tn_tanh(NULL, y, &y);
    break;
  default:
    tn_fill(NULL, y, &half);
  }
}

static tn_tensor *random_chain(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                               uint64_t seed) {
  chain c = {.state = seed * 100000, .count = 4};
  const double constant[4] = {0.1, 0.2, 0.3, 0.4};
  tn_tensor *loss = NULL, *fixed = NULL;
  ok(tn_copy(NULL, x, &c.tensors[0]));
  ok(tn_copy(NULL, w, &c.tensors[1]));
  ok(tn_exp(NULL, x, &c.tensors[2]));
  ok(tn_tensor_from_host(on, TN_F64, 1, SHAPE(4), constant, &fixed));
  ok(tn_copy(NULL, fixed, &c.tensors[3])); /* which may be updated, as the others */
  tn_tensor_release(fixed);
  for (int i = 0; i < STEPS; ++i) {
    const uint32_t what = below(&c, 5);
    if (what < 2)
      keep(&c, view(&c));
    else if (what < 4)
      keep(&c, made(&c));
    else
      update(&c);
  }
  for (int i = 0; i < c.count; ++i) {
    add_to(&loss, weighted_sum(on, c.tensors[i], (uint64_t)i));
    tn_tensor_release(c.tensors[i]);
  }
  return loss;
}

/* Few chains overwrite what a rule needs; most of the others must say something. */
static void chains_hold(int order, uint64_t first, int count) {
  int compared = 0, overwritten = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)count; ++seed) {
    differentiated d = differentiate(random_chain, seed, order);
    if (d.status)
      ck_assert_msg(strstr(tn_last_error(), "has overwritten since"), "seed %llu: %s",
                    (unsigned long long)seed, tn_last_error());
    overwritten += d.status != TN_OK;
    if (!d.status) compared += gradient_holds(&d, seed);
    differentiated_free(&d);
  }
  printf("order %d: %d chains, %d compared, %d overwrite what is needed\n", order, count, compared,
         overwritten);
  ck_assert_int_ge(compared, count / 3);
}

/* The same calls on real tensors, on a tape: gradients as the graph's, and refused where they are.
 */
static bool tape_agrees(const differentiated *d, uint64_t seed) {
  const double none[X_SIZE + W_SIZE] = {0};
  double want[X_SIZE + W_SIZE], got[X_SIZE + W_SIZE] = {0}, size = 0;
  tn_tensor *in[2] = {NULL}, *dx[2] = {NULL}, *loss = NULL;
  tn_tape *tape = NULL;
  ok(tn_tensor_from_host(device, TN_F64, 2, SHAPE(4, 4), d->numbers, &in[0]));
  ok(tn_tensor_from_host(device, TN_F64, 1, SHAPE(4), d->numbers + X_SIZE, &in[1]));
  ok(tn_tape_create(rt, &tape));
  for (int i = 0; i < 2; ++i) ok(tn_tape_watch(tape, in[i]));
  ok(tn_tape_begin(tape));
  loss = random_chain(device, in[0], in[1], seed);
  const tn_status status = tn_tape_gradient(tape, NULL, loss, NULL, 2, in, dx, 0);
  ok(tn_tape_end(tape));
  ck_assert_msg(!status == !d->status, "seed %llu: %s", (unsigned long long)seed, tn_last_error());
  if (!status) {
    loss_at(d, none, 0, want);
    if (dx[0]) ok(tn_tensor_to_host(dx[0], got, X_SIZE * sizeof *got));
    if (dx[1]) ok(tn_tensor_to_host(dx[1], got + X_SIZE, W_SIZE * sizeof *got));
    for (int i = 0; i < X_SIZE + W_SIZE; ++i) size = fmax(size, fabs(want[i]));
    for (int i = 0; i < X_SIZE + W_SIZE; ++i)
      ck_assert_msg(fabs(got[i] - want[i]) <= 1e-12 * size || size > 1e12,
                    "seed %llu, element %d: %.15g on a tape, %.15g of a graph",
                    (unsigned long long)seed, i, got[i], want[i]);
  }
  tn_tape_destroy(tape);
  RELEASE(in[0], in[1], dx[0], dx[1], loss);
  return status == TN_OK;
}

START_TEST(on_tapes) {
  int agreed = 0;
  for (uint64_t seed = 3000; seed < 3000 + TAPES; ++seed) {
    differentiated d = differentiate(random_chain, seed, 1);
    agreed += tape_agrees(&d, seed);
    differentiated_free(&d);
  }
  ck_assert_int_ge(agreed, TAPES / 3);
}
END_TEST

START_TEST(first_order) { chains_hold(1, 1, CHAINS); }
END_TEST

START_TEST(second_order) { chains_hold(2, 1000, HIGHER); }
END_TEST

START_TEST(third_order) { chains_hold(3, 2000, HIGHER); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, first_order);
  tcase_add_test(tcase, second_order);
  tcase_add_test(tcase, third_order);
  tcase_add_test(tcase, on_tapes);
}

int main(void) { return run_suite("gradient chains", add_tests); }
