/* Options, variables, and which of them wins. */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/config.h"
#include "dispatcher/base/threads.h"
#include "tests/suite.h"

static const char *const variables[] = {"TENON_DEVICE", "TENON_PLUGIN_PATH",   "TENON_PLUGINS",
                                        "TENON_LAYERS", "TENON_FALLBACK",      "TENON_LOG",
                                        "TENON_MATH",   "TENON_DETERMINISTIC", "TENON_NUM_THREADS",
                                        "TENON_SCAN"};

static void clear_variables(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
}

/* Memory that fails once `left` allocations have been had, and counts what is alive. */
static int left, alive;

static void *scarce_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (left-- <= 0) return NULL;
  alive++;
  return host_memory_default.alloc(NULL, bytes, align);
}

static void scarce_free(void *user, void *ptr) {
  (void)user;
  alive--;
  host_memory_default.free(NULL, ptr);
}

static const host_memory scarce = {scarce_alloc, scarce_free, NULL};

static config read_ok(const tn_runtime_options *options) {
  config c;
  ck_assert_msg(config_read(&host_memory_default, options, &c) == TN_OK, "%s", tn_last_error());
  return c;
}

/* Fails, names every word of the list (which ends with NULL), and leaves nothing. */
static void refuses(const tn_runtime_options *options, const char *const *words) {
  static const config empty;
  config c;
  memset(&c, 0xee, sizeof c);
  ck_assert_int_eq(config_read(&host_memory_default, options, &c), TN_ERR_INVALID_ARGUMENT);
  for (; *words; words++)
    ck_assert_msg(strstr(tn_last_error(), *words) != NULL, "'%s' is not in: %s", *words,
                  tn_last_error());
  ck_assert_mem_eq(&c, &empty, sizeof c);
}
#define REFUSES(options, ...) refuses(options, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(defaults) {
  config c = read_ok(NULL);
  ck_assert_ptr_null(c.device);
  ck_assert_ptr_null(c.plugin_path);
  ck_assert_ptr_null(c.plugins);
  ck_assert_ptr_null(c.layers);
  ck_assert_int_eq(c.fallback, TN_FALLBACK_WARN);
  ck_assert_int_eq(c.log_level, TN_LOG_WARN);
  ck_assert_int_eq(c.math, TN_MATH_IEEE);
  ck_assert(!c.deterministic);
  ck_assert_uint_eq(c.num_threads, threads_available());
  ck_assert_int_eq(c.scan, TN_SCAN_DEFAULT);
  ck_assert_uint_eq(c.scan_timeout_ms, 5000);
  config_free(&host_memory_default, &c);
  config_free(&host_memory_default, &c);
}
END_TEST

static void set_variables(void) {
  setenv("TENON_DEVICE", " cuda:1 ,,CPU", 1);
  setenv("TENON_PLUGIN_PATH", "/a:/b", 1);
  setenv("TENON_PLUGINS", "*,-cuda", 1);
  setenv("TENON_LAYERS", "trace", 1);
  setenv("TENON_FALLBACK", "error", 1);
  setenv("TENON_LOG", "debug", 1);
  setenv("TENON_MATH", "tf32", 1);
  setenv("TENON_DETERMINISTIC", "1", 1);
  setenv("TENON_NUM_THREADS", "17", 1);
  setenv("TENON_SCAN", "child", 1);
}

START_TEST(variables_are_read) {
  set_variables();
  config c = read_ok(NULL);
  ck_assert_str_eq(c.device, " cuda:1 ,,CPU");
  ck_assert_str_eq(c.device_from, "TENON_DEVICE");
  ck_assert_str_eq(c.plugin_path, "/a:/b");
  ck_assert_str_eq(c.plugin_path_from, "TENON_PLUGIN_PATH");
  ck_assert_str_eq(c.plugins, "*,-cuda");
  ck_assert_str_eq(c.layers, "trace");
  ck_assert_int_eq(c.fallback, TN_FALLBACK_ERROR);
  ck_assert_int_eq(c.log_level, TN_LOG_DEBUG);
  ck_assert_int_eq(c.math, TN_MATH_TF32);
  ck_assert(c.deterministic);
  ck_assert_uint_eq(c.num_threads, 17);
  ck_assert_int_eq(c.scan, TN_SCAN_CHILD);
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(options_beat_variables) {
  set_variables();
  tn_runtime_options o = {.struct_size = sizeof o,
                          .device = "cpu",
                          .plugin_path = "/c",
                          .plugins = "cpu",
                          .layers = "validate",
                          .fallback = TN_FALLBACK_ALLOW,
                          .log_level = TN_LOG_NONE + 1,
                          .math = TN_MATH_FAST + 1,
                          .deterministic = -1,
                          .num_threads = 2,
                          .scan = TN_SCAN_OFF,
                          .scan_timeout_ms = 70};
  config c = read_ok(&o);
  ck_assert_str_eq(c.device, "cpu");
  ck_assert_str_eq(c.device_from, "tn_runtime_options.device");
  ck_assert_str_eq(c.plugin_path, "/c");
  ck_assert_str_eq(c.plugin_path_from, "tn_runtime_options.plugin_path");
  ck_assert_str_eq(c.plugins, "cpu");
  ck_assert_str_eq(c.layers, "validate");
  ck_assert_int_eq(c.fallback, TN_FALLBACK_ALLOW);
  ck_assert_int_eq(c.log_level, TN_LOG_NONE);
  ck_assert_int_eq(c.math, TN_MATH_FAST);
  ck_assert(!c.deterministic);
  ck_assert_uint_eq(c.num_threads, 2);
  ck_assert_int_eq(c.scan, TN_SCAN_OFF);
  ck_assert_uint_eq(c.scan_timeout_ms, 70);
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(a_beaten_variable_may_be_malformed) {
  setenv("TENON_MATH", "quick", 1);
  tn_runtime_options o = {.struct_size = sizeof o, .math = TN_MATH_IEEE + 1};
  config c = read_ok(&o);
  ck_assert_int_eq(c.math, TN_MATH_IEEE);
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(empty_means_unset) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) setenv(variables[i], "", 1);
  tn_runtime_options o = {.struct_size = sizeof o, .device = "", .plugin_path = ""};
  config c = read_ok(&o);
  ck_assert_ptr_null(c.device);
  ck_assert_ptr_null(c.plugin_path);
  ck_assert_ptr_null(c.plugins);
  ck_assert_int_eq(c.fallback, TN_FALLBACK_WARN);
  ck_assert_uint_eq(c.num_threads, threads_available());
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(malformed_variables) {
  static const struct {
    const char *name, *values[8], *takes[2];
  } cases[] = {
      {"TENON_FALLBACK", {"never", "WARN", "warn ", "1"}, {"warn", "allow"}},
      {"TENON_LOG", {"loud", "2", "warn,info"}, {"none", "debug"}},
      {"TENON_MATH", {"fp16", "ieee754", "-"}, {"ieee", "fast"}},
      {"TENON_SCAN", {"on", "0", "never"}, {"child", "off"}},
      {"TENON_DETERMINISTIC", {"yes", "2", "-1", "01"}, {"0", "1"}},
      {"TENON_NUM_THREADS",
       {"0", "-1", "4097", "4 ", "two", "0x10", "99999999999999999999"},
       {"1", "4096"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t v = 0; v < 8 && cases[i].values[v]; v++) {
      setenv(cases[i].name, cases[i].values[v], 1);
      REFUSES(NULL, cases[i].name, cases[i].values[v], cases[i].takes[0], cases[i].takes[1]);
    }
    unsetenv(cases[i].name);
  }
}
END_TEST

START_TEST(malformed_lists) {
  static const struct {
    const char *name, *value, *takes;
  } cases[] = {
      {"TENON_PLUGINS", "-CUDA", "names are of a-z"},
      {"TENON_PLUGINS", "cpu:cuda", "names are of a-z"},
      {"TENON_PLUGINS", "cpu cuda", "names are of a-z"},
      {"TENON_PLUGINS", "libtenon-cpu.so", "names are of a-z"},
      {"TENON_PLUGINS", "-", "a name is missing"},
      {"TENON_PLUGINS", "[cpu", "a ] is missing"},
      {"TENON_LAYERS", "trace,validate, trace", "'trace' twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setenv(cases[i].name, cases[i].value, 1);
    REFUSES(NULL, cases[i].name, cases[i].takes);
    unsetenv(cases[i].name);
  }
  tn_runtime_options o = {.struct_size = sizeof o, .plugins = "*,CPU"};
  REFUSES(&o, "tn_runtime_options.plugins", "'CPU'");
  o = (tn_runtime_options){.struct_size = sizeof o, .layers = "a,a"};
  REFUSES(&o, "tn_runtime_options.layers", "'a' twice");
  static const char *const sound[] = {"*", "[!c]*", "[a-z]?u-*, -cuda", " , ,", "-*"};
  for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
    setenv("TENON_PLUGINS", sound[i], 1);
    config c = read_ok(NULL);
    ck_assert_str_eq(c.plugins_from, "TENON_PLUGINS");
    config_free(&host_memory_default, &c);
  }
}
END_TEST

START_TEST(threads_at_the_ends) {
  setenv("TENON_NUM_THREADS", "1", 1);
  config c = read_ok(NULL);
  ck_assert_uint_eq(c.num_threads, 1);
  config_free(&host_memory_default, &c);
  setenv("TENON_NUM_THREADS", "04096", 1);
  c = read_ok(NULL);
  ck_assert_uint_eq(c.num_threads, 4096);
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(malformed_options) {
  tn_runtime_options good = {.struct_size = sizeof good}, o = good;
  o.fallback = 4;
  REFUSES(&o, "fallback", "4");
  o = good, o.log_level = 6;
  REFUSES(&o, "log_level", "6");
  o = good, o.math = -1;
  REFUSES(&o, "math", "-1");
  o = good, o.math = INT32_MAX;
  REFUSES(&o, "math");
  o = good, o.deterministic = 2;
  REFUSES(&o, "deterministic", "2");
  o = good, o.num_threads = 4097;
  REFUSES(&o, "num_threads", "4097");
  o = good, o.struct_size = 0;
  REFUSES(&o, "struct_size");
}
END_TEST

START_TEST(options_from_another_version) {
  /* An older caller's struct ends after `device`; what lies behind is not ours. */
  tn_runtime_options o = {.struct_size = offsetof(tn_runtime_options, plugin_path),
                          .device = "cpu",
                          .plugin_path = (const char *)16,
                          .math = 77};
  config c = read_ok(&o);
  ck_assert_str_eq(c.device, "cpu");
  ck_assert_ptr_null(c.plugin_path);
  config_free(&host_memory_default, &c);
  struct {
    tn_runtime_options now;
    char more[64];
  } later = {{.struct_size = sizeof later, .device = "cpu"}, {1}};
  c = read_ok(&later.now);
  ck_assert_str_eq(c.device, "cpu");
  config_free(&host_memory_default, &c);
}
END_TEST

START_TEST(no_memory) {
  tn_runtime_options o = {
      .struct_size = sizeof o, .device = "a", .plugin_path = "b", .plugins = "c", .layers = "d"};
  for (int n = 0; n < 4; n++) {
    config c;
    left = n;
    ck_assert_int_eq(config_read(&scarce, &o, &c), TN_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_null(c.device);
    ck_assert_int_eq(alive, 0);
  }
  config c;
  left = 4;
  ck_assert_int_eq(config_read(&scarce, &o, &c), TN_OK);
  config_free(&scarce, &c);
  ck_assert_int_eq(alive, 0);
}
END_TEST

START_TEST(selection) {
  static const struct {
    const char *patterns, *name;
    bool in;
  } cases[] = {
      {NULL, "cpu", true},
      {"", "cpu", true},
      {" , ,", "cpu", true},
      {"cpu", "cpu", true},
      {"cpu", "cuda", false},
      {"c*", "cuda", true},
      {"cpu,cuda", "cuda", true},
      {"-cuda", "cuda", false},
      {"-cuda", "cpu", true},
      {"-cuda,-opencl", "cpu", true},
      {"*,-cuda", "cuda", false},
      {"-cuda,*", "cuda", true},
      {"*,-cuda*,cuda-mine", "cuda-mine", true},
      {"*,-cuda*,cuda-mine", "cuda-other", false},
      {"-cuda,cpu", "reference", false},
      {" cpu , reference ", "reference", true},
      {"[rc]*", "reference", true},
      {"c?u", "cpu", true},
      {"-", "cpu", true},
      {"-*", "cpu", false},
      {"CPU", "cpu", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_msg(config_selects(cases[i].patterns, cases[i].name) == cases[i].in, "'%s' and %s",
                  cases[i].patterns ? cases[i].patterns : "(null)", cases[i].name);
}
END_TEST

START_TEST(long_globs) {
  char globs[600];
  memset(globs, 'x', sizeof globs - 1);
  globs[sizeof globs - 1] = '\0';
  ck_assert(!config_selects(globs, "cpu"));
  setenv("TENON_PLUGINS", globs, 1);
  REFUSES(NULL, "TENON_PLUGINS", "255");
  globs[200] = globs[400] = ',';
  setenv("TENON_PLUGINS", globs, 1);
  config c = read_ok(NULL);
  config_free(&host_memory_default, &c);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, clear_variables, clear_variables);
  tcase_add_test(tc, defaults);
  tcase_add_test(tc, variables_are_read);
  tcase_add_test(tc, options_beat_variables);
  tcase_add_test(tc, a_beaten_variable_may_be_malformed);
  tcase_add_test(tc, empty_means_unset);
  tcase_add_test(tc, malformed_variables);
  tcase_add_test(tc, malformed_lists);
  tcase_add_test(tc, threads_at_the_ends);
  tcase_add_test(tc, malformed_options);
  tcase_add_test(tc, options_from_another_version);
  tcase_add_test(tc, no_memory);
  tcase_add_test(tc, selection);
  tcase_add_test(tc, long_globs);
}

int main(void) { return run_suite("config", add_tests); }
