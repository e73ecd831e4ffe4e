/* The records of candidates: a list that only grows, with texts that stay where they are. */
#include "dispatcher/plugins/records.h"

#include <string.h>

#include "dispatcher/plugins/plugins.h"

/* A text that was handed out and has been replaced since. */
typedef struct retired_text {
  struct retired_text *next;
  char *text;
} retired_text;

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a plugin's record");
}

tn_status record_make(const tn_runtime *r, const char *path, const char *origin,
                      plugin_record **out) {
  plugin_record *record = host_alloc(&r->memory, sizeof *record);
  if (!record) return no_memory();
  record->path = host_strdup(&r->memory, path);
  record->origin = host_strdup(&r->memory, origin);
  if (!record->path || !record->origin) {
    plugin_record_free(&r->memory, record);
    return no_memory();
  }
  *out = record;
  return TN_OK;
}

tn_status records_reserve(tn_runtime *r) {
  if (r->num_records < r->max_records) return TN_OK;
  size_t max = r->max_records ? 2 * r->max_records : 16;
  plugin_record **grown = host_alloc(&r->memory, max * sizeof *grown), **old = r->records;
  if (!grown) return no_memory();
  pthread_mutex_lock(&r->mutex);
  if (r->num_records) memcpy(grown, old, r->num_records * sizeof *grown);
  r->records = grown;
  r->max_records = max;
  pthread_mutex_unlock(&r->mutex);
  host_free(&r->memory, old);
  return TN_OK;
}

void record_list(tn_runtime *r, plugin_record *record) {
  pthread_mutex_lock(&r->mutex);
  r->records[r->num_records++] = record;
  pthread_mutex_unlock(&r->mutex);
}

plugin_record *record_find_path(const tn_runtime *r, const char *path) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->state != PLUGIN_TAKEN && strcmp(r->records[i]->path, path) == 0)
      return r->records[i];
  return NULL;
}

const plugin_record *record_find_taken(const tn_runtime *r, const char *name) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->plugin && strcmp(r->records[i]->name, name) == 0) return r->records[i];
  return NULL;
}

void record_set_state(tn_runtime *r, plugin_record *record, plugin_state state,
                      const tn_plugin *plugin) {
  pthread_mutex_lock(&r->mutex);
  record->state = state;
  record->plugin = plugin;
  pthread_mutex_unlock(&r->mutex);
}

tn_status record_set_text(tn_runtime *r, char **slot, const char *text) {
  if (*slot && strcmp(*slot, text) == 0) return TN_OK;
  retired_text *old = *slot ? host_alloc(&r->memory, sizeof *old) : NULL;
  char *copy = host_strdup(&r->memory, text);
  if (!copy || (*slot && !old)) {
    host_free(&r->memory, old);
    host_free(&r->memory, copy);
    return no_memory();
  }
  pthread_mutex_lock(&r->mutex);
  if (old) *old = (retired_text){r->retired, *slot}, r->retired = old;
  *slot = copy;
  pthread_mutex_unlock(&r->mutex);
  return TN_OK;
}

tn_status record_set_refused(tn_runtime *r, plugin_record *record) {
  tn_status status = record_set_text(r, &record->reason, tn_last_error());
  if (!status) record_set_state(r, record, PLUGIN_REFUSED, NULL);
  return status;
}

void plugins_free(tn_runtime *r) {
  for (size_t i = 0; i < r->num_records; ++i) plugin_record_free(&r->memory, r->records[i]);
  for (retired_text *t = r->retired, *next; t; t = next) {
    next = t->next;
    host_free(&r->memory, t->text);
    host_free(&r->memory, t);
  }
  host_free(&r->memory, r->records);
  r->records = NULL;
  r->retired = NULL;
  r->num_records = r->max_records = 0;
}
