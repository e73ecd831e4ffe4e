/* What the tests of the layer validate share: runtimes under it, and what it said. */
#ifndef TENON_TESTS_VALIDATE_SUPPORT_H
#define TENON_TESTS_VALIDATE_SUPPORT_H

#include <stdio.h>

#include "support.h"

enum { SAID_MAX = 512, SAID_BYTES = 640 };

/* Lines of the layer, without "validate: ". */
static struct {
  char line[SAID_MAX][SAID_BYTES];
  size_t count;
} said;

static inline void hear(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  const char *text = strstr(line, "validate: ");
  if (text && said.count < SAID_MAX)
    snprintf(said.line[said.count++], SAID_BYTES, "%s", text + strlen("validate: "));
}

static inline tn_runtime *open_validated(const char *device, const char *checks) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = device,
                                .layers = "validate",
                                .plugin_path = SIM_PLUGIN,
                                .log = hear,
                                .fallback = TN_FALLBACK_ALLOW,
                                .log_level = TN_LOG_INFO + 1};
  said.count = 0;
  setenv("TENON_VALIDATE", checks, 1);
  return open_runtime(&options);
}

static inline size_t times_said(const char *words) {
  size_t n = 0;
  for (size_t i = 0; i < said.count; ++i) n += strstr(said.line[i], words) != NULL;
  return n;
}

static inline const char *all_said(void) {
  static char text[8192];
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < said.count && used < sizeof text; ++i)
    used += (size_t)snprintf(text + used, sizeof text - used, "\n  %s", said.line[i]);
  return text;
}
#define SAID(words) ck_assert_msg(times_said(words) > 0, "'%s' not said:%s", words, all_said())
#define SILENT(words) ck_assert_msg(times_said(words) == 0, "said:%s", all_said())

#endif
