/*
 * One plugin from path to table: whose file it is, what the file says of itself, then
 * dlopen and the query. Nothing of the plugin runs before the first two are settled.
 *
 * The checks keep out accidents and other users' files. They are no wall against a
 * hostile plugin: what is loaded is native code in this process.
 */
#include "dispatcher/load/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatcher/load/brings.h"
#include "dispatcher/load/elf.h"
#include "dispatcher/load/libraries.h"
#include "dispatcher/load/plugin_check.h"
#include "dispatcher/load/trust.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

void plugin_record_free(const host_memory *memory, plugin_record *record) {
  host_free(memory, record->path);
  host_free(memory, record->origin);
  host_free(memory, record->reason);
  host_free(memory, record->warnings);
  host_free(memory, record->brings);
  host_free(memory, record);
}

static tn_status refuse_errno(const char *what, int error) {
  char text[128];
  return fail(REFUSED, "%s: %s", what, strerror_r(error, text, sizeof text));
}

/* ----------------------------------------------------------------- one file --- */

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static file_identity identify(const struct stat *s) {
  return (file_identity){(uint64_t)s->st_dev, (uint64_t)s->st_ino, (uint64_t)s->st_size,
                         nanoseconds(s->st_mtim), nanoseconds(s->st_ctim)};
}

bool file_is_same(const file_identity *a, const file_identity *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

int file_open(const char *path, file_identity *file) {
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  if (fstat(fd, &s)) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  *file = identify(&s);
  return fd;
}

/* Whether both the path and the descriptor are the file, as it was. */
static bool leads_to(const char *path, int fd, const file_identity *file) {
  struct stat s;
  file_identity found;
  if (stat(path, &s)) return false;
  found = identify(&s);
  if (!file_is_same(&found, file) || fstat(fd, &s)) return false;
  found = identify(&s);
  return file_is_same(&found, file);
}

/* Copies `path` up to its last slash; the root stays "/". */
static void folder_of(const char *path, char folder[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  size_t length = slash > path ? (size_t)(slash - path) : 1;
  memcpy(folder, path, length);
  folder[length] = '\0';
}

/* --------------------------------------------------------------- inspection --- */

static tn_status check_library(const char *name, const elf_dynamic *dynamic, const char *origin) {
  if (strchr(name, '/') && *name != '/')
    return fail(REFUSED, "needs %s, a path relative to the working folder", name);
  if (library_find(name, dynamic->runpath, origin) == LIBRARY_MISSING)
    return fail(REFUSED, "needs %s, not found", name);
  return TN_OK;
}

static tn_status check_libraries(const elf_file *elf, const char *path) {
  elf_dynamic dynamic;
  char name[256], origin[PATH_MAX];
  uint32_t at = 0;
  bool found;
  folder_of(path, origin);
  tn_status status = elf_open_dynamic(elf, &dynamic);
  while (!status) {
    status = elf_next_needed(elf, &dynamic, &at, name, &found);
    if (status || !found) break;
    status = check_library(name, &dynamic, origin);
  }
  return status;
}

/* A sanitizer's run time must be in the program from its start. */
static tn_status check_flavour(uint32_t flavour) {
  uint32_t lacking = flavour & ~TN_FLAVOUR;
  if (lacking == 0) return TN_OK;
  const char *name = lacking & TN_FLAVOUR_ASAN   ? "AddressSanitizer"
                     : lacking & TN_FLAVOUR_TSAN ? "ThreadSanitizer"
                     : lacking & TN_FLAVOUR_MSAN ? "MemorySanitizer"
                                                 : "a flavour unknown here";
  return fail(REFUSED, "built with %s, which this host is not", name);
}

static tn_status inspect_file(const char *path, int fd, tn_plugin_note *note) {
  struct stat s;
  elf_file elf;
  if (fstat(fd, &s)) return refuse_errno("cannot be read", errno);
  if (S_ISDIR(s.st_mode)) return fail(REFUSED, "is a folder, not a plugin (libtenon-*.so)");
  if (!S_ISREG(s.st_mode)) return fail(REFUSED, "is no regular file");
  tn_status status = trust_check(path, &s);
  if (!status) status = elf_open(fd, (uint64_t)s.st_size, &elf);
  if (!status) status = elf_read_note(&elf, note);
  if (!status)
    status = plugin_check_abi(note->abi_min, note->abi_max, TN_ABI_VERSION_MIN, TN_ABI_VERSION);
  if (!status) status = check_flavour(note->flavour);
  if (!status) status = check_libraries(&elf, path);
  return status;
}

tn_status loader_inspect(const char *path, file_identity *file, tn_plugin_note *note) {
  memset(note, 0, sizeof *note);
  memset(file, 0, sizeof *file);
  if (!path || *path != '/') return fail(REFUSED, "not an absolute path");
  if (strlen(path) >= PATH_MAX) return refuse_errno("cannot be opened", ENAMETOOLONG);
  int fd = file_open(path, file);
  if (fd < 0) return refuse_errno("cannot be opened", errno);
  tn_status status = inspect_file(path, fd, note);
  close(fd);
  return status;
}

tn_status loader_read_brings(const host_memory *memory, const char *path, const file_identity *file,
                             char **words) {
  char text[BRINGS_MAX];
  file_identity now;
  elf_file elf;
  bool found = false;
  *words = NULL;
  int fd = file_open(path, &now);
  if (fd < 0) return TN_OK;
  if (file_is_same(file, &now) && elf_open(fd, now.size, &elf) == TN_OK)
    found = elf_read_brings(&elf, text, sizeof text);
  close(fd);
  if (!found) return TN_OK;
  *words = host_strdup(memory, text);
  return *words ? TN_OK : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a plugin's record");
}

/* ------------------------------------------------------------------ opening --- */

/* dlerror's text, without the path that it begins with. */
static tn_status refuse_dlerror(const char *path) {
  const char *text = dlerror();
  size_t length = strlen(path);
  if (!text) return fail(REFUSED, "could not be loaded");
  if (strncmp(text, path, length) == 0 && strncmp(text + length, ": ", 2) == 0) text += length + 2;
  return fail(REFUSED, "could not be loaded: %s", text);
}

static tn_status refuse_replaced(void) {
  return fail(REFUSED, "its file was changed or replaced while it was loaded");
}

/* How many bytes at the beginning of the file ld.so maps as they are: headers, and behind
 * them, in a page, most often the build id. 0 for a file of another order. */
static size_t plain_head(int fd, uint64_t size, size_t most) {
  elf_file elf;
  if (elf_open(fd, size, &elf)) return 0;
  for (uint32_t i = 0; i < elf.num_segments; i++) {
    const Elf64_Phdr *s = &elf.segments[i];
    if (s->p_type != PT_LOAD) continue;
    if (s->p_offset != 0 || (s->p_flags & PF_W)) return 0;
    return s->p_filesz < most ? (size_t)s->p_filesz : most;
  }
  return 0;
}

/* Whether the library begins as the file does: a file may have been there while ld.so looked,
 * and be gone again. */
static bool is_mapped_from(void *library, int fd, uint64_t size) {
  enum { PAGE = 4096 };
  char head[PAGE];
  struct link_map *map;
  Dl_info at;
  size_t bytes = plain_head(fd, size, sizeof head);
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !dladdr(map->l_ld, &at)) return false;
  return pread(fd, head, bytes, 0) == (ssize_t)bytes && memcmp(head, at.dli_fbase, bytes) == 0;
}

/* A library that this process has is not loaded again, whatever has become of its file. */
static bool is_loaded(const char *path) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

static tn_status open_library(const char *path, int fd, const file_identity *file, void **library) {
  bool anew = !is_loaded(path);
  if (anew && !leads_to(path, fd, file)) return refuse_replaced();
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!*library) return refuse_dlerror(path);
  if (anew && (!leads_to(path, fd, file) || !is_mapped_from(*library, fd, file->size)))
    return refuse_replaced();
  return TN_OK;
}

static tn_status find_query(const char *path, const file_identity *file,
                            tn_plugin_query_fn *query) {
  file_identity now;
  void *library = NULL;
  int fd = file_open(path, &now);
  if (fd < 0) return refuse_errno("cannot be opened", errno);
  tn_status status = open_library(path, fd, file, &library);
  close(fd);
  if (status) return status;
  void *symbol = dlsym(library, TN_PLUGIN_QUERY);
  if (!symbol) return fail(REFUSED, "exports no " TN_PLUGIN_QUERY);
  memcpy(query, &symbol, sizeof *query);
  return TN_OK;
}

static tn_status ask(tn_plugin_query_fn query, const tn_host *host, const tn_plugin **plugin) {
  fail(TN_OK, "%s", ""); /* so that what stands there afterwards is the plugin's */
  *plugin = query(host);
  if (*plugin) return TN_OK;
  if (!*tn_last_error()) return fail(REFUSED, "declined, and gave no reason");
  fail_prefix("declined: ");
  return REFUSED;
}

/* Constructors and code linked with -ffast-math change the rounding mode or flush
 * denormals in the thread that loads them: both steps get the caller's floating-point
 * environment, and the caller gets it back. On x86 it includes MXCSR. */
tn_status loader_map(const char *path, const file_identity *file, tn_plugin_query_fn *query) {
  fenv_t environment;
  fegetenv(&environment);
  tn_status status = find_query(path, file, query);
  fesetenv(&environment);
  return status;
}

tn_status loader_ask(tn_plugin_query_fn query, const tn_host *host, const tn_plugin **plugin) {
  fenv_t environment;
  fegetenv(&environment);
  tn_status status = ask(query, host, plugin);
  fesetenv(&environment);
  return status;
}

tn_status loader_load(const char *path, const file_identity *file, const tn_plugin_note *note,
                      const tn_host *host, const tn_plugin **plugin) {
  const tn_plugin *table = NULL;
  tn_plugin_query_fn query = NULL;
  tn_status status = loader_map(path, file, &query);
  if (!status) status = loader_ask(query, host, &table);
  if (!status) status = plugin_check(table, note, host);
  if (!status) *plugin = table;
  return status;
}

tn_status loader_open(const char *path, const tn_host *host, const tn_plugin **plugin) {
  tn_plugin_note note;
  file_identity file;
  tn_status status = loader_inspect(path, &file, &note);
  if (!status) status = loader_load(path, &file, &note, host, plugin);
  return status;
}
