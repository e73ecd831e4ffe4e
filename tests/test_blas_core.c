/*
 * OpenBLAS that does not know its processor: names of cores, loading the library with the kernels
 * of another, and, beside a false library in the library path, how the cpu device mends and says
 * it. Each case runs in a process of its own, as check does by default.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "kernels/cpu/matmul/blas.h"
#include "kernels/cpu/matmul/blas_core.h"
#include "tests/suite.h"

#define SONAME "libopenblas.so.0"

static const char *core_of(void *library) {
  void *found = dlsym(library, "openblas_get_corename");
  char *(*core)(void);
  memcpy(&core, &found, sizeof core);
  return found ? core() : "";
}

START_TEST(cores_have_their_vectors) {
  static const struct {
    const char *core;
    blas_vectors has;
    const char *better;
  } cases[] = {{"Prescott", BLAS_AVX512, "SkylakeX"}, {"Prescott", BLAS_AVX2, "Haswell"},
               {"prescott", BLAS_AVX2, "Haswell"},    {"Nehalem", BLAS_SSE, NULL},
               {"Haswell", BLAS_AVX512, "SkylakeX"},  {"Zen", BLAS_AVX512, "SkylakeX"},
               {"Haswell", BLAS_AVX2, NULL},          {"SkylakeX", BLAS_AVX512, NULL},
               {"SapphireRapids", BLAS_AVX512, NULL}, {"neoversen1", BLAS_SSE, NULL},
               {"one to come", BLAS_AVX512, NULL},    {"", BLAS_AVX512, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *better = blas_core_better(cases[i].core, cases[i].has);
    ck_assert_msg(!better == !cases[i].better, "%s", cases[i].core);
    if (better) ck_assert_str_eq(better, cases[i].better);
  }
}
END_TEST

/* The library that is there, whichever it is, goes and comes back with other kernels. */
START_TEST(a_library_is_loaded_as_another_core) {
  const int flags = RTLD_NOW | RTLD_LOCAL;
  unsetenv("OPENBLAS_CORETYPE");
  void *library = blas_core_load(SONAME, flags, NULL);
  if (!library || blas_core_processor() == BLAS_SSE) return;
  char **before = environ;
  ck_assert_int_eq(dlclose(library), 0);
  ck_assert_ptr_null(dlopen(SONAME, flags | RTLD_NOLOAD));
  library = blas_core_load(SONAME, flags, "Haswell");
  ck_assert_ptr_nonnull(library);
  ck_assert(!strcasecmp(core_of(library), "Haswell"));
  ck_assert_ptr_eq(environ, before);
  ck_assert_ptr_null(getenv("OPENBLAS_CORETYPE"));
}
END_TEST

/* ------------------------------------------------- beside the false library --- */

static char logged[512];

static void keep(const tn_host *host, tn_log_level level, const char *format, ...) {
  va_list args;
  (void)host, (void)level;
  va_start(args, format);
  vsnprintf(logged, sizeof logged, format, args);
  va_end(args);
}
static tn_status give_code(tn_status code, const char *format, ...) {
  (void)format;
  return code;
}
static const tn_host host = {
    .struct_size = sizeof host, .num_threads = 1, .fail = give_code, .log = keep};

/* The loader's dlopen, which fails for the library while the environment names a core and the test
 * wants it to. */
static bool fails_with_core;

void *dlopen(const char *file, int flags) {
  void *(*real)(const char *, int), *found = dlsym(RTLD_NEXT, "dlopen");
  memcpy(&real, &found, sizeof real);
  const bool failing = fails_with_core && file && !(flags & RTLD_NOLOAD) &&
                       strcmp(file, SONAME) == 0 && getenv("OPENBLAS_CORETYPE");
  return real(failing ? "/dev/null/" SONAME : file, flags);
}

static bool is_false_one(void) { return getenv("TEST_FALSE_OPENBLAS") != NULL; }

/* What the device says of its BLAS once it is open. */
static const char *words(void) {
  static char text[128];
  cpu_blas_describe(text, sizeof text);
  ck_assert_str_eq(text, "");
  ck_assert_int_eq(cpu_blas_open(&host), TN_OK);
  cpu_blas_describe(text, sizeof text);
  return text;
}

START_TEST(an_unknown_processor_is_mended) {
  const char *better = blas_core_better("Prescott", blas_core_processor());
  char expected[128];
  if (!is_false_one() || !better || !blas_core_is_alone()) return;
  unsetenv("OPENBLAS_CORETYPE");
  snprintf(expected, sizeof expected, "openblas:%s openblas-took:Prescott", better);
  ck_assert_str_eq(words(), expected);
  ck_assert_ptr_nonnull(strstr(logged, "took the processor for Prescott"));
  ck_assert_ptr_null(getenv("OPENBLAS_CORETYPE"));
}
END_TEST

START_TEST(a_library_that_fails_to_load_again_stays_as_it_was) {
  const char *better = blas_core_better("Prescott", blas_core_processor());
  char expected[128];
  if (!is_false_one() || !better || !blas_core_is_alone()) return;
  unsetenv("OPENBLAS_CORETYPE");
  fails_with_core = true;
  snprintf(expected, sizeof expected, "openblas:Prescott openblas-better:%s openblas-failed:%s",
           better, better);
  ck_assert_str_eq(words(), expected);
  ck_assert_ptr_nonnull(strstr(logged, "cannot be loaded again"));
  ck_assert_ptr_nonnull(strstr(logged, "/dev/null/" SONAME));
  ck_assert(cpu_blas.sgemm != NULL);
  ck_assert_ptr_null(getenv("OPENBLAS_CORETYPE"));
}
END_TEST

/* What the library's constructor does to the environment stays, and no variable of ours does. */
START_TEST(constructors_may_set_variables) {
  const char *better = blas_core_better("Prescott", blas_core_processor());
  if (!is_false_one() || !better || !blas_core_is_alone()) return;
  unsetenv("OPENBLAS_CORETYPE");
  setenv("TEST_OPENBLAS_SETS", "1", 1);
  ck_assert_ptr_nonnull(strstr(words(), "openblas-took:Prescott"));
  ck_assert_ptr_nonnull(getenv("TEST_OPENBLAS_SET"));
  ck_assert_ptr_null(getenv("OPENBLAS_CORETYPE"));
}
END_TEST

static atomic_bool done;
static void *wait_until_done(void *arg) {
  while (!atomic_load(&done)) usleep(1000);
  return arg;
}

/* Another thread may be in getenv or setenv: the environment is left alone beside it. */
START_TEST(threads_keep_the_environment_as_it_is) {
  const char *better = blas_core_better("Prescott", blas_core_processor());
  char expected[128];
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, wait_until_done, NULL), 0);
  ck_assert(!blas_core_is_alone());
  if (is_false_one() && better) {
    unsetenv("OPENBLAS_CORETYPE");
    snprintf(expected, sizeof expected, "openblas:Prescott openblas-better:%s", better);
    ck_assert_str_eq(words(), expected);
    ck_assert_ptr_nonnull(strstr(logged, "its kernels for Prescott"));
  }
  atomic_store(&done, true);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(a_users_choice_is_kept) {
  if (!is_false_one() || blas_core_processor() != BLAS_AVX512) return;
  setenv("OPENBLAS_CORETYPE", "Zen", 1);
  ck_assert_str_eq(words(), "openblas:Zen openblas-better:SkylakeX");
  ck_assert_ptr_nonnull(strstr(logged, "OPENBLAS_CORETYPE=SkylakeX"));
}
END_TEST

START_TEST(a_library_of_the_host_program_is_left_alone) {
  const char *better = blas_core_better("Prescott", blas_core_processor());
  char expected[128];
  if (!is_false_one() || !better) return;
  unsetenv("OPENBLAS_CORETYPE");
  ck_assert_ptr_nonnull(dlopen(SONAME, RTLD_NOW | RTLD_GLOBAL));
  snprintf(expected, sizeof expected, "openblas:Prescott openblas-better:%s", better);
  ck_assert_str_eq(words(), expected);
  ck_assert_ptr_nonnull(strstr(logged, "its kernels for Prescott"));
}
END_TEST

static void add_tests(TCase *tests) {
  tcase_add_test(tests, cores_have_their_vectors);
  tcase_add_test(tests, a_library_is_loaded_as_another_core);
  tcase_add_test(tests, an_unknown_processor_is_mended);
  tcase_add_test(tests, a_library_that_fails_to_load_again_stays_as_it_was);
  tcase_add_test(tests, constructors_may_set_variables);
  tcase_add_test(tests, threads_keep_the_environment_as_it_is);
  tcase_add_test(tests, a_users_choice_is_kept);
  tcase_add_test(tests, a_library_of_the_host_program_is_left_alone);
}

int main(void) { return run_suite("blas_core", add_tests); }
