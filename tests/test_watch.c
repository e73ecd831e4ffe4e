/*
 * Watching calls (dispatcher/notify/watch.h): a watcher gets every call of its thread in place of
 * its run; what would be missed is refused; and with nobody watching all is as before. Who else is
 * watched, and for how long, is test_watch_scope.c's.
 */
#include "tests/watching.h"

/* --- calls --- */

START_TEST(calls_are_seen_and_run) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 5), *y = NULL, *z = NULL;
  ck_assert_uint_eq(attention(device), 0);
  ck_assert_ptr_null(thread_watcher_set(&c.watcher));
  ck_assert_ptr_eq(thread_watcher(), &c.watcher);
  ck_assert_uint_eq(attention(device), DEVICE_WATCHED);
  ok(tn_add(NULL, x, x, &y));
  ck_assert_int_eq(c.calls, 1);
  ck_assert_uint_eq(c.op, TN_OP_ADD);
  ok(tn_add(NULL, x, y, &y)); /* an output given */
  ok(tn_copy(NULL, y, &z));
  ck_assert_int_eq(c.calls, 3);
  ck_assert_ptr_eq(thread_watcher_set(NULL), &c.watcher);
  ck_assert_uint_eq(attention(device), 0);
  ok(tn_add(NULL, x, x, &x));
  ck_assert_int_eq(c.calls, 3);
  is_counting(z, 5, 3);
  is_counting(x, 5, 2);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
}
END_TEST

START_TEST(every_kind_of_call_is_seen_once) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 6), *y = counting(device, 6), *mean = NULL;
  tn_tensor *joined = NULL, *taken = NULL, *count = NULL;
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 1;
  thread_watcher_set(&c.watcher);
  ok(tn_fill(NULL, y, &fill)); /* in-out */
  ck_assert_int_eq(c.calls, 1);
  ok(tn_mean(NULL, x, NULL, &mean));
  ck_assert_int_eq(c.calls, 2);
  ok(tn_concat(NULL, (const tn_tensor *[]){x, y}, 2, NULL, &joined)); /* a list */
  ck_assert_int_eq(c.calls, 3);
  ck_assert_uint_eq(c.op, TN_OP_CONCAT);
  ok(tn_nonzero(NULL, x, &taken, &count)); /* shaped by its data */
  ck_assert_int_eq(c.calls, 4);
  thread_watcher_set(NULL);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(mean);
  tn_tensor_release(joined);
  tn_tensor_release(taken);
  tn_tensor_release(count);
}
END_TEST

/* Doubles the first input beforehand. */
static tn_status call_with_double(call_watcher *w, const tn_call *call) {
  (void)w;
  tn_call inner = *call;
  const tn_tensor *in[2] = {NULL, call->in[1]};
  tn_tensor *twice = NULL;
  tn_status status = tn_add(NULL, call->in[0], call->in[0], &twice);
  if (status) return status;
  in[0] = twice;
  inner.in = in;
  status = tn_invoke(&inner);
  tn_tensor_release(twice);
  return status;
}

START_TEST(a_call_can_become_another) {
  call_watcher w = {.call = call_with_double, .runtime = rt};
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&w);
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12)); /* it wants to know of none */
  thread_watcher_set(NULL);
  is_counting(y, 3, 3);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

START_TEST(refusals_are_the_callers) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 3), *longer = counting(device, 4), *y = NULL;
  char unwatched[2048];
  refused(tn_add(NULL, x, longer, &y), TN_ERR_INVALID_ARGUMENT, "tn_add: the shapes");
  snprintf(unwatched, sizeof unwatched, "%s", tn_last_error());
  thread_watcher_set(&c.watcher);
  refused(tn_add(NULL, x, longer, &y), TN_ERR_INVALID_ARGUMENT, unwatched);
  refused(tn_add(NULL, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, "every tensor is NULL");
  refused(tn_invoke(NULL), TN_ERR_INVALID_ARGUMENT, "call is NULL");
  ck_assert_int_eq(c.calls, 1);
  c.answer = TN_ERR_NOT_READY;
  ck_assert_int_eq(tn_add(NULL, x, x, &y), TN_ERR_NOT_READY);
  ck_assert_ptr_null(y);
  thread_watcher_set(NULL);
  tn_tensor_release(x);
  tn_tensor_release(longer);
}
END_TEST

START_TEST(paused_it_sees_nothing) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  ck_assert(!thread_watcher_pause(true));
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12));
  ck_assert_int_eq(c.calls + c.writes, 0);
  ck_assert(thread_watcher_pause(false));
  ok(tn_add(NULL, x, x, &y));
  ck_assert_int_eq(c.calls, 1);
  thread_watcher_set(NULL);
  ck_assert(!thread_watcher_pause(true)); /* nobody's */
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

START_TEST(watchers_take_turns) {
  counter first = counter_of(rt), second = counter_of(rt);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&first.watcher);
  ck_assert_ptr_eq(thread_watcher_set(&second.watcher), &first.watcher);
  ok(tn_add(NULL, x, x, &y));
  ck_assert_ptr_eq(thread_watcher_set(&first.watcher), &second.watcher);
  ok(tn_add(NULL, x, x, &y));
  ok(tn_add(NULL, x, x, &y));
  thread_watcher_set(NULL);
  ck_assert_int_eq(first.calls, 2);
  ck_assert_int_eq(second.calls, 1);
  ck_assert_uint_eq(attention(device), 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

/* --- what the host writes --- */

START_TEST(writes_are_told) {
  counter c = counter_of(rt);
  const float zeros[6] = {0};
  float read[6];
  tn_tensor *x = counting(device, 6), *square = NULL, *across = NULL, *made = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &square));
  ok(tn_tensor_permute(square, (int32_t[]){1, 0}, &across));
  thread_watcher_set(&c.watcher);
  ok(tn_tensor_write(NULL, x, zeros, sizeof zeros));
  ck_assert_int_eq(c.writes, 1);
  ck_assert_ptr_eq(c.into, x);
  ok(tn_tensor_write(NULL, across, zeros, sizeof zeros)); /* through a copy, which is no call */
  ck_assert_int_eq(c.writes, 2);
  ck_assert_ptr_eq(c.into, across);
  ok(tn_tensor_to_host(across, read, sizeof read));
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(6), zeros, &made)); /* new: nobody's yet */
  refused(tn_tensor_write(NULL, x, zeros, 4), TN_ERR_INVALID_ARGUMENT, "4 bytes given");
  refused(tn_tensor_write(NULL, NULL, zeros, 4), TN_ERR_INVALID_ARGUMENT, "the tensor is NULL");
  ck_assert_int_eq(c.writes, 2);
  ck_assert_int_eq(c.calls, 0);
  c.answer = TN_ERR_NOT_READY;
  ck_assert_int_eq(tn_tensor_write(NULL, x, (float[]){1, 1, 1, 1, 1, 1}, 24), TN_ERR_NOT_READY);
  thread_watcher_set(NULL);
  ok(tn_tensor_to_host(x, read, sizeof read));
  ck_assert(memcmp(read, zeros, sizeof read) == 0);
  tn_tensor_release(x);
  tn_tensor_release(square);
  tn_tensor_release(across);
  tn_tensor_release(made);
}
END_TEST

/* --- what runs without a call --- */

static void prepared_calls_of(tn_runtime *runtime, tn_device *on, tn_tensor *x) {
  counter c = counter_of(runtime);
  const char *why = "calls on device";
  tn_tensor *y = NULL;
  tn_prepared *p = prepare_add(x, &y), *other = NULL;
  const tn_tensor *in[2] = {x, x};
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_ADD, .in = in, .out = &y, .num_in = 2};
  call.num_out = 1;
  thread_watcher_set(&c.watcher);
  refused(tn_run(p), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepared_set_attrs(p, NULL), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepare(&call, &other), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepare_candidate(&call, 1, &other), TN_ERR_UNSUPPORTED, why);
  ck_assert_ptr_null(other);
  thread_watcher_pause(true);
  ok(tn_run(p));
  ok(tn_prepare(&call, &other));
  thread_watcher_pause(false);
  ck_assert_int_eq(c.calls, 0);
  thread_watcher_set(NULL);
  ok(tn_run(p));
  ok(tn_run(other));
  ok(tn_device_synchronize(on));
  tn_prepared_release(p);
  tn_prepared_release(other);
  tn_tensor_release(y);
}

START_TEST(prepared_calls_are_refused) {
  tn_tensor *x = counting(device, 4);
  prepared_calls_of(rt, device, x);
  tn_tensor_release(x);
}
END_TEST

START_TEST(prepared_calls_that_fall_back_are_too) {
  tn_runtime *two = open_with("reference", NULL);
  ok(tn_runtime_load_plugin(two, SIM_PLUGIN));
  tn_device *sim = NULL;
  ok(tn_device_find(two, "sim:0", &sim));
  const int64_t size = 4;
  tn_tensor *x = shaped(sim, TN_F64, 1, &size);
  ok(tn_tensor_write(NULL, x, (double[]){1, 2, 3, 4}, 32));
  prepared_calls_of(two, sim, x);
  tn_tensor_release(x);
  tn_runtime_close(two);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, calls_are_seen_and_run);
  tcase_add_test(t, every_kind_of_call_is_seen_once);
  tcase_add_test(t, a_call_can_become_another);
  tcase_add_test(t, refusals_are_the_callers);
  tcase_add_test(t, paused_it_sees_nothing);
  tcase_add_test(t, watchers_take_turns);
  tcase_add_test(t, writes_are_told);
  tcase_add_test(t, prepared_calls_are_refused);
  tcase_add_test(t, prepared_calls_that_fall_back_are_too);
}

int main(void) { return run_suite("watch", add_tests); }
