/*
 * tenon-scan PLUGIN TIMEOUT_MS FILE [LIBRARY...]: loads a plugin in a process of its own, behind
 * libraries that it will ask for, watches it, and writes one scan_report to descriptor 3. FILE
 * says which file PLUGIN has to be (scan_write_file). Started by libtenon alone (spawn.c).
 *
 * This process never touches the plugin. It is the one that all descendants of the loading
 * process fall back to, so that it can end every one of them before it reports.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dispatcher/base/clock.h"
#include "dispatcher/scanner/trial_load.h"

/* Under sanitizers a fault must stay a fault, leaks of a plugin are no verdict, and the end
 * of the process must not wait. */
#define SANITIZERS_OWN __attribute__((visibility("default")))
SANITIZERS_OWN const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}
SANITIZERS_OWN const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
         "atexit_sleep_ms=0:report_thread_leaks=0";
}
SANITIZERS_OWN int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

static int64_t now_ms(void) { return (int64_t)(clock_ns() / 1000000); }

/* ----------------------------------------------------------------------- the report --- */

static scan_report report = {.magic = SCAN_MAGIC};

static void say(scan_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(scan_verdict verdict, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(report.reason, sizeof report.reason, format, args);
  va_end(args);
  report.verdict = verdict;
  for (char *c = report.reason; *c; c++)
    if ((unsigned char)*c < ' ') *c = ' '; /* one line, whatever the plugin said */
}

/* Less than PIPE_BUF: one write is all of it. */
static _Noreturn void send_report(void) {
  ssize_t written = write(SCAN_FD, &report, sizeof report);
  _exit(written == (ssize_t)sizeof report ? 0 : 1);
}

static _Noreturn void give_up(const char *what) {
  char text[128];
  snprintf(report.reason, sizeof report.reason, "tenon-scan: %s: %s", what,
           strerror_r(errno, text, sizeof text));
  send_report();
}

/* ------------------------------------------------------------------ the descendants --- */

/* Kills each process that has become a child of this one. */
static void kill_children(void) {
  char text[4096];
  snprintf(text, sizeof text, "/proc/self/task/%ld/children", (long)getpid());
  int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  char *end = text;
  for (long child; (child = strtol(end, &end, 10)) > 0;) (void)kill((pid_t)child, SIGKILL);
}

/* Ends whatever is left, for half a second at the most: what sleeps in the kernel cannot be
 * ended sooner. The number of processes that were not the loading one. */
static int end_all(pid_t loading) {
  int64_t deadline = now_ms() + 500;
  int others = 0;
  for (;;) {
    pid_t ended = waitpid(-1, NULL, WNOHANG);
    others += ended > 0 && ended != loading;
    if (ended > 0 || (ended < 0 && errno == EINTR)) continue;
    if (ended < 0 || now_ms() >= deadline) return others;
    kill_children();
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}

/* Waits for the loading process; false when the time is over. The other end of the report's
 * pipe closes when the host is gone: then all is in vain. */
static bool wait_for(pid_t loading, int signals, uint32_t timeout_ms, int *status) {
  int64_t deadline = now_ms() + timeout_ms;
  for (;;) {
    struct signalfd_siginfo info;
    pid_t ended = waitpid(loading, status, WNOHANG);
    if (ended == loading) return true;
    int64_t left = deadline - now_ms();
    if (left <= 0 || ended < 0) return false;
    struct pollfd p[2] = {{.fd = signals, .events = POLLIN}, {.fd = SCAN_FD}};
    (void)poll(p, 2, left < INT_MAX ? (int)left : INT_MAX);
    if (p[0].revents & POLLIN) (void)!read(signals, &info, sizeof info);
    if (p[1].revents & (POLLERR | POLLHUP)) {
      (void)end_all(loading);
      _exit(1);
    }
  }
}

/* ---------------------------------------------------------------------- the verdict --- */

static const char *stage_name(uint32_t stage) {
  static const char *const names[] = {
      [SCAN_STARTING] = "before it was loaded",
      [SCAN_LOADING] = "while it was loaded (its constructors)",
      [SCAN_QUERYING] = "in tn_plugin_query",
      [SCAN_CHECKING] = "while its tables were read",
      [SCAN_ENDING] = "at the end of the process (its destructors)",
      [SCAN_OPENING] = "in its open function",
      [SCAN_COUNTING] = "while it looked for devices (its count)",
      [SCAN_DESCRIBING] = "while it described its devices (its describe)",
      [SCAN_OPENING_DEVICE] = "while it opened a device (its backend's open)",
      [SCAN_CLOSING_DEVICE] = "while it closed a device (its backend's close)",
      [SCAN_CLOSING] = "in its close function",
  };
  return stage < sizeof names / sizeof *names ? names[stage] : "?";
}

/* What a fault in the plugin itself raises. Other signals may come from anywhere: from the
 * kernel when memory is short, from limits, from people. */
static bool is_fault(int number) {
  return number == SIGSEGV || number == SIGABRT || number == SIGILL || number == SIGFPE ||
         number == SIGTRAP || number == SIGSYS;
}

static void judge_end(const scan_progress *progress, int status) {
  uint32_t stage = atomic_load(&progress->stage);
  const char *where = stage_name(stage);
  if (WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    const char *name = sigabbrev_np(number);
    say(is_fault(number) ? SCAN_HARMFUL : SCAN_HINDERED, "killed by signal %d (SIG%s) %s", number,
        name ? name : "?", where);
  } else if (stage != SCAN_ENDING) {
    say(SCAN_HARMFUL, "called exit(%d) %s", WEXITSTATUS(status), where);
  } else if (WEXITSTATUS(status) != 0) {
    say(SCAN_HARMFUL, "ended the process with exit code %d %s", WEXITSTATUS(status), where);
  } else {
    say((scan_verdict)atomic_load(&progress->verdict), "%.*s", (int)sizeof progress->reason - 1,
        progress->reason);
  }
}

/* One line of /proc about a process; "" if there is none. */
static void read_proc(pid_t process, const char *name, char text[512]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/%s", (long)process, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd < 0 ? 0 : read(fd, text, 511);
  if (fd >= 0) close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
}

/* Whether the machine kept the process from its work: half of the time and more it waited for a
 * processor, or it is just waiting for a disk or a server. */
static bool was_kept(pid_t loading, uint32_t timeout_ms) {
  char text[512];
  unsigned long long ran_ns, waited_ns;
  read_proc(loading, "schedstat", text);
  if (sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2 && waited_ns / 1000000 >= timeout_ms / 2)
    return true;
  read_proc(loading, "stat", text);
  const char *name_end = strrchr(text, ')');
  return name_end && strncmp(name_end, ") D", 3) == 0;
}

static void judge_time(const scan_progress *progress, pid_t loading, uint32_t timeout_ms) {
  const char *where = stage_name(atomic_load(&progress->stage));
  bool kept = was_kept(loading, timeout_ms);
  scan_verdict verdict = kept ? SCAN_HINDERED : SCAN_HARMFUL;
  uint32_t shown = timeout_ms % 1000 ? timeout_ms : timeout_ms / 1000;
  say(verdict, "did not finish within %u %s %s%s", shown, timeout_ms % 1000 ? "ms" : "s", where,
      kept ? ", on a machine that is busy" : "");
}

/* ------------------------------------------------------------------------ two roads --- */

typedef struct subject {
  const char *path;
  uint32_t timeout_ms;
  file_identity file;
  char *const *libraries;
} subject;

/* What the process that may come to harm is for. */
typedef void trial(const char *path, const file_identity *file, char *const *libraries,
                   scan_progress *progress);

/* The loading process holds neither the pipe of the report nor a signal's disposition of
 * this one, and does not outlive it. */
static _Noreturn void become_loader(const subject *s, pid_t parent, int signals,
                                    scan_progress *progress, trial *run) {
  sigset_t none;
  sigemptyset(&none);
  close(SCAN_FD);
  close(signals);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  (void)signal(SIGPIPE, SIG_DFL);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  run(s->path, &s->file, s->libraries, progress);
  _exit(1);
}

/* The loading process stays in this one's group: a leader of its own could not call setsid(), as
 * most hosts can, and that must be seen. So signals to the group come here as well, and are
 * blocked but for the one that is waited for. */
static int watch_children(void) {
  sigset_t child, all;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigfillset(&all);
  if (sigprocmask(SIG_SETMASK, &all, NULL)) return -1;
  return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Descriptors that the host left open across exec are not the plugin's to have. */
static void close_others(void) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, SCAN_FD + 1, ~0u, 0) == 0) return;
#endif
  for (int fd = SCAN_FD + 1; fd < 1024; fd++) (void)close(fd);
}

/* Any number of 32 bits is a time. */
static bool read_arguments(int argc, char **argv, subject *s) {
  char *end = NULL;
  if (argc < 4 || fcntl(SCAN_FD, F_GETFD) < 0) return false;
  unsigned long long timeout = strtoull(argv[2], &end, 10);
  *s = (subject){.path = argv[1], .timeout_ms = (uint32_t)timeout, .libraries = argv + 4};
  return *end == '\0' && timeout > 0 && timeout <= UINT32_MAX && scan_read_file(argv[3], &s->file);
}

static pid_t start(const subject *s, int signals, scan_progress *progress, trial *run) {
  pid_t parent = getpid(), loading = fork();
  if (loading < 0) give_up("fork");
  if (loading == 0) become_loader(s, parent, signals, progress, run);
  return loading;
}

static void try_loading(const subject *s, int signals, scan_progress *progress) {
  int status = 0;
  pid_t loading = start(s, signals, progress, scan_load);
  if (wait_for(loading, signals, s->timeout_ms, &status))
    judge_end(progress, status);
  else
    judge_time(progress, loading, s->timeout_ms);
  if (end_all(loading) && report.verdict == SCAN_SOUND)
    say(SCAN_HARMFUL, "it left processes behind");
}

/* A driver that is broken today may be mended tomorrow, and the plugin's file stays as it is: that
 * it came to harm there is not remembered for long. */
static void try_opening(const subject *s, int signals, scan_progress *progress) {
  int status = 0;
  uint32_t most = UINT32_MAX / SCAN_DRIVER_TIMES;
  uint32_t timeout_ms = (s->timeout_ms < most ? s->timeout_ms : most) * SCAN_DRIVER_TIMES;
  const scan_report sound = report;
  atomic_store(&progress->stage, SCAN_STARTING);
  pid_t loading = start(s, signals, progress, scan_open);
  if (!wait_for(loading, signals, timeout_ms, &status))
    judge_time(progress, loading, timeout_ms);
  else if (atomic_load(&progress->stage) == SCAN_OPENED && status == 0)
    report = sound;
  else
    judge_end(progress, status);
  (void)end_all(loading); /* what a driver starts beside itself is its own */
  if (report.verdict == SCAN_HARMFUL) report.verdict = SCAN_FELLED;
}

int main(int argc, char **argv) {
  subject s;
  if (!read_arguments(argc, argv, &s)) {
    fputs("tenon-scan is started by libtenon, not by people\n", stderr);
    return 2;
  }
  close_others();
  (void)signal(SIGPIPE, SIG_IGN);
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
  int signals = watch_children();
  if (signals < 0) give_up("signalfd");
  scan_progress *progress =
      mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (progress == MAP_FAILED) give_up("mmap");
  try_loading(&s, signals, progress);
  if (report.verdict == SCAN_SOUND) try_opening(&s, signals, progress);
  send_report();
}
