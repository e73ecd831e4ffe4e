/* What `tenon check` says: lines for people, JSON lines for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static void error_text(const agenda *a, const unit *u, char *text, size_t size) {
  if (u->tally.bound == 0)
    snprintf(text, size, "exact");
  else if (by_norm(a, u))
    snprintf(text, size, "%.2g of %.2g relative", u->tally.error, u->tally.bound);
  else
    snprintf(text, size, "%.2f of %.4g ULP", u->tally.error, u->tally.bound);
}

static const char *verdict(const unit *u, uint64_t expected) {
  if (u->tally.failures > expected) return "FAILED";
  if (expected) return "expected";
  return u->tally.runs ? "ok" : "-";
}

void report_unit_text(const agenda *a, const unit *u, uint64_t expected) {
  char dtypes[200], error[64] = "";
  dtypes_text(u->natives, dtypes, sizeof dtypes);
  if (u->is_slots) snprintf(dtypes, sizeof dtypes, "%.199s", u->what);
  if (u->tally.runs && !u->is_slots) error_text(a, u, error, sizeof error);
  printf("%-8s %-28s %-45s %6" PRIu64 " %s  %s\n", verdict(u, expected), plain(a->op[u->op].name),
         dtypes, u->tally.runs + u->tally.bad_calls + u->tally.repeats,
         u->is_slots ? "calls" : "runs", error);
  if (*u->note) printf("         %s\n", plain(u->note));
  for (uint32_t i = 0; i < u->kept; i++)
    printf("%s%s\n         again: %s\n", u->failure[i].expected ? "expected " : "FAIL     ",
           plain(u->failure[i].text), plain(u->failure[i].again));
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
  json_close(&j, '}');
  fflush(stdout);
}

void report_device_text(const checked_device *d, const totals *t) {
  printf("%s (%s): %" PRIu64 " operators, %" PRIu64 " of %" PRIu64
         " choices of operator and types run natively\n",
         plain(d->id), plain(d->name), t->operators, t->native, t->combos);
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
  printf("%" PRIu64 " kernels run", t->kernels);
  if (t->kernels_listed) printf(", %" PRIu64 " not checked as listed", t->kernels_listed);
  puts("");
  if (!o->no_thresholds) printf("%" PRIu64 " thresholds, both sides run\n", t->thresholds);
  if (t->slots)
    printf("%" PRIu64 " checks of slots, which were called %" PRIu64 " times\n", t->slots,
           t->slot_calls);
  printf("%" PRIu64 " failures", t->failures - t->expected);
  if (t->expected) printf(", %" PRIu64 " expected ones", t->expected);
  if (t->stale) printf(", %" PRIu64 " stale expectations", t->stale);
  puts("");
}
