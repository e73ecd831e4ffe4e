#include "output.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(const char *path, int error) {
  warnx("cannot write %s: %s", path, strerror(error));
  return false;
}

/* Where a write to path ends up: errno if it cannot. */
static int resolve(output *o, const char *path) {
  struct stat st;
  o->direct = false;
  if (stat(path, &st) != 0) {
    if (errno != ENOENT) return errno;
    if (strlen(path) >= sizeof o->target) return ENAMETOOLONG;
    strcpy(o->target, path);
    return 0;
  }
  if (S_ISDIR(st.st_mode)) return EISDIR;
  if (access(path, W_OK) != 0 || !realpath(path, o->target)) return errno;
  o->direct = !S_ISREG(st.st_mode);
  return 0;
}

/* "name.123.tmp", where no process 123 is alive: what one that was killed has left. */
static bool is_left_over(const char *entry, const char *name) {
  size_t length = strlen(name);
  if (strncmp(entry, name, length) != 0 || entry[length] != '.') return false;
  char *end;
  long pid = strtol(entry + length + 1, &end, 10);
  return pid > 0 && strcmp(end, ".tmp") == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* folder, name: of the target. */
static void sweep(const char *folder, const char *name) {
  DIR *all = opendir(folder);
  for (struct dirent *e; all && (e = readdir(all));)
    if (is_left_over(e->d_name, name)) unlinkat(dirfd(all), e->d_name, 0);
  if (all) closedir(all);
}

/* A file without a name, which goes when its process does; -1 where there are none, or where
 * it could not be given one. */
static int open_nameless(const char *folder) {
  if (access("/proc/self/fd", X_OK) != 0) return -1;
  return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

static FILE *open_temporary(output *o) {
  char folder[PATH_MAX], name[PATH_MAX];
  strcpy(folder, o->target);
  strcpy(name, o->target);
  const char *parent = dirname(folder), *base = basename(name);
  sweep(parent, base);
  int file = open_nameless(parent);
  o->nameless = file >= 0;
  return o->nameless ? fdopen(file, "wb") : fopen(o->temporary, "wbx");
}

bool output_open(output *o, const char *path) {
  o->file = NULL;
  o->nameless = false;
  int error = resolve(o, path);
  if (error) return refuse(path, error);
  snprintf(o->temporary, sizeof o->temporary, "%s.%ld.tmp", o->target, (long)getpid());
  o->file = o->direct ? fopen(o->target, "wb") : open_temporary(o);
  return o->file ? true : refuse(path, errno);
}

/* A name to be renamed to the target: a link cannot replace what is there. */
static bool name_it(const output *o) {
  char place[64];
  if (!o->nameless) return true;
  snprintf(place, sizeof place, "/proc/self/fd/%d", fileno(o->file));
  return linkat(AT_FDCWD, place, AT_FDCWD, o->temporary, AT_SYMLINK_FOLLOW) == 0;
}

bool output_commit(output *o) {
  bool whole = fflush(o->file) == 0 && !ferror(o->file);
  if (whole && !o->direct) whole = fsync(fileno(o->file)) == 0 && name_it(o);
  int error = errno;
  if (fclose(o->file) != 0 && whole) whole = false, error = errno;
  o->file = NULL;
  if (whole && !o->direct && rename(o->temporary, o->target) != 0) whole = false, error = errno;
  if (whole) return true;
  if (!o->direct) unlink(o->temporary);
  return refuse(o->target, error);
}

void output_discard(output *o) {
  if (!o->file) return;
  fclose(o->file);
  o->file = NULL;
  if (!o->direct) unlink(o->temporary);
}

int output_finish(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  warnx("cannot write to standard output: %s", strerror(errno));
  return status ? status : EXIT_FAILURE;
}

bool output_possible(const char *path) {
  output o;
  if (!path) return true;
  if (resolve(&o, path) == 0 && o.direct) return true;
  if (!output_open(&o, path)) return false;
  output_discard(&o);
  return true;
}
