/*
 * A look-up of shared libraries after ld.so's rules, in their order: loaded already,
 * RUNPATH, the search path of this library and of the program, the cache of ldconfig. It
 * errs towards "unsure", since a wrong "missing" would refuse a good plugin.
 */
#include "dispatcher/load/libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_loaded(const char *name) {
  void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

/* ------------------------------------------------------------------ folders --- */

static library_answer in_folder(const char *folder, size_t length, const char *name) {
  char path[PATH_MAX];
  int used = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);
  if (used < 0 || (size_t)used >= sizeof path) return LIBRARY_UNSURE;
  if (access(path, R_OK) == 0) return LIBRARY_FOUND;
  /* Builds for newer processors may lie below; which ones ld.so takes is its business. */
  used = snprintf(path, sizeof path, "%.*s/glibc-hwcaps", (int)length, folder);
  bool variants = used > 0 && (size_t)used < sizeof path && access(path, F_OK) == 0;
  return variants ? LIBRARY_UNSURE : LIBRARY_MISSING;
}

/* Bytes of the token $ORIGIN at `text`, 0 if it is not there. */
static size_t origin_token(const char *text) {
  static const char *const forms[] = {"$ORIGIN", "${ORIGIN}"};
  for (int i = 0; i < 2; i++) {
    size_t length = strlen(forms[i]);
    if (strncmp(text, forms[i], length) == 0) return length;
  }
  return 0;
}

/* Looks in one folder of a RUNPATH. Tokens other than a leading $ORIGIN, and folders
 * relative to the working folder, are left to ld.so. */
static library_answer in_runpath_folder(const char *folder, size_t length, const char *origin,
                                        const char *name) {
  size_t token = origin_token(folder);
  if (token > length || memchr(folder + token, '$', length - token)) return LIBRARY_UNSURE;
  if (!token) return *folder == '/' ? in_folder(folder, length, name) : LIBRARY_UNSURE;
  char path[PATH_MAX];
  int used = snprintf(path, sizeof path, "%s%.*s", origin, (int)(length - token), folder + token);
  if (used < 0 || (size_t)used >= sizeof path) return LIBRARY_UNSURE;
  return in_folder(path, (size_t)used, name);
}

static library_answer in_runpath(const char *runpath, const char *origin, const char *name) {
  library_answer answer = LIBRARY_MISSING;
  while (*runpath) {
    size_t length = strcspn(runpath, ":");
    library_answer here = in_runpath_folder(runpath, length, origin, name);
    if (here == LIBRARY_FOUND) return here;
    if (here == LIBRARY_UNSURE) answer = here;
    runpath += length + (runpath[length] == ':');
  }
  return answer;
}

/* ------------------------------------------------- the process's search path --- */

static library_answer in_search_path(const Dl_serinfo *path, const char *name) {
  library_answer answer = LIBRARY_MISSING;
  for (unsigned i = 0; i < path->dls_cnt; i++) {
    const char *folder = path->dls_serpath[i].dls_name;
    library_answer here = *folder == '/' ? in_folder(folder, strlen(folder), name) : LIBRARY_UNSURE;
    if (here == LIBRARY_FOUND) return here;
    /* Default folders have variants below them that the cache lists. */
    if (here == LIBRARY_UNSURE && *folder != '/') answer = here;
  }
  return answer;
}

/* The path that ld.so itself uses for what `library` opens: its RPATH, LD_LIBRARY_PATH
 * unless the process is set-user-id, the default folders. */
static library_answer in_path_of(void *library, const char *name) {
  Dl_serinfo size;
  if (!library || dlinfo(library, RTLD_DI_SERINFOSIZE, &size)) return LIBRARY_UNSURE;
  Dl_serinfo *path = malloc(size.dls_size);
  if (!path) return LIBRARY_UNSURE;
  *path = size;
  library_answer answer = LIBRARY_UNSURE;
  if (dlinfo(library, RTLD_DI_SERINFOSIZE, path) == 0 &&
      dlinfo(library, RTLD_DI_SERINFO, path) == 0)
    answer = in_search_path(path, name);
  free(path);
  return answer;
}

static library_answer in_process_path(const char *name) {
  static const char here[] = "";
  Dl_info self;
  struct link_map *map = NULL;
  if (!dladdr1(here, &self, (void **)&map, RTLD_DL_LINKMAP) || !map) return LIBRARY_UNSURE;
  const char *file = *map->l_name ? map->l_name : NULL;
  void *library = dlopen(file, RTLD_LAZY | (file ? RTLD_NOLOAD : 0));
  library_answer answer = in_path_of(library, name);
  if (library) dlclose(library);
  return answer;
}

/* ---------------------------------------------------------------- the cache --- */

/* The form that glibc has written since 2.32 (and, after an older part, since 2.2),
 * described in its file dl-cache.h. Numbers are of the host's byte order. */
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

typedef struct cache_header {
  char magic[20];
  uint32_t num_entries;
  uint32_t strings_size;
  uint32_t other[5];
} cache_header;

typedef struct cache_entry {
  int32_t flags;
  uint32_t name, path; /* offsets from the header */
  uint32_t os_version;
  uint64_t hwcap;
} cache_entry;

/* What `flags` say of 64-bit libraries of glibc. */
#if defined(__x86_64__)
#define CACHE_FLAGS 0x0303
#elif defined(__aarch64__)
#define CACHE_FLAGS 0x0a03
#endif

static bool fits_host(int32_t flags) {
#ifdef CACHE_FLAGS
  return flags == CACHE_FLAGS;
#else
  return (flags & 0xff) == 3;
#endif
}

/* The string at an offset, NULL if it does not end inside the cache. */
static const char *cache_string(const char *cache, size_t size, uint32_t offset) {
  if (offset >= size || !memchr(cache + offset, '\0', size - offset)) return NULL;
  return cache + offset;
}

library_answer library_find_in_cache(const void *bytes, size_t size, const char *name) {
  const char *cache = bytes;
  cache_header header;
  if (size < sizeof header) return LIBRARY_UNSURE;
  memcpy(&header, cache, sizeof header);
  if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0) return LIBRARY_UNSURE;
  if (header.num_entries > (size - sizeof header) / sizeof(cache_entry)) return LIBRARY_UNSURE;
  for (uint32_t i = 0; i < header.num_entries; i++) {
    cache_entry entry;
    memcpy(&entry, cache + sizeof header + i * sizeof entry, sizeof entry);
    if (!fits_host(entry.flags)) continue;
    const char *key = cache_string(cache, size, entry.name);
    const char *path = cache_string(cache, size, entry.path);
    if (!key || !path) return LIBRARY_UNSURE;
    if (strcmp(key, name) == 0 && access(path, R_OK) == 0) return LIBRARY_FOUND;
  }
  return LIBRARY_MISSING;
}

/* Reads up to `size` bytes; the number read. */
static size_t read_all(int fd, char *buffer, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = read(fd, buffer + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

static library_answer in_cache(const char *name) {
  enum { MAX_CACHE = 16 << 20 };
  int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? LIBRARY_MISSING : LIBRARY_UNSURE;
  library_answer answer = LIBRARY_UNSURE;
  struct stat s;
  if (fstat(fd, &s) == 0 && s.st_size > 0 && s.st_size <= MAX_CACHE) {
    char *bytes = malloc((size_t)s.st_size);
    if (bytes) answer = library_find_in_cache(bytes, read_all(fd, bytes, (size_t)s.st_size), name);
    free(bytes);
  }
  close(fd);
  return answer;
}

library_answer library_find(const char *name, const char *runpath, const char *origin) {
  if (is_loaded(name)) return LIBRARY_FOUND;
  if (*name == '/') return access(name, R_OK) == 0 ? LIBRARY_FOUND : LIBRARY_MISSING;
  library_answer run = in_runpath(runpath, origin, name);
  library_answer own = run == LIBRARY_FOUND ? run : in_process_path(name);
  library_answer cache = own == LIBRARY_FOUND ? own : in_cache(name);
  if (cache == LIBRARY_FOUND) return cache;
  bool sure = run == LIBRARY_MISSING && own == LIBRARY_MISSING && cache == LIBRARY_MISSING;
  return sure ? LIBRARY_MISSING : LIBRARY_UNSURE;
}
