/*
 * The runtime under test. A runtime does not survive fork(), and Check may run each test
 * in a child: every process opens its own, and the list of devices is made in a child
 * too, so that a parent of forked tests never starts a vendor's driver.
 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static tn_runtime *runtime;
static pid_t runtime_owner;

tn_runtime *session_runtime(void) {
  if (runtime && runtime_owner == getpid()) return runtime;
  tn_runtime_options options = {.struct_size = sizeof options, .fallback = TN_FALLBACK_ERROR};
  if (tn_runtime_open(&options, &runtime) != TN_OK) {
    fprintf(stderr, "no runtime: %s\n", tn_last_error());
    exit(1);
  }
  runtime_owner = getpid();
  return runtime;
}

void session_close(void) {
  if (runtime && runtime_owner == getpid()) tn_runtime_close(runtime);
  runtime = NULL;
}

tn_device *session_device(const char *id) {
  tn_device *device = NULL;
  return tn_device_find(session_runtime(), id, &device) == TN_OK ? device : NULL;
}

const tn_operator *session_operator(uint32_t id) {
  tn_runtime *rt = session_runtime();
  for (size_t i = 0; i < tn_op_count(rt); i++)
    if (tn_op_at(rt, i)->id == id) return tn_op_at(rt, i);
  return NULL;
}

session_totals *session_shared(void) {
  static session_totals *shared;
  if (!shared) {
    void *memory =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    shared = memory;
  }
  return shared;
}

static bool listed(const test_device *list, size_t count, const char *type) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(list[i].type, type)) return true;
  return false;
}

static bool wanted(const char *type) {
  const char *only = getenv("TENON_TEST_DEVICE");
  return only && *only ? !strcmp(type, only) : strcmp(type, "reference") != 0;
}

static size_t usable_devices(tn_runtime *rt, test_device *list) {
  size_t count = 0;
  for (size_t i = 0; i < tn_device_count(rt) && count < TEST_DEVICES; i++) {
    tn_device_info info = {.struct_size = sizeof info};
    if (tn_device_get_info(tn_device_at(rt, i), &info) != TN_OK || !wanted(info.type)) continue;
    if (listed(list, count, info.type)) continue;
    if (*info.unavailable) {
      printf("skipped: no %s device (%s)\n", info.type, info.unavailable);
      continue;
    }
    snprintf(list[count].id, sizeof list->id, "%s", info.id);
    snprintf(list[count++].type, sizeof list->type, "%s", info.type);
  }
  return count;
}

static bool plugin_has_device(tn_runtime *rt, const char *plugin) {
  for (size_t i = 0; i < tn_device_count(rt); i++) {
    tn_device_info info = {.struct_size = sizeof info};
    if (tn_device_get_info(tn_device_at(rt, i), &info) == TN_OK && !strcmp(info.plugin, plugin))
      return true;
  }
  return false;
}

static void print_absent(tn_runtime *rt) {
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(rt, i, &info) == TN_OK; i++) {
    bool backend = !info.taken || info.num_backends;
    if (*info.name && backend && wanted(info.name) && !plugin_has_device(rt, info.name))
      printf("skipped: no %s device%s%s\n", info.name, *info.reason ? ": " : "", info.reason);
  }
  fflush(stdout);
}

static size_t look(test_device *list) {
  size_t count = usable_devices(session_runtime(), list);
  print_absent(session_runtime());
  return count;
}

typedef struct found {
  size_t count;
  test_device list[TEST_DEVICES];
} found;

static size_t look_in_child(test_device *list) {
  int ends[2];
  found f = {0};
  if (pipe(ends)) abort();
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    f.count = look(f.list);
    session_close();
    _exit(write(ends[1], &f, sizeof f) != sizeof f);
  }
  close(ends[1]);
  if (read(ends[0], &f, sizeof f) != sizeof f) f.count = 0;
  close(ends[0]);
  waitpid(child, NULL, 0);
  memcpy(list, f.list, sizeof f.list);
  return f.count;
}

size_t session_devices(test_device *list, bool forked) {
  return forked ? look_in_child(list) : look(list);
}
