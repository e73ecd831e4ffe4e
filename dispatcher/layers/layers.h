/* The layers that are on, as layers.c and layers_notify.c share them. */
#ifndef TENON_DISPATCHER_LAYERS_H
#define TENON_DISPATCHER_LAYERS_H

#include "tenon/plugin.h"

/* One layer of a runtime, with the state that its open made. */
typedef struct layer_link {
  const tn_layer *layer;
  const char *plugin;
  void *state;
} layer_link;

#endif
