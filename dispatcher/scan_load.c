/*
 * Loads one plugin as the dispatcher would, with its own code, and sees what that does to
 * the process: whether it lives, and whether its working folder, locale, signals and
 * descriptors are as before. The plugin's open and count are not called: they may start
 * drivers.
 */
#include "dispatcher/scan_load.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dispatcher/loader.h"
#include "dispatcher/plugin_check.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

/* ---------------------------------------------------------------- a small host --- */

static void host_log(const tn_host *host, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void host_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level, (void)format;
}

static void *service_alloc(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  if (align < sizeof(void *)) align = sizeof(void *);
  return host_memory_default.alloc(NULL, bytes ? bytes : 1, align);
}

static void service_free(const tn_host *host, void *ptr) {
  (void)host;
  host_free(&host_memory_default, ptr);
}

static tn_status run_here(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                          void *ctx) {
  (void)host, (void)grain;
  return n > 0 ? fn(ctx, 0, n) : TN_OK;
}

static const tn_host host = {.struct_size = sizeof host,
                             .abi_min = TN_ABI_VERSION_MIN,
                             .abi_max = TN_ABI_VERSION,
                             .num_threads = 1,
                             .version = TN_VERSION_STRING,
                             .fail = fail,
                             .log = host_log,
                             .alloc = service_alloc,
                             .free = service_free,
                             .parallel_for = run_here};

/* -------------------------------------------------------- the state of a process --- */

enum { SIGNALS = 65 };

typedef struct snapshot {
  dev_t device;
  ino_t inode;
  mode_t mask;
  char locale[256];
  struct sigaction actions[SIGNALS];
  sigset_t blocked;
  size_t threads;
  int canary[2]; /* a pipe that nobody but this file should write to, or close */
} snapshot;

static size_t count_threads(void) {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return 0;
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void take_snapshot(snapshot *s) {
  struct stat folder;
  memset(s, 0, sizeof *s);
  if (stat(".", &folder) == 0) s->device = folder.st_dev, s->inode = folder.st_ino;
  s->mask = umask(0);
  (void)umask(s->mask);
  snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
  for (int i = 1; i < SIGNALS; i++) (void)sigaction(i, NULL, &s->actions[i]);
  (void)sigprocmask(SIG_SETMASK, NULL, &s->blocked);
  s->threads = count_threads();
}

static bool signals_differ(const snapshot *a, const snapshot *b) {
  for (int i = 1; i < SIGNALS; i++)
    if (a->actions[i].sa_handler != b->actions[i].sa_handler ||
        a->actions[i].sa_flags != b->actions[i].sa_flags ||
        sigismember(&a->blocked, i) != sigismember(&b->blocked, i))
      return true;
  return false;
}

/* What the plugin changed that belongs to the program; NULL if nothing. */
static const char *find_change(const snapshot *before, const snapshot *after) {
  if (before->device != after->device || before->inode != after->inode)
    return "it changed the working folder of the process";
  if (before->mask != after->mask) return "it changed the umask of the process";
  if (strcmp(before->locale, after->locale) != 0) return "it changed the locale of the process";
  if (signals_differ(before, after)) return "it changed how the process takes signals";
  return NULL;
}

static const char *find_intrusion(const snapshot *before) {
  int written = 0;
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0) return "it closed descriptors that are not its own";
  if (fcntl(before->canary[1], F_GETFD) < 0 || ioctl(before->canary[0], FIONREAD, &written))
    return "it closed descriptors that are not its own";
  return written ? "it wrote to descriptors that are not its own" : NULL;
}

/* -------------------------------------------------------------------------- limits --- */

#define SANITIZED (TN_FLAVOUR != 0)

/* A quarter of the machine's memory, at most 4 GiB. */
static uint64_t memory_limit(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  uint64_t limit = pages > 0 && size > 0 ? (uint64_t)pages / 4 * (uint64_t)size : 0;
  return limit < (UINT64_C(4) << 30) && limit > (UINT64_C(256) << 20) ? limit : UINT64_C(4) << 30;
}

/* Lowers a limit; one that is lower already stays. */
static void limit_to(int resource, uint64_t value) {
  struct rlimit now;
  if (getrlimit(resource, &now)) return;
  if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > value) now.rlim_cur = value;
  (void)setrlimit(resource, &now);
}

/* Sanitizers map more than any sensible limit. */
static void set_limits(void) {
  limit_to(RLIMIT_CORE, 0);
  if (!SANITIZED) limit_to(RLIMIT_DATA, memory_limit());
}

static bool took_too_much(void) {
  struct rlimit limit;
  struct rusage used;
  if (SANITIZED || getrlimit(RLIMIT_DATA, &limit) || getrusage(RUSAGE_SELF, &used)) return false;
  return (uint64_t)used.ru_maxrss * 1024 > limit.rlim_cur / 2;
}

/* ------------------------------------------------------------------------- loading --- */

static tn_status load(const char *path, const file_identity *file, char *const *libraries,
                      scan_progress *progress) {
  tn_plugin_note note;
  file_identity found;
  tn_plugin_query_fn query;
  const tn_plugin *plugin;
  atomic_store(&progress->stage, SCAN_LOADING);
  for (; *libraries; libraries++) /* one that fails is told of when the plugin asks for it */
    (void)dlopen(*libraries, RTLD_LAZY | RTLD_LOCAL);
  tn_status status = loader_inspect(path, &found, &note);
  if (!status && !file_is_same(&found, file))
    status = fail(REFUSED, "its file was changed or replaced before it could be scanned");
  if (!status) status = loader_map(path, file, &query);
  if (status) return status;
  atomic_store(&progress->stage, SCAN_QUERYING);
  status = loader_ask(query, &host, &plugin);
  if (status) return status;
  atomic_store(&progress->stage, SCAN_CHECKING);
  return plugin_check(plugin, &note, &host);
}

/* A thread that the plugin started may be about to crash: it gets a moment to do so. */
static void watch_threads(const snapshot *before, const snapshot *after) {
  if (after->threads > before->threads) nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void conclude(scan_progress *progress, scan_verdict verdict, const char *reason) {
  snprintf(progress->reason, sizeof progress->reason, "%s", reason);
  atomic_store(&progress->verdict, verdict);
  atomic_store(&progress->stage, SCAN_ENDING);
}

void scan_load(const char *path, const file_identity *file, char *const *libraries,
               scan_progress *progress) {
  snapshot before, after;
  set_limits();
  take_snapshot(&before);
  if (pipe2(before.canary, O_CLOEXEC | O_NONBLOCK)) _exit(1);
  tn_status status = load(path, file, libraries, progress);
  take_snapshot(&after);
  watch_threads(&before, &after);
  const char *harm = find_change(&before, &after);
  if (!harm) harm = find_intrusion(&before);
  if (!harm && took_too_much()) harm = "it took more memory than a plugin may need";
  if (harm)
    conclude(progress, SCAN_HARMFUL, harm);
  else if (status)
    conclude(progress, SCAN_DECLINED, tn_last_error());
  else
    conclude(progress, SCAN_SOUND, "");
  exit(0); /* not _exit: destructors of the plugin run at the end of a host, too */
}
