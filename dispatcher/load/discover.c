/*
 * Where plugins are looked for, in order: the path that the user gave, the folder tenon/
 * beside this library, this library's own folder. Never the working folder. Nothing is
 * judged here: whatever was named becomes a candidate, so that its fate is reported.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dispatcher/load/loader.h"

#define PLUGIN_GLOB "libtenon-*.so"

static bool is_listed(const candidate_list *list, const struct candidate *c) {
  for (size_t i = 0; i < list->count; i++) {
    const struct candidate *other = &list->items[i];
    bool same_file = c->inode && c->inode == other->inode && c->device == other->device;
    if (same_file || strcmp(c->path, other->path) == 0) return true;
  }
  return false;
}

static bool grow(const host_memory *memory, candidate_list *list) {
  void *items = host_grow(memory, list->items, list->count, sizeof *list->items, &list->capacity);
  if (items) list->items = items;
  return items != NULL;
}

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no memory for the list of plugins");
}

static tn_status append(const host_memory *memory, candidate_list *list, const char *path,
                        const char *origin) {
  struct candidate c = {.origin = origin};
  struct stat s;
  if (*path == '/' && stat(path, &s) == 0) {
    c.device = (uint64_t)s.st_dev;
    c.inode = (uint64_t)s.st_ino;
  }
  c.path = host_strdup(memory, path);
  if (!c.path) return no_memory();
  bool listed = is_listed(list, &c);
  if (listed || (list->count == list->capacity && !grow(memory, list))) {
    host_free(memory, c.path);
    return listed ? TN_OK : no_memory();
  }
  list->items[list->count++] = c;
  return TN_OK;
}

static int is_plugin_file(const struct dirent *entry) {
  return fnmatch(PLUGIN_GLOB, entry->d_name, FNM_PERIOD) == 0;
}

/* By bytes: the order must not depend on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* Appends the folder's plugins. *count is their number, -1 if it could not be read. */
static tn_status append_folder(const host_memory *memory, candidate_list *list, const char *folder,
                               const char *origin, int *count) {
  struct dirent **entries = NULL;
  *count = scandir(folder, &entries, is_plugin_file, by_name);
  if (*count < 0) return errno == ENOMEM ? no_memory() : TN_OK;
  tn_status status = TN_OK;
  for (int i = 0; i < *count; i++) {
    char path[PATH_MAX];
    int used = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (!status && used > 0 && (size_t)used < sizeof path)
      status = append(memory, list, path, origin);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static bool is_folder(const char *path) {
  struct stat s;
  return *path == '/' && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* One entry of the path: a file, or a folder. A folder that gives nothing is listed
 * itself, so that the user learns of it. */
static tn_status append_entry(const host_memory *memory, candidate_list *list, const char *path,
                              const char *origin) {
  int count = 0;
  tn_status status = TN_OK;
  if (is_folder(path)) status = append_folder(memory, list, path, origin, &count);
  if (!status && count <= 0) status = append(memory, list, path, origin);
  return status;
}

static tn_status append_path(const host_memory *memory, candidate_list *list, const char *path,
                             const char *origin) {
  tn_status status = TN_OK;
  while (path && *path && !status) {
    size_t length = strcspn(path, ":");
    char *entry = host_alloc(memory, length + 1);
    if (!entry) return no_memory();
    memcpy(entry, path, length);
    if (length) status = append_entry(memory, list, entry, origin);
    host_free(memory, entry);
    path += length + (path[length] == ':');
  }
  return status;
}

/* The folder of the library that this code is in, or of the program that it was linked
 * into. The program's name is the caller's to choose, so the kernel is asked instead. */
bool loader_own_folder(char folder[PATH_MAX]) {
  static const char here[] = "";
  Dl_info self;
  struct link_map *map = NULL;
  if (!dladdr1(here, &self, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
  if (!realpath(*map->l_name ? map->l_name : "/proc/self/exe", folder)) return false;
  char *slash = strrchr(folder, '/');
  if (!slash) return false;
  *slash = '\0';
  return true;
}

static tn_status append_own(const host_memory *memory, candidate_list *list) {
  char folder[PATH_MAX], below[PATH_MAX + sizeof "/tenon"];
  int count;
  if (!loader_own_folder(folder)) return TN_OK;
  snprintf(below, sizeof below, "%s/tenon", folder);
  tn_status status =
      append_folder(memory, list, below, "the folder tenon/ beside the library", &count);
  if (!status) status = append_folder(memory, list, folder, "beside the library", &count);
  return status;
}

tn_status loader_discover(const host_memory *memory, const config *settings, candidate_list *list) {
  memset(list, 0, sizeof *list);
  const char *origin =
      settings->plugin_path_from ? settings->plugin_path_from : "TENON_PLUGIN_PATH";
  tn_status status = append_path(memory, list, settings->plugin_path, origin);
  if (!status) status = append_own(memory, list);
  if (status) candidate_list_free(memory, list);
  return status;
}

void candidate_list_free(const host_memory *memory, candidate_list *list) {
  for (size_t i = 0; i < list->count; i++) host_free(memory, list->items[i].path);
  host_free(memory, list->items);
  memset(list, 0, sizeof *list);
}
