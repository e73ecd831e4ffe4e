/* Output of workers; see output.h. */
#include "output.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/plugin.h"

static int kept = -1, terminal = STDERR_FILENO; /* of a worker */

int output_open(void) { return memfd_create("tenon-check", MFD_CLOEXEC); }

void output_pass_on(int file) {
  char piece[4096];
  off_t at = 0;
  for (ssize_t n; file >= 0 && (n = pread(file, piece, sizeof piece, at)) > 0; at += n)
    if (write(STDERR_FILENO, piece, (size_t)n) < 0) break;
  if (file >= 0) close(file);
}

void output_keep(int file) {
  const char *layers = getenv("TENON_LAYERS"); /* which may have something to say */
  if (file < 0 || (layers && *layers)) return;
  fflush(NULL);
  terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  kept = file;
}

/* Sanitizers speak there too, of what goes on without dying: at length, so all of it is shown. */
static void show_reports(void) {
  char piece[4096];
  ssize_t n;
  for (off_t at = 0; TN_FLAVOUR && (n = pread(kept, piece, sizeof piece, at)) > 0; at += n)
    if (write(terminal, piece, (size_t)n) < 0) break;
}

/* "==123==WARNING: ...": a sanitizer's word of a request for memory that it refused, as bad calls
 * provoke. */
static bool is_notice(const char *line) {
  const char *digits = line + 2;
  size_t count = strncmp(line, "==", 2) == 0 ? strspn(digits, "0123456789") : 0;
  return TN_FLAVOUR && count && strncmp(digits + count, "==WARNING", 9) == 0;
}

/* The first line that is nobody's but the plugin's; false where there is none. */
static bool read_line(char *line, size_t size) {
  off_t at = 0;
  for (ssize_t n; (n = pread(kept, line, size - 1, at)) > 0;) {
    line[n] = 0;
    size_t length = strcspn(line, "\n");
    line[length] = 0;
    if (!is_notice(line)) return true;
    at += (off_t)length + 1;
  }
  return false;
}

bool output_found(char *text, size_t size) {
  char line[200];
  struct stat is;
  fflush(stdout);
  fflush(stderr);
  if (kept < 0 || fstat(kept, &is) || is.st_size == 0) return false;
  bool found = read_line(line, sizeof line);
  if (found) {
    show_reports();
    snprintf(text, size, "wrote to standard output or error: \"%s\"", line);
  }
  lseek(kept, 0, SEEK_SET);
  return ftruncate(kept, 0) == 0 && found;
}

int output_aside(void) {
  fflush(stdout);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (out >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
  return out;
}

void output_back(int out) {
  fflush(stdout);
  if (out < 0) return;
  dup2(out, STDOUT_FILENO);
  close(out);
}

void output_log(void *user, tn_log_level level, const char *line) {
  static const char *const names[] = {"", "error", "warning", "info", "debug"};
  (void)user;
  dprintf(terminal, "tenon: %s: %s\n", names[level], line);
}
