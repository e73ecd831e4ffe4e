/*
 * Loading OpenBLAS and counting who is inside: see blas.h. What is known of the library here
 * holds for versions 0.3.10 to 0.3.28 (driver/others/memory.c, blas_server.c).
 */
#include "kernels/cpu/matmul/blas.h"

#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/cpu/matmul/blas_core.h"

#define SONAME "libopenblas.so.0"
/* What a call works in; the address space of the library, with what it needs. */
#define BUFFER_BYTES ((size_t)128 << 20)
#define LIBRARY_BYTES ((size_t)64 << 20)

enum { BUFFERS_MAX = 1024, BUFFERS_LEAST = 48, SEQUENTIAL = 0, OPENMP = 2 };

cpu_blas_library cpu_blas;

/* Guarded by `guard`. The symbols may be missing from a build that exports less. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static void *(*take_buffer)(int position);
static void (*return_buffer)(void *buffer);
static void *buffers[BUFFERS_MAX]; /* that the library is known to have */
static int num_buffers, most_buffers;

/* ----------------------------------------------------------- memory it takes --- */

static bool can_map(int protection, size_t bytes) {
  void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at != MAP_FAILED && munmap(at, bytes) == 0;
}

static bool is_known(const void *buffer) {
  for (int i = 0; i < num_buffers; i++)
    if (buffers[i] == buffer) return true;
  return false;
}

/* The library keeps every buffer that it ever took and asks for memory until it gets some, so
 * it is let ask only where there is some. Beyond the first buffer, room is left to others:
 * they may take it in the meantime. */
static bool has_room(void) {
  return can_map(PROT_READ | PROT_WRITE, BUFFER_BYTES) &&
         can_map(PROT_NONE, (num_buffers ? 4 : 1) * BUFFER_BYTES);
}

/* One more buffer: those known that nobody uses are held meanwhile, or they would be given. */
static bool add_buffer(void) {
  void *held[BUFFERS_MAX];
  int count = 0;
  bool found = false;
  if (num_buffers == most_buffers || !has_room()) return false;
  if (!take_buffer) return ++num_buffers;
  while (!found && count <= num_buffers && (held[count] = take_buffer(0)))
    found = !is_known(held[count++]);
  if (found) buffers[num_buffers++] = held[count - 1];
  while (count > 0) return_buffer(held[--count]);
  return found;
}

static bool take_permit(void) {
  int32_t free = atomic_load(&cpu_blas.permits);
  while (free > 0)
    if (atomic_compare_exchange_weak(&cpu_blas.permits, &free, free - 1)) return true;
  return false;
}

void cpu_blas_wait(void) {
  pthread_mutex_lock(&guard);
  while (!take_permit()) {
    if (add_buffer())
      atomic_fetch_add(&cpu_blas.permits, 1);
    else
      nanosleep(&(struct timespec){0, 20000}, NULL);
  }
  pthread_mutex_unlock(&guard);
}

/* A child has none of the threads that held permits or the guard, and cannot know which of
 * the buffers those had. */
static void begin_child(void) {
  pthread_mutex_init(&guard, NULL);
  num_buffers = 0;
  atomic_store(&cpu_blas.permits, 0);
}

/* ------------------------------------------------------------------- loading --- */

/* The library starts as many threads as the thread that loads it may use processors, whatever
 * its variables say. Its environment is the process's, which other threads may be reading. */
typedef struct affinity {
  unsigned long mask[128];
  bool narrowed;
} affinity;

static void narrow(affinity *before) {
  enum { BITS = 8 * sizeof *before->mask };
  affinity one = {.narrowed = false};
  before->narrowed = false;
  if (sched_getaffinity(0, sizeof before->mask, (cpu_set_t *)(void *)before->mask)) return;
  const int now = sched_getcpu();
  if (now < 0 || (size_t)now >= 8 * sizeof one.mask) return;
  one.mask[(size_t)now / BITS] = 1ul << ((size_t)now % BITS);
  before->narrowed = !sched_setaffinity(0, sizeof one.mask, (cpu_set_t *)(void *)one.mask);
}

static void widen(const affinity *before) {
  if (before->narrowed)
    (void)sched_setaffinity(0, sizeof before->mask, (const cpu_set_t *)(const void *)before->mask);
}

/* A function's pointer out of an object's, which C11 knows no cast for. */
static bool find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

/* OpenMP's run time, which one build of the library needs, must not take the one processor for
 * all there are: it comes first, where there is one. Constructors may change the caller's
 * floating-point environment. */
static void *load_on_one_processor(const char *core) {
  affinity before;
  fenv_t environment;
  (void)fegetenv(&environment);
  (void)dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  narrow(&before);
  void *library = blas_core_load(SONAME, RTLD_NOW | RTLD_LOCAL, core);
  widen(&before);
  (void)fesetenv(&environment);
  return library;
}

static bool is_there(void) {
  void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

static const char *core_of(void *library) {
  char *(*core)(void);
  return find(library, "openblas_get_corename", &core) ? core() : "";
}

/* Loads the library again with the kernels for `better`, or as it was where that fails. */
static void *load_as(const tn_host *host, const char *better) {
  void *library = load_on_one_processor(better);
  if (library) return library;
  cpu_blas.failed = better;
  host->log(host, TN_LOG_WARN,
            "OpenBLAS cannot be loaded again with its kernels for %s, and stays with those that it "
            "took: %s",
            better, dlerror());
  return load_on_one_processor(NULL);
}

/* Loads the library, once more with other kernels where it does not know the processor, unless
 * somebody else loaded it before or chose the kernels, or may be using the environment. It stays
 * for good. */
static void *load_with_best_kernels(const tn_host *host) {
  cpu_blas.failed = NULL;
  const bool mine = !is_there() && !secure_getenv("OPENBLAS_CORETYPE");
  void *library = load_on_one_processor(NULL);
  const char *better = library ? blas_core_better(core_of(library), blas_core_processor()) : NULL;
  if (mine && better && blas_core_is_alone()) {
    snprintf(cpu_blas.took, sizeof cpu_blas.took, "%s", core_of(library));
    dlclose(library);
    library = load_as(host, better);
  }
  if (library) (void)dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
  return library;
}

/* The build on OpenMP spreads a call over the caller's team, which is the caller's own number:
 * it is one for the time of the call. */
static struct {
  cpu_blas_library plain;
  int (*get)(void);
  void (*set)(int);
} openmp;

#define ALONE(s, kind, parameters, arguments)                                                      \
  static void alone_##s##kind parameters {                                                         \
    const int before = openmp.get();                                                               \
    openmp.set(1);                                                                                 \
    openmp.plain.s##kind arguments;                                                                \
    openmp.set(before);                                                                            \
  }
#define ALONE_GEMM(s, T)                                                                           \
  ALONE(s, gemm,                                                                                   \
        (CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n,          \
         blasint k, T alpha, const T *a, blasint lda, const T *b, blasint ldb, T beta, T *c,       \
         blasint ldc),                                                                             \
        (order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
#define ALONE_GEMV(s, T)                                                                           \
  ALONE(s, gemv,                                                                                   \
        (CBLAS_ORDER order, CBLAS_TRANSPOSE ta, blasint m, blasint n, T alpha, const T *a,         \
         blasint lda, const T *x, blasint incx, T beta, T *y, blasint incy),                       \
        (order, ta, m, n, alpha, a, lda, x, incx, beta, y, incy))
ALONE_GEMM(s, float)
ALONE_GEMM(d, double)
ALONE_GEMV(s, float)
ALONE_GEMV(d, double)

static bool find_products(void *library) {
  return find(library, "cblas_sgemm", &cpu_blas.sgemm) &&
         find(library, "cblas_dgemm", &cpu_blas.dgemm) &&
         find(library, "cblas_sgemv", &cpu_blas.sgemv) &&
         find(library, "cblas_dgemv", &cpu_blas.dgemv);
}

static bool hold_openmp(void *library) {
  if (!find(library, "omp_get_max_threads", &openmp.get) ||
      !find(library, "omp_set_num_threads", &openmp.set))
    return false;
  openmp.plain.sgemm = cpu_blas.sgemm, cpu_blas.sgemm = alone_sgemm;
  openmp.plain.dgemm = cpu_blas.dgemm, cpu_blas.dgemm = alone_dgemm;
  openmp.plain.sgemv = cpu_blas.sgemv, cpu_blas.sgemv = alone_sgemv;
  openmp.plain.dgemv = cpu_blas.dgemv, cpu_blas.dgemv = alone_dgemv;
  return true;
}

/* It has two buffers per thread that it was built for, some of which are its own. */
static int count_buffers(const char *config) {
  const char *at = strstr(config, "MAX_THREADS=");
  const int threads = at ? atoi(at + strlen("MAX_THREADS=")) : 0;
  const int most = threads < BUFFERS_MAX / 2 ? 2 * threads - 2 : BUFFERS_MAX - 2;
  return most > BUFFERS_LEAST ? most : BUFFERS_LEAST;
}

static bool allocates_when_thin(const char *core) {
  return !strcasecmp(core, "SkylakeX") || !strcasecmp(core, "Cooperlake") ||
         !strcasecmp(core, "SapphireRapids");
}

/* Where it could not be had to take better kernels, the host program or its user can. */
static void note_core(const tn_host *host, const char *core) {
  const char *better = blas_core_better(core, blas_core_processor());
  snprintf(cpu_blas.core, sizeof cpu_blas.core, "%s", core);
  cpu_blas.better = better;
  if (!strcasecmp(cpu_blas.took, core)) cpu_blas.took[0] = 0;
  if (better && !cpu_blas.failed)
    host->log(host, secure_getenv("OPENBLAS_CORETYPE") ? TN_LOG_INFO : TN_LOG_WARN,
              "OpenBLAS computes with its kernels for %s, which use less than the processor has: "
              "OPENBLAS_CORETYPE=%s in the environment of the program gives it better ones",
              core, better);
  else if (cpu_blas.took[0])
    host->log(host, TN_LOG_INFO,
              "OpenBLAS took the processor for %s: it was given its kernels for %s", cpu_blas.took,
              core);
}

static tn_status look_at(const tn_host *host, void *library) {
  char *(*config)(void), *(*core)(void);
  int (*parallel)(void), (*get_threads)(void);
  void (*set_threads)(int);
  if (!find_products(library) || !find(library, "openblas_get_config", &config) ||
      !find(library, "openblas_get_corename", &core) ||
      !find(library, "openblas_get_parallel", &parallel) ||
      !find(library, "openblas_get_num_threads", &get_threads) ||
      !find(library, "openblas_set_num_threads", &set_threads))
    return host->fail(TN_ERR_BACKEND, SONAME " lacks functions that OpenBLAS 0.3 has");
  if (strstr(config(), "USE64BITINT"))
    return host->fail(TN_ERR_BACKEND, SONAME " was built for 64-bit integers");
  if (parallel() == OPENMP && !hold_openmp(library))
    return host->fail(TN_ERR_BACKEND, SONAME " was built on an OpenMP that is not found");
  /* More than one where the host program loaded it before, with threads: for good then. */
  if (parallel() != SEQUENTIAL && get_threads() != 1) set_threads(1);
  if (!find(library, "blas_memory_alloc", &take_buffer) ||
      !find(library, "blas_memory_free", &return_buffer))
    take_buffer = NULL;
  most_buffers = count_buffers(config());
  cpu_blas.thin_allocates = allocates_when_thin(core());
  note_core(host, core());
  return TN_OK;
}

static tn_status no_room(const tn_host *host) {
  return host->fail(TN_ERR_OUT_OF_MEMORY,
                    "OpenBLAS wants %zu MiB of address space, which the process does not get",
                    (LIBRARY_BYTES + 2 * BUFFER_BYTES) >> 20);
}

/* It takes a buffer as it is loaded, without which it would never return. */
static tn_status load(const tn_host *host) {
  if (!can_map(PROT_READ | PROT_WRITE, BUFFER_BYTES) ||
      !can_map(PROT_NONE, LIBRARY_BYTES + 2 * BUFFER_BYTES))
    return no_room(host);
  void *library = load_with_best_kernels(host);
  if (!library) return host->fail(TN_ERR_BACKEND, "%s", dlerror());
  tn_status status = look_at(host, library);
  if (!status && pthread_atfork(NULL, NULL, begin_child))
    status = host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to be told of forks");
  loaded = !status;
  return status;
}

void cpu_blas_describe(char *words, size_t size) {
  words[0] = 0;
  pthread_mutex_lock(&guard);
  const char *took = cpu_blas.took, *better = cpu_blas.better, *failed = cpu_blas.failed;
  if (loaded)
    snprintf(words, size, "openblas:%s%s%s%s%s%s%s", cpu_blas.core,
             took[0] ? " openblas-took:" : "", took, better ? " openblas-better:" : "",
             better ? better : "", failed ? " openblas-failed:" : "", failed ? failed : "");
  pthread_mutex_unlock(&guard);
}

tn_status cpu_blas_open(const tn_host *host) {
  pthread_mutex_lock(&guard);
  tn_status status = loaded ? TN_OK : load(host);
  if (!status && num_buffers == 0) {
    if (add_buffer())
      atomic_fetch_add(&cpu_blas.permits, 1);
    else
      status = no_room(host);
  }
  pthread_mutex_unlock(&guard);
  return status;
}
