/* One line of a terminal; see progress.h. */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_BYTES = 200, USUAL_COLUMNS = 80 };

static bool is_on;
static char shown[LINE_BYTES];

void progress_begin(bool on) { is_on = on && isatty(STDERR_FILENO); }

/* A longer line would go on in the next one, which erasing does not reach. */
static int columns(void) {
  struct winsize size;
  bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1 : USUAL_COLUMNS - 1;
}

void progress_show(const char *format, ...) {
  char line[LINE_BYTES];
  va_list args;
  if (!is_on) return;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (strcmp(line, shown) == 0) return;
  strcpy(shown, line);
  fprintf(stderr, "\r\033[K%.*s", columns(), line);
  fflush(stderr);
}

void progress_clear(void) {
  if (!is_on || !shown[0]) return;
  shown[0] = 0;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}
