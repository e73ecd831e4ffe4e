/*
 * The runtime's plugins: candidates with their records, which of them are loaded and when.
 *
 * A candidate whose file says what it brings (brings.h) waits until somebody needs that:
 * a type of device, a layer, operators, or all there is. One that does not say is loaded
 * when the runtime opens.
 *
 * Two mutexes: `loading` lets one thread at a time load, unload and change records; it is
 * held while plugins' code runs, with the thread's log held back (log_hold). `mutex` is
 * held for moments and by nobody who calls out; it guards what others read meanwhile. What
 * is written with both held may be read with either.
 */
#ifndef TENON_DISPATCHER_PLUGINS_H
#define TENON_DISPATCHER_PLUGINS_H

#include "dispatcher/objects/runtime.h"

/* Finds the candidates, and loads those that cannot wait and, unless a device was named, all
 * others. Only TN_ERR_OUT_OF_MEMORY. */
tn_status plugins_open(tn_runtime *runtime);
void plugins_free(tn_runtime *runtime);

/* Load what waits and brings this. A plugin that turns out to be unusable is refused, and no
 * error. TN_ERR_OUT_OF_MEMORY (it waits on), TN_ERR_FORKED, TN_ERR_CLOSED. */
tn_status plugins_need_all(tn_runtime *runtime);
/* Backend and kernels of a type of device. */
tn_status plugins_need_type(tn_runtime *runtime, const char *type);
tn_status plugins_need_layer(tn_runtime *runtime, const char *name);
tn_status plugins_need_operators(tn_runtime *runtime);
/* Devices in host memory with their kernels: where the fallback runs. */
tn_status plugins_need_hosts(tn_runtime *runtime);

/* The mutex that loading and unloading hold, and the log held back meanwhile. */
void plugins_lock(tn_runtime *runtime);
void plugins_unlock(tn_runtime *runtime);

/* unload.c: gives back what the plugin brought before it was unloaded, if it was.
 * pre: `loading` is held. */
tn_status unload_undo(tn_runtime *runtime, const tn_plugin *plugin, bool *was_unloaded);

/* settings.c: logs what was asked for and came to nothing. pre: plugins were looked for. */
void settings_warn(const tn_runtime *runtime);

#endif
