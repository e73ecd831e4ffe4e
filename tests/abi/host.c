/*
 * A host program, built with the frozen tenon.h, today's, or one from the future (grow.awk), and
 * linked to today's libtenon or to one whose structs have grown. It takes the sample plugin,
 * built with any of the three, through all that a plugin can bring.
 *
 * usage: host PLUGIN...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/plugin.h"
#include "tenon/tenon.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) fault(__LINE__, #condition);                                                 \
  } while (0)

static const char *plugin_path;
static char lines[64][256];
static int num_lines;

static void fault(int line, const char *condition) {
  printf("%s: line %d: not so: %s (%s)\n", plugin_path, line, condition, tn_last_error());
  for (int i = 0; i < num_lines; i++) printf("  log: %s\n", lines[i]);
  exit(1);
}

static void keep_line(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  if (num_lines < 64) snprintf(lines[num_lines++], sizeof lines[0], "%s", line);
}

static bool logged(const char *text) {
  for (int i = 0; i < num_lines; i++)
    if (strstr(lines[i], text)) return true;
  return false;
}

static tn_runtime *open_runtime(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = "sample",
                                .plugin_path = plugin_path,
                                .plugins = "sample",
                                .layers = "sample",
                                .num_threads = 2,
                                .log_level = TN_LOG_INFO + 1,
                                .log = keep_line};
  tn_runtime *runtime = NULL;
  num_lines = 0;
  CHECK(tn_runtime_open(&options, &runtime) == TN_OK);
  return runtime;
}

/* ---------------------------------------------------------- what it reports --- */

static void check_reports(tn_runtime *runtime) {
  tn_device *device = tn_runtime_device(runtime);
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  CHECK(tn_plugin_report(runtime, 0, &plugin) == TN_OK && plugin.taken);
  CHECK(!strcmp(plugin.name, "sample") && !strcmp(plugin.version, "1.0"));
  CHECK(plugin.num_backends == 1 && plugin.num_operators == 2 && plugin.num_layers == 1);
  CHECK(plugin.num_kernels >= 4);
  tn_device_info info = {.struct_size = sizeof info};
  CHECK(tn_device_get_info(device, &info) == TN_OK);
  CHECK(!strcmp(info.id, "sample:0") && !strcmp(info.name, "the sample's device"));
  CHECK(info.host_memory == 1 && info.lost == 0);
  tn_memory_stats memory = {.struct_size = sizeof memory};
  CHECK(tn_device_memory_stats(device, &memory) == TN_OK && memory.limit == 0);
  tn_fallback_stats fallback = {.struct_size = sizeof fallback};
  CHECK(tn_fallback_get_stats(device, 0, &fallback) == TN_OK && fallback.calls == 0);
}

static bool kernel_is(tn_device *device, uint32_t op, const char *name) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  return tn_kernel_find(device, op, TN_F32, 0, &kernel) == TN_OK && !strcmp(kernel.name, name) &&
         !strcmp(kernel.plugin, "sample");
}

static void check_kernels(tn_runtime *runtime) {
  tn_device *device = tn_runtime_device(runtime);
  uint32_t blend = 0, pairs = 0;
  CHECK(tn_op_find(runtime, "sample_blend", &blend) == TN_OK && blend != 0);
  CHECK(tn_op_find(runtime, "sample_pairs", &pairs) == TN_OK && pairs != 0);
  CHECK(kernel_is(device, TN_OP_ADD, "sample.add.f32"));
  CHECK(kernel_is(device, TN_OP_LEAKY_RELU, "sample.leaky_relu.f32"));
  CHECK(kernel_is(device, blend, "sample.blend"));
  CHECK(kernel_is(device, pairs, "sample.pairs"));
  tn_kernel_row row = {.struct_size = sizeof row};
  CHECK(tn_kernel_at(runtime, 0, &row) == TN_OK && row.op == TN_OP_ADD && row.priority == 500);
  CHECK(!strcmp(row.device_type, "sample") && row.types[0] == TN_SET(TN_F32));
}

/* Every schema, with rows at the distance that it states. */
static void check_schemas(tn_runtime *runtime) {
  CHECK(tn_op_count(runtime) > 100);
  for (size_t i = 0; i < tn_op_count(runtime); i++) {
    const tn_operator *op = tn_op_at(runtime, i);
    const char *args = (const char *)op->args, *attrs = (const char *)op->attrs;
    CHECK(op->struct_size >= sizeof(tn_operator) || op->struct_size >= op->attr_size);
    for (uint32_t k = 0; k < op->num_args; k++) {
      const tn_arg *arg = (const void *)(args + k * op->arg_size);
      CHECK(arg->name[0] >= 'a' && arg->name[0] <= 'z' && arg->kind <= TN_ARG_OPTIONAL_OUT);
    }
    for (uint32_t k = 0; k < op->num_attrs; k++) {
      const tn_attr *attr = (const void *)(attrs + k * op->attr_size);
      CHECK(attr->name[0] >= 'a' && attr->name[0] <= 'z' && attr->offset < op->attrs_size);
    }
  }
}

/* ------------------------------------------------------------- what it does --- */

static tn_tensor *tensor_of(tn_runtime *runtime, int32_t rank, const int64_t *shape,
                            const float *values) {
  tn_tensor *x = NULL;
  CHECK(tn_tensor_from_host(tn_runtime_device(runtime), TN_F32, rank, shape, values, &x) == TN_OK);
  return x;
}

static void expect(tn_tensor *y, int64_t n, const float *values) {
  float got[8];
  CHECK(tn_tensor_elements(y) == n);
  CHECK(tn_tensor_to_host(y, got, (size_t)n * sizeof *got) == TN_OK);
  for (int64_t i = 0; i < n; i++) CHECK(got[i] == values[i]);
  tn_tensor_release(y);
}

static tn_status invoke(uint32_t op, tn_tensor *const *in, uint16_t num_in, const void *attrs,
                        tn_tensor **y) {
  const tn_tensor *inputs[2] = {in[0], num_in > 1 ? in[1] : NULL};
  tn_call call = {.struct_size = sizeof call,
                  .op = op,
                  .in = inputs,
                  .out = y,
                  .attrs = attrs,
                  .num_in = num_in,
                  .num_out = 1};
  return tn_invoke(&call);
}

/* What a kernel knows nothing of it does not get: dtype came after 0.9, and no other kernel is
 * here to serve the call. `heeds`: the plugin's header let its product say that it knows it. */
static void check_appended(tn_tensor *x, bool heeds) {
  tn_tensor *y = NULL;
  tn_sum_attrs sum = TN_SUM_DEFAULTS;
  tn_prod_attrs prod = TN_PROD_DEFAULTS;
  CHECK(tn_sum(NULL, x, &sum, &y) == TN_OK);
  expect(y, 1, (const float[]){-4}), y = NULL;
  CHECK(tn_prod(NULL, x, NULL, &y) == TN_OK);
  expect(y, 1, (const float[]){192}), y = NULL;
  sum.axes = (tn_axes){1, {0}}; /* the plugin's own `supports` is asked too */
  CHECK(tn_sum(NULL, x, &sum, &y) == TN_ERR_UNSUPPORTED && !y);
#ifdef TN_FIELD_OR
  double wide;
  sum = (tn_sum_attrs)TN_SUM_DEFAULTS;
  sum.dtype = prod.dtype = TN_F64;
  CHECK(tn_sum(NULL, x, &sum, &y) == TN_ERR_UNSUPPORTED && !y);
  CHECK(tn_prod(NULL, x, &prod, &y) == (heeds ? TN_OK : TN_ERR_UNSUPPORTED));
  if (heeds) CHECK(tn_tensor_to_host(y, &wide, sizeof wide) == TN_OK && wide == 192);
  tn_tensor_release(y);
#endif
  (void)heeds, (void)prod;
}

/* The same of an activation, which a convolution got after 0.9: no kernel is given one that it
 * would leave out. */
static void check_activation(tn_tensor *x, tn_tensor *three) {
  const int64_t signal[] = {1, 1, 4};
  tn_tensor *one = NULL, *in = NULL, *w = NULL, *y = NULL;
  tn_conv1d_attrs attrs = TN_CONV1D_DEFAULTS;
  CHECK(tn_tensor_reshape(x, 3, signal, &in) == TN_OK);
  CHECK(tn_tensor_reshape(three, 3, signal, &one) == TN_OK);
  CHECK(tn_tensor_slice(one, 2, 0, 1, 1, &w) == TN_OK);
  CHECK(tn_conv1d(NULL, in, w, NULL, &attrs, &y) == TN_OK);
  expect(y, 4, (const float[]){-12, 6, -18, 12}), y = NULL;
#ifdef TN_FIELD_OR
  attrs.activation = TN_ACTIVATION_RELU;
  CHECK(tn_conv1d(NULL, in, w, NULL, &attrs, &y) == TN_ERR_UNSUPPORTED && !y);
#endif
  tn_tensor_release(one), tn_tensor_release(in), tn_tensor_release(w);
}

typedef struct blend_attrs {
  uint32_t struct_size;
  int32_t negate;
  double weight;
  double later; /* of a version that nobody has */
} blend_attrs;
#define BLEND_SIZE offsetof(blend_attrs, later)

static void check_builtin(tn_tensor *x, tn_tensor *three) {
  tn_tensor *y = NULL;
  tn_leaky_relu_attrs attrs = TN_LEAKY_RELU_DEFAULTS;
  tn_call_site("the sum");
  CHECK(tn_add(NULL, x, three, &y) == TN_OK);
  tn_call_site(NULL);
  expect(y, 4, (const float[]){-1, 5, -3, 7}), y = NULL;
  CHECK(logged("sample: add of y by sample.add.f32 of sample at the sum"));
  attrs.slope = 0.5;
  CHECK(tn_leaky_relu(NULL, x, &attrs, &y) == TN_OK);
  expect(y, 4, (const float[]){-2, 2, -3, 4}), y = NULL;
  CHECK(logged("sample: leaky_relu of y by sample.leaky_relu.f32 of sample at ?"));
}

static void check_blend(uint32_t op, tn_tensor *const *xs) {
  tn_tensor *y = NULL;
  blend_attrs attrs = {BLEND_SIZE, 1, 0.75, 0};
  CHECK(invoke(op, xs, 2, NULL, &y) == TN_OK);
  expect(y, 4, (const float[]){-0.5f, 2.5f, -1.5f, 3.5f}), y = NULL;
  CHECK(invoke(op, xs, 2, &attrs, &y) == TN_OK);
  expect(y, 4, (const float[]){2.25f, -2.25f, 3.75f, -3.75f}), y = NULL;
  /* A caller of before: what its struct lacks keeps the default. */
  attrs.struct_size = offsetof(blend_attrs, weight);
  CHECK(invoke(op, xs, 2, &attrs, &y) == TN_OK);
  expect(y, 4, (const float[]){0.5f, -2.5f, 1.5f, -3.5f}), y = NULL;
  /* A caller of after: what is not known must be 0. */
  attrs.struct_size = sizeof attrs;
  CHECK(invoke(op, xs, 2, &attrs, &y) == TN_OK);
  expect(y, 4, (const float[]){2.25f, -2.25f, 3.75f, -3.75f}), y = NULL;
  attrs.later = 1;
  CHECK(invoke(op, xs, 2, &attrs, &y) == TN_ERR_UNSUPPORTED);
  attrs = (blend_attrs){BLEND_SIZE, 0, 1.5, 0};
  CHECK(invoke(op, xs, 2, &attrs, &y) == TN_ERR_INVALID_ARGUMENT);
  CHECK(strstr(tn_last_error(), "weight") && !y);
}

static void check_pairs(uint32_t op, tn_tensor *x) {
  tn_tensor *y = NULL, *odd = NULL;
  CHECK(invoke(op, &x, 1, NULL, &y) == TN_OK);
  CHECK(tn_tensor_rank(y) == 2 && tn_tensor_shape(y)[0] == 2 && tn_tensor_shape(y)[1] == 1);
  expect(y, 2, (const float[]){-2, -2}), y = NULL;
  CHECK(tn_tensor_slice(x, 1, 0, 1, 1, &odd) == TN_OK);
  CHECK(invoke(op, &odd, 1, NULL, &y) == TN_ERR_INVALID_ARGUMENT && !y);
  CHECK(strstr(tn_last_error(), "even number of columns"));
  tn_tensor_release(odd);
}

static void check_plugin(const char *path) {
  uint32_t blend = 0, pairs = 0;
  plugin_path = path;
  tn_runtime *runtime = open_runtime();
  check_reports(runtime);
  check_kernels(runtime);
  check_schemas(runtime);
  CHECK(tn_op_find(runtime, "sample_blend", &blend) == TN_OK);
  CHECK(tn_op_find(runtime, "sample_pairs", &pairs) == TN_OK);
  tn_tensor *xs[] = {tensor_of(runtime, 2, (const int64_t[]){2, 2}, (const float[]){-4, 2, -6, 4}),
                     tensor_of(runtime, 2, (const int64_t[]){2, 2}, (const float[]){3, 3, 3, 3})};
  check_builtin(xs[0], xs[1]);
  check_blend(blend, xs);
  check_pairs(pairs, xs[0]);
  bool heeds = !strstr(path, "0_9");
  check_appended(xs[0], heeds);
  check_activation(xs[0], xs[1]);
  for (int i = 0; i < 2; i++) tn_tensor_release(xs[i]);
  tn_runtime_close(runtime);
#ifdef TN_FIELD_OR
  CHECK(logged(heeds ? "sample: 11 calls, " : "sample: 10 calls, ") && logged(" 0 unknown"));
#else
  CHECK(logged("sample: 10 calls, ") && logged(" 0 unknown"));
#endif
}

int main(int argc, char **argv) {
  unsetenv("TENON_MATH"), unsetenv("TENON_DETERMINISTIC");
  for (int i = 1; i < argc; i++) {
    char *path = realpath(argv[i], NULL);
    check_plugin(path ? path : argv[i]);
    free(path);
  }
  printf("%d plugins loaded and used\n", argc - 1);
  return argc < 2;
}
