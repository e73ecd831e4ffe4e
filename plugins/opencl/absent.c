/*
 * Why there is no OpenCL device. A platform that has none says no more than that, so what is
 * known to keep its devices away is looked at here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { NAMES_MAX = 400, FOLDER_MAX = 1024 };

static void platform_names(const cl_platform_id *platforms, cl_uint count, char *text) {
  size_t used = 0;
  text[0] = 0;
  for (cl_uint i = 0; i < count && used < NAMES_MAX - 1; i++) {
    char name[128] = "an unnamed one";
    if (clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL))
      name[0] = '?', name[1] = 0;
    name[sizeof name - 1] = 0;
    used += (size_t)snprintf(text + used, NAMES_MAX - used, "%s%s", i ? ", " : "", name);
  }
}

/* Whether the folder is there and can be written, or could be made. */
static bool can_be_used(const char *folder) {
  char path[FOLDER_MAX];
  if (strlen(folder) >= sizeof path) return false;
  strcpy(path, folder);
  while (access(path, F_OK) != 0) {
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    slash[slash == path] = 0; /* "/" stays */
  }
  char probe[FOLDER_MAX + 16]; /* permissions are not all: /proc takes no folder from anyone */
  (void)snprintf(probe, sizeof probe, "%s/.tenon-XXXXXX", path);
  if (access(path, W_OK | X_OK) != 0 || !mkdtemp(probe)) return false;
  (void)rmdir(probe);
  return true;
}

/* PoCL keeps what it compiles in a folder, and has no device where it cannot make that. */
static bool pocl_folder(char *folder) {
  const char *own = secure_getenv("POCL_CACHE_DIR"), *cache = secure_getenv("XDG_CACHE_HOME");
  const char *home = secure_getenv("HOME");
  int length = 0;
  if (own && *own)
    length = snprintf(folder, FOLDER_MAX, "%s", own);
  else if (cache && *cache)
    length = snprintf(folder, FOLDER_MAX, "%s/pocl", cache);
  else if (home && *home)
    length = snprintf(folder, FOLDER_MAX, "%s/.cache/pocl", home);
  return length > 0 && length < FOLDER_MAX;
}

void ocl_say_why_none(const tn_host *host, const cl_platform_id *platforms, cl_uint count,
                      uint32_t passed_over) {
  char names[NAMES_MAX], folder[FOLDER_MAX];
  if (count == 0) {
    (void)host->fail(TN_ERR_UNSUPPORTED, "no OpenCL platform (is a driver installed?)");
    return;
  }
  platform_names(platforms, count, names);
  bool is_pocl = strstr(names, "Portable Computing Language") != NULL;
  if (passed_over)
    (void)host->fail(TN_ERR_UNSUPPORTED,
                     "platform %s: %u device%s passed over: less than OpenCL 1.2, without a "
                     "compiler, or not available",
                     names, (unsigned)passed_over, passed_over == 1 ? "" : "s");
  else if (is_pocl && pocl_folder(folder) && !can_be_used(folder))
    (void)host->fail(
        TN_ERR_UNSUPPORTED,
        "platform %s has no device: PoCL keeps what it compiles in %s, which cannot be "
        "written; POCL_CACHE_DIR names another folder",
        names, folder);
  else
    (void)host->fail(TN_ERR_UNSUPPORTED, "platform %s has no device", names);
}
