/*
 * Verdicts of the scan as files, one per plugin, in $XDG_CACHE_HOME/tenon/scan or
 * ~/.cache/tenon/scan. A file is text: what it is about, the verdict, the reason, and a
 * sum over these, so that a file that was cut or damaged counts as none. Files come into
 * being by rename, so that readers see a whole one.
 *
 * A sound plugin is sound until its file changes. That one is harmful holds also for the
 * circumstances under which it was found: a process with less memory, or with other libraries in
 * its search path, must not spoil the plugin for the rest. Harm with a driver holds for an hour,
 * and not beyond the next start of the machine.
 *
 * The folder must be the user's own and closed to others. Set-user-id programs have none:
 * secure_getenv gives them no path.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dispatcher/scanner/checksum.h"
#include "dispatcher/scanner/scanner.h"
#include "tenon/plugin.h"

enum { TEXT_BYTES = PATH_MAX + 2048, NAME_BYTES = 40 };

/* ------------------------------------------------------------------ the folder --- */

static bool cannot(char why[256], const char *what, const char *path) {
  char text[80];
  snprintf(why, 256, "%.100s %s: %s", path, what, strerror_r(errno, text, sizeof text));
  return false;
}

static bool folder_path(char path[PATH_MAX], char why[256]) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *below = "";
  if (!cache || *cache != '/') cache = secure_getenv("HOME"), below = "/.cache";
  if (!cache || *cache != '/') {
    snprintf(why, 256, "neither XDG_CACHE_HOME nor HOME is a path");
    return false;
  }
  return snprintf(path, PATH_MAX, "%s%s/tenon/scan", cache, below) < PATH_MAX;
}

/* Makes the folder and those above it that do not exist. */
static void make_folders(char *path) {
  for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
  (void)mkdir(path, 0700);
}

/* The open folder, -1 if there is none that can be trusted. */
static int open_folder(bool make, char why[256]) {
  char path[PATH_MAX];
  struct stat s;
  if (!folder_path(path, why)) return -1;
  if (make) make_folders(path);
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return cannot(why, "cannot be opened", path), -1;
  if (fstat(folder, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH)))
    return folder;
  snprintf(why, 256, "%.150s is not this user's alone", path);
  close(folder);
  return -1;
}

/* --------------------------------------------------------------------- the text --- */

/* What a verdict is about, one line each; the path comes last for it may hold anything. */
static int write_subject(const scan_subject *s, char *text, size_t size) {
  return snprintf(text, size,
                  "tenon-scan %u\nversion %s abi %u flavour %u\nfile %" PRIu64 ":%" PRIu64
                  " %" PRIu64 " %" PRId64 " %" PRId64 "\nbuild %s\ntimeout %u\npath %s\n",
                  SCAN_VERSION, TN_VERSION_STRING, TN_ABI_VERSION, TN_FLAVOUR, s->file.device,
                  s->file.inode, s->file.size, s->file.mtime_ns, s->file.ctime_ns, s->build_id,
                  s->timeout_ms, s->path);
}

static void file_name(const scan_subject *s, char name[NAME_BYTES]) {
  snprintf(name, NAME_BYTES, "%016" PRIx64, checksum(s->path, strlen(s->path)));
}

/* Sums up what decides, beside the file, how loading goes: the limits of this process, where
 * ld.so looks for libraries, and what ldconfig found when it last looked. */
static uint64_t sum_of_circumstances(void) {
  struct {
    struct rlimit limits[RLIM_NLIMITS];
    uint64_t library_path, preload;
    int64_t cache_s, cache_ns;
  } all;
  struct stat cache;
  const char *library_path = secure_getenv("LD_LIBRARY_PATH"),
             *preload = secure_getenv("LD_PRELOAD");
  memset(&all, 0, sizeof all);
  for (int i = 0; i < RLIM_NLIMITS; i++) (void)prlimit(0, i, NULL, &all.limits[i]);
  if (library_path) all.library_path = checksum(library_path, strlen(library_path));
  if (preload) all.preload = checksum(preload, strlen(preload));
  if (stat("/etc/ld.so.cache", &cache) == 0)
    all.cache_s = cache.st_mtim.tv_sec, all.cache_ns = cache.st_mtim.tv_nsec;
  return checksum((const char *)&all, sizeof all);
}

/* "" where it cannot be read. */
static void read_boot_id(char id[64]) {
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd < 0 ? 0 : read(fd, id, 63);
  if (fd >= 0) close(fd);
  id[bytes > 0 ? bytes : 0] = '\0';
  id[strcspn(id, "\n")] = '\0';
}

/* Seconds since the machine started, asleep or not: nobody sets this clock. */
static int64_t now_s(void) {
  struct timespec t;
  return clock_gettime(CLOCK_BOOTTIME, &t) ? 0 : t.tv_sec;
}

/* Whether it was found within the hour, as far as that can be told. */
static bool is_recent(const scan_report *r) {
  char boot[64];
  int64_t now = now_s();
  read_boot_id(boot);
  return *boot && r->found_s <= now && now - r->found_s < SCAN_FELLED_S;
}

static int write_text(const scan_subject *s, const scan_report *r, char text[TEXT_BYTES]) {
  int used = write_subject(s, text, TEXT_BYTES);
  uint64_t circumstances = r->verdict == SCAN_SOUND ? 0 : sum_of_circumstances();
  used += snprintf(text + used, TEXT_BYTES - (size_t)used, "verdict %u %016" PRIx64 " %s\n",
                   r->verdict, circumstances, r->reason);
  if (r->verdict == SCAN_FELLED) {
    char boot[64];
    read_boot_id(boot);
    used += snprintf(text + used, TEXT_BYTES - (size_t)used, "boot %s\nfound %" PRId64 "\n", boot,
                     r->found_s);
  }
  uint64_t sum = checksum(text, (size_t)used);
  return used + snprintf(text + used, TEXT_BYTES - (size_t)used, "sum %016" PRIx64 "\n", sum);
}

static size_t read_text(const char *name, char text[TEXT_BYTES]) {
  char why[256];
  int folder = open_folder(false, why);
  if (folder < 0) return 0;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  close(folder);
  if (fd < 0) return 0;
  ssize_t bytes = read(fd, text, TEXT_BYTES - 1);
  close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  return bytes > 0 ? (size_t)bytes : 0;
}

/* Takes the verdict from behind the subject's lines; false unless the text is what
 * write_text would make of it here and now. */
static bool parse_verdict(const scan_subject *subject, const char *text, size_t bytes, size_t at,
                          scan_report *report) {
  char again[TEXT_BYTES];
  enum { DIGIT = 8, REASON = 27 }; /* "verdict 2 0123456789abcdef why" */
  const char *line = text + at;
  if (strncmp(line, "verdict ", DIGIT) != 0 || strnlen(line, REASON) < REASON) return false;
  size_t length = strcspn(line + REASON, "\n");
  if (length >= sizeof report->reason) return false;
  *report = (scan_report){.magic = SCAN_MAGIC, .verdict = (uint32_t)(line[DIGIT] - '0')};
  memcpy(report->reason, line + REASON, length);
  if (report->verdict == SCAN_FELLED) {
    const char *found = strstr(line + REASON + length, "\nfound ");
    if (!found || sscanf(found, "\nfound %" SCNd64, &report->found_s) != 1) return false;
    if (!is_recent(report)) return false;
  } else if (report->verdict != SCAN_SOUND && report->verdict != SCAN_HARMFUL) {
    return false;
  }
  int used = write_text(subject, report, again);
  return (size_t)used == bytes && memcmp(again, text, bytes) == 0;
}

bool scan_recall(const scan_subject *subject, scan_report *report) {
  char name[NAME_BYTES], text[TEXT_BYTES], expected[TEXT_BYTES];
  file_name(subject, name);
  size_t bytes = read_text(name, text);
  size_t known = (size_t)write_subject(subject, expected, sizeof expected);
  if (bytes <= known || memcmp(text, expected, known) != 0) return false;
  return parse_verdict(subject, text, bytes, known, report);
}

/* ------------------------------------------------------------------- remembering --- */

static bool write_all(int fd, const char *bytes, size_t count) {
  while (count) {
    ssize_t n = write(fd, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    count -= (size_t)n;
  }
  return true;
}

/* A name that no other thread of the machine writes to at the same time. */
static void temporary_name(char name[NAME_BYTES]) {
  snprintf(name, NAME_BYTES, ".%ld", (long)gettid());
}

static bool replace(int folder, const char *name, const char *text, size_t bytes) {
  char temporary[NAME_BYTES];
  temporary_name(temporary);
  int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool written = write_all(fd, text, bytes);
  if (close(fd)) written = false;
  if (written && renameat(folder, temporary, folder, name) == 0) return true;
  int error = errno;
  (void)unlinkat(folder, temporary, 0);
  errno = error;
  return false;
}

bool scan_remember(const scan_subject *subject, scan_report *report, char why[256]) {
  char name[NAME_BYTES], text[TEXT_BYTES];
  if (report->verdict == SCAN_FELLED) report->found_s = now_s();
  int folder = open_folder(true, why);
  if (folder < 0) return false;
  file_name(subject, name);
  int bytes = write_text(subject, report, text);
  bool done = replace(folder, name, text, (size_t)bytes);
  if (!done) cannot(why, "cannot be written", name);
  close(folder);
  return done;
}
