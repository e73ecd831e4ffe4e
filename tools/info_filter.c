/*
 * tenon info --op, --device, --plugin: leaves out of a survey what was not asked for, so that
 * text and JSON show the same.
 */
#include <fnmatch.h>
#include <string.h>

#include "info.h"

static bool matches(const char *glob, const char *text) { return !glob || !fnmatch(glob, text, 0); }

/* A device is named as TENON_DEVICE names it: by its type or its identifier. */
static bool wants_device(const info_filter *f, const device_survey *d) {
  return matches(f->device, d->info.id) || matches(f->device, d->info.type);
}

static bool wants_service(const info_filter *f, const service *s) {
  bool of_plugin = !f->plugin;
  for (size_t k = 0; k < s->num_kernels && !of_plugin; ++k)
    of_plugin = matches(f->plugin, s->kernels[k].plugin);
  return of_plugin && matches(f->op, s->op);
}

static void filter_services(const info_filter *f, device_survey *d) {
  size_t kept = 0;
  for (size_t i = 0; i < d->num_services; ++i)
    if (wants_service(f, &d->services[i])) d->services[kept++] = d->services[i];
  d->num_services = kept;
}

/* A plugin's devices, and those that it has kernels for. */
static void filter_devices(const info_filter *f, survey *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->num_devices; ++i) {
    device_survey *d = &s->devices[i];
    filter_services(f, d);
    bool of_plugin = !f->plugin || d->num_services || matches(f->plugin, d->info.plugin);
    if (wants_device(f, d) && of_plugin && (!f->op || d->num_services))
      s->devices[kept++] = *d;
    else
      device_survey_free(d);
  }
  s->num_devices = kept;
}

/* Whether a device that is left has something of the plugin. */
static bool serves(const survey *s, const char *plugin) {
  for (size_t i = 0; i < s->num_devices; ++i) {
    const device_survey *d = &s->devices[i];
    if (strcmp(d->info.plugin, plugin) == 0) return true;
    for (size_t k = 0; k < d->num_services; ++k)
      for (size_t c = 0; c < d->services[k].num_kernels; ++c)
        if (strcmp(d->services[k].kernels[c].plugin, plugin) == 0) return true;
  }
  return false;
}

static void filter_plugins(const info_filter *f, survey *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->num_plugins; ++i) {
    const tn_plugin_info *p = &s->plugins[i];
    bool wanted = f->plugin ? matches(f->plugin, p->name) : serves(s, p->name);
    if (wanted) s->plugins[kept++] = *p;
  }
  s->num_plugins = kept;
  kept = 0;
  for (size_t i = 0; i < s->num_layers; ++i)
    if (f->plugin && matches(f->plugin, s->layers[i].plugin)) s->layers[kept++] = s->layers[i];
  s->num_layers = kept;
}

bool info_keep(const info_filter *f, survey *s) {
  if (!f->op && !f->device && !f->plugin) return true;
  filter_devices(f, s);
  filter_plugins(f, s);
  s->num_duplicates = 0;
  return s->num_devices || (f->plugin && !f->op && !f->device && s->num_plugins);
}
