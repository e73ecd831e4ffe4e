/*
 * The contract of plugin.h, one breach at a time; and what a later plugin.h may bring, which is
 * passed over or refused as docs/abi.md says.
 */
#include <stdlib.h>

#include "inspect.h"
#include "plugins/fixture.h"

#include "dispatcher/load/plugin_check.h"

static const tn_host host = {
    .struct_size = sizeof host, .abi_min = TN_ABI_VERSION_MIN, .abi_max = TN_ABI_VERSION};

/* A table that passes, whose parts each case spoils. */
static tn_backend backend;
static const tn_backend *backends[2] = {&backend, NULL};
static tn_kernel kernels[2];
static tn_operator operators[1];
static tn_arg args[3];
static tn_attr attrs[2];
static tn_layer layers[1];
static tn_plugin plugin;
static const tn_plugin_note note = {TN_ABI_VERSION_MIN, TN_ABI_VERSION, TN_FLAVOUR, 0, "good"};

static tn_status infer(const tn_host *h, const DLTensor *const *in, DLTensor *const *out,
                       const void *a) {
  (void)h, (void)in, (void)out, (void)a;
  return TN_OK;
}

static tn_status pass_on(void *layer, const tn_layer_call *call,
                         tn_status (*next)(const tn_layer_call *call, void *next_ctx),
                         void *next_ctx) {
  (void)layer;
  return next(call, next_ctx);
}

static void reset_tables(void) {
  backend = (tn_backend)FIXTURE_BACKEND("fixture");
  kernels[0] = kernels[1] = (tn_kernel)FIXTURE_KERNEL("fixture");
  args[0] = (tn_arg){.name = "x", .kind = TN_ARG_IN, .doc = "an input"};
  args[1] = (tn_arg){
      .name = "state", .kind = TN_ARG_INOUT, .type = TN_TYPE_FIXED(TN_F32), .doc = "changed"};
  args[2] = (tn_arg){.name = "y", .kind = TN_ARG_OUT, .doc = "the output"};
  attrs[0] = (tn_attr){.name = "alpha", .type = TN_ATTR_F64, .offset = 8, .default_value = 1};
  attrs[1] = (tn_attr){.name = "axes", .type = TN_ATTR_AXES, .offset = 16};
  operators[0] = (tn_operator){.struct_size = sizeof(tn_operator),
                               .since = 1,
                               .name = "warp",
                               .types = {TN_SET_FLOAT},
                               .shape = TN_SHAPE_CUSTOM,
                               .num_args = 3,
                               .args = args,
                               .num_attrs = 2,
                               .attrs_size = 16 + sizeof(tn_axes),
                               .attrs = attrs,
                               .doc = "Warps.",
                               .maths = "y = warp(x)",
                               .infer = infer};
  layers[0] = (tn_layer){.struct_size = sizeof(tn_layer), .name = "none", .call = pass_on};
  plugin = (tn_plugin){FIXTURE_PLUGIN("good", backends, kernels)};
  plugin.num_backends = 1;
  plugin.operators = operators, plugin.num_operators = 1;
  plugin.layers = layers, plugin.num_layers = 1;
}

static void table_passes(void) {
  ck_assert_msg(plugin_check(&plugin, &note, &host) == TN_OK, "%s", tn_last_error());
}

static void table_fails(const char *reason) {
  ck_assert_int_eq(plugin_check(&plugin, &note, &host), TN_ERR_PLUGIN_REFUSED);
  message_has(reason);
}

/* Makes one change, sees it refused for that reason, and starts afresh. */
/* The operator's last attribute says where the first one's number lies. */
static void add_tensor(uint8_t use, uint8_t of) {
  attrs[1] = (tn_attr){
      .name = "alpha_from", .type = TN_ATTR_TENSOR, .offset = 16, .tensor = {.use = use, .of = of}};
}

#define SPOILED(change, reason)                                                                    \
  do {                                                                                             \
    reset_tables();                                                                                \
    table_passes();                                                                                \
    change;                                                                                        \
    table_fails(reason);                                                                           \
  } while (0)

START_TEST(spoiled_plugins) {
  SPOILED(plugin.struct_size = 0, "its plugin struct has 0 bytes, ABI version 1 has 104");
  SPOILED(plugin.struct_size = 96, "its plugin struct has 96 bytes");
  SPOILED(plugin.struct_size = 65536 + 8, "absurd");
  SPOILED(plugin.struct_size = UINT32_MAX, "absurd");
  SPOILED(plugin.struct_size = sizeof plugin + 4, "absurd");
  SPOILED(plugin.name = NULL, "calls itself '(null)'");
  SPOILED(plugin.version = NULL, "no version");
  SPOILED(plugin.description = NULL, "no description");
  SPOILED(plugin.abi_max = 2, "its table says ABI 1..2, its note 1..1");
  SPOILED(plugin.backends = NULL, "counts 1 backends at (nil)");
  SPOILED(plugin.kernels = NULL, "counts 2 rows of kernel at (nil)");
  SPOILED(plugin.operators = NULL, "counts 1 rows of operator at (nil)");
  SPOILED(plugin.layers = NULL, "counts 1 rows of layer at (nil)");
  SPOILED(plugin.num_kernels = UINT32_MAX, "counts 4294967295 rows of kernel");
  SPOILED(plugin.num_backends = UINT32_MAX, "counts 4294967295 backends");
  SPOILED(plugin.kernels = (const tn_kernel *)((const char *)kernels + 4), "bad address");
  reset_tables();
  plugin.num_backends = plugin.num_kernels = plugin.num_operators = plugin.num_layers = 0;
  plugin.backends = NULL, plugin.kernels = NULL, plugin.operators = NULL, plugin.layers = NULL;
  table_passes();
}
END_TEST

START_TEST(spoiled_backends) {
  SPOILED(backends[0] = NULL, "backend table is at a bad address");
  backends[0] = &backend;
  SPOILED(backend.struct_size = offsetof(tn_backend, graph_destroy), "its backend struct has");
  reset_tables();
  backend.struct_size = offsetof(tn_backend, queue_wrap); /* version 1's */
  table_passes();
  SPOILED(backend.device_type = NULL, "device type is '(null)'");
  SPOILED(backend.device_type = "", "device type is ''");
  SPOILED(backend.device_type = "GPU", "device type is 'GPU'");
  SPOILED(backend.device_type = "a_name_of_sixty_four_characters_of_which_63_would_have_been_fine",
          "64 characters; 63 are taken");
  SPOILED(backend.device_type = "a:1", "device type is 'a:1'");
  SPOILED(backend.count = NULL, "has no count");
  SPOILED(backend.describe = NULL, "has no describe");
  SPOILED(backend.open = NULL, "has no open");
  SPOILED(backend.close = NULL, "has no close");
  SPOILED(backend.alloc = NULL, "has no alloc");
  SPOILED(backend.free = NULL, "has no free");
  SPOILED(backend.copy = NULL, "has no copy");
  SPOILED(backend.flags = TN_BACKEND_HOST_MEMORY, "without TN_BACKEND_SYNCHRONOUS");
  SPOILED(backend.flags |= TN_BACKEND_OPAQUE_MEMORY, "both host memory and opaque");
  SPOILED(memcpy(&backend.capture_begin, &backend.close, sizeof backend.close),
          "has no capture_end");
  SPOILED((backends[1] = &backend, plugin.num_backends = 2), "two backends 'fixture'");
}
END_TEST

START_TEST(spoiled_kernels) {
  SPOILED(kernels[0].struct_size = offsetof(tn_kernel, note), "its kernel struct has 88 bytes");
  SPOILED(kernels[1].struct_size += 8, "row 1 says it has 112 bytes, row 0 says 104");
  SPOILED(kernels[1].struct_size = 0, "row 1 says it has 0 bytes");
  SPOILED(kernels[1].name = NULL, "kernel row 1 (?) has no name");
  SPOILED(kernels[1].run = NULL, "has no run function");
  SPOILED(kernels[1].device_type = NULL, "has no device type");
  SPOILED(kernels[1].device_type = "*any", "is for device type '*any'");
  SPOILED(kernels[1].op = 0, "has no operator");
  SPOILED((kernels[1].op = 0, kernels[1].op_name = ""), "has no operator");
  reset_tables();
  kernels[1].op = 0, kernels[1].op_name = "warp", kernels[1].device_type = TN_DEVICE_ANY_HOST;
  table_passes();
}
END_TEST

START_TEST(spoiled_operators) {
  SPOILED(operators[0].struct_size = offsetof(tn_operator, arg_size), "its operator struct has");
  SPOILED(operators[0].name = NULL, "malformed name");
  static const char *const names[] = {"Warp",      "",           ".warp",
                                      "acme.",     "acme..warp", "acme.ml.warp",
                                      "acme warp", "acme.Warp",  "acme-ml.warp"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    SPOILED(operators[0].name = names[i], "malformed name");
  reset_tables();
  operators[0].name = "acme.warp_2";
  table_passes();
  SPOILED(operators[0].id = 7, "number of its own");
  SPOILED(operators[0].doc = NULL, "no doc");
  SPOILED(operators[0].maths = NULL, "no doc or maths");
  SPOILED(operators[0].shape = TN_SHAPE_RULES, "a shape rule that this host does not know");
  SPOILED(operators[0].infer = NULL, "no infer function");
  SPOILED(operators[0].num_args = 0, "out of range");
  SPOILED(operators[0].num_args = UINT32_MAX, "out of range");
  SPOILED(operators[0].args = NULL, "out of range");
  SPOILED(operators[0].num_args = 1, "no output");
  SPOILED(args[0].name = NULL, "an argument without a name");
  SPOILED(args[0].kind = 5, "an argument of a kind that this host does not know (x)");
  SPOILED(args[0].type = TN_TYPE_VAR(1), "an argument of no type that this host knows");
  SPOILED(args[0].type = 7, "an argument of no type that this host knows");
  SPOILED(args[0].type = TN_TYPE_WIDE(1), "an argument of no type that this host knows");
  SPOILED(args[0].type = TN_TYPE_WIDE(7), "an argument of no type that this host knows");
  SPOILED(operators[0].types[0] = 0, "no element type");
  SPOILED(args[1].type = TN_TYPE_FIXED(0), "an argument of no type that this host knows");
  SPOILED(args[1].type = 0xff, "an argument of no type that this host knows");
  reset_tables();
  args[0].kind = TN_ARG_OPTIONAL_IN, args[1].kind = TN_ARG_OPTIONAL_OUT;
  table_passes();
}
END_TEST

START_TEST(spoiled_arguments_and_attributes) {
  SPOILED((args[0].kind = TN_ARG_OUT, args[2].kind = TN_ARG_IN), "out of order");
  SPOILED((args[0].kind = TN_ARG_INOUT, args[1].kind = TN_ARG_IN), "out of order");
  SPOILED(args[2].flags = TN_ARG_LIST, "a list where none can be");
  SPOILED((args[0].flags = TN_ARG_LIST, operators[0].flags = TN_OPERATOR_ELEMENTWISE),
          "a list where none can be");
  SPOILED(args[2].flags = TN_ARG_OR_ONE, "may be left out where none can be (y)");
  SPOILED((args[0].kind = TN_ARG_OPTIONAL_IN, args[0].flags = TN_ARG_OR_ONE),
          "may be left out where none can be (x)");
  SPOILED(args[0].flags = TN_ARG_OR_ONE | TN_ARG_LIST, "may be left out where none can be (x)");
  SPOILED((args[0].flags = TN_ARG_OR_ONE, args[1].flags = TN_ARG_LIST),
          "may be left out where none can be (x)");
  SPOILED((attrs[0].type = TN_ATTR_RESULT, attrs[1].type = TN_ATTR_DTYPE),
          "a type of its first output where none can be");
  SPOILED(attrs[0].type = attrs[1].type = TN_ATTR_RESULT, "a type of its first output where none");
  SPOILED((attrs[0].type = TN_ATTR_RESULT, args[2].type = TN_TYPE_FIXED(TN_I64)),
          "a type of its first output where none can be");
  SPOILED((attrs[0].type = TN_ATTR_RESULT, args[2].kind = TN_ARG_INOUT),
          "a type of its first output where none can be");
  SPOILED((attrs[0].type = TN_ATTR_RESULT, operators[0].types[TN_MAX_TYPE_VARS - 1] = TN_SET_INT),
          "a type of its first output where none can be");
  reset_tables();
  args[0].flags = TN_ARG_OR_ONE, attrs[0].type = TN_ATTR_RESULT;
  table_passes();
  SPOILED(operators[0].attrs = NULL, "no list of its attributes");
  SPOILED(operators[0].num_attrs = UINT32_MAX, "has 4294967295 attributes in 52 bytes");
  SPOILED(operators[0].attrs_size = UINT32_MAX, "has 2 attributes in 4294967295 bytes");
  SPOILED(operators[0].attrs_size = 0, "has 2 attributes in 0 bytes");
  SPOILED(attrs[0].name = NULL, "an attribute without a name");
  SPOILED(attrs[0].type = 11, "an attribute of a type that this host does not know (alpha)");
  SPOILED(attrs[0].offset = 12, "outside its struct");
  SPOILED(attrs[0].offset = 0, "outside its struct");
  SPOILED(attrs[1].offset = 20, "outside its struct");
  SPOILED(attrs[0].offset = UINT32_MAX - 7, "outside its struct");
  SPOILED(operators[0].attrs_size = 4, "outside its struct");
  reset_tables();
  add_tensor(TN_USE_REPLACES, 0);
  table_passes();
  SPOILED(add_tensor(TN_USE_SKIPS + 1, 0), "a use that this host does not know (alpha_from)");
  SPOILED(add_tensor(TN_USE_REPLACES, 2), "a use that this host does not know");
  SPOILED(add_tensor(TN_USE_REPLACES, 1), "for one that is no such number");
  SPOILED(add_tensor(TN_USE_ADDS, 0), "for one that is no such number");
  SPOILED((add_tensor(TN_USE_REPLACES, 0), attrs[0].type = TN_ATTR_FLAG), "is no such number");
  SPOILED(add_tensor(TN_USE_SKIPS, 0), "outputs that are not updated in place");
  SPOILED((attrs[0].type = TN_ATTR_TENSOR, attrs[0].tensor.use = TN_USE_SKIPS,
           args[2].kind = TN_ARG_INOUT),
          "before one of another kind (alpha)");
  SPOILED((add_tensor(TN_USE_REPLACES, 0), attrs[1].offset = 20), "outside its struct");
  reset_tables();
  add_tensor(TN_USE_SKIPS, 0), args[2].kind = TN_ARG_INOUT;
  table_passes();
  SPOILED(layers[0].struct_size = 8, "its layer struct has 8 bytes");
  SPOILED(layers[0].name = NULL, "layer row 0 has no name");
  SPOILED(layers[0].call = NULL, "no call function");
}
END_TEST

/* What a device says of itself. */
static tn_device_props props;

static void reset_props(void) {
  props = (tn_device_props){.struct_size = sizeof props,
                            .dl_device_type = kDLExtDev,
                            .memory_bytes = UINT64_C(1) << 40,
                            .alignment_bytes = 256};
}

#define ABSURD(change, flags, reason)                                                              \
  do {                                                                                             \
    reset_props();                                                                                 \
    ck_assert_msg(plugin_check_props(&props, flags) == TN_OK, "%s", tn_last_error());              \
    change;                                                                                        \
    ck_assert_int_eq(plugin_check_props(&props, flags), TN_ERR_BACKEND);                           \
    message_has(reason);                                                                           \
  } while (0)

START_TEST(absurd_properties) {
  static const int32_t types[] = {0, -1, 5, 6, 1000, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    ABSURD(props.dl_device_type = types[i], 0, "which is no DLDeviceType");
  ABSURD(props.dl_device_type = kDLCPU, TN_BACKEND_OPAQUE_MEMORY, "its memory is opaque");
  ABSURD(props.dl_device_type = kDLCUDAHost, TN_BACKEND_OPAQUE_MEMORY, "its memory is opaque");
  ABSURD(props.dl_device_id = -1, 0, "dl_device_id -1");
  ABSURD(props.alignment_bytes = 96, 0, "alignment of 96 bytes");
}
END_TEST

START_TEST(properties_that_are_mended) {
  char said[PROPS_SAID_BYTES];
  reset_props();
  props.memory_bytes = UINT64_C(1) << 57;
  memset(props.name, 'x', sizeof props.name - 1);
  plugin_mend_props(&props, said);
  ck_assert_str_eq(said, "");
  ck_assert_uint_eq(props.memory_bytes, UINT64_C(1) << 57);
  props.memory_bytes++;
  memset(props.name, 'x', sizeof props.name);
  memset(props.features, 'x', sizeof props.features);
  memset(props.unique_id, 'x', sizeof props.unique_id);
  ck_assert_msg(plugin_check_props(&props, 0) == TN_OK, "%s", tn_last_error());
  plugin_mend_props(&props, said);
  ck_assert_str_eq(
      said, "its describe gives memory_bytes 144115188075855873, more than there can be, "
            "taken as not known; a name without an end in its 128 bytes, cut off; a features "
            "without an end in its 256 bytes, cut off; a unique_id without an end in its 64 "
            "bytes, cut off");
  ck_assert_uint_eq(props.memory_bytes, 0);
  ck_assert_uint_eq(strlen(props.name), 127);
  ck_assert_uint_eq(strlen(props.features), 255);
  ck_assert_uint_eq(strlen(props.unique_id), 63);
}
END_TEST

START_TEST(properties_that_make_sense) {
  for (int32_t type = kDLCPU; type <= kDLMAIA; ++type) {
    if (type == 5 || type == 6) continue;
    reset_props();
    props.dl_device_type = type;
    ck_assert_msg(plugin_check_props(&props, 0) == TN_OK, "%s", tn_last_error());
    ck_assert_int_eq(plugin_check_props(&props, TN_BACKEND_HOST_MEMORY), TN_OK);
  }
  reset_props();
  props.memory_bytes = props.alignment_bytes = 0;
  memset(props.name, 'x', sizeof props.name - 1);
  ck_assert_int_eq(plugin_check_props(&props, TN_BACKEND_OPAQUE_MEMORY), TN_OK);
}
END_TEST

START_TEST(abi_ranges) {
  ck_assert_int_eq(plugin_check_abi(1, 1, 1, 1), TN_OK);
  ck_assert_int_eq(plugin_check_abi(1, 9, 3, 4), TN_OK);
  ck_assert_int_eq(plugin_check_abi(4, 9, 3, 4), TN_OK);
  ck_assert_int_eq(plugin_check_abi(0, UINT32_MAX, 1, 1), TN_OK);
  ck_assert_int_eq(plugin_check_abi(5, 9, 3, 4), TN_ERR_PLUGIN_REFUSED);
  message_has("built for ABI 5..9, this host serves 3..4");
  ck_assert_int_eq(plugin_check_abi(1, 2, 3, 4), TN_ERR_PLUGIN_REFUSED);
  ck_assert_int_eq(plugin_check_abi(4, 3, 3, 4), TN_ERR_PLUGIN_REFUSED);
}
END_TEST

/* ------------------------------------------------------------- the future --- */

/* The bit of a word of flags that will be used last in its half. */
#define LAST_PROMISE 0x8000u

static uint32_t *const flag_words[] = {&plugin.flags, &backend.flags, &kernels[1].flags,
                                       &operators[0].flags, &layers[0].flags};
static const char *const flag_owners[] = {"table 'good'", "backend 'fixture'",
                                          "kernel 'fixture.add.f32'", "operator 'warp'",
                                          "layer 'none'"};

START_TEST(unknown_promises_are_passed_over) {
  for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++) {
    reset_tables();
    *flag_words[i] |= LAST_PROMISE;
    table_passes();
  }
}
END_TEST

START_TEST(unknown_demands_are_refused) {
  for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++)
    for (uint32_t bit = 0x10000; bit; bit <<= 1) {
      char reason[160];
      snprintf(reason, sizeof reason,
               "%s demands what this host does not know (flags %#x): it needs a newer Tenon",
               flag_owners[i], bit);
      SPOILED(*flag_words[i] |= bit, reason);
    }
  for (unsigned bit = TN_ARG_OR_ONE << 1; bit < 256; bit <<= 1)
    SPOILED(args[0].flags = (uint8_t)bit,
            "has an argument with flags that this host does not know (x)");
}
END_TEST

START_TEST(unknown_kinds_are_refused) {
  SPOILED(args[0].kind = 200, "an argument of a kind that this host does not know (x)");
  SPOILED(args[0].type = TN_TYPE_FIXED(TN_F8_E5M2 + 1), "no type that this host knows (x)");
  SPOILED(attrs[0].type = 1000, "an attribute of a type that this host does not know (alpha)");
  SPOILED(attrs[0].low_bound = 3, "a bound of a kind that this host does not know (alpha)");
  SPOILED(attrs[0].high_bound = 255, "a bound of a kind that this host does not know (alpha)");
  SPOILED(operators[0].shape = 100000, "a shape rule that this host does not know");
  SPOILED(operators[0].types[0] = TN_SET(TN_F8_E5M2 + 1), "without an element type that this host");
}
END_TEST

START_TEST(unknown_types_and_reserved_words_are_passed_over) {
  reset_tables();
  operators[0].types[0] |= TN_SET(TN_F8_E5M2 + 1);
  kernels[0].types[0] = TN_SET(TN_F8_E5M2 + 1);
  kernels[1].op = 400; /* not an operator yet */
  memset(args[0].reserved, 0xff, sizeof args[0].reserved);
  args[0].reserved2 = UINT64_MAX;
  memset(attrs[0].reserved, 0xff, sizeof attrs[0].reserved);
  attrs[0].reserved2 = UINT64_MAX;
  table_passes();
}
END_TEST

/* Rows of a later plugin.h. What was appended is never a sane value. */
static struct later_arg {
  tn_arg now;
  const char *more[3];
} later_args[3];
static struct later_attr {
  tn_attr now;
  double more[5];
} later_attrs[2];

static void grow_rows(void) {
  reset_tables();
  memset(later_args, 0xff, sizeof later_args);
  memset(later_attrs, 0xff, sizeof later_attrs);
  for (int i = 0; i < 3; i++) later_args[i].now = args[i];
  for (int i = 0; i < 2; i++) later_attrs[i].now = attrs[i];
  operators[0].args = &later_args[0].now, operators[0].arg_size = sizeof *later_args;
  operators[0].attrs = &later_attrs[0].now, operators[0].attr_size = sizeof *later_attrs;
}

START_TEST(rows_may_be_longer) {
  grow_rows();
  table_passes();
  later_args[2].now.name = NULL;
  table_fails("an argument without a name");
  grow_rows();
  later_attrs[1].now.name = NULL;
  table_fails("an attribute without a name");
  SPOILED(operators[0].arg_size = sizeof(tn_arg) - 8, "says a tn_arg row has 40 bytes");
  SPOILED(operators[0].arg_size = sizeof(tn_arg) + 4, "ABI version 1 has 48");
  SPOILED(operators[0].arg_size = UINT32_MAX, "says a tn_arg row has 4294967295 bytes");
  SPOILED(operators[0].attr_size = sizeof(tn_attr) - 8, "says a tn_attr row has 56 bytes");
  SPOILED(operators[0].attr_size = 1 << 20, "ABI version 1 has 64");
}
END_TEST

/* A table of a version that the host serves no longer, or not yet, whatever it holds. */
START_TEST(other_ranges) {
  const tn_host later = {.struct_size = sizeof later, .abi_min = 3, .abi_max = 4};
  tn_plugin_note wide = note;
  reset_tables();
  ck_assert_int_eq(plugin_check(&plugin, &note, &later), TN_ERR_PLUGIN_REFUSED);
  message_has("built for ABI 1..1, this host serves 3..4");
  wide.abi_max = plugin.abi_max = 9;
  ck_assert_msg(plugin_check(&plugin, &wide, &host) == TN_OK, "%s", tn_last_error());
  ck_assert_msg(plugin_check(&plugin, &wide, &later) == TN_OK, "%s", tn_last_error());
  wide.abi_min = plugin.abi_min = 2;
  ck_assert_int_eq(plugin_check(&plugin, &wide, &host), TN_ERR_PLUGIN_REFUSED);
  message_has("built for ABI 2..9, this host serves 1..1");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("plugin_check");
  TCase *contract = tcase_create("contract"), *growth = tcase_create("growth");
  tcase_add_test(contract, spoiled_plugins);
  tcase_add_test(contract, spoiled_backends);
  tcase_add_test(contract, spoiled_kernels);
  tcase_add_test(contract, spoiled_operators);
  tcase_add_test(contract, spoiled_arguments_and_attributes);
  tcase_add_test(contract, abi_ranges);
  tcase_add_test(contract, absurd_properties);
  tcase_add_test(contract, properties_that_are_mended);
  tcase_add_test(contract, properties_that_make_sense);
  tcase_add_test(growth, unknown_promises_are_passed_over);
  tcase_add_test(growth, unknown_demands_are_refused);
  tcase_add_test(growth, unknown_kinds_are_refused);
  tcase_add_test(growth, unknown_types_and_reserved_words_are_passed_over);
  tcase_add_test(growth, rows_may_be_longer);
  tcase_add_test(growth, other_ranges);
  suite_add_tcase(suite, contract);
  suite_add_tcase(suite, growth);
  return run_runner(srunner_create(suite));
}
