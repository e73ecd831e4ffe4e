/*
 * Whether the table that a plugin returned keeps the contract of plugin.h: sizes,
 * versions, mandatory pointers. What it passes, the rest of the dispatcher may follow
 * without looking.
 */
#ifndef TENON_DISPATCHER_PLUGIN_CHECK_H
#define TENON_DISPATCHER_PLUGIN_CHECK_H

#include "dispatcher/base/error.h"
#include "tenon/plugin.h"

/* Checks `plugin` against the note of its file and the host's ABI range. Errors:
 * TN_ERR_PLUGIN_REFUSED with the reason. */
tn_status plugin_check(const tn_plugin *plugin, const tn_plugin_note *note, const tn_host *host);

/* props_check.c: refuses what a device says of itself where the host, or whoever gets its tensors,
 * could not go by it. `flags` are its backend's. TN_ERR_BACKEND. */
tn_status plugin_check_props(const tn_device_props *props, uint32_t flags);
/* Ends texts that fill their field, and takes more memory than there can be as not known; says
 * what of that it did, "" if nothing. */
enum { PROPS_SAID_BYTES = 320 };
void plugin_mend_props(tn_device_props *props, char said[PROPS_SAID_BYTES]);

/* Reads every text of the table to its end, and a byte of every function that it names. A pointer
 * to nowhere ends the process: made for the scan's. Errors: TN_ERR_PLUGIN_REFUSED for a text that
 * has no end. pre: plugin_check passed. */
tn_status plugin_read_all(const tn_plugin *plugin);

/* Refuses a range of ABI versions that does not meet the host's. */
tn_status plugin_check_abi(uint32_t abi_min, uint32_t abi_max, uint32_t host_min,
                           uint32_t host_max);

#endif
