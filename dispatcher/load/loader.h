/*
 * The loader: finds plugin candidates, refuses what cannot be loaded with the true
 * reason, and opens the rest. It knows files, ELF and dlopen; what a plugin brings is
 * the registry's business.
 *
 * Candidates come from, in order: TENON_PLUGIN_PATH or the option (files, or folders of
 * libtenon-*.so), <folder of libtenon>/tenon/, <folder of libtenon>/. Absolute paths
 * only. A file that others could write to or replace is refused (trust.h). The first
 * candidate with a plugin name wins; later ones are reported.
 *
 * A candidate is checked without running a line of it: regular file, ELF class and
 * machine, segments inside the file, the Tenon note (name, ABI range, sanitizers),
 * DT_NEEDED libraries that can be found. Then dlopen(RTLD_NOW | RTLD_LOCAL |
 * RTLD_NODELETE) with the floating-point environment saved round it, and the query.
 *
 * What was checked, what was scanned and what is loaded must be one file. ld.so takes paths,
 * and a path through an open descriptor (/proc/self/fd/7) would do harm: it would be the
 * library's name for $ORIGIN, dladdr, debuggers and ld.so's own list of what is loaded, where
 * a later plugin with the same number would be taken for this one. So the plugin is opened by
 * its path, a descriptor that is held meanwhile says before and after whether the path still
 * leads to that file, and what was mapped is compared with it.
 */
#ifndef TENON_DISPATCHER_LOADER_H
#define TENON_DISPATCHER_LOADER_H

#include <limits.h>

#include "dispatcher/base/config.h"
#include "tenon/plugin.h"

/* What has become of a candidate. */
typedef enum plugin_state {
  PLUGIN_REFUSED = 0,
  PLUGIN_WAITING = 1, /* inspected, to be loaded when somebody needs what it brings */
  PLUGIN_LOADING = 2,
  PLUGIN_TAKEN = 3,
  PLUGIN_UNLOADED = 4, /* was taken once */
} plugin_state;
/* Which file it was that was looked at, and in which state. */
typedef struct file_identity {
  uint64_t device, inode, size;
  int64_t mtime_ns, ctime_ns;
} file_identity;

bool file_is_same(const file_identity *a, const file_identity *b);
/* Opens a file for reading, without waiting for a pipe's writer, and tells which it is. -1
 * with errno where that cannot be. */
int file_open(const char *path, file_identity *file);

/* One candidate and its verdict. Strings are owned by the record. */
typedef struct plugin_record {
  char *path;
  char *origin;            /* "TENON_PLUGIN_PATH", "beside the library", ... */
  char *reason;            /* why it was refused; else NULL */
  char *warnings;          /* what is odd about it though it was taken; else NULL */
  char *brings;            /* the words of brings.h; NULL where the file has none */
  file_identity file;      /* what the note was read from */
  char name[48];           /* from the note; "" where it could not be read */
  const tn_plugin *plugin; /* what the query returned; NULL if not taken */
  plugin_state state;
  bool named;             /* the host gave its path to tn_runtime_load_plugin */
  bool loaded_in_vain;    /* it was refused after its code had run */
  uint32_t scan, scan_us; /* as in tn_plugin_info */
  uint32_t abi_min, abi_max;
} plugin_record;

/* Frees the record with all that it has. */
void plugin_record_free(const host_memory *memory, plugin_record *record);

/* Paths in order of discovery. */
typedef struct candidate_list {
  struct candidate {
    char *path;
    const char *origin;     /* a literal */
    uint64_t device, inode; /* of the file; 0 where it could not be found */
  } * items;
  size_t count, capacity;
} candidate_list;

/* Lists the candidates, sorted by name inside a folder; a file that is reached twice is
 * listed once. An entry of the path that is relative, does not exist, or is a folder
 * without plugins becomes a candidate whose opening fails with the reason. Only
 * TN_ERR_OUT_OF_MEMORY, *list being empty then. */
tn_status loader_discover(const host_memory *memory, const config *settings, candidate_list *list);
void candidate_list_free(const host_memory *memory, candidate_list *list);

/* Reads the note and checks the file without running it. Fills note as soon as it could
 * be read, so a refused file may still have a name; otherwise zeroes it. *file is which file
 * that was. Errors: TN_ERR_PLUGIN_REFUSED with the reason, which does not repeat the path, in
 * the thread's message. */
tn_status loader_inspect(const char *path, file_identity *file, tn_plugin_note *note);

/* The words of brings.h that the file has, as a copy in `memory`; NULL where it has none, or is
 * another file by now. TN_ERR_OUT_OF_MEMORY. pre: loader_inspect accepted the file. */
tn_status loader_read_brings(const host_memory *memory, const char *path, const file_identity *file,
                             char **words);

/* Inspects, opens and queries one plugin. On success *plugin is a table whose ABI range
 * meets the host's, whose name is the note's, whose struct sizes and mandatory pointers
 * have been checked. Errors: TN_ERR_PLUGIN_REFUSED with the reason. Nothing of a refused
 * plugin is kept (its library stays mapped if dlopen went well). */
tn_status loader_open(const char *path, const tn_host *host, const tn_plugin **plugin);

/* The same for a file that loader_inspect has accepted, with what it found. Refused also where
 * the path does not lead to that very file any more. */
tn_status loader_load(const char *path, const file_identity *file, const tn_plugin_note *note,
                      const tn_host *host, const tn_plugin **plugin);

/* The two steps of opening that run the plugin's code: dlopen with the look for the query,
 * and the query. The thread's floating-point environment is the same afterwards. Errors as
 * loader_load. pre: loader_inspect accepted the file. */
tn_status loader_map(const char *path, const file_identity *file, tn_plugin_query_fn *query);
tn_status loader_ask(tn_plugin_query_fn query, const tn_host *host, const tn_plugin **plugin);

/* The folder that this library, or the program that it is linked into, lies in. */
bool loader_own_folder(char folder[PATH_MAX]);

/* Row `i` of a table of an accepted plugin. Rows stand as far apart as the plugin's own
 * struct_size says, which need not be this host's sizeof. pre: i < the table's count. */
static inline const void *plugin_row(const void *rows, uint32_t i) {
  return (const char *)rows + (size_t)i * *(const uint32_t *)rows;
}
static inline const tn_operator *plugin_operator(const tn_plugin *plugin, uint32_t i) {
  return plugin_row(plugin->operators, i);
}
static inline const tn_kernel *plugin_kernel(const tn_plugin *plugin, uint32_t i) {
  return plugin_row(plugin->kernels, i);
}
static inline const tn_layer *plugin_layer(const tn_plugin *plugin, uint32_t i) {
  return plugin_row(plugin->layers, i);
}

#endif
