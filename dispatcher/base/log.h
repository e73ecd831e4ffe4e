/*
 * Lines on their way to a host's log callback. A callback may call Tenon, so it never runs
 * while the thread holds a mutex of ours: such sections are bracketed by log_hold and
 * log_resume, between which the thread's lines wait.
 */
#ifndef TENON_DISPATCHER_LOG_H
#define TENON_DISPATCHER_LOG_H

#include "dispatcher/base/error.h"

/* Where a host wants its lines. `write` NULL: on standard error. */
typedef struct log_sink {
  void (*write)(void *user, tn_log_level level, const char *line);
  void *user;
} log_sink;

/* Hands a line over, at once or when the calling thread's hold ends: then it is kept in `memory`,
 * which must live until then, and lost where there is none. */
void log_write(const log_sink *sink, const host_memory *memory, tn_log_level level,
               const char *line);

/* Between the two the thread's lines for a host's callback wait. They nest. */
void log_hold(void);
void log_resume(void);
/* For threads that work for one whose lines wait: theirs must wait as well, and become its. */
bool log_is_held(void);
/* In place of log_resume, where no other hold is left: the lines, which are the caller's. */
struct held_line *log_detach(void);
/* Puts `more` behind them. */
struct held_line *log_join(struct held_line *lines, struct held_line *more);
/* Makes them the calling thread's. pre: log_is_held. */
void log_attach(struct held_line *lines);

#endif
