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
    .types = {TN_SET(TN_F32) | TN_SET(TN_F8_E5M2 + 1)}, .shape = TN_SHAPE_CUSTOM, .num_args = 3,   \
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

START_TEST(operators_that_exist_are_left_out) {
  static const tn_operator twice[] = {OPERATOR("warp"), OPERATOR("warp")};
  static const tn_operator builtin[] = {OPERATOR("add"), OPERATOR("warp")};
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture")};
  tn_plugin plugin = plugin_of(twice, 2);
  ck_assert_int_eq(add(&plugin), TN_ERR_PLUGIN_REFUSED);
  message_has("operator warp appears twice");
  ck_assert_ptr_null(registry_find_op(&reg, "warp"));
  ck_assert_ptr_null(reg.plugins);
  const op_entry *ours = registry_find_op(&reg, "add");
  for (int i = 0; i < 2; i++) rows[i].op = 0, rows[i].op_name = builtin[i].name;
  plugin.operators = builtin, plugin.kernels = rows, plugin.num_kernels = 2;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  ck_assert_ptr_eq(registry_find_op(&reg, "add"), ours);
  const op_entry *warp = registry_find_op(&reg, "warp");
  const device_type *type = registry_find_type(&reg, "fixture");
  ck_assert_ptr_null(registry_cells(type->table, TN_OP_ADD, TN_F32));
  ck_assert_ptr_nonnull(registry_cells(type->table, warp->row.id, TN_F32));
}
END_TEST

START_TEST(operators_left_out_take_no_room) {
  enum { ROOM = OPS_MAX - OPS_PLUGIN_FIRST };
  static tn_operator many[ROOM + 1];
  static char names[ROOM + 1][24];
  for (int i = 0; i <= ROOM; i++) {
    snprintf(names[i], sizeof *names, "acme.warp%d", i);
    many[i] = (tn_operator)OPERATOR(names[i]);
  }
  tn_plugin plugin = plugin_of(many, ROOM + 1);
  ck_assert_int_eq(add(&plugin), TN_ERR_PLUGIN_REFUSED);
  message_has("it brings 513 operators, room is left for 512");
  many[7].name = "add";
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  ck_assert_ptr_nonnull(registry_find_op(&reg, names[ROOM]));
}
END_TEST

START_TEST(numbers_of_plugins_are_nobodys) {
  tn_kernel row = FIXTURE_KERNEL("fixture");
  tn_plugin plugin = plugin_of(NULL, 0);
  row.op = OPS_PLUGIN_FIRST + 7;
  plugin.kernels = &row;
  ck_assert_int_eq(add(&plugin), TN_ERR_PLUGIN_REFUSED);
  message_has("is for operator number 519");
}
END_TEST

/* --- kernels that come before their operator --- */

/* Plugin `i` of those that a test adds, with these tables. */
static plugin_entry *add_one(int i, const char *type, const tn_kernel *row,
                             const tn_operator *operators) {
  static tn_plugin plugins[8];
  static tn_backend own[8];
  static const tn_backend *lists[8][1];
  own[i] = (tn_backend)FIXTURE_BACKEND("fixture");
  own[i].device_type = type;
  lists[i][0] = &own[i];
  plugins[i] = plugin_of(operators, operators ? 1 : 0);
  plugins[i].backends = lists[i], plugins[i].num_backends = type ? 1 : 0;
  plugins[i].kernels = row, plugins[i].num_kernels = row ? 1 : 0;
  ck_assert_msg(registry_add(&host_memory_default, &reg, &host, &plugins[i], NULL, NULL) == TN_OK,
                "%s", tn_last_error());
  plugin_entry *e = reg.plugins;
  while (e->next) e = e->next;
  return e;
}

static const cell *cell_of(const char *type, const char *op) {
  const op_entry *e = registry_find_op(&reg, op);
  ck_assert_ptr_nonnull(e);
  return registry_cells(registry_find_type(&reg, type)->table, e->row.id, TN_F32);
}

START_TEST(kernels_wait_for_their_operator) {
  static const tn_operator operators[] = {OPERATOR("acme.warp")};
  static tn_kernel row = FIXTURE_KERNEL("early");
  row.op = 0, row.op_name = "acme.warp";
  const plugin_entry *early = add_one(0, "early", &row, NULL);
  ck_assert_ptr_null(registry_find_op(&reg, "acme.warp"));
  plugin_entry *warp = add_one(1, NULL, NULL, operators);
  ck_assert_ptr_eq(cell_of("early", "acme.warp")->kernel, &early->kernels[0]);
  ck_assert(cell_of("early", "acme.warp")->run == fixture_add);
  /* A type that comes later than both, and kernels of the plugin that has the operator. */
  static tn_kernel late = FIXTURE_KERNEL("late");
  late.op = 0, late.op_name = "acme.warp";
  (void)add_one(2, NULL, &late, NULL);
  (void)add_one(3, "late", NULL, NULL);
  ck_assert_ptr_nonnull(cell_of("late", "acme.warp"));
  registry_unregister(&reg, warp);
  ck_assert_ptr_null(registry_find_op(&reg, "acme.warp"));
  ck_assert_int_eq(registry_restore(&host_memory_default, &reg, warp), TN_OK);
  ck_assert_ptr_eq(cell_of("early", "acme.warp")->kernel, &early->kernels[0]);
}
END_TEST

/* Kernels that come while the operator's plugin is unloaded have theirs once it is back. */
START_TEST(kernels_wait_for_a_plugin_that_is_away) {
  static const tn_operator operators[] = {OPERATOR("acme.warp")}, own[] = {OPERATOR("acme.warp")};
  static tn_kernel row = FIXTURE_KERNEL("early"), any = FIXTURE_KERNEL("early");
  row.op = any.op = 0, row.op_name = any.op_name = "acme.warp";
  any.device_type = TN_DEVICE_ANY_HOST, any.priority = 7;
  plugin_entry *warp = add_one(0, NULL, NULL, operators);
  registry_unregister(&reg, warp);
  (void)add_one(1, "early", &row, NULL);
  const plugin_entry *host_row = add_one(2, NULL, &any, NULL);
  ck_assert_int_eq(registry_restore(&host_memory_default, &reg, warp), TN_OK);
  const cell *c = cell_of("early", "acme.warp");
  ck_assert_str_eq(c->kernel->row.name, "early.add.f32");
  ck_assert_ptr_eq(atomic_load(&c->next)->kernel, &host_row->kernels[0]);
  /* Another plugin has brought the operator meanwhile: the one that comes back does without. */
  registry_unregister(&reg, warp);
  (void)add_one(3, NULL, NULL, own);
  const op_entry *others = registry_find_op(&reg, "acme.warp");
  ck_assert_int_eq(registry_restore(&host_memory_default, &reg, warp), TN_OK);
  ck_assert_ptr_eq(registry_find_op(&reg, "acme.warp"), others);
}
END_TEST

/* A row that names no types may be older than the types that came after version 1. */
START_TEST(types_of_later_are_for_rows_that_name_them) {
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture")};
  rows[0].op = rows[1].op = TN_OP_CAST;
  rows[0].types[0] = 0;
  rows[1].types[0] = TN_SET(TN_F8_E5M2) | TN_SET(TN_F32);
  rows[1].types[1] = TN_SET_STORED;
  rows[1].priority = rows[0].priority + 1;
  tn_plugin plugin = plugin_of(NULL, 0);
  plugin.kernels = rows, plugin.num_kernels = 2;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  const device_type *type = registry_find_type(&reg, "fixture");
  const kernel_entry *old = &reg.plugins->kernels[0], *new = &reg.plugins->kernels[1];
  for (tn_dtype t = TN_BOOL; t < TN_DTYPE_SLOTS; t++) {
    const cell *c = registry_cells(type->table, TN_OP_CAST, t);
    const bool named = TN_SET(t) & rows[1].types[0];
    if (named) {
      ck_assert_ptr_eq(c->kernel, new);
      ck_assert(c->direct == !new->row.supports);
      c = atomic_load(&c->next);
    }
    if (!(TN_SET(t) & TN_SET_ALL)) ck_assert_ptr_null(c);
    if (!(TN_SET(t) & TN_SET_ALL)) continue;
    ck_assert_ptr_eq(c->kernel, old);
    ck_assert(!c->direct); /* what it is cast to may be one of them */
  }
}
END_TEST

/* Rows for operators that a later Tenon numbered stay out, and the plugin comes in. */
START_TEST(kernels_of_later_operators_stay_out) {
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture"),
                      FIXTURE_KERNEL("fixture")};
  rows[0].op = OPS_PLUGIN_FIRST - 1;
  rows[2].types[0] = TN_SET(TN_F8_E5M2 + 1); /* of a type that is not known either */
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

/* --- kernels older than an attribute of their operator --- */

static bool is_scalar(const tn_kernel_args *args) { return args->out[0]->ndim == 0; }

/* Kernels of sum: as compiled before dtype was there, one that knows it, and one more of before
 * with an opinion of its own, whose row ends where rows of 0.9 end. */
static const kernel_entry *sum_kernel(uint32_t attrs_size, bool has_opinion) {
  static tn_kernel rows[1];
  rows[0] = (tn_kernel)FIXTURE_KERNEL("fixture");
  rows[0].op = TN_OP_SUM, rows[0].attrs_size = attrs_size;
  if (has_opinion) rows[0].supports = is_scalar;
  if (!attrs_size) rows[0].struct_size = offsetof(tn_kernel, attrs_size);
  tn_plugin plugin = plugin_of(NULL, 0);
  plugin.kernels = rows, plugin.num_kernels = 1;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  return &reg.plugins->kernels[0];
}

static bool takes(const kernel_entry *k, const tn_sum_attrs *attrs, int32_t rank) {
  DLTensor y = {.ndim = rank};
  DLTensor *out[] = {&y};
  const tn_kernel_args args = {
      .struct_size = sizeof args, .num_out = 1, .out = out, .attrs = attrs, .kernel = &k->row};
  return !k->row.supports || k->row.supports(&args);
}

static bool is_direct(void) {
  const device_type *type = registry_find_type(&reg, "fixture");
  return registry_cells(type->table, TN_OP_SUM, TN_F32)->direct;
}

START_TEST(kernels_of_before_do_not_get_what_they_do_not_know) {
  const kernel_entry *k = sum_kernel(0, _i);
  /* What lies behind the last attribute, and behind a list's count, is nobody's. */
  struct {
    tn_sum_attrs known;
    int64_t more;
  } attrs = {.known = TN_SUM_DEFAULTS, .more = -1};
  attrs.known.axes.axis[7] = 77;
  ck_assert(takes(k, &attrs.known, 0) && !is_direct());
  attrs.known.keepdims = 1, attrs.known.axes = (tn_axes){1, {0}};
  ck_assert(takes(k, &attrs.known, 0));
  ck_assert_int_eq(takes(k, &attrs.known, 1), !_i);
  attrs.known.dtype = TN_F64;
  ck_assert(!takes(k, &attrs.known, 0) && !takes(k, &attrs.known, 1));
}
END_TEST

START_TEST(kernels_that_know_all_stay_as_they_are) {
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  attrs.dtype = TN_F64;
  const kernel_entry *k = sum_kernel(sizeof attrs + 64 * (uint32_t)_i, _i);
  ck_assert(takes(k, &attrs, 0));
  ck_assert(k->row.supports == (_i ? is_scalar : NULL) && is_direct() == !_i);
}
END_TEST

/* Of operators that never grew, and of a plugin's own that does not say, rows know everything. */
START_TEST(rows_of_operators_that_did_not_grow_are_untouched) {
  static const tn_operator operators[] = {OPERATOR("warp")};
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture")};
  rows[0].op = TN_OP_MEAN, rows[1].op = 0, rows[1].op_name = "warp";
  tn_plugin plugin = plugin_of(operators, 1);
  plugin.kernels = rows, plugin.num_kernels = 2;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  for (int i = 0; i < 2; i++) ck_assert(!reg.plugins->kernels[i].row.supports);
}
END_TEST

START_TEST(a_plugins_operator_may_grow_too) {
  tn_operator grown = OPERATOR("warp");
  tn_kernel rows[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture")};
  for (int i = 0; i < 2; i++) rows[i].op = 0, rows[i].op_name = "warp";
  rows[1].attrs_size = grown.attrs_size;
  grown.attrs_known = 16; /* the pair at 16 came later */
  tn_plugin plugin = plugin_of(&grown, 1);
  plugin.kernels = rows, plugin.num_kernels = 2;
  ck_assert_msg(add(&plugin) == TN_OK, "%s", tn_last_error());
  struct {
    uint32_t struct_size;
    double alpha;
    int64_t size[2];
  } attrs = {32, 7, {3, 3}};
  tn_kernel_args args = {
      .struct_size = sizeof args, .attrs = &attrs, .kernel = &reg.plugins->kernels[0].row};
  ck_assert(args.kernel->supports(&args));
  attrs.size[1] = 4;
  ck_assert(!args.kernel->supports(&args));
  ck_assert(!reg.plugins->kernels[1].row.supports);
}
END_TEST

static void add_tests(TCase *rows) {
  tcase_add_checked_fixture(rows, set_up, tear_down);
  tcase_add_test(rows, longer_rows_become_ours);
  tcase_add_test(rows, the_distance_may_be_left_out);
  tcase_add_test(rows, readers_find_rows_by_their_distance);
  tcase_add_test(rows, operators_that_exist_are_left_out);
  tcase_add_test(rows, operators_left_out_take_no_room);
  tcase_add_test(rows, numbers_of_plugins_are_nobodys);
  tcase_add_test(rows, kernels_wait_for_their_operator);
  tcase_add_test(rows, kernels_wait_for_a_plugin_that_is_away);
  tcase_add_test(rows, kernels_of_later_operators_stay_out);
  tcase_add_test(rows, types_of_later_are_for_rows_that_name_them);
  tcase_add_loop_test(rows, kernels_of_before_do_not_get_what_they_do_not_know, 0, 2);
  tcase_add_loop_test(rows, kernels_that_know_all_stay_as_they_are, 0, 2);
  tcase_add_test(rows, rows_of_operators_that_did_not_grow_are_untouched);
  tcase_add_test(rows, a_plugins_operator_may_grow_too);
}

int main(void) { return run_suite("registry", add_tests); }
