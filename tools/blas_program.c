/*
 * tenon blas: becomes a program whose BLAS is libtenon-blas. The library is preloaded, which
 * reaches whatever BLAS the program is linked with; or it is found under BLAS's own names by the
 * search path of libraries, which leaves programs alone that have none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "help.h"
#include "tenon/tenon.h"

#define LIBRARY "libtenon-blas.so"

enum { EXIT_CANNOT_RUN = 126, EXIT_NO_PROGRAM = 127 };

typedef struct wishes {
  const char *device, *min, *host; /* as the variables, or NULL */
  bool report, verbose, by_path;
  char **program;
} wishes;

enum { OPTION_DEVICE = 256, OPTION_MIN, OPTION_HOST, OPTION_BY_PATH };

/* EXIT_OK to go on; otherwise the command is over, `*status` being its exit status. */
static bool read_wishes(int argc, char **argv, wishes *w, int *status) {
  static const struct option options[] = {{"device", required_argument, NULL, OPTION_DEVICE},
                                          {"min", required_argument, NULL, OPTION_MIN},
                                          {"host", required_argument, NULL, OPTION_HOST},
                                          {"by-path", no_argument, NULL, OPTION_BY_PATH},
                                          {"report", no_argument, NULL, 'r'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  *w = (wishes){.report = false};
  *status = EXIT_USAGE;
  for (int option; (option = getopt_long(argc, argv, "+rvh", options, NULL)) != -1;) {
    switch (option) {
    case OPTION_DEVICE:
      w->device = optarg;
      break;
    case OPTION_MIN:
      w->min = optarg;
      break;
    case OPTION_HOST:
      w->host = optarg;
      break;
    case OPTION_BY_PATH:
      w->by_path = true;
      break;
    case 'r':
      w->report = true;
      break;
    case 'v':
      w->verbose = true;
      break;
    case 'h':
      fputs(help_blas, stdout);
      *status = EXIT_OK;
      return false;
    default:
      fputs("tenon blas --help says what there is\n", stderr);
      return false;
    }
  }
  w->program = argv + optind;
  if (*w->program) return true;
  fputs("tenon blas: which program? usage: tenon blas [OPTIONS] -- PROGRAM [ARGUMENTS]\n", stderr);
  return false;
}

/* The folder of a file, then `below`; true if the library is there. */
static bool try_folder(const char *file, const char *below, char folder[PATH_MAX]) {
  char library[PATH_MAX];
  const char *slash = strrchr(file, '/');
  if (!slash) return false;
  int length = snprintf(folder, PATH_MAX, "%.*s%s", (int)(slash - file), file, below);
  if (length >= PATH_MAX) return false;
  length = snprintf(library, sizeof library, "%s/" LIBRARY, folder);
  return length < PATH_MAX && access(library, R_OK) == 0;
}

/* Beside libtenon when installed, beside this command in a build tree. */
static bool find_library(char folder[PATH_MAX]) {
  Dl_info libtenon;
  char own[PATH_MAX], real[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  if (length > 0) {
    own[length] = '\0';
    if (try_folder(own, "/blas", folder)) return true;
  }
  return dladdr(tn_version(), &libtenon) && realpath(libtenon.dli_fname, real) &&
         try_folder(real, "/tenon/blas", folder);
}

/* Puts a text before what a variable has; ':' between. */
static bool prepend(const char *name, const char *text) {
  const char *before = getenv(name);
  if (!before || !*before) return setenv(name, text, 1) == 0;
  size_t size = strlen(text) + strlen(before) + 2;
  char *both = malloc(size);
  if (!both) return false;
  snprintf(both, size, "%s:%s", text, before);
  bool set = setenv(name, both, 1) == 0;
  free(both);
  return set;
}

static bool set_if(const char *name, const char *value) {
  return !value || setenv(name, value, 1) == 0;
}

static bool set_variables(const wishes *w, const char *folder) {
  char library[PATH_MAX + sizeof LIBRARY];
  snprintf(library, sizeof library, "%s/" LIBRARY, folder);
  return (w->by_path ? prepend("LD_LIBRARY_PATH", folder) : prepend("LD_PRELOAD", library)) &&
         set_if("TENON_DEVICE", w->device) && set_if("TENON_BLAS_MIN", w->min) &&
         set_if("TENON_BLAS_HOST", w->host) &&
         set_if("TENON_BLAS_REPORT", w->report ? "1" : NULL) &&
         set_if("TENON_BLAS_VERBOSE", w->verbose ? "1" : NULL);
}

int command_blas(int argc, char **argv) {
  wishes w;
  int status;
  char folder[PATH_MAX];
  if (!read_wishes(argc, argv, &w, &status)) return status;
  if (!find_library(folder)) {
    fputs("tenon blas: " LIBRARY " is neither in tenon/blas beside libtenon nor beside this "
          "command\n",
          stderr);
    return EXIT_FAILED;
  }
  if (!set_variables(&w, folder)) {
    perror("tenon blas: the environment");
    return EXIT_FAILED;
  }
  execvp(*w.program, w.program);
  fprintf(stderr, "tenon blas: %s: %s\n", *w.program, strerror(errno));
  return errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
}
