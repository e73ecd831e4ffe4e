/* Tensors exchanged by DLPack with work on streams of the vendor's: who waits for whom, when memory
 * goes back, and an exchange table as bindings write it. */
#include "tests/foreign.h"

START_TEST(export_is_ordered_before_the_consumer) {
  tn_stream *ours = new_stream(), *theirs = new_stream();
  DLManagedTensorVersioned *given = NULL;
  tn_tensor *x = NULL, *y = NULL;
  bool overtaken = false;
  for (int i = 0; i < CHANCES && !overtaken; ++i) {
    tn_tensor_release(x);
    x = busy(ours);
    ok(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &given));
    overtaken = overtakes(theirs, mark(ours));
    given->deleter(given);
  }
  ck_assert(overtaken);
  tn_tensor_release(x);
  x = busy(ours);
  tn_event *done = mark(ours);
  ok(tn_tensor_to_dlpack_stream(x, NULL, tn_stream_to_dlpack(theirs), &given));
  ck_assert(!overtakes(theirs, done));
  ok(tn_tensor_from_dlpack(rt, given, &y));
  expect_sums(y, theirs);
  tn_tensor_release(x), tn_tensor_release(y);
  tn_stream_destroy(ours), tn_stream_destroy(theirs);
}
END_TEST

START_TEST(export_of_the_old_struct) {
  tn_stream *ours = new_stream(), *theirs = new_stream();
  DLManagedTensor *given = NULL, *none = NULL;
  tn_tensor *x = busy(ours), *y = NULL, *fixed = NULL;
  int64_t number = tn_stream_to_dlpack(theirs);
  tn_event *done = mark(ours);
  ok(tn_tensor_to_dlpack_stream_unversioned(x, NULL, number, &given));
  ck_assert(!overtakes(theirs, done));
  ok(tn_tensor_from_dlpack_unversioned(rt, given, &y));
  expect_sums(y, theirs);
  ok(tn_scalar(dev, NULL, TN_F32, 1, &fixed));
  refused(tn_tensor_to_dlpack_stream_unversioned(fixed, NULL, number, &none), TN_ERR_UNSUPPORTED,
          "read-only");
  refused(tn_tensor_to_dlpack_stream_unversioned(x, NULL, number, NULL), TN_ERR_INVALID_ARGUMENT,
          "managed");
  refused(tn_tensor_to_dlpack_stream_unversioned(x, NULL, -9, &none), TN_ERR_INVALID_ARGUMENT,
          "-9");
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(fixed);
  tn_stream_destroy(ours), tn_stream_destroy(theirs);
}
END_TEST

START_TEST(export_to_our_own_stream_does_nothing) {
  tn_stream *ours = new_stream();
  DLManagedTensorVersioned *given = NULL;
  tn_tensor *x = NULL;
  bool waited = true;
  for (int i = 0; i < CHANCES && waited; ++i) {
    tn_tensor_release(x);
    x = busy(ours);
    tn_event *done = mark(ours);
    ok(tn_tensor_to_dlpack_stream(x, ours, tn_stream_to_dlpack(ours), &given));
    waited = has_passed(done);
    tn_event_destroy(done);
    given->deleter(given);
  }
  ck_assert(!waited);
  expect_sums(x, ours);
  tn_tensor_release(x);
  tn_stream_destroy(ours);
}
END_TEST

/* A vendor without a default stream: the caller waits. */
START_TEST(export_to_no_stream_waits) {
  tn_stream *ours = new_stream();
  DLManagedTensorVersioned *given = NULL;
  tn_tensor *x = busy(ours);
  tn_event *done = mark(ours);
  ok(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_NONE, &given));
  ck_assert(has_passed(done));
  tn_event_destroy(done);
  given->deleter(given);
  tn_tensor_release(x);
  tn_stream_destroy(ours);
}
END_TEST

START_TEST(import_is_ordered_behind_the_producer) {
  tn_stream *ours = new_stream(), *theirs = new_stream();
  DLManagedTensorVersioned *given = NULL;
  tn_tensor *x = busy(theirs), *y = NULL, *z = NULL;
  tn_event *done = mark(theirs);
  ok(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &given));
  ok(tn_tensor_from_dlpack_stream(rt, given, ours, tn_stream_to_dlpack(theirs), &y));
  ck_assert(!overtakes(ours, done));
  ok(tn_maximum(ours, y, y, &z));
  expect_sums(z, ours);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
  tn_stream_destroy(ours), tn_stream_destroy(theirs);
}
END_TEST

/* What is done without a stream comes behind the producer too, and still does when the stream is
 * gone. */
START_TEST(import_knows_its_stream) {
  static float got[SIDE * SIDE];
  tn_stream *ours = new_stream(), *theirs = new_stream(), *third = new_stream();
  int64_t producer = tn_stream_to_dlpack(theirs), consumer = tn_stream_to_dlpack(third);
  for (int i = 0; i < TRIES; ++i) {
    DLManagedTensorVersioned *given = NULL, *again = NULL;
    tn_tensor *x = busy(theirs), *y = NULL, *z = NULL;
    tn_event *done = mark(theirs);
    ok(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &given));
    ok(tn_tensor_from_dlpack_stream(rt, given, ours, producer, &y));
    if (i % 2) {
      ok(tn_tensor_to_dlpack_stream(y, NULL, consumer, &again));
      ck_assert(!overtakes(third, done));
      again->deleter(again);
    } else {
      ok(tn_tensor_to_host(y, got, sizeof got));
      ck_assert(has_passed(done) && got[0] == SIDE && got[SIDE * SIDE - 1] == SIDE);
      tn_event_destroy(done);
    }
    if (i == TRIES - 1) {
      tn_stream_destroy(ours), ours = NULL;
      ok(tn_tensor_to_device(y, dev, &z));
      expect_sums(z, tn_device_default_stream(dev));
    }
    tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
  }
  tn_stream_destroy(theirs), tn_stream_destroy(third);
}
END_TEST

/* A producer that looks, when it gets its memory back, whether the event has passed. */
typedef struct lender {
  DLManagedTensorVersioned lent, *inner;
  tn_event *done;
  bool passed;
} lender;

static void take_back(DLManagedTensorVersioned *lent) {
  lender *l = lent->manager_ctx;
  l->passed = has_passed(l->done);
  l->inner->deleter(l->inner);
}

START_TEST(import_is_given_back_when_work_on_it_is_done) {
  tn_stream *ours = new_stream();
  for (int i = 0; i < TRIES; ++i) {
    lender l = {.done = NULL};
    tn_tensor *x = busy(NULL), *y = NULL, *z = NULL;
    ok(tn_tensor_to_dlpack(x, &l.inner));
    l.lent = *l.inner;
    l.lent.manager_ctx = &l;
    l.lent.deleter = take_back;
    ok(tn_device_synchronize(dev));
    ok(tn_tensor_from_dlpack(rt, &l.lent, &y));
    ok(tn_matmul(ours, y, y, NULL, NULL, &z));
    l.done = mark(ours);
    tn_tensor_release(y);
    ck_assert(l.passed);
    tn_event_destroy(l.done);
    tn_tensor_release(x), tn_tensor_release(z);
  }
  tn_stream_destroy(ours);
}
END_TEST

static int races;
static void count_races(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  races += strstr(line, "validate: race") != NULL;
}

/* One stream of the runtime works on a tensor and hands it to another: which side orders the two,
 * if any does. */
START_TEST(layers_see_the_order) {
  enum { NOBODY, PRODUCER, CONSUMER, WRAPPED, SIDES };
  for (int side = NOBODY; side < SIDES; ++side) {
    tn_runtime_options options = {.struct_size = sizeof options,
                                  .device = "sim",
                                  .plugin_path = TEMPLATE_PLUGIN,
                                  .layers = "validate",
                                  .log = count_races,
                                  .log_level = TN_LOG_INFO + 1,
                                  .fallback = TN_FALLBACK_ALLOW};
    tn_runtime *watched = open_runtime(&options);
    tn_device *d = tn_runtime_device(watched);
    tn_stream *ours = NULL, *theirs = NULL, *wrapped = NULL;
    DLManagedTensorVersioned *given = NULL;
    tn_tensor *x = NULL, *y = NULL, *z = NULL;
    races = 0;
    ok(tn_stream_create(d, &ours));
    ok(tn_stream_create(d, &theirs));
    ok(tn_stream_wrap(d, tn_stream_native(theirs), &wrapped));
    int64_t from = tn_stream_to_dlpack(ours), to = tn_stream_to_dlpack(theirs);
    ok(tn_ones(d, ours, TN_F32, 1, SHAPE(10), &x));
    ok(tn_tensor_to_dlpack_stream(
        x, NULL, side == PRODUCER || side == WRAPPED ? to : TN_DLPACK_STREAM_UNORDERED, &given));
    ok(tn_tensor_from_dlpack_stream(watched, given, theirs,
                                    side == CONSUMER ? from : TN_DLPACK_STREAM_UNORDERED, &y));
    ok(tn_maximum(side == WRAPPED ? wrapped : theirs, y, y, &z));
    ck_assert_msg((races > 0) == (side == NOBODY), "side %d: %d races", side, races);
    ok(tn_device_synchronize(d));
    tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
    tn_stream_destroy(wrapped), tn_stream_destroy(ours), tn_stream_destroy(theirs);
    tn_runtime_close(watched);
  }
}
END_TEST

START_TEST(bad_exchanges_are_refused) {
  tn_stream *elsewhere = NULL;
  tn_device *second = NULL;
  DLManagedTensorVersioned *given = NULL, *none = NULL;
  tn_tensor *x = counting(dev, 4), *y = NULL;
  ok(tn_device_find(rt, "sim:1", &second));
  ok(tn_stream_create(second, &elsewhere));
  int64_t theirs = tn_stream_to_dlpack(elsewhere);
  refused(tn_tensor_to_dlpack_stream(x, NULL, -2, &none), TN_ERR_INVALID_ARGUMENT,
          "-2 is no stream");
  refused(tn_tensor_to_dlpack_stream(x, elsewhere, -1, &none), TN_ERR_INVALID_ARGUMENT,
          "another device");
  refused(tn_tensor_to_dlpack_stream(x, NULL, theirs, &none), TN_ERR_INVALID_ARGUMENT,
          "another chip");
  refused(tn_tensor_to_dlpack_stream(x, NULL, -1, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_tensor_to_dlpack_stream(NULL, NULL, -1, &none), TN_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_ptr_null(none);
  ok(tn_tensor_to_dlpack(x, &given));
  refused(tn_tensor_from_dlpack_stream(rt, given, NULL, theirs, &y), TN_ERR_INVALID_ARGUMENT,
          "another chip");
  refused(tn_tensor_from_dlpack_stream(rt, given, elsewhere, 5000, &y), TN_ERR_INVALID_ARGUMENT,
          "another device");
  refused(tn_tensor_from_dlpack_stream(rt, given, elsewhere, TN_DLPACK_STREAM_NONE, &y),
          TN_ERR_INVALID_ARGUMENT, "another device");
  refused(tn_tensor_from_dlpack_stream(rt, given, NULL, -7, &y), TN_ERR_INVALID_ARGUMENT, "-7");
  refused(tn_tensor_from_dlpack_stream(rt, NULL, NULL, -1, &y), TN_ERR_INVALID_ARGUMENT, "NULL");
  given->version.major = 2;
  refused(tn_tensor_from_dlpack_stream(rt, given, NULL, theirs, &y), TN_ERR_UNSUPPORTED, "2.");
  given->version.major = 1;
  given->deleter(given); /* it was never taken */
  tn_tensor_release(x);
  tn_stream_destroy(elsewhere);
}
END_TEST

/* Every device exports to a consumer without streams, whose memory is then of now. */
START_TEST(export_without_streams) {
  tn_runtime *other = open_every(_i);
  tn_device *d = tn_runtime_device(other), *found = NULL;
  tn_device_info info = {.struct_size = sizeof info};
  DLManagedTensorVersioned *given = NULL;
  DLTensor view;
  tn_tensor *x = counting(d, 4), *y = NULL, *z = NULL;
  float got[4];
  ok(tn_device_get_info(d, &info));
  ok(tn_device_find_dlpack(other, info.dl_device, &found));
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_to_dlpack_stream(y, NULL, TN_DLPACK_STREAM_NONE, &given));
  ok(tn_tensor_dlpack_view(y, &view));
  ck_assert_ptr_eq(view.data, given->dl_tensor.data);
  if (info.host_memory) {
    memcpy(got, (char *)given->dl_tensor.data + given->dl_tensor.byte_offset, sizeof got);
    ck_assert(got[0] == 2 && got[3] == 8);
    refused(tn_tensor_to_dlpack_stream(y, NULL, 1, &given), TN_ERR_UNSUPPORTED, "takes no streams");
  }
  if (found == d) {
    ok(tn_tensor_from_dlpack_stream(other, given, NULL, TN_DLPACK_STREAM_NONE, &z));
    ok(tn_tensor_to_host(z, got, sizeof got));
    ck_assert(got[0] == 2 && got[3] == 8);
    tn_tensor_release(z);
  } else {
    given->deleter(given); /* devices of a fixture that share their number */
  }
  tn_tensor_release(x), tn_tensor_release(y);
  tn_runtime_close(other);
}
END_TEST

/* --- an exchange table, as a binding for Python writes it --- */

/* DLPack 1.3's, whose header has more. */
typedef struct exchange_api {
  int (*allocate)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                  void (*set_error)(void *error_ctx, const char *kind, const char *message));
  int (*export_object)(void *object, DLManagedTensorVersioned **out);
  int (*import_object)(DLManagedTensorVersioned *tensor, void **object);
  int (*view_object)(void *object, DLTensor *out);
  int (*current_work_stream)(DLDeviceType type, int32_t id, void **stream);
} exchange_api;

static int allocate(DLTensor *p, DLManagedTensorVersioned **out, void *ctx,
                    void (*set_error)(void *, const char *, const char *)) {
  tn_device *device;
  tn_tensor *t = NULL;
  tn_status s = tn_device_find_dlpack(rt, p->device, &device);
  if (!s) s = tn_tensor_empty(device, tn_dtype_from_dlpack(p->dtype), p->ndim, p->shape, &t);
  if (!s) s = tn_tensor_to_dlpack_stream(t, NULL, TN_DLPACK_STREAM_UNORDERED, out);
  if (s) set_error(ctx, "MemoryError", tn_last_error());
  tn_tensor_release(t);
  return s ? -1 : 0;
}
static int export_object(void *object, DLManagedTensorVersioned **out) {
  return tn_tensor_to_dlpack_stream(object, NULL, TN_DLPACK_STREAM_UNORDERED, out) ? -1 : 0;
}
static int import_object(DLManagedTensorVersioned *managed, void **object) {
  return tn_tensor_from_dlpack(rt, managed, (tn_tensor **)object) ? -1 : 0;
}
static int view_object(void *object, DLTensor *out) {
  return tn_tensor_dlpack_view(object, out) ? -1 : 0;
}
static int current_work_stream(DLDeviceType type, int32_t id, void **stream) {
  tn_device *device;
  if (tn_device_find_dlpack(rt, (DLDevice){type, id}, &device)) return -1;
  *stream = tn_stream_native(tn_device_default_stream(device));
  return 0;
}
static const exchange_api api = {allocate, export_object, import_object, view_object,
                                 current_work_stream};

static const char *said;
static void set_error(void *ctx, const char *kind, const char *message) {
  (void)ctx, (void)message;
  said = kind;
}

START_TEST(an_exchange_table) {
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(dev, &info));
  DLTensor prototype = {.device = info.dl_device, .ndim = 1, .shape = SHAPE(5)}, view;
  prototype.dtype = tn_dtype_to_dlpack(TN_F16);
  DLManagedTensorVersioned *made = NULL, *again = NULL;
  void *object = NULL, *stream = NULL;
  ck_assert_int_eq(api.allocate(&prototype, &made, NULL, set_error), 0);
  ck_assert_int_eq(api.import_object(made, &object), 0);
  ck_assert_int_eq(tn_tensor_dtype(object), TN_F16);
  ck_assert_int_eq(api.view_object(object, &view), 0);
  ck_assert_int_eq(view.shape[0], 5);
  ck_assert_int_eq(api.export_object(object, &again), 0);
  ck_assert_ptr_eq(again->dl_tensor.data, view.data);
  again->deleter(again);
  ck_assert_int_eq(api.current_work_stream(info.dl_device.device_type, 0, &stream), 0);
  ck_assert_ptr_eq(stream, tn_stream_native(tn_device_default_stream(dev)));
  ck_assert_int_eq(api.current_work_stream(kDLHexagon, 0, &stream), -1);
  prototype.dtype.lanes = 4;
  ck_assert_int_eq(api.allocate(&prototype, &made, NULL, set_error), -1);
  ck_assert_str_eq(said, "MemoryError");
  tn_tensor_release(object);
}
END_TEST

START_TEST(element_types) {
  for (int d = TN_DTYPE_NONE; d < TN_DTYPE_SLOTS; ++d) {
    DLDataType type = tn_dtype_to_dlpack((tn_dtype)d);
    ck_assert_uint_eq(type.bits, 8 * tn_dtype_size((tn_dtype)d));
    ck_assert_int_eq(tn_dtype_from_dlpack(type), tn_dtype_size((tn_dtype)d) ? d : TN_DTYPE_NONE);
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, export_is_ordered_before_the_consumer);
  tcase_add_test(t, export_of_the_old_struct);
  tcase_add_test(t, export_to_our_own_stream_does_nothing);
  tcase_add_test(t, export_to_no_stream_waits);
  tcase_add_test(t, import_is_ordered_behind_the_producer);
  tcase_add_test(t, import_knows_its_stream);
  tcase_add_test(t, import_is_given_back_when_work_on_it_is_done);
  tcase_add_test(t, layers_see_the_order);
  tcase_add_test(t, bad_exchanges_are_refused);
  tcase_add_loop_test(t, export_without_streams, 0, EVERY_DEVICE);
  tcase_add_test(t, an_exchange_table);
  tcase_add_test(t, element_types);
}

int main(void) { return run_suite("exchange", add_tests); }
