/* Blocks that the gradient computes again: the same bits from less memory. */
#include <math.h>

#include "tests/gradient/tapes.h"

static void free_all(tn_tensor **t, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    tn_tensor_release(t[i]);
    t[i] = NULL;
  }
}

/* --- a model of blocks --- */

enum { LAYERS = 6, ROWS = 64, WIDTH = 32, PER_LAYER = 3, TENSORS = 1 + LAYERS * PER_LAYER };

/* What a block has of calls: products, views, masks, residuals, updates in place, outputs that were
 * given, lists, and what depends on nothing watched. */
static tn_status layer(tn_tensor *const *w, uint64_t number, tn_tensor **h) {
  const tn_dropout_attrs drop = {
      .struct_size = sizeof drop, .p = 0.25, .seed = 7, .offset = number << 20};
  tn_tensor *n = NULL, *y = NULL, *g = NULL, *flat = NULL, *d = NULL, *scale = NULL,
            *halves[2] = {NULL}, *back = NULL, *joined = NULL, *scaled = NULL, *next = NULL;
  tn_status status = tn_layer_norm(NULL, *h, w[1], w[2], NULL, &n, NULL, NULL);
  if (!status) status = tn_matmul(NULL, n, w[0], NULL, NULL, &y);
  if (!status) status = tn_gelu(NULL, y, NULL, &g);
  if (!status) status = tn_tensor_reshape(g, 1, SHAPE(ROWS * WIDTH), &flat);
  if (!status) status = tn_dropout(NULL, flat, &drop, &d, NULL);
  if (!status) status = tn_exp(NULL, w[2], &scale);
  if (!status) status = tn_tensor_reshape(d, 2, SHAPE(ROWS, WIDTH), &back);
  for (int i = 0; i < 2 && !status; ++i)
    status = tn_tensor_slice(back, 1, i * WIDTH / 2, (i + 1) * WIDTH / 2, 1, &halves[i]);
  if (!status)
    status = tn_concat(NULL, (tn_tensor *const *)halves, 2,
                       &(tn_concat_attrs){sizeof(tn_concat_attrs), 1}, &joined);
  if (!status && number == 0) status = tn_relu(NULL, joined, &joined);
  if (!status) status = tn_mul(NULL, joined, scale, &scaled);
  if (!status) status = tn_add(NULL, scaled, *h, &next);
  RELEASE(n, y, g, flat, d, scale, back, halves[0], halves[1], joined, scaled);
  if (status) return status;
  tn_tensor_release(*h);
  *h = next;
  return TN_OK;
}

static void make_weights(tn_device *on, tn_tensor **w) {
  w[0] = numbers(on, ROWS, WIDTH, 0.25f);
  for (int l = 0; l < LAYERS; ++l) {
    w[1 + l * PER_LAYER] = numbers(on, WIDTH, WIDTH, -1);
    for (int i = 1; i < PER_LAYER; ++i) {
      tn_tensor *row = numbers(on, 1, WIDTH, (float)i / 4 - 1);
      ok(tn_tensor_reshape(row, 1, SHAPE(WIDTH), &w[1 + l * PER_LAYER + i]));
      tn_tensor_release(row);
    }
  }
}

typedef enum way { PLAIN, BLOCKS, ONE_BLOCK, LAST_PLAIN } way;

/* The loss of all layers, each a block where that is wanted. */
static tn_status model(tn_tape *on, tn_tensor *const *w, way how, tn_tensor **loss) {
  tn_tensor *h = w[0];
  tn_status status = TN_OK;
  tn_tensor_retain(h);
  for (int l = 0; l < LAYERS && !status; ++l) {
    if (how == BLOCKS || (how == LAST_PLAIN && l < LAYERS - 1) || (how == ONE_BLOCK && l == 0))
      status = tn_tape_recompute(on, 1);
    else if (how == LAST_PLAIN)
      status = tn_tape_recompute(on, 0);
    if (!status) status = layer(w + 1 + l * PER_LAYER, (uint64_t)l, &h);
  }
  if (how != PLAIN && !status) status = tn_tape_recompute(on, 0);
  tn_tensor *square = NULL;
  if (!status) status = tn_square(NULL, h, &square);
  if (!status) status = tn_sum(NULL, square, NULL, loss);
  RELEASE(h, square);
  return status;
}

static uint64_t in_use(tn_device *on, uint64_t *peak) {
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(on, &stats));
  if (peak) *peak = stats.peak_reserved;
  return stats.in_use;
}

typedef struct step {
  tn_tensor *loss, *by[TENSORS];
  uint64_t kept, peak; /* bytes: of the record, and at most, with all that the allocator held */
} step;

static step take_step(tn_tape *on, tn_device *of, tn_tensor **w, way how, uint32_t flags) {
  step s = {NULL};
  uint64_t before = in_use(of, NULL);
  ok(tn_tape_begin(on));
  ok(model(on, w, how, &s.loss));
  s.kept = in_use(of, NULL) - before;
  ok(tn_tape_gradient(on, NULL, s.loss, NULL, TENSORS, w, s.by, flags));
  ok(tn_tape_end(on));
  (void)in_use(of, &s.peak);
  return s;
}

static void free_step(step *s) {
  tn_tensor_release(s->loss);
  free_all(s->by, TENSORS);
}

static void same_steps(const step *a, const step *b) {
  same(a->loss, b->loss);
  for (int i = 0; i < TENSORS; ++i) same(a->by[i], b->by[i]);
}

/* Each way in a runtime of its own, whose allocator remembers the most that it held. */
START_TEST(same_bits_from_less_memory) {
  step steps[4];
  tn_runtime *runtimes[4];
  for (int how = 0; how < 4; ++how) {
    runtimes[how] = open_host_runtime();
    tn_device *on = tn_runtime_device(runtimes[how]);
    tn_tape *own = NULL;
    tn_tensor *w[TENSORS];
    make_weights(on, w);
    ok(tn_tape_create(runtimes[how], &own));
    for (int i = 0; i < TENSORS; ++i) ok(tn_tape_watch(own, w[i]));
    uint64_t before = in_use(on, NULL);
    steps[how] = take_step(own, on, w, (way)how, 0);
    step second = take_step(own, on, w, (way)how, 0);
    same_steps(&steps[how], &second);
    free_step(&second);
    same_steps(&steps[PLAIN], &steps[how]);
    tn_tape_destroy(own);
    uint64_t of_step = tn_tensor_bytes(steps[how].loss);
    for (int i = 0; i < TENSORS; ++i) of_step += tn_tensor_bytes(steps[how].by[i]);
    ck_assert_uint_le(in_use(on, NULL), before + 2 * of_step); /* nothing more has stayed */
    free_all(w, TENSORS);
  }
  ck_assert_uint_lt(2 * steps[BLOCKS].kept, steps[PLAIN].kept);
  ck_assert_uint_lt(3 * steps[BLOCKS].peak, 2 * steps[PLAIN].peak);
  ck_assert_uint_lt(steps[ONE_BLOCK].kept, steps[BLOCKS].kept);
  ck_assert_uint_gt(steps[LAST_PLAIN].kept, steps[BLOCKS].kept);
  ck_assert_uint_lt(steps[LAST_PLAIN].kept, steps[PLAIN].kept);
  for (int how = 0; how < 4; ++how) {
    free_step(&steps[how]);
    tn_runtime_close(runtimes[how]);
  }
}
END_TEST

START_TEST(with_autocast) {
  tn_tensor *w[TENSORS];
  make_weights(device, w);
  ok(tn_tape_autocast(tape, TN_BF16));
  for (int i = 0; i < TENSORS; ++i) ok(tn_tape_watch(tape, w[i]));
  step plain = take_step(tape, device, w, PLAIN, 0), blocks = take_step(tape, device, w, BLOCKS, 0);
  same_steps(&plain, &blocks);
  ck_assert_uint_lt(blocks.kept, plain.kept);
  free_step(&plain);
  free_step(&blocks);
  free_all(w, TENSORS);
}
END_TEST

/* Another gradient of a record that was kept computes the blocks once more, and keeps nothing. */
START_TEST(several_gradients) {
  tn_tensor *w[TENSORS], *by[TENSORS] = {NULL};
  make_weights(device, w);
  for (int i = 0; i < TENSORS; ++i) ok(tn_tape_watch(tape, w[i]));
  step first = take_step(tape, device, w, BLOCKS, TN_TAPE_KEEP);
  uint64_t before = in_use(device, NULL);
  ok(tn_tape_gradient(tape, NULL, first.loss, NULL, TENSORS, w, by, TN_TAPE_KEEP));
  for (int i = 0; i < TENSORS; ++i) same(by[i], first.by[i]);
  free_all(by, TENSORS);
  ck_assert_uint_eq(in_use(device, NULL), before);
  ok(tn_tape_gradient(tape, NULL, first.loss, NULL, TENSORS, w, by, 0));
  for (int i = 0; i < TENSORS; ++i) same(by[i], first.by[i]);
  free_all(by, TENSORS);
  free_step(&first);
  free_all(w, TENSORS);
}
END_TEST

/* d/dx of the sum of squares of d/dx of sum(exp(x)^2 / (1 + exp(x)^2)), with a block in the middle,
 * or none. */
static void second(bool block, const tn_tensor *at, tn_tensor **dx, tn_tensor **ddx) {
  tn_tensor *x = (tn_tensor *)(uintptr_t)at, *e = NULL, *q = NULL, *t = NULL, *y = NULL, *n = NULL,
            *z = NULL;
  tn_tape *own = NULL;
  ok(tn_tape_create(rt, &own));
  ok(tn_tape_watch(own, x));
  ok(tn_tape_begin(own));
  if (block) ok(tn_tape_recompute(own, 1));
  ok(tn_exp(NULL, x, &e));
  ok(tn_square(NULL, e, &q));
  ok(tn_tanh(NULL, q, &t));
  if (block) ok(tn_tape_recompute(own, 0));
  ok(tn_sum(NULL, t, NULL, &y));
  RELEASE(e, q, t);
  ok(tn_tape_gradient(own, NULL, y, NULL, 1, &x, dx, TN_TAPE_RECORD));
  ok(tn_square(NULL, *dx, &n));
  ok(tn_sum(NULL, n, NULL, &z));
  ok(tn_tape_gradient(own, NULL, z, NULL, 1, &x, ddx, 0));
  ok(tn_tape_end(own));
  RELEASE(y, n, z);
  tn_tape_destroy(own);
}

START_TEST(gradients_of_gradients) {
  tn_tensor *x = numbers(device, 3, 5, -1), *d[2] = {NULL}, *dd[2] = {NULL};
  for (int block = 0; block < 2; ++block) second(block, x, &d[block], &dd[block]);
  same(d[0], d[1]);
  float a[15], b[15];
  ok(tn_tensor_to_host(dd[0], a, sizeof a));
  ok(tn_tensor_to_host(dd[1], b, sizeof b));
  for (int i = 0; i < 15; ++i) ck_assert_float_eq_tol(a[i], b[i], 1e-5f * (1 + fabsf(a[i])));
  RELEASE(x, d[0], d[1], dd[0], dd[1]);
}
END_TEST

/* Of what a block made, the next call may write over it: it is made again. What the block has read
 * may not. */
START_TEST(what_may_be_overwritten) {
  for (int inside = 0; inside < 2; ++inside) {
    tn_tensor *x = numbers(device, 2, 3, 1), *c = numbers(device, 2, 3, 2), *s = NULL, *e = NULL,
              *y = NULL, *dx = NULL;
    ok(tn_tape_watch(tape, x));
    ok(tn_tape_begin(tape));
    ok(tn_tape_recompute(tape, 1));
    ok(tn_add(NULL, x, c, &s));
    ok(tn_exp(NULL, s, &e));
    ok(tn_tape_recompute(tape, 0));
    ok(tn_sum(NULL, e, NULL, &y));
    tn_tensor *over = inside ? e : c;
    ok(tn_square(NULL, over, &over));
    if (inside) {
      tn_tensor *want = NULL;
      ok(tn_exp(NULL, s, &want));
      ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
      same(dx, want);
      tn_tensor_release(want);
    } else {
      refused(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT,
              "(tn_square) has overwritten since");
      ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_add, of a block that is computed again"));
    }
    ok(tn_tape_end(tape));
    RELEASE(x, c, s, e, y, dx);
  }
}
END_TEST

START_TEST(misuse_is_refused) {
  tn_tape *other = NULL;
  ok(tn_tape_create(rt, &other));
  refused(tn_tape_recompute(NULL, 1), TN_ERR_INVALID_ARGUMENT, "tn_tape_recompute: tape is NULL");
  refused(tn_tape_recompute(tape, 1), TN_ERR_INVALID_ARGUMENT, "not recording");
  ok(tn_tape_begin(tape));
  refused(tn_tape_recompute(other, 1), TN_ERR_INVALID_ARGUMENT, "not recording");
  ok(tn_tape_end(tape));
  tn_tape_destroy(other);
}
END_TEST

/* A block of parts of a step: a failure says so, and the next step has all gradients. */
static tn_status small_step(tn_tape *own, tn_tensor *x, tn_tensor **dx) {
  tn_tensor *e = NULL, *n = NULL, *p = NULL, *y = NULL;
  tn_status status = tn_tape_recompute(own, 1);
  if (!status) status = tn_exp(NULL, x, &e);
  if (!status) status = tn_layer_norm(NULL, e, NULL, NULL, NULL, &n, NULL, NULL);
  if (!status) status = tn_mul(NULL, n, e, &p);
  RELEASE(e, n);
  if (!status) status = tn_tape_recompute(own, 0);
  if (!status) status = tn_sum(NULL, p, NULL, &y);
  if (!status) status = tn_tape_gradient(own, NULL, y, NULL, 1, &x, dx, 0);
  RELEASE(p, y);
  return status;
}

START_TEST(with_no_memory) { survives_shortage(small_step); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup_tape, teardown_tape);
  tcase_add_test(tcase, same_bits_from_less_memory);
  tcase_add_test(tcase, with_autocast);
  tcase_add_test(tcase, several_gradients);
  tcase_add_test(tcase, gradients_of_gradients);
  tcase_add_test(tcase, what_may_be_overwritten);
  tcase_add_test(tcase, misuse_is_refused);
  tcase_add_test(tcase, with_no_memory);
}

int main(void) { return run_suite("gradient_tape_recompute", add_tests); }
