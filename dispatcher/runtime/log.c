/*
 * The log. Lines go to the host's callback, or to standard error. A callback may call
 * Tenon, so it never runs while the thread holds a mutex of ours: such sections are
 * bracketed by log_hold and log_resume, between which the thread's lines wait.
 */
#include <stdio.h>
#include <string.h>

#include "dispatcher/runtime/runtime.h"

/* A line that waits; it does not depend on its runtime, which may be gone by then. */
typedef struct held_line {
  struct held_line *next;
  host_memory memory;
  void (*log)(void *user, tn_log_level level, const char *line);
  void *user;
  tn_log_level level;
  char text[];
} held_line;

static _Thread_local struct {
  uint32_t depth;
  held_line *first, **tail;
} held;

/* What the callback calls must not change the message that the thread is about to read. */
static void deliver(void (*log)(void *user, tn_log_level level, const char *line), void *user,
                    tn_log_level level, const char *line) {
  char message[2048];
  bool given = fail_has_reason();
  snprintf(message, sizeof message, "%s", tn_last_error());
  log(user, level, line);
  (void)fail(TN_OK, "%s", message);
  fail_set_reason(given);
}

/* Without memory the line is lost. */
static void keep(const tn_runtime *runtime, tn_log_level level, const char *text) {
  size_t bytes = strlen(text) + 1;
  held_line *line = host_alloc(&runtime->memory, sizeof *line + bytes);
  if (!line) return;
  line->memory = runtime->memory;
  line->log = runtime->log;
  line->user = runtime->log_user;
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
    deliver(line->log, line->user, line->level, line->text);
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

void log_line(const tn_runtime *runtime, tn_log_level level, const char *format, va_list args) {
  static const char *const names[] = {"", "error", "warning", "info", "debug"};
  char line[1024];
  if (level > runtime->config.log_level || level == TN_LOG_NONE) return;
  vsnprintf(line, sizeof line, format, args);
  if (!runtime->log)
    fprintf(stderr, "tenon: %s: %s\n", names[level], line);
  else if (held.depth)
    keep(runtime, level, line);
  else
    deliver(runtime->log, runtime->log_user, level, line);
}

void runtime_log(const tn_runtime *runtime, tn_log_level level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_line(runtime, level, format, args);
  va_end(args);
}
