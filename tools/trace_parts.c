/*
 * Every process that `tenon trace` runs writes a trace of its own, named after it, into a folder
 * beside the file that was asked for. At the end one of them becomes that file and the others
 * are put behind it: each is a JSON array, and numbers of processes, devices and calls differ.
 */
#include "trace_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64, PIECE_BYTES = 1 << 20 };
static const char ending[] = "\n]\n";
enum { BEGIN_BYTES = 2, END_BYTES = sizeof ending - 1 };

/* --- places --- */

/* False with errno. */
static bool make_absolute(const char *path, char *absolute) {
  char folder[PATH_MAX] = "";
  if (*path != '/' && !getcwd(folder, sizeof folder)) return false;
  int length = snprintf(absolute, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", path);
  if (length > 0 && length < PATH_MAX) return true;
  errno = ENAMETOOLONG;
  return false;
}

/* What is there already and no file, such as a pipe, is written to as it is. */
static bool is_stream(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

bool parts_open(trace_parts *p, const char *file) {
  char real[PATH_MAX];
  p->wanted[0] = p->folder[0] = 0;
  if (file && !make_absolute(file, p->wanted)) return false;
  if (file && is_stream(p->wanted)) return true;
  if (file && realpath(p->wanted, real)) strcpy(p->wanted, real);
  char name[PATH_MAX];
  if (!make_absolute(file ? p->wanted : "tenon-trace", name)) return false;
  if (snprintf(p->folder, sizeof p->folder, "%s.parts-XXXXXX", name) >= PATH_MAX)
    return errno = ENAMETOOLONG, false;
  if (mkdtemp(p->folder)) return true;
  int why = errno;
  p->folder[0] = 0;
  if (file && access(p->wanted, W_OK) == 0) return true; /* the file alone may be written */
  errno = why;
  return false;
}

/* The layer takes "%p" for the process, "%%" for a percent sign. */
bool parts_variable(const trace_parts *p, char *value, size_t size) {
  size_t used = 0;
  for (const char *at = p->folder[0] ? p->folder : p->wanted; *at && used + 2 < size; ++at) {
    if (*at == '%') value[used++] = '%';
    value[used++] = *at;
  }
  int length = snprintf(value + used, size - used, "%s", p->folder[0] ? "/%p.json" : "");
  if (used + (size_t)length < size) return true;
  errno = ENAMETOOLONG;
  return false;
}

/* --- one behind the other --- */

/* A part, open and locked: nobody writes it any more. */
typedef struct part {
  char name[NAME_BYTES];
  int file;
  off_t bytes;
} part;

static bool write_all(int file, const char *bytes, size_t count, off_t at) {
  while (count) {
    ssize_t written = pwrite(file, bytes, count, at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes += written;
    count -= (size_t)written;
    at += written;
  }
  return true;
}

/* The events of `from` to a place in `to`. */
static bool copy_events(const part *to, const part *from, off_t place) {
  char *piece = malloc(PIECE_BYTES);
  off_t at = BEGIN_BYTES, end = from->bytes - END_BYTES;
  bool fine = piece != NULL;
  while (fine && at < end) {
    size_t wanted = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
    ssize_t got = pread(from->file, piece, wanted, at);
    fine = got > 0 && write_all(to->file, piece, (size_t)got, place + at - BEGIN_BYTES);
    at += got > 0 ? got : 0;
  }
  free(piece);
  return fine;
}

/* Puts the events of `from` behind those of `to`; what was there stays where that fails. */
static bool append(part *to, const part *from) {
  off_t end = to->bytes - END_BYTES, bytes = end + 2 + from->bytes - BEGIN_BYTES - END_BYTES;
  if (write_all(to->file, ",\n", 2, end) && copy_events(to, from, end + 2) &&
      write_all(to->file, ending, END_BYTES, bytes)) {
    to->bytes = bytes + END_BYTES;
    return true;
  }
  int why = errno;
  (void)write_all(to->file, ending, END_BYTES, end);
  (void)!ftruncate(to->file, to->bytes);
  errno = why;
  return false;
}

/* --- the folder --- */

static int part_path(const trace_parts *p, const char *name, char *path) {
  return snprintf(path, PATH_MAX, "%s/%s", p->folder, name);
}

typedef struct gathering {
  const trace_parts *parts;
  char target[PATH_MAX];
  part first; /* what becomes the trace; file -1: none yet */
  int count;
  bool failed;
} gathering;

/* False, with a word, for a part that a process is still writing. */
static bool open_part(const trace_parts *p, part *x) {
  char path[PATH_MAX];
  struct stat s;
  if (part_path(p, x->name, path) >= PATH_MAX) return false;
  x->file = open(path, O_RDWR | O_CLOEXEC);
  if (x->file < 0) return false;
  if (flock(x->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fprintf(stderr, "tenon trace: process %.*s goes on and writes %s\n",
            (int)strspn(x->name, "0123456789"), x->name, path);
    close(x->file);
    return false;
  }
  x->bytes = fstat(x->file, &s) == 0 ? s.st_size : 0;
  return true;
}

static bool take_first(gathering *g, const part *x) {
  char path[PATH_MAX];
  if (part_path(g->parts, x->name, path) >= PATH_MAX || rename(path, g->target) != 0) return false;
  g->first = *x;
  return true;
}

/* A process that died before its first event left nothing. */
static void take_part(gathering *g, part *x) {
  char path[PATH_MAX];
  bool empty = x->bytes <= BEGIN_BYTES + END_BYTES, first = g->first.file < 0 && !empty;
  bool fine = empty || (first ? take_first(g, x) : append(&g->first, x));
  if (!fine) {
    fprintf(stderr, "tenon trace: cannot write %s: %s; a part is left: %s/%s\n", g->target,
            strerror(errno), g->parts->folder, x->name);
    g->failed = true;
  } else if (!first && part_path(g->parts, x->name, path) < PATH_MAX) {
    unlink(path);
  }
  g->count += fine && !empty;
  if (!first || !fine) close(x->file);
}

static int by_number(const struct dirent **a, const struct dirent **b) {
  long x = atol((*a)->d_name), y = atol((*b)->d_name);
  return x != y ? (x > y) - (x < y) : strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_part(const struct dirent *entry) {
  return entry->d_name[0] != '.' && strlen(entry->d_name) < NAME_BYTES;
}

static void take_parts(gathering *g) {
  struct dirent **entries;
  int count = scandir(g->parts->folder, &entries, is_part, by_number);
  for (int i = 0; i < count; ++i) {
    part x;
    snprintf(x.name, sizeof x.name, "%.*s", NAME_BYTES - 1, entries[i]->d_name);
    if (open_part(g->parts, &x)) take_part(g, &x);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
}

static void report(gathering *g) {
  if (g->first.file < 0) return;
  fprintf(stderr, "tenon trace: %s (%.1f MB", g->target, (double)g->first.bytes / 1e6);
  if (g->count > 1) fprintf(stderr, ", %d traces in one", g->count);
  fputs(")\n", stderr);
  if (close(g->first.file) == 0) return;
  fprintf(stderr, "tenon trace: cannot write %s: %s\n", g->target, strerror(errno));
  g->failed = true;
}

int parts_gather(const trace_parts *p, pid_t child) {
  gathering g = {.parts = p, .first = {.file = -1}};
  if (!p->folder[0]) return 1; /* whoever reads it knows */
  if (p->wanted[0])
    strcpy(g.target, p->wanted);
  else /* beside the folder: the program may have gone elsewhere, this process has not */
    snprintf(g.target, sizeof g.target, "%.*s/tenon-trace-%ld.json",
             (int)(strrchr(p->folder, '/') - p->folder), p->folder, (long)child);
  take_parts(&g);
  report(&g);
  (void)rmdir(p->folder); /* stays where parts are left */
  return g.failed ? -1 : g.count;
}

void parts_drop(const trace_parts *p) {
  if (p->folder[0]) (void)rmdir(p->folder);
}
