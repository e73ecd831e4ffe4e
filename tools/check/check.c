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
#include "../progress.h"
#include "backend/backend.h"

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
    return number("seed", optarg, UINT64_MAX, &o->seed);
  case 'c':
    o->has_case = true;
    return number("case", optarg, UINT64_MAX, &o->only_case);
  case 'l':
    return o->list = true;
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
    return false;
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
  static const struct option options[] = {
      {"device", required_argument, NULL, 'd'}, {"op", required_argument, NULL, 'o'},
      {"dtype", required_argument, NULL, 't'},  {"slots", required_argument, NULL, 'S'},
      {"seed", required_argument, NULL, 's'},   {"case", required_argument, NULL, 'c'},
      {"expect", required_argument, NULL, 'e'}, {"junit", required_argument, NULL, 'u'},
      {"json", no_argument, NULL, 'J'},         {"list", no_argument, NULL, 'l'},
      {"complete", no_argument, NULL, 'C'},     {"large", no_argument, NULL, 'L'},
      {"jobs", required_argument, NULL, 'j'},   {"timeout", required_argument, NULL, 'T'},
      {"no-fork", no_argument, NULL, 'F'},      {"no-thresholds", no_argument, NULL, 'H'},
      {"help", no_argument, NULL, 'h'},         {0}};
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
  if (o->timeout_s == 0) o->timeout_s = o->large ? 1200 : 120;
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
  to->slots += t->slots;
  to->slot_calls += t->slot_calls;
  to->kernels += t->kernels;
  to->kernels_listed += t->kernels_listed;
}

static void unit_done(void *ctx, unit *u) {
  check *k = ctx;
  uint64_t expected = expect_match(&k->expect, k->agenda, u);
  totals t = {.operators = 1, .expected = expected, .combos = u->combos, .native = u->native};
  t.cases = u->tally.cases;
  t.runs = u->tally.runs;
  t.bad_calls = u->tally.bad_calls;
  t.repeats = u->tally.repeats;
  t.thresholds = u->tally.thresholds;
  unchecked_rows(k->options, k->agenda, &k->expect, u, &t);
  t.failures = u->tally.failures;
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

static unit *slot_units(const check *k, uint32_t device) {
  const agenda *a = k->agenda;
  return k->units + (size_t)a->num_devices * a->num_ops + (size_t)device * a->num_checks;
}

static bool run_devices(check *k) {
  bool ok = true;
  for (uint32_t d = 0; ok && d < k->agenda->num_devices; d++) {
    k->device = (totals){0};
    expect_device(&k->expect, &k->agenda->device[d]);
    ok = backend_run(k->options, k->agenda, d, slot_units(k, d), slots_done, k);
    ok = ok &&
         workers_run(k->options, k->agenda, d, k->units + d * k->agenda->num_ops, unit_done, k);
    add_totals(&k->all, &k->device);
    if (!k->options->json) report_device_text(&k->agenda->device[d], &k->device);
  }
  return ok;
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

static int run(check *k) {
  uint64_t began = clock_ns();
  size_t count = (size_t)k->agenda->num_devices * (k->agenda->num_ops + k->agenda->num_checks);
  if (!read_expectations(k)) return EXIT_USAGE;
  k->units = shared_memory((count + 1) * sizeof *k->units);
  bool ok = run_devices(k);
  find_stale(k);
  k->all.seconds = (double)(clock_ns() - began) / 1e9;
  report_totals(k->options, &k->all);
  if (k->options->junit)
    ok = report_junit(k->options->junit, k->agenda, k->units, count, &k->expect, &k->all) && ok;
  munmap(k->units, (count + 1) * sizeof *k->units);
  if (!ok || k->all.failures > k->all.expected || k->all.stale) return EXIT_FAILED;
  if (k->all.runs || k->all.slot_calls) return EXIT_OK;
  fputs("tenon check: nothing was checked\n", stderr);
  return EXIT_NOTHING;
}

static void make_agenda(void *ctx) {
  check *k = ctx;
  agenda_make(k->options, k->agenda);
}

static void list(void *ctx) {
  check *k = ctx;
  workbench w;
  backend_list(k->options, &k->agenda->device[0]);
  if (workbench_open(k->options, &k->agenda->device[0], &w) != TN_OK) return;
  for (uint32_t i = 0; i < k->agenda->num_ops; i++)
    if (k->agenda->device[0].wanted[i]) unit_list(&w, k->agenda, i);
  workbench_close(&w);
}

static void complete(void *ctx) {
  check *k = ctx;
  workbench w;
  k->agenda->lacking = 1;
  if (workbench_open(k->options, &k->agenda->device[0], &w) != TN_OK) return;
  k->agenda->lacking = 0;
  for (uint32_t i = 0; i < k->agenda->num_ops; i++)
    if (k->agenda->device[0].wanted[i])
      k->agenda->lacking += complete_operator(&w, session_operator(w.runtime, k->agenda->op[i].id));
  workbench_close(&w);
}

static int run_complete(check *k) {
  bool ok = workers_apart(k->options, complete, k) && !k->agenda->lacking;
  if (ok) puts("every operator can be checked and timed");
  return ok ? EXIT_OK : EXIT_FAILED;
}

/* What stops before the first run: 0, or what to exit with. */
static int stopped(const check *k) {
  const agenda *a = k->agenda;
  fputs(a->notes, a->status || a->refused || k->options->json ? stderr : stdout);
  if (a->refused) return EXIT_FAILED;
  if (a->status == TN_ERR_INVALID_ARGUMENT) return EXIT_USAGE;
  if (a->status != TN_OK && a->status != TN_ERR_NOT_FOUND) return EXIT_FAILED;
  if (a->num_devices) return EXIT_OK;
  fputs("tenon check: nothing to check\n", stderr);
  return EXIT_NOTHING;
}

int command_check(int argc, char **argv) {
  check_options o = {0};
  int status = read_options(argc, argv, &o);
  if (status) return status - 1;
  set_defaults(&o);
  progress_begin(!o.json);
  check k = {.options = &o, .agenda = shared_memory(sizeof *k.agenda)};
  if (!workers_apart(&o, make_agenda, &k)) {
    fputs("tenon check: died while looking for devices\n", stderr);
    return EXIT_FAILED;
  }
  status = stopped(&k);
  if (!status && o.list)
    status = workers_apart(&o, list, &k) ? EXIT_OK : EXIT_FAILED;
  else if (!status && o.complete)
    status = run_complete(&k);
  else if (!status)
    status = run(&k);
  expect_free(&k.expect);
  munmap(k.agenda, sizeof *k.agenda);
  return status;
}
