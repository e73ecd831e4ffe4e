/*
 * Programs on devices of every kind, and when memory runs out: what is computed is what the calls
 * compute on the same device, and what fails leaves nothing behind.
 */
#include "tenon/graph.h"
#include "tests/every_device.h"
#include "tests/scarce.h"

/* --- every device --- */

/* Products, a view, a reduction, in-place updates of a parameter, a scalar made on the way. */
typedef struct model {
  tn_tensor *w, *velocity;
} model;

/* Exact in float32 whatever the order: a copy, a bias and an activation behind a product, a
 * constant that is computed, sums that are one. */
static tn_status side(const tn_tensor *x, int64_t rows, tn_tensor **value) {
  tn_tensor *same = NULL, *t = NULL, *h = NULL, *ones = NULL, *biased = NULL, *y = NULL;
  tn_tensor *sum = NULL, *again = NULL;
  tn_status status = tn_copy(NULL, x, &same);
  if (!status) status = tn_tensor_permute(x, (int32_t[]){1, 0}, &t);
  if (!status) status = tn_matmul(NULL, same, t, NULL, NULL, &h);
  if (!status) status = tn_ones(tn_tensor_device(x), NULL, TN_F32, 1, &rows, &ones);
  if (!status) status = tn_add(NULL, h, ones, &biased);
  if (!status) status = tn_relu(NULL, biased, &y);
  if (!status) status = tn_sum(NULL, y, NULL, &sum);
  if (!status) status = tn_sum(NULL, y, NULL, &again);
  if (!status) status = tn_add(NULL, sum, again, value);
  tn_tensor *all[] = {same, t, h, ones, biased, y, sum, again};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return status;
}

static tn_status step(const tn_tensor *x, const model *m, tn_tensor **loss, tn_tensor **probe) {
  tn_tensor *h = NULL, *t = NULL, *y = NULL, *z = NULL, *grad = NULL, *two = NULL;
  tn_tensor *sum = NULL, *more = NULL;
  tn_sgd_step_attrs sgd = TN_SGD_STEP_DEFAULTS;
  sgd.lr = 0.125;
  sgd.momentum = 0.5;
  tn_status status = tn_matmul(NULL, x, m->w, NULL, NULL, &h);
  if (!status) status = tn_tanh(NULL, h, &h);
  if (!status) status = tn_tensor_permute(x, (int32_t[]){1, 0}, &t);
  if (!status) status = tn_matmul(NULL, t, h, NULL, NULL, &grad);
  if (!status) status = tn_scalar(tn_tensor_device(x), NULL, TN_F32, 2, &two);
  if (!status) status = tn_mul(NULL, h, two, &y);
  if (!status) status = tn_tensor_slice(y, 1, 1, 3, 1, &z);
  if (!status) status = tn_sum(NULL, y, NULL, &sum);
  if (!status) status = side(x, tn_tensor_shape(x)[0], &more);
  if (!status) status = tn_add(NULL, sum, more, loss);
  if (!status) status = tn_relu(NULL, z, probe);
  if (!status) status = tn_sgd_step(NULL, grad, m->w, m->velocity, &sgd);
  tn_tensor *all[] = {h, t, y, z, grad, two, sum, more};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return status;
}

enum { ROWS = 6, INNER = 5, COLUMNS = 4 };

static tn_tensor *numbers(tn_device *on, int64_t rows, int64_t columns, float first) {
  float values[ROWS * INNER];
  for (int i = 0; i < rows * columns; ++i) values[i] = first + (float)((i * 37) % 11) / 8;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(on, TN_F32, 2, SHAPE(rows, columns), values, &t));
  return t;
}

static model make_model(tn_device *on) {
  return (model){numbers(on, INNER, COLUMNS, -0.5f), numbers(on, INNER, COLUMNS, 0.25f)};
}
static void free_model(model *m) {
  tn_tensor_release(m->w);
  tn_tensor_release(m->velocity);
}

static void same(const tn_tensor *a, const tn_tensor *b) {
  float x[ROWS * INNER], y[ROWS * INNER];
  ck_assert_uint_eq(tn_tensor_bytes(a), tn_tensor_bytes(b));
  ok(tn_tensor_to_host(a, x, tn_tensor_bytes(a)));
  ok(tn_tensor_to_host(b, y, tn_tensor_bytes(b)));
  ck_assert(memcmp(x, y, tn_tensor_bytes(a)) == 0);
}

static tn_status build(tn_runtime *rt, const model *real, tn_graph **graph) {
  tn_graph *g = NULL;
  tn_tensor *x = NULL, *loss = NULL, *probe = NULL;
  model m = {0};
  tn_status status = tn_graph_create(rt, "step", &g);
  if (!status) status = tn_graph_input(g, "x", TN_F32, 2, SHAPE(ROWS, INNER), &x);
  if (!status) status = tn_graph_parameter(g, "w", real->w, &m.w);
  if (!status) status = tn_graph_parameter(g, "velocity", real->velocity, &m.velocity);
  if (!status) status = step(x, &m, &loss, &probe);
  if (!status) status = tn_graph_output(g, "loss", loss);
  if (!status) status = tn_graph_output(g, "probe", probe);
  tn_tensor *all[] = {x, loss, probe, m.w, m.velocity};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  if (status)
    tn_graph_destroy(g);
  else
    *graph = g;
  return status;
}

START_TEST(on_every_device) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  model real = make_model(device), kept = make_model(device);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_stream *stream = NULL;
  ok(build(rt, &real, &g));
  ok(tn_graph_compile(g, device, NULL, &p));
  tn_graph_destroy(g);
  ok(tn_stream_create(device, &stream));
  for (int run = 0; run < 6; ++run) {
    tn_tensor *x = numbers(device, ROWS, INNER, 0.25f * (float)run);
    tn_tensor *got[2] = {NULL, NULL}, *loss = NULL, *probe = NULL;
    ok(tn_device_synchronize(device));
    ok(tn_program_run(p, run % 2 ? stream : NULL, 1, (const tn_tensor *[]){x}, 2, got));
    ok(tn_device_synchronize(device));
    ok(step(x, &kept, &loss, &probe));
    same(got[0], loss);
    same(got[1], probe);
    same(real.w, kept.w);
    tn_tensor *all[] = {x, got[0], got[1], loss, probe};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  }
  tn_program_info info = {.struct_size = sizeof info};
  ok(tn_program_report(p, &info));
  ck_assert_uint_eq(info.instances, 2);
  ck_assert_uint_eq(info.merged, 2); /* the copy and the sum */
  ck_assert_uint_eq(info.folded, 1);
  ck_assert_uint_eq(info.fused, 2);
  tn_stream_destroy(stream);
  tn_program_destroy(p);
  free_model(&real);
  free_model(&kept);
  tn_runtime_close(rt);
}
END_TEST

/* Many runs in flight at once on one stream: tensors are released while they are pending. */
START_TEST(runs_follow_each_other) {
  tn_runtime *rt = open_every(_i);
  tn_device *device = tn_runtime_device(rt);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *y = NULL, *z = NULL, *at = NULL;
  ok(tn_graph_create(rt, NULL, &g));
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(1000), &x));
  ok(tn_add(NULL, x, x, &y));
  ok(tn_sub(NULL, y, x, &z));
  ok(tn_graph_output(g, "z", z));
  ok(tn_graph_compile(g, device, NULL, &p));
  at = counting(device, 1000);
  for (int i = 0; i < 50; ++i) {
    tn_tensor *next = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){at}, 1, &next));
    tn_tensor_release(at);
    at = next;
  }
  float values[1000];
  ok(tn_tensor_to_host(at, values, sizeof values));
  for (int i = 0; i < 1000; ++i) ck_assert(values[i] == (float)(i + 1));
  tn_tensor *all[] = {x, y, z, at};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_runtime_close(rt);
}
END_TEST

/* --- memory that runs out --- */

START_TEST(every_request_for_memory_fails_once) {
  tn_runtime *rt = open_scarce();
  tn_device *device = tn_runtime_device(rt);
  model real = make_model(device);
  tn_tensor *x = numbers(device, ROWS, INNER, 1);
  long failed = 0, before = 0;
  for (long at = 0;; ++at) {
    tn_graph *g = NULL;
    tn_program *p = NULL;
    tn_tensor *out[2] = {NULL, NULL};
    scarce_begin(at, false);
    tn_status status = build(rt, &real, &g);
    if (!status) status = tn_graph_compile(g, device, NULL, &p);
    if (!status) status = tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 2, out);
    bool enough = !scarce_end();
    ok_or_scarce(status, at);
    ck_assert(!status || (!out[0] && !out[1]));
    tn_tensor_release(out[0]);
    tn_tensor_release(out[1]);
    tn_program_destroy(p);
    tn_graph_destroy(g);
    ok(tn_device_trim(device));
    failed += status != TN_OK;
    if (enough) break;
    before = at > 200 ? (before ? before : scarce.live) : 0;
    ck_assert_msg(!before || scarce.live < before + 40, "request %ld: %ld blocks, %ld before", at,
                  scarce.live, before);
  }
  ck_assert_int_gt(failed, 50);
  tn_tensor_release(x);
  free_model(&real);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, on_every_device, 0, EVERY_DEVICE);
  tcase_add_loop_test(tcase, runs_follow_each_other, 0, EVERY_DEVICE);
  tcase_add_test(tcase, every_request_for_memory_fails_once);
}

int main(void) { return run_suite("programs", add_tests); }
