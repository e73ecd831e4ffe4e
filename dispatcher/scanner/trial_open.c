/*
 * Lets a plugin do what `tenon info` would have it do: opens it, counts its devices, describes them
 * and opens the first of each type that the host could use. Drivers start here, and may change the
 * process as they like: all that is seen is whether it lives. What fails in good order is no
 * matter, for the host is told of that itself.
 *
 * The process is not the one that trial_load.c judges, and nothing is run at its end: drivers come
 * to harm there that no host can help.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "dispatcher/base/limits.h"
#include "dispatcher/load/plugin_check.h"
#include "dispatcher/scanner/trial_load.h"

/* The host opens no device that it could not describe. */
static bool is_usable(const tn_backend *b, void *context, uint32_t index) {
  tn_device_props props = {.struct_size = sizeof props};
  return !b->describe(&scan_host, context, index, &props) && !plugin_check_props(&props, b->flags);
}

static void open_device(const tn_backend *b, void *context, uint32_t index,
                        scan_progress *progress) {
  void *device = NULL;
  atomic_store(&progress->stage, SCAN_OPENING_DEVICE);
  if (b->open(&scan_host, context, index, &device) || !device) return;
  atomic_store(&progress->stage, SCAN_CLOSING_DEVICE);
  b->close(device);
}

static void try_backend(const tn_backend *b, void *context, scan_progress *progress) {
  uint32_t count = 0, usable = DEVICES_OF_TYPE_MAX;
  atomic_store(&progress->stage, SCAN_COUNTING);
  if (b->count(&scan_host, context, &count) || count > DEVICES_OF_TYPE_MAX) return;
  atomic_store(&progress->stage, SCAN_DESCRIBING);
  for (uint32_t i = 0; i < count; ++i)
    if (is_usable(b, context, i) && i < usable) usable = i;
  if (usable < count) open_device(b, context, usable, progress);
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
