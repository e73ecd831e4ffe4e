/* Reads JSON by recursive descent; see tree.h. */
#include "tests/trace/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct reader {
  const char *begin, *at, *end;
  const char *wrong;
} reader;

static bool complain(reader *r, const char *what) {
  if (!r->wrong) r->wrong = what;
  return false;
}

static void skip_blanks(reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) ++r->at;
}

static bool take(reader *r, char wanted) {
  skip_blanks(r);
  if (r->at == r->end || *r->at != wanted) return false;
  ++r->at;
  return true;
}

/* --- strings --- */

static bool put_code(reader *r, char **to) {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i, ++r->at) {
    static const char digits[] = "0123456789abcdef";
    const char *found =
        r->at < r->end ? strchr(digits, *r->at | ('A' <= *r->at && *r->at <= 'F' ? 32 : 0)) : NULL;
    if (!found || !*found) return complain(r, "four hexadecimal digits wanted");
    code = code * 16 + (unsigned)(found - digits);
  }
  if (code < 0x80) {
    *(*to)++ = (char)code;
  } else if (code < 0x800) {
    *(*to)++ = (char)(0xc0 | code >> 6);
    *(*to)++ = (char)(0x80 | (code & 63));
  } else { /* halves of pairs do not come up in traces and are kept apart */
    *(*to)++ = (char)(0xe0 | code >> 12);
    *(*to)++ = (char)(0x80 | (code >> 6 & 63));
    *(*to)++ = (char)(0x80 | (code & 63));
  }
  return true;
}

static bool put_escape(reader *r, char **to) {
  static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return complain(r, "a string does not end");
  char c = *r->at++;
  if (c == 'u') return put_code(r, to);
  const char *found = c ? strchr(names, c) : NULL;
  if (!found) return complain(r, "an unknown escape");
  *(*to)++ = meant[found - names];
  return true;
}

/* Takes the bytes that a lead byte promises; what they spell is not looked at. */
static bool put_sequence(reader *r, char **to) {
  unsigned char lead = (unsigned char)*r->at;
  int more = lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : 3;
  if (lead < 0xc2 || lead > 0xf4 || r->end - r->at <= more) return complain(r, "not UTF-8");
  *(*to)++ = *r->at++;
  for (; more; --more) {
    if ((*r->at & 0xc0) != 0x80) return complain(r, "not UTF-8");
    *(*to)++ = *r->at++;
  }
  return true;
}

static char *read_string(reader *r) {
  if (!take(r, '"')) return complain(r, "a string wanted"), NULL;
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
  char *made = malloc((size_t)(close - r->at) + 8), *to = made;
  bool fine = made != NULL;
  while (fine && r->at < r->end && *r->at != '"') {
    if (*r->at == '\\')
      ++r->at, fine = put_escape(r, &to);
    else if ((unsigned char)*r->at < 0x20)
      fine = complain(r, "a control character in a string");
    else if ((unsigned char)*r->at < 0x80)
      *to++ = *r->at++;
    else
      fine = put_sequence(r, &to);
  }
  if (fine && !take(r, '"')) fine = complain(r, "a string does not end");
  if (!fine) return free(made), NULL;
  *to = 0;
  return made;
}

/* --- values --- */

static bool read_value(reader *r, value *v, int depth);

static bool read_number(reader *r, value *v) {
  static const char allowed[] = "+-.eE0123456789";
  char copy[64], *end;
  size_t length = 0;
  while (r->at + length < r->end && r->at[length] && strchr(allowed, r->at[length])) ++length;
  if (length == 0 || length >= sizeof copy) return complain(r, "a value wanted");
  memcpy(copy, r->at, length);
  copy[length] = 0;
  const char *digits = copy + (copy[0] == '-');
  if (digits[0] < '0' || digits[0] > '9' || copy[length - 1] < '0' || copy[length - 1] > '9' ||
      (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'))
    return complain(r, "a malformed number");
  v->kind = NUMBER;
  v->number = strtod(copy, &end);
  if (*end) return complain(r, "a malformed number");
  r->at += length;
  return true;
}

static bool read_word(reader *r, value *v) {
  static const struct {
    const char *word;
    kind kind;
    double number;
  } words[] = {{"true", FLAG, 1}, {"false", FLAG, 0}, {"null", NOTHING, 0}};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
    size_t length = strlen(words[i].word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, words[i].word, length) != 0) continue;
    v->kind = words[i].kind;
    v->number = words[i].number;
    r->at += length;
    return true;
  }
  return read_number(r, v);
}

static bool read_members(reader *r, value *v, char close, int depth) {
  value **last = &v->first;
  if (take(r, close)) return true;
  do {
    value *member = calloc(1, sizeof *member);
    if (!member) return complain(r, "no memory");
    *last = member;
    last = &member->next;
    ++v->count;
    if (close == '}') {
      member->name = read_string(r);
      if (!member->name || !take(r, ':')) return complain(r, "a name and a colon wanted");
    }
    if (!read_value(r, member, depth + 1)) return false;
  } while (take(r, ','));
  return take(r, close) || complain(r, "a comma or a closing bracket wanted");
}

static bool read_value(reader *r, value *v, int depth) {
  skip_blanks(r);
  if (depth > DEEPEST) return complain(r, "nested too deep");
  if (r->at < r->end && *r->at == '"') {
    v->kind = TEXT;
    return (v->text = read_string(r)) != NULL;
  }
  bool list = r->at < r->end && *r->at == '[', object = r->at < r->end && *r->at == '{';
  if (!list && !object) return read_word(r, v);
  ++r->at;
  v->kind = list ? LIST : OBJECT;
  return read_members(r, v, list ? ']' : '}', depth);
}

value *tree_read(const char *text, size_t length, char *where, size_t size) {
  reader r = {text, text, text + length, NULL};
  value *v = calloc(1, sizeof *v);
  if (v && read_value(&r, v, 0)) {
    skip_blanks(&r);
    if (r.at == r.end) return v;
    complain(&r, "more behind the end");
  }
  snprintf(where, size, "%s at byte %zu", v ? r.wrong : "no memory", (size_t)(r.at - r.begin));
  tree_free(v);
  return NULL;
}

void tree_free(value *v) {
  while (v) {
    value *next = v->next;
    tree_free(v->first);
    free(v->name);
    free(v->text);
    free(v);
    v = next;
  }
}

const value *tree_member(const value *object, const char *name) {
  const value *v = object && object->kind == OBJECT ? object->first : NULL;
  while (v && strcmp(v->name, name) != 0) v = v->next;
  return v;
}

double tree_number(const value *object, const char *name, double otherwise) {
  const value *v = tree_member(object, name);
  return v && (v->kind == NUMBER || v->kind == FLAG) ? v->number : otherwise;
}

const char *tree_text(const value *object, const char *name, const char *otherwise) {
  const value *v = tree_member(object, name);
  return v && v->kind == TEXT ? v->text : otherwise;
}
