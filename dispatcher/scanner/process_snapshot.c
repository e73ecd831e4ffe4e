/*
 * The state of a process. Most of it is a table of numbers, each with the words for what it
 * stands for; limits, signals, the environment and descriptors can say which one it is.
 *
 * /proc may be missing, or out of reach after chroot(): what cannot be read reads as the same
 * number each time, and the root folder stands first among those that are compared.
 */
#include "dispatcher/scanner/process_snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "dispatcher/scanner/checksum.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --------------------------------------------------------------------- one number --- */

static uint64_t file_number(const char *path) {
  struct stat s;
  if (stat(path, &s)) return 0;
  uint64_t numbers[] = {(uint64_t)s.st_dev, (uint64_t)s.st_ino};
  return checksum(numbers, sizeof numbers);
}

static uint64_t read_root(void) { return file_number("/"); }
static uint64_t read_folder(void) { return file_number("."); }

static uint64_t read_umask(void) {
  mode_t mask = umask(0);
  (void)umask(mask);
  return mask;
}

static uint64_t read_users(void) {
  uid_t u[3] = {0};
  gid_t g[3] = {0};
  (void)getresuid(&u[0], &u[1], &u[2]);
  (void)getresgid(&g[0], &g[1], &g[2]);
  uint64_t numbers[] = {u[0], u[1], u[2], g[0], g[1], g[2]};
  return checksum(numbers, sizeof numbers);
}

static uint64_t read_session(void) { return (uint64_t)getsid(0); }
static uint64_t read_group(void) { return (uint64_t)getpgrp(); }
static uint64_t read_nice(void) { return (uint64_t)getpriority(PRIO_PROCESS, 0); }
static uint64_t read_scheduling(void) { return (uint64_t)sched_getscheduler(0); }
static uint64_t read_thread_locale(void) { return (uint64_t)(uintptr_t)uselocale((locale_t)0); }
static uint64_t read_personality(void) { return (uint64_t)personality(0xffffffff); }

/* Which of the three run; what they show changes by itself. */
static uint64_t read_interval_timers(void) {
  static const __itimer_which_t timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  uint64_t running = 0;
  for (size_t i = 0; i < COUNT(timers); i++) {
    struct itimerval t = {0};
    (void)getitimer(timers[i], &t);
    running = 2 * running + (t.it_value.tv_sec || t.it_value.tv_usec);
  }
  return running;
}

static uint64_t count_timers(void) {
  char line[256];
  uint64_t count = 0;
  FILE *file = fopen("/proc/self/timers", "re");
  while (file && fgets(line, sizeof line, file)) count += strncmp(line, "ID:", 3) == 0;
  if (file) fclose(file);
  return count;
}

static uint64_t read_attributes(void) {
  int death = 0, reaper = 0;
  (void)prctl(PR_GET_PDEATHSIG, &death);
  (void)prctl(PR_GET_CHILD_SUBREAPER, &reaper);
  int numbers[] = {death,
                   reaper,
                   prctl(PR_GET_DUMPABLE),
                   prctl(PR_GET_KEEPCAPS),
                   prctl(PR_GET_TIMERSLACK),
                   prctl(PR_GET_SECCOMP),
                   prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
                   prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0)};
  return checksum(numbers, sizeof numbers);
}

static uint64_t read_name(void) {
  char name[16] = "";
  (void)prctl(PR_GET_NAME, name);
  return checksum(name, strlen(name));
}

static uint64_t read_namespaces(void) {
  static const char *const names[] = {"mnt", "net", "ipc", "uts", "user", "cgroup"};
  uint64_t numbers[COUNT(names)];
  for (size_t i = 0; i < COUNT(names); i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
    numbers[i] = file_number(path);
  }
  return checksum(numbers, sizeof numbers);
}

/* How the kernel picks whom it ends when memory is short. */
static uint64_t read_standing(void) {
  char text[32] = "";
  FILE *file = fopen("/proc/self/oom_score_adj", "re");
  if (!file) return 0;
  (void)!fgets(text, sizeof text, file);
  fclose(file);
  return checksum(text, strlen(text));
}

static const struct number {
  const char *what;
  uint64_t (*read)(void);
} numbers[] = {
    {"the root folder", read_root},
    {"the working folder", read_folder},
    {"the umask", read_umask},
    {"the user or group", read_users},
    {"the session", read_session},
    {"the process group", read_group},
    {"the nice value", read_nice},
    {"the scheduling", read_scheduling},
    {"the interval timers (setitimer, alarm)", read_interval_timers},
    {"the timers (timer_create)", count_timers},
    {"the locale", read_thread_locale},
    {"the personality", read_personality},
    {"attributes (prctl)", read_attributes},
    {"the name", read_name},
    {"the namespaces", read_namespaces},
    {"the OOM score", read_standing},
};
_Static_assert(COUNT(numbers) <= STATE_NUMBERS, "room for every number");

/* --------------------------------------------------------------------- taking down --- */

static size_t count_threads(void) {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return 0;
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static descriptor describe(int fd) {
  struct stat s = {0};
  (void)fstat(fd, &s);
  return (descriptor){fd, fcntl(fd, F_GETFL), (uint64_t)s.st_dev, (uint64_t)s.st_ino};
}

static void list_descriptors(scan_state *state) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    int fd = (int)strtol(entry->d_name, NULL, 10);
    if (entry->d_name[0] == '.' || fd == dirfd(folder)) continue;
    if (state->num_descriptors < STATE_DESCRIPTORS)
      state->descriptors[state->num_descriptors++] = describe(fd);
  }
  closedir(folder);
}

static char **copy_environment(void) {
  size_t count = 0;
  while (environ && environ[count]) count++;
  char **copy = calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) copy[i] = strdup(environ[i]);
  return copy;
}

void scan_state_take(scan_state *state) {
  cpu_set_t processors;
  memset(state, 0, sizeof *state);
  CPU_ZERO(&processors);
  for (size_t i = 0; i < COUNT(numbers); i++) state->numbers[i] = numbers[i].read();
  if (sched_getaffinity(0, sizeof processors, &processors) == 0)
    state->processors = checksum(&processors, sizeof processors);
  for (int i = 0; i < RLIM_NLIMITS; i++) (void)prlimit(0, i, NULL, &state->limits[i]);
  for (int i = 1; i < STATE_SIGNALS; i++) (void)sigaction(i, NULL, &state->actions[i]);
  (void)sigprocmask(SIG_SETMASK, NULL, &state->blocked);
  (void)sigaltstack(NULL, &state->stack);
  snprintf(state->locale, sizeof state->locale, "%s", setlocale(LC_ALL, NULL));
  state->environment = copy_environment();
  list_descriptors(state);
  state->num_threads = count_threads();
}

/* ----------------------------------------------------------------------- comparing --- */

static const char *find_number(const scan_state *a, const scan_state *b) {
  for (size_t i = 0; i < COUNT(numbers); i++)
    if (a->numbers[i] != b->numbers[i]) return numbers[i].what;
  return strcmp(a->locale, b->locale) != 0 ? "the locale" : NULL;
}

static const char *find_limit(const scan_state *a, const scan_state *b) {
  static const char *const names[] = {
      [RLIMIT_AS] = "AS",           [RLIMIT_CORE] = "CORE",     [RLIMIT_CPU] = "CPU",
      [RLIMIT_DATA] = "DATA",       [RLIMIT_FSIZE] = "FSIZE",   [RLIMIT_LOCKS] = "LOCKS",
      [RLIMIT_MEMLOCK] = "MEMLOCK", [RLIMIT_NICE] = "NICE",     [RLIMIT_MSGQUEUE] = "MSGQUEUE",
      [RLIMIT_NOFILE] = "NOFILE",   [RLIMIT_NPROC] = "NPROC",   [RLIMIT_RSS] = "RSS",
      [RLIMIT_RTPRIO] = "RTPRIO",   [RLIMIT_RTTIME] = "RTTIME", [RLIMIT_SIGPENDING] = "SIGPENDING",
      [RLIMIT_STACK] = "STACK"};
  for (size_t i = 0; i < COUNT(names); i++)
    if (a->limits[i].rlim_cur != b->limits[i].rlim_cur ||
        a->limits[i].rlim_max != b->limits[i].rlim_max)
      return names[i] ? names[i] : "?";
  return NULL;
}

static bool signals_differ(const scan_state *a, const scan_state *b) {
  for (int i = 1; i < STATE_SIGNALS; i++)
    if (a->actions[i].sa_handler != b->actions[i].sa_handler ||
        a->actions[i].sa_flags != b->actions[i].sa_flags ||
        sigismember(&a->blocked, i) != sigismember(&b->blocked, i))
      return true;
  return a->stack.ss_sp != b->stack.ss_sp || a->stack.ss_flags != b->stack.ss_flags;
}

static const char *find_missing(char *const *these, char *const *among) {
  for (; these && *these; these++) {
    char *const *other = among;
    while (other && *other && strcmp(*these, *other) != 0) other++;
    if (!other || !*other) return *these;
  }
  return NULL;
}

/* A variable that is new, gone or other. */
static const char *find_variable(const scan_state *a, const scan_state *b) {
  const char *variable = find_missing(b->environment, a->environment);
  return variable ? variable : find_missing(a->environment, b->environment);
}

static const descriptor *find_descriptor(const scan_state *s, int fd) {
  for (size_t i = 0; i < s->num_descriptors; i++)
    if (s->descriptors[i].fd == fd) return &s->descriptors[i];
  return NULL;
}

/* What became of descriptors that were open before; NULL if nothing. */
static const char *find_meddling(const scan_state *before) {
  for (size_t i = 0; i < before->num_descriptors; i++) {
    const descriptor *was = &before->descriptors[i];
    if (fcntl(was->fd, F_GETFD) < 0) return "closed";
    descriptor is = describe(was->fd);
    if (is.device != was->device || is.inode != was->inode || is.flags != was->flags)
      return "changed";
  }
  return NULL;
}

/* The number of descriptors that are new, and the first of them. */
static size_t count_leaks(const scan_state *before, const scan_state *after, int *first) {
  size_t count = 0;
  for (size_t i = 0; i < after->num_descriptors; i++) {
    if (find_descriptor(before, after->descriptors[i].fd)) continue;
    if (count++ == 0) *first = after->descriptors[i].fd;
  }
  return count;
}

bool scan_state_find_harm(const scan_state *before, const scan_state *after, char *text,
                          size_t size) {
  const char *found;
  int first;
  *text = '\0';
  if ((found = find_number(before, after)))
    snprintf(text, size, "it changed %s of the process", found);
  else if (signals_differ(before, after))
    snprintf(text, size, "it changed how the process takes signals");
  else if ((found = find_limit(before, after)))
    snprintf(text, size, "it changed a limit of the process (RLIMIT_%s)", found);
  else if ((found = find_variable(before, after)))
    snprintf(text, size, "it changed the environment of the process (%.*s)",
             (int)strcspn(found, "="), found);
  else if ((found = find_meddling(before)))
    snprintf(text, size, "it %s descriptors that are not its own", found);
  else if (count_leaks(before, after, &first) > STATE_LEAKS)
    snprintf(text, size, "it left more than %d descriptors open", STATE_LEAKS);
  return *text != '\0';
}

static void describe_leak(int fd, size_t count, char *text, size_t size) {
  char link[64], target[256];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, target, sizeof target - 1);
  target[length > 0 ? length : 0] = '\0';
  snprintf(text, size, "loading it leaves %zu descriptor%s open: %s%s", count,
           count == 1 ? "" : "s", target, count == 1 ? "" : ", ...");
}

bool scan_state_find_oddity(const scan_state *before, const scan_state *after, char *text,
                            size_t size) {
  int first = -1;
  size_t leaks = count_leaks(before, after, &first);
  *text = '\0';
  if (leaks)
    describe_leak(first, leaks, text, size);
  else if (before->processors != after->processors)
    snprintf(text, size, "loading it changes on which processors the thread that loads it runs");
  return *text != '\0';
}
