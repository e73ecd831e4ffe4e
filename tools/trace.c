/*
 * tenon trace: runs a program with the layer trace on, waits for it and says where the trace
 * is, in one file however many processes the program becomes (trace_parts.c). The program's exit
 * status is this command's; one that dies of a signal takes the command with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "help.h"
#include "trace_parts.h"

enum { EXIT_CANNOT_RUN = 126, EXIT_NO_PROGRAM = 127 };

typedef struct wishes {
  const char *file;         /* NULL: tenon-trace-PID.json in this folder */
  const char *summary;      /* "-": standard error; NULL: none */
  const char *layers;       /* further ones, or NULL */
  const char *limit, *keep; /* as the variables, or NULL */
  char **program;
} wishes;

/* --- options --- */

enum { OPTION_SUMMARY = 256, OPTION_NO_SUMMARY, OPTION_LAYERS, OPTION_LIMIT, OPTION_KEEP };

/* EXIT_OK to go on; otherwise the command is over, `*status` being its exit status. */
static bool read_wishes(int argc, char **argv, wishes *w, int *status) {
  static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                          {"summary", optional_argument, NULL, OPTION_SUMMARY},
                                          {"no-summary", no_argument, NULL, OPTION_NO_SUMMARY},
                                          {"layers", required_argument, NULL, OPTION_LAYERS},
                                          {"limit", required_argument, NULL, OPTION_LIMIT},
                                          {"keep", required_argument, NULL, OPTION_KEEP},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  *w = (wishes){.summary = "-"};
  *status = EXIT_USAGE;
  for (int option; (option = getopt_long(argc, argv, "+o:h", options, NULL)) != -1;) {
    switch (option) {
    case 'o':
      w->file = optarg;
      break;
    case OPTION_SUMMARY:
      w->summary = optarg ? optarg : "-";
      break;
    case OPTION_NO_SUMMARY:
      w->summary = NULL;
      break;
    case OPTION_LAYERS:
      w->layers = optarg;
      break;
    case OPTION_LIMIT:
      w->limit = optarg;
      break;
    case OPTION_KEEP:
      w->keep = optarg;
      break;
    case 'h':
      fputs(help_trace, stdout);
      *status = EXIT_OK;
      return false;
    default:
      fputs("tenon trace --help says what there is\n", stderr);
      return false;
    }
  }
  w->program = argv + optind;
  if (*w->program) return true;
  fputs("tenon trace: which program? usage: tenon trace [OPTIONS] -- PROGRAM [ARGUMENTS]\n",
        stderr);
  return false;
}

/* --- the environment of the program --- */

/* False with errno. */
static bool make_absolute(const char *path, char *absolute, size_t size) {
  char folder[PATH_MAX] = "";
  if (*path != '/' && !getcwd(folder, sizeof folder)) return false;
  int length = snprintf(absolute, size, "%s%s%s", folder, *folder ? "/" : "", path);
  if (length > 0 && (size_t)length < size) return true;
  errno = ENAMETOOLONG;
  return false;
}

static bool has_name(const char *names, const char *name) {
  size_t length = strlen(name);
  for (; names && *names; names += strcspn(names, ","), names += *names == ',')
    if (strcspn(names, ",") == length && strncmp(names, name, length) == 0) return true;
  return false;
}

/* "trace", the layers asked for, and those that were on already. */
static bool set_layers(const char *more) {
  const char *before = getenv("TENON_LAYERS");
  size_t size = 16 + (more ? strlen(more) : 0) + (before ? strlen(before) : 0);
  char *names = malloc(size);
  if (!names) return false;
  bool there = has_name(before, "trace") || has_name(more, "trace");
  snprintf(names, size, "%s%s%s%s%s", there ? "" : "trace", more && !there ? "," : "",
           more ? more : "", before && *before && (more || !there) ? "," : "",
           before ? before : "");
  bool set = setenv("TENON_LAYERS", names, 1) == 0;
  free(names);
  return set;
}

static bool set_limit(const wishes *w) {
  if (w->limit && setenv("TENON_TRACE_LIMIT", w->limit, 1)) return false;
  return !w->keep || setenv("TENON_TRACE_KEEP", w->keep, 1) == 0;
}

static bool set_variables(const wishes *w, const trace_parts *parts) {
  char file[PATH_MAX], table[PATH_MAX] = "-";
  if (!parts_variable(parts, file, sizeof file)) return false;
  if (!set_layers(w->layers) || setenv("TENON_TRACE_FILE", file, 1)) return false;
  if (!set_limit(w)) return false;
  if (!w->summary) return unsetenv("TENON_TRACE_SUMMARY") == 0;
  if (strcmp(w->summary, "-") != 0 && !make_absolute(w->summary, table, sizeof table)) return false;
  return setenv("TENON_TRACE_SUMMARY", table, 1) == 0;
}

/* --- running it --- */

static volatile sig_atomic_t running;

/* What a person types reaches the program too; what another process sends to this one is
 * passed on. */
static void pass_on(int number, siginfo_t *info, void *context) {
  (void)context;
  if (running && info->si_code <= 0) kill(running, number);
}

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { NUM_PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* What is ignored stays so, for the program inherits it. */
static void watch_signals(void) {
  struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
  for (int i = 0; i < NUM_PASSED_ON; ++i)
    if (!sigaction(passed_on[i], NULL, &before) && before.sa_handler != SIG_IGN)
      sigaction(passed_on[i], &action, NULL);
}

/* Becomes the program, or says why not through the pipe. */
static void become(const wishes *w, const trace_parts *parts, int answer) {
  if (set_variables(w, parts)) execvp(*w->program, w->program);
  int why = errno;
  (void)!write(answer, &why, sizeof why);
  _exit(EXIT_NO_PROGRAM);
}

/* 0 or the errno for which the program does not run. */
static int start(const wishes *w, const trace_parts *parts, pid_t *child) {
  int pipes[2], why = 0;
  if (pipe2(pipes, O_CLOEXEC)) return errno;
  *child = fork();
  if (*child == 0) become(w, parts, pipes[1]);
  if (*child < 0) why = errno;
  close(pipes[1]);
  if (!why && read(pipes[0], &why, sizeof why) == sizeof why) (void)waitpid(*child, NULL, 0);
  close(pipes[0]);
  return why;
}

static int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  running = 0;
  return status;
}

/* --- afterwards --- */

/* False where the trace could not be written. */
static bool report(const wishes *w, const trace_parts *parts, pid_t child) {
  int count = parts_gather(parts, child);
  if (count == 0)
    fprintf(stderr,
            "tenon trace: %s wrote no trace: it opened no runtime of Tenon, or could not (a "
            "program that sets its own layers or plugins decides for itself)\n",
            *w->program);
  return count >= 0;
}

/* Ends as the program did; its core is enough. */
static int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  int number = WTERMSIG(status);
  fprintf(stderr, "tenon trace: the program died: %s\n", strsignal(number));
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  signal(number, SIG_DFL);
  raise(number);
  return 128 + number;
}

int command_trace(int argc, char **argv) {
  wishes w;
  trace_parts parts;
  int status;
  pid_t child = -1;
  if (!read_wishes(argc, argv, &w, &status)) return status;
  if (!parts_open(&parts, w.file)) {
    fprintf(stderr, "tenon trace: cannot write %s: %s\n", w.file ? w.file : "into this folder",
            strerror(errno));
    return EXIT_FAILED;
  }
  watch_signals();
  int why = start(&w, &parts, &child);
  if (why) {
    fprintf(stderr, "tenon trace: cannot run %s: %s\n", *w.program, strerror(why));
    parts_drop(&parts);
    return why == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  running = child;
  status = wait_for(child);
  bool written = report(&w, &parts, child);
  return status || written ? end_like(status) : EXIT_FAILED;
}
