/*
 * What is odd about plugins that were taken: operators and devices of theirs that were not,
 * kernels that serve nobody, a plugin of Tenon's own whose place one takes. None of it is an error,
 * and all of it may change with the next plugin that comes or goes, so it is found anew each time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/load/brings.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/plugins/records.h"
#include "dispatcher/scanner/scanner.h"

/* Names of one warning that are listed before it says that there are more, and lines of a plugin.
 */
enum { NAMES_MAX = 8, LINES_MAX = 32 };

/* One plugin's warnings, a line each. */
typedef struct report {
  const tn_runtime *runtime;
  const plugin_record *record;
  const plugin_entry *entry;
  tn_log_level level[LINES_MAX];
  size_t lines, used;
  char text[2048];
} report;

static void say(report *w, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(report *w, tn_log_level level, const char *format, ...) {
  va_list args;
  size_t room = sizeof w->text - w->used;
  if (room < 2 || w->lines == LINES_MAX) return;
  if (w->used) w->text[w->used++] = '\n', --room;
  va_start(args, format);
  int length = vsnprintf(w->text + w->used, room, format, args);
  va_end(args);
  w->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
  w->level[w->lines++] = level;
}

/* A list of names, each once. */
typedef struct names {
  const char *name[NAMES_MAX];
  size_t count; /* of different ones, as far as is known */
  char text[512];
} names;

static void names_add(names *n, const char *name) {
  for (size_t i = 0; i < n->count && i < NAMES_MAX; ++i)
    if (n->name[i] == name || strcmp(n->name[i], name) == 0) return;
  if (n->count < NAMES_MAX) n->name[n->count] = name;
  n->count += n->count <= NAMES_MAX;
}

static const char *names_text(names *n) {
  size_t used = 0;
  n->text[0] = 0;
  for (size_t i = 0; i < n->count && i < NAMES_MAX && used < sizeof n->text; ++i)
    used += (size_t)snprintf(n->text + used, sizeof n->text - used, "%s%s", used ? ", " : "",
                             n->name[i]);
  if (n->count > NAMES_MAX && used < sizeof n->text)
    snprintf(n->text + used, sizeof n->text - used, " and others");
  return n->text;
}

/* --- whose place it takes --- */

static void warn_of_place(report *w) {
  const tn_runtime *r = w->runtime;
  bool own = false;
  for (size_t i = 0; i < r->num_records; ++i) {
    const plugin_record *other = r->records[i];
    if (other == w->record || other->state != PLUGIN_REFUSED ||
        strcmp(other->name, w->record->name) != 0 || !scan_is_own(other->path))
      continue;
    own = own || scan_is_own(w->record->path);
    if (own) continue;
    say(w, TN_LOG_WARN,
        "takes the place of Tenon's own plugin %s, %s, which is left out with its devices and "
        "kernels",
        w->record->name, other->path);
  }
}

/* --- operators --- */

static bool is_taken(const plugin_entry *e, const char *name) {
  for (size_t i = 0; i < e->num_operators; ++i)
    if (strcmp(e->operators[i].row.name, name) == 0) return true;
  return false;
}

static void warn_of_operators(report *w) {
  const tn_plugin *p = w->entry->plugin;
  names plain = {.count = 0}, exist = {.count = 0};
  for (uint32_t i = 0; i < p->num_operators; ++i) {
    const char *name = plugin_operator(p, i)->name;
    const op_entry *found = registry_find_op(&w->runtime->registry, name);
    bool ours = is_taken(w->entry, name);
    for (size_t k = 0; ours && found && k < w->entry->num_operators; ++k)
      if (&w->entry->operators[k] == found) found = NULL;
    if (!ours || found)
      names_add(&exist, name);
    else if (!strchr(name, '.'))
      names_add(&plain, name);
  }
  if (exist.count)
    say(w, TN_LOG_WARN,
        "operators that existed when it was loaded are not taken, nor the kernels for them: %s; "
        "name them with a prefix of your own and a dot, %s.%s",
        names_text(&exist), w->entry->name, exist.name[0]);
  if (plain.count)
    say(w, TN_LOG_INFO,
        "operators without a vendor's prefix may meet later ones of Tenon's own: %s; name them "
        "with a prefix of your own and a dot, %s.%s",
        names_text(&plain), w->entry->name, plain.name[0]);
}

/* --- kernels --- */

/* Whether some plugin here has such devices, or would, were it not refused. */
static bool is_known_type(const tn_runtime *r, const char *type) {
  if (strcmp(type, TN_DEVICE_ANY_HOST) == 0 || registry_find_type(&r->registry, type)) return true;
  for (size_t i = 0; i < r->num_records; ++i) {
    const char *words = r->records[i]->brings;
    if (words && (brings_has(words, "device", type) || brings_has(words, "host-device", type)))
      return true;
  }
  return false;
}

static void types_text(const tn_runtime *r, names *known) {
  for (uint32_t i = 0; i < atomic_load(&r->registry.num_types); ++i)
    if (!atomic_load(&r->registry.types[i]->plugin->unloaded))
      names_add(known, r->registry.types[i]->backend.device_type);
}

/* Kernels stay with the first operator of their name, as callers may be just at it. While that is
 * away they serve no other one, which matters where there is one. */
static void warn_of_bound(report *w) {
  const plugin_entry *e = w->entry;
  const registry *r = &w->runtime->registry;
  names away = {.count = 0};
  tn_log_level level = TN_LOG_INFO;
  for (size_t i = 0; i < e->num_kernels; ++i) {
    const op_entry *op = atomic_load(&e->kernels[i].op);
    if (!op || registry_op(r, op->row.id) == op || is_taken(e, op->row.name)) continue;
    names_add(&away, op->row.name);
    if (registry_find_op(r, op->row.name)) level = TN_LOG_WARN;
  }
  if (away.count)
    say(w, level,
        "kernels for %s are bound to an operator that was unloaded; load its plugin again",
        names_text(&away));
}

static void warn_of_kernels(report *w) {
  const plugin_entry *e = w->entry;
  names types = {.count = 0}, waiting = {.count = 0}, known = {.count = 0};
  const char *last = NULL;
  size_t newer = 0;
  for (size_t i = 0; i < e->num_kernels; ++i) {
    const kernel_entry *k = &e->kernels[i];
    const op_entry *op = atomic_load(&k->op);
    newer += !op && k->row.op;
    if (!op && !k->row.op && !k->left_out) names_add(&waiting, k->row.op_name);
    if (k->row.device_type == last) continue;
    last = k->row.device_type;
    if (!is_known_type(w->runtime, last)) names_add(&types, last);
  }
  if (waiting.count)
    say(w, TN_LOG_INFO, "kernels wait for operators that no plugin has brought: %s",
        names_text(&waiting));
  if (newer)
    say(w, TN_LOG_INFO, "%zu kernels are for operators that this Tenon does not have yet", newer);
  if (!types.count) return;
  types_text(w->runtime, &known);
  say(w, TN_LOG_INFO, "kernels are for device types that no plugin here has: %s; there are: %s",
      names_text(&types), names_text(&known));
}

/* --- devices --- */

static void warn_of_devices(report *w) {
  const registry *r = &w->runtime->registry;
  for (uint32_t i = 0; i < atomic_load(&r->num_types); ++i) {
    const device_type *t = r->types[i];
    if (t->plugin == w->entry && t->oddity[0]) say(w, TN_LOG_WARN, "%s", t->oddity);
    if (t->plugin == w->entry && t->mended[0]) say(w, TN_LOG_WARN, "%s", t->mended);
  }
}

/* --- all of them --- */

static const plugin_entry *entry_of(const tn_runtime *r, const plugin_record *record) {
  for (const plugin_entry *e = r->registry.plugins; e; e = e->next)
    if (e->plugin == record->plugin) return e;
  return NULL;
}

static void find_of(tn_runtime *r, plugin_record *record) {
  report w = {.runtime = r, .record = record, .entry = entry_of(r, record)};
  if (!w.entry) return;
  warn_of_place(&w);
  warn_of_operators(&w);
  warn_of_kernels(&w);
  warn_of_bound(&w);
  warn_of_devices(&w);
  if (strcmp(w.text, record->warnings ? record->warnings : "") == 0) return;
  if (record_set_text(r, &record->warnings, w.text) || !w.used) return;
  char *line = w.text, *end;
  for (size_t i = 0; i < w.lines && line; ++i, line = end) {
    if ((end = strchr(line, '\n'))) *end++ = 0;
    runtime_log(r, w.level[i], "plugin %s: %s", record->name, line);
  }
}

void warnings_find(tn_runtime *runtime) {
  for (size_t i = 0; i < runtime->num_records; ++i)
    if (runtime->records[i]->state == PLUGIN_TAKEN) find_of(runtime, runtime->records[i]);
}
