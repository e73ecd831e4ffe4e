/* The file of one trace: a JSON array of events in the trace event format, which
 * chrome://tracing, Perfetto and others read. After every write to it the file is a whole
 * array, so that it can be read whatever becomes of the process. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include <pthread.h>
#include <sys/types.h>

#include "limit.h"
#include "tenon/plugin.h"

/* What is to be said once the lock is free. */
typedef enum writer_word { WORD_NONE, WORD_GIVEN_UP, WORD_STOPPED } writer_word;

typedef struct writer {
  const tn_host *host;
  pthread_mutex_t lock; /* guards everything below */
  int file;             /* -1 once it is closed or could not be written */
  bool seekable;
  char *buffer;
  char *blanked; /* a piece of the ring, with blanks up to the next event; or NULL */
  size_t used;
  bool follows; /* an event stands before the next one */
  off_t end;    /* of the events in the file; the closing bracket stands there */
  uint64_t flushed_ns;
  limit limit;
  writer_word word;
  int error;
  char path[4096];
} writer;

/* Opens the file (place.h) with the limit that the environment sets (limit.h). */
tn_status writer_open(writer *w, const tn_host *host);
/* Appends one event, an object without a comma. `now` is the time, for regular flushing. */
void writer_event(writer *w, const char *event, size_t length, uint64_t now_ns);
/* The same for one that names a thread, stream or process: it outlives what is dropped. */
void writer_name(writer *w, const char *event, size_t length, uint64_t now_ns);
/* Writes what there is and closes the file. What comes later is dropped. */
void writer_finish(writer *w);
/* pre: finished. */
void writer_free(writer *w);

#endif
