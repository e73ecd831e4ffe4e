/*
 * What a plugin says in its file that it brings (TN_PLUGIN_BRINGS), so that one which
 * nobody needs is not loaded. Words with spaces between:
 *
 *   device:TYPE       a backend
 *   host-device:TYPE  a backend whose memory is host memory
 *   kernels:TYPE      kernels for devices of this type; kernels:*host for every device in
 *                     host memory
 *   layer:NAME        a layer
 *   operators         operators of its own
 */
#ifndef TENON_DISPATCHER_BRINGS_H
#define TENON_DISPATCHER_BRINGS_H

#include "dispatcher/base/error.h"
#include "tenon/plugin.h"

/* Bytes of the words at the most, with the zero at their end. */
#define BRINGS_MAX 1024

/* Whether "kind:name" is among the words. */
bool brings_has(const char *words, const char *kind, const char *name);
/* The next name of this kind; *at begins as the words and moves on. False after the last.
 * A name longer than its buffer is passed over. */
bool brings_next(const char **at, const char *kind, char *name, size_t size);
/* Whether the plugin may have to do with devices of this type: its backend, or kernels. */
bool brings_for_type(const char *words, const char *type);
bool brings_operators(const char *words);

/* Refuses a plugin that brings what its words do not say: it would be missing whenever
 * nobody else asks for the plugin. pre: plugin_check has passed it. */
tn_status brings_check(const char *words, const tn_plugin *plugin);

#endif
