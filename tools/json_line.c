/* Reads flat objects of JSON (RFC 8259); see json_line.h. */
#include "json_line.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *skip_space(char *s) {
  while (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n') s++;
  return s;
}

/* Four hexadecimal digits as UTF-8; halves of surrogate pairs become U+FFFD. NULL where they are
 * not. */
static char *read_code(const char *digits, char *to) {
  unsigned code = 0;
  for (int i = 0; i < 4; i++) {
    const int c = tolower((unsigned char)digits[i]);
    if (!isxdigit(c)) return NULL;
    code = code * 16 + (unsigned)(isdigit(c) ? c - '0' : c - 'a' + 10);
  }
  if ((code >= 0xd800 && code < 0xe000) || code == 0) code = 0xfffd;
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* The string that begins at the quotation mark `s`, decoded in place; returns what follows it, NULL
 * where it does not end. */
static char *read_string(char *s, char **text) {
  static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  char *to = s;
  *text = s;
  for (s++; *s != '"';) {
    if ((unsigned char)*s < ' ') return NULL;
    if (*s != '\\') {
      *to++ = *s++;
      continue;
    }
    const char *found = s[1] ? strchr(escapes, s[1]) : NULL;
    if (found) {
      *to++ = meant[found - escapes];
      s += 2;
    } else {
      to = s[1] == 'u' ? read_code(s + 2, to) : NULL;
      if (!to) return NULL;
      s += 6;
    }
  }
  *to = 0;
  return s + 1;
}

/* A number or a word; returns what follows it, NULL where it is none. */
static char *read_plain(char *s, double *number) {
  static const struct {
    const char *word;
    double value;
  } words[] = {{"true", 1}, {"false", 0}, {"null", NAN}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const size_t length = strlen(words[i].word);
    if (strncmp(s, words[i].word, length) != 0) continue;
    *number = words[i].value;
    return s + length;
  }
  char *end = s;
  if (*s != '-' && !isdigit((unsigned char)*s)) return NULL;
  *number = strtod(s, &end);
  return end == s ? NULL : end;
}

/* "name": value; returns what follows it. */
static char *read_member(char *s, json_member *member, void *ctx) {
  char *name = NULL, *text = NULL;
  double number = NAN;
  if (*s != '"' || !(s = read_string(s, &name))) return NULL;
  s = skip_space(s);
  if (*s++ != ':') return NULL;
  s = skip_space(s);
  s = *s == '"' ? read_string(s, &text) : read_plain(s, &number);
  if (s) member(ctx, name, text, number);
  return s;
}

bool json_line_read(char *line, json_member *member, void *ctx) {
  char *s = skip_space(line);
  if (*s++ != '{') return false;
  s = skip_space(s);
  if (*s == '}') return !*skip_space(s + 1);
  for (;;) {
    s = read_member(s, member, ctx);
    if (!s) return false;
    s = skip_space(s);
    if (*s == '}') return !*skip_space(s + 1);
    if (*s++ != ',') return false;
    s = skip_space(s);
  }
}
