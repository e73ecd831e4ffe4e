/*
 * The words of TN_PLUGIN_BRINGS: looked up without copies, and held against what the
 * plugin's table then has.
 */
#include "dispatcher/load/brings.h"

#include <string.h>

#include "dispatcher/load/loader.h"

/* The next word from *at on: its length, 0 at the end. */
static size_t next_word(const char **at) {
  *at += strspn(*at, " ");
  return strcspn(*at, " ");
}

/* Where the name begins in a word of this kind, else NULL. */
static const char *name_in(const char *word, size_t length, const char *kind) {
  size_t bytes = strlen(kind);
  bool matches = length > bytes && memcmp(word, kind, bytes) == 0 && word[bytes] == ':';
  return matches ? word + bytes + 1 : NULL;
}

bool brings_has(const char *words, const char *kind, const char *name) {
  const char *at = words;
  for (size_t length; (length = next_word(&at)) > 0; at += length) {
    const char *found = name_in(at, length, kind);
    if (found && strlen(name) == length - (size_t)(found - at) &&
        memcmp(found, name, strlen(name)) == 0)
      return true;
  }
  return false;
}

bool brings_next(const char **at, const char *kind, char *name, size_t size) {
  for (size_t length; (length = next_word(at)) > 0; *at += length) {
    const char *found = name_in(*at, length, kind);
    size_t bytes = found ? length - (size_t)(found - *at) : size;
    if (bytes >= size) continue;
    memcpy(name, found, bytes);
    name[bytes] = 0;
    *at += length;
    return true;
  }
  return false;
}

bool brings_for_type(const char *words, const char *type) {
  return brings_has(words, "device", type) || brings_has(words, "host-device", type) ||
         brings_has(words, "kernels", type) || brings_has(words, "kernels", TN_DEVICE_ANY_HOST);
}

bool brings_operators(const char *words) {
  const char *at = words;
  for (size_t length; (length = next_word(&at)) > 0; at += length)
    if (length == strlen("operators") && memcmp(at, "operators", length) == 0) return true;
  return false;
}

/* --- what the table has --- */

static tn_status unsaid(const char *kind, const char *name) {
  return fail(TN_ERR_PLUGIN_REFUSED,
              "brings %s:%s, which its TN_PLUGIN_BRINGS does not say; add the word, or leave "
              "TN_PLUGIN_BRINGS out",
              kind, name);
}

static tn_status check_backend(const char *words, const tn_backend *b) {
  const char *kind = b->flags & TN_BACKEND_HOST_MEMORY ? "host-device" : "device";
  return brings_has(words, kind, b->device_type) ? TN_OK : unsaid(kind, b->device_type);
}

/* Rows of one type stand together mostly: a type is looked up when it changes. */
static tn_status check_kernels(const char *words, const tn_plugin *plugin) {
  const char *last = NULL;
  for (uint32_t i = 0; i < plugin->num_kernels; ++i) {
    const char *type = plugin_kernel(plugin, i)->device_type;
    if (last && (type == last || strcmp(type, last) == 0)) continue;
    if (!brings_has(words, "kernels", type)) return unsaid("kernels", type);
    last = type;
  }
  return TN_OK;
}

tn_status brings_check(const char *words, const tn_plugin *plugin) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < plugin->num_backends && !status; ++i)
    status = check_backend(words, plugin->backends[i]);
  if (!status) status = check_kernels(words, plugin);
  for (uint32_t i = 0; i < plugin->num_layers && !status; ++i) {
    const char *name = plugin_layer(plugin, i)->name;
    if (!brings_has(words, "layer", name)) status = unsaid("layer", name);
  }
  if (!status && plugin->num_operators && !brings_operators(words))
    status = fail(TN_ERR_PLUGIN_REFUSED,
                  "brings operators, which its TN_PLUGIN_BRINGS does not say; add the word");
  return status;
}
