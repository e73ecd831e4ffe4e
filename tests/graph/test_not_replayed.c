/* Programs that no device graph replays: they run call by call, and the report says why. */
#include "tests/graph/replays.h"

typedef tn_status make_nodes(const tn_tensor *x, tn_tensor **y);

static tn_status unsafe(const tn_tensor *x, tn_tensor **y) {
  tn_call_site("root");
  tn_status status = tn_sqrt(NULL, x, y);
  tn_call_site(NULL);
  return status;
}
static tn_status falls_back(const tn_tensor *x, tn_tensor **y) { return tn_exp(NULL, x, y); }
static tn_status draws(const tn_tensor *x, tn_tensor **y) {
  tn_normal_attrs attrs = TN_NORMAL_DEFAULTS;
  tn_tensor *noise = NULL;
  tn_status status = tn_tensor_empty(tn_tensor_device(x), TN_F32, 2, SHAPE(4, 4), &noise);
  if (!status) status = tn_normal(NULL, noise, &attrs);
  if (!status) status = tn_add(NULL, x, noise, y);
  tn_tensor_release(noise);
  return status;
}
static tn_status draws_and_more(const tn_tensor *x, tn_tensor **y) {
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_tensor *noise = NULL, *sum = NULL;
  tn_status status = tn_tensor_empty(tn_tensor_device(x), TN_F32, 2, SHAPE(4, 4), &noise);
  if (!status) status = tn_uniform(NULL, noise, &attrs);
  if (!status) status = tn_add(NULL, x, noise, &sum);
  if (!status) status = tn_sqrt(NULL, sum, y);
  RELEASE(noise, sum);
  return status;
}
static tn_status repeated(const tn_tensor *x, tn_tensor **y) {
  tn_tensor *row = NULL;
  tn_status status = tn_tensor_slice(x, 0, 0, 1, 1, &row);
  if (!status) status = tn_mul(NULL, x, row, y);
  tn_tensor_release(row);
  return status;
}
static tn_status nothing(const tn_tensor *x, tn_tensor **y) {
  return tn_tensor_reshape(x, 1, SHAPE(16), y);
}
static tn_status fine(const tn_tensor *x, tn_tensor **y) { return tn_neg(NULL, x, y); }

START_TEST(says_why_not) {
  static const struct {
    make_nodes *make;
    const char *why;
  } cases[] = {
      {unsafe, "node 0 (sqrt) at root: its kernel is not TN_KERNEL_CAPTURE_SAFE"},
      {falls_back, "node 0 (exp): no kernel of the device takes it"},
      {draws, "node 0 (normal): its random numbers go on from run to run by an attribute"},
      {draws_and_more, "node 2 (sqrt): its kernel is not TN_KERNEL_CAPTURE_SAFE"},
      {repeated, "node 0 (mul): its kernel gets row-major copies of its tensors"},
      {nothing, "no node runs"},
      {fine, "TN_COMPILE_NO_CAPTURE"},
  };
  tn_compile_options options = {.struct_size = sizeof options};
  if (cases[_i].make == fine) options.flags = TN_COMPILE_NO_CAPTURE;
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *y = NULL, *in = numbers(4, 4, 1), *first = NULL;
  ok(tn_graph_create(rt, "test", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(4, 4), &x));
  ok(cases[_i].make(x, &y));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, device, &options, &p));
  for (int i = 0; i < 5; ++i) {
    tn_tensor *out = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out));
    const bool differs = cases[_i].make == draws || cases[_i].make == draws_and_more;
    if (first && !differs) same(first, out);
    if (first)
      tn_tensor_release(out);
    else
      first = out;
  }
  const tn_program_info info = report(p);
  ck_assert_uint_eq(info.capture, TN_CAPTURE_OFF);
  ck_assert_str_eq(info.capture_reason, cases[_i].why);
  ck_assert_uint_eq(info.captures + info.replays, 0);
  ck_assert_int_eq(ledger->begun, 0);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  RELEASE(x, y, in, first);
}
END_TEST

START_TEST(devices_without) {
  static const struct {
    const char *device, *plugin, *why;
  } cases[] = {{"reference", NULL, "plugin reference has no device graphs"},
               {"sim", SIM_PLUGIN, "plugin sim has no device graphs"}};
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = cases[_i].plugin,
                                .device = cases[_i].device,
                                .fallback = TN_FALLBACK_ALLOW};
  rt = open_runtime(&options);
  device = tn_runtime_device(rt);
  pair p = make_pair(3, 4, false, 0);
  ck_assert_uint_eq(report(p.program).capture, TN_CAPTURE_OFF);
  ck_assert_str_eq(report(p.program).capture_reason, cases[_i].why);
  free_pair(&p);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(layers_see_calls) {
  rt = open_capturing("validate", NULL);
  device = tn_runtime_device(rt);
  ledger = tn_stream_native(tn_device_default_stream(device));
  pair p = make_pair(3, 4, false, 0);
  tn_tensor *x = numbers(3, 4, 1), *b = numbers(1, 4, 2), *y = NULL, *z = NULL;
  for (int i = 0; i < 5; ++i) run_both(&p, NULL, x, b, &y, &z);
  ck_assert_str_eq(report(p.program).capture_reason, "layers are on, which see every call");
  ck_assert_int_eq(ledger->begun, 0);
  RELEASE(x, b, y, z);
  free_pair(&p);
  tn_runtime_close(rt);
}
END_TEST

/* A caller built before there were device graphs gets what it knows of. */
START_TEST(older_reports) {
  pair p = make_pair(3, 4, false, 0);
  tn_program_info info;
  memset(&info, 0x5a, sizeof info);
  info.struct_size = offsetof(tn_program_info, capture);
  ok(tn_program_report(p.program, &info));
  ck_assert_uint_eq(info.nodes, 5);
  ck_assert_uint_eq(info.capture, 0x5a5a5a5a);
  free_pair(&p);
  tn_compile_options options = {.struct_size = sizeof options, .flags = 1u << 20};
  tn_graph *g = NULL;
  tn_program *none = NULL;
  ok(tn_graph_create(rt, "g", &g));
  refused(tn_graph_compile(g, device, &options, &none), TN_ERR_INVALID_ARGUMENT, "0x100000");
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, devices_without, 0, 2);
  tcase_add_test(t, layers_see_calls);
}

static void add_on_device(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, says_why_not, 0, 7);
  tcase_add_test(t, older_reports);
}

int main(void) {
  return run_suite("not replayed elsewhere", add_tests) | run_suite("not replayed", add_on_device);
}
