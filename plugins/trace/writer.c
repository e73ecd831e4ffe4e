/*
 * Writes a trace: events gather in a buffer of fixed size, which goes to the file when it is
 * full or the last time was a while ago. The closing bracket is written each time and
 * overwritten the next, so that a process that dies leaves a whole array that lacks only the
 * last moments; one that is killed while it writes may leave one without its bracket, which
 * readers of traces take. What cannot be sought, a pipe, gets its bracket at the end alone.
 */
#include "writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "place.h"

enum { BUFFER_BYTES = 1 << 16, PAGE_BYTES = 4096, FLUSH_NS = 20 * 1000 * 1000 };
static const char ending[] = "\n]\n";

/* --- writing --- */

static int write_some(const writer *w, const char *bytes, size_t count, off_t at) {
  while (count) {
    ssize_t written =
        w->seekable ? pwrite(w->file, bytes, count, at) : write(w->file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes += written;
    count -= (size_t)written;
    at += written;
  }
  return 0;
}

/* Everything or an errno. A pipe whose reader is gone must not end the process. */
static int write_all(const writer *w, const char *bytes, size_t count, off_t at) {
  if (w->seekable) return write_some(w, bytes, count, at);
  sigset_t broken, before, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  int error = write_some(w, bytes, count, at);
  if (error == EPIPE && !sigismember(&pending, SIGPIPE))
    (void)sigtimedwait(&broken, NULL, &(struct timespec){0, 0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

/* Leaves what stood in the file before, as a whole array. */
static void give_up(writer *w, int error) {
  w->error = error;
  w->word = WORD_GIVEN_UP;
  if (w->seekable && !w->limit.ring_end && !write_all(w, ending, sizeof ending - 1, w->end))
    (void)!ftruncate(w->file, w->end + (off_t)sizeof ending - 1);
  close(w->file);
  w->file = -1;
}

/* --- the last part: a ring --- */

/* Writes some bytes over older events. 0 or an errno. */
static int put(writer *w, const char *bytes, size_t count) {
  size_t all = limit_forget(&w->limit, w->file, w->end, count);
  if (all == 0 && count) return EIO;
  memcpy(w->blanked, bytes, count);
  memset(w->blanked + count, ' ', all - count);
  int error = write_all(w, w->blanked, all, w->end);
  w->end += (off_t)count;
  return error;
}

/* Blanks to the end of the ring. */
static int clear_rest(writer *w) {
  int error = 0;
  while (!error && w->end < w->limit.ring_end) {
    size_t left = (size_t)(w->limit.ring_end - w->end);
    size_t gone =
        limit_forget(&w->limit, w->file, w->end, left < BUFFER_BYTES ? left : BUFFER_BYTES);
    if (gone == 0) return EIO;
    memset(w->blanked, ' ', gone);
    error = write_all(w, w->blanked, gone, w->end);
    w->end += (off_t)gone;
  }
  return error;
}

/* --- the first part, or all --- */

/* The file has its size: what is in the buffer, and what comes, is only counted. */
static void stop(writer *w) {
  w->limit.stopped = true;
  limit_count(&w->limit, w->buffer, w->used);
  w->used = 0;
  w->word = WORD_STOPPED;
}

static bool is_full(const writer *w) {
  return w->limit.bytes && (uint64_t)w->end + w->used + NOTE_BYTES + sizeof ending > w->limit.bytes;
}

/* pre: the buffer has room for the ending. */
static int write_on(writer *w, bool last) {
  size_t tail = last || w->seekable ? sizeof ending - 1 : 0;
  memcpy(w->buffer + w->used, ending, tail);
  int error = write_all(w, w->buffer, w->used + tail, w->end);
  if (!w->limit.stopped || !w->seekable) w->end += (off_t)w->used;
  return error;
}

/* pre: the lock is held, the buffer has room for the ending. */
static void flush(writer *w, bool last) {
  if (w->file < 0 || (w->limit.stopped && !last)) return;
  if (!w->limit.stopped && !w->limit.last && is_full(w)) stop(w);
  /* Where the trace ends, which is written anew when it is known how much is missing. */
  if (w->limit.stopped && (last || w->seekable))
    w->used = limit_note(&w->limit, w->buffer, w->flushed_ns);
  int error = w->limit.ring_end ? put(w, w->buffer, w->used) : write_on(w, last);
  w->used = 0;
  if (error) give_up(w, error);
}

/* --- events --- */

/* pre: the lock is held, and there is room. */
static void append(writer *w, const char *bytes, size_t length) {
  memcpy(w->buffer + w->used, bytes, length);
  w->used += length;
}

/* Blanks up to the next page, where the event would cross its end: a process that is killed
 * while it writes leaves whole pages, of the new events and of the older ones. */
static size_t blanks_before(const writer *w, size_t bytes) {
  size_t left = PAGE_BYTES - (size_t)(w->end + (off_t)w->used) % PAGE_BYTES;
  return w->limit.last && w->follows && bytes > left ? left : 0;
}

static void add_event(writer *w, const char *event, size_t length) {
  size_t blanks = blanks_before(w, length + 2), bytes = blanks + length + 2;
  if (w->used + bytes + sizeof ending > BUFFER_BYTES) flush(w, false);
  if (w->file < 0 || w->limit.stopped || bytes + sizeof ending > BUFFER_BYTES) return;
  memset(w->buffer + w->used, ' ', blanks);
  w->used += blanks;
  append(w, w->follows ? ",\n" : "[\n", 2);
  append(w, event, length);
  if (!w->follows) w->limit.ring_begin = (off_t)w->used;
  w->follows = true;
}

/* Whether an event has no room up to the end of the ring, or of the file that is to become one. */
static bool must_turn(const writer *w, size_t length) {
  uint64_t end = (uint64_t)w->end + w->used + blanks_before(w, length + 2) + length + 2;
  if (!w->limit.last || w->file < 0) return false;
  if (w->limit.ring_end) return end > (uint64_t)w->limit.ring_end;
  return end + sizeof ending > w->limit.bytes;
}

static void add_note(writer *w) {
  char note[NOTE_BYTES];
  size_t length = limit_note(&w->limit, note, w->flushed_ns);
  if (!must_turn(w, length)) add_event(w, note + 2, length - 2);
}

/* Writing the note drops what stood there: it is written once more with that counted. */
static void finish_ring(writer *w) {
  for (int i = 0; i < 2; ++i) {
    flush(w, false);
    off_t at = w->end;
    add_note(w);
    flush(w, false);
    if (i == 0) w->end = at;
  }
}

/* From the beginning again, with the names first. */
static void turn(writer *w) {
  flush(w, false);
  if (w->file < 0) return;
  if (!w->limit.ring_end) w->limit.ring_end = w->end;
  int error = clear_rest(w);
  if (error) {
    give_up(w, error);
    return;
  }
  w->end = w->limit.ring_begin;
  const char *names = w->limit.names, *end = names + w->limit.names_used;
  for (const char *at = names, *next; at < end; at = next) {
    next = limit_next(at + 2, end);
    add_event(w, at + 2, (size_t)(next - at) - 2);
  }
  add_note(w);
}

/* pre: the lock is held. */
static void take(writer *w, const char *event, size_t length, uint64_t now_ns) {
  const char *end = event + length, *next;
  bool due = now_ns > w->flushed_ns + FLUSH_NS;
  if (due) w->flushed_ns = now_ns;
  for (const char *at = event; at < end; at = next < end ? next + 2 : end) {
    next = limit_next(at, end); /* a call and its kernel come together */
    if (must_turn(w, (size_t)(next - at))) turn(w);
    if (!w->limit.stopped) add_event(w, at, (size_t)(next - at));
    if (w->limit.stopped) limit_drop(&w->limit, (size_t)(next - at));
  }
  if (due) flush(w, false);
}

/* What there is to say is said without the lock: the host's log may compute. */
static void say(writer *w, writer_word word) {
  if (word == WORD_GIVEN_UP)
    w->host->log(w->host, TN_LOG_ERROR, "layer trace: cannot write %s: %s; the trace ends here",
                 w->path, strerror(w->error));
  if (word == WORD_STOPPED)
    w->host->log(w->host, TN_LOG_WARN,
                 "layer trace: %s has the %llu bytes that TENON_TRACE_LIMIT allows; what follows "
                 "is left out (TENON_TRACE_KEEP=last keeps the last part)",
                 w->path, (unsigned long long)w->limit.bytes);
}

static void unlock(writer *w) {
  writer_word word = w->word;
  w->word = WORD_NONE;
  pthread_mutex_unlock(&w->lock);
  if (word) say(w, word);
}

void writer_event(writer *w, const char *event, size_t length, uint64_t now_ns) {
  pthread_mutex_lock(&w->lock);
  take(w, event, length, now_ns);
  unlock(w);
}

void writer_name(writer *w, const char *event, size_t length, uint64_t now_ns) {
  pthread_mutex_lock(&w->lock);
  limit_name(&w->limit, event, length);
  take(w, event, length, now_ns);
  unlock(w);
}

/* --- opening and closing --- */

static tn_status open_buffers(writer *w) {
  struct stat s;
  w->seekable = fstat(w->file, &s) == 0 && S_ISREG(s.st_mode);
  tn_status status = limit_open(&w->limit, w->host, w->seekable);
  if (!status && w->limit.last) w->blanked = w->host->alloc(w->host, OLDER_BYTES, 64);
  if (status || (w->blanked || !w->limit.last)) return status;
  return w->host->fail(TN_ERR_OUT_OF_MEMORY, "layer trace: no host memory");
}

static void free_buffers(writer *w) {
  limit_free(&w->limit, w->host);
  w->host->free(w->host, w->blanked);
  w->host->free(w->host, w->buffer);
}

tn_status writer_open(writer *w, const tn_host *host) {
  w->host = host;
  w->file = -1;
  tn_status status = limit_read(&w->limit, host);
  if (status) return status;
  w->buffer = host->alloc(host, BUFFER_BYTES, 64);
  if (!w->buffer) return host->fail(TN_ERR_OUT_OF_MEMORY, "layer trace: no host memory");
  status = place_open(host, w->path, sizeof w->path, &w->file);
  if (!status) status = open_buffers(w);
  if (status) {
    if (w->file >= 0) close(w->file);
    free_buffers(w);
    return status;
  }
  pthread_mutex_init(&w->lock, NULL);
  return TN_OK;
}

void writer_finish(writer *w) {
  pthread_mutex_lock(&w->lock);
  if (w->limit.ring_end) finish_ring(w);
  flush(w, true);
  if (w->file >= 0 && close(w->file) != 0) {
    w->error = errno;
    w->word = WORD_GIVEN_UP;
  }
  w->file = -1;
  unlock(w);
}

void writer_free(writer *w) {
  pthread_mutex_destroy(&w->lock);
  free_buffers(w);
}
