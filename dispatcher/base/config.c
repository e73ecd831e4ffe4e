/*
 * Options and environment variables made into one struct. Only this file reads TENON_*
 * variables, with secure_getenv, so that a set-user-id program takes none of them.
 */
#include "dispatcher/base/config.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/threads.h"

/* A word that a variable takes, and what it means. Lists end with a NULL word. */
typedef struct word {
  const char *text;
  int value;
} word;

static const word fallback_words[] = {{"warn", TN_FALLBACK_WARN},
                                      {"error", TN_FALLBACK_ERROR},
                                      {"allow", TN_FALLBACK_ALLOW},
                                      {NULL, 0}};
static const word log_words[] = {{"none", TN_LOG_NONE},   {"error", TN_LOG_ERROR},
                                 {"warn", TN_LOG_WARN},   {"info", TN_LOG_INFO},
                                 {"debug", TN_LOG_DEBUG}, {NULL, 0}};
static const word math_words[] = {
    {"ieee", TN_MATH_IEEE}, {"tf32", TN_MATH_TF32}, {"fast", TN_MATH_FAST}, {NULL, 0}};
/* Of the environment alone: every plugin, whatever is remembered of it. */
enum { SCAN_ANEW = TN_SCAN_OFF + 1 };
static const word scan_words[] = {
    {"child", TN_SCAN_CHILD}, {"anew", SCAN_ANEW}, {"off", TN_SCAN_OFF}, {NULL, 0}};
static const word flag_words[] = {{"0", 0}, {"1", 1}, {NULL, 0}};

static const char *variable(const char *name) {
  const char *text = secure_getenv(name);
  return text && *text ? text : NULL;
}

static void list_words(const word *words, char *text, size_t size) {
  *text = '\0';
  for (const word *w = words; w->text; w++) {
    const char *gap = w == words ? "" : w[1].text ? ", " : " or ";
    strncat(text, gap, size - strlen(text) - 1);
    strncat(text, w->text, size - strlen(text) - 1);
  }
}

/* Sets *value if the variable is set. */
static tn_status read_word(const char *name, const word *words, int *value) {
  const char *text = variable(name);
  if (!text) return TN_OK;
  for (const word *w = words; w->text; w++)
    if (strcmp(text, w->text) == 0) {
      *value = w->value;
      return TN_OK;
    }
  char takes[128];
  list_words(words, takes, sizeof takes);
  return fail(TN_ERR_INVALID_ARGUMENT, "%s is '%.80s'; it takes %s", name, text, takes);
}

/* An option that counts from `first` to `last`, with 0 (and below) for "not given",
 * beats the variable. */
static tn_status choose(const char *option, int64_t given, int64_t last, int first_value,
                        const char *name, const word *words, int *value) {
  if (given == 0) return read_word(name, words, value);
  if (given < 0 || given > last)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_options.%s is %lld; it takes 0 to %lld",
                option, (long long)given, (long long)last);
  *value = (int)given - 1 + first_value;
  return TN_OK;
}

static tn_status read_deterministic(int32_t given, bool *on) {
  if (given < -1 || given > 1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_runtime_options.deterministic is %d; it takes -1, 0 or 1", (int)given);
  int value = given == 1;
  tn_status status = given ? TN_OK : read_word("TENON_DETERMINISTIC", flag_words, &value);
  *on = value;
  return status;
}

/* Decimal digits alone; 0 for anything that is not 1 to CONFIG_MAX_THREADS. */
static uint32_t parse_threads(const char *text) {
  uint32_t n = 0;
  for (; *text >= '0' && *text <= '9' && n <= CONFIG_MAX_THREADS; text++)
    n = n * 10 + (uint32_t)(*text - '0');
  return *text || n > CONFIG_MAX_THREADS ? 0 : n;
}

static tn_status read_threads(uint32_t given, uint32_t *threads) {
  if (given > CONFIG_MAX_THREADS)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_options.num_threads is %u; it takes 0 to %d",
                given, CONFIG_MAX_THREADS);
  const char *text = given ? NULL : variable("TENON_NUM_THREADS");
  *threads = given ? given : text ? parse_threads(text) : threads_available();
  if (text && *threads == 0)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "TENON_NUM_THREADS is '%.80s'; it takes a whole number from 1 to %d", text,
                CONFIG_MAX_THREADS);
  return TN_OK;
}

/* A copy of the option, or else of the variable. *from (may be NULL) names the source. */
static tn_status read_string(const host_memory *memory, const char *option, const char *given,
                             const char *name, char **copy, const char **from) {
  bool use_option = given && *given;
  const char *text = use_option ? given : variable(name);
  if (from) *from = use_option ? option : name;
  if (!text) return TN_OK;
  *copy = host_strdup(memory, text);
  return *copy ? TN_OK
               : fail(TN_ERR_OUT_OF_MEMORY, "no memory for the %zu bytes of %s", strlen(text) + 1,
                      use_option ? option : name);
}

/* The next item between commas, without the spaces round it; NULL at the end. */
static const char *next_item(const char **list, size_t *length) {
  const char *begin = *list;
  if (!begin) return NULL;
  const char *end = begin + strcspn(begin, ",");
  *list = *end ? end + 1 : NULL;
  while (begin < end && *begin == ' ') begin++;
  while (end > begin && end[-1] == ' ') end--;
  *length = (size_t)(end - begin);
  return begin;
}

/* Why no plugin's name can match the glob; NULL if one can. */
static const char *glob_fault(const char *glob, size_t length) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-*?[]!^";
  bool open = false;
  _Static_assert(CONFIG_MAX_GLOB == 255, "the message says so");
  if (length > CONFIG_MAX_GLOB) return "globs have at most 255 bytes";
  if (length == 1 && *glob == '-') return "a name is missing";
  for (size_t i = 0; i < length; i++) {
    if (!strchr(letters, glob[i])) return "names are of a-z, 0-9, _ and -, with commas between";
    open = glob[i] == '[' || (open && glob[i] != ']');
  }
  return open ? "a ] is missing" : NULL;
}

static tn_status check_globs(const char *globs, const char *from) {
  size_t length;
  for (const char *glob; (glob = next_item(&globs, &length));) {
    const char *fault = glob_fault(glob, length);
    if (fault)
      return fail(TN_ERR_INVALID_ARGUMENT, "%s has '%.*s'; %s", from,
                  (int)(length < 40 ? length : 40), glob, fault);
  }
  return TN_OK;
}

static bool is_named_again(const char *list, const char *name, size_t length) {
  size_t other;
  for (const char *item; (item = next_item(&list, &other));)
    if (other == length && memcmp(item, name, length) == 0) return true;
  return false;
}

static tn_status check_layers(const char *layers, const char *from) {
  size_t length;
  for (const char *name; (name = next_item(&layers, &length));)
    if (length && is_named_again(layers, name, length))
      return fail(TN_ERR_INVALID_ARGUMENT, "%s names '%.*s' twice; it takes each layer once", from,
                  (int)(length < 40 ? length : 40), name);
  return TN_OK;
}

static tn_status read_strings(const host_memory *memory, const tn_runtime_options *o, config *c) {
  const char *layers_from = NULL;
  tn_status status = read_string(memory, "tn_runtime_options.device", o->device, "TENON_DEVICE",
                                 &c->device, &c->device_from);
  if (!status)
    status = read_string(memory, "tn_runtime_options.plugin_path", o->plugin_path,
                         "TENON_PLUGIN_PATH", &c->plugin_path, &c->plugin_path_from);
  if (!status)
    status = read_string(memory, "tn_runtime_options.plugins", o->plugins, "TENON_PLUGINS",
                         &c->plugins, &c->plugins_from);
  if (!status)
    status = read_string(memory, "tn_runtime_options.layers", o->layers, "TENON_LAYERS", &c->layers,
                         &layers_from);
  if (!status) status = check_globs(c->plugins, c->plugins_from);
  if (!status) status = check_layers(c->layers, layers_from);
  return status;
}

static tn_status read_choices(const tn_runtime_options *o, config *c) {
  int fallback = TN_FALLBACK_WARN, level = TN_LOG_WARN, math = TN_MATH_IEEE;
  int scan = TN_SCAN_DEFAULT;
  tn_status status = choose("fallback", o->fallback, TN_FALLBACK_ERROR, TN_FALLBACK_WARN,
                            "TENON_FALLBACK", fallback_words, &fallback);
  if (!status)
    status = choose("log_level", o->log_level, TN_LOG_DEBUG + 1, TN_LOG_NONE, "TENON_LOG",
                    log_words, &level);
  if (!status)
    status =
        choose("math", o->math, TN_MATH_FAST + 1, TN_MATH_IEEE, "TENON_MATH", math_words, &math);
  if (!status)
    status = choose("scan", o->scan, TN_SCAN_OFF, TN_SCAN_CHILD, "TENON_SCAN", scan_words, &scan);
  if (!status) status = read_deterministic(o->deterministic, &c->deterministic);
  if (!status) status = read_threads(o->num_threads, &c->num_threads);
  c->fallback = (tn_fallback)fallback;
  c->log_level = (tn_log_level)level;
  c->math = (tn_math)math;
  c->scan_anew = scan == SCAN_ANEW;
  c->scan = c->scan_anew ? TN_SCAN_CHILD : (tn_scan)scan;
  c->scan_timeout_ms = o->scan_timeout_ms ? o->scan_timeout_ms : CONFIG_SCAN_TIMEOUT_MS;
  return status;
}

/* The caller's struct may be older (shorter) or newer (longer) than ours. */
static tn_status copy_options(const tn_runtime_options *options, tn_runtime_options *copy) {
  memset(copy, 0, sizeof *copy);
  if (!options) return TN_OK;
  if (options->struct_size < offsetof(tn_runtime_options, device))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_runtime_options.struct_size is %u; it takes sizeof(tn_runtime_options)",
                options->struct_size);
  size_t known = options->struct_size < sizeof *copy ? options->struct_size : sizeof *copy;
  memcpy(copy, options, known);
  return TN_OK;
}

tn_status config_read(const host_memory *memory, const tn_runtime_options *options, config *out) {
  tn_runtime_options given;
  memset(out, 0, sizeof *out);
  tn_status status = copy_options(options, &given);
  if (!status) status = read_strings(memory, &given, out);
  if (!status) status = read_choices(&given, out);
  if (status) config_free(memory, out);
  return status;
}

void config_free(const host_memory *memory, config *c) {
  host_free(memory, c->device);
  host_free(memory, c->plugin_path);
  host_free(memory, c->plugins);
  host_free(memory, c->layers);
  memset(c, 0, sizeof *c);
}

/* pre: the glob passed check_globs; a longer one matches nothing. */
static bool glob_matches(const char *glob, size_t length, const char *name) {
  char text[CONFIG_MAX_GLOB + 1];
  if (length >= sizeof text) return false;
  memcpy(text, glob, length);
  text[length] = '\0';
  return fnmatch(text, name, 0) == 0;
}

bool config_selects(const char *patterns, const char *name) {
  bool selected = false, matched = false, only_exclusions = true;
  size_t length;
  for (const char *glob; (glob = next_item(&patterns, &length));) {
    if (length == 0) continue;
    bool exclude = *glob == '-';
    if (!exclude) only_exclusions = false;
    if (!glob_matches(glob + exclude, length - exclude, name)) continue;
    selected = !exclude;
    matched = true;
  }
  return matched ? selected : only_exclusions;
}

bool config_matches(const char *glob, const char *name) {
  return glob_matches(glob, strlen(glob), name);
}

bool config_next_glob(const char **rest, char glob[CONFIG_MAX_GLOB + 1]) {
  size_t length;
  for (const char *item; (item = next_item(rest, &length));) {
    if (length == 0 || length > CONFIG_MAX_GLOB) continue;
    memcpy(glob, item, length);
    glob[length] = '\0';
    return true;
  }
  return false;
}
