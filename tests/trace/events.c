/* Counts and compares the events of a trace; see events.h. */
#include "tests/trace/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_event(const value *e, const char *category, const char *name) {
  return strcmp(tree_text(e, "cat", ""), category) == 0 &&
         (!name || strcmp(tree_text(e, "name", ""), name) == 0);
}

size_t events_count(const value *trace, const char *category, const char *name) {
  size_t count = 0;
  for (const value *e = trace->first; e; e = e->next) count += is_event(e, category, name);
  return count;
}

const value *events_at(const value *trace, const char *category, const char *name, size_t index) {
  for (const value *e = trace->first; e; e = e->next)
    if (is_event(e, category, name) && index-- == 0) return e;
  return NULL;
}

double events_length(const value *trace, const char *category, const char *name) {
  double sum = 0;
  for (const value *e = trace->first; e; e = e->next)
    if (is_event(e, category, name)) sum += tree_number(e, "dur", NAN);
  return sum;
}

double event_begin(const value *event) { return tree_number(event, "ts", NAN); }
double event_end(const value *event) { return event_begin(event) + tree_number(event, "dur", NAN); }

const char *event_arg(const value *event, const char *name) {
  return tree_text(tree_member(event, "args"), name, "(none)");
}

/* --- nesting --- */

static bool same_thread(const value *a, const value *b) {
  return tree_number(a, "pid", 0) == tree_number(b, "pid", 0) &&
         tree_number(a, "tid", 0) == tree_number(b, "tid", 0);
}

/* Thread by thread, in order of time, the longer one first. */
static int by_thread_and_time(const void *x, const void *y) {
  const value *a = *(const value *const *)x, *b = *(const value *const *)y;
  double keys[][2] = {{tree_number(a, "pid", 0), tree_number(b, "pid", 0)},
                      {tree_number(a, "tid", 0), tree_number(b, "tid", 0)},
                      {event_begin(a), event_begin(b)},
                      {event_end(b), event_end(a)}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
    if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
  return 0;
}

/* Each slice is held against the one that is open when it begins: how late may it end? Times come
 * rounded to a thousandth of a microsecond. */
static bool nest(const value **sorted, size_t count, bool flat, char *text, size_t size) {
  const double slack = 0.0015;
  const value **open = calloc(count + 1, sizeof *open);
  size_t depth = 0;
  bool fine = open != NULL;
  for (size_t i = 0; fine && i < count; ++i) {
    while (depth && (!same_thread(open[depth - 1], sorted[i]) ||
                     event_end(open[depth - 1]) <= event_begin(sorted[i]) + slack))
      --depth;
    const value *around = depth ? open[depth - 1] : NULL;
    double most = flat || !around ? event_begin(sorted[i]) : event_end(around);
    if (around && event_end(sorted[i]) > most + slack) {
      snprintf(text, size, "%s from %.3f to %.3f and %s from %.3f to %.3f",
               tree_text(around, "name", "?"), event_begin(around), event_end(around),
               tree_text(sorted[i], "name", "?"), event_begin(sorted[i]), event_end(sorted[i]));
      fine = false;
    }
    open[depth++] = sorted[i];
  }
  free(open);
  return fine;
}

bool events_nest(const value *trace, const char *category, bool flat, char *text, size_t size) {
  size_t count = 0;
  const value **sorted = calloc(trace->count + 1, sizeof *sorted);
  if (!sorted) return snprintf(text, size, "no memory"), false;
  for (const value *e = trace->first; e; e = e->next)
    if (strcmp(tree_text(e, "ph", ""), "X") == 0 && (!category || is_event(e, category, NULL)))
      sorted[count++] = e;
  qsort(sorted, count, sizeof *sorted, by_thread_and_time);
  bool fine = nest(sorted, count, flat, text, size);
  free(sorted);
  return fine;
}
