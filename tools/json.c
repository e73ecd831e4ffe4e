/* Writes JSON to a stream; see json.h. */
#include "json.h"

#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at `s`, 0 if there is no valid one (RFC 3629: no
 * overlong forms, no surrogates, at most U+10FFFF). */
static int utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  int length = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 4;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  unsigned least = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
  unsigned most = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
  if (s[1] < least || s[1] > most) return 0;
  for (int i = 2; i < length; ++i)
    if (s[i] < 0x80 || s[i] > 0xbf) return 0;
  return length;
}

static void write_string(FILE *out, const char *text) {
  putc('"', out);
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    int length = utf8_length(s);
    if (length == 0)
      fputs("\\ufffd", out);
    else if (*s == '"' || *s == '\\')
      fprintf(out, "\\%c", *s);
    else if (*s < 0x20 || *s == 0x7f)
      fprintf(out, "\\u%04x", *s);
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
