/*
 * The layer validate beside races: numbers that are not finite, released tensors, outputs
 * over inputs, leaks, options. What the dispatcher itself refuses is put to the layer
 * directly, by a call as the dispatcher would make it.
 */
#include <math.h>
#include <pthread.h>

#include "validate_alone.h"

static tn_tensor *vector(tn_device *device, tn_dtype dtype, int64_t size, const void *values) {
  tn_tensor *t;
  ok(tn_tensor_from_host(device, dtype, 1, &size, values, &t));
  return t;
}
#define F32(device, ...)                                                                           \
  vector(device, TN_F32, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

/* --- numbers --- */

START_TEST(made_and_passed_on_are_told_apart) {
  tn_runtime *runtime = open_validated("reference:0", "finite");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = F32(device, 1, -1), *y = NULL, *z = NULL;
  tn_call_site("model.c:7");
  ok(tn_log(NULL, x, &y));
  SAID("non-finite: log at model.c:7 by reference.log made NaN in y (reference:0 f32 [2]) from "
       "finite inputs");
  said.count = 0;
  ok(tn_add(NULL, x, y, &z));
  SAID("passed on: add at model.c:7");
  SAID("its input b was not finite already");
  SILENT("non-finite:");
  said.count = 0;
  ok(tn_add(NULL, x, y, &z));
  ck_assert_uint_eq(said.count, 0); /* said once */
  tn_call_site(NULL);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
  tn_runtime_close(runtime);
  SAID("3 findings in all, of 2 sorts");
  SAID("2 x passed on: add at model.c:7");
}
END_TEST

START_TEST(in_place_calls_are_told_apart) {
  tn_runtime *runtime = open_validated("reference:0", "finite");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = F32(device, 4, -4), *big = F32(device, 3e38f, 1);
  ok(tn_sqrt(NULL, x, &x));
  SAID("non-finite: sqrt");
  said.count = 0;
  ok(tn_neg(NULL, x, &x));
  SAID("passed on: neg");
  SILENT("non-finite");
  said.count = 0;
  ok(tn_add(NULL, big, big, &big));
  SAID("made infinity in y");
  tn_tensor_release(x);
  tn_tensor_release(big);
  tn_runtime_close(runtime);
}
END_TEST

/* Every float type, dense, strided and read back from a device of its own memory. */
START_TEST(every_float_type_and_layout_is_read) {
  const uint16_t f16[] = {0x3c00, 0x7c00, 0x3c00, 0x7e01},
                 bf16[] = {0x3f80, 0x7f80, 0x3f80, 0x7fc1};
  const float f32[] = {1, INFINITY, 1, NAN};
  const double f64[] = {1, INFINITY, 1, NAN};
  const struct {
    tn_dtype dtype;
    const void *values;
  } cases[] = {{TN_F16, f16}, {TN_BF16, bf16}, {TN_F32, f32}, {TN_F64, f64}};
  for (size_t i = 0; i < 4; ++i) {
    tn_runtime *runtime = open_validated("reference:0", "finite");
    tn_device *device = tn_runtime_device(runtime);
    tn_tensor *x = vector(device, cases[i].dtype, 4, cases[i].values), *some, *y = NULL;
    for (int64_t first = 0; first < 2; ++first) {
      ok(tn_tensor_slice(x, 0, first, 4, 2, &some));
      tn_call_site(first ? "odd" : "even");
      ok(tn_copy(NULL, some, &y));
      tn_tensor_release(some);
      tn_tensor_release(y);
      y = NULL;
    }
    SAID("copy at odd by reference.copy has NaN");
    SILENT("copy at even");
    tn_call_site(NULL);
    tn_tensor_release(x);
    tn_runtime_close(runtime);
  }
}
END_TEST

START_TEST(device_memory_is_read_back) {
  tn_runtime *runtime = open_validated("sim:0", "finite");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = F32(device, 3e38f, 1), *y = NULL, *m = shaped(device, TN_F32, 2, SHAPE(2, 2)),
            *view;
  ok(tn_tensor_write(NULL, m, (float[]){0, 0, 0, 0}, 16));
  ok(tn_add(NULL, x, x, &y));
  SAID("non-finite: add by sim.add made infinity in y (sim:0 f32 [2])");
  said.count = 0;
  ok(tn_tensor_slice(m, 1, 0, 1, 1, &view));
  tn_tensor *flat;
  ok(tn_tensor_reshape(y, 2, SHAPE(2, 1), &flat));
  ok(tn_copy(NULL, flat, &view)); /* into every other element */
  SAID("passed on: copy");
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(m);
  tn_tensor_release(view);
  tn_tensor_release(flat);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(what_was_asked_for_is_no_finding) {
  tn_runtime *runtime = open_validated("reference:0", "finite");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *y = shaped(device, TN_F32, 1, SHAPE(4)), *x = F32(device, 3, 1, 3), *u = NULL;
  tn_tensor *counts = NULL, *number = NULL;
  ok(tn_fill(NULL, y, &(tn_fill_attrs){.struct_size = sizeof(tn_fill_attrs), .value = -INFINITY}));
  ok(tn_unique(NULL, x, &u, &counts, &number)); /* what lies behind its count is nothing */
  SILENT("finite");
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(u);
  tn_tensor_release(counts);
  tn_tensor_release(number);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(error_makes_the_call_fail) {
  tn_runtime *runtime = open_validated("reference:0", "error");
  tn_tensor *x = F32(tn_runtime_device(runtime), -1), *y = NULL;
  refused(tn_log(NULL, x, &y), TN_ERR_INVALID_ARGUMENT, "made NaN in y");
  ck_assert_ptr_null(y);
  refused(tn_log(NULL, x, &y), TN_ERR_INVALID_ARGUMENT, "made NaN in y"); /* each time */
  ck_assert_uint_eq(times_said("non-finite:"), 1);
  tn_tensor_release(x);
  tn_runtime_close(runtime);
}
END_TEST

/* --- lifetime and leaks --- */

START_TEST(released_tensors_are_reported) {
  tn_runtime *runtime = open_validated("reference:0", "lifetime");
  tn_tensor *x = counting(tn_runtime_device(runtime), 4), *y = NULL;
  tn_tensor_release(x);
  tn_call_site("late.c:9");
  refused(tn_neg(NULL, x, &y), TN_ERR_INVALID_ARGUMENT, "is used after its release");
  SAID("lifetime: a tensor of reference:0 is used at late.c:9 after its release");
  tn_tensor_release(x);
  tn_call_site(NULL);
  tn_runtime_close(runtime);
  SAID("2 findings in all, of 1 sort:");
}
END_TEST

/* The scalar that stands for a gradient which was left out is the runtime's: written before any
 * stream reads it, and no leak. */
START_TEST(what_stands_for_a_missing_gradient_is_tidy) {
  static const char *const devices[] = {"reference:0", "sim:0"};
  for (int d = 0; d < 2; ++d) {
    tn_runtime *runtime = open_validated(devices[d], "all");
    tn_device *device = tn_runtime_device(runtime);
    tn_stream *stream = NULL;
    tn_tensor *x = counting(device, 2), *target = counting(device, 2), *dx = NULL;
    ok(tn_device_synchronize(device));
    ok(tn_stream_create(device, &stream));
    for (int i = 0; i < 2; ++i) ok(tn_mse_loss_grad(stream, NULL, x, target, NULL, &dx));
    ok(tn_stream_synchronize(stream));
    tn_tensor_release(dx), tn_tensor_release(x), tn_tensor_release(target);
    tn_stream_destroy(stream);
    tn_runtime_close(runtime);
    SILENT("leak: ");
    SILENT("race");
    SILENT("unwritten: ");
  }
}
END_TEST

START_TEST(leaks_are_listed_with_their_sites) {
  tn_runtime *runtime = open_validated("sim:0", "leaks");
  tn_device *device = tn_runtime_device(runtime);
  tn_stream *stream;
  tn_event *event;
  tn_prepared *prepared;
  tn_tensor *x, *y = NULL;
  void *pinned;
  tn_call_site("setup.c:1");
  x = counting(device, 4);
  ok(tn_stream_create(device, &stream));
  ok(tn_event_create(device, &event));
  ok(tn_pinned_alloc(device, 48, &pinned));
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .out = &y, .num_in = 2, .num_out = 1};
  call.in = (const tn_tensor *[]){x, x};
  ok(tn_prepare(&call, &prepared));
  tn_call_site(NULL);
  tn_tensor *fine = counting(device, 4);
  tn_tensor_release(fine);
  tn_pinned_free(device, pinned);
  ok(tn_pinned_alloc(device, 48, &pinned));
  tn_event_destroy(event);
  ok(tn_event_create(device, &event));
  tn_prepared_release(prepared);
  ok(tn_prepare(&call, &prepared));
  tn_runtime_close(runtime);
  SAID("leak: at close a tensor f32 [4] of 16 bytes is alive on sim:0, made at setup.c:1");
  SAID("leak: at close a stream is alive on sim:0, made at setup.c:1");
  SAID("leak: at close an event is alive on sim:0, made at no named site");
  SAID("leak: at close a prepared call of tn_add is alive on sim:0");
  SAID("leak: at close pinned memory of 48 bytes is alive on sim:0");
  ck_assert_uint_eq(times_said("leak: "), 6); /* x, y and the four others */
  SAID("6 findings in all, of 5 sorts");
  /* The runtime lives on in these. */
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_prepared_release(prepared);
  tn_pinned_free(device, pinned);
  tn_event_destroy(event);
  tn_stream_destroy(stream);
}
END_TEST

START_TEST(a_tidy_program_hears_nothing) {
  tn_runtime *runtime = open_validated("sim:0", "all");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = counting(device, 4), *y = NULL, *view;
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_reshape(y, 2, SHAPE(2, 2), &view));
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(view);
  tn_runtime_close(runtime);
  ck_assert_msg(said.count == 1, "%s", all_said());
  SAID("nothing to report");
}
END_TEST

START_TEST(wrong_options_are_refused) {
  tn_runtime_options options = {.struct_size = sizeof options, .layers = "validate"};
  tn_runtime *runtime;
  setenv("TENON_VALIDATE", "races,ghosts", 1);
  refused(tn_runtime_open(&options, &runtime), TN_ERR_INVALID_ARGUMENT,
          "TENON_VALIDATE: 'ghosts' is none of finite, alias, lifetime, races, leaks, "
          "unwritten, index, all, error");
}
END_TEST

/* Two runtimes and four threads at once: states are apart and guarded. */
static void *work(void *runtime) {
  tn_device *device = tn_runtime_device(runtime);
  for (int i = 0; i < 200; ++i) {
    tn_tensor *x = counting(device, 4), *y = NULL, *z = NULL;
    ok(tn_add(NULL, x, x, &y));
    ok(tn_log(NULL, x, &z));
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_tensor_release(z);
  }
  return NULL;
}

START_TEST(threads_and_runtimes_at_once) {
  tn_runtime *runtime[2] = {open_validated("reference:0", "all"),
                            open_validated("reference:0", "all")};
  pthread_t thread[4];
  for (int i = 0; i < 4; ++i)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, work, runtime[i % 2]), 0);
  for (int i = 0; i < 4; ++i) pthread_join(thread[i], NULL);
  tn_runtime_close(runtime[0]);
  tn_runtime_close(runtime[1]);
  ck_assert_uint_eq(times_said("nothing to report"), 2);
}
END_TEST

/* --- the layer alone --- */

static DLTensor laid(float *data, int64_t *shape, int64_t *strides) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape,
                    .strides = strides};
}

/* What the layer says of a copy or another operator with these two tensors. */
static const char *verdict(const tn_layer *layer, void *state, uint32_t flags, DLTensor x,
                           DLTensor y) {
  static const tn_arg args[] = {{.name = "x", .kind = TN_ARG_IN},
                                {.name = "y", .kind = TN_ARG_OUT}};
  tn_operator op = {.struct_size = sizeof op, .name = "probe", .num_args = 2, .args = args};
  op.flags = flags;
  const DLTensor *in[] = {&x};
  DLTensor *out[] = {&y};
  const tn_kernel_args call = {.num_in = 1, .num_out = 1, .in = in, .out = out};
  return alone_call(layer, state, &op, call);
}

START_TEST(outputs_over_inputs_are_reported) {
  void *library = dlopen(VALIDATE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  const tn_layer *layer = alone_layer(library);
  void *state;
  setenv("TENON_VALIDATE", "alias", 1);
  ck_assert_int_eq(layer->open(&alone_host, &state), TN_OK);
  float data[32] = {0};
  DLTensor x = laid(data, SHAPE(8), SHAPE(1)), same = laid(data, SHAPE(8), SHAPE(1));
  DLTensor next = laid(data + 8, SHAPE(8), SHAPE(1)), shifted = laid(data + 4, SHAPE(8), SHAPE(1));
  DLTensor even = laid(data, SHAPE(4), SHAPE(2)), odd = laid(data + 1, SHAPE(4), SHAPE(2));
  const uint32_t elementwise = TN_OPERATOR_ELEMENTWISE;
  ck_assert_str_eq(verdict(layer, state, elementwise, x, same), "");
  ck_assert_str_eq(verdict(layer, state, 0, x, next), "");
  ck_assert_str_eq(verdict(layer, state, 0, even, odd), "");
  const char *words = "writes y into memory of its input x on fake:0";
  ck_assert_ptr_nonnull(strstr(verdict(layer, state, 0, x, same), words));
  ck_assert_ptr_nonnull(strstr(verdict(layer, state, elementwise, x, shifted), words));
  ck_assert_ptr_nonnull(strstr(verdict(layer, state, 0, even, x), words));
  layer->close(state);
  dlclose(library);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, made_and_passed_on_are_told_apart);
  tcase_add_test(tcase, in_place_calls_are_told_apart);
  tcase_add_test(tcase, every_float_type_and_layout_is_read);
  tcase_add_test(tcase, device_memory_is_read_back);
  tcase_add_test(tcase, what_was_asked_for_is_no_finding);
  tcase_add_test(tcase, error_makes_the_call_fail);
  tcase_add_test(tcase, released_tensors_are_reported);
  tcase_add_test(tcase, leaks_are_listed_with_their_sites);
  tcase_add_test(tcase, a_tidy_program_hears_nothing);
  tcase_add_test(tcase, what_stands_for_a_missing_gradient_is_tidy);
  tcase_add_test(tcase, wrong_options_are_refused);
  tcase_add_test(tcase, threads_and_runtimes_at_once);
  tcase_add_test(tcase, outputs_over_inputs_are_reported);
}

int main(void) { return run_suite("validate", add_tests); }
