/*
 * Finding the host BLAS: the one that the program would have had without this library, else
 * OpenBLAS. Never this library again, under whatever name it is installed: each candidate is asked
 * for a symbol that only it has.
 */
#include "host.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "routines.h"
#include "settings.h"

/* How copies of this library know each other. */
BLAS_EXPORT extern const char tenon_blas_version[];
const char tenon_blas_version[] = TENON_VERSION;

static char path[PATH_MAX] = "?";

const char *host_path(void) { return path; }

static char why_not[1024]; /* of the last candidate */

/* A library that has BLAS and is not this one, or NULL. `name`: as dlopen takes it. */
static void *open_other(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why_not, sizeof why_not, "%s", dlerror());
    return NULL;
  }
  bool self = dlsym(library, "tenon_blas_version");
  if (!self && dlsym(library, "dgemm_")) return library;
  snprintf(why_not, sizeof why_not, self ? "it is this library itself" : "it has no dgemm_");
  dlclose(library);
  return NULL;
}

/* The next BLAS in the order of the dynamic linker: there is one where this library was
 * preloaded. */
static void *next_in_process(void) {
  Dl_info where;
  void *dgemm = dlsym(RTLD_NEXT, "dgemm_");
  return dgemm && dladdr(dgemm, &where) ? open_other(where.dli_fname) : NULL;
}

/* libblas.so.3 in the C library's folder, where distributions put it: to be found when the search
 * path leads here under that name. */
static void *beside_libc(void) {
  Dl_info where;
  char name[PATH_MAX];
  if (!dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &where)) return NULL;
  const char *slash = strrchr(where.dli_fname, '/');
  if (!slash) return NULL;
  snprintf(name, sizeof name, "%.*s/libblas.so.3", (int)(slash - where.dli_fname), where.dli_fname);
  return open_other(name);
}

static void *find_host(void) {
  static const char *const others[] = {"libopenblas.so.0", "libblis.so.4", "libatlas.so.3"};
  void *library = next_in_process();
  if (!library) library = open_other("libblas.so.3");
  if (!library) library = beside_libc();
  for (size_t i = 0; !library && i < sizeof others / sizeof *others; ++i)
    library = open_other(others[i]);
  return library;
}

static void no_host(void) {
  if (settings.host)
    fprintf(stderr, "tenon-blas: TENON_BLAS_HOST is %s, which cannot be the host BLAS: %s\n",
            settings.host, why_not);
  else
    fputs("tenon-blas: no BLAS found beside this one; install OpenBLAS (Debian: libopenblas0), or "
          "name one with TENON_BLAS_HOST\n",
          stderr);
  exit(127);
}

/* What a host BLAS lacks is missed when it is called. */
static void lacking(void) {
  fprintf(stderr, "tenon-blas: the program calls a routine that %s does not have\n", path);
  abort();
}

static void take_routines(void *library) {
  Dl_info where;
  for (int i = 0; i < NUM_ROUTINES; ++i) {
    void *symbol = dlsym(library, routine_names[i]);
    /* An address of a function, which C will not have cast from one of data. */
    memcpy(&hosts[i], &symbol, sizeof hosts[i]);
    if (!symbol) hosts[i] = lacking;
  }
  if (dladdr(dlsym(library, "dgemm_"), &where) && where.dli_fname)
    if (!realpath(where.dli_fname, path)) snprintf(path, sizeof path, "%s", where.dli_fname);
}

void *host_open(void) {
  void *library = settings.host ? open_other(settings.host) : find_host();
  if (!library) no_host();
  take_routines(library);
  say(2, "the host BLAS is %s", path);
  return library;
}
