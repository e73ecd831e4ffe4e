/*
 * What plugins return (fixtures/odd.c): statuses that do not exist become one that does, a
 * failure without a message gets one of its own and not somebody else's, TN_OK without a handle is
 * an error, and each names the plugin and the slot.
 */
#include <stdio.h>

#include "tests/fixtures/odd.h"
#include "tests/support.h"

static tn_runtime *rt;

static void open_with(const char *layers) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = ODD_PLUGIN,
                                .plugins = "odd,reference",
                                .device = "reference",
                                .num_threads = 2,
                                .layers = layers};
  tn_runtime_close(rt);
  rt = open_runtime(&options);
}
static void setup(void) { open_with(NULL); }
static void teardown(void) { tn_runtime_close(rt), rt = NULL; }

static tn_device *odd_device(int slot, int way) {
  char id[16];
  tn_device *d = NULL;
  snprintf(id, sizeof id, "odd:%d", slot * ODD_WAYS + way);
  ok(tn_device_find(rt, id, &d));
  return d;
}

/* A message from before, which must not come up again. */
static void say_something(void) {
  tn_device *d = NULL;
  refused(tn_device_find(rt, "stale", &d), TN_ERR_NOT_FOUND, "stale");
}

static void told(tn_status status, int way, const char *slot) {
  char words[96];
  ck_assert_msg(status == TN_ERR_BACKEND, "%s: %s", slot, tn_status_name(status));
  snprintf(words, sizeof words, "plugin odd: its %s %s", slot,
           way == ODD_INVENTED ? "returned 2097152, which is no tn_status"
           : way == ODD_SILENT ? "failed with TN_ERR_BACKEND and gave no reason"
                               : "returned TN_OK and made nothing");
  ck_assert_msg(strstr(tn_last_error(), words), "'%s' not in '%s'", words, tn_last_error());
  ck_assert_msg(!strstr(tn_last_error(), "stale"), "%s", tn_last_error());
}

static tn_status one_tensor(tn_device *d) {
  tn_tensor *t = NULL;
  float value = 1;
  tn_status status = tn_tensor_from_host(d, TN_F32, 1, SHAPE(1), &value, &t);
  tn_tensor_release(t);
  return status;
}

static tn_status synchronize(tn_device *d) { return tn_device_synchronize(d); }

/* Whatever there is to do with events, until something fails. */
static tn_status events(tn_device *d) {
  tn_event *a = NULL, *b = NULL;
  uint64_t ns;
  tn_status status = tn_event_create(d, &a);
  if (!status) status = tn_event_create(d, &b);
  if (!status) status = tn_event_record(a, NULL);
  if (!status) status = tn_event_record(b, NULL);
  if (!status) status = tn_event_query(a);
  if (!status) status = tn_event_synchronize(a);
  if (!status) status = tn_stream_wait_event(tn_device_default_stream(d), a);
  if (!status) status = tn_event_elapsed(a, b, &ns);
  tn_event_destroy(b);
  tn_event_destroy(a);
  return status;
}

static tn_status wrap_stream(tn_device *d) {
  tn_stream *stream = NULL;
  tn_status status = tn_stream_wrap(d, NULL, &stream);
  ck_assert(!status == !!stream);
  tn_stream_destroy(stream);
  return status;
}

/* A wrapped queue and an event, both of which may fail. */
static tn_status give_to_stream(tn_device *d) {
  tn_tensor *t = NULL;
  DLManagedTensorVersioned *managed = NULL;
  ok(tn_tensor_empty(d, TN_F32, 0, NULL, &t));
  tn_status status = tn_tensor_to_dlpack_stream(t, NULL, 64, &managed);
  ck_assert(!status == !!managed);
  if (managed) managed->deleter(managed);
  tn_tensor_release(t);
  return status;
}

static const struct {
  int slot;
  const char *name;
  tn_status (*attempt)(tn_device *d);
  int ways;
} slots[] = {
    {ODD_OPEN, "open", one_tensor, 3},
    {ODD_ALLOC, "alloc", one_tensor, 3},
    {ODD_COPY, "copy", one_tensor, 2},
    {ODD_QUEUE_CREATE, "queue_create", one_tensor, 3},
    {ODD_QUEUE_WAIT, "queue_wait", synchronize, 2},
    {ODD_EVENT_CREATE, "event_create", events, 3},
    {ODD_EVENT_RECORD, "event_record", events, 2},
    {ODD_EVENT_QUERY, "event_query", events, 2},
    {ODD_EVENT_WAIT, "event_wait", events, 2},
    {ODD_QUEUE_WAIT_EVENT, "queue_wait_event", events, 2},
    {ODD_EVENT_ELAPSED, "event_elapsed", events, 2},
    {ODD_QUEUE_WRAP, "queue_wrap", wrap_stream, 3},
    {ODD_QUEUE_WRAP, "queue_wrap", give_to_stream, 3},
    {ODD_EVENT_CREATE, "event_create", give_to_stream, 3},
    {ODD_EVENT_RECORD, "event_record", give_to_stream, 2},
    {ODD_QUEUE_WAIT_EVENT, "queue_wait_event", give_to_stream, 2},
};
enum { TRIED = sizeof slots / sizeof *slots };

START_TEST(slots_are_named) {
  for (int way = 0; way < slots[_i].ways; ++way) {
    tn_device *d = odd_device(slots[_i].slot, way);
    say_something();
    told(slots[_i].attempt(d), way, slots[_i].name);
  }
}
END_TEST

START_TEST(pinned_memory_too) {
  void *ptr = NULL;
  for (int way = 0; way < ODD_WAYS; ++way) {
    tn_device *d = odd_device(ODD_ALLOC, way);
    say_something();
    told(tn_pinned_alloc(d, 64, &ptr), way, "alloc");
    ck_assert_ptr_null(ptr);
  }
}
END_TEST

/* --- kernels --- */

static tn_tensor *ones(tn_device *d) {
  float values[4] = {1, 1, 1, 1};
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(d, TN_F32, 1, SHAPE(4), values, &t));
  return t;
}

static tn_status invoke_quickly(const tn_tensor *x, tn_tensor **y) { return tn_neg(NULL, x, y); }

static tn_status invoke_strided(const tn_tensor *x, tn_tensor **y) {
  tn_tensor *half = NULL;
  ok(tn_tensor_slice(x, 0, 0, 4, 2, &half));
  tn_status status = tn_neg(NULL, half, y);
  tn_tensor_release(half);
  return status;
}

static tn_status invoke_prepared(const tn_tensor *x, tn_tensor **y) {
  tn_prepared *p = NULL;
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .in = &x, .out = y, .num_in = 1, .num_out = 1};
  ok(tn_prepare(&call, &p));
  tn_status status = tn_run(p);
  tn_prepared_release(p);
  tn_tensor_release(*y);
  *y = NULL;
  return status;
}

static tn_status invoke_list(const tn_tensor *x, tn_tensor **y) {
  const tn_tensor *list[2] = {x, x};
  return tn_concat(NULL, list, 2, NULL, y);
}

typedef tn_status way_to_call(const tn_tensor *x, tn_tensor **y);
static way_to_call *const calls[] = {invoke_quickly, invoke_strided, invoke_prepared, invoke_list};
enum { CALLS = sizeof calls / sizeof *calls };

static void try_kernels(way_to_call *call) {
  for (int way = 0; way < ODD_EMPTY; ++way) {
    tn_tensor *x = ones(odd_device(ODD_KERNEL, way)), *y = NULL;
    say_something();
    told(call(x, &y), way, "kernel");
    ck_assert_ptr_null(y);
    tn_tensor_release(x);
  }
  tn_tensor *x = ones(odd_device(ODD_KERNEL, ODD_EMPTY)), *y = NULL;
  say_something();
  refused(call(x, &y), TN_ERR_BACKEND, "the kernel's own words"); /* from a share of a loop */
  ck_assert(!strstr(tn_last_error(), "gave no reason"));
  tn_tensor_release(x);
}

START_TEST(kernels_are_named) { try_kernels(calls[_i]); }
END_TEST

START_TEST(kernels_are_named_through_layers) {
  open_with("passing");
  try_kernels(calls[_i]);
}
END_TEST

/* What a kernel said that went on is not the reason of one that fails after it. */
START_TEST(words_of_a_success_are_nobodys_reason) {
  tn_device *murmurs = odd_device(ODD_MURMUR, ODD_EMPTY),
            *fails = odd_device(ODD_KERNEL, ODD_SILENT);
  /* All of them before the calls: to make a tensor the backend may be asked, and the words gone. */
  tn_tensor *x = ones(murmurs), *y = ones(murmurs), *w = ones(fails), *z = ones(fails);
  ok(tn_neg(NULL, x, &y));
  refused(tn_neg(NULL, w, &z), TN_ERR_BACKEND,
          "plugin odd: its kernel failed with TN_ERR_BACKEND and gave no reason");
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(w);
  tn_tensor_release(z);
}
END_TEST

/* A fault of work beside the host comes out at a wait: it names the device, and what it was given
 * last where somebody kept that. */
static void waits_in_vain(int slot, const char *words) {
  tn_device *d = odd_device(slot, ODD_SILENT);
  tn_tensor *x = NULL, *y = NULL, *z = NULL;
  char id[64];
  snprintf(id, sizeof id, "device odd:%d: plugin odd: its ", slot * ODD_WAYS + ODD_SILENT);
  ok(tn_tensor_empty(d, TN_F32, 1, SHAPE(4), &x));
  ok(tn_neg(NULL, x, &y));
  ok(tn_abs(NULL, y, &z));
  tn_status status = slot == ODD_QUEUE_WAIT ? synchronize(d) : events(d);
  ck_assert_int_eq(status, TN_ERR_BACKEND);
  ck_assert_msg(strstr(tn_last_error(), id) && strstr(tn_last_error(), words), "'%s'",
                tn_last_error());
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
}

START_TEST(late_faults_name_the_last_operators) {
  static const int waits[] = {ODD_QUEUE_WAIT, ODD_EVENT_WAIT, ODD_EVENT_QUERY};
  for (int i = 0; i < 3; ++i)
    waits_in_vain(waits[i], "work from before; TENON_LAYERS=validate names");
  open_with("passing");
  for (int i = 0; i < 3; ++i)
    waits_in_vain(waits[i], "its last operators, latest first: abs, neg)");
}
END_TEST

START_TEST(workspace_functions_are_named) {
  for (int way = 0; way < ODD_EMPTY; ++way) {
    tn_tensor *x = ones(odd_device(ODD_WORKSPACE, way)), *y = NULL;
    say_something();
    told(tn_abs(NULL, x, &y), way, "workspace function");
    tn_tensor_release(x);
  }
}
END_TEST

START_TEST(layers_are_named) {
  tn_device *host = NULL;
  tn_tensor *y = NULL;
  open_with("passing,invented");
  ok(tn_device_find(rt, "reference", &host));
  tn_tensor *x = ones(host);
  say_something();
  refused(tn_neg(NULL, x, &y), TN_ERR_BACKEND, "its layer invented returned 1048576");
  tn_tensor_release(x);
  open_with("passing,silent");
  ok(tn_device_find(rt, "reference", &host));
  x = ones(host);
  say_something();
  refused(tn_neg(NULL, x, &y), TN_ERR_IO, "plugin odd: its layer silent failed with TN_ERR_IO");
  ck_assert(!strstr(tn_last_error(), "stale"));
  tn_tensor_release(x);
  tn_runtime *other = NULL;
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = ODD_PLUGIN,
                                .plugins = "odd,reference",
                                .device = "reference",
                                .layers = "shut"};
  say_something();
  refused(tn_runtime_open(&options, &other), TN_ERR_IO, "its layer shut failed");
}
END_TEST

START_TEST(shape_rules_are_named) {
  odd_rule_attrs attrs = {.struct_size = sizeof attrs, .status = 1 << 20};
  tn_device *host = NULL;
  ok(tn_device_find(rt, "reference", &host));
  tn_tensor *out[1] = {NULL};
  const tn_tensor *in[1] = {ones(host)};
  tn_call call = {
      .struct_size = sizeof call, .in = in, .out = out, .attrs = &attrs, .num_in = 1, .num_out = 1};
  ok(tn_op_find(rt, "odd_rule", &call.op));
  say_something();
  refused(tn_invoke(&call), TN_ERR_BACKEND,
          "tn_odd_rule(x = f32 [4]): its shape rule returned 1048576, which is no "
          "tn_status");
  attrs.status = TN_ERR_UNSUPPORTED;
  say_something();
  refused(tn_invoke(&call), TN_ERR_UNSUPPORTED,
          "tn_odd_rule(x = f32 [4]): its shape rule failed with TN_ERR_UNSUPPORTED and "
          "gave no reason");
  tn_tensor_release((tn_tensor *)(uintptr_t)in[0]);
}
END_TEST

/* --- what a device says of itself --- */

static tn_device_info info_of(tn_device *d) {
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(d, &info));
  return info;
}

START_TEST(a_device_that_recovers_is_available) {
  for (int way = 0; way < ODD_EMPTY; ++way) {
    tn_device *d = odd_device(ODD_DESCRIBE, way);
    ck_assert_ptr_nonnull(strstr(info_of(d).unavailable, "its describe"));
    ck_assert_str_eq(info_of(d).name, "");
    ok(one_tensor(d));
    ck_assert_str_eq(info_of(d).unavailable, "");
    ck_assert_str_eq(info_of(d).name, "odd");
    d = odd_device(ODD_OPEN, way);
    told(one_tensor(d), way, "open");
    ck_assert_ptr_nonnull(strstr(info_of(d).unavailable, "its open"));
    ok(one_tensor(d));
    ck_assert_str_eq(info_of(d).unavailable, "");
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, slots_are_named, 0, TRIED);
  tcase_add_test(t, pinned_memory_too);
  tcase_add_loop_test(t, kernels_are_named, 0, CALLS);
  tcase_add_loop_test(t, kernels_are_named_through_layers, 0, CALLS);
  tcase_add_test(t, words_of_a_success_are_nobodys_reason);
  tcase_add_test(t, late_faults_name_the_last_operators);
  tcase_add_test(t, workspace_functions_are_named);
  tcase_add_test(t, layers_are_named);
  tcase_add_test(t, shape_rules_are_named);
  tcase_add_test(t, a_device_that_recovers_is_available);
}

int main(void) { return run_suite("statuses", add_tests); }
