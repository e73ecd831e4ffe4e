/*
 * A plugin of kernels for the CPU's device that compute what they should and do something beside
 * it: with their workspace, with static memory, to the process or the thread. What tenon check
 * must find, operator by operator; `hypot` alone is sound. All are row-major float32 maps. With
 * EFFECTS_OPEN the plugin itself does something as it is opened.
 */
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/plugin.h"

typedef float function(float a, float b);

static int64_t elements(const tn_kernel_args *args) {
  int64_t n = 1;
  for (int32_t i = 0; i < args->out[0]->ndim; i++) n *= args->out[0]->shape[i];
  return n;
}

static void map(const tn_kernel_args *args, function *f) {
  const float *a = args->in[0]->data, *b = args->num_in > 1 ? args->in[1]->data : a;
  float *y = args->out[0]->data;
  for (int64_t i = elements(args); i-- > 0;) y[i] = f(a[i], b[i]);
}

/* What operators compute. */
#define FUNCTION(name, value)                                                                      \
  static float name(float a, float b) {                                                            \
    (void)b;                                                                                       \
    return (float)(value);                                                                         \
  }
FUNCTION(of_abs, fabsf(a))
FUNCTION(of_acos, acos((double)a))
FUNCTION(of_add, a + b)
FUNCTION(of_asin, asin((double)a))
FUNCTION(of_asinh, asinh((double)a))
FUNCTION(of_atan, atan((double)a))
FUNCTION(of_ceil, ceilf(a))
FUNCTION(of_cos, cos((double)a))
FUNCTION(of_cosh, cosh((double)a))
FUNCTION(of_div, a / b)
FUNCTION(of_erf, erf((double)a))
FUNCTION(of_exp2, exp2((double)a))
FUNCTION(of_exp, exp((double)a))
FUNCTION(of_expm1, expm1((double)a))
FUNCTION(of_floor, floorf(a))
FUNCTION(of_hypot, hypot((double)a, (double)b))
FUNCTION(of_log, log((double)a))
FUNCTION(of_log10, log10((double)a))
FUNCTION(of_log1p, log1p((double)a))
FUNCTION(of_log2, log2((double)a))
FUNCTION(of_maximum, isnan(a) || a > b ? a : b)
FUNCTION(of_minimum, isnan(a) || a < b ? a : b)
FUNCTION(of_mul, a *b)
FUNCTION(of_neg, -a)
FUNCTION(of_reciprocal, 1 / a)
FUNCTION(of_relu, isnan(a) ? a : fmaxf(a, 0))
FUNCTION(of_sigmoid, 1 / (1 + exp(-(double)a)))
FUNCTION(of_sin, sin((double)a))
FUNCTION(of_sinh, sinh((double)a))
FUNCTION(of_sqrt, sqrtf(a))
FUNCTION(of_square, a *a)
FUNCTION(of_sub, a - b)
FUNCTION(of_tan, tan((double)a))
FUNCTION(of_tanh, tanh((double)a))
FUNCTION(of_trunc, truncf(a))

/* --- workspaces --- */

static tn_status ask_100(const tn_kernel_args *args, size_t *bytes) {
  (void)args;
  *bytes = 100;
  return TN_OK;
}

/* One alignment less than it uses. */
static tn_status ask_less(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)elements(args) * sizeof(float);
  return TN_OK;
}

static tn_status ask_more_each_time(const tn_kernel_args *args, size_t *bytes) {
  static _Atomic size_t asked;
  (void)args;
  *bytes = ++asked;
  return TN_OK;
}

static tn_status ask_absurdly(const tn_kernel_args *args, size_t *bytes) {
  (void)args;
  *bytes = (size_t)3 << 30;
  return TN_OK;
}

static void byte_100(const tn_kernel_args *args) { ((volatile char *)args->workspace)[100] = 0; }
static void byte_before(const tn_kernel_args *args) { ((volatile char *)args->workspace)[-1] = 0; }
static void page_read(const tn_kernel_args *args) {
  (void)((volatile char *)args->workspace)[4096];
}
static void uses_more(const tn_kernel_args *args) {
  if (args->workspace_bytes)
    memset(args->workspace, 0, args->workspace_bytes + 60); /* to the end of the alignment */
}
static void nothing(const tn_kernel_args *args) { (void)args; }

/* Sums into what it takes for zero. */
static tn_status trusts_zeros(const tn_kernel_args *args) {
  float sum;
  memcpy(&sum, args->workspace, sizeof sum);
  map(args, of_square);
  if (elements(args)) ((float *)args->out[0]->data)[0] += sum;
  return TN_OK;
}

/* --- static memory --- */

enum { SCRATCH = 1 << 18 };

static void by_way_of(const tn_kernel_args *args, float *scratch, function *f) {
  int64_t n = elements(args);
  float *y = args->out[0]->data;
  if (n > SCRATCH) {
    map(args, f);
    return;
  }
  memcpy(scratch, args->in[0]->data, (size_t)n * sizeof *scratch);
  for (int64_t i = 0; i < n; i++) y[i] = f(scratch[i], 0);
}

static tn_status static_scratch(const tn_kernel_args *args) {
  static float scratch[SCRATCH];
  by_way_of(args, scratch, of_relu);
  return TN_OK;
}

/* Two buffers by turns, as if no more than two calls could meet. */
static tn_status two_scratches(const tn_kernel_args *args) {
  static float scratch[2][SCRATCH];
  static volatile unsigned turn;
  turn = turn + 1;
  by_way_of(args, scratch[turn & 1], of_reciprocal);
  return TN_OK;
}

/* Behind a sound kernel, which gets every call. */
static tn_status hidden_scratch(const tn_kernel_args *args) {
  static float scratch[SCRATCH];
  by_way_of(args, scratch, of_tan);
  return TN_OK;
}

/* --- the thread --- */

static void leaves_rounding(const tn_kernel_args *args) {
  (void)args;
  fesetround(FE_TOWARDZERO);
}

#if defined(__x86_64__)
enum { FLUSH_RESULTS = 0x8000 };
static void set_mode(uint32_t more) {
  uint32_t word;
  __asm__ volatile("stmxcsr %0" : "=m"(word));
  word |= more;
  __asm__ volatile("ldmxcsr %0" : : "m"(word));
}
static void leaves_zeros(const tn_kernel_args *args) { (void)args, set_mode(0x40); }
static void leaves_x87(const tn_kernel_args *args) {
  uint16_t word = 0x27f; /* 53 bits */
  (void)args;
  __asm__ volatile("fldcw %0" : : "m"(word));
}
#elif defined(__aarch64__)
enum { FLUSH_RESULTS = 1 << 24 };
static void set_mode(uint32_t more) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  word |= more;
  __asm__ volatile("msr fpcr, %0" : : "r"(word));
}
#endif
#if defined(__x86_64__) || defined(__aarch64__)
static void leaves_flush(const tn_kernel_args *args) { (void)args, set_mode(FLUSH_RESULTS); }
/* In the process's first thread it does not. */
static void flushes_elsewhere(const tn_kernel_args *args) {
  (void)args;
  if (gettid() != getpid()) set_mode(FLUSH_RESULTS);
}
static tn_status flush_share(void *ctx, int64_t begin, int64_t end) {
  (void)ctx, (void)begin, (void)end;
  set_mode(FLUSH_RESULTS);
  return TN_OK;
}
static void flushes_in_shares(const tn_kernel_args *args) {
  args->host->parallel_for(args->host, 64, 1, flush_share, NULL);
}
#endif

static void blocks_signal(const tn_kernel_args *args) {
  sigset_t set;
  (void)args;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void binds_thread(const tn_kernel_args *args) {
  cpu_set_t one;
  (void)args;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
}

/* --- the process --- */

static void on_fpe(int signal) { (void)signal; }

static void leaves_handler(const tn_kernel_args *args) { (void)args, signal(SIGFPE, on_fpe); }
static void changes_folder(const tn_kernel_args *args) { (void)args, (void)!chdir("/"); }
static void changes_umask(const tn_kernel_args *args) { (void)args, umask(0); }
static void changes_locale(const tn_kernel_args *args) { (void)args, setlocale(LC_ALL, "C.UTF-8"); }
static void sets_variable(const tn_kernel_args *args) {
  (void)args;
  setenv("TENON_EFFECT", "1", 1);
}
static void sets_alarm(const tn_kernel_args *args) { (void)args, alarm(3600); }
static void prints(const tn_kernel_args *args) { (void)args, puts("entering the kernel"); }
static void warns(const tn_kernel_args *args) { (void)args, fputs("slow path\n", stderr); }

/* Too slow for threads at once: that is said, and no failure. */
static void is_slow(const tn_kernel_args *args) {
  (void)args;
  usleep(2000);
}

/* A wait that a signal ends, as a vendor's library may make it: no failure of a program that has no
 * such signals. */
static tn_status waits_once(const tn_kernel_args *args) {
  map(args, of_log10);
  return ppoll(NULL, 0, &(struct timespec){0, 300000}, NULL) < 0
             ? args->host->fail(TN_ERR_BACKEND, "interrupted")
             : TN_OK;
}

/* Right now and then, and when it is prepared and run; not in a loop over the same size. */
static tn_status tires(const tn_kernel_args *args) {
  static _Atomic int64_t size, times;
  const int64_t n = elements(args);
  times = size == n ? times + 1 : 0;
  size = n;
  map(args, of_erf);
  if (times < 40) return TN_OK;
  times = 0;
  return args->host->fail(TN_ERR_BACKEND, "no handle is left");
}

static void sets_limit(const tn_kernel_args *args) {
  struct rlimit limit;
  (void)args;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur /= 2;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* What is left behind with every call ends somewhere, so that the rest can be checked. */
static bool not_often(_Atomic unsigned *times, unsigned most) { return (*times)++ < most; }

static void opens_file(const tn_kernel_args *args) {
  static _Atomic unsigned times;
  (void)args;
  if (not_often(&times, 700)) (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void *wait_for_ever(void *ctx) {
  for (;;) pause();
  return ctx;
}

static void starts_thread(const tn_kernel_args *args) {
  static _Atomic unsigned times;
  pthread_t thread;
  (void)args;
  if (not_often(&times, 700) && !pthread_create(&thread, NULL, wait_for_ever, NULL))
    pthread_detach(thread);
}

static void *volatile forgotten;

static void leaks_much(const tn_kernel_args *args) {
  static _Atomic unsigned times;
  (void)args;
  if (not_often(&times, 4000)) forgotten = malloc(1 << 20);
}

static void leaks_little(const tn_kernel_args *args) {
  (void)args;
  forgotten = malloc(40);
}

/* --- the table --- */

/* A kernel's effect and what it computes. */
typedef struct user {
  void (*effect)(const tn_kernel_args *args);
  function *compute;
} user;

static tn_status run(const tn_kernel_args *args) {
  const user *u = args->kernel->user;
  map(args, u->compute);
  u->effect(args);
  return TN_OK;
}

#define ROW_OF(OP, fn, title, rank, ask, constant)                                                 \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "effects." title,    \
    .priority = rank, .flags = TN_KERNEL_DETERMINISTIC, .types = {TN_SET(TN_F32)}, .run = fn,      \
    .workspace = ask, .user = constant                                                             \
  }
#define ROW(OP, effect, f) ROW_OF(OP, run, #effect, 10000, NULL, (&(const user){effect, f}))
#define ASKING(OP, effect, ask, f)                                                                 \
  ROW_OF(OP, run, #effect "." #ask, 10000, ask, (&(const user){effect, f}))
#define DIRECT(OP, fn, rank, ask) ROW_OF(OP, fn, #fn, rank, ask, NULL)

static const tn_kernel kernels[] = {
    ROW(TN_OP_HYPOT, nothing, of_hypot),
    ASKING(TN_OP_NEG, byte_100, ask_100, of_neg),
    ASKING(TN_OP_ABS, byte_before, ask_100, of_abs),
    ASKING(TN_OP_LOG2, page_read, ask_100, of_log2),
    DIRECT(TN_OP_SQUARE, trusts_zeros, 10000, ask_100),
    ASKING(TN_OP_FLOOR, uses_more, ask_less, of_floor),
    ASKING(TN_OP_CEIL, nothing, ask_more_each_time, of_ceil),
    ASKING(TN_OP_TRUNC, nothing, ask_absurdly, of_trunc),
    DIRECT(TN_OP_RELU, static_scratch, 10000, NULL),
    DIRECT(TN_OP_RECIPROCAL, two_scratches, 10000, NULL),
    ROW(TN_OP_TAN, nothing, of_tan),
    DIRECT(TN_OP_TAN, hidden_scratch, 9999, NULL),
    ROW(TN_OP_SQRT, leaves_rounding, of_sqrt),
#if defined(__x86_64__)
    ROW(TN_OP_EXPM1, leaves_zeros, of_expm1),
    ROW(TN_OP_COSH, leaves_x87, of_cosh),
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    ROW(TN_OP_ADD, leaves_flush, of_add),
    ROW(TN_OP_SUB, flushes_in_shares, of_sub),
    ROW(TN_OP_ASINH, flushes_elsewhere, of_asinh),
#endif
    ROW(TN_OP_TANH, blocks_signal, of_tanh),
    ROW(TN_OP_ACOS, binds_thread, of_acos),
    ROW(TN_OP_MUL, leaves_handler, of_mul),
    ROW(TN_OP_DIV, changes_folder, of_div),
    ROW(TN_OP_LOG, changes_umask, of_log),
    ROW(TN_OP_COS, changes_locale, of_cos),
    ROW(TN_OP_EXP, sets_variable, of_exp),
    ROW(TN_OP_EXP2, is_slow, of_exp2),
    DIRECT(TN_OP_LOG10, waits_once, 10000, NULL),
    DIRECT(TN_OP_ERF, tires, 10000, NULL),
    ROW(TN_OP_ASIN, sets_alarm, of_asin),
    ROW(TN_OP_SIN, prints, of_sin),
    ROW(TN_OP_SINH, warns, of_sinh),
    ROW(TN_OP_LOG1P, sets_limit, of_log1p),
    ROW(TN_OP_ATAN, opens_file, of_atan),
    ROW(TN_OP_SIGMOID, starts_thread, of_sigmoid),
    ROW(TN_OP_MAXIMUM, leaks_much, of_maximum),
    ROW(TN_OP_MINIMUM, leaks_little, of_minimum),
};

/* --- opening --- */

static tn_status opened(const tn_host *host, void **context) {
  const char *what = getenv("EFFECTS_OPEN");
  (void)host;
  *context = NULL;
  if (!what) return TN_OK;
  const bool all = !strcmp(what, "much");
  if (all || !strcmp(what, "prints")) puts("hello from the driver");
  if ((all || !strcmp(what, "folder")) && chdir("/")) return TN_ERR_BACKEND;
  if (all || !strcmp(what, "umask")) umask(0);
  if (!strcmp(what, "locale")) setlocale(LC_ALL, "C.UTF-8");
  if (!strcmp(what, "alarm")) alarm(3600);
  return TN_OK;
}

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "effects",
                                 .version = "1.0",
                                 .description = "planted side effects",
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels,
                                 .open = opened};

TN_PLUGIN_DEFINE("effects") {
  (void)host;
  return &plugin;
}
