/*
 * Numbers that a graph's calls read from the device's memory: a training step recorded once counts
 * its steps, follows its schedule, draws new masks and skips what overflowed, as the calls do.
 */
#include "tenon/plugin.h"
#include "tests/graph/graphs.h"

enum { RUNS = 100 };

static tn_tensor *real_scalar(tn_dtype dtype, const void *value) {
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, dtype, 0, NULL, value, &t));
  return t;
}

static double rate_of(int64_t step) { return 0.01 * (double)(step + 1) / (double)(step + 7); }

/* A step of Adam that counts itself: the graph's form and the calls'. */
typedef struct state {
  tn_tensor *param, *m, *v, *step, *lr;
} state;

static state state_make(void) {
  return (state){numbers(device, 4, 3, 0.5f), numbers(device, 4, 3, 0), numbers(device, 4, 3, 1),
                 real_scalar(TN_I64, &(int64_t){0}), real_scalar(TN_F64, &(double){0})};
}
static void state_free(const state *s) { RELEASE(s->param, s->m, s->v, s->step, s->lr); }
static void same_state(const state *a, const state *b) {
  same(a->param, b->param);
  same(a->m, b->m);
  same(a->v, b->v);
}

static void parameters_of(tn_graph *g, const state *real, state *s) {
  ok(tn_graph_parameter(g, "param", real->param, &s->param));
  ok(tn_graph_parameter(g, "m", real->m, &s->m));
  ok(tn_graph_parameter(g, "v", real->v, &s->v));
  ok(tn_graph_parameter(g, "step", real->step, &s->step));
  ok(tn_graph_parameter(g, "lr", real->lr, &s->lr));
}

/* found: NULL, or what says that the step is to be skipped. */
static void step(tn_device *on, const state *s, const tn_tensor *grad, const tn_tensor *found) {
  tn_tensor *one = NULL, *good = NULL, *counts = NULL;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  tn_adam_step_attrs adam = TN_ADAM_STEP_DEFAULTS;
  cast.dtype = TN_I64;
  if (found) {
    ok(tn_logical_not(NULL, found, &good));
    ok(tn_cast(NULL, good, &cast, &counts));
  } else {
    ok(tn_scalar(on, NULL, TN_I64, 1, &one));
  }
  tn_tensor *count = s->step;
  ok(tn_add(NULL, count, found ? counts : one, &count));
  adam.lr_from = s->lr, adam.step_from = s->step, adam.skip_if = found;
  ok(tn_adam_step(NULL, grad, s->param, s->m, s->v, &adam));
  RELEASE(one, good, counts);
}

START_TEST(adam_counts_and_follows_the_schedule) {
  state real = state_make(), eager = state_make(), s;
  tn_graph *g = make_graph();
  tn_tensor *grad = input(g, "grad", 4, 3);
  parameters_of(g, &real, &s);
  step(tn_graph_device(g), &s, grad, NULL);
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).fallbacks, 0);
  for (int64_t k = 1; k <= RUNS; ++k) {
    tn_tensor *real_grad = numbers(device, 4, 3, (float)(k % 5) - 2);
    double lr = rate_of(k);
    tn_adam_step_attrs adam = TN_ADAM_STEP_DEFAULTS;
    ok(tn_tensor_write(NULL, real.lr, &lr, sizeof lr));
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real_grad}, 0, NULL));
    adam.lr = lr, adam.step = k;
    ok(tn_adam_step(NULL, real_grad, eager.param, eager.m, eager.v, &adam));
    same_state(&real, &eager);
    tn_tensor_release(real_grad);
  }
  int64_t count = 0;
  ok(tn_tensor_to_host(real.step, &count, sizeof count));
  ck_assert_int_eq(count, RUNS);
  tn_tensor_release(grad);
  state_free(&s), state_free(&real), state_free(&eager);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* The rate as an input of each run, of a graph whose optimiser works on lists. */
START_TEST(the_rate_is_an_input) {
  tn_graph *g = make_graph();
  tn_tensor *lr = NULL, *symbol[2], *real[2], *eager[2], *velocity[2], *kept[2], *seen[2], *grad[2];
  const char *const names[2][3] = {{"g0", "p0", "v0"}, {"g1", "p1", "v1"}};
  tn_multi_sgd_attrs sgd = TN_MULTI_SGD_DEFAULTS;
  ok(tn_graph_input(g, "lr", TN_F32, 0, NULL, &lr));
  for (int i = 0; i < 2; ++i) {
    real[i] = numbers(device, 2, i + 1, 1), eager[i] = numbers(device, 2, i + 1, 1);
    velocity[i] = numbers(device, 2, i + 1, 0), kept[i] = numbers(device, 2, i + 1, 0);
    grad[i] = input(g, names[i][0], 2, i + 1);
    ok(tn_graph_parameter(g, names[i][1], real[i], &symbol[i]));
    ok(tn_graph_parameter(g, names[i][2], velocity[i], &seen[i]));
  }
  sgd.lr_from = lr, sgd.momentum = 0.75;
  ok(tn_multi_sgd(NULL, grad, symbol, seen, 2, &sgd));
  tn_program *p = compiled(g);
  for (int run = 0; run < 5; ++run) {
    float rate = 0.125f * (float)(run + 1);
    tn_tensor *now = real_scalar(TN_F32, &rate), *grads[2];
    for (int i = 0; i < 2; ++i) grads[i] = numbers(device, 2, i + 1, (float)run);
    ok(tn_program_run(p, NULL, 3, (const tn_tensor *[]){now, grads[0], grads[1]}, 0, NULL));
    sgd.lr_from = NULL, sgd.lr = rate;
    ok(tn_multi_sgd(NULL, grads, eager, kept, 2, &sgd));
    for (int i = 0; i < 2; ++i) same(real[i], eager[i]), same(velocity[i], kept[i]);
    RELEASE(now, grads[0], grads[1]);
  }
  for (int i = 0; i < 2; ++i)
    RELEASE(symbol[i], real[i], eager[i], velocity[i], kept[i], seen[i], grad[i]);
  tn_tensor_release(lr);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(a_skipped_step_changes_nothing) {
  state real = state_make(), eager = state_make(), s;
  tn_graph *g = make_graph();
  tn_tensor *grad = input(g, "grad", 4, 3), *found = NULL;
  ok(tn_graph_input(g, "found_inf", TN_BOOL, 0, NULL, &found));
  parameters_of(g, &real, &s);
  step(tn_graph_device(g), &s, grad, found);
  tn_program *p = compiled(g);
  double lr = 0.25;
  ok(tn_tensor_write(NULL, real.lr, &lr, sizeof lr));
  int64_t good = 0, count = -1;
  for (int run = 0; run < 12; ++run) {
    uint8_t inf = run % 3 == 1;
    tn_tensor *flag = real_scalar(TN_BOOL, &inf), *real_grad = numbers(device, 4, 3, (float)run);
    ok(tn_program_run(p, NULL, 2, (const tn_tensor *[]){real_grad, flag}, 0, NULL));
    tn_adam_step_attrs adam = TN_ADAM_STEP_DEFAULTS;
    adam.lr = lr, adam.step = good += !inf;
    if (!inf) ok(tn_adam_step(NULL, real_grad, eager.param, eager.m, eager.v, &adam));
    same_state(&real, &eager);
    ok(tn_tensor_to_host(real.step, &count, sizeof count));
    ck_assert_int_eq(count, good);
    RELEASE(flag, real_grad);
  }
  RELEASE(grad, found);
  state_free(&s), state_free(&real), state_free(&eager);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Two masks in one run, drawn from one counter that the graph moves on itself. */
START_TEST(masks_are_drawn_on) {
  enum { COUNTERS = 2 * 15 };
  const int64_t start = 1000;
  tn_graph *g = make_graph();
  tn_tensor *real_offset = real_scalar(TN_I64, &start), *offset = NULL, *x = input(g, "x", 12, 5);
  tn_tensor *y[2] = {NULL, NULL}, *mask[2] = {NULL, NULL}, *steps = NULL;
  ok(tn_graph_parameter(g, "offset", real_offset, &offset));
  tn_dropout_attrs a = TN_DROPOUT_DEFAULTS;
  a.seed = 9, a.offset_from = offset;
  for (int i = 0; i < 2; ++i, a.offset += COUNTERS / 2)
    ok(tn_dropout(NULL, x, &a, &y[i], &mask[i]));
  ok(tn_scalar(tn_graph_device(g), NULL, TN_I64, COUNTERS, &steps));
  tn_tensor *moved = offset;
  ok(tn_add(NULL, offset, steps, &moved));
  ok(tn_graph_output(g, "y0", y[0]));
  ok(tn_graph_output(g, "y1", y[1]));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 12, 5, 1), *before = NULL;
  for (int run = 0; run < 6; ++run) {
    tn_tensor *out[2] = {NULL, NULL};
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 2, out));
    for (int i = 0; i < 2; ++i) {
      tn_dropout_attrs plain = TN_DROPOUT_DEFAULTS;
      tn_tensor *want = NULL, *kept = NULL;
      plain.seed = 9;
      plain.offset = (uint64_t)(start + (2 * run + i) * (COUNTERS / 2));
      ok(tn_dropout(NULL, in, &plain, &want, &kept));
      same(out[i], want);
      RELEASE(want, kept);
    }
    float now[60], then[60];
    ok(tn_tensor_to_host(out[0], now, sizeof now));
    if (before) ok(tn_tensor_to_host(before, then, sizeof then));
    ck_assert(!before || memcmp(now, then, sizeof now) != 0);
    RELEASE(before, out[1]);
    before = out[0];
  }
  RELEASE(real_offset, offset, x, y[0], y[1], mask[0], mask[1], steps, in, before);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* The gradient goes by the mask of its run. */
START_TEST(gradients_of_what_was_dropped) {
  tn_graph *g = make_graph();
  tn_tensor *real_offset = real_scalar(TN_I64, &(int64_t){5}), *offset = NULL, *dx = NULL;
  tn_tensor *x = input(g, "x", 12, 5), *y = NULL, *mask = NULL, *loss = NULL;
  ok(tn_graph_parameter(g, "offset", real_offset, &offset));
  tn_dropout_attrs a = TN_DROPOUT_DEFAULTS;
  a.offset_from = offset;
  ok(tn_dropout(NULL, x, &a, &y, &mask));
  ok(tn_sum(NULL, y, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  ok(tn_graph_output(g, "dx", dx));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 12, 5, 1);
  for (int64_t start = 5; start < 1000; start += 333) {
    tn_tensor *out = NULL, *ones = NULL, *want = NULL, *kept = NULL, *dropped = NULL;
    tn_dropout_attrs plain = TN_DROPOUT_DEFAULTS;
    plain.offset = (uint64_t)start;
    ok(tn_tensor_write(NULL, real_offset, &start, sizeof start));
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out));
    ok(tn_dropout(NULL, in, &plain, &dropped, &kept));
    ok(tn_ones_like(NULL, in, &ones));
    ok(tn_dropout_grad(NULL, ones, kept, NULL, &want));
    same(out, want);
    RELEASE(out, ones, want, kept, dropped);
  }
  RELEASE(real_offset, offset, dx, x, y, mask, loss, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* What is computed again draws from where it drew. */
START_TEST(masks_are_drawn_again) {
  tn_graph *g = make_graph();
  tn_tensor *real_offset = real_scalar(TN_I64, &(int64_t){77}), *offset = NULL, *dx = NULL;
  tn_tensor *x = input(g, "x", 12, 5), *y = NULL, *mask = NULL, *square = NULL, *loss = NULL;
  ok(tn_graph_parameter(g, "offset", real_offset, &offset));
  tn_dropout_attrs a = TN_DROPOUT_DEFAULTS;
  a.offset = 3, a.offset_from = offset;
  ok(tn_dropout(NULL, x, &a, &y, &mask));
  ok(tn_graph_recompute(g, y));
  ok(tn_graph_recompute(g, mask));
  ok(tn_mul(NULL, y, y, &square));
  ok(tn_sum(NULL, square, NULL, &loss));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  ok(tn_graph_output(g, "dx", dx));
  uint32_t dropouts = 0;
  for (size_t k = 0; k < tn_graph_num_nodes(g); ++k) {
    tn_graph_node node = {.struct_size = sizeof node};
    ok(tn_graph_node_at(g, k, &node));
    dropouts += node.op->id == TN_OP_DROPOUT && node.num_from == 2;
  }
  ck_assert_uint_eq(dropouts, 2);
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 12, 5, 1), *out = NULL, *want = NULL, *kept = NULL, *twice = NULL;
  tn_tensor *dropped = NULL;
  tn_dropout_attrs plain = TN_DROPOUT_DEFAULTS;
  plain.offset = 80;
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out));
  ok(tn_dropout(NULL, in, &plain, &dropped, &kept));
  ok(tn_add(NULL, dropped, dropped, &twice));
  ok(tn_dropout_grad(NULL, twice, kept, NULL, &want));
  same(out, want);
  RELEASE(real_offset, offset, dx, x, y, mask, square, loss, in, out, want, kept, twice, dropped);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Calls that differ in nothing but where a number lies are not one: three here, and one again. */
START_TEST(nodes_are_told_apart_by_them) {
  tn_graph *g = make_graph();
  tn_tensor *real[2], *from[2], *x = input(g, "x", 12, 5), *y[4] = {NULL}, *mask = NULL;
  const char *const names[] = {"first", "second"}, *const outputs[] = {"a", "b", "c", "again"};
  tn_dropout_attrs a = TN_DROPOUT_DEFAULTS;
  for (int i = 0; i < 2; ++i) {
    real[i] = real_scalar(TN_I64, &(int64_t){100 * (i + 1)});
    ok(tn_graph_parameter(g, names[i], real[i], &from[i]));
  }
  for (int i = 0; i < 4; ++i) {
    a.offset_from = from[i == 1], a.seed_from = i == 2 ? from[1] : NULL;
    ok(tn_dropout(NULL, x, &a, &y[i], &mask));
    ok(tn_graph_output(g, outputs[i], y[i]));
    tn_tensor_release(mask);
    mask = NULL;
  }
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 12, 5, 1), *out[4] = {NULL};
  const uint64_t seed[] = {0, 0, 200, 0}, offset[] = {100, 200, 100, 100};
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 4, out));
  for (int i = 0; i < 4; ++i) {
    tn_tensor *want = NULL, *kept = NULL;
    tn_dropout_attrs plain = TN_DROPOUT_DEFAULTS;
    plain.seed = seed[i], plain.offset = offset[i];
    ok(tn_dropout(NULL, in, &plain, &want, &kept));
    same(out[i], want);
    RELEASE(want, kept, out[i], y[i]);
  }
  RELEASE(real[0], real[1], from[0], from[1], x, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A seed of its own says nothing of where to draw: runs draw on from the node's offset. */
START_TEST(a_seed_alone_draws_on) {
  tn_graph *g = make_graph();
  tn_tensor *real_seed = real_scalar(TN_I64, &(int64_t){77}), *seed = NULL, *y = NULL;
  ok(tn_graph_parameter(g, "seed", real_seed, &seed));
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(3, 3), &y));
  tn_uniform_attrs a = TN_UNIFORM_DEFAULTS;
  a.seed_from = seed;
  ok(tn_uniform(NULL, y, &a));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  for (uint64_t run = 0; run < 4; ++run) {
    tn_tensor *got = NULL, *want = numbers(device, 3, 3, 0);
    tn_uniform_attrs plain = TN_UNIFORM_DEFAULTS;
    plain.seed = 77, plain.offset = run * 3; /* nine numbers take three counters */
    ok(tn_uniform(NULL, want, &plain));
    ok(tn_program_run(p, NULL, 0, NULL, 1, &got));
    same(got, want);
    RELEASE(got, want);
  }
  RELEASE(real_seed, seed, y);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* What only an attribute reads is kept, planned and in order: a rate that nodes compute, in memory
 * that they share with others, and from a parameter that is written after it was read. */
START_TEST(numbers_are_values_of_the_graph) {
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, 2, 2, 1), *eager = numbers(device, 2, 2, 1), *param = NULL;
  tn_tensor *real_v = numbers(device, 2, 2, 0), *eager_v = numbers(device, 2, 2, 0), *v = NULL;
  tn_tensor *real_lr = real_scalar(TN_F32, &(float){0.5f}), *lr = NULL, *grad = input(g, "g", 2, 2);
  tn_tensor *half = NULL, *scaled = NULL, *rate = NULL, *noise = NULL, *more = NULL;
  ok(tn_graph_parameter(g, "param", real, &param));
  ok(tn_graph_parameter(g, "v", real_v, &v));
  ok(tn_graph_parameter(g, "lr", real_lr, &lr));
  ok(tn_scalar(tn_graph_device(g), NULL, TN_F32, 0.5, &half));
  ok(tn_mul(NULL, lr, half, &scaled));
  ok(tn_neg(NULL, scaled, &noise));
  ok(tn_abs(NULL, noise, &rate));
  ok(tn_mul(NULL, rate, rate, &more)); /* nobody wants it */
  tn_sgd_step_attrs sgd = TN_SGD_STEP_DEFAULTS;
  sgd.lr_from = rate;
  ok(tn_sgd_step(NULL, grad, param, v, &sgd));
  tn_tensor *next = lr;
  ok(tn_mul(NULL, lr, half, &next));
  tn_graph_node node = {.struct_size = sizeof node};
  ok(tn_graph_node_at(g, 4, &node));
  ck_assert_uint_eq(node.num_in, 1 + 2 + 2);
  ck_assert_uint_eq(node.num_from, 2);
  tn_graph_value value = {.struct_size = sizeof value};
  ok(tn_graph_value_at(g, node.in[1], &value));
  ck_assert_uint_eq(value.node, 2);
  ck_assert_uint_eq(node.in[2], TN_GRAPH_NONE);
  ck_assert_ptr_null(((const tn_sgd_step_attrs *)node.attrs)->lr_from);
  char text[2048] = "";
  FILE *file = tmpfile();
  ok(tn_graph_print(g, TN_GRAPH_TEXT, file));
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  ck_assert_msg(strstr(text, "nesterov=0 lr_from=%") != NULL, "%s", text);
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).left_out, 1);
  float now = 0.5f;
  for (int run = 0; run < 4; ++run, now *= 0.5f) {
    tn_tensor *in = numbers(device, 2, 2, (float)run);
    tn_sgd_step_attrs plain = TN_SGD_STEP_DEFAULTS;
    plain.lr = now * 0.5f;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 0, NULL));
    ok(tn_sgd_step(NULL, in, eager, eager_v, &plain));
    same(real, eager);
    tn_tensor_release(in);
  }
  RELEASE(real, eager, param, real_v, eager_v, v, real_lr, lr, grad, half, scaled, rate, noise,
          more);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(symbolic_and_real_do_not_mix) {
  tn_graph *g = make_graph(), *other = make_graph();
  tn_tensor *real = numbers(device, 2, 2, 1), *v = numbers(device, 2, 2, 0), *symbol = NULL;
  tn_tensor *real_lr = real_scalar(TN_F64, &(double){1}), *lr = NULL, *foreign = NULL;
  tn_tensor *symbol_v = NULL, *grad = input(g, "g", 2, 2), *never = NULL;
  ok(tn_graph_parameter(g, "param", real, &symbol));
  ok(tn_graph_parameter(g, "v", v, &symbol_v));
  ok(tn_graph_parameter(g, "lr", real_lr, &lr));
  ok(tn_graph_parameter(other, "lr", real_lr, &foreign));
  ok(tn_tensor_empty(tn_graph_device(g), TN_F64, 0, NULL, &never));
  tn_sgd_step_attrs a = TN_SGD_STEP_DEFAULTS;
  a.lr_from = real_lr;
  refused(tn_sgd_step(NULL, grad, symbol, symbol_v, &a), TN_ERR_INVALID_ARGUMENT,
          "attrs->lr_from is of cpu:0");
  a.lr_from = foreign;
  refused(tn_sgd_step(NULL, grad, symbol, symbol_v, &a), TN_ERR_INVALID_ARGUMENT,
          "symbolic tensors alone");
  a.lr_from = lr;
  refused(tn_sgd_step(NULL, real, v, v, &a), TN_ERR_INVALID_ARGUMENT, "symbolic tensors alone");
  ck_assert_uint_eq(tn_graph_num_nodes(g), 0);
  /* One that nothing has written is found when the graph is compiled. */
  a.lr_from = never;
  ok(tn_sgd_step(NULL, grad, symbol, symbol_v, &a));
  tn_program *p = NULL;
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT, "nothing has written");
  RELEASE(real, v, symbol, real_lr, lr, foreign, symbol_v, grad, never);
  tn_graph_destroy(g);
  tn_graph_destroy(other);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, adam_counts_and_follows_the_schedule);
  tcase_add_test(tcase, the_rate_is_an_input);
  tcase_add_test(tcase, a_skipped_step_changes_nothing);
  tcase_add_test(tcase, masks_are_drawn_on);
  tcase_add_test(tcase, gradients_of_what_was_dropped);
  tcase_add_test(tcase, masks_are_drawn_again);
  tcase_add_test(tcase, nodes_are_told_apart_by_them);
  tcase_add_test(tcase, a_seed_alone_draws_on);
  tcase_add_test(tcase, numbers_are_values_of_the_graph);
  tcase_add_test(tcase, symbolic_and_real_do_not_mix);
}

int main(void) { return run_suite("graph_scalars", add_tests); }
