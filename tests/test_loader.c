/*
 * Finding, judging and opening plugins, each broken in one way, in one process that must
 * outlive them all.
 */
#include "inspect.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdarg.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ------------------------------------------------------- a host of the test --- */

static void host_log(const tn_host *host, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void host_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level, (void)format;
}

static void *host_memory_alloc(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  return host_memory_default.alloc(NULL, bytes, align);
}

static void host_memory_free(const tn_host *host, void *ptr) {
  (void)host;
  host_free(&host_memory_default, ptr);
}

static tn_status run_here(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                          void *ctx) {
  (void)host, (void)grain;
  return fn(ctx, 0, n);
}

static const tn_host host = {.struct_size = sizeof host,
                             .abi_min = TN_ABI_VERSION_MIN,
                             .abi_max = TN_ABI_VERSION,
                             .num_threads = 1,
                             .version = TN_VERSION_STRING,
                             .fail = fail,
                             .log = host_log,
                             .alloc = host_memory_alloc,
                             .free = host_memory_free,
                             .parallel_for = run_here};

static const tn_plugin *opens(const char *path) {
  const tn_plugin *plugin = NULL;
  ck_assert_msg(loader_open(path, &host, &plugin) == TN_OK, "%s: %s", path, tn_last_error());
  ck_assert_ptr_nonnull(plugin);
  return plugin;
}

static void refuses(const char *path, const char *reason) {
  const tn_plugin *plugin = NULL;
  ck_assert_msg(loader_open(path, &host, &plugin) == TN_ERR_PLUGIN_REFUSED, "%s was taken", path);
  ck_assert_ptr_null(plugin);
  message_has(reason);
}

/* ----------------------------------------------------------------- opening --- */

START_TEST(good_plugin_adds) {
  const tn_plugin *plugin = opens(FIXTURE("good"));
  ck_assert_str_eq(plugin->name, "good");
  ck_assert_uint_eq(plugin->num_kernels, 1);
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, y[3];
  int64_t shape[] = {3}, strides[] = {1};
  DLTensor t[3] = {{.data = a}, {.data = b}, {.data = y}};
  for (int i = 0; i < 3; i++) t[i].ndim = 1, t[i].shape = shape, t[i].strides = strides;
  const DLTensor *in[] = {&t[0], &t[1]};
  DLTensor *out[] = {&t[2]};
  tn_kernel_args args = {
      .struct_size = sizeof args, .num_in = 2, .num_out = 1, .in = in, .out = out, .host = &host};
  ck_assert_int_eq(plugin_kernel(plugin, 0)->run(&args), TN_OK);
  ck_assert_float_eq(y[2], 33);
  ck_assert_ptr_eq(opens(FIXTURE("good")), plugin);
}
END_TEST

START_TEST(refused_with_the_true_reason) {
  static const struct {
    const char *path, *reason;
  } cases[] = {
      {FIXTURE("no_note"), "no Tenon note"},
      {FIXTURE("no_symbol"), "exports no tn_plugin_query"},
      {FIXTURE("declines"), "declined: no flux capacitor on a bicycle"},
      {FIXTURE("silent"), "gave no reason"},
      {FIXTURE("too_new"), "built for ABI 900..901, this host serves 1..1"},
      {FIXTURE("flavoured"), "built with MemorySanitizer"},
      {FIXTURE("past"), "its kernel struct has 32 bytes, ABI version 1 has 96"},
      {FIXTURE("misnamed"), "it calls itself 'somebody-else', its note calls it 'misnamed'"},
      {FIXTURE("needs_absent"), "needs libtenon-absent.so.7, not found"},
      {FIXTURE("undefined"), "undefined symbol: nobody_defines_this"},
      {FIXTURE("null_run"), "kernel row 1 (n.sub) has no run function"},
      {FIXTURE("stack"), "executable stack"},
      {FIXTURE_DIR "/libabsent.so", "no Tenon note"},
      {FIXTURE_DIR, "is a folder"},
      {"/dev/null", "no regular file"},
      {"/dev/zero", "no regular file"},
      {FIXTURE("nowhere"), "No such file"},
      {"libtenon-good.so", "not an absolute path"},
      {"./libtenon-good.so", "not an absolute path"},
      {"", "not an absolute path"},
      {NULL, "not an absolute path"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuses(cases[i].path, cases[i].reason);
  opens(FIXTURE("good"));
}
END_TEST

START_TEST(the_reason_does_not_repeat_the_path) {
  refuses(FIXTURE("undefined"), "could not be loaded: undefined symbol");
  ck_assert_ptr_null(strstr(tn_last_error(), "libtenon-undefined"));
}
END_TEST

START_TEST(an_old_message_is_no_reason) {
  fail(TN_ERR_INTERNAL, "something else");
  refuses(FIXTURE("silent"), "gave no reason");
}
END_TEST

START_TEST(from_the_future) {
  const tn_plugin *plugin = opens(FIXTURE("future"));
  ck_assert_uint_gt(plugin->struct_size, sizeof *plugin);
  ck_assert_uint_gt(plugin->kernels->struct_size, sizeof(tn_kernel));
  ck_assert_str_eq(plugin_kernel(plugin, 0)->device_type, "future");
  ck_assert_str_eq(plugin_kernel(plugin, 1)->device_type, "later");
}
END_TEST

START_TEST(opening_is_the_runtimes_business) {
  const tn_plugin *plugin = opens(FIXTURE("fails_open"));
  void *context = NULL;
  ck_assert_int_eq(plugin->open(&host, &context), TN_ERR_BACKEND);
  message_has("on holiday");
  ck_assert_str_eq(opens(FIXTURE("twin"))->name, "good");
}
END_TEST

START_TEST(floating_point_environment) {
  static volatile float tiny = 1e-39f, one = 1, three = 3;
  float quotient = one / three;
  fesetround(FE_DOWNWARD);
  opens(FIXTURE("good"));
  ck_assert_int_eq(fegetround(), FE_DOWNWARD);
  fesetround(FE_TONEAREST);
  feclearexcept(FE_ALL_EXCEPT);
#if defined(__x86_64__)
  unsigned mxcsr = _mm_getcsr();
#endif
  opens(FIXTURE("rounding"));
#if defined(__x86_64__)
  ck_assert_uint_eq(_mm_getcsr(), mxcsr);
#endif
  ck_assert_int_eq(fegetround(), FE_TONEAREST);
  ck_assert(tiny * one == tiny && tiny * one != 0);
  ck_assert(one / three == quotient);
}
END_TEST

/* ------------------------------------------------ what was checked is loaded --- */

/* What happens between the loader's last look at the path and ld.so's, and after that. */
static void (*before_dlopen)(void), (*after_dlopen)(void);

void *dlopen(const char *file, int mode) {
  void *(*real)(const char *, int);
  void *symbol = dlsym(RTLD_NEXT, "dlopen");
  memcpy(&real, &symbol, sizeof real);
  bool loads = !(mode & RTLD_NOLOAD);
  if (loads && before_dlopen) before_dlopen();
  void *library = real(file, mode);
  if (loads && after_dlopen) after_dlopen();
  return library;
}

/* Loads what was inspected, after `meanwhile`. */
static void refuses_after(const char *path, void (*meanwhile)(const char *path)) {
  tn_plugin_note note;
  file_identity file;
  const tn_plugin *plugin = NULL;
  ck_assert_int_eq(loader_inspect(path, &file, &note), TN_OK);
  if (meanwhile) meanwhile(path);
  ck_assert_int_eq(loader_load(path, &file, &note, &host, &plugin), TN_ERR_PLUGIN_REFUSED);
  ck_assert_ptr_null(plugin);
  message_has("its file was changed or replaced while it was loaded");
}

static void replace_file(const char *path) {
  ck_assert_int_eq(rename(copy_fixture(FIXTURE("future"), "libtenon-other.so"), path), 0);
}

static void append_byte(const char *path) {
  FILE *file = fopen(path, "ab");
  fputc(0, file);
  fclose(file);
}

START_TEST(replaced_after_the_check) {
  static void (*const deeds[])(const char *) = {replace_file, append_byte};
  for (size_t i = 0; i < 2; i++) {
    const char *path = copy_fixture(FIXTURE("good"), i ? "libtenon-a.so" : "libtenon-r.so");
    refuses_after(path, deeds[i]);
    ck_assert_ptr_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD)); /* and no line of it has run */
  }
}
END_TEST

static void point_to(const char *target) {
  ck_assert_int_eq(symlink(scratch_path(target), scratch_path("link")), 0);
  ck_assert_int_eq(rename(scratch_path("link"), scratch_path("libtenon-p.so")), 0);
}
static void point_to_other(void) { point_to("other"); }
static void point_to_good(void) { point_to("good"); }

START_TEST(replaced_for_a_moment) {
  copy_fixture(FIXTURE("good"), "good");
  copy_fixture(FIXTURE("future"), "other");
  point_to_good();
  before_dlopen = point_to_other, after_dlopen = point_to_good;
  refuses_after(scratch_path("libtenon-p.so"), NULL);
  before_dlopen = after_dlopen = NULL;
}
END_TEST

START_TEST(replaced_when_it_is_loaded_already) {
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-once.so");
  const tn_plugin *plugin = opens(path);
  ck_assert_ptr_eq(opens(copy_fixture(FIXTURE("good"), "libtenon-once.so")), plugin);
}
END_TEST

/* ---------------------------------------------------------------- survival --- */

START_TEST(truncated_at_64_lengths) {
  size_t size;
  unsigned char *bytes = read_file(FIXTURE("good"), &size);
  for (size_t i = 0; i < 64; i++)
    refuses(write_file("libtenon-cut.so", bytes, size * i / 64), i ? "cut short" : "empty");
  free(bytes);
  opens(FIXTURE("good"));
}
END_TEST

START_TEST(no_descriptor_leaks) {
  int before = dup(0);
  close(before);
  for (int i = 0; i < 50; i++) {
    refuses(FIXTURE("past"), "kernel struct");
    refuses(FIXTURE("too_new"), "ABI");
    refuses(FIXTURE("needs_absent"), "not found");
    refuses(FIXTURE_DIR, "folder");
    opens(FIXTURE("good"));
  }
  int after = dup(0);
  close(after);
  ck_assert_int_eq(before, after);
}
END_TEST

/* --------------------------------------------------------------- discovery --- */

static config path_config(const char *path) {
  return (config){.plugin_path = (char *)(uintptr_t)path, .plugin_path_from = "the test"};
}

/* Discovers, and returns how many candidates came from the path. */
static size_t discover(const char *path, candidate_list *list) {
  config c = path_config(path);
  size_t count = 0;
  ck_assert_int_eq(loader_discover(&host_memory_default, &c, list), TN_OK);
  while (count < list->count && strcmp(list->items[count].origin, "the test") == 0) count++;
  return count;
}

/* The candidates of the path must be these names in the scratch folder; "=text" is meant
 * as it is. */
static void lists(const char *path, const char *const *names) {
  candidate_list list;
  size_t count = discover(path, &list), i = 0;
  for (; names[i]; i++) {
    ck_assert_uint_lt(i, count);
    const char *full = *names[i] == '=' ? names[i] + 1 : scratch_path(names[i]);
    ck_assert_str_eq(list.items[i].path, full);
  }
  ck_assert_uint_eq(count, i);
  candidate_list_free(&host_memory_default, &list);
  candidate_list_free(&host_memory_default, &list);
}
#define LISTS(path, ...) lists(path, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(folders_are_sorted) {
  static const char *const names[] = {"libtenon-b.so",     "libtenon-B.so", "libtenon-a.so",
                                      "libtenon-a.so.1",   "libother.so",   "libtenon.so",
                                      ".libtenon-x.so",    "libtenon-.so",  "libtenon-c.so.bak",
                                      "xlibtenon-plug.so", "libtenon-_.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) write_file(names[i], names[i], 5);
  LISTS(scratch, "libtenon-.so", "libtenon-B.so", "libtenon-_.so", "libtenon-a.so",
        "libtenon-b.so");
}
END_TEST

START_TEST(files_and_duplicates) {
  write_file("libtenon-a.so", "a", 1);
  write_file("other", "b", 1);
  ck_assert_int_eq(symlink("libtenon-a.so", scratch_path("libtenon-z.so")), 0);
  ck_assert_int_eq(link(scratch_path("other"), scratch_path("libtenon-y.so")), 0);
  char path[512];
  snprintf(path, sizeof path, ":%s/other::%s:%s/./libtenon-a.so:", scratch, scratch, scratch);
  LISTS(path, "other", "libtenon-a.so");
}
END_TEST

START_TEST(odd_entries_become_candidates) {
  char path[512];
  ck_assert_int_eq(mkdir(scratch_path("void"), 0700), 0);
  snprintf(path, sizeof path, "plugins:./x.so:/nowhere/else:%s/void:plugins", scratch);
  LISTS(path, "=plugins", "=./x.so", "=/nowhere/else", "void");
}
END_TEST

START_TEST(the_working_folder_is_not_searched) {
  copy_fixture(FIXTURE("good"), "libtenon-here.so");
  ck_assert_int_eq(chdir(scratch), 0);
  ck_assert_int_eq(mkdir("tenon", 0755), 0);
  copy_fixture(FIXTURE("good"), "tenon/libtenon-here.so");
  candidate_list list;
  discover(NULL, &list);
  for (size_t i = 0; i < list.count; i++) {
    ck_assert_int_eq(*list.items[i].path, '/');
    ck_assert_ptr_null(strstr(list.items[i].path, "libtenon-here"));
  }
  candidate_list_free(&host_memory_default, &list);
  LISTS(".", "=.");
}
END_TEST

/* Memory that fails at the allocation numbered `left`. */
static int left, alive;

static void *scarce_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (left-- == 0) return NULL;
  alive++;
  return host_memory_default.alloc(NULL, bytes, align);
}

static void scarce_free(void *user, void *ptr) {
  (void)user;
  alive--;
  host_memory_default.free(NULL, ptr);
}

START_TEST(no_memory) {
  const host_memory scarce = {scarce_alloc, scarce_free, NULL};
  char name[32];
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "libtenon-%02d.so", i);
    write_file(name, "x", 1);
  }
  config c = path_config(scratch);
  candidate_list list;
  int n = 0;
  for (tn_status status = TN_ERR_OUT_OF_MEMORY; status; n++) {
    left = n;
    status = loader_discover(&scarce, &c, &list);
    ck_assert(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
    if (status) ck_assert_int_eq(alive, 0);
    if (status) ck_assert_uint_eq(list.count, 0);
  }
  ck_assert_int_gt(n, 40);
  candidate_list_free(&scarce, &list);
  ck_assert_int_eq(alive, 0);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *const *tests, size_t count) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  for (size_t i = 0; i < count; i++) tcase_add_test(tc, tests[i]);
  suite_add_tcase(suite, tc);
}
#define CASE(name, ...)                                                                            \
  add_case(suite, name, (const TTest *const[]){__VA_ARGS__},                                       \
           sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

int main(void) {
  Suite *suite = suite_create("loader");
  CASE("opening", good_plugin_adds, refused_with_the_true_reason,
       the_reason_does_not_repeat_the_path, an_old_message_is_no_reason, from_the_future,
       opening_is_the_runtimes_business, floating_point_environment);
  CASE("identity", replaced_after_the_check, replaced_for_a_moment,
       replaced_when_it_is_loaded_already);
  CASE("survival", truncated_at_64_lengths, no_descriptor_leaks);
  CASE("discovery", folders_are_sorted, files_and_duplicates, odd_entries_become_candidates,
       the_working_folder_is_not_searched, no_memory);
  return run_runner(srunner_create(suite));
}
