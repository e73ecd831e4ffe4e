#include "output.h"

#include <err.h>
#include <errno.h>
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

bool output_open(output *o, const char *path) {
  o->file = NULL;
  int error = resolve(o, path);
  if (error) return refuse(path, error);
  snprintf(o->temporary, sizeof o->temporary, "%s.%ld.tmp", o->target, (long)getpid());
  o->file = o->direct ? fopen(o->target, "wb") : fopen(o->temporary, "wbx");
  return o->file ? true : refuse(path, errno);
}

bool output_commit(output *o) {
  bool whole = fflush(o->file) == 0 && !ferror(o->file);
  if (whole && !o->direct) whole = fsync(fileno(o->file)) == 0;
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

bool output_possible(const char *path) {
  output o;
  if (!path) return true;
  if (resolve(&o, path) == 0 && o.direct) return true;
  if (!output_open(&o, path)) return false;
  output_discard(&o);
  return true;
}
