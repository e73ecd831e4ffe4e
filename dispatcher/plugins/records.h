/* Records of plugin candidates. pre of all: the runtime's mutex `loading` is held. */
#ifndef TENON_DISPATCHER_RECORDS_H
#define TENON_DISPATCHER_RECORDS_H

#include "dispatcher/load/loader.h"
#include "dispatcher/objects/runtime.h"

/* A record that is not listed yet. TN_ERR_OUT_OF_MEMORY. */
tn_status record_make(const tn_runtime *runtime, const char *path, const char *origin,
                      plugin_record **out);
/* Makes room for one record more. */
tn_status records_reserve(tn_runtime *runtime);
/* pre: records_reserve. */
void record_list(tn_runtime *runtime, plugin_record *record);

/* One that was not taken, by its path; one that was, by its name. NULL if there is none. */
plugin_record *record_find_path(const tn_runtime *runtime, const char *path);
const plugin_record *record_find_taken(const tn_runtime *runtime, const char *name);

void record_set_state(tn_runtime *runtime, plugin_record *record, plugin_state state,
                      const tn_plugin *plugin);
/* Texts that were handed out stay: a new one is made only where it differs, and the old one is
 * kept till the end. TN_ERR_OUT_OF_MEMORY, all being as before. */
tn_status record_set_text(tn_runtime *runtime, char **slot, const char *text);
/* Keeps the calling thread's message as the reason. */
tn_status record_set_refused(tn_runtime *runtime, plugin_record *record);

/* warnings.c: says anew what is odd about plugins that were taken; the log has what is new. */
void warnings_find(tn_runtime *runtime);

#endif
