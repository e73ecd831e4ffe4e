/*
 * Kernels that no case ran: a green check would say nothing of them, so each is a failure unless
 * a list of expected failures gives the reason.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"

/* Only where every case of a type was made can a kernel be missed. */
static bool all_cases_ran(const check_options *o, const unit *u) {
  return !o->has_case && o->every <= 1 && !o->no_thresholds &&
         !(o->dtype && strchr(o->dtype, ',')) && u->crashes < CHECK_CRASHES;
}

static void complain(const check_options *o, const agenda *a, unit *u, const row_use *r,
                     tn_dtype_set types) {
  /* Apart from the unit, in which the row's names lie as well. */
  char names[200], text[sizeof u->failure->text];
  check_failure *f = unit_keep(u, false);
  u->tally.failures++;
  if (!f) return;
  dtypes_text(types, names, sizeof names);
  snprintf(text, sizeof text, "%s: not checked: %s (plugin %s, priority %d) for %s: no case %s",
           a->device[u->device].id, r->name, r->plugin, (int)r->priority, names,
           r->some_calls ? "was taken by its supports" : "ran it");
  memcpy(f->text, text, sizeof text);
  snprintf(f->again, sizeof f->again, "tenon check%s%s --device %s --op %s", o->plugin ? " " : "",
           o->plugin ? o->plugin : "", a->device[u->device].id, a->op[u->op].name);
}

static void complain_of_many(const agenda *a, unit *u) {
  check_failure *f = unit_keep(u, false);
  u->tally.failures++;
  if (!f) return;
  snprintf(f->text, sizeof f->text, "%s: has more than %d kernels of %s: the rest was not watched",
           a->device[u->device].id, ROWS_MOST, a->op[u->op].name);
}

void unchecked_rows(const check_options *o, const agenda *a, expectations *e, unit *u, totals *t) {
  if (u->rows.left_out) complain_of_many(a, u);
  const bool all = all_cases_ran(o, u);
  for (uint32_t i = 0; i < u->rows.count; i++) {
    const row_use *r = &u->rows.row[i];
    tn_dtype_set missed = 0, listed = 0;
    for (int dtype = 0; dtype < TN_DTYPE_SLOTS; dtype++) {
      if (!all || !((r->types & ~r->ran) >> dtype & 1)) continue;
      if (expect_row(e, &a->device[u->device], r->name, (tn_dtype)dtype))
        listed |= TN_SET(dtype);
      else
        missed |= TN_SET(dtype);
    }
    t->kernels += r->ran != 0;
    t->kernels_listed += listed && !missed && !r->ran;
    if (missed) complain(o, a, u, r, missed);
  }
}
