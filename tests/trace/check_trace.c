/*
 * Reads a trace, fails if it is not what a trace should be, and prints what it holds, a name
 * and a number a line, for scripts to look at:
 *
 *     check_trace FILE [NAME]
 *
 * Kernels on one stream must not overlap, and a kernel must belong to a call. With NAME, fails
 * unless every kernel's name begins with it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trace/events.h"

static int wrong(const char *path, const char *what) {
  fprintf(stderr, "check_trace: %s: %s\n", path, what);
  return EXIT_FAILURE;
}

static char *read_all(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t room = 0, got;
  *length = 0;
  do {
    if (*length == room) {
      char *more = file ? realloc(text, room = 2 * room + 65536) : NULL;
      if (!more) break;
      text = more;
    }
    got = fread(text + *length, 1, room - *length, file);
    *length += got;
  } while (got);
  if (file) fclose(file);
  return text;
}

/* From the first event to the end of the last. */
static double wall_us(const value *trace) {
  double begin = INFINITY, end = 0;
  for (const value *e = trace->first; e; e = e->next) {
    if (strcmp(tree_text(e, "ph", ""), "X") != 0) continue;
    begin = fmin(begin, event_begin(e));
    end = fmax(end, event_end(e));
  }
  return end > begin ? end - begin : 0;
}

/* Every kernel has the name wanted, a length, and a device that has a name. */
static const char *check_kernels(const value *trace, const char *name) {
  for (const value *e = trace->first; e; e = e->next) {
    if (strcmp(tree_text(e, "cat", ""), "kernel") != 0) continue;
    if (strncmp(tree_text(e, "name", ""), name, strlen(name)) != 0)
      return tree_text(e, "name", "?");
    if (!(tree_number(e, "dur", NAN) >= 0) || isnan(event_begin(e)))
      return "a kernel without times";
  }
  return NULL;
}

static size_t count_failed(const value *trace) {
  size_t count = 0;
  for (const value *e = trace->first; e; e = e->next)
    count += tree_member(tree_member(e, "args"), "failed") != NULL;
  return count;
}

static int check(const char *path, const value *trace, const char *name) {
  char text[256];
  size_t calls = events_count(trace, "op", NULL) + events_count(trace, "fallback", NULL);
  size_t kernels = events_count(trace, "kernel", NULL), failed = count_failed(trace);
  const char *odd = check_kernels(trace, name);
  if (trace->kind != LIST) return wrong(path, "no array of events");
  if (odd) return wrong(path, odd);
  if (!events_nest(trace, NULL, false, text, sizeof text)) return wrong(path, text);
  if (!events_nest(trace, "kernel", true, text, sizeof text)) return wrong(path, text);
  if (kernels > calls - failed) return wrong(path, "more kernels than calls");
  printf("calls %zu\nfailed %zu\nfallback %zu\nkernels %zu\ncopies %zu\nwaits %zu\n", calls, failed,
         events_count(trace, "fallback", NULL), kernels, events_count(trace, "copy", NULL),
         events_count(trace, "wait", NULL));
  printf("host_us %.3f\ndevice_us %.3f\nwall_us %.3f\n",
         events_length(trace, "op", NULL) + events_length(trace, "fallback", NULL),
         events_length(trace, "kernel", NULL), wall_us(trace));
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  char where[128];
  size_t length;
  if (argc < 2 || argc > 3) return wrong("usage", "check_trace FILE [NAME]");
  char *text = read_all(argv[1], &length);
  if (!text) return wrong(argv[1], "cannot read it");
  value *trace = tree_read(text, length, where, sizeof where);
  free(text);
  if (!trace) return wrong(argv[1], where);
  int status = check(argv[1], trace, argc > 2 ? argv[2] : "");
  tree_free(trace);
  return status;
}
