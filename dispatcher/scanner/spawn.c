/*
 * Starts tenon-scan, which lies beside the plugins, and reads its report. The process is
 * spawned, never forked: the host may have threads. It leads a session of its own, so that
 * all of it can be killed, and holds nothing of the host's but the end of one pipe.
 *
 * The verdict comes through the pipe alone, and not from the exit status: a host may ignore
 * SIGCHLD, or wait for children that it did not make.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatcher/base/clock.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/scanner/scanner.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

/* What the scanner itself may take beyond the plugin's time, to start and to clean up. */
enum { MARGIN_MS = 5000 };

static int64_t now_ms(void) { return (int64_t)(clock_ns() / 1000000); }

static bool find_scanner(char path[PATH_MAX]) {
  char folder[PATH_MAX];
  static const char *const places[] = {"/tenon/tenon-scan", "/tenon-scan"};
  if (!loader_own_folder(folder)) folder[0] = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (snprintf(path, PATH_MAX, "%s%s", folder, places[i]) < PATH_MAX && access(path, X_OK) == 0)
      return true;
  return false;
}

static tn_status cannot_scan(const char *what, int error) {
  char text[128];
  return fail(REFUSED,
              "the scan could not be made: %s%s%s (TENON_SCAN=off loads plugins without one)", what,
              error ? ": " : "", error ? strerror_r(error, text, sizeof text) : "");
}

/* Most often of a program that ships the library and its plugins, and not what lies beside them. */
static tn_status no_scanner(void) {
  return fail(REFUSED,
              "the scan could not be made: there is no tenon-scan beside the library or in its "
              "folder tenon/. Put it there, or the plugin, which is not scanned then; or take "
              "plugins without a scan (TENON_SCAN=off, `scan` of the options)");
}

/* The pipe first: its end may be one of the descriptors that are put in place after it. */
static int fill_actions(posix_spawn_file_actions_t *actions, int end) {
  int error = posix_spawn_file_actions_adddup2(actions, end, SCAN_FD);
  if (!error) error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(actions, 0, 1);
  return error ? error : posix_spawn_file_actions_adddup2(actions, 0, 2);
}

static int fill_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
  if (error) return error;
  return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF);
}

/* The scanner finds libraries as this process does: by the same environment, which ld.so
 * has cleaned if the program is set-user-id, and those that are loaded here by their paths. */
static int start(const char *scanner, const scan_subject *subject, scan_libraries libraries,
                 int end, pid_t *process) {
  char timeout[16], file[128], path[PATH_MAX], program[PATH_MAX];
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  snprintf(timeout, sizeof timeout, "%u", subject->timeout_ms);
  scan_write_file(&subject->file, file);
  snprintf(path, sizeof path, "%s", subject->path);
  snprintf(program, sizeof program, "%s", scanner);
  char *arguments[5 + SCAN_LIBRARIES] = {program, path, timeout, file};
  char *library = libraries.paths;
  for (uint32_t i = 0; i < libraries.count; i++, library += strlen(library) + 1)
    arguments[4 + i] = library;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = fill_actions(&actions, end);
    if (!error) error = fill_attributes(&attributes);
    if (!error) error = posix_spawn(process, program, &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Reads up to `size` bytes before the deadline; the number read. */
static size_t read_until(int fd, void *buffer, size_t size, int64_t deadline) {
  size_t done = 0;
  while (done < size) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t left = deadline - now_ms();
    int ready = poll(&p, 1, left < 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && left > INT_MAX) continue;
    if (ready <= 0) break;
    ssize_t n = read(fd, (char *)buffer + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

/* Ends the scanner and what it may have left, and takes it off the list of children, unless
 * the host has been quicker. */
static void finish(pid_t process, bool answered) {
  if (!answered) (void)kill(-process, SIGKILL);
  while (waitpid(process, NULL, 0) < 0 && errno == EINTR) continue;
}

tn_status scan_spawn(const scan_subject *subject, const scan_libraries *libraries,
                     scan_report *report) {
  char scanner[PATH_MAX];
  int ends[2];
  pid_t process;
  if (!find_scanner(scanner)) return no_scanner();
  if (pipe2(ends, O_CLOEXEC)) return cannot_scan("no pipe", errno);
  int error = start(scanner, subject, *libraries, ends[1], &process);
  close(ends[1]);
  if (error) {
    close(ends[0]);
    return cannot_scan(scanner, error);
  }
  int64_t deadline = now_ms() + (int64_t)subject->timeout_ms * (1 + SCAN_DRIVER_TIMES) + MARGIN_MS;
  size_t bytes = read_until(ends[0], report, sizeof *report, deadline);
  bool answered = bytes == sizeof *report && report->magic == SCAN_MAGIC;
  finish(process, answered);
  close(ends[0]);
  if (!answered) return cannot_scan("tenon-scan ended without a report", 0);
  report->reason[sizeof report->reason - 1] = '\0';
  return report->verdict ? TN_OK : cannot_scan(report->reason, 0);
}
