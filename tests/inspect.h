/* What the loader says of a file, for the tests of the loader and of ELF reading. */
#ifndef TENON_TESTS_INSPECT_H
#define TENON_TESTS_INSPECT_H

#include "dispatcher/load/loader.h"
#include "scratch.h"

static inline void message_has(const char *text) {
  ck_assert_msg(strstr(tn_last_error(), text) != NULL, "'%s' is not in: %s", text, tn_last_error());
}

static inline void inspect_refuses(const char *path, const char *reason) {
  tn_plugin_note note;
  file_identity file;
  ck_assert_msg(loader_inspect(path, &file, &note) == TN_ERR_PLUGIN_REFUSED, "%s was accepted",
                path);
  message_has(reason);
}

static inline void inspect_accepts(const char *path, const char *name) {
  tn_plugin_note note;
  file_identity file;
  ck_assert_msg(loader_inspect(path, &file, &note) == TN_OK, "%s: %s", path, tn_last_error());
  ck_assert_str_eq(note.name, name);
}

#endif
