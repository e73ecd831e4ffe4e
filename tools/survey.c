/*
 * Gathers what a runtime has: plugins from its report, devices, and for each device the
 * kernels of every operator and element type in the order in which they are tried.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

#include "tenon/plugin.h"

/* Makes room for one more item at items[count]; NULL when memory is short, the items
 * staying as they were. Capacities are the powers of two. */
static void *grow(void *items, size_t count, size_t item_bytes) {
  if (count & (count - 1)) return items;
  return realloc(items, (count ? 2 * count : 1) * item_bytes);
}

#define APPEND(items, count, value) append((void **)&(items), &(count), sizeof *(items), &(value))

static tn_status append(void **items, size_t *count, size_t item_bytes, const void *value) {
  void *grown = grow(*items, *count, item_bytes);
  if (!grown) return TN_ERR_OUT_OF_MEMORY;
  *items = grown;
  memcpy((char *)grown + *count * item_bytes, value, item_bytes);
  ++*count;
  return TN_OK;
}

static tn_status take_plugins(tn_runtime *runtime, survey *s) {
  for (;;) {
    tn_plugin_info info = {.struct_size = sizeof info};
    if (tn_plugin_report(runtime, s->num_plugins, &info)) return TN_OK;
    tn_status status = APPEND(s->plugins, s->num_plugins, info);
    if (status) return status;
  }
}

static tn_status take_layers(tn_runtime *runtime, survey *s) {
  for (;;) {
    tn_layer_info info = {.struct_size = sizeof info};
    if (tn_layer_at(runtime, s->num_layers, &info)) return TN_OK;
    tn_status status = APPEND(s->layers, s->num_layers, info);
    if (status) return status;
  }
}

static tn_status count_for(device_survey *d, const char *plugin) {
  for (size_t i = 0; i < d->num_tallies; ++i)
    if (strcmp(d->tallies[i].plugin, plugin) == 0) return ++d->tallies[i].operators, TN_OK;
  tally first = {plugin, 1};
  return APPEND(d->tallies, d->num_tallies, first);
}

/* Counts each plugin once among the operator's services, which begin at `begin`. */
static tn_status count_operator(device_survey *d, size_t begin) {
  d->num_served += d->num_services > begin;
  for (size_t i = begin; i < d->num_services; ++i) {
    bool seen = false;
    for (size_t j = begin; j < i && !seen; ++j)
      seen = strcmp(d->services[i].kernels[0].plugin, d->services[j].kernels[0].plugin) == 0;
    tn_status status = seen ? TN_OK : count_for(d, d->services[i].kernels[0].plugin);
    if (status) return status;
  }
  return TN_OK;
}

/* The kernels of one operator and element type, best first. */
static service find_kernels(tn_device *device, const tn_operator *op, tn_dtype dtype) {
  service found = {.op = op->name, .dtypes = TN_SET(dtype)};
  for (uint32_t rank = 0; rank < SURVEY_CANDIDATES; ++rank) {
    tn_kernel_info *kernel = &found.kernels[rank];
    *kernel = (tn_kernel_info){.struct_size = sizeof *kernel};
    if (tn_kernel_find(device, op->id, dtype, rank, kernel)) break;
    ++found.num_kernels;
  }
  return found;
}

static bool same_kernels(const service *a, const service *b) {
  bool same = a->num_kernels == b->num_kernels;
  for (size_t i = 0; same && i < a->num_kernels; ++i)
    same = strcmp(a->kernels[i].name, b->kernels[i].name) == 0 &&
           strcmp(a->kernels[i].plugin, b->kernels[i].plugin) == 0;
  return same;
}

static tn_status note_service(device_survey *d, size_t begin, const service *found) {
  if (found->num_kernels == 0) return TN_OK;
  for (size_t i = begin; i < d->num_services; ++i)
    if (same_kernels(&d->services[i], found)) return d->services[i].dtypes |= found->dtypes, TN_OK;
  return APPEND(d->services, d->num_services, *found);
}

static tn_status take_operator(tn_device *device, const tn_operator *op, device_survey *d) {
  tn_status status = TN_OK;
  size_t begin = d->num_services;
  for (tn_dtype dtype = TN_DTYPE_NONE; !status && dtype < TN_DTYPE_SLOTS; ++dtype) {
    tn_dtype_set allowed = op->types[0] ? op->types[0] : TN_SET(TN_DTYPE_NONE);
    if (!(allowed & TN_SET(dtype))) continue;
    service found = find_kernels(device, op, dtype);
    status = note_service(d, begin, &found);
  }
  return status ? status : count_operator(d, begin);
}

static tn_status take_device(tn_runtime *runtime, tn_device *device, device_survey *d) {
  *d = (device_survey){.info.struct_size = sizeof d->info};
  tn_status status = tn_device_get_info(device, &d->info);
  d->is_default = device == tn_runtime_device(runtime);
  if (status || d->info.unavailable[0]) return status;
  for (size_t i = 0; !status && i < tn_op_count(runtime); ++i)
    status = take_operator(device, tn_op_at(runtime, i), d);
  return status;
}

/* Last of all: what opening the devices loaded counts. */
static tn_status take_duplicates(tn_runtime *runtime, survey *s) {
  for (;;) {
    tn_duplicate_library library = {.struct_size = sizeof library};
    tn_status status = tn_duplicate_library_at(runtime, s->num_duplicates, &library);
    if (status) return status == TN_ERR_NOT_FOUND ? TN_OK : status;
    status = APPEND(s->duplicates, s->num_duplicates, library);
    if (status) return status;
  }
}

static tn_status take_devices(tn_runtime *runtime, survey *s) {
  size_t count = tn_device_count(runtime);
  s->devices = calloc(count ? count : 1, sizeof *s->devices);
  if (!s->devices) return TN_ERR_OUT_OF_MEMORY;
  tn_status status = TN_OK;
  for (; !status && s->num_devices < count; ++s->num_devices)
    status =
        take_device(runtime, tn_device_at(runtime, s->num_devices), &s->devices[s->num_devices]);
  return status;
}

tn_status survey_take(tn_runtime *runtime, survey *out) {
  *out = (survey){.num_operators = tn_op_count(runtime)};
  tn_status status = take_plugins(runtime, out);
  if (!status) status = take_layers(runtime, out);
  if (!status) status = take_devices(runtime, out);
  if (!status) status = take_duplicates(runtime, out);
  if (status) survey_free(out);
  return status;
}

void device_survey_free(device_survey *d) {
  free(d->services);
  free(d->tallies);
}

void survey_free(survey *s) {
  for (size_t i = 0; i < s->num_devices; ++i) device_survey_free(&s->devices[i]);
  free(s->devices);
  free(s->plugins);
  free(s->duplicates);
  free(s->layers);
  *s = (survey){0};
}
