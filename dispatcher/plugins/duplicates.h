/* Libraries that the process has twice. */
#ifndef TENON_DISPATCHER_DUPLICATES_H
#define TENON_DISPATCHER_DUPLICATES_H

#include "dispatcher/objects/runtime.h"

typedef struct duplicate duplicate;

/* Notes them; those known stay known. TN_ERR_OUT_OF_MEMORY. */
tn_status duplicates_find(tn_runtime *runtime);
void duplicates_free(const host_memory *memory, duplicate *first);

#endif
