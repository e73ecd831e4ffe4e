/* Writes JSON to a stream; see json.h. */
#include "json.h"

#include <math.h>
#include <string.h>

#include "plain.h"

/* Control characters of Unicode lie below U+0100. */
static void write_control(FILE *out, const char *s) {
  fprintf(out, "\\u%04x", (unsigned char)(*s == '\xc2' ? s[1] : s[0]));
}

static void write_string(FILE *out, const char *text) {
  putc('"', out);
  for (const char *s = text; *s;) {
    int length = plain_sequence(s);
    if (length == 0)
      fputs("\\ufffd", out);
    else if (*s == '"' || *s == '\\')
      fprintf(out, "\\%c", *s);
    else if (plain_is_control(s))
      write_control(out, s);
    else
      fwrite(s, 1, (size_t)length, out);
    s += length ? length : 1;
  }
  putc('"', out);
}

static void new_line(json *j) {
  if (!j->compact) fprintf(j->out, "\n%*s", 2 * j->depth, "");
}

static void begin_item(json *j, const char *name) {
  if (j->follows) fputs(j->compact ? ", " : ",", j->out);
  if (j->depth) new_line(j);
  j->follows = true;
  if (!name) return;
  write_string(j->out, name);
  fputs(": ", j->out);
}

void json_open(json *j, const char *name, char bracket) {
  begin_item(j, name);
  putc(bracket, j->out);
  ++j->depth;
  j->follows = false;
}

void json_close(json *j, char bracket) {
  --j->depth;
  if (j->follows) new_line(j);
  putc(bracket, j->out);
  if (j->depth == 0) putc('\n', j->out);
  j->follows = true;
}

void json_string(json *j, const char *name, const char *value) {
  begin_item(j, name);
  write_string(j->out, value);
}

void json_number(json *j, const char *name, uint64_t value) {
  begin_item(j, name);
  fprintf(j->out, "%llu", (unsigned long long)value);
}

void json_real(json *j, const char *name, double value) {
  begin_item(j, name);
  if (isfinite(value))
    fprintf(j->out, "%.6g", value);
  else
    fputs("null", j->out);
}

void json_bool(json *j, const char *name, bool value) {
  begin_item(j, name);
  fputs(value ? "true" : "false", j->out);
}
