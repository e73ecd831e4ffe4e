/*
 * Programs that compute again what is cheaper to compute than to keep, and let gradients go early:
 * every bit is what the calls give as they were made, with less memory.
 */
#include "steps.h"
#include "tests/scarce.h"

enum { LAYERS = 5, ROWS = 96, WIDTH = 64, RUNS = 3 };
enum { KEEP = TN_COMPILE_NO_REORDERING | TN_COMPILE_NO_RECOMPUTING | TN_COMPILE_NO_FUSION };

/* --- training steps --- */

enum { GELU, NORM, DROP, CHAIN, VIEWS, KINDS };
enum { SGD, ADAM, ADAMW, RMSPROP, ADAGRAD, MOMENTUM, STEPS };

typedef struct training {
  int kind, step;
  int64_t rows, width;
  tn_tensor *w[LAYERS], *m[LAYERS], *v[LAYERS], *count;
} training;

static training make_training(tn_device *on, int kind, int step, int64_t rows, int64_t width) {
  training t = {.kind = kind, .step = step, .rows = rows, .width = width};
  for (int i = 0; i < LAYERS; ++i) {
    tn_tensor *few = numbers(on, width, width, -1 + 0.01f * (float)i);
    tn_tensor *scale = NULL;
    ok(tn_scalar(on, NULL, TN_F32, 0.125, &scale));
    ok(tn_mul(NULL, few, scale, &t.w[i]));
    ok(tn_zeros_like(NULL, t.w[i], &t.m[i]));
    ok(tn_zeros_like(NULL, t.w[i], &t.v[i]));
    RELEASE(few, scale);
  }
  ok(tn_zeros(on, NULL, TN_I64, 0, NULL, &t.count));
  return t;
}

static void free_training(const training *t) {
  for (int i = 0; i < LAYERS; ++i) RELEASE(t->w[i], t->m[i], t->v[i]);
  tn_tensor_release(t->count);
}

/* Large values between two products that are cheap to make again. */
static tn_status activate(int kind, int layer, int64_t draws, const tn_tensor *h, tn_tensor **y) {
  tn_tensor *a = NULL, *b = NULL, *mask = NULL;
  tn_dropout_attrs drop = TN_DROPOUT_DEFAULTS;
  drop.offset = (uint64_t)(layer * draws);
  tn_status status = TN_OK;
  switch (kind) {
  case GELU:
    return tn_gelu(NULL, h, NULL, y);
  case NORM:
    return tn_layer_norm(NULL, h, NULL, NULL, NULL, y, NULL, NULL);
  case DROP:
    status = tn_dropout(NULL, h, &drop, y, &mask);
    break;
  case CHAIN:
    status = tn_relu(NULL, h, &a);
    if (!status) status = tn_square(NULL, a, &b);
    if (!status) status = tn_tanh(NULL, b, y);
    break;
  default:
    status = tn_tensor_permute(h, (int32_t[]){1, 0}, &a);
    if (!status) status = tn_tensor_contiguous(NULL, a, &b);
    if (!status) status = tn_tanh(NULL, b, &mask);
    if (!status) status = tn_tensor_permute(mask, (int32_t[]){1, 0}, y);
  }
  RELEASE(a, b, mask);
  return status;
}

static tn_status forward(const training *t, tn_tensor *const w[], const tn_tensor *x,
                         tn_tensor **loss) {
  tn_tensor *at = NULL, *square = NULL;
  tn_status status = tn_copy(NULL, x, &at);
  for (int i = 0; !status && i < LAYERS; ++i) {
    tn_tensor *h = NULL, *y = NULL;
    status = tn_matmul(NULL, at, w[i], NULL, NULL, &h);
    if (!status) status = activate(t->kind, i, t->rows * t->width, h, &y);
    RELEASE(h, at);
    at = y;
  }
  if (!status) status = tn_square(NULL, at, &square);
  if (!status) status = tn_mean(NULL, square, NULL, loss);
  RELEASE(at, square);
  return status;
}

static tn_status update(const training *t, tn_tensor **g, tn_tensor **w, tn_tensor **m,
                        tn_tensor **v, const tn_tensor *count) {
  tn_multi_sgd_attrs sgd = TN_MULTI_SGD_DEFAULTS;
  tn_multi_adam_attrs adam = TN_MULTI_ADAM_DEFAULTS;
  tn_multi_adamw_attrs adamw = TN_MULTI_ADAMW_DEFAULTS;
  tn_multi_adagrad_attrs adagrad = TN_MULTI_ADAGRAD_DEFAULTS;
  tn_sgd_step_attrs one = TN_SGD_STEP_DEFAULTS;
  one.momentum = sgd.momentum = 0.5;
  adam.step_from = adamw.step_from = adagrad.step_from = count;
  switch (t->step) {
  case SGD:
    return tn_multi_sgd(NULL, g, w, m, LAYERS, &sgd);
  case ADAM:
    return tn_multi_adam(NULL, g, w, m, v, LAYERS, &adam);
  case ADAMW:
    return tn_multi_adamw(NULL, g, w, m, v, LAYERS, &adamw);
  case RMSPROP:
    return tn_multi_rmsprop(NULL, g, w, v, m, LAYERS, NULL);
  case ADAGRAD:
    return tn_multi_adagrad(NULL, g, w, m, LAYERS, &adagrad);
  default:
    break;
  }
  tn_status status = TN_OK;
  for (int i = 0; !status && i < LAYERS; ++i) status = tn_sgd_step(NULL, g[i], w[i], m[i], &one);
  return status;
}

/* A step: forward, backward, update; the loss is the output. */
static tn_status draft(const training *t, tn_runtime *of, tn_graph **graph) {
  tn_tensor *x = NULL, *loss = NULL, *one = NULL, *count = NULL;
  tn_tensor *w[LAYERS] = {NULL}, *m[LAYERS] = {NULL}, *v[LAYERS] = {NULL}, *g[LAYERS] = {NULL};
  tn_status status = tn_graph_create(of, "step", graph);
  if (!status) status = tn_graph_input(*graph, "x", TN_F32, 2, (int64_t[]){t->rows, t->width}, &x);
  if (!status) status = tn_graph_parameter(*graph, "count", t->count, &count);
  for (int i = 0; !status && i < LAYERS; ++i) {
    status = tn_graph_parameter(*graph, name('w', i), t->w[i], &w[i]);
    if (!status) status = tn_graph_parameter(*graph, name('m', i), t->m[i], &m[i]);
    if (!status) status = tn_graph_parameter(*graph, name('v', i), t->v[i], &v[i]);
  }
  if (!status) status = forward(t, w, x, &loss);
  if (!status) status = tn_graph_output(*graph, "loss", loss);
  if (!status) status = tn_graph_gradient(*graph, loss, LAYERS, w, g);
  if (!status) status = tn_scalar(tn_graph_device(*graph), NULL, TN_I64, 1, &one);
  if (!status) status = tn_add(NULL, count, one, &count);
  if (!status) status = update(t, g, w, m, v, count);
  for (int i = 0; i < LAYERS; ++i) RELEASE(w[i], m[i], v[i], g[i]);
  RELEASE(x, loss, one, count);
  return status;
}

static tn_program *step_program(const training *t, tn_runtime *of, tn_device *on, uint32_t flags,
                                uint32_t percent) {
  tn_graph *g = NULL;
  ok(draft(t, of, &g));
  tn_program *p = compiled_for(g, on, flags, percent);
  tn_program_info info = report(p);
  ck_assert_uint_eq(info.nodes + info.left_out + info.merged + info.folded + info.fused,
                    tn_graph_num_nodes(g) + info.recomputed + info.parts);
  tn_graph_destroy(g);
  return p;
}

static void same_training(const training *a, const training *b) {
  for (int i = 0; i < LAYERS; ++i) {
    same(a->w[i], b->w[i]);
    same(a->m[i], b->m[i]);
    same(a->v[i], b->v[i]);
  }
  same(a->count, b->count);
}

/* Runs of both, side by side, from equal parameters. */
static void same_runs(tn_device *on, tn_program *p, tn_program *q, const training *a,
                      const training *b) {
  for (int run = 0; run < RUNS; ++run) {
    tn_tensor *x = numbers(on, a->rows, a->width, (float)run - 1), *y = NULL, *z = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &y));
    ok(tn_program_run(q, NULL, 1, (const tn_tensor *[]){x}, 1, &z));
    same(y, z);
    same_training(a, b);
    RELEASE(x, y, z);
  }
}

START_TEST(activations) {
  training a = make_training(device, _i, MOMENTUM, ROWS, WIDTH);
  training b = make_training(device, _i, MOMENTUM, ROWS, WIDTH);
  tn_program *p = step_program(&a, rt, device, TN_COMPILE_NO_FUSION, 100);
  tn_program *q = step_program(&b, rt, device, TN_COMPILE_AS_CALLED, 0);
  tn_program *kept = step_program(&b, rt, device, KEEP, 0);
  tn_program_info less = report(p), more = report(kept);
  ck_assert_uint_gt(less.recomputed, 0);
  ck_assert_uint_eq(more.recomputed + report(q).recomputed, 0);
  ck_assert_msg(less.planned_bytes * 20 <= more.planned_bytes * 19, "%d: %lu of %lu bytes", _i,
                (unsigned long)less.planned_bytes, (unsigned long)more.planned_bytes);
  ck_assert_uint_le(less.planned_bytes, less.live_bytes + less.live_bytes / 10);
  same_runs(device, p, q, &a, &b);
  tn_program_destroy(p);
  tn_program_destroy(q);
  tn_program_destroy(kept);
  free_training(&a);
  free_training(&b);
}
END_TEST

/* Few rows: gradients are what takes memory, and steps of all at once keep them. */
START_TEST(steps_in_parts) {
  training a = make_training(device, NORM, _i, 8, 96), b = make_training(device, NORM, _i, 8, 96);
  tn_program *p = step_program(&a, rt, device, TN_COMPILE_NO_FUSION | TN_COMPILE_NO_RECOMPUTING, 0);
  tn_program *q = step_program(&b, rt, device, TN_COMPILE_AS_CALLED, 0);
  tn_program_info less = report(p), more = report(q);
  ck_assert_uint_eq(less.parts, _i == MOMENTUM ? 0 : LAYERS - 1);
  ck_assert_uint_eq(less.recomputed, 0);
  ck_assert_uint_eq(more.parts, 0);
  ck_assert_msg(less.planned_bytes * 2 <= more.planned_bytes, "%d: %lu of %lu bytes", _i,
                (unsigned long)less.planned_bytes, (unsigned long)more.planned_bytes);
  same_runs(device, p, q, &a, &b);
  tn_program_destroy(p);
  tn_program_destroy(q);
  free_training(&a);
  free_training(&b);
}
END_TEST

START_TEST(more_time_needs_less_memory) {
  training t = make_training(device, GELU, ADAM, ROWS, WIDTH);
  static const uint32_t percent[] = {1, 2, 5, 20, 100};
  uint64_t last = UINT64_MAX, first = 0;
  for (size_t i = 0; i < sizeof percent / sizeof *percent; ++i) {
    tn_program *p = step_program(&t, rt, device, TN_COMPILE_NO_REORDERING, percent[i]);
    uint64_t bytes = report(p).live_bytes;
    ck_assert_uint_le(bytes, last);
    last = bytes;
    if (!first) first = bytes;
    tn_program_destroy(p);
  }
  ck_assert_uint_lt(last, first);
  tn_program *p = step_program(&t, rt, device, TN_COMPILE_NO_REORDERING, 0);
  tn_program *q = step_program(&t, rt, device, TN_COMPILE_NO_REORDERING, 3);
  ck_assert_uint_eq(report(p).planned_bytes, report(q).planned_bytes);
  tn_program_destroy(p);
  tn_program_destroy(q);
  free_training(&t);
}
END_TEST

/* --- refused, and out of memory --- */

START_TEST(options_of_it) {
  tn_graph *g = make_graph();
  tn_program *p = NULL;
  tn_compile_options options = {.struct_size = sizeof options, .recompute_percent = 101};
  refused(tn_graph_compile(g, device, &options, &p), TN_ERR_INVALID_ARGUMENT,
          "options.recompute_percent is 101");
  ck_assert(!p);
  options.struct_size = offsetof(tn_compile_options, recompute_percent); /* who knows it not */
  ok(tn_graph_compile(g, device, &options, &p));
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* tn_log kills the simulated device: what runs behind nodes that were added keeps its number. */
START_TEST(messages_name_the_graphs_nodes) {
  const tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference,sim"};
  tn_runtime *own = open_runtime(&options);
  tn_device *sim = NULL;
  ok(tn_runtime_load_plugin(own, SIM_PLUGIN));
  ok(tn_device_find(own, "sim:0", &sim));
  training t = make_training(sim, CHAIN, ADAM, ROWS, WIDTH);
  tn_graph *g = NULL;
  tn_tensor *last = NULL, *end = NULL, *x = numbers(sim, ROWS, WIDTH, 1), *out[2] = {NULL, NULL};
  char text[64];
  ok(draft(&t, own, &g));
  ok(tn_full_f64(tn_graph_device(g), NULL, TN_F32, 1, (int64_t[]){4}, 1, &last));
  ok(tn_log(NULL, last, &end));
  ok(tn_graph_output(g, "end", end));
  tn_program *p = compiled_for(g, sim, TN_COMPILE_NO_FOLDING, 100);
  ck_assert_uint_gt(report(p).recomputed, 0);
  snprintf(text, sizeof text, "program step, node %zu, after", tn_graph_num_nodes(g) - 1);
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 2, out), TN_ERR_DEVICE_LOST, text);
  RELEASE(last, end, x);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  free_training(&t);
  tn_runtime_close(own);
}
END_TEST

/* From one request on, and one alone. */
START_TEST(every_request_for_memory_fails_once) {
  tn_runtime *own = open_scarce();
  tn_device *on = tn_runtime_device(own);
  training t = make_training(on, CHAIN, ADAM, ROWS, WIDTH);
  const tn_compile_options all = {
      .struct_size = sizeof all, .flags = TN_COMPILE_NO_FOLDING, .recompute_percent = 100};
  tn_graph *g = NULL;
  long failed = 0;
  ok(draft(&t, own, &g));
  for (long at = 0;; ++at) {
    tn_program *p = NULL;
    scarce_begin(at, _i == 1);
    tn_status status = tn_graph_compile(g, on, &all, &p);
    bool enough = !scarce_end();
    ok_or_scarce(status, at);
    ck_assert(!status == !!p);
    failed += status != TN_OK;
    if (!status) ck_assert_uint_gt(report(p).recomputed, 0);
    if (!status) ck_assert_uint_gt(report(p).parts, 0);
    tn_program_destroy(p);
    if (enough) break;
  }
  ck_assert_int_gt(failed, 100);
  tn_graph_destroy(g);
  free_training(&t);
  tn_runtime_close(own);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, activations, 0, KINDS);
  tcase_add_loop_test(tcase, steps_in_parts, 0, STEPS);
  tcase_add_test(tcase, more_time_needs_less_memory);
  tcase_add_test(tcase, options_of_it);
  tcase_add_test(tcase, messages_name_the_graphs_nodes);
  tcase_add_loop_test(tcase, every_request_for_memory_fails_once, 0, 2);
}

int main(void) { return run_suite("recomputed", add_tests); }
