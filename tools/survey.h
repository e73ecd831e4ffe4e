/* What a runtime has, gathered once through the public API, so that text and JSON print
 * the same. Strings belong to the runtime, which must outlive the survey. */
#ifndef TENON_TOOLS_SURVEY_H
#define TENON_TOOLS_SURVEY_H

#include "tenon/tenon.h"

enum { SURVEY_CANDIDATES = 8 };

/* Element types of one operator that the same kernels serve: the first choice, and those
 * behind it as far as there is room. */
typedef struct service {
  const char *op;
  tn_dtype_set dtypes;
  size_t num_kernels;
  tn_kernel_info kernels[SURVEY_CANDIDATES];
} service;

/* How many operators a plugin is the first choice for, in some element type. */
typedef struct tally {
  const char *plugin;
  size_t operators;
} tally;

typedef struct device_survey {
  tn_device_info info;
  bool is_default;
  service *services; /* grouped by operator, in the operators' order */
  tally *tallies;
  size_t num_services, num_tallies;
  size_t num_served; /* operators with a kernel of anyone's */
} device_survey;

typedef struct survey {
  tn_plugin_info *plugins; /* in order of discovery */
  device_survey *devices;  /* best first */
  tn_layer_info *layers;   /* plugin by plugin */
  tn_duplicate_library *duplicates;
  size_t num_plugins, num_devices, num_operators, num_layers, num_duplicates;
} survey;

/* Fills *out. On failure the message is in tn_last_error() and *out is empty. */
tn_status survey_take(tn_runtime *runtime, survey *out);
void survey_free(survey *s);
void device_survey_free(device_survey *d);

#endif
