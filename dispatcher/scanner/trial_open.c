/*
 * Lets a plugin do what `tenon info` would have it do: opens it, counts its devices, describes them
 * and opens the first of each type. Drivers start here, and may change the process as they like:
 * all that is seen is whether it lives. What fails in good order is no matter, for the host is told
 * of that itself.
 *
 * The process is not the one that trial_load.c judges, and nothing is run at its end: drivers come
 * to harm there that no host can help.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "dispatcher/base/limits.h"
#include "dispatcher/scanner/trial_load.h"

static void open_device(const tn_backend *b, void *context, scan_progress *progress) {
  void *device = NULL;
  atomic_store(&progress->stage, SCAN_OPENING_DEVICE);
  if (b->open(&scan_host, context, 0, &device) || !device) return;
  atomic_store(&progress->stage, SCAN_CLOSING_DEVICE);
  b->close(device);
}

static void try_backend(const tn_backend *b, void *context, scan_progress *progress) {
  uint32_t count = 0;
  atomic_store(&progress->stage, SCAN_COUNTING);
  if (b->count(&scan_host, context, &count) || count > DEVICES_OF_TYPE_MAX) return;
  atomic_store(&progress->stage, SCAN_DESCRIBING);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device_props props = {.struct_size = sizeof props};
    (void)b->describe(&scan_host, context, i, &props);
  }
  if (count) open_device(b, context, progress);
}

static void try_plugin(const tn_plugin *plugin, scan_progress *progress) {
  void *context = NULL;
  atomic_store(&progress->stage, SCAN_OPENING);
  if (plugin->open && plugin->open(&scan_host, &context)) return;
  for (uint32_t i = 0; i < plugin->num_backends; ++i)
    try_backend(plugin->backends[i], context, progress);
  atomic_store(&progress->stage, SCAN_CLOSING);
  if (plugin->close) plugin->close(context);
}

void scan_open(const char *path, const file_identity *file, char *const *libraries,
               scan_progress *progress) {
  const tn_plugin *plugin;
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  atomic_store(&progress->stage, SCAN_LOADING);
  scan_load_libraries(libraries);
  if (!scan_load_plugin(path, file, progress, &plugin)) try_plugin(plugin, progress);
  atomic_store(&progress->stage, SCAN_OPENED);
  _exit(0);
}
