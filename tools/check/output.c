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

bool output_found(char *text, size_t size) {
  char written[200];
  struct stat is;
  fflush(stdout);
  fflush(stderr);
  if (kept < 0 || fstat(kept, &is) || is.st_size == 0) return false;
  show_reports();
  ssize_t n = pread(kept, written, sizeof written - 1, 0);
  written[n > 0 ? n : 0] = 0;
  written[strcspn(written, "\n")] = 0;
  snprintf(text, size, "wrote to standard output or error: \"%s\"", written);
  lseek(kept, 0, SEEK_SET);
  return ftruncate(kept, 0) == 0;
}

void output_log(void *user, tn_log_level level, const char *line) {
  static const char *const names[] = {"", "error", "warning", "info", "debug"};
  (void)user;
  dprintf(terminal, "tenon: %s: %s\n", names[level], line);
}
