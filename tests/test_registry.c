/*
 * What becomes of a plugin's tables in the registry: rows of any length are taken over into
 * structs of the host's own size, what the host does not know is left out, and what fails
 * leaves nothing behind.
 */
#include <stdlib.h>

#include "inspect.h"
#include "plugins/fixture.h"

#include "dispatcher/registry/registry.h"

static registry reg;
static const tn_host host = {
    .struct_size = sizeof host, .abi_min = TN_ABI_VERSION_MIN, .abi_max = TN_ABI_VERSION};

static void set_up(void) {
  ck_assert_msg(registry_init(&host_memory_default, &reg) == TN_OK, "%s", tn_last_error());
}

static void tear_down(void) { registry_free(&host_memory_default, &reg); }

/* Rows of a later plugin.h; what was appended is junk to this host. */
typedef struct later_arg {
  tn_arg now;
  void *more[2];
} later_arg;
typedef struct later_attr {
  tn_attr now;
  void *more[4];
} later_attr;
#define JUNK ((void *)16)

static const later_arg later_args[] = {
    {{.name = "x", .kind = TN_ARG_IN, .doc = "an input"}, {JUNK, JUNK}},
    {{.name = "more", .kind = TN_ARG_IN, .flags = TN_ARG_LIST, .doc = "a list"}, {JUNK, JUNK}},
    {{.name = "y", .kind = TN_ARG_OUT, .type = TN_TYPE_FIXED(TN_I64), .doc = "the output"},
     {JUNK, JUNK}},
};
static const later_attr later_attrs[] = {
    {{.name = "alpha", .type = TN_ATTR_F64, .offset = 8, .default_value = 2.5}, {JUNK}},
    {{.name = "size", .type = TN_ATTR_PAIR, .offset = 16, .default_value = 3}, {JUNK}},
};

static tn_status infer(const tn_host *h, const DLTensor *const *in, DLTensor *const *out,
                       const void *attrs) {
  (void)h, (void)in, (void)attrs;
  out[0]->ndim = 0;
  return TN_OK;
}

#define OPERATOR(op_name)                                                                          \
  {                                                                                                \
    .struct_size = sizeof(tn_operator), .since = 1, .name = op_name,                               \
    .types = {TN_SET(TN_F32) | TN_SET(TN_F64 + 1)}, .shape = TN_SHAPE_CUSTOM, .num_args = 3,       \
    .args = &later_args[0].now, .arg_size = sizeof(later_arg), .num_attrs = 2, .attrs_size = 32,   \
    .attrs = &later_attrs[0].now, .attr_size = sizeof(later_attr), .doc = "Warps.",                \
    .maths = "y = warp(x)", .infer = infer                                                         \
  }

static const tn_backend backend = FIXTURE_BACKEND("fixture");
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {FIXTURE_KERNEL("fixture")};

static tn_plugin plugin_of(const tn_operator *operators, uint32_t count) {
  return (tn_plugin){FIXTURE_PLUGIN("mine", backends, kernels), .operators = operators,
                     .num_operators = count};
}

/* The registry keeps the table's address and reads it when it is freed. */
static tn_status add(const tn_plugin *plugin) {
  static tn_plugin kept;
  kept = *plugin;
  return registry_add(&host_memory_default, &reg, &host, &kept, NULL, NULL);
}

START_TEST(longer_rows_become_ours) {
  static const tn_operator operators[] = {OPERATOR("warp")};
  const tn_plugin plugin = plugin_of(operators, 1);
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  const op_entry *op = registry_find_op(&reg, "warp");
  ck_assert_ptr_nonnull(op);
  ck_assert_uint_eq(op->row.arg_size, sizeof(tn_arg));
  ck_assert_uint_eq(op->row.attr_size, sizeof(tn_attr));
  for (int i = 0; i < 3; i++) ck_assert_str_eq(op->row.args[i].name, later_args[i].now.name);
  ck_assert_uint_eq(op->arg[1].flags, TN_ARG_LIST);
  ck_assert_uint_eq(op->arg[2].type, TN_TYPE_FIXED(TN_I64));
  ck_assert_str_eq(op->row.attrs[1].name, "size");
  int64_t pair[2];
  memcpy(pair, (const char *)op->defaults + 16, sizeof pair);
  ck_assert(pair[0] == 3 && pair[1] == 3);
  ck_assert_uint_eq(op->row.types[0], TN_SET(TN_F32));
}
END_TEST

/* A row without a distance is as long as version 1's, which is today's. */
START_TEST(the_distance_may_be_left_out) {
  static tn_arg args[3];
  static tn_attr attrs[2];
  for (int i = 0; i < 3; i++) args[i] = later_args[i].now;
  for (int i = 0; i < 2; i++) attrs[i] = later_attrs[i].now;
  tn_operator op = OPERATOR("warp");
  op.args = args, op.attrs = attrs, op.arg_size = op.attr_size = 0;
  const tn_plugin plugin = plugin_of(&op, 1);
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  const op_entry *e = registry_find_op(&reg, "warp");
  ck_assert_str_eq(e->row.args[2].name, "y");
  ck_assert_str_eq(e->row.attrs[1].name, "size");
}
END_TEST

START_TEST(readers_find_rows_by_their_distance) {
  static const tn_operator op = OPERATOR("warp");
  ck_assert_str_eq(tn_operator_arg(&op, 2)->name, "y");
  ck_assert_str_eq(tn_operator_attr(&op, 1)->name, "size");
  for (uint32_t i = 1; i < OPS_PLUGIN_FIRST; i++) {
    const op_entry *e = registry_op(&reg, i);
    if (!e) continue;
    ck_assert_ptr_eq(tn_operator_arg(&e->row, e->row.num_args - 1),
                     &e->row.args[e->row.num_args - 1]);
    ck_assert_msg(!e->row.num_attrs || e->row.attr_size == sizeof(tn_attr), "%s", e->row.name);
  }
}
END_TEST

START_TEST(operators_that_exist_are_refused) {
  static const tn_operator twice[] = {OPERATOR("warp"), OPERATOR("warp")};
  static const tn_operator builtin[] = {OPERATOR("warp"), OPERATOR("add")};
  tn_plugin plugin = plugin_of(twice, 2);
  ck_assert_int_eq(add(&plugin), TN_ERR_PLUGIN_REFUSED);
  message_has("operator warp appears twice");
  plugin.operators = builtin;
  ck_assert_int_eq(add(&plugin), TN_ERR_PLUGIN_REFUSED);
  message_has("operator add exists already");
  ck_assert_ptr_null(registry_find_op(&reg, "warp"));
  ck_assert_ptr_null(reg.plugins);
}
END_TEST

/* Rows for operators that a later Tenon numbered stay out, and the plugin comes in. */
START_TEST(kernels_of_later_operators_stay_out) {
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture"),
                      FIXTURE_KERNEL("fixture")};
  rows[0].op = OPS_PLUGIN_FIRST - 1;
  rows[2].types[0] = TN_SET(TN_F64 + 1); /* of a type that is not known either */
  tn_plugin plugin = plugin_of(NULL, 0);
  plugin.kernels = rows, plugin.num_kernels = 3;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  const device_type *type = registry_find_type(&reg, "fixture");
  ck_assert_ptr_eq(registry_cells(type->table, TN_OP_ADD, TN_F32)->kernel,
                   &reg.plugins->kernels[1]);
  for (tn_dtype t = TN_BOOL; t < TN_DTYPE_SLOTS; t++) {
    ck_assert_ptr_null(registry_cells(type->table, OPS_PLUGIN_FIRST - 1, t));
    if (t != TN_F32) ck_assert_ptr_null(registry_cells(type->table, TN_OP_ADD, t));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("registry");
  TCase *rows = tcase_create("rows");
  tcase_add_checked_fixture(rows, set_up, tear_down);
  tcase_add_test(rows, longer_rows_become_ours);
  tcase_add_test(rows, the_distance_may_be_left_out);
  tcase_add_test(rows, readers_find_rows_by_their_distance);
  tcase_add_test(rows, operators_that_exist_are_refused);
  tcase_add_test(rows, kernels_of_later_operators_stay_out);
  suite_add_tcase(suite, rows);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
