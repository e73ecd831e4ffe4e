/* What `tenon check` says: lines for people, JSON lines for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../json.h"
#include "../plain.h"
#include "check.h"

void dtypes_text(tn_dtype_set set, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int t = 0; t < TN_DTYPE_SLOTS && used < size; t++)
    if (set >> t & 1)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "",
                               t ? tn_dtype_name((tn_dtype)t) : "-");
}

static bool by_norm(const agenda *a, const unit *u) { return u->tally.bound < 0.01 && a; }

/* Colours are for terminals, and for those who did not decline them (no-color.org). */
static bool colours(void) {
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

static const char *red(void) { return colours() ? "\033[1;31m" : ""; }
static const char *green(void) { return colours() ? "\033[32m" : ""; }
static const char *usual(void) { return colours() ? "\033[0m" : ""; }

static const char *type_text(tn_dtype type) { return type ? tn_dtype_name(type) : "-"; }

static void error_text(const agenda *a, const unit *u, char *text, size_t size) {
  char in[40] = "";
  if (u->worst) snprintf(in, sizeof in, " in %s", type_text(u->worst));
  if (u->tally.bound == 0)
    snprintf(text, size, "exact");
  else if (by_norm(a, u))
    snprintf(text, size, "worst %.2g of %.2g relative%s", u->tally.error, u->tally.bound, in);
  else
    snprintf(text, size, "worst %.2f of %.4g ULP%s", u->tally.error, u->tally.bound, in);
}

static const char *verdict(const unit *u, uint64_t expected) {
  if (u->tally.failures > expected) return "FAILED";
  if (expected) return "expected";
  return u->tally.runs ? "ok" : "-";
}

static uint64_t calls_of(const unit *u) {
  return u->tally.runs + u->tally.bad_calls + u->tally.repeats;
}

/* A device, or its plugin, has neither types nor runs. */
static void head_text(const agenda *a, const unit *u, uint64_t expected) {
  char dtypes[200], error[80] = "";
  const char *said = verdict(u, expected);
  const char *colour = *said == 'F' ? red() : *said == 'o' ? green() : "";
  if (u->op == CHECK_ITSELF) {
    printf("%s%-8s%s %s\n", colour, said, *colour ? usual() : "", plain(a->device[u->device].id));
    return;
  }
  dtypes_text(u->natives, dtypes, sizeof dtypes);
  bool wrong = u->tally.failures > expected;
  if (u->is_slots) snprintf(dtypes, sizeof dtypes, "%.199s", u->what);
  if (u->tally.runs && !u->is_slots && !(wrong && u->tally.bound == 0))
    error_text(a, u, error, sizeof error);
  printf("%s%-8s%s %-28s %-45s %6" PRIu64 " %s  %s\n", colour, said, *colour ? usual() : "",
         plain(a->op[u->op].name), dtypes, calls_of(u), u->is_slots ? "calls" : "runs", error);
}

static void failure_text(const check_failure *f) {
  printf("%s%s%s%s\n         again: %s\n", f->expected ? "" : red(),
         f->expected ? "expected " : "FAIL     ", f->expected ? "" : usual(), plain(f->text),
         plain(f->again));
}

void report_unit_text(const agenda *a, const unit *u, uint64_t expected) {
  if (unit_is_idle(u) && !*u->note) return; /* the device's line counts them */
  head_text(a, u, expected);
  if (*u->note) printf("         %s\n", plain(u->note));
  for (uint32_t i = 0; i < u->kept; i++) failure_text(&u->failure[i]);
  if (u->tally.failures > u->kept)
    printf("         %" PRIu64 " failures in all\n", u->tally.failures);
  fflush(stdout);
}

static void json_failures(json *j, const unit *u) {
  json_open(j, "failed", '[');
  for (uint32_t i = 0; i < u->kept; i++) {
    json_open(j, NULL, '{');
    json_string(j, "what", u->failure[i].text);
    json_string(j, "again", u->failure[i].again);
    json_bool(j, "expected", u->failure[i].expected);
    json_close(j, '}');
  }
  json_close(j, ']');
}

static void json_dtypes(json *j, const char *name, tn_dtype_set set) {
  json_open(j, name, '[');
  for (int t = 1; t < TN_DTYPE_SLOTS; t++)
    if (set >> t & 1) json_string(j, NULL, tn_dtype_name((tn_dtype)t));
  json_close(j, ']');
}

void report_unit_json(const agenda *a, const unit *u, uint64_t expected) {
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "device", a->device[u->device].id);
  json_string(&j, "op", a->op[u->op].name);
  json_dtypes(&j, "dtypes", u->natives);
  json_dtypes(&j, "without_kernel", u->seen & ~u->natives);
  json_number(&j, "cases", u->tally.cases);
  json_number(&j, "runs", u->tally.runs);
  json_number(&j, "bad_calls", u->tally.bad_calls);
  json_number(&j, "repeats", u->tally.repeats);
  json_number(&j, "thresholds", u->tally.thresholds);
  json_number(&j, "without_kernel_runs", u->tally.unsupported);
  json_number(&j, "failures", u->tally.failures);
  json_number(&j, "expected_failures", expected);
  json_real(&j, "error", u->tally.error);
  json_real(&j, "bound", u->tally.bound);
  json_string(&j, "error_unit", by_norm(a, u) ? "relative norm" : "ULP");
  json_real(&j, "seconds", u->seconds);
  if (*u->note) json_string(&j, "note", u->note);
  json_failures(&j, u);
  if (u->worst) json_string(&j, "worst_dtype", type_text(u->worst));
  json_close(&j, '}');
  fflush(stdout);
}

/* Operators that the device has no kernel of; some of them by name. */
static void idle_text(const check_options *o, const agenda *a, const unit *units, size_t count,
                      uint64_t idle) {
  enum { NAMED = 5 };
  uint32_t named = 0;
  printf("%" PRIu64 " operators have no kernel here: ", idle);
  for (size_t i = 0; i < count; i++) {
    const unit *u = &units[i];
    if (u->state != UNIT_DONE || !unit_is_idle(u)) continue;
    if (named < NAMED || o->all) printf("%s%s", named ? ", " : "", plain(a->op[u->op].name));
    named++;
  }
  puts(named > NAMED && !o->all ? ", ... (--all names them)" : "");
}

void report_device_text(const check_options *o, const agenda *a, const checked_device *d,
                        const unit *units, size_t count, const totals *t) {
  if (d->failure[0] || fuzz_is_wanted(o)) return; /* what was drawn says nothing of the rest */
  if (t->idle) idle_text(o, a, units, count, t->idle);
  printf("%s (%s): %" PRIu64 " operators, %" PRIu64 " of %" PRIu64
         " choices of operator and types run natively\n",
         plain(d->id), plain(d->name), t->operators, t->native, t->combos);
}

/* The element types in which an operator fails. */
static void failed_types(const unit *u, char *text, size_t size) {
  tn_dtype_set set = 0;
  for (int t = 0; t < TN_DTYPE_SLOTS; t++)
    if (u->failed[t]) set |= TN_SET(t);
  dtypes_text(set, text, size);
}

static void summary_line(const agenda *a, const unit *u) {
  char types[200] = "";
  const check_failure *first = unit_failure(u);
  if (u->op != CHECK_ITSELF && !u->is_slots) failed_types(u, types, sizeof types);
  printf("  %-10s %-24s %6" PRIu64 "  %-20s\n             %s\n", plain(a->device[u->device].id),
         u->op == CHECK_ITSELF ? "" : plain(a->op[u->op].name), u->tally.failures, types,
         first ? plain(first->again) : "");
}

void report_summary(const agenda *a, const unit *units, size_t count) {
  size_t failed = 0;
  for (size_t i = 0; i < count; i++)
    if (units[i].state == UNIT_DONE && unit_fails(&units[i])) failed++;
  if (!failed) return;
  printf("\n%sWhat failed%s: device, operator, failures, element types, and how to run the first "
         "again\n",
         red(), usual());
  for (size_t i = 0; i < count; i++)
    if (units[i].state == UNIT_DONE && unit_fails(&units[i])) summary_line(a, &units[i]);
  puts("");
}

static void totals_json(const totals *t) {
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_bool(&j, "totals", true);
  json_number(&j, "operators", t->operators);
  json_number(&j, "cases", t->cases);
  json_number(&j, "runs", t->runs);
  json_number(&j, "bad_calls", t->bad_calls);
  json_number(&j, "repeats", t->repeats);
  json_number(&j, "thresholds", t->thresholds);
  json_number(&j, "slot_checks", t->slots);
  json_number(&j, "slot_calls", t->slot_calls);
  json_number(&j, "kernels", t->kernels);
  json_number(&j, "kernels_not_checked_as_listed", t->kernels_listed);
  json_number(&j, "failures", t->failures);
  json_number(&j, "expected_failures", t->expected);
  json_number(&j, "stale_expectations", t->stale);
  json_real(&j, "seconds", t->seconds);
  json_number(&j, "operators_without_kernel", t->idle);
  json_close(&j, '}');
}

void report_totals(const check_options *o, const totals *t) {
  if (o->json) {
    totals_json(t);
    return;
  }
  printf("%" PRIu64 " cases in %" PRIu64 " calls, %" PRIu64 " bad calls, %" PRIu64
         " repeated for their bits; %.0f s\n",
         t->cases, t->runs, t->bad_calls, t->repeats, t->seconds);
  if (!fuzz_is_wanted(o)) {
    printf("%" PRIu64 " kernels run", t->kernels);
    if (t->kernels_listed) printf(", %" PRIu64 " not checked as listed", t->kernels_listed);
    puts("");
  }
  if (!o->no_thresholds && !fuzz_is_wanted(o))
    printf("%" PRIu64 " thresholds, both sides run\n", t->thresholds);
  if (t->slots)
    printf("%" PRIu64 " checks of slots, which were called %" PRIu64 " times\n", t->slots,
           t->slot_calls);
  printf("%s%" PRIu64 " failures%s", t->failures > t->expected ? red() : green(),
         t->failures - t->expected, usual());
  if (t->expected) printf(", %" PRIu64 " expected ones", t->expected);
  if (t->stale) printf(", %" PRIu64 " stale expectations", t->stale);
  puts("");
}
