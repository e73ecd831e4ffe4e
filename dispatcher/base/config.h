/*
 * What options and environment variables ask for, read once when a runtime opens. An
 * option beats its variable; variables are read with secure_getenv alone.
 */
#ifndef TENON_DISPATCHER_CONFIG_H
#define TENON_DISPATCHER_CONFIG_H

#include "dispatcher/base/error.h"

typedef struct config {
  char *device;      /* "cuda:1,cpu"; NULL = best score */
  char *plugin_path; /* NULL = none */
  char *plugins;     /* globs; NULL = all */
  char *layers;      /* NULL = none */
  tn_fallback fallback;
  tn_log_level log_level;
  tn_math math;
  bool deterministic;
  tn_scan scan;   /* TN_SCAN_DEFAULT: plugins that are not this library's own */
  bool scan_anew; /* whatever verdict is remembered */
  uint32_t scan_timeout_ms;
  uint32_t num_threads;         /* >= 1 */
  const char *device_from;      /* "TENON_DEVICE" or "tn_runtime_options.device", for messages */
  const char *plugin_path_from; /* likewise: the origin of candidates */
  const char *plugins_from;     /* likewise */
} config;

/* Most threads that may be asked for. */
#define CONFIG_MAX_THREADS 4096
/* How long a plugin may take to be loaded in the scan. */
#define CONFIG_SCAN_TIMEOUT_MS 5000
/* Most bytes in one glob of TENON_PLUGINS. */
#define CONFIG_MAX_GLOB 255

/* Reads options (may be NULL) and TENON_DEVICE, TENON_PLUGIN_PATH, TENON_PLUGINS,
 * TENON_LAYERS, TENON_FALLBACK (warn|error|allow, default warn), TENON_LOG
 * (none|error|warn|info|debug, default warn), TENON_MATH (ieee|tf32|fast, default ieee),
 * TENON_DETERMINISTIC (0|1, default 0), TENON_SCAN (child|anew|off, default none),
 * TENON_NUM_THREADS (default: the processors this process may use). An empty string counts as not
 * given. Strings are copies in `memory`, otherwise as they came. Globs that no plugin's name can
 * match and layers named twice are malformed. On failure *out is all zero. TN_ERR_INVALID_ARGUMENT
 * names the variable or option, its value and what it takes; TN_ERR_OUT_OF_MEMORY. */
tn_status config_read(const host_memory *memory, const tn_runtime_options *options, config *out);
void config_free(const host_memory *memory, config *c);

/* Whether `patterns` (comma-separated shell globs; "-glob" excludes; the last match
 * wins; a list of exclusions alone starts from everything) lets `name` in. NULL or no
 * globs at all let everything in. Spaces round a glob do not count. */
bool config_selects(const char *patterns, const char *name);

/* Copies the next glob of the list, "-" included, and moves *rest (NULL = no list) behind it;
 * false at the end. */
bool config_next_glob(const char **rest, char glob[CONFIG_MAX_GLOB + 1]);
bool config_matches(const char *glob, const char *name);

#endif
