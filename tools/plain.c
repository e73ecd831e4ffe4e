/* Escapes what a terminal would obey in place of showing it; see plain.h. */
#include "plain.h"

#include <stdio.h>
#include <string.h>

enum { COPIES = 10, COPY_BYTES = 8192, ESCAPE_BYTES = 4 };

/* No overlong forms, no surrogates, at most U+10FFFF. */
int plain_sequence(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
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

int plain_is_control(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

static int is_plain(const char *text) {
  for (const char *s = text; *s;) {
    int length = plain_sequence(s);
    if (length == 0 || plain_is_control(s)) return 0;
    s += length;
  }
  return 1;
}

static void copy_plain(const char *s, char *to, const char *end) {
  while (*s && end - to > 2 * ESCAPE_BYTES) {
    int length = plain_sequence(s), shown = length && !plain_is_control(s);
    if (length == 0) length = 1;
    for (int i = 0; i < length; ++i)
      if (shown)
        *to++ = s[i];
      else
        to += snprintf(to, ESCAPE_BYTES + 1, "\\x%02x", (unsigned char)s[i]);
    s += length;
  }
  snprintf(to, (size_t)(end - to), "%s", *s ? "..." : "");
}

const char *plain(const char *text) {
  static char copies[COPIES][COPY_BYTES];
  static unsigned next;
  if (is_plain(text)) return text;
  char *copy = copies[next++ % COPIES];
  copy_plain(text, copy, copy + COPY_BYTES);
  return copy;
}
