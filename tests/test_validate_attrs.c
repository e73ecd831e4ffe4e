/*
 * The layer validate and tensors that attributes point to (lr_from, seed_from, skip_if): what it
 * says of operands it says of them. Races are in race_programs.h.
 */
#include <math.h>

#include "validate_alone.h"

static tn_tensor *scalar(tn_device *device, tn_dtype dtype, const void *value) {
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, dtype, 0, NULL, value, &t));
  return t;
}

/* One step of a parameter of four elements. */
typedef struct step {
  tn_tensor *grad, *param, *velocity;
  tn_sgd_step_attrs attrs;
} step;

static step step_make(tn_device *device) {
  return (step){counting(device, 4), counting(device, 4), counting(device, 4),
                TN_SGD_STEP_DEFAULTS};
}

static tn_status step_take(const step *s) {
  return tn_sgd_step(NULL, s->grad, s->param, s->velocity, &s->attrs);
}

static void step_free(const step *s) {
  tn_tensor_release(s->grad), tn_tensor_release(s->param), tn_tensor_release(s->velocity);
}

START_TEST(unwritten_attributes_are_reported) {
  tn_runtime *runtime = open_validated("reference:0", "unwritten");
  tn_device *device = tn_runtime_device(runtime);
  step s = step_make(device);
  tn_tensor *lr = shaped(device, TN_F64, 0, NULL), *skip = shaped(device, TN_BOOL, 0, NULL);
  tn_fill_attrs zero = TN_FILL_DEFAULTS;
  s.attrs.lr_from = lr;
  tn_call_site("step.c:3");
  ok(step_take(&s));
  SAID("unwritten: sgd_step at step.c:3 reads attrs->lr_from (reference:0 f64 []), which nothing "
       "has written since it was made");
  SILENT("skip_if");
  tn_call_site("step.c:4");
  ok(tn_fill(NULL, lr, &zero));
  s.attrs.skip_if = skip;
  ok(step_take(&s));
  SAID("unwritten: sgd_step at step.c:4 reads attrs->skip_if");
  tn_call_site("step.c:5");
  ok(tn_fill(NULL, skip, &zero));
  ok(step_take(&s));
  SILENT("step.c:5");
  tn_call_site(NULL);
  tn_tensor_release(lr), tn_tensor_release(skip);
  step_free(&s);
  tn_runtime_close(runtime);
}
END_TEST

/* The rate of the next step, while this one may still read its own. */
START_TEST(attributes_are_not_written_too_early) {
  tn_runtime *runtime = open_validated("reference:0", "races");
  tn_device *device = tn_runtime_device(runtime);
  step s = step_make(device);
  tn_tensor *lr = scalar(device, TN_F64, &(double){0.5});
  tn_stream *other = NULL;
  ok(tn_stream_create(device, &other));
  ok(tn_device_synchronize(device));
  s.attrs.lr_from = lr;
  tn_call_site("step.c:7");
  ok(step_take(&s));
  tn_call_site("rate.c:1");
  ok(tn_neg(other, lr, &lr));
  SAID(
      "race: neg at rate.c:1 writes y (reference:0 f64 []) on stream 2 while sgd_step at step.c:7, "
      "which reads it on stream 1");
  tn_call_site(NULL);
  tn_stream_destroy(other);
  tn_tensor_release(lr);
  step_free(&s);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(attributes_pass_numbers_on) {
  tn_runtime *runtime = open_validated("reference:0", "finite");
  tn_device *device = tn_runtime_device(runtime);
  step s = step_make(device);
  tn_tensor *lr = scalar(device, TN_F64, &(double){NAN});
  s.attrs.lr_from = lr;
  ok(step_take(&s));
  SAID("passed on: sgd_step by");
  SAID("its input attrs->lr_from was not finite already");
  SILENT("non-finite:");
  tn_tensor_release(lr);
  step_free(&s);
  tn_runtime_close(runtime);
}
END_TEST

/* Given at once, and to a prepared call whose tensors were released too often. */
START_TEST(released_attributes_are_reported) {
  tn_runtime *runtime = open_validated("reference:0", "lifetime");
  tn_device *device = tn_runtime_device(runtime);
  step s = step_make(device);
  tn_tensor *lr = scalar(device, TN_F64, &(double){0.5}), *gone = lr;
  const tn_tensor *in[] = {s.grad};
  tn_tensor *out[] = {s.param, s.velocity};
  tn_prepared *p = NULL;
  s.attrs.lr_from = lr;
  tn_call call = {sizeof call, TN_OP_SGD_STEP, NULL, in, out, &s.attrs, 1, 2, 0};
  ok(tn_prepare(&call, &p));
  tn_tensor_release(lr);
  ok(tn_run(p)); /* which keeps it */
  tn_tensor_release(gone);
  tn_call_site("late.c:2");
  refused(tn_run(p), TN_ERR_INVALID_ARGUMENT, "is used after its release");
  SAID("lifetime: a tensor of reference:0 is used at late.c:2 after its release");
  refused(step_take(&s), TN_ERR_INVALID_ARGUMENT, "is used after its release");
  tn_call_site(NULL);
  tn_prepared_release(p);
  step_free(&s);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(what_cannot_be_an_attribute_is_refused) {
  tn_runtime *runtime = open_validated("reference:0", "all");
  tn_device *device = tn_runtime_device(runtime), *sim = NULL;
  ok(tn_device_find(runtime, "sim", &sim));
  step s = step_make(device);
  tn_tensor *foreign = scalar(sim, TN_F64, &(double){0.5}), *part = NULL;
  s.attrs.lr_from = foreign;
  refused(step_take(&s), TN_ERR_INVALID_ARGUMENT, "attrs->lr_from is on device sim:0");
  ok(tn_tensor_slice(s.param, 0, 1, 2, 1, &part));
  s.attrs.lr_from = part;
  refused(step_take(&s), TN_ERR_INVALID_ARGUMENT, "attrs->lr_from shares memory");
  tn_tensor_release(foreign), tn_tensor_release(part);
  step_free(&s);
  tn_runtime_close(runtime);
}
END_TEST

/* --- the layer by itself, since the dispatcher refuses such calls --- */

typedef struct probe_attrs {
  uint32_t struct_size;
  double rate;
  const struct tn_tensor *rate_from;
} probe_attrs;

/* What the layer says where y is written and its rate is read at `rate`, NULL for none. */
static const char *verdict(const tn_layer *layer, void *state, float *y_data, float *rate) {
  static const tn_arg args[] = {{.name = "y", .kind = TN_ARG_OUT}};
  static const tn_attr attrs[] = {
      {.name = "rate", .type = TN_ATTR_F64, .offset = offsetof(probe_attrs, rate)},
      {.name = "rate_from", .type = TN_ATTR_TENSOR, .offset = offsetof(probe_attrs, rate_from)}};
  const tn_operator op = {.struct_size = sizeof op,
                          .name = "probe",
                          .num_args = 1,
                          .args = args,
                          .num_attrs = 2,
                          .attrs = attrs};
  const DLDataType f32 = {kDLFloat, 32, 1};
  int64_t size = 8, stride = 1;
  DLTensor y = {.data = y_data, .ndim = 1, .dtype = f32, .shape = &size, .strides = &stride};
  DLTensor one = {.data = rate, .dtype = f32}, *out[] = {&y};
  const probe_attrs given = {sizeof given, 1,
                             (const struct tn_tensor *)(const void *)(rate ? &one : NULL)};
  const tn_kernel_args call = {.num_out = 1, .out = out, .attrs = &given};
  return alone_call(layer, state, &op, call);
}

START_TEST(outputs_over_attributes_are_reported) {
  void *library = dlopen(VALIDATE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  const tn_layer *layer = alone_layer(library);
  void *state;
  setenv("TENON_VALIDATE", "alias", 1);
  ck_assert_int_eq(layer->open(&alone_host, &state), TN_OK);
  float data[9] = {0};
  ck_assert_str_eq(verdict(layer, state, data, NULL), "");
  ck_assert_str_eq(verdict(layer, state, data, data + 8), "");
  const char *words = "writes y into memory of its attrs->rate_from on fake:0";
  ck_assert_ptr_nonnull(strstr(verdict(layer, state, data, data), words));
  ck_assert_ptr_nonnull(strstr(verdict(layer, state, data, data + 7), words));
  layer->close(state);
  dlclose(library);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, unwritten_attributes_are_reported);
  tcase_add_test(tcase, attributes_are_not_written_too_early);
  tcase_add_test(tcase, attributes_pass_numbers_on);
  tcase_add_test(tcase, released_attributes_are_reported);
  tcase_add_test(tcase, what_cannot_be_an_attribute_is_refused);
  tcase_add_test(tcase, outputs_over_attributes_are_reported);
}

int main(void) { return run_suite("validate attrs", add_tests); }
