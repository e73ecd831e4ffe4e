/*
 * Settings that are well-formed and come to nothing: entries of the plugin path that gave no
 * plugin, names of plugins that none found has. Malformed ones fail when they are read
 * (config.c); what these name may be there on the next machine, so they are warned of.
 */
#include <string.h>

#include "dispatcher/load/loader.h"
#include "dispatcher/plugins/plugins.h"

static bool is_taken(const tn_runtime *r, const char *name) {
  for (size_t i = 0; i < r->num_records; ++i)
    if ((r->records[i]->plugin || r->records[i]->state == PLUGIN_WAITING) &&
        strcmp(r->records[i]->name, name) == 0)
      return true;
  return false;
}

/* Whether the user said so, with the plugins that he wants or the one that he put first. */
static bool is_meant(const tn_runtime *r, const plugin_record *record) {
  return *record->name &&
         (!config_selects(r->config.plugins, record->name) || is_taken(r, record->name));
}

static bool is_entry(const char *path, const char *entry) {
  for (size_t length; *path; path += length + (path[length] == ':')) {
    length = strcspn(path, ":");
    if (strlen(entry) == length && memcmp(path, entry, length) == 0) return true;
  }
  return false;
}

/* What a folder holds is told in the report; what was named itself is told aloud, unless it
 * has been: when its code had run. */
static void warn_of_path(const tn_runtime *r) {
  for (size_t i = 0; r->config.plugin_path && i < r->num_records; ++i) {
    const plugin_record *record = r->records[i];
    if (!record->reason || record->loaded_in_vain || is_meant(r, record)) continue;
    if (strcmp(record->origin, r->config.plugin_path_from) == 0 &&
        is_entry(r->config.plugin_path, record->path))
      runtime_log(r, TN_LOG_WARN, "%s names %s: %s", record->origin, record->path, record->reason);
  }
}

static bool is_found(const tn_runtime *r, const char *glob) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (*r->records[i]->name && config_matches(glob, r->records[i]->name)) return true;
  return false;
}

/* An exclusion may be meant for other machines. */
static void warn_of_plugins(const tn_runtime *r) {
  char glob[CONFIG_MAX_GLOB + 1];
  for (const char *rest = r->config.plugins; config_next_glob(&rest, glob);)
    if (*glob != '-' && !is_found(r, glob))
      runtime_log(r, TN_LOG_WARN, "%s names '%s', and no plugin that can be read is called so",
                  r->config.plugins_from, glob);
}

void settings_warn(const tn_runtime *runtime) {
  warn_of_path(runtime);
  warn_of_plugins(runtime);
}
