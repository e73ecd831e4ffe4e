/*
 * What there is to check: the devices that the options name, or that a plugin brings, and
 * the operators of each. Made in a process of its own, since a runtime does not survive
 * fork and the process that watches must never start a vendor's driver.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../plain.h"
#include "backend/backend.h"
#include "check.h"
#include "output.h"

/* Threads of each runtime: with several processes at work, the processors are shared, but
 * a kernel always has two threads to go wrong with. */
static uint32_t threads_of(const check_options *o) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t share = (uint32_t)(processors > 0 ? processors : 1) / (o->jobs ? o->jobs : 1);
  if (getenv("TENON_NUM_THREADS")) return 0;
  return share < 2 ? 2 : share > 8 ? 8 : share;
}

/* PLUGIN.so before whatever TENON_PLUGIN_PATH says. */
static void plugin_path(const check_options *o, char *path, size_t size) {
  const char *others = getenv("TENON_PLUGIN_PATH");
  snprintf(path, size, "%s%s%s", o->plugin, others && *others ? ":" : "", others ? others : "");
}

/* The layer that guards workspaces, behind those that the environment names: next to kernels. Where
 * no plugin brings it, the rest is checked without. */
static bool unguarded;

static tn_status open_guarded(tn_runtime_options *options, tn_runtime **runtime) {
  char layers[1024];
  const char *others = getenv("TENON_LAYERS");
  snprintf(layers, sizeof layers, "%s%sguard", others ? others : "", others && *others ? "," : "");
  options->layers = layers;
  tn_status status = tn_runtime_open(options, runtime);
  options->layers = NULL;
  if (status != TN_ERR_NOT_FOUND || !strstr(tn_last_error(), "'guard'")) return status;
  unguarded = true;
  return tn_runtime_open(options, runtime);
}

tn_status session_open(const check_options *o, const char *device, bool deterministic,
                       tn_runtime **runtime) {
  char path[8192];
  tn_runtime_options options = {.struct_size = sizeof options, .fallback = TN_FALLBACK_ERROR};
  options.device = device;
  options.deterministic = deterministic ? 1 : -1;
  options.num_threads = threads_of(o);
  options.log = output_log;
  if (o->plugin) {
    plugin_path(o, path, sizeof path);
    options.plugin_path = path;
  }
  return o->guarded ? open_guarded(&options, runtime) : tn_runtime_open(&options, runtime);
}

tn_device *session_device(tn_runtime *runtime, const char *id) {
  tn_device *device = NULL;
  return tn_device_find(runtime, id, &device) == TN_OK ? device : NULL;
}

const tn_operator *session_operator(tn_runtime *runtime, uint32_t id) {
  for (size_t i = 0; i < tn_op_count(runtime); i++)
    if (tn_op_at(runtime, i)->id == id) return tn_op_at(runtime, i);
  return NULL;
}

static void note(agenda *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(agenda *a, const char *format, ...) {
  char line[2048];
  size_t used = strlen(a->notes);
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  snprintf(a->notes + used, sizeof a->notes - used, "%s\n", plain(line));
}

/* The failure that keeps anything from being checked. */
static void fail_agenda(agenda *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail_agenda(agenda *a, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(a->failure, sizeof a->failure, format, list);
  va_end(list);
}

static void nothing(agenda *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void nothing(agenda *a, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(a->nothing, sizeof a->nothing, format, list);
  va_end(list);
}

static tn_device_info info_of(tn_device *device) {
  tn_device_info info = {.struct_size = sizeof info};
  if (tn_device_get_info(device, &info) != TN_OK)
    info.id = info.type = info.plugin = info.features = "?";
  return info;
}

/* Of the plugin named on the command line; false when it was not taken. */
static bool find_plugin(const check_options *o, tn_runtime *rt, agenda *a, tn_plugin_info *found) {
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(rt, i, &info) == TN_OK; i++) {
    if (strcmp(info.path, o->plugin)) continue;
    *found = info;
    if (!info.taken) fail_agenda(a, "%s was not taken: %s", o->plugin, info.reason);
    return info.taken;
  }
  fail_agenda(a, "%s was not looked at", o->plugin);
  return false;
}

/* Whether a plugin has a kernel for the operator, in any place among the candidates. */
static bool serves(tn_device *device, const tn_operator *op, const char *plugin) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  for (int dtype = 0; dtype < TN_DTYPE_SLOTS; dtype++)
    for (uint32_t rank = 0; tn_kernel_find(device, op->id, (tn_dtype)dtype, rank, &kernel) == TN_OK;
         rank++)
      if (!strcmp(kernel.plugin, plugin)) return true;
  return false;
}

/* The operators to check on a device; `plugin`: only those it has kernels for, or NULL. */
static bool choose_ops(const check_options *o, tn_runtime *rt, const agenda *a, tn_device *device,
                       const char *plugin, checked_device *d) {
  bool any = false;
  if (o->slots && !o->op) return false;
  for (uint32_t i = 0; i < a->num_ops; i++) {
    const tn_operator *op = session_operator(rt, a->op[i].id);
    if (o->op && fnmatch(o->op, op->name, 0)) continue;
    d->wanted[i] = !plugin || serves(device, op, plugin);
    any |= d->wanted[i];
  }
  return any;
}

/* A plugin's expected failures stand beside it, in <plugin>.expect. */
static void find_expectations(tn_runtime *rt, const char *plugin, checked_device *d) {
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(rt, i, &info) == TN_OK; i++) {
    if (!info.taken || strcmp(info.name, plugin)) continue;
    snprintf(d->expect, sizeof d->expect, "%s", info.path);
    char *dot = strrchr(d->expect, '.');
    if (dot) snprintf(dot, sizeof d->expect - (size_t)(dot - d->expect), ".expect");
    if (access(d->expect, R_OK)) d->expect[0] = 0;
  }
}

/* Its slots are checked where the plugin asked about is its own, unless operators alone are. */
static void choose_slots(const check_options *o, tn_runtime *rt, const tn_device_info *device,
                         checked_device *d) {
  tn_plugin_info info = {.struct_size = sizeof info};
  d->index = (uint32_t)device->index;
  if (!o->slots && (o->op || o->dtype || o->has_case)) return;
  for (size_t i = 0; tn_plugin_report(rt, i, &info) == TN_OK; i++)
    if (info.taken && !strcmp(info.name, device->plugin) && strlen(info.path) < sizeof d->plugin)
      snprintf(d->plugin, sizeof d->plugin, "%s", info.path);
}

/* A device that is there and does not describe itself or open has failed: that there is none,
 * which is none, `count` says. */
static void take_device(const check_options *o, tn_runtime *rt, agenda *a, tn_device *device,
                        const char *plugin) {
  tn_device_info info = info_of(device);
  checked_device *d = &a->device[a->num_devices];
  bool own = plugin && !strcmp(info.plugin, plugin);
  if (a->num_devices == CHECK_DEVICES) return;
  *d = (checked_device){.host = info.host_memory};
  snprintf(d->id, sizeof d->id, "%s", info.id);
  snprintf(d->type, sizeof d->type, "%s", info.type);
  snprintf(d->name, sizeof d->name, "%s", info.name);
  snprintf(d->features, sizeof d->features, "%s", info.features);
  find_expectations(rt, plugin ? plugin : info.plugin, d);
  if (*info.unavailable) {
    snprintf(d->failure, sizeof d->failure, "%s: cannot be used: %s", info.id, info.unavailable);
    a->num_devices++;
    return;
  }
  if (own || !plugin) choose_slots(o, rt, &info, d);
  if (choose_ops(o, rt, a, device, own ? NULL : plugin, d) || *d->plugin) a->num_devices++;
}

static bool type_is_taken(const agenda *a, const char *type) {
  for (uint32_t i = 0; i < a->num_devices; i++)
    if (!strcmp(a->device[i].type, type)) return true;
  return false;
}

/* One device of every type but the reference, which only checks itself when asked to. */
static void take_devices(const check_options *o, tn_runtime *rt, agenda *a, const char *plugin) {
  bool own = false;
  for (size_t i = 0; plugin && i < tn_device_count(rt); i++)
    own |= !strcmp(info_of(tn_device_at(rt, i)).plugin, plugin);
  for (size_t i = 0; i < tn_device_count(rt); i++) {
    tn_device *device = tn_device_at(rt, i);
    tn_device_info info = info_of(device);
    if (type_is_taken(a, info.type) || !strcmp(info.type, "reference")) continue;
    if (!own || !strcmp(info.plugin, plugin)) take_device(o, rt, a, device, plugin);
  }
}

static bool plugin_has_device(tn_runtime *rt, const char *plugin) {
  for (size_t i = 0; i < tn_device_count(rt); i++)
    if (!strcmp(info_of(tn_device_at(rt, i)).plugin, plugin)) return true;
  return false;
}

/* Backends that came without a device. */
static void note_absent(tn_runtime *rt, agenda *a) {
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(rt, i, &info) == TN_OK; i++)
    if (*info.name && (!info.taken || info.num_backends) && !plugin_has_device(rt, info.name))
      note(a, "skipped: no %s device%s%s", info.name, *info.reason ? ": " : "", info.reason);
}

static bool type_exists(tn_runtime *rt, const char *type) {
  bool exists = !strcmp(type, TN_DEVICE_ANY_HOST);
  for (size_t i = 0; i < tn_device_count(rt); i++)
    exists |= !strcmp(info_of(tn_device_at(rt, i)).type, type);
  return exists;
}

/* Kernels of a plugin for devices that are not here: nobody checks those. */
static void note_elsewhere(tn_runtime *rt, agenda *a, const char *plugin) {
  tn_kernel_row row = {.struct_size = sizeof row};
  const char *type = NULL;
  uint32_t count = 0;
  for (size_t i = 0; tn_kernel_at(rt, i, &row) == TN_OK; i++) {
    if (strcmp(row.plugin, plugin) || type_exists(rt, row.device_type)) continue;
    if (!type) type = row.device_type;
    count += !strcmp(type, row.device_type);
  }
  if (count)
    note(a, "skipped: %u kernels for device type %s, of which there is none here", count, type);
}

static void take_ops(tn_runtime *rt, agenda *a) {
  snprintf(a->op[CHECK_ITSELF].name, sizeof a->op->name, "device");
  for (size_t i = 0; i < tn_op_count(rt) && a->num_ops < CHECK_ITSELF; i++) {
    const tn_operator *op = tn_op_at(rt, i);
    a->op[a->num_ops].id = op->id;
    snprintf(a->op[a->num_ops++].name, sizeof a->op->name, "%s", op->name);
  }
  backend_name_checks(a);
}

/* --- why there is nothing --- */

/* "cpu, reference": types of the devices that are here. */
static void types_here(tn_runtime *rt, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < tn_device_count(rt) && used < size; i++) {
    const char *type = info_of(tn_device_at(rt, i)).type;
    if (!strstr(text, type))
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", type);
  }
}

/* Whether a row's element types are among its operator's, for every type variable. */
static bool row_has_types(const tn_operator *op, const tn_kernel_row *row) {
  for (int v = 0; v < TN_MAX_TYPE_VARS && op->types[v]; v++)
    if (row->types[v] && !(row->types[v] & op->types[v])) return false;
  return true;
}

/* Of the plugin's rows the first that cannot serve any call here, and why. */
static bool find_idle_row(tn_runtime *rt, const char *plugin, agenda *a) {
  tn_kernel_row row = {.struct_size = sizeof row};
  char here[400];
  for (size_t i = 0; tn_kernel_at(rt, i, &row) == TN_OK; i++) {
    if (strcmp(row.plugin, plugin)) continue;
    const tn_operator *op = session_operator(rt, row.op);
    types_here(rt, here, sizeof here);
    if (!type_exists(rt, row.device_type))
      nothing(a,
              "the kernels of plugin %s, %s among them, are for devices of type '%s', and there "
              "is none here: devices are of type %s",
              plugin, row.name, row.device_type, here);
    else if (op && !row_has_types(op, &row))
      nothing(a,
              "the kernels of plugin %s, %s among them, are for no element type that their "
              "operators have (tn_kernel.types)",
              plugin, row.name);
    else
      continue;
    return true;
  }
  return false;
}

static bool op_matches(const check_options *o, const agenda *a) {
  for (uint32_t i = 0; i < a->num_ops; i++)
    if (!o->op || !fnmatch(o->op, a->op[i].name, 0)) return true;
  return false;
}

/* Whether the first of the globs names an element type at all. */
static bool dtype_matches(const check_options *o) {
  char one[32];
  snprintf(one, sizeof one, "%.*s", o->dtype ? (int)strcspn(o->dtype, ",") : 0,
           o->dtype ? o->dtype : "");
  for (int t = 1; t < TN_DTYPE_SLOTS; t++)
    if (!o->dtype || !fnmatch(one, tn_dtype_name((tn_dtype)t), 0)) return true;
  return !fnmatch(one, "-", 0);
}

static void nothing_of_plugin(const check_options *o, tn_runtime *rt, agenda *a,
                              const tn_plugin_info *p) {
  if (p->num_backends && *p->reason)
    nothing(a, "plugin %s found no device: %s", p->name, p->reason);
  else if (p->num_kernels && find_idle_row(rt, p->name, a))
    return;
  else if (p->num_kernels && o->op)
    nothing(a, "plugin %s has no kernel of an operator called %s for a device that is here",
            p->name, o->op);
  else if (p->num_layers)
    nothing(a,
            "plugin %s brings layers alone, which change no result: TENON_LAYERS switches them "
            "on in a run of tenon check",
            p->name);
  else if (p->num_operators)
    nothing(a, "plugin %s brings operators and no kernel of them for a device that is here",
            p->name);
  else if (!p->num_kernels && !p->num_backends)
    nothing(a, "plugin %s brings nothing: no backend, kernel, operator or layer", p->name);
  else
    nothing(a, "plugin %s has no kernel for a device that is here", p->name);
}

static void say_why_nothing(const check_options *o, tn_runtime *rt, agenda *a,
                            const tn_plugin_info *plugin) {
  if (!op_matches(o, a))
    nothing(a, "no operator is called %s", o->op);
  else if (plugin->name)
    nothing_of_plugin(o, rt, a, plugin);
  else
    nothing(a, "no device but the reference is here");
}

/* A plugin that says neither of a device nor why it has none keeps to no contract. */
static bool lacks_reason(const tn_plugin_info *p) {
  return p->taken && p->num_backends && strstr(p->reason, "found no device and gave no reason");
}

static void find_reason(agenda *a, const tn_plugin_info *p) {
  if (lacks_reason(p))
    fail_agenda(a, "plugin %s: count gave 0 devices and no reason (host->fail says one)", p->name);
}

/* --- all of it --- */

static const char *chosen_device(const check_options *o) {
  const char *by_user = getenv("TENON_DEVICE");
  if (o->device) return o->device;
  return by_user && *by_user ? by_user : NULL;
}

static void fill(const check_options *o, tn_runtime *rt, agenda *a) {
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  bool chosen = chosen_device(o) != NULL;
  take_ops(rt, a);
  if (o->plugin && !find_plugin(o, rt, a, &plugin)) return;
  snprintf(a->plugin, sizeof a->plugin, "%s", o->plugin ? plugin.name : "");
  if (chosen)
    take_device(o, rt, a, tn_runtime_device(rt), plugin.name);
  else
    take_devices(o, rt, a, plugin.name);
  if (!o->plugin && !chosen) note_absent(rt, a);
  if (o->plugin && !chosen) note_elsewhere(rt, a, plugin.name);
  if (!dtype_matches(o)) {
    nothing(a, "no element type is called %s", o->dtype);
    a->num_devices = 0;
  }
  if (!session_device(rt, "reference")) {
    fail_agenda(a, "there is no reference device to compare with");
    a->num_devices = 0;
  } else if (!a->num_devices) {
    if (o->plugin) find_reason(a, &plugin);
    if (!a->nothing[0]) say_why_nothing(o, rt, a, &plugin);
  }
}

/* The device that is named cannot be had. Where it is there after all, and just does not open,
 * that is a failure of its; where there is none, there is nothing to check. */
static void explain_device(const check_options *o, agenda *a, const char *why) {
  tn_runtime *rt;
  tn_device *device;
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  const char *name = chosen_device(o);
  if (!name || session_open(o, "reference", false, &rt) != TN_OK) {
    fail_agenda(a, "%s", why);
    return;
  }
  take_ops(rt, a);
  device = strchr(name, ',') ? NULL : session_device(rt, name);
  if (device) {
    take_device(o, rt, a, device, NULL);
    if (a->num_devices) snprintf(a->device[0].failure, sizeof a->device->failure, "%s", why);
  } else if (!o->plugin || find_plugin(o, rt, a, &plugin)) {
    if (o->plugin) find_reason(a, &plugin);
    nothing(a, "%s", why);
  }
  a->complete = true;
  tn_runtime_close(rt);
}

void agenda_make(const check_options *o, agenda *a) {
  char why[1200];
  tn_runtime *rt;
  tn_status status = session_open(o, o->device, false, &rt);
  if (status == TN_OK) {
    if (unguarded) note(a, "workspaces are not guarded: there is no plugin guard");
    fill(o, rt, a);
    a->complete = true;
    tn_runtime_close(rt);
    return;
  }
  snprintf(why, sizeof why, "%s", tn_last_error());
  if (status == TN_ERR_NOT_FOUND) {
    explain_device(o, a, why);
    return;
  }
  a->usage = status == TN_ERR_INVALID_ARGUMENT;
  fail_agenda(a, "%s", why);
}
