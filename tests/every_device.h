/* Devices of every kind, for tests that must hold on each: host memory, host memory beside which
 * queues work, memory of its own with and without queues, memory known by handles, an address
 * space of its own; most compute by falling back. */
#ifndef TENON_TESTS_EVERY_DEVICE_H
#define TENON_TESTS_EVERY_DEVICE_H

#include "tests/support.h"

static const struct {
  const char *device, *plugin;
} every_device[] = {
    {"cpu,reference", LAZY_PLUGIN}, {"reference", LAZY_PLUGIN}, {"bare", LAZY_PLUGIN},
    {"still", LAZY_PLUGIN},         {"handle", LAZY_PLUGIN},    {"flat", LAZY_PLUGIN},
    {"unified", LAZY_PLUGIN},       {"sim", SIM_PLUGIN},        {"sim", TEMPLATE_PLUGIN},
};
enum { EVERY_DEVICE = sizeof every_device / sizeof *every_device };

/* pre: 0 <= i < EVERY_DEVICE. */
static inline tn_runtime *open_every(int i) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = every_device[i].plugin,
                                .device = every_device[i].device,
                                .fallback = TN_FALLBACK_ALLOW};
  return open_runtime(&options);
}

#endif
