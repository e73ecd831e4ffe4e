/* How large a trace may become, and what becomes of the rest: limit.c. The writer's lock guards
 * all of it. */
#ifndef TRACE_LIMIT_H
#define TRACE_LIMIT_H

#include <sys/types.h>

#include "tenon/plugin.h"

enum {
  LIMIT_LEAST = 1 << 20,
  LIMIT_DEFAULT = 1 << 30,
  NAMES_BYTES = 1 << 16,
  BLANKS_BYTES = 1 << 14, /* more than the longest event: some follow what is written over */
  OLDER_BYTES = (1 << 16) + BLANKS_BYTES,
  NOTE_BYTES = 320,
};

typedef struct limit {
  uint64_t bytes; /* that the file may have; 0: any number */
  bool given;
  bool last;                  /* keeps the last part */
  bool stopped;               /* keeps the first part, and has it */
  off_t ring_begin, ring_end; /* where the last part goes round; ring_end 0: not yet full */
  char *names;                /* events that name things, to be written again */
  char *older;                /* room for what is about to be written over */
  size_t names_used;
  uint64_t dropped_events, dropped_bytes;
} limit;

/* Reads TENON_TRACE_LIMIT and TENON_TRACE_KEEP. */
tn_status limit_read(limit *l, const tn_host *host);
/* The file is open; seekable: it is a file. */
tn_status limit_open(limit *l, const tn_host *host, bool seekable);
void limit_free(limit *l, const tn_host *host);

/* Remembers an event that names something. */
void limit_name(limit *l, const char *event, size_t length);
/* An event that says what was dropped so far, comma in front; its length. note: NOTE_BYTES. */
size_t limit_note(const limit *l, char *note, uint64_t now_ns);
/* Counts events, each with its comma in front, as dropped. */
void limit_count(limit *l, const char *events, size_t bytes);
/* Counts an event, without its comma, as dropped. */
void limit_drop(limit *l, size_t length);
/* The next event's beginning at or behind a place: a comma before a new line, which no text has
 * inside; the end if there is none. */
const char *limit_next(const char *at, const char *end);
/* Counts what is written over by `bytes` bytes, at most 64 KiB, at a place of the ring; returns
 * how many bytes that is up to where the next event begins; 0 where the file cannot be read.
 * pre: they lie in the ring. */
size_t limit_forget(limit *l, int file, off_t at, size_t bytes);

#endif
