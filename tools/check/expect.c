/*
 * Expected failures: a backend may say which it has and why. A failure that an entry
 * matches does not fail the run; an entry that no failure matches does, so that the list
 * cannot outlive what it explains.
 */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char *trimmed(char *line) {
  size_t length = strlen(line);
  while (length && isspace((unsigned char)line[length - 1])) line[--length] = 0;
  while (isspace((unsigned char)*line)) line++;
  return line;
}

static const char row_mark[] = "row:";

static bool is_row(const expectation *e) { return !strncmp(e->op, row_mark, sizeof row_mark - 1); }

/* "op-glob dtype-glob reason ...", "row:glob dtype-glob unless:word,word reason ..." */
static bool parse(char *line, expectation *e) {
  int at = 0, more = 0;
  bool ok = sscanf(line, "%127s %31s %n", e->op, e->dtype, &at) == 2 && at;
  if (ok && is_row(e) && sscanf(line + at, "unless:%63s %n", e->unless, &more) == 1) at += more;
  ok = ok && line[at];
  if (ok) snprintf(e->reason, sizeof e->reason, "%s", line + at);
  return ok;
}

static bool add(expectations *e, const expectation *one) {
  expectation *grown = realloc(e->list, (e->count + 1) * sizeof *grown);
  if (!grown) return false;
  e->list = grown;
  e->list[e->count++] = *one;
  return true;
}

bool expect_read(expectations *e, const char *path) {
  char line[512];
  bool ok = true;
  FILE *file = fopen(path, "r");
  if (!file) return perror(path), false;
  for (uint32_t number = 1; ok && fgets(line, sizeof line, file); number++) {
    expectation one = {.line = number};
    char *text = trimmed(line);
    if (!*text || *text == '#') continue;
    snprintf(one.from, sizeof one.from, "%s", path);
    ok = parse(text, &one) && add(e, &one);
    if (!ok) fprintf(stderr, "%s:%u: not 'operator element-type reason': %s\n", path, number, text);
  }
  fclose(file);
  return ok;
}

void expect_free(expectations *e) {
  free(e->list);
  *e = (expectations){0};
}

static const char *dtype_text(tn_dtype dtype) { return dtype ? tn_dtype_name(dtype) : "-"; }

static expectation *find(const expectations *e, const char *op, tn_dtype dtype) {
  for (size_t i = 0; i < e->count; i++)
    if (!is_row(&e->list[i]) && !fnmatch(e->list[i].op, op, 0) &&
        !fnmatch(e->list[i].dtype, dtype_text(dtype), 0))
      return &e->list[i];
  return NULL;
}

bool expect_names(const expectations *e, const char *op, tn_dtype dtype) {
  return e && find(e, op, dtype);
}

uint64_t expect_match(expectations *e, const agenda *a, unit *u) {
  const char *op = a->op[u->op].name;
  u->expected = 0;
  for (int dtype = 0; dtype < TN_DTYPE_SLOTS; dtype++) {
    expectation *found = u->failed[dtype] ? find(e, op, (tn_dtype)dtype) : NULL;
    if (!found) continue;
    found->used += u->failed[dtype];
    u->expected += u->failed[dtype];
    for (uint32_t i = 0; i < u->kept; i++)
      if ((int)u->failure[i].dtype == dtype) u->failure[i].expected = true;
  }
  return u->expected;
}

/* Whether one of the words, parted by commas, is among the device's features. */
static bool has_feature(const char *features, const char *words) {
  for (size_t length; *words; words += length + (words[length] == ',')) {
    length = strcspn(words, ",");
    for (const char *at = features; length && *at; at += strspn(at, " ")) {
      const size_t word = strcspn(at, " ");
      if (word == length && !strncmp(at, words, length)) return true;
      at += word;
    }
  }
  return false;
}

bool expect_row(expectations *e, const checked_device *d, const char *name, tn_dtype dtype) {
  for (size_t i = 0; i < e->count; i++) {
    expectation *one = &e->list[i];
    if (!is_row(one) || fnmatch(one->op + sizeof row_mark - 1, name, 0)) continue;
    if (fnmatch(one->dtype, dtype_text(dtype), 0) || has_feature(d->features, one->unless))
      continue;
    one->used++;
    return true;
  }
  return false;
}

void expect_device(expectations *e, const checked_device *d) {
  for (size_t i = 0; i < e->count; i++)
    e->list[i].idle |= has_feature(d->features, e->list[i].unless);
}

bool expect_is_stale(const expectation *e) { return !e->used && !e->idle; }
