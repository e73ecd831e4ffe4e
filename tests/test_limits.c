/*
 * Processes that may not have what they want: no further process or thread, little address
 * space, no memory from malloc. Opening a device and computing on it then works with less or
 * fails with a reason; it neither ends the host nor hangs. Each case runs in a process of its
 * own, because libraries keep what they once took.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

#ifdef __has_feature
#define FEATURE(name) __has_feature(name)
#else
#define FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || FEATURE(address_sanitizer) || \
    FEATURE(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { CANNOT = 77, REFUSED = 3, PATIENCE_S = 120 };

/* --------------------------------------------------------------- in a child --- */

/* The status that `body` ends with in a process of its own; fails where a signal ended it. */
static int in_child(void (*body)(const void *), const void *arg) {
  int status = 0;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    alarm(PATIENCE_S);
    body(arg);
    fflush(stdout);
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

/* Leaves the child with a word for the log. */
#define must(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tn_last_error());                  \
      fflush(stdout);                                                                              \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

static int count_threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *e; (e = readdir(tasks));) count += e->d_name[0] != '.';
  closedir(tasks);
  return count;
}

/* Whether so many threads are there. One that ended is listed until the system has taken it away,
   which can be after pthread_join, so a count that differs gets a moment to become right. */
static bool threads_are(int count) {
  for (int tries = 0; tries < 2000 && count_threads() != count; tries++) usleep(1000);
  return count_threads() == count;
}

/* What was said of threads. */
static char told[256];
static void keep_line(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  if (strstr(line, "threads could be started")) snprintf(told, sizeof told, "%s", line);
}

static tn_runtime *open_cpu(uint32_t threads, const tn_parallel *parallel) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cpu,reference",
                                .device = "cpu",
                                .num_threads = threads,
                                .parallel = parallel,
                                .log = keep_line};
  tn_runtime *runtime = NULL;
  return tn_runtime_open(&options, &runtime) ? NULL : runtime;
}

/* [m, k] of ones by [k, n] of ones is k everywhere. */
static void multiply(tn_runtime *runtime, int64_t m, int64_t k, int64_t n) {
  const float one = 1;
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *ones = NULL, *a = NULL, *b = NULL, *x = NULL, *w = NULL, *y = NULL;
  must(!tn_tensor_from_host(device, TN_F32, 0, NULL, &one, &ones));
  must(!tn_tensor_expand(ones, 2, SHAPE(m, k), &a) && !tn_tensor_expand(ones, 2, SHAPE(k, n), &b));
  must(!tn_tensor_contiguous(NULL, a, &x) && !tn_tensor_contiguous(NULL, b, &w));
  must(!tn_matmul(NULL, x, w, NULL, NULL, &y));
  float *values = calloc((size_t)(m * n), sizeof *values);
  must(values && !tn_tensor_to_host(y, values, (size_t)(m * n) * sizeof *values));
  for (int64_t i = 0; i < m * n; i++) must(values[i] == (float)k);
  free(values);
  tn_tensor *made[] = {ones, a, b, x, w, y};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) tn_tensor_release(made[i]);
}

static bool has_cpu(void) {
  tn_runtime *runtime = open_cpu(1, NULL);
  tn_runtime_close(runtime);
  return runtime != NULL;
}
static void look_for_cpu(const void *arg) {
  (void)arg;
  if (!has_cpu()) _exit(CANNOT);
}
static bool lacks_cpu(void) { return in_child(look_for_cpu, NULL) == CANNOT; }

/* ------------------------------------------------------------------- threads --- */

static void run_all(void *user, int64_t n, int64_t grain,
                    void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx) {
  (void)user, (void)grain;
  body(ctx, 0, n);
}

static void embed(const void *arg) {
  const tn_parallel parallel = {.run = run_all, .num_threads = 8};
  cpu_set_t before, after;
  (void)arg;
  must(!sched_getaffinity(0, sizeof before, &before));
  setenv("OPENBLAS_NUM_THREADS", "8", 1);
  const int others = count_threads();
  tn_runtime *runtime = open_cpu(0, &parallel);
  must(runtime);
  must(threads_are(others));
  multiply(runtime, 300, 300, 300);
  must(threads_are(others));
  must(!sched_getaffinity(0, sizeof after, &after) && CPU_EQUAL(&before, &after));
  tn_runtime_close(runtime);
}

static void *tell_id(void *id) {
  *(pid_t *)id = gettid();
  return NULL;
}

/* Sanitizers start a thread of their own along with a program's first. That one has left the list
   of threads when this returns. */
static void start_first_thread(void) {
  pthread_t thread;
  pid_t id = 0;
  char task[64];
  must(!pthread_create(&thread, NULL, tell_id, &id));
  pthread_join(thread, NULL);
  snprintf(task, sizeof task, "/proc/self/task/%d", (int)id);
  for (int tries = 0; tries < 2000 && !access(task, F_OK); tries++) usleep(1000);
  must(access(task, F_OK));
}

static void count_own(const void *arg) {
  (void)arg;
  start_first_thread();
  const int others = count_threads();
  tn_runtime *runtime = open_cpu(3, NULL);
  must(runtime && threads_are(others));
  multiply(runtime, 600, 600, 600);
  must(threads_are(others + 2));
  tn_runtime_close(runtime);
  must(threads_are(others));
}

/* The program has an OpenBLAS with threads of its own, which are not used from then on. */
static void count_beside_own_blas(const void *arg) {
  (void)arg;
  int (*threads)(void);
  setenv("OPENBLAS_NUM_THREADS", "4", 1);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, "openblas_get_num_threads") : NULL;
  if (!found) _exit(CANNOT);
  memcpy(&threads, &found, sizeof threads);
  start_first_thread();
  const int others = count_threads();
  tn_runtime *runtime = open_cpu(3, NULL);
  must(runtime && threads_are(others));
  must(threads() == 1);
  multiply(runtime, 600, 600, 600);
  must(threads_are(others + 2));
  tn_runtime_close(runtime);
  must(threads_are(others));
}

START_TEST(an_embedders_threads_are_all) {
  if (lacks_cpu()) return;
  ck_assert_int_eq(in_child(embed, NULL), 0);
}
END_TEST

START_TEST(workers_are_as_many_as_said) {
  if (lacks_cpu()) return;
  ck_assert_int_eq(in_child(count_own, NULL), 0);
}
END_TEST

START_TEST(threads_of_another_blas_stay_idle) {
  if (lacks_cpu()) return;
  const int status = in_child(count_beside_own_blas, NULL);
  ck_assert(status == 0 || status == CANNOT);
}
END_TEST

/* ----------------------------------------------------------------- no thread --- */

static void *nothing(void *arg) { return arg; }

/* Root may have processes beyond the limit, so this becomes nobody. */
static void use_up_processes(void) {
  const struct rlimit none = {0, 0};
  pthread_t thread;
  if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) _exit(CANNOT);
  if (setrlimit(RLIMIT_NPROC, &none)) _exit(CANNOT);
  if (pthread_create(&thread, NULL, nothing, NULL) == 0) _exit(CANNOT);
  if (access(SIM_PLUGIN, R_OK)) _exit(CANNOT);
}

static void compute_alone(const void *arg) {
  (void)arg;
  use_up_processes();
  const int others = count_threads();
  tn_runtime *runtime = open_cpu(4, NULL);
  must(runtime);
  must(!told[0]);
  multiply(runtime, 600, 600, 600);
  must(threads_are(others));
  must(strstr(told, "0 of 3 threads"));
  tn_runtime_close(runtime);
}

START_TEST(no_thread_can_be_started) {
  if (lacks_cpu()) return;
  const int status = in_child(compute_alone, NULL);
  if (status == CANNOT) puts("not tried: the limit on processes does not hold here");
  ck_assert(status == 0 || status == CANNOT);
}
END_TEST

/* --------------------------------------------------------- little address space --- */

static void limit_space(uint64_t mib) {
  const struct rlimit limit = {mib << 20, mib << 20};
  if (setrlimit(RLIMIT_AS, &limit)) _exit(CANNOT);
}

static void compute_in_little(const void *arg) {
  limit_space(*(const uint64_t *)arg);
  tn_runtime *runtime = open_cpu(2, NULL);
  if (!runtime) {
    must(strstr(tn_last_error(), "memory") || strstr(tn_last_error(), "space"));
    _exit(REFUSED);
  }
  multiply(runtime, 300, 300, 300);
  tn_runtime_close(runtime);
}

START_TEST(little_address_space) {
  static const uint64_t mib[] = {40, 60, 80, 100, 120, 160, 200, 250, 300, 330, 350, 400, 600};
  if (SANITIZED || lacks_cpu()) return;
  for (size_t i = 0; i < sizeof mib / sizeof *mib; i++) {
    const int status = in_child(compute_in_little, &mib[i]);
    ck_assert_msg(status == 0 || status == REFUSED || status == CANNOT, "at %d MiB: %d",
                  (int)mib[i], status);
  }
  const uint64_t enough = 2048;
  ck_assert_int_ne(in_child(compute_in_little, &enough), REFUSED);
}
END_TEST

static void *multiply_often(void *runtime) {
  for (int i = 0; i < 20; i++) multiply(runtime, 90, 150, 150);
  return NULL;
}

/* More callers than there is room for buffers of the BLAS: they take turns. */
static void call_from_many(const void *arg) {
  enum { CALLERS = 24 };
  pthread_t callers[CALLERS];
  pthread_attr_t small;
  (void)arg;
  tn_runtime *runtime = open_cpu(1, NULL);
  must(runtime);
  limit_space(560);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 18);
  for (int i = 0; i < CALLERS; i++)
    must(!pthread_create(&callers[i], &small, multiply_often, runtime));
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
  tn_runtime_close(runtime);
}

START_TEST(callers_take_turns) {
  if (SANITIZED || lacks_cpu()) return;
  const int status = in_child(call_from_many, NULL);
  ck_assert(status == 0 || status == CANNOT);
}
END_TEST

/* A child opens a runtime while a thread of its parent is inside the BLAS. */
static _Atomic bool enough;
static void *multiply_until_enough(void *runtime) {
  while (!atomic_load(&enough)) multiply(runtime, 200, 300, 300);
  return NULL;
}
static void multiply_in_child(const void *arg) {
  (void)arg;
  tn_runtime *runtime = open_cpu(1, NULL);
  must(runtime);
  multiply(runtime, 300, 300, 300);
}
START_TEST(a_child_has_a_blas_of_its_own) {
  pthread_t caller;
  if (SANITIZED || lacks_cpu()) return;
  tn_runtime *runtime = open_cpu(1, NULL);
  pthread_create(&caller, NULL, multiply_until_enough, runtime);
  for (int i = 0; i < 5; i++) ck_assert_int_eq(in_child(multiply_in_child, NULL), 0);
  atomic_store(&enough, true);
  pthread_join(caller, NULL);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------------ no malloc --- */

#if !SANITIZED && defined(__GLIBC__)
extern void *__libc_malloc(size_t bytes);
static _Atomic int allowed = -1; /* so many more succeed; -1: all */
static _Atomic int asked;

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
  atomic_fetch_add(&asked, 1);
  int left = atomic_load(&allowed);
  while (left > 0)
    if (atomic_compare_exchange_weak(&allowed, &left, left - 1)) break;
  return left ? __libc_malloc(bytes) : NULL;
}

static tn_status product(tn_device *device, int64_t m, int64_t k, int64_t n, tn_dtype type) {
  tn_tensor *a = NULL, *b = NULL, *y = NULL;
  must(!tn_tensor_empty(device, type, 2, SHAPE(m, k), &a));
  must(!tn_tensor_empty(device, type, 2, SHAPE(k, n), &b));
  tn_fill_attrs one = {.struct_size = sizeof one, .value = 1};
  must(!tn_fill(NULL, a, &one) && !tn_fill(NULL, b, &one));
  must(!tn_matmul(NULL, a, b, NULL, NULL, &y)); /* memory of the pool is there afterwards */
  atomic_store(&asked, 0);
  tn_status status = tn_matmul(NULL, a, b, NULL, NULL, &y);
  for (int i = 0, most = atomic_load(&asked); i <= most; i++) {
    atomic_store(&allowed, i);
    status = tn_matmul(NULL, a, b, NULL, NULL, &y);
    atomic_store(&allowed, -1);
    must(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
  }
  tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
  return status;
}

/* Every width of the last panel, depths on either side of the kernels' thresholds. */
static void multiply_starving(const void *arg) {
  static const int64_t depths[] = {1, 15, 16, 31, 32, 40, 300};
  (void)arg;
  tn_runtime *runtime = open_cpu(1, NULL);
  must(runtime);
  for (int64_t n = 2; n <= 34; n++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
      must(!product(tn_runtime_device(runtime), 5, depths[d], n, TN_F32));
      must(!product(tn_runtime_device(runtime), 40, depths[d], n, TN_F64));
    }
  tn_runtime_close(runtime);
}

START_TEST(products_without_malloc) {
  if (lacks_cpu()) return;
  ck_assert_int_eq(in_child(multiply_starving, NULL), 0);
}
END_TEST
#endif

static void add_tests(TCase *tc) {
  tcase_set_timeout(tc, 300);
  tcase_add_test(tc, an_embedders_threads_are_all);
  tcase_add_test(tc, workers_are_as_many_as_said);
  tcase_add_test(tc, threads_of_another_blas_stay_idle);
  tcase_add_test(tc, no_thread_can_be_started);
  tcase_add_test(tc, little_address_space);
  tcase_add_test(tc, callers_take_turns);
  tcase_add_test(tc, a_child_has_a_blas_of_its_own);
#if !SANITIZED && defined(__GLIBC__)
  tcase_add_test(tc, products_without_malloc);
#endif
}

int main(void) { return run_suite("limits", add_tests); }
