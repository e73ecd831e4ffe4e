/*
 * One plugin from path to table: whose file it is, what the file says of itself, then
 * dlopen and the query. Nothing of the plugin runs before the first two are settled.
 *
 * The checks keep out accidents and other users' files. They are no wall against a
 * hostile plugin: what is loaded is native code in this process.
 */
#include "dispatcher/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatcher/elf.h"
#include "dispatcher/libraries.h"
#include "dispatcher/plugin_check.h"
#include "dispatcher/trust.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

void plugin_record_free(const host_memory *memory, plugin_record *record) {
  host_free(memory, record->path);
  host_free(memory, record->origin);
  host_free(memory, record->reason);
  host_free(memory, record);
}

static tn_status refuse_errno(const char *what, int error) {
  char text[128];
  return fail(REFUSED, "%s: %s", what, strerror_r(error, text, sizeof text));
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
  return status ? status : check_libraries(&elf, path);
}

tn_status loader_inspect(const char *path, tn_plugin_note *note) {
  memset(note, 0, sizeof *note);
  if (!path || *path != '/') return fail(REFUSED, "not an absolute path");
  if (strlen(path) >= PATH_MAX) return refuse_errno("cannot be opened", ENAMETOOLONG);
  /* O_NONBLOCK: opening a pipe must not wait for its writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return refuse_errno("cannot be opened", errno);
  tn_status status = inspect_file(path, fd, note);
  close(fd);
  return status;
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

static tn_status find_query(const char *path, tn_plugin_query_fn *query) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return refuse_dlerror(path);
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
tn_status loader_map(const char *path, tn_plugin_query_fn *query) {
  fenv_t environment;
  fegetenv(&environment);
  tn_status status = find_query(path, query);
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

tn_status loader_load(const char *path, const tn_plugin_note *note, const tn_host *host,
                      const tn_plugin **plugin) {
  const tn_plugin *table = NULL;
  tn_plugin_query_fn query = NULL;
  tn_status status = loader_map(path, &query);
  if (!status) status = loader_ask(query, host, &table);
  if (!status) status = plugin_check(table, note, host);
  if (!status) *plugin = table;
  return status;
}

tn_status loader_open(const char *path, const tn_host *host, const tn_plugin **plugin) {
  tn_plugin_note note;
  tn_status status = loader_inspect(path, &note);
  return status ? status : loader_load(path, &note, host, plugin);
}
