/*
 * Where a trace goes: the name that was given, or one of its own for each process and runtime,
 * and how it is opened without overwriting another trace and without waiting for ever.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_TRIED = 1000, PIPE_WAIT_MS = 2000, PIPE_LOOK_MS = 10 };

/* Counts the traces of this process, so that each has a file of its own: the one thing that
 * belongs to the process and not to a runtime. */
static _Atomic unsigned traces_opened;

/* --- names --- */

/* "%p" becomes the number of the process, "%%" a percent sign. */
static bool expand(const char *name, char *path, size_t size) {
  size_t used = 0;
  for (; *name && used < size; ++name) {
    if (*name == '%' && name[1] == 'p') {
      used += (size_t)snprintf(path + used, size - used, "%ld", (long)getpid());
      ++name;
      continue;
    }
    if (*name == '%' && name[1] == '%') ++name;
    path[used++] = *name;
  }
  if (used >= size) return false;
  path[used] = 0;
  return true;
}

/* "dir/name.json" and 2 give "dir/name-2.json"; 1 gives the name itself. */
static bool numbered(const char *name, unsigned number, char *path, size_t size) {
  const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
  size_t stem = dot && dot > (slash ? slash + 1 : name) ? (size_t)(dot - name) : strlen(name);
  int length = number > 1 ? snprintf(path, size, "%.*s-%u%s", (int)stem, name, number, name + stem)
                          : snprintf(path, size, "%s", name);
  return length > 0 && (size_t)length < size;
}

/* --- opening --- */

static bool is_pipe(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISFIFO(s.st_mode);
}

/* A pipe that nobody reads cannot be opened: its reader may just be starting. */
static int open_waiting(const char *path, int flags) {
  for (int waited = 0;; waited += PIPE_LOOK_MS) {
    int file = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (file >= 0 || errno != ENXIO || waited >= PIPE_WAIT_MS || !is_pipe(path)) return file;
    nanosleep(&(struct timespec){0, PIPE_LOOK_MS * 1000000L}, NULL);
  }
}

int place_open_stream(const char *path) {
  int file = open_waiting(path, O_WRONLY | O_CREAT | O_APPEND);
  if (file >= 0) (void)fcntl(file, F_SETFL, O_APPEND);
  return file;
}

/* Opens a file that no other trace is writing: -1 with errno, EWOULDBLOCK if one is. A name
 * that nobody gave is taken only where no file has it. What is no file can only be written. */
static int open_unshared(const char *path, bool given) {
  struct stat s;
  bool stream = stat(path, &s) == 0 && !S_ISREG(s.st_mode);
  int file = open_waiting(path, stream ? O_WRONLY : O_RDWR | O_CREAT | (given ? 0 : O_EXCL));
  if (file < 0) {
    if (errno == EEXIST) errno = EWOULDBLOCK;
    return -1;
  }
  (void)fcntl(file, F_SETFL, 0);
  if (fstat(file, &s) == 0 && !S_ISREG(s.st_mode)) return file;
  bool taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && ftruncate(file, 0) == 0) return file;
  int why = taken ? EWOULDBLOCK : errno;
  close(file);
  errno = why;
  return -1;
}

static const char *reason(const char *path) {
  return errno == ENXIO && is_pipe(path) ? "no process reads from this pipe" : strerror(errno);
}

tn_status place_open(const tn_host *host, char *path, size_t size, int *file) {
  const char *given = secure_getenv("TENON_TRACE_FILE");
  char name[4096];
  if (given && !*given) given = NULL;
  bool fits = expand(given ? given : "tenon-trace-%p.json", name, sizeof name);
  unsigned first = atomic_fetch_add(&traces_opened, 1) + 1;
  for (unsigned n = first; n < first + NAMES_TRIED; ++n) {
    if (!fits || !numbered(name, n, path, size))
      return host->fail(TN_ERR_INVALID_ARGUMENT, "TENON_TRACE_FILE: the path is too long");
    *file = open_unshared(path, given);
    if (*file >= 0) return TN_OK;
    if (errno != EWOULDBLOCK) break;
  }
  return host->fail(TN_ERR_IO,
                    "layer trace: cannot write %s: %s; TENON_TRACE_FILE names the file to write",
                    path, reason(path));
}

unsigned place_count(void) { return atomic_load(&traces_opened); }
