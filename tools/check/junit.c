/* The result as JUnit XML, which CI systems read: a test case per operator and device. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

/* Characters that XML 1.0 has no way to write become '?'. */
static void escaped(FILE *out, const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
    if (*s == '&')
      fputs("&amp;", out);
    else if (*s == '<')
      fputs("&lt;", out);
    else if (*s == '>')
      fputs("&gt;", out);
    else if (*s == '"')
      fputs("&quot;", out);
    else if (*s == '\n')
      fputs("&#10;", out);
    else
      putc((*s < 0x20 && *s != '\t') || *s >= 0x7f ? '?' : *s, out);
  }
}

static void attribute(FILE *out, const char *name, const char *value) {
  fprintf(out, " %s=\"", name);
  escaped(out, value);
  putc('"', out);
}

/* A test case has one; the rest is in the output. */
static void write_failure(FILE *out, const unit *u) {
  const check_failure *f = unit_failure(u);
  if (!unit_fails(u)) return;
  fputs("\n      <failure", out);
  attribute(out, "message", f ? f->text : "see the output");
  fputs(">", out);
  escaped(out, f ? f->again : "");
  fputs("</failure>", out);
}

static void write_unit(FILE *out, const agenda *a, const unit *u) {
  fputs("    <testcase", out);
  attribute(out, "classname", a->device[u->device].id);
  attribute(out, "name", a->op[u->op].name);
  fprintf(out, " time=\"%.3f\">", u->seconds);
  write_failure(out, u);
  if (!u->tally.runs && !unit_fails(u)) {
    fputs("<skipped", out);
    attribute(out, "message", *u->note ? u->note : "no kernel");
    fputs("/>", out);
  }
  fputs("</testcase>\n", out);
}

static void write_stale(FILE *out, const expectation *e) {
  if (!expect_is_stale(e)) return;
  fputs("    <testcase classname=\"expectations\"", out);
  attribute(out, "name", e->op);
  fputs("><failure message=\"nothing fails as expected\">", out);
  escaped(out, e->reason);
  fputs("</failure></testcase>\n", out);
}

bool report_junit(const char *path, const agenda *a, const unit *units, size_t count,
                  const expectations *e, const totals *t) {
  uint64_t tests = t->stale, failures = t->stale;
  FILE *out = fopen(path, "w");
  if (!out) return perror(path), false;
  for (size_t i = 0; i < count; i++) {
    tests += units[i].state == UNIT_DONE;
    failures += units[i].state == UNIT_DONE && unit_fails(&units[i]);
  }
  fprintf(out,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"tenon "
          "check\" tests=\"%" PRIu64 "\" failures=\"%" PRIu64 "\" time=\"%.3f\">\n",
          tests, failures, t->seconds);
  for (size_t i = 0; i < count; i++)
    if (units[i].state == UNIT_DONE) write_unit(out, a, &units[i]);
  for (size_t i = 0; t->stale && i < e->count; i++) write_stale(out, &e->list[i]);
  fputs("  </testsuite>\n</testsuites>\n", out);
  bool ok = !ferror(out);
  if (fclose(out) || !ok) return perror(path), false;
  return true;
}
