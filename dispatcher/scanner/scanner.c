/*
 * Whether a plugin is to be scanned, and what its verdict means for it.
 */
#include "dispatcher/scanner/scanner.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatcher/base/clock.h"
#include "dispatcher/load/elf.h"
#include "dispatcher/load/loader.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

static bool is_own(const char *path) {
  char folder[PATH_MAX];
  if (!loader_own_folder(folder)) return false;
  size_t length = strlen(folder);
  if (strncmp(path, folder, length) != 0 || path[length] != '/') return false;
  const char *rest = path + length + 1;
  if (strncmp(rest, "tenon/", 6) == 0) rest += 6;
  return !strchr(rest, '/');
}

bool scan_is_own(const char *path) {
  char resolved[PATH_MAX];
  return realpath(path, resolved) && is_own(resolved);
}

static void read_build_id(int fd, uint64_t size, char text[129]) {
  uint8_t id[64];
  elf_file elf;
  size_t bytes = elf_open(fd, size, &elf) ? 0 : elf_read_build_id(&elf, id, sizeof id);
  for (size_t i = 0; i < bytes; i++) {
    text[2 * i] = "0123456789abcdef"[id[i] >> 4];
    text[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
  }
  text[2 * bytes] = '\0';
}

static tn_status look_at(const char *path, scan_subject *subject) {
  if (!realpath(path, subject->path)) return fail(REFUSED, "its path cannot be resolved");
  int fd = file_open(subject->path, &subject->file);
  if (fd < 0) return fail(REFUSED, "it went away before it could be scanned");
  read_build_id(fd, subject->file.size, subject->build_id);
  close(fd);
  return TN_OK;
}

/* A plugin may rewrite its own file while it is loaded: the verdict is of what was there. */
static tn_status check_unchanged(const char *path, const scan_subject *before) {
  scan_subject after;
  if (!look_at(path, &after) && file_is_same(&before->file, &after.file) &&
      strcmp(before->path, after.path) == 0)
    return TN_OK;
  return fail(REFUSED, "refused by the scan: its file changed or went away while it was scanned");
}

static void add_library(scan_libraries *libraries, const char *name) {
  struct link_map *map = NULL;
  void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return;
  size_t bytes = 0;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) bytes = strlen(map->l_name) + 1;
  if (bytes > 1 && *map->l_name == '/' && bytes <= sizeof libraries->paths - libraries->used) {
    memcpy(libraries->paths + libraries->used, map->l_name, bytes);
    libraries->used += (uint32_t)bytes;
    libraries->count++;
  }
  dlclose(library);
}

static void list_libraries(const scan_subject *subject, scan_libraries *libraries) {
  elf_file elf;
  elf_dynamic dynamic;
  char name[256];
  bool found = true;
  libraries->count = libraries->used = 0;
  file_identity file;
  int fd = file_open(subject->path, &file);
  if (fd < 0) return;
  tn_status status = elf_open(fd, file.size, &elf);
  if (!status) status = elf_open_dynamic(&elf, &dynamic);
  for (uint32_t at = 0; !status && found && libraries->count < SCAN_LIBRARIES;) {
    status = elf_next_needed(&elf, &dynamic, &at, name, &found);
    if (!status && found) add_library(libraries, name);
  }
  close(fd);
}

/* What is refused in good order is not remembered: a library that is missing today may be
 * there tomorrow, and the file stays as it is. Nor is what may have been chance. */
static tn_status scan_anew(const char *path, const scan_subject *subject, scan_report *report,
                           char note[256]) {
  scan_libraries libraries;
  list_libraries(subject, &libraries);
  tn_status status = scan_spawn(subject, &libraries, report);
  if (!status) status = check_unchanged(path, subject);
  if (status || report->verdict == SCAN_DECLINED) return status;
  if (report->verdict == SCAN_HINDERED) {
    snprintf(note, 256, "it may have been chance");
    return TN_OK;
  }
  if (scan_remember(subject, report, note)) note[0] = '\0';
  return TN_OK;
}

static tn_status judge(const scan_report *report, bool known) {
  if (report->verdict == SCAN_SOUND) return TN_OK;
  if (report->verdict == SCAN_DECLINED) return fail(REFUSED, "%s", report->reason);
  bool for_a_time = known && report->verdict == SCAN_FELLED;
  return fail(REFUSED, "refused by the scan: %s%s", report->reason,
              for_a_time ? "; remembered for an hour; `tenon scan PLUGIN` tries again" : "");
}

tn_status scan_plugin(const config *settings, const char *path, const file_identity *file,
                      scan_result *result) {
  scan_subject subject = {.timeout_ms = settings->scan_timeout_ms};
  scan_report report;
  memset(result, 0, sizeof *result);
  if (settings->scan == TN_SCAN_OFF) return TN_OK;
  uint64_t begin = clock_ns();
  tn_status status = look_at(path, &subject);
  if (status || (settings->scan == TN_SCAN_DEFAULT && is_own(subject.path))) return status;
  if (!file_is_same(file, &subject.file))
    return fail(REFUSED, "its file was changed or replaced before it could be scanned");
  bool known = !settings->scan_anew && scan_recall(&subject, &report);
  result->outcome = known ? TN_SCAN_REMEMBERED : TN_SCAN_MADE;
  if (!known) status = scan_anew(path, &subject, &report, result->note);
  if (!known && !status && report.verdict == SCAN_SOUND)
    snprintf(result->warning, sizeof result->warning, "%s", report.reason);
  result->us = (uint32_t)((clock_ns() - begin) / 1000);
  if (!status) status = judge(&report, known);
  return status;
}
