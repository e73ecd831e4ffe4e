/*
 * What options and environment variables ask for, read once when a runtime opens. An
 * option beats its variable; variables are read with secure_getenv alone.
 */
#ifndef TENON_DISPATCHER_CONFIG_H
#define TENON_DISPATCHER_CONFIG_H

#include "error.h"

typedef struct config {
  char *device;      /* "cuda:1,cpu"; NULL = best score */
  char *plugin_path; /* NULL = none */
  char *plugins;     /* globs; NULL = all */
  char *layers;      /* NULL = none */
  tn_fallback fallback;
  tn_log_level log_level;
  tn_math math;
  bool deterministic;
  uint32_t num_threads; /* >= 1 */
  const char *device_from; /* "TENON_DEVICE" or "tn_runtime_options.device", for messages */
} config;

/* Reads options (may be NULL) and TENON_DEVICE, TENON_PLUGIN_PATH, TENON_PLUGINS,
 * TENON_LAYERS, TENON_FALLBACK (warn|error|allow), TENON_LOG
 * (none|error|warn|info|debug), TENON_MATH (ieee|tf32|fast), TENON_DETERMINISTIC (0|1),
 * TENON_NUM_THREADS. TN_ERR_INVALID_ARGUMENT names the variable, its value and what it
 * takes. Strings are copies in `memory`. */
tn_status config_read(const host_memory *memory, const tn_runtime_options *options, config *out);
void config_free(const host_memory *memory, config *c);

/* Whether `patterns` (comma-separated shell globs; "-glob" excludes; the last match
 * wins; a list of exclusions alone starts from everything) lets `name` in. NULL lets all
 * in. On refusal *why is the pattern's text span. */
bool config_selects(const char *patterns, const char *name);

#endif
