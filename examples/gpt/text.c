#include "text.h"

#include <err.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../random.h"

/* What Perl says of each of its messages: 300 kB of English, on every Debian or Ubuntu that
 * builds programs or has Git. The folder has the version's number in it. */
#define DEFAULT_TEXT "/usr/share/perl/5.*/pod/perldiag.pod"
#define DEFAULT_REMEDY "name a text file, or install the package perl"

/* Tokens are counted in 32 bits. */
static const int64_t most_bytes = INT32_MAX;

static bool refuse(const text *t, const char *reason) {
  warnx("cannot learn from %s: %s", t->path, reason);
  return false;
}

static bool find_default(text *t) {
  glob_t found;
  bool there = glob(DEFAULT_TEXT, 0, NULL, &found) == 0;
  if (there) snprintf(t->found, sizeof t->found, "%s", found.gl_pathv[found.gl_pathc - 1]);
  globfree(&found);
  t->path = t->found;
  if (!there) warnx("no text at " DEFAULT_TEXT ": " DEFAULT_REMEDY);
  return there;
}

/* Reads what is there; a pipe has no size before its end. */
static bool read_all(text *t, FILE *file) {
  size_t room = 0, got = 0;
  do {
    room = room ? 2 * room : 1 << 20;
    uint8_t *more = realloc(t->bytes, room);
    if (!more) return refuse(t, "not enough memory");
    t->bytes = more;
    got += fread(t->bytes + got, 1, room - got, file);
  } while (got == room && got <= (size_t)most_bytes);
  t->count = (int64_t)got;
  if (ferror(file)) return refuse(t, strerror(errno));
  if (t->count > most_bytes) return refuse(t, "it has more than 2^31 - 1 bytes");
  return true;
}

static bool read_file(text *t) {
  struct stat st;
  FILE *file = fopen(t->path, "rb");
  if (!file) return refuse(t, strerror(errno));
  bool ok = fstat(fileno(file), &st) == 0 && !S_ISDIR(st.st_mode) ? read_all(t, file)
                                                                  : refuse(t, "it is no file");
  fclose(file);
  return ok;
}

/* Both parts must have a window and the byte behind it. */
static bool long_enough(text *t, int64_t context) {
  t->learnt = t->count - t->count / 10;
  if (t->count == 0) return refuse(t, "it is empty");
  if (t->count - t->learnt > context && t->learnt > context) return true;
  warnx("cannot learn from %s: it has %lld bytes, and of a context of %lld its tenth that is held "
        "out wants %lld; take a longer text or a smaller --context",
        t->path, (long long)t->count, (long long)context, (long long)(10 * (context + 1)));
  return false;
}

bool text_load(text *t, const char *path, int64_t context) {
  *t = (text){.path = path};
  return (path || find_default(t)) && read_file(t) && long_enough(t, context);
}

void text_free(text *t) {
  free(t->bytes);
  *t = (text){0};
}

static void take(const text *t, int64_t from, int64_t window, const windows *w) {
  int32_t *tokens = w->tokens + window * w->length, *targets = w->targets + window * w->length;
  for (int64_t i = 0; i < w->length; i++) {
    tokens[i] = t->bytes[from + i];
    targets[i] = t->bytes[from + i + 1];
  }
}

void text_draw(const text *t, uint64_t seed, uint64_t step, const windows *w) {
  uint64_t state = random_stream(seed, step), starts = (uint64_t)(t->learnt - w->length);
  for (int64_t i = 0; i < w->batch; i++) take(t, (int64_t)(random_next(&state) % starts), i, w);
}

void text_held_out(const text *t, int64_t index, int64_t batches, const windows *w) {
  int64_t last = t->count - t->learnt - w->length - 1, all = w->batch * batches;
  for (int64_t i = 0; i < w->batch; i++) {
    int64_t number = index * w->batch + i;
    take(t, t->learnt + (all > 1 ? last * number / (all - 1) : 0), i, w);
  }
}
