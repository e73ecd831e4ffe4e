/*
 * Layers through the public door: which notices they get, in which order and about what,
 * and what becomes of a tensor that is used after its release while they are on.
 */
#include <stdio.h>

#include "support.h"

enum { LINES = 4096, LINE = 160 };

typedef struct notebook {
  char line[LINES][LINE];
  size_t count;
} notebook;

static notebook book;

static void write_down(void *user, tn_log_level level, const char *line) {
  notebook *n = user;
  (void)level;
  const char *text = strstr(line, "note ");
  if (!text) text = strstr(line, "call ");
  if (text && n->count < LINES) snprintf(n->line[n->count++], LINE, "%s", text);
}

static tn_runtime *open_noted(const char *device) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = device,
                                .layers = "notes",
                                .plugin_path = NOTES_PLUGIN ":" SIM_PLUGIN,
                                .log = write_down,
                                .log_user = &book,
                                .fallback = TN_FALLBACK_ALLOW,
                                .log_level = TN_LOG_INFO + 1};
  book.count = 0;
  return open_runtime(&options);
}

/* The notices since the last look, cut behind the words that the expectation has. */
static void told(const char *const *expected) {
  size_t count = 0;
  for (; expected[count]; ++count) {
    ck_assert_msg(count < book.count, "'%s' is missing", expected[count]);
    ck_assert_msg(strncmp(book.line[count], expected[count], strlen(expected[count])) == 0,
                  "notice %zu: '%s' where '%s' is due", count, book.line[count], expected[count]);
  }
  ck_assert_msg(count == book.count, "'%s' is one too many", book.line[count]);
  book.count = 0;
}
#define TOLD(...) told((const char *const[]){__VA_ARGS__, NULL})

static size_t times_told(const char *words) {
  size_t n = 0;
  for (size_t i = 0; i < book.count; ++i) n += strstr(book.line[i], words) != NULL;
  return n;
}

/* Numbers: 1 is the default stream, tensors and the like follow as they appear. */
START_TEST(tensors_are_told) {
  tn_runtime *runtime = open_noted("sim:0");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x, *view, *y = NULL;
  float values[4] = {0};
  TOLD("note stream_made stream 1 object 0 rank -1 bytes 0 site -");
  tn_call_site("here");
  x = counting(device, 4);
  tn_call_site(NULL);
  TOLD("note made stream 1 object 2 rank 1 bytes 16 site here",
       "note written stream 1 object 2 rank 1 bytes 16 site here");
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 2), &view));
  TOLD("note made stream 0 object 3 rank 2 bytes 16 site -");
  ok(tn_add(NULL, x, x, &y));
  TOLD("note made stream 1 object 4 rank 1 bytes 16", "call add sim stream 1 site -");
  ok(tn_tensor_to_host(y, values, sizeof values));
  TOLD("note read stream 1 object 4", "note stream_waited stream 1", "note stream_waited stream 1");
  ck_assert_float_eq(values[3], 8);
  tn_tensor_release(x);
  TOLD("note released stream 0 object 2 rank 1 bytes 16");
  tn_tensor_release(view);
  TOLD("note released stream 0 object 3", "note memory_released stream 0 object 0");
  tn_tensor_release(y);
  TOLD("note released", "note memory_released");
  tn_runtime_close(runtime);
  TOLD("note stream_waited", "note closing");
}
END_TEST

START_TEST(streams_and_events_are_told) {
  tn_runtime *runtime = open_noted("sim:0");
  tn_device *device = tn_runtime_device(runtime);
  tn_stream *stream;
  tn_event *event;
  book.count = 0;
  ok(tn_stream_create(device, &stream));
  ok(tn_event_create(device, &event));
  TOLD("note stream_made stream 2 object 3", "note event_made stream 0 object 4");
  ok(tn_event_query(event));
  ok(tn_stream_wait_event(stream, event));
  ck_assert_uint_eq(book.count, 0); /* an event never recorded orders nothing */
  ok(tn_event_record(event, stream));
  ok(tn_stream_wait_event(NULL, event));
  TOLD("note event_recorded stream 2 object 4", "note stream_ordered stream 1 object 4");
  ok(tn_event_query(event));
  ok(tn_event_synchronize(event));
  TOLD("note event_passed stream 0 object 4", "note event_passed stream 0 object 4");
  ok(tn_device_synchronize(device));
  TOLD("note stream_waited stream 1", "note stream_waited stream 2");
  tn_event_destroy(event);
  tn_stream_destroy(stream);
  TOLD("note event_destroyed stream 0 object 4", "note stream_waited stream 2",
       "note stream_destroyed stream 2 object 3");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(prepared_calls_and_pinned_memory_are_told) {
  tn_runtime *runtime = open_noted("sim:0");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = counting(device, 4), *y = NULL;
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .out = &y, .num_in = 2, .num_out = 1};
  call.in = (const tn_tensor *[]){x, x};
  tn_prepared *prepared;
  void *pinned;
  ok(tn_prepare(&call, &prepared));
  book.count = 0;
  ok(tn_run(prepared));
  TOLD("call add sim stream 1");
  ok(tn_pinned_alloc(device, 16, &pinned));
  ok(tn_tensor_read(NULL, y, pinned, 16));
  TOLD("note pinned_made stream 0 object 5 rank -1 bytes 16", "note read stream 1");
  tn_pinned_free(device, pinned);
  tn_prepared_release(prepared);
  TOLD("note pinned_freed stream 0 object 5", "note prepared_released stream 0 object 4");
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(fallbacks_and_strided_calls_pass_through_layers) {
  tn_runtime *runtime = open_noted("sim:0");
  tn_tensor *x = counting(tn_runtime_device(runtime), 4), *y = NULL, *half, *z = NULL;
  ok(tn_neg(NULL, x, &y));
  ck_assert_uint_eq(times_told("call neg sim"), 0);
  ck_assert_uint_eq(times_told("call neg "), 1);
  ok(tn_tensor_slice(x, 0, 0, 4, 2, &half));
  book.count = 0;
  ok(tn_add(NULL, half, half, &z)); /* its kernel takes contiguous tensors only */
  ck_assert_uint_eq(times_told("call copy sim"), 2);
  ck_assert_uint_eq(times_told("call add sim"), 1);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(half);
  tn_tensor_release(z);
  book.count = 0;
  tn_runtime_close(runtime);
  ck_assert_uint_eq(times_told("released"), 0);
}
END_TEST

#define USED "is used after its release"

START_TEST(released_tensors_are_refused) {
  tn_runtime *runtime = open_noted("reference:0");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x, *y = counting(device, 2), *z = NULL;
  tn_prepared *prepared;
  float values[2] = {0};
  DLManagedTensorVersioned *managed;
  tn_call_site("attic.c:1");
  x = counting(device, 2);
  tn_call_site("cellar.c:2");
  tn_tensor_release(x);
  tn_call_site("kitchen.c:3");
  refused(tn_add(NULL, x, y, &z), TN_ERR_INVALID_ARGUMENT,
          "tn_add: the tensor (reference:0 f32 [2], made at attic.c:1) is used after its release "
          "at cellar.c:2");
  refused(tn_add(NULL, y, x, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_add(NULL, x, x, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_add(NULL, y, y, &x), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_to_host(x, values, sizeof values), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_write(NULL, x, values, sizeof values), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_read(NULL, x, values, sizeof values), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_to_device(x, device, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_reshape(x, 1, SHAPE(2), &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_permute(x, (int32_t[]){0}, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_slice(x, 0, 0, 1, 1, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_split(x, 0, 2, NULL, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_expand(x, 1, SHAPE(2), &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_contiguous(NULL, x, &z), TN_ERR_INVALID_ARGUMENT, USED);
  refused(tn_tensor_to_dlpack(x, &managed), TN_ERR_INVALID_ARGUMENT, USED);
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .out = &z, .num_in = 1, .num_out = 1};
  call.in = (const tn_tensor *[]){x};
  refused(tn_prepare(&call, &prepared), TN_ERR_INVALID_ARGUMENT, USED);
  ck_assert_uint_eq(times_told("note misused stream 0"), 16);
  ck_assert_uint_eq(times_told("site kitchen.c:3"), 16);
  tn_tensor_release(x); /* once more */
  ck_assert_uint_eq(times_told("note misused"), 17);
  ck_assert_int_eq(tn_tensor_rank(x), 0);
  ck_assert_ptr_null(tn_tensor_data(x));
  refused(tn_device_synchronize(tn_tensor_device(x)), TN_ERR_INVALID_ARGUMENT, USED);
  tn_call_site(NULL);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(a_prepared_call_finds_its_tensor_released_once_too_often) {
  tn_runtime *runtime = open_noted("reference:0");
  tn_tensor *x = counting(tn_runtime_device(runtime), 2), *y = NULL;
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .out = &y, .num_in = 1, .num_out = 1};
  call.in = (const tn_tensor *[]){x};
  tn_prepared *prepared;
  ok(tn_prepare(&call, &prepared));
  ok(tn_run(prepared));
  tn_tensor_release(x);
  ok(tn_run(prepared));
  tn_tensor_release(x);
  refused(tn_run(prepared), TN_ERR_INVALID_ARGUMENT, USED);
  tn_tensor_release(y);
  book.count = 0;
  tn_prepared_release(prepared);
  ck_assert_uint_eq(times_told("note misused"), 1);
  tn_runtime_close(runtime);
}
END_TEST

/* Headers are kept for a while only; those of tensors that live on are not touched. */
START_TEST(kept_headers_are_bounded) {
  tn_runtime *runtime = open_noted("reference:0");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *kept = counting(device, 2), *last = NULL;
  for (int i = 0; i < 10000; ++i) {
    last = shaped(device, TN_F32, 1, SHAPE(i % 7));
    tn_tensor_retain(last);
    tn_tensor_release(last);
    tn_tensor_release(last);
  }
  float values[2];
  refused(tn_tensor_to_host(last, values, 0), TN_ERR_INVALID_ARGUMENT, USED);
  ok(tn_tensor_to_host(kept, values, sizeof values));
  tn_runtime_close(runtime);
  refused(tn_tensor_to_host(kept, values, sizeof values), TN_ERR_CLOSED, "closed");
  tn_tensor_release(kept);
}
END_TEST

START_TEST(layers_are_listed) {
  tn_runtime *runtime = open_noted("reference:0");
  tn_layer_info info = {.struct_size = sizeof info};
  size_t found = 0;
  for (size_t i = 0; !tn_layer_at(runtime, i, &info); ++i) {
    bool notes = !strcmp(info.name, "notes");
    found += notes;
    ck_assert_uint_eq(info.place, notes);
    if (notes) ck_assert_str_eq(info.plugin, "notes");
    if (notes) ck_assert_str_eq(info.description, "a fixture that logs what it is told");
  }
  ck_assert_uint_eq(found, 1);
  refused(tn_layer_at(runtime, 1000, &info), TN_ERR_NOT_FOUND, "fewer layers than 1000");
  tn_runtime_close(runtime);
  tn_runtime_options options = {.struct_size = sizeof options, .layers = "nots"};
  refused(tn_runtime_open(&options, &runtime), TN_ERR_NOT_FOUND, "no plugin brings a layer 'nots'");
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, layers_are_listed);
  tcase_add_test(tcase, tensors_are_told);
  tcase_add_test(tcase, streams_and_events_are_told);
  tcase_add_test(tcase, prepared_calls_and_pinned_memory_are_told);
  tcase_add_test(tcase, fallbacks_and_strided_calls_pass_through_layers);
  tcase_add_test(tcase, released_tensors_are_refused);
  tcase_add_test(tcase, a_prepared_call_finds_its_tensor_released_once_too_often);
  tcase_add_test(tcase, kept_headers_are_bounded);
}

int main(void) { return run_suite("layers", add_tests); }
