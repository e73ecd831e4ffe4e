/*
 * Operator tests, made from ops.def: one test per operator and device. Every choice of
 * element types that the schema allows runs the cases of its shape rule and is held
 * against the reference device; then the calls that must fail. TENON_TEST_DEVICE=type
 * narrows to one type of device; CK_FORK=no runs all in one process.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bad_calls.h"
#include "session.h"

static const uint32_t op_ids[] = {
#define OP(id, name, NAME, ...) id,
#include "ops.def"
};
enum { OPS = sizeof op_ids / sizeof *op_ids };

static test_device devices[TEST_DEVICES];

/* One operator at work on one device. */
typedef struct trial {
  const tn_operator *op;
  tn_device *device, *reference, *other;
  tally tally;
  uint64_t combos, native;
} trial;

static void take_case(void *ctx, const op_case *c) {
  trial *t = ctx;
  run_case(c, t->device, t->reference, &t->tally);
}

static void take_typical(void *ctx, const op_case *c) {
  trial *t = ctx;
  if (c->typical) bad_calls(c, t->device, t->other, &t->tally);
}

/* Calls visit for every choice of types for the operator's type variables. */
static void each_types(const tn_operator *op, void (*visit)(trial *t, const tn_dtype *types),
                       trial *t) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  for (int a = 1; a < TN_DTYPE_SLOTS; a++)
    for (int b = op->types[1] ? 1 : 0; b < (op->types[1] ? TN_DTYPE_SLOTS : 1); b++) {
      types[0] = (tn_dtype)a;
      types[1] = (tn_dtype)b;
      if (op->types[0] >> a & 1 && (!op->types[1] || op->types[1] >> b & 1)) visit(t, types);
    }
}

static void try_types(trial *t, const tn_dtype *types) {
  tn_kernel_info info = {.struct_size = sizeof info};
  t->combos++;
  if (tn_kernel_find(t->device, t->op->id, types[0], 0, &info) != TN_OK) return;
  uint64_t before = t->tally.unsupported, runs = t->tally.runs;
  cases_emit(t->op, types, (case_sink){take_case, t});
  uint64_t refused = t->tally.unsupported - before;
  if (refused < t->tally.runs - runs) t->native++;
  if (refused && refused < t->tally.runs - runs)
    printf("%s %s: no kernel for %llu of %llu calls\n", t->op->name, tn_dtype_name(types[0]),
           (unsigned long long)refused, (unsigned long long)(t->tally.runs - runs));
}

/* Float32 where the operator takes it, else int32. */
static void spoil_types(trial *t, const tn_dtype *types) {
  tn_dtype usual = t->op->types[0] & TN_SET(TN_F32) ? TN_F32 : TN_I32;
  bool plain = types[0] == usual && (!types[1] || types[1] == TN_I32 || types[1] == TN_F16);
  if (plain) cases_emit(t->op, types, (case_sink){take_typical, t});
}

static trial trial_begin(int i) {
  trial t = {.device = session_device(devices[i / OPS].id)};
  t.op = session_operator(op_ids[i % OPS]);
  t.reference = session_device("reference");
  tn_device *cpu = session_device("cpu");
  t.other = t.device == t.reference ? cpu : t.reference;
  return t;
}

static bool is_host(tn_device *device) {
  tn_device_info info = {.struct_size = sizeof info};
  return tn_device_get_info(device, &info) == TN_OK && info.host_memory;
}

static void report(const trial *t, int i) {
  session_totals *s = session_shared();
  s->cases += t->tally.cases;
  s->runs += t->tally.runs;
  s->unsupported += t->tally.unsupported;
  s->failures += t->tally.failures;
  s->combos[i / OPS] += t->combos;
  s->native[i / OPS] += t->native;
  if (t->native < t->combos)
    printf("%s: %s runs natively in %llu of %llu choices of types\n", devices[i / OPS].id,
           t->op->name, (unsigned long long)t->native, (unsigned long long)t->combos);
  fflush(stdout);
}

START_TEST(matches_reference) {
  trial t = trial_begin(_i);
  ck_assert_msg(t.op && t.device && t.reference, "%s", tn_last_error());
  each_types(t.op, try_types, &t);
  report(&t, _i);
  ck_assert_msg(t.tally.failures == 0, "%s on %s: %llu of %llu calls failed, first: %s", t.op->name,
                devices[_i / OPS].id, (unsigned long long)t.tally.failures,
                (unsigned long long)t.tally.runs, t.tally.first);
  if (is_host(t.device))
    ck_assert_msg(t.native == t.combos && !t.tally.unsupported,
                  "%s lacks kernels on a host device: %s", t.op->name, tn_last_error());
}
END_TEST

START_TEST(refuses_bad_calls) {
  trial t = trial_begin(_i);
  ck_assert_msg(t.op && t.device && t.reference, "%s", tn_last_error());
  each_types(t.op, spoil_types, &t);
  session_shared()->bad_calls += t.tally.runs;
  ck_assert_msg(t.tally.failures == 0, "%s on %s: %llu of %llu bad calls were not refused well, %s",
                t.op->name, devices[_i / OPS].id, (unsigned long long)t.tally.failures,
                (unsigned long long)t.tally.runs, t.tally.first);
  ck_assert_msg(t.tally.runs > 0 || t.tally.unsupported, "no bad call was made");
}
END_TEST

static Suite *suite(int tests) {
  Suite *s = suite_create("ops");
  TCase *good = tcase_create("matches the reference"), *bad = tcase_create("refuses bad calls");
  tcase_set_timeout(good, 120);
  tcase_set_timeout(bad, 120);
  tcase_add_loop_test(good, matches_reference, 0, tests);
  tcase_add_loop_test(bad, refuses_bad_calls, 0, tests);
  suite_add_tcase(s, good);
  suite_add_tcase(s, bad);
  return s;
}

static void print_totals(size_t count) {
  const session_totals *s = session_shared();
  for (size_t i = 0; i < count; i++)
    printf("%s: %llu of %llu choices of operator and types run natively\n", devices[i].id,
           (unsigned long long)s->native[i], (unsigned long long)s->combos[i]);
  printf("%llu cases in %llu calls, %llu without kernel, %llu failures; %llu bad calls\n",
         (unsigned long long)s->cases, (unsigned long long)s->runs,
         (unsigned long long)s->unsupported, (unsigned long long)s->failures,
         (unsigned long long)s->bad_calls);
}

/* Outputs too large to hold are asked for on purpose: AddressSanitizer shall say no, as
 * the C library does, rather than stop. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

int main(void) {
  const char *fork_choice = getenv("CK_FORK");
  session_shared();
  size_t count = session_devices(devices, !fork_choice || strcmp(fork_choice, "no"));
  if (count == 0) return puts("skipped: no device to test"), 77;
  SRunner *runner = srunner_create(suite((int)count * OPS));
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  print_totals(count);
  srunner_free(runner);
  session_close();
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
