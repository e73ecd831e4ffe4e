/*
 * Libraries that the process has twice: files of one name but for version numbers, from
 * two places. Each keeps a state of its own, so that what one made (a handle, a thread
 * pool, memory) means nothing to the other; plugins that bring vendors' libraries along
 * are how that comes about. No library is known here by name.
 */
#include "dispatcher/plugins/duplicates.h"

#include <link.h>
#include <string.h>

struct duplicate {
  duplicate *next;
  char *name, *first, *second;
};

/* One mapped library. */
typedef struct library {
  char *path;
  const char *file; /* in path */
  size_t stem;      /* bytes of `file` that name it */
} library;

typedef struct listing {
  const host_memory *memory;
  library *items;
  size_t count, capacity;
  bool failed;
} listing;

/* Whether a name's part behind '-' is a version or a checksum: "2.31", "r0.3.21",
 * "8774224f". */
static bool is_version(const char *text, size_t length) {
  bool digit = false;
  for (size_t i = 0; i < length; i++) {
    if (!strchr("0123456789abcdefr.", text[i])) return false;
    digit |= text[i] >= '0' && text[i] <= '9';
  }
  return digit;
}

/* "libfoo-1.2.so.3" is known as "libfoo"; 0 for what is no library: programs, the parts of
 * other plugin systems, and Tenon's own plugins. */
static size_t stem_of(const char *file) {
  const char *end = strstr(file, ".so");
  if (!end || strncmp(file, "lib", 3) != 0 || strncmp(file, "libtenon-", 9) == 0) return 0;
  size_t length = (size_t)(end - file);
  const char *dash = memrchr(file, '-', length);
  if (dash && is_version(dash + 1, (size_t)(end - dash) - 1)) length = (size_t)(dash - file);
  return length;
}

static bool grow(listing *l) {
  void *items = host_grow(l->memory, l->items, l->count, sizeof *l->items, &l->capacity);
  if (items) l->items = items;
  return items != NULL;
}

/* ld.so's lock is held here: the paths are copied and judged later. */
static int note_library(struct dl_phdr_info *info, size_t size, void *ctx) {
  listing *l = ctx;
  (void)size;
  const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  size_t stem = slash ? stem_of(slash + 1) : 0;
  if (!stem) return 0;
  library item = {.stem = stem};
  if (l->count < l->capacity || grow(l)) item.path = host_strdup(l->memory, info->dlpi_name);
  l->failed = !item.path;
  if (l->failed) return 1;
  item.file = item.path + (slash + 1 - info->dlpi_name);
  l->items[l->count++] = item;
  return 0;
}

static bool is_same_library(const library *a, const library *b) {
  return a->stem == b->stem && memcmp(a->file, b->file, a->stem) == 0 &&
         strcmp(a->path, b->path) != 0;
}

static bool is_known(const tn_runtime *r, const library *a, const library *b) {
  for (const duplicate *d = r->duplicates; d; d = d->next)
    if (strcmp(d->first, a->path) == 0 && strcmp(d->second, b->path) == 0) return true;
  return false;
}

static void duplicate_free(const host_memory *memory, duplicate *d) {
  if (!d) return;
  host_free(memory, d->name);
  host_free(memory, d->first);
  host_free(memory, d->second);
  host_free(memory, d);
}

/* Appends, so that an index once given stays. */
static bool keep(tn_runtime *r, const library *a, const library *b) {
  duplicate *d = host_alloc(&r->memory, sizeof *d), **at = &r->duplicates;
  if (!d) return false;
  d->name = host_strdup(&r->memory, a->file);
  d->first = host_strdup(&r->memory, a->path);
  d->second = host_strdup(&r->memory, b->path);
  if (!d->name || !d->first || !d->second) {
    duplicate_free(&r->memory, d);
    return false;
  }
  d->name[a->stem] = '\0';
  while (*at) at = &(*at)->next;
  *at = d;
  runtime_log(r, TN_LOG_INFO, "%s is loaded twice: %s and %s", d->name, d->first, d->second);
  return true;
}

/* Each library with the first one of its name. */
static bool compare(tn_runtime *r, const listing *l) {
  for (size_t i = 1; i < l->count; i++)
    for (size_t k = 0; k < i; k++) {
      if (!is_same_library(&l->items[k], &l->items[i])) continue;
      if (!is_known(r, &l->items[k], &l->items[i]) && !keep(r, &l->items[k], &l->items[i]))
        return false;
      break;
    }
  return true;
}

tn_status duplicates_find(tn_runtime *runtime) {
  listing l = {.memory = &runtime->memory};
  (void)dl_iterate_phdr(note_library, &l);
  log_hold();
  pthread_mutex_lock(&runtime->mutex);
  bool done = !l.failed && compare(runtime, &l);
  pthread_mutex_unlock(&runtime->mutex);
  log_resume();
  for (size_t i = 0; i < l.count; i++) host_free(l.memory, l.items[i].path);
  host_free(l.memory, l.items);
  return done ? TN_OK : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the list of libraries");
}

void duplicates_free(const host_memory *memory, duplicate *first) {
  for (duplicate *d = first, *next; d; d = next) {
    next = d->next;
    duplicate_free(memory, d);
  }
}

tn_status tn_duplicate_library_at(tn_runtime *runtime, size_t index, tn_duplicate_library *info) {
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_duplicate_library_at: runtime is NULL");
  tn_status status = struct_check("tn_duplicate_library_at", "info", "tn_duplicate_library", info);
  if (!status) status = runtime_check(runtime);
  if (status) return status;
  status = duplicates_find(runtime);
  pthread_mutex_lock(&runtime->mutex);
  const duplicate *d = runtime->duplicates;
  for (size_t i = index; d && i > 0; i--) d = d->next;
  pthread_mutex_unlock(&runtime->mutex);
  if (status) return status;
  if (!d)
    return fail(TN_ERR_NOT_FOUND, "tn_duplicate_library_at: there are fewer than %zu", index + 1);
  tn_duplicate_library full = {info->struct_size, 0, d->name, d->first, d->second};
  struct_fill(info, &full, sizeof full);
  return TN_OK;
}
