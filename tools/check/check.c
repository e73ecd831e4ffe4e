/*
 * tenon check: holds every operator of a device against the reference, in cases made from
 * the operators' schemas. See docs/checking.md.
 */
#include "check.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../command.h"
#include "../help.h"
#include "../plain.h"
#include "../progress.h"
#include "backend/backend.h"
#include "output.h"

/* Outputs too large to hold are asked for on purpose: AddressSanitizer shall say no, as
 * the C library does, rather than stop. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* --- options --- */

static bool number(const char *name, const char *text, uint64_t most, uint64_t *value) {
  char *end;
  unsigned long long n = strtoull(text, &end, 10);
  bool ok = *text >= '0' && *text <= '9' && !*end && n <= most;
  if (!ok) fprintf(stderr, "tenon check: --%s wants a number, not '%s'\n", name, text);
  *value = n;
  return ok;
}

static bool minutes(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  bool ok = end != text && !*end && *value > 0 && *value <= 100000;
  if (!ok) fprintf(stderr, "tenon check: --minutes wants a time above 0, not '%s'\n", text);
  return ok;
}

/* Options without a value; false for others. */
static bool take_flag(int option, check_options *o) {
  switch (option) {
  case 'l':
    return o->list = true;
  case 'a':
    return o->all = true;
  case 'C':
    return o->complete = true;
  case 'L':
    return o->large = true;
  case 'J':
    return o->json = true;
  case 'F':
    return o->no_fork = true;
  case 'H':
    return o->no_thresholds = true;
  default:
    return false;
  }
}

static bool take_option(int option, check_options *o) {
  uint64_t n = 0;
  switch (option) {
  case 'd':
    o->device = optarg;
    return true;
  case 'o':
    o->op = optarg;
    return true;
  case 't':
    o->dtype = optarg;
    return true;
  case 'S':
    o->slots = optarg;
    if (backend_has_check(optarg)) return true;
    fprintf(stderr, "tenon check: no check of slots is named '%s'\n", optarg);
    return false;
  case 'e':
    o->expect = optarg;
    return true;
  case 'u':
    o->junit = optarg;
    return true;
  case 's':
    o->has_seed = true;
    return number("seed", optarg, UINT64_MAX, &o->seed);
  case 'c':
    o->has_case = true;
    return number("case", optarg, UINT64_MAX, &o->only_case);
  case 'n':
    return number("every", optarg, UINT64_MAX, &o->every);
  case 'm':
    return minutes(optarg, &o->minutes);
  case 'K':
    o->has_step = true;
    return number("fuzz-step", optarg, UINT64_MAX, &o->step);
  case 'q':
    o->sequence = optarg;
    return true;
  case 'T':
    if (!number("timeout", optarg, 1000000, &n)) return false;
    o->timeout_s = (uint32_t)n;
    return true;
  case 'j':
    if (!number("jobs", optarg, 64, &n)) return false;
    o->jobs = n ? (uint32_t)n : 1;
    o->jobs_given = true;
    return true;
  default:
    return take_flag(option, o);
  }
}

static bool take_plugin(int argc, char **argv, check_options *o) {
  static char path[PATH_MAX];
  if (optind == argc) return true;
  if (optind + 1 < argc) return false;
  if (!realpath(argv[optind], path)) return perror(argv[optind]), false;
  o->plugin = path;
  return true;
}

/* 0: go on; else what to exit with, plus 1. */
static int read_options(int argc, char **argv, check_options *o) {
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"op", required_argument, NULL, 'o'},
                                          {"dtype", required_argument, NULL, 't'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"case", required_argument, NULL, 'c'},
                                          {"expect", required_argument, NULL, 'e'},
                                          {"junit", required_argument, NULL, 'u'},
                                          {"json", no_argument, NULL, 'J'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"minutes", required_argument, NULL, 'm'},
                                          {"fuzz-step", required_argument, NULL, 'K'},
                                          {"sequence", required_argument, NULL, 'q'},
                                          {"slots", required_argument, NULL, 'S'},
                                          {"complete", no_argument, NULL, 'C'},
                                          {"large", no_argument, NULL, 'L'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"timeout", required_argument, NULL, 'T'},
                                          {"no-fork", no_argument, NULL, 'F'},
                                          {"no-thresholds", no_argument, NULL, 'H'},
                                          {"every", required_argument, NULL, 'n'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  for (int option; (option = getopt_long(argc, argv, "hj:", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_check, stdout), EXIT_OK + 1;
    if (!take_option(option, o)) return fputs(help_check, stderr), EXIT_USAGE + 1;
  }
  if (!take_plugin(argc, argv, o)) return fputs(help_check, stderr), EXIT_USAGE + 1;
  return 0;
}

static void set_defaults(check_options *o) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (o->jobs == 0) o->jobs = processors < 1 ? 1 : processors > 8 ? 8 : (uint32_t)processors;
  if (o->no_fork) o->jobs = 1;
  o->timeout_given = o->timeout_s != 0;
  if (!o->timeout_given) o->timeout_s = o->large ? 1200 : 120;
}

/* --- the run --- */

typedef struct check {
  const check_options *options;
  agenda *agenda;
  unit *units; /* [device][operator], and behind all of them [device][check of slots] */
  expectations expect;
  totals device, all;
} check;

static void add_totals(totals *to, const totals *t) {
  to->operators += t->operators;
  to->cases += t->cases;
  to->runs += t->runs;
  to->bad_calls += t->bad_calls;
  to->repeats += t->repeats;
  to->thresholds += t->thresholds;
  to->failures += t->failures;
  to->expected += t->expected;
  to->combos += t->combos;
  to->native += t->native;
  to->idle += t->idle;
  to->slots += t->slots;
  to->slot_calls += t->slot_calls;
  to->kernels += t->kernels;
  to->kernels_listed += t->kernels_listed;
}

static void unit_done(void *ctx, unit *u) {
  check *k = ctx;
  uint64_t expected = expect_match(&k->expect, k->agenda, u);
  bool itself = u->op == CHECK_ITSELF;
  totals t = {.operators = !itself, .expected = expected, .combos = u->combos, .native = u->native};
  t.cases = u->tally.cases;
  t.runs = u->tally.runs;
  t.bad_calls = u->tally.bad_calls;
  t.repeats = u->tally.repeats;
  t.thresholds = u->tally.thresholds;
  unchecked_rows(k->options, k->agenda, &k->expect, u, &t);
  t.failures = u->tally.failures;
  t.idle = !itself && unit_is_idle(u);
  add_totals(&k->device, &t);
  progress_clear();
  (k->options->json ? report_unit_json : report_unit_text)(k->agenda, u, expected);
}

static void slots_done(void *ctx, unit *u) {
  check *k = ctx;
  totals t = {.slots = 1, .slot_calls = u->tally.runs, .failures = u->tally.failures};
  t.expected = expect_match(&k->expect, k->agenda, u);
  add_totals(&k->device, &t);
  progress_clear();
  (k->options->json ? report_unit_json : report_unit_text)(k->agenda, u, t.expected);
}

static bool narrowed(const check_options *o) {
  return o->op || o->dtype || o->has_case || o->slots;
}

/* An entry that nothing used fails the run, unless much was left out anyway. */
static void find_stale(check *k) {
  for (size_t i = 0; i < k->expect.count && !narrowed(k->options); i++) {
    const expectation *e = &k->expect.list[i];
    if (!expect_is_stale(e)) continue;
    k->all.stale++;
    if (!k->options->json)
      printf("stale: %s:%u: %s %s: nothing fails any more, or the kernel runs (%s)\n", e->from,
             e->line, e->op, e->dtype, e->reason);
  }
}

/* Units of a device: one per operator, one per check of slots, and that of the device itself. */
static size_t units_of_device(const agenda *a) { return (size_t)a->num_ops + a->num_checks + 1; }

static void fail_itself(check *k, unit *itself, const char *text) {
  itself->tally.failures++;
  unit_fail(k->options, k->agenda, itself, text);
  atomic_store(&itself->state, UNIT_DONE);
  unit_done(k, itself);
}

/* The device's slots first, which operators rely on. */
static void run_cases(check *k, uint32_t d, unit *units, unit *slots, unit *itself) {
  if (!backend_run(k->options, k->agenda, d, slots, slots_done, k))
    fail_itself(k, itself, "no process could begin");
  workers_run(k->options, k->agenda, d, units, itself, unit_done, k);
}

static void run_device(check *k, uint32_t d) {
  const checked_device *device = &k->agenda->device[d];
  unit *units = k->units + d * units_of_device(k->agenda);
  unit *slots = units + k->agenda->num_ops, *itself = slots + k->agenda->num_checks;
  itself->device = d;
  itself->op = CHECK_ITSELF;
  k->device = (totals){0};
  expect_device(&k->expect, device);
  if (device->failure[0])
    fail_itself(k, itself, device->failure);
  else if (fuzz_is_wanted(k->options))
    fuzz_run(k->options, k->agenda, d, units, itself, unit_done, k);
  else
    run_cases(k, d, units, slots, itself);
  add_totals(&k->all, &k->device);
  if (!k->options->json)
    report_device_text(k->options, k->agenda, device, units, k->agenda->num_ops, &k->device);
}

/* What failed before there was a device, as if it were one's. */
static void run_failure(check *k) {
  unit *itself = k->units + (k->agenda->num_devices + 1) * units_of_device(k->agenda) - 1;
  checked_device *none = &k->agenda->device[k->agenda->num_devices];
  *none = (checked_device){0};
  snprintf(none->id, sizeof none->id, "%s", k->options->plugin ? "plugin" : "tenon");
  itself->device = k->agenda->num_devices;
  itself->op = CHECK_ITSELF;
  k->device = (totals){0};
  fail_itself(k, itself, k->agenda->failure);
  add_totals(&k->all, &k->device);
}

/* Devices and operators there were, and none of the operators has a kernel or a case. */
static void say_nothing_ran(const check *k) {
  const check_options *o = k->options;
  if (fuzz_is_wanted(o)) {
    fputs("tenon check: nothing ran: shape rules declined what there was\n", stderr);
    return;
  }
  const char *between = o->op && o->dtype ? " and " : "";
  fputs("tenon check: nothing was checked: no kernel here for what --op and --dtype leave", stderr);
  fprintf(stderr, " (%s%s%s%s)\n", o->op ? o->op : "", between, o->dtype ? o->dtype : "",
          o->has_case ? ", or no such --case" : "");
}

static bool read_expectations(check *k) {
  bool ok = !k->options->expect || expect_read(&k->expect, k->options->expect);
  for (uint32_t d = 0; ok && d < k->agenda->num_devices; d++) {
    const char *path = k->agenda->device[d].expect;
    bool again = d > 0 && !strcmp(path, k->agenda->device[d - 1].expect);
    if (*path && !again) ok = expect_read(&k->expect, path);
  }
  return ok;
}

static size_t count_units(const agenda *a) { return (a->num_devices + 1) * units_of_device(a); }

static bool write_junit(check *k) {
  return !k->options->junit || report_junit(k->options->junit, k->agenda, k->units,
                                            count_units(k->agenda), &k->expect, &k->all);
}

static int run(check *k) {
  uint64_t began = clock_ns();
  size_t bytes = count_units(k->agenda) * sizeof *k->units;
  if (!read_expectations(k)) return EXIT_USAGE;
  k->units = shared_memory(bytes);
  if (k->agenda->failure[0]) run_failure(k);
  for (uint32_t d = 0; d < k->agenda->num_devices; d++) run_device(k, d);
  find_stale(k);
  k->all.seconds = (double)(clock_ns() - began) / 1e9;
  if (!k->options->json) report_summary(k->agenda, k->units, count_units(k->agenda));
  report_totals(k->options, &k->all);
  bool ok = write_junit(k);
  munmap(k->units, bytes);
  if (!ok || k->all.failures > k->all.expected || k->all.stale) return EXIT_FAILED;
  bool any = k->all.runs || k->all.slot_calls;
  if (!any) say_nothing_ran(k);
  return any ? EXIT_OK : EXIT_NOTHING;
}

/* There is nothing to check, for a reason that is no failure. */
static int run_nothing(check *k) {
  const char *why = k->agenda->nothing[0] ? k->agenda->nothing : "no device is here";
  fprintf(stderr, "tenon check: nothing to check: %s\n", plain(why));
  k->units = shared_memory(count_units(k->agenda) * sizeof *k->units);
  unit *itself = k->units + units_of_device(k->agenda) - 1;
  itself->op = CHECK_ITSELF;
  snprintf(k->agenda->device[0].id, sizeof k->agenda->device->id, "tenon");
  snprintf(itself->note, sizeof itself->note, "%s", why);
  atomic_store(&itself->state, UNIT_DONE);
  return write_junit(k) ? EXIT_NOTHING : EXIT_FAILED;
}

static void make_agenda(void *ctx) {
  check *k = ctx;
  const int out = output_aside();
  agenda_make(k->options, k->agenda);
  output_back(out);
}

/* With what it could not be made of. What dies behind the end, in closing, leaves it whole. */
static void look_around(check *k) {
  agenda *a = k->agenda;
  const char *how = workers_apart(k->options, make_agenda, k, k->options->timeout_s);
  if (!*how) return;
  if (!a->complete) a->num_devices = 0;
  snprintf(a->failure, sizeof a->failure, "%s: %s",
           a->complete ? "closing the runtime" : "looking for devices", how);
}

static void complete(void *ctx) {
  check *k = ctx;
  workbench w;
  k->agenda->lacking = 1;
  const int out = output_aside();
  const tn_status status = workbench_open(k->options, &k->agenda->device[0], &w);
  output_back(out);
  if (status != TN_OK) return;
  k->agenda->lacking = 0;
  for (uint32_t i = 0; i < k->agenda->num_ops; i++)
    if (k->agenda->device[0].wanted[i])
      k->agenda->lacking += complete_operator(&w, session_operator(w.runtime, k->agenda->op[i].id));
  workbench_close(&w);
}

static int run_complete(check *k) {
  const char *how = workers_apart(k->options, complete, k, 0);
  if (*how) fprintf(stderr, "tenon check: %s\n", plain(how));
  bool ok = !*how && !k->agenda->lacking;
  if (ok) puts("every operator can be checked and timed");
  return ok ? EXIT_OK : EXIT_FAILED;
}

/* Of those that want a device and find none, or what failed. */
static int stopped(const check *k) {
  const agenda *a = k->agenda;
  if (a->failure[0]) fprintf(stderr, "tenon check: %s\n", plain(a->failure));
  if (a->failure[0]) return EXIT_FAILED;
  fprintf(stderr, "tenon check: nothing to check: %s\n", plain(a->nothing));
  return EXIT_NOTHING;
}

static int run_as_asked(check *k) {
  const agenda *a = k->agenda;
  bool only_looks = k->options->list || k->options->complete;
  fputs(a->notes, k->options->json ? stderr : stdout);
  if (a->usage) return fprintf(stderr, "tenon check: %s\n", plain(a->failure)), EXIT_USAGE;
  if (only_looks && (a->failure[0] || !a->num_devices)) return stopped(k);
  if (k->options->list) return list_run(k->options, a);
  if (k->options->complete) return run_complete(k);
  return a->num_devices || a->failure[0] ? run(k) : run_nothing(k);
}

int command_check(int argc, char **argv) {
  check_options o = {.guarded = true};
  int status = read_options(argc, argv, &o);
  if (status) return status - 1;
  set_defaults(&o);
  progress_begin(!o.json);
  check k = {.options = &o, .agenda = shared_memory(sizeof *k.agenda)};
  o.expected = &k.expect;
  look_around(&k);
  status = run_as_asked(&k);
  expect_free(&k.expect);
  munmap(k.agenda, sizeof *k.agenda);
  return status;
}
