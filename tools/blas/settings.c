/* The environment of libtenon-blas, and what it says on standard error. */
#include "settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

blas_settings settings = {.min = -1, .verbose = 1};

/* A variable that is there and not empty. */
static const char *variable(const char *value) { return value && *value ? value : NULL; }

void say(int level, const char *format, ...) {
  char line[1024] = "tenon-blas: ";
  size_t length = strlen(line);
  if (settings.verbose < level) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + length, sizeof line - length - 1, format, arguments);
  va_end(arguments);
  strcat(line, "\n");
  fputs(line, stderr); /* one call, so that lines of threads do not mix */
}

static void read_min(const char *text) {
  if (!text) return;
  char *end;
  double n = strtod(text, &end);
  if (*end == '\0' && n >= 0)
    settings.min = n;
  else
    say(1, "TENON_BLAS_MIN is '%s', which is no number of at least 0; it is left aside", text);
}

static void read_verbose(const char *text) {
  if (!text) return;
  if (strcmp(text, "0") == 0)
    settings.verbose = 0;
  else if (strcmp(text, "1") == 0)
    settings.verbose = 2;
  else
    say(1, "TENON_BLAS_VERBOSE is '%s', but takes 0 or 1; it is left aside", text);
}

void settings_read(void) {
  read_verbose(variable(secure_getenv("TENON_BLAS_VERBOSE")));
  settings.device = variable(secure_getenv("TENON_DEVICE"));
  settings.host = variable(secure_getenv("TENON_BLAS_HOST"));
  read_min(variable(secure_getenv("TENON_BLAS_MIN")));
  const char *report = variable(secure_getenv("TENON_BLAS_REPORT"));
  settings.report = report && strcmp(report, "0") != 0;
}
