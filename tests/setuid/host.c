/*
 * A host for setuid.sh, which starts a set-user-id copy of it as another user, with variables
 * that would all be felt if one of them were taken.
 *
 * usage: host MINE THEIRS: a plugin of the program's user, and one of the user who started it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "tenon/tenon.h"

enum { SKIPPED = 77 };

static int faults;
#define HOLDS(condition)                                                                           \
  do {                                                                                             \
    if (condition) break;                                                                          \
    printf("line %d: not so: %s (%s)\n", __LINE__, #condition, tn_last_error());                   \
    faults++;                                                                                      \
  } while (0)

static int told;

static void listen(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  told += strstr(line, "cannot be remembered: neither XDG_CACHE_HOME nor HOME is a path") != NULL;
}

static tn_plugin_info last_report(tn_runtime *runtime) {
  tn_plugin_info info = {.struct_size = sizeof info}, next = info;
  for (size_t i = 0; tn_plugin_report(runtime, i, &next) == TN_OK; i++) info = next;
  return info;
}

static tn_runtime *open_runtime(uint32_t log_level) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .log = listen, .log_level = log_level};
  tn_runtime *runtime = NULL;
  HOLDS(tn_runtime_open(&options, &runtime) == TN_OK);
  if (!runtime) exit(EXIT_FAILURE);
  return runtime;
}

/* Every variable of the environment is malformed, or names what is not there. */
static void takes_no_variable(void) {
  tn_runtime *runtime = open_runtime(0);
  tn_plugin_info info = {.struct_size = sizeof info};
  tn_device_info device = {.struct_size = sizeof device};
  HOLDS(tn_device_get_info(tn_runtime_device(runtime), &device) == TN_OK);
  HOLDS(strcmp(device.type, "reference") == 0);
  for (size_t i = 0; tn_plugin_report(runtime, i, &info) == TN_OK; i++)
    HOLDS(strcmp(info.origin, "TENON_PLUGIN_PATH") != 0);
  HOLDS(told == 0);
  tn_runtime_close(runtime);
}

/* It is the program's user that counts, and the scan is made each time. */
static void judges_by_the_effective_user(const char *mine, const char *theirs) {
  for (int i = 1; i <= 2; i++) {
    tn_runtime *runtime = open_runtime(TN_LOG_INFO + 1);
    HOLDS(tn_runtime_load_plugin(runtime, theirs) == TN_ERR_PLUGIN_REFUSED);
    HOLDS(strstr(tn_last_error(), "belongs to user") != NULL);
    HOLDS(tn_runtime_load_plugin(runtime, mine) == TN_OK);
    HOLDS(last_report(runtime).scan == TN_SCAN_MADE);
    HOLDS(told == i);
    tn_runtime_close(runtime);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return EXIT_FAILURE;
  if (!getauxval(AT_SECURE) || geteuid() == getuid()) {
    puts("set-user-id programs run as any other here (nosuid, no_new_privs)");
    return SKIPPED;
  }
  takes_no_variable();
  judges_by_the_effective_user(argv[1], argv[2]);
  return faults ? EXIT_FAILURE : EXIT_SUCCESS;
}
