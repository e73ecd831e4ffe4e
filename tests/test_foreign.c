/* Streams around handles of the vendor's: order, memory, layers, and what cannot be taken. */
#include "tests/foreign.h"

START_TEST(work_of_both_is_in_order) {
  tn_stream *theirs = new_stream(), *ours = NULL, *other = new_stream();
  ok(tn_stream_wrap(dev, tn_stream_native(theirs), &ours));
  ck_assert_ptr_ne(ours, theirs);
  ck_assert_ptr_eq(tn_stream_native(ours), tn_stream_native(theirs));
  ck_assert_ptr_eq(tn_stream_device(ours), dev);
  tn_tensor *y = busy(theirs), *z = NULL;
  ck_assert(!overtakes(ours, mark(theirs)));
  bool overtaken = false;
  for (int i = 0; i < CHANCES && !overtaken; ++i) {
    tn_tensor_release(y);
    y = busy(theirs);
    overtaken = overtakes(other, mark(theirs));
  }
  ck_assert(overtaken);
  ok(tn_maximum(ours, y, y, &z));
  expect_sums(z, ours);
  tn_tensor_release(y), tn_tensor_release(z);
  y = busy(ours);
  ck_assert(!overtakes(theirs, mark(ours)));
  expect_sums(y, theirs);
  tn_tensor_release(y);
  tn_stream_destroy(ours);
  y = busy(theirs); /* which is as it was */
  expect_sums(y, theirs);
  tn_tensor_release(y);
  tn_stream_destroy(theirs), tn_stream_destroy(other);
}
END_TEST

/* Memory released on the stream is reused there at once, though work on it is pending. */
START_TEST(memory_is_reused_in_order) {
  tn_stream *theirs = new_stream(), *ours = NULL;
  ok(tn_stream_wrap(dev, tn_stream_native(theirs), &ours));
  tn_tensor *first = busy(ours);
  void *place = tn_tensor_data(first);
  tn_tensor_release(first);
  tn_tensor *second = busy(ours);
  tn_tensor *third = NULL;
  ok(tn_tensor_empty_on(dev, ours, TN_F32, 2, SHAPE(SIDE, SIDE), &third));
  ck_assert(tn_tensor_data(second) == place || tn_tensor_data(third) == place);
  expect_sums(second, ours);
  tn_tensor_release(second), tn_tensor_release(third);
  tn_stream_destroy(ours), tn_stream_destroy(theirs);
}
END_TEST

START_TEST(handles_that_cannot_be_taken) {
  tn_stream *ours = NULL, *elsewhere = NULL;
  tn_device *second = NULL;
  ok(tn_device_find(rt, "sim:1", &second));
  ok(tn_stream_create(second, &elsewhere));
  refused(tn_stream_wrap(dev, NULL, &ours), TN_ERR_UNSUPPORTED, "no default queue");
  refused(tn_stream_wrap(dev, tn_stream_native(elsewhere), &ours), TN_ERR_INVALID_ARGUMENT,
          "tn_stream_wrap: the queue is of another chip");
  refused(tn_stream_wrap(NULL, NULL, &ours), TN_ERR_INVALID_ARGUMENT, "tn_stream_wrap");
  refused(tn_stream_wrap(dev, NULL, NULL), TN_ERR_INVALID_ARGUMENT, "tn_stream_wrap");
  ck_assert_ptr_null(ours);
  tn_stream_destroy(elsewhere);
}
END_TEST

START_TEST(devices_that_take_none) {
  tn_runtime *other = open_every(_i);
  tn_device *d = tn_runtime_device(other);
  tn_stream *ours = NULL;
  int handle = 0;
  if (strcmp(every_device[_i].plugin, TEMPLATE_PLUGIN) == 0) {
    tn_runtime_close(other);
    return;
  }
  refused(tn_stream_wrap(d, &handle, &ours), TN_ERR_UNSUPPORTED, "tn_stream_wrap: device");
  if (tn_stream_native(tn_device_default_stream(d)) || tn_stream_wrap(d, NULL, &ours)) {
    ck_assert(strstr(tn_last_error(), "takes no streams") || !ours);
  } else { /* it works in its caller: a stream like any other */
    tn_tensor *x = NULL;
    ok(tn_ones(d, ours, TN_F32, 0, NULL, &x));
    ok(tn_stream_synchronize(ours));
    tn_tensor_release(x);
    tn_stream_destroy(ours);
  }
  tn_runtime_close(other);
}
END_TEST

START_TEST(it_outlives_its_runtime) {
  tn_runtime *other = open_template("sim");
  tn_device *d = tn_runtime_device(other);
  tn_stream *theirs = NULL, *ours = NULL, *late = NULL;
  tn_tensor *x = NULL;
  ok(tn_stream_create(d, &theirs));
  ok(tn_stream_wrap(d, tn_stream_native(theirs), &ours));
  ok(tn_ones(d, ours, TN_F32, 1, SHAPE(1000), &x));
  tn_runtime_close(other);
  refused(tn_stream_synchronize(ours), TN_ERR_CLOSED, "closed");
  refused(tn_stream_wrap(d, NULL, &late), TN_ERR_CLOSED, "closed");
  ck_assert_ptr_null(tn_stream_native(ours));
  tn_stream_destroy(theirs);
  tn_stream_destroy(ours);
  tn_tensor_release(x);
}
END_TEST

START_TEST(layers_see_it) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = "sim",
                                .plugin_path = TEMPLATE_PLUGIN ":" NOTES_PLUGIN,
                                .layers = "notes",
                                .fallback = TN_FALLBACK_ALLOW};
  tn_runtime *watched = open_runtime(&options);
  tn_device *d = tn_runtime_device(watched);
  tn_stream *theirs = NULL, *ours = NULL;
  tn_tensor *x = NULL;
  ok(tn_stream_create(d, &theirs));
  ok(tn_stream_wrap(d, tn_stream_native(theirs), &ours));
  ok(tn_ones(d, ours, TN_F32, 1, SHAPE(10), &x));
  float got[10];
  ok(tn_tensor_to_host(x, got, sizeof got));
  ck_assert(got[9] == 1);
  tn_tensor_release(x);
  tn_stream_destroy(ours), tn_stream_destroy(theirs);
  tn_runtime_close(watched);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, work_of_both_is_in_order);
  tcase_add_test(t, memory_is_reused_in_order);
  tcase_add_test(t, handles_that_cannot_be_taken);
  tcase_add_loop_test(t, devices_that_take_none, 0, EVERY_DEVICE);
  tcase_add_test(t, it_outlives_its_runtime);
  tcase_add_test(t, layers_see_it);
}

int main(void) { return run_suite("foreign", add_tests); }
