/*
 * Writes a trace: events gather in a buffer of fixed size, which goes to the file when it is
 * full or the last time was a while ago. The closing bracket is written each time and
 * overwritten the next, so that a process that dies leaves a whole array that lacks only the
 * last moments. What cannot be sought, a pipe, gets its bracket at the end alone.
 */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, FLUSH_NS = 20 * 1000 * 1000, NAMES_TRIED = 1000 };
static const char ending[] = "\n]\n";

/* --- names --- */

/* Counts the traces of this process, so that each has a file of its own: the one thing that
 * belongs to the process and not to a runtime. */
static _Atomic unsigned traces_opened;

/* "dir/name.json" and 2 give "dir/name-2.json"; 1 gives the name itself. */
static bool numbered(const char *name, unsigned number, char *path, size_t size) {
  const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
  size_t stem = dot && dot > (slash ? slash + 1 : name) ? (size_t)(dot - name) : strlen(name);
  int length = number > 1 ? snprintf(path, size, "%.*s-%u%s", (int)stem, name, number, name + stem)
                          : snprintf(path, size, "%s", name);
  return length > 0 && (size_t)length < size;
}

/* Opens a file that no other trace is writing: -1 with errno, EWOULDBLOCK if one is. A name
 * that nobody gave is taken only where no file has it. */
static int open_unshared(const char *path, bool given) {
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (given ? 0 : O_EXCL), 0666);
  if (file < 0) {
    if (errno == EEXIST) errno = EWOULDBLOCK;
    return -1;
  }
  struct stat s;
  if (fstat(file, &s) == 0 && !S_ISREG(s.st_mode)) return file;
  bool taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && ftruncate(file, 0) == 0) return file;
  int why = taken ? EWOULDBLOCK : errno;
  close(file);
  errno = why;
  return -1;
}

static tn_status open_file(writer *w) {
  const char *given = secure_getenv("TENON_TRACE_FILE");
  char name[64];
  if (given && !*given) given = NULL;
  if (!given) snprintf(name, sizeof name, "tenon-trace-%ld.json", (long)getpid());
  unsigned first = atomic_fetch_add(&traces_opened, 1) + 1;
  for (unsigned n = first; n < first + NAMES_TRIED; ++n) {
    if (!numbered(given ? given : name, n, w->path, sizeof w->path))
      return w->host->fail(TN_ERR_INVALID_ARGUMENT, "TENON_TRACE_FILE: the path is too long");
    w->file = open_unshared(w->path, given);
    if (w->file >= 0) return TN_OK;
    if (errno != EWOULDBLOCK) break;
  }
  return w->host->fail(TN_ERR_IO,
                       "layer trace: cannot write %s: %s; TENON_TRACE_FILE names the file to write",
                       w->path, strerror(errno));
}

/* --- writing --- */

/* Everything or an errno. */
static int write_all(const writer *w, const char *bytes, size_t count, off_t at) {
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

/* Leaves what stood in the file before, as a whole array. */
static void give_up(writer *w, int error) {
  w->host->log(w->host, TN_LOG_ERROR, "layer trace: cannot write %s: %s; the trace ends here",
               w->path, strerror(error));
  if (w->seekable && !write_all(w, ending, sizeof ending - 1, w->end))
    (void)!ftruncate(w->file, w->end + (off_t)sizeof ending - 1);
  close(w->file);
  w->file = -1;
}

/* pre: the lock is held, the buffer has room for the ending. */
static void flush(writer *w, bool last) {
  if (w->file < 0) return;
  size_t tail = last || w->seekable ? sizeof ending - 1 : 0;
  memcpy(w->buffer + w->used, ending, tail);
  int error = write_all(w, w->buffer, w->used + tail, w->end);
  if (error) {
    give_up(w, error);
    return;
  }
  w->end += (off_t)w->used;
  w->used = 0;
}

/* pre: the lock is held, and there is room. */
static void append(writer *w, const char *bytes, size_t length) {
  memcpy(w->buffer + w->used, bytes, length);
  w->used += length;
}

void writer_event(writer *w, const char *event, size_t length, uint64_t now_ns) {
  pthread_mutex_lock(&w->lock);
  if (w->used + length + 2 + sizeof ending > BUFFER_BYTES) flush(w, false);
  if (w->file >= 0 && length + 2 + sizeof ending <= BUFFER_BYTES) {
    append(w, w->follows ? ",\n" : "[\n", 2);
    append(w, event, length);
    w->follows = true;
  }
  if (now_ns > w->flushed_ns + FLUSH_NS) {
    flush(w, false);
    w->flushed_ns = now_ns;
  }
  pthread_mutex_unlock(&w->lock);
}

/* --- opening and closing --- */

tn_status writer_open(writer *w, const tn_host *host) {
  w->host = host;
  w->buffer = host->alloc(host, BUFFER_BYTES, 64);
  if (!w->buffer) return host->fail(TN_ERR_OUT_OF_MEMORY, "layer trace: no host memory");
  tn_status status = open_file(w);
  if (status) {
    host->free(host, w->buffer);
    return status;
  }
  struct stat s;
  w->seekable = fstat(w->file, &s) == 0 && S_ISREG(s.st_mode);
  pthread_mutex_init(&w->lock, NULL);
  return TN_OK;
}

void writer_finish(writer *w) {
  pthread_mutex_lock(&w->lock);
  flush(w, true);
  if (w->file >= 0 && close(w->file) != 0)
    w->host->log(w->host, TN_LOG_ERROR, "layer trace: cannot write %s: %s", w->path,
                 strerror(errno));
  w->file = -1;
  pthread_mutex_unlock(&w->lock);
}

void writer_free(writer *w) {
  pthread_mutex_destroy(&w->lock);
  w->host->free(w->host, w->buffer);
}
