/*
 * Loads one plugin as the dispatcher would, with its own code, and sees what that does to
 * the process: whether it lives, and whether it is as before (process_snapshot.c). The plugin's
 * open and count are called in a process of their own (trial_open.c): they may start drivers, which
 * do to a process what loading may not.
 */
#include "dispatcher/scanner/trial_load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "dispatcher/load/loader.h"
#include "dispatcher/load/plugin_check.h"
#include "dispatcher/scanner/process_snapshot.h"

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

/* No kernel is ever run. */
static void *no_context(const tn_host *host, const tn_kernel *kernel) {
  (void)host, (void)kernel;
  return NULL;
}

const tn_host scan_host = {.struct_size = sizeof scan_host,
                           .abi_min = TN_ABI_VERSION_MIN,
                           .abi_max = TN_ABI_VERSION,
                           .num_threads = 1,
                           .version = TN_VERSION_STRING,
                           .fail = fail,
                           .log = host_log,
                           .alloc = service_alloc,
                           .free = service_free,
                           .parallel_for = run_here,
                           .plugin_context = no_context};

/* ------------------------------------------------------------------- a canary --- */

/* A pipe that nobody but this file should write to, or close. */
static int canary[2];

static bool was_written_to(void) {
  int written = 0;
  return ioctl(canary[0], FIONREAD, &written) == 0 && written;
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

/* One that fails is told of when the plugin asks for it. */
void scan_load_libraries(char *const *libraries) {
  for (; *libraries; libraries++) (void)dlopen(*libraries, RTLD_LAZY | RTLD_LOCAL);
}

tn_status scan_load_plugin(const char *path, const file_identity *file, scan_progress *progress,
                           const tn_plugin **plugin) {
  tn_plugin_note note;
  file_identity found;
  tn_plugin_query_fn query;
  tn_status status = loader_inspect(path, &found, &note);
  if (!status && !file_is_same(&found, file))
    status = fail(REFUSED, "its file was changed or replaced before it could be scanned");
  if (!status) status = loader_map(path, file, &query);
  if (status) return status;
  atomic_store(&progress->stage, SCAN_QUERYING);
  status = loader_ask(query, &scan_host, plugin);
  if (status) return status;
  atomic_store(&progress->stage, SCAN_CHECKING);
  status = plugin_check(*plugin, &note, &scan_host);
  if (!status) status = plugin_read_all(*plugin);
  return status;
}

/* A thread that the plugin started may be about to crash: it gets a moment to do so. */
static void watch_threads(const scan_state *before, const scan_state *after) {
  if (after->num_threads > before->num_threads) nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void conclude(scan_progress *progress, scan_verdict verdict, const char *reason) {
  snprintf(progress->reason, sizeof progress->reason, "%s", reason);
  atomic_store(&progress->verdict, verdict);
  atomic_store(&progress->stage, SCAN_ENDING);
}

/* Harm comes first: a plugin that declines may have done some before. */
static void judge(const scan_state *before, tn_status status, scan_progress *progress) {
  static scan_state after;
  char text[sizeof progress->reason];
  scan_state_take(&after);
  watch_threads(before, &after);
  if (scan_state_find_harm(before, &after, text, sizeof text))
    conclude(progress, SCAN_HARMFUL, text);
  else if (was_written_to())
    conclude(progress, SCAN_HARMFUL, "it wrote to descriptors that are not its own");
  else if (took_too_much())
    conclude(progress, SCAN_HARMFUL, "it took more memory than a plugin may need");
  else if (status)
    conclude(progress, SCAN_DECLINED, tn_last_error());
  else if (scan_state_find_oddity(before, &after, text, sizeof text))
    conclude(progress, SCAN_SOUND, text);
  else
    conclude(progress, SCAN_SOUND, "");
}

void scan_load(const char *path, const file_identity *file, char *const *libraries,
               scan_progress *progress) {
  static scan_state before;
  const tn_plugin *plugin;
  set_limits();
  if (pipe2(canary, O_CLOEXEC | O_NONBLOCK)) _exit(1);
  atomic_store(&progress->stage, SCAN_LOADING);
  scan_load_libraries(libraries); /* what they change the host has behind it */
  scan_state_take(&before);
  judge(&before, scan_load_plugin(path, file, progress, &plugin), progress);
  exit(0); /* not _exit: destructors of the plugin run at the end of a host, too */
}
