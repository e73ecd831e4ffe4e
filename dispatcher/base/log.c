/* Lines that wait, and their delivery; see log.h. */
#include "dispatcher/base/log.h"

#include <stdio.h>
#include <string.h>

/* A line that waits; it does not depend on its runtime, which may be gone by then. */
typedef struct held_line {
  struct held_line *next;
  host_memory memory;
  log_sink sink;
  tn_log_level level;
  char text[];
} held_line;

static _Thread_local struct {
  uint32_t depth;
  held_line *first, **tail;
} held;

/* What the callback calls must not change the message that the thread is about to read. */
static void deliver(const log_sink *sink, tn_log_level level, const char *line) {
  char message[2048];
  bool given = fail_has_reason();
  snprintf(message, sizeof message, "%s", tn_last_error());
  sink->write(sink->user, level, line);
  (void)fail(TN_OK, "%s", message);
  fail_set_reason(given);
}

/* Without memory the line is lost. */
static void keep(const log_sink *sink, const host_memory *memory, tn_log_level level,
                 const char *text) {
  size_t bytes = strlen(text) + 1;
  held_line *line = host_alloc(memory, sizeof *line + bytes);
  if (!line) return;
  line->memory = *memory;
  line->sink = *sink;
  line->level = level;
  memcpy(line->text, text, bytes);
  if (!held.first) held.tail = &held.first;
  *held.tail = line;
  held.tail = &line->next;
}

void log_hold(void) { ++held.depth; }

void log_resume(void) {
  if (--held.depth) return;
  while (held.first) {
    held_line *line = held.first;
    held.first = line->next;
    deliver(&line->sink, line->level, line->text);
    host_free(&line->memory, line);
  }
}

bool log_is_held(void) { return held.depth > 0; }

struct held_line *log_detach(void) {
  held_line *lines = held.first;
  held.first = NULL;
  --held.depth;
  return lines;
}

struct held_line *log_join(struct held_line *lines, struct held_line *more) {
  held_line **end = &lines;
  while (*end) end = &(*end)->next;
  *end = more;
  return lines;
}

void log_attach(struct held_line *lines) {
  held.first = log_join(held.first, lines);
  for (held.tail = &held.first; *held.tail;) held.tail = &(*held.tail)->next;
}

void log_write(const log_sink *sink, const host_memory *memory, tn_log_level level,
               const char *line) {
  static const char *const names[] = {"", "error", "warning", "info", "debug"};
  if (!sink->write)
    fprintf(stderr, "tenon: %s: %s\n", names[level], line);
  else if (held.depth)
    keep(sink, memory, level, line);
  else
    deliver(sink, level, line);
}
