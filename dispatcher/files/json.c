/* The JSON of headers: see json.h. RFC 8259, RFC 3629. */
#include "dispatcher/files/json.h"

#include <string.h>

static bool wrong(json *j, const char *what) {
  if (!j->wrong) j->wrong = what;
  return false;
}

static void skip_space(json *j) {
  while (j->at < j->end && memchr(" \t\n\r", *j->at, 4)) ++j->at;
}

bool json_take(json *j, char wanted) {
  if (j->wrong) return false;
  skip_space(j);
  if (j->at == j->end || *j->at != wanted) return false;
  ++j->at;
  return true;
}

bool json_expect(json *j, char wanted) {
  if (json_take(j, wanted)) return true;
  switch (wanted) {
  case '{':
    return wrong(j, "expected an object, '{'");
  case '[':
    return wrong(j, "expected an array, '['");
  case ':':
    return wrong(j, "expected ':'");
  case ']':
    return wrong(j, "expected ',' or ']'");
  case '}':
    return wrong(j, "expected ',' or '}'");
  default:
    return wrong(j, "expected a string");
  }
}

size_t utf8_bytes(const char *text, size_t left) {
  const unsigned char *p = (const unsigned char *)text;
  /* The first byte settles the length, and with the second one what is too long or too large. */
  size_t bytes = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
  if (bytes == 0 || bytes > left) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
  if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
  return bytes;
}

/* Four hexadecimal digits. */
static bool read_unit(json *j, uint32_t *unit) {
  if (j->end - j->at < 4) return wrong(j, "a string that does not end");
  *unit = 0;
  for (int i = 0; i < 4; ++i, ++j->at) {
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *digit = *j->at ? strchr(digits, *j->at) : NULL;
    if (!digit) return wrong(j, "\\u without four hexadecimal digits");
    *unit = *unit * 16 + (uint32_t)((digit - digits) % 16);
  }
  return true;
}

static char *put_utf8(char *out, uint32_t c) {
  if (c < 0x80) return *out++ = (char)c, out;
  if (c < 0x800) {
    *out++ = (char)(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      *out++ = (char)(0xe0 | c >> 12);
    } else {
      *out++ = (char)(0xf0 | c >> 18);
      *out++ = (char)(0x80 | (c >> 12 & 63));
    }
    *out++ = (char)(0x80 | (c >> 6 & 63));
  }
  *out++ = (char)(0x80 | (c & 63));
  return out;
}

/* What stands behind \u, or behind two of them for a character beyond U+FFFF. */
static char *read_coded(json *j, char *out) {
  uint32_t c, low;
  if (!read_unit(j, &c)) return NULL;
  if (c == 0) return wrong(j, "\\u0000, which no text here may hold"), NULL;
  if (c >= 0xd800 && c < 0xe000) {
    bool pair = c < 0xdc00 && j->end - j->at >= 2 && j->at[0] == '\\' && j->at[1] == 'u';
    if (!pair) return wrong(j, "half of a surrogate pair"), NULL;
    j->at += 2;
    if (!read_unit(j, &low)) return NULL;
    if (low < 0xdc00 || low > 0xdfff) return wrong(j, "half of a surrogate pair"), NULL;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  return put_utf8(out, c);
}

/* What stands behind a backslash. */
static char *read_escape(json *j, char *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (j->at == j->end) return wrong(j, "a string that does not end"), NULL;
  char c = *j->at++;
  if (c == 'u') return read_coded(j, out);
  const char *known = c ? strchr(from, c) : NULL;
  if (!known) return wrong(j, "an escape that JSON does not have"), NULL;
  *out++ = to[known - from];
  return out;
}

char *json_string(json *j) {
  if (!json_expect(j, '"')) return NULL;
  char *text = j->at, *out = text; /* no escape is shorter than what it stands for */
  while (j->at < j->end && *j->at != '"') {
    if (*j->at == '\\') {
      ++j->at;
      out = read_escape(j, out);
      if (!out) return NULL;
      continue;
    }
    size_t bytes = utf8_bytes(j->at, (size_t)(j->end - j->at));
    if ((unsigned char)*j->at < 0x20) return wrong(j, "a control character in a string"), NULL;
    if (bytes == 0) return wrong(j, "a string that is not UTF-8"), NULL;
    memmove(out, j->at, bytes);
    out += bytes;
    j->at += bytes;
  }
  if (j->at == j->end) return wrong(j, "a string that does not end"), NULL;
  ++j->at;
  *out = 0;
  return text;
}

static bool is_digit(const json *j) { return j->at < j->end && *j->at >= '0' && *j->at <= '9'; }

bool json_number(json *j, int64_t *value) {
  if (j->wrong) return false;
  skip_space(j);
  if (!is_digit(j)) return wrong(j, "expected a whole number from 0 on");
  bool zero = *j->at == '0';
  *value = 0;
  for (int digits = 0; is_digit(j); ++j->at, ++digits) {
    if (zero && digits) return wrong(j, "a number that begins with 0");
    if (__builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, *j->at - '0', value))
      return wrong(j, "a number of more than 63 bits");
  }
  if (j->at < j->end && memchr(".eE", *j->at, 3)) return wrong(j, "a number that is not whole");
  return true;
}

bool json_ends(json *j) {
  if (j->wrong) return false;
  skip_space(j);
  return j->at == j->end || wrong(j, "more text behind its end");
}
