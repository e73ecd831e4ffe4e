/* `tenon info --json`: names and units in the keys, members only ever added. */
#include <string.h>

#include "info.h"
#include "json.h"

static void write_plugin(json *j, const tn_plugin_info *p) {
  static const char *const scans[] = {"none", "remembered", "made"};
  json_open(j, NULL, '{');
  json_string(j, "name", p->name);
  json_bool(j, "taken", p->taken != 0);
  json_string(j, "path", p->path);
  json_string(j, "origin", p->origin);
  json_string(j, "reason", p->reason);
  json_string(j, "version", p->version);
  json_string(j, "description", p->description);
  json_number(j, "backends", p->num_backends);
  json_number(j, "kernels", p->num_kernels);
  json_number(j, "operators", p->num_operators);
  json_number(j, "layers", p->num_layers);
  json_string(j, "scan", scans[p->scan < 3 ? p->scan : 0]);
  json_number(j, "scan_us", p->scan_us);
  json_string(j, "warnings", p->warnings);
  json_close(j, '}');
}

static void write_duplicate(json *j, const tn_duplicate_library *d) {
  json_open(j, NULL, '{');
  json_string(j, "name", d->name);
  json_string(j, "first", d->first);
  json_string(j, "second", d->second);
  json_close(j, '}');
}

static void write_layer(json *j, const tn_layer_info *l) {
  json_open(j, NULL, '{');
  json_string(j, "name", l->name);
  json_string(j, "plugin", l->plugin);
  json_string(j, "description", l->description);
  json_bool(j, "on", l->place != 0);
  json_close(j, '}');
}

/* The words of a text, one string each. */
static void write_words(json *j, const char *name, const char *text) {
  json_open(j, name, '[');
  for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
    char word[256];
    size_t length = strcspn(text, " ");
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    json_string(j, NULL, word);
    text += length;
  }
  json_close(j, ']');
}

static void write_candidate(json *j, const tn_kernel_info *k) {
  json_open(j, NULL, '{');
  json_string(j, "kernel", k->name);
  json_string(j, "plugin", k->plugin);
  json_real(j, "priority", k->priority);
  json_bool(j, "some_calls", k->some_calls != 0);
  json_string(j, "note", k->note);
  json_close(j, '}');
}

static void write_service(json *j, const service *s) {
  json_open(j, NULL, '{');
  json_string(j, "operator", s->op);
  json_open(j, "dtypes", '[');
  for (tn_dtype t = TN_DTYPE_NONE; t < TN_DTYPE_SLOTS; ++t)
    if (s->dtypes & TN_SET(t)) json_string(j, NULL, tn_dtype_name(t));
  json_close(j, ']');
  json_string(j, "kernel", s->kernels[0].name);
  json_string(j, "plugin", s->kernels[0].plugin);
  json_open(j, "candidates", '[');
  for (size_t i = 0; i < s->num_kernels; ++i) write_candidate(j, &s->kernels[i]);
  json_close(j, ']');
  json_close(j, '}');
}

static void write_device(json *j, const device_survey *d, bool verbose) {
  json_open(j, NULL, '{');
  json_string(j, "id", d->info.id);
  json_string(j, "type", d->info.type);
  json_number(j, "index", (uint64_t)d->info.index);
  json_string(j, "name", d->info.name);
  json_string(j, "plugin", d->info.plugin);
  json_bool(j, "default", d->is_default);
  json_bool(j, "available", !d->info.unavailable[0]);
  json_string(j, "unavailable", d->info.unavailable);
  json_bool(j, "lost", d->info.lost != 0);
  json_bool(j, "host_memory", d->info.host_memory != 0);
  json_number(j, "memory_bytes", d->info.memory_bytes);
  json_number(j, "memory_free_bytes", d->info.memory_free_bytes);
  write_words(j, "features", d->info.features);
  json_number(j, "operators_served", d->num_served);
  json_open(j, "operators_by_plugin", '{');
  for (size_t i = 0; i < d->num_tallies; ++i)
    json_number(j, d->tallies[i].plugin, d->tallies[i].operators);
  json_close(j, '}');
  if (verbose) {
    json_open(j, "kernels", '[');
    for (size_t i = 0; i < d->num_services; ++i) write_service(j, &d->services[i]);
    json_close(j, ']');
  }
  json_close(j, '}');
}

void info_print_json(const survey *s, bool verbose) {
  json j = {.out = stdout};
  json_open(&j, NULL, '{');
  json_string(&j, "version", tn_version());
  json_number(&j, "operators", s->num_operators);
  json_open(&j, "plugins", '[');
  for (size_t i = 0; i < s->num_plugins; ++i) write_plugin(&j, &s->plugins[i]);
  json_close(&j, ']');
  json_open(&j, "duplicate_libraries", '[');
  for (size_t i = 0; i < s->num_duplicates; ++i) write_duplicate(&j, &s->duplicates[i]);
  json_close(&j, ']');
  json_open(&j, "layers", '[');
  for (size_t i = 0; i < s->num_layers; ++i) write_layer(&j, &s->layers[i]);
  json_close(&j, ']');
  json_open(&j, "devices", '[');
  for (size_t i = 0; i < s->num_devices; ++i) write_device(&j, &s->devices[i], verbose);
  json_close(&j, ']');
  json_close(&j, '}');
}
