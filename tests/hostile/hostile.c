/*
 * A plugin of many misdeeds. Which one it commits follows from its file's name: a copy
 * named libtenon-spin.so spins in its constructor. Built from plugin.h alone, like any
 * plugin.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/plugins/fixture.h"

static tn_backend backend = FIXTURE_BACKEND("fixture");
static const tn_backend *backends[] = {&backend};
static tn_kernel kernels[] = {FIXTURE_KERNEL("fixture"), FIXTURE_KERNEL("fixture")};
static tn_plugin plugin = {FIXTURE_PLUGIN("hostile", backends, kernels)};

static Dl_info self;

/* ----------------------------------------------------------------- constructors --- */

static volatile int *volatile nowhere_near = (volatile int *)8;
static void segfault(void) { *nowhere_near = 1; }
static void trap(void) { __builtin_trap(); }
static void exit_0(void) { exit(0); }
static void exit_quick(void) { _exit(0); }
static void killed(void) { raise(SIGKILL); }
static void stopped(void) { raise(SIGSTOP); }
static void kill_group(void) { kill(0, SIGTERM); }
static void kill_parent(void) { kill(getppid(), SIGKILL); }
static void folder(void) { (void)!chdir("/"); }
static void mask(void) { umask(0777); }
static void locale(void) { setlocale(LC_ALL, "C.UTF-8"); }
static void rounding(void) { fesetround(FE_TOWARDZERO); }
static void removes_itself(void) { unlink(self.dli_fname); }

static volatile bool forever = true;

static void spin(void) {
  while (forever) continue;
}

static void sleeps(void) {
  for (;;) pause();
}

static int deep(volatile char *above) {
  volatile char here[4096];
  here[0] = above[0];
  return forever ? deep(here) + here[0] : 0;
}
static void stack(void) {
  volatile char top = 0;
  (void)deep(&top);
}

/* Leaves its number behind, so that the test can see whether it lives. */
static void note_process(void) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s.pid", self.dli_fname);
  FILE *file = fopen(path, "w");
  if (!file) return;
  fprintf(file, "%ld", (long)getpid());
  fclose(file);
}

static void make_grandchild(void) {
  if (fork()) return;
  setsid();
  note_process();
  sleeps();
}
static void grandchild(void) {
  make_grandchild();
  usleep(20000);
}
static void grandchild_and_hang(void) {
  make_grandchild();
  sleeps();
}

static void close_all(void) {
  for (int fd = 0; fd < 1024; fd++) close(fd);
}

static void scribble(void) {
  static const char garbage[64] = {1, 0x7e, 0x5c, 1};
  for (int fd = 3; fd < 64; fd++) (void)!write(fd, garbage, sizeof garbage);
}

static void noise(void) {
  puts("garbage");
  fprintf(stderr, "more garbage\n");
}

static void on_signal(int number) { (void)number; }
static void handler(void) { signal(SIGUSR1, on_signal); }

static void block(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
}
static void block_and_spin(void) {
  block();
  spin();
}

static void *crash_soon(void *arg) {
  usleep(1000);
  segfault();
  return arg;
}
/* Waits for it: on a busy machine the scan would be over before the thread had its turn. */
static void thread(void) {
  pthread_t id;
  if (pthread_create(&id, NULL, crash_soon, NULL) == 0) pthread_join(id, NULL);
}

static void closes_itself(void) {
  void *library = dlopen(self.dli_fname, RTLD_NOW);
  if (library) dlclose(library), dlclose(library);
}

static jmp_buf nowhere;
static void jump(void) { longjmp(nowhere, 1); }

static void memory(void) {
  enum { PIECE = 16 << 20 };
  for (char *p; (p = malloc(PIECE));) memset(p, 1, PIECE);
}

/* Believes that it always gets what it asks for. */
static void needs_room(void) {
  volatile char *room = mmap(NULL, (size_t)2 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) segfault();
}

/* The file's bytes are another's by the time the scan is over. */
static void rewrites_itself(void) {
  FILE *file = fopen(self.dli_fname, "ab");
  if (!file) return;
  fputs("more", file);
  fclose(file);
}

/* What is the program's, not the plugin's. */
static void set_variable(void) { setenv("TENON_HOSTILE", "1", 1); }
static void unset_variable(void) { unsetenv("PATH"); }
static void no_environment(void) { clearenv(); }
static void session(void) { setsid(); }
static void group(void) { setpgid(0, 0); }
static void lower(void) { (void)!nice(3); }
static void root(void) { (void)!chroot("/proc"); }
static void rename_thread(void) { prctl(PR_SET_NAME, "hostile"); }
static void attribute(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static void wake(void) { alarm(1000); }

static void limit(void) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_cur / 2 + 1;
  setrlimit(RLIMIT_NOFILE, &files);
}

static void interval(void) {
  struct itimerval often = {{1000, 0}, {1000, 0}};
  setitimer(ITIMER_PROF, &often, NULL);
}

static void timer(void) {
  timer_t id;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  timer_create(CLOCK_MONOTONIC, &event, &id);
}

static void schedule(void) {
  struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

static void stack_of_signals(void) {
  static char room[65536];
  stack_t other = {.ss_sp = room, .ss_size = sizeof room};
  sigaltstack(&other, NULL);
}

static void own_locale(void) { uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

static void leak(void) { (void)!open("/dev/zero", O_RDONLY); }
static void leak_many(void) {
  for (int i = 0; i < 20; i++) leak();
}

static void redirect(void) {
  int fd = open("/dev/zero", O_WRONLY);
  dup2(fd, STDOUT_FILENO);
  close(fd);
}
static void never_wait(void) { fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK); }

/* --------------------------------------------------------------- query and tables --- */

#define WILD ((void *)(uintptr_t)0x1234560)

static void no_return(void) { sleeps(); }
static void bad_kernels(void) { plugin.kernels = WILD; }
static void bad_backends(void) { plugin.backends = WILD; }
static void bad_backend(void) { backends[0] = WILD; }
static void bad_name(void) { plugin.name = WILD; }
static void bad_row_name(void) { kernels[1].name = WILD; }
static void bad_operators(void) { plugin.operators = WILD, plugin.num_operators = 3; }
static void bad_layers(void) { plugin.layers = WILD, plugin.num_layers = 1; }
static void bad_version(void) { plugin.version = WILD; }
static void bad_description(void) { plugin.description = WILD; }
static void bad_note(void) { kernels[1].note = WILD; }
static void bad_run(void) {
  void *wild = WILD;
  memcpy(&kernels[1].run, &wild, sizeof wild);
}
static void bad_slot(void) {
  static tn_backend spoiled = FIXTURE_BACKEND("fixture");
  void *wild = WILD;
  memcpy(&spoiled.memory_info, &wild, sizeof wild);
  backends[0] = &spoiled;
}
static void endless_note(void) {
  static char text[1 << 20];
  memset(text, 'x', sizeof text);
  kernels[1].note = text;
}

static tn_status pass(void *state, const tn_layer_call *call,
                      tn_status (*next)(const tn_layer_call *, void *), void *next_ctx) {
  (void)state;
  return next(call, next_ctx);
}
static void bad_layer_text(void) {
  static const tn_layer layer = {
      .struct_size = sizeof layer, .name = "wild", .call = pass, .description = WILD};
  plugin.layers = &layer, plugin.num_layers = 1;
}
static void bad_operator_text(void) {
  static const tn_arg args[] = {{.name = "x", .kind = TN_ARG_IN, .type = TN_TYPE_VAR(0)},
                                {.name = "y", .kind = TN_ARG_OUT, .type = TN_TYPE_VAR(0)}};
  static const tn_operator op = {.struct_size = sizeof op,
                                 .name = "wild",
                                 .types = {TN_SET(TN_F32)},
                                 .shape = TN_SHAPE_BROADCAST,
                                 .num_args = 2,
                                 .args = args,
                                 .doc = WILD,
                                 .maths = "y = x"};
  plugin.operators = &op, plugin.num_operators = 1;
}

static void endless(void) { plugin.num_kernels = 1 << 20; }
static void no_names(void) { kernels[0].name = NULL; }
static void crooked(void) { plugin.kernels = (const void *)((const char *)kernels + 4); }
static void small(void) { plugin.struct_size = 12; }

/* -------------------------------------------------------------------- destructors --- */

static void exit_7(void) { _exit(7); }

/* ------------------------------------------------------------------ the list of all --- */

typedef enum moment {
  LOADED,
  QUERIED,
  ENDED,
  OPENED,
  COUNTED,
  DESCRIBED,
  DEVICE_OPENED,
  DEVICE_CLOSED,
  PLUGIN_CLOSED
} moment;

static const struct misdeed {
  const char *name;
  moment when;
  void (*commit)(void);
} misdeeds[] = {
    {"segfault", LOADED, segfault},
    {"abort", LOADED, abort},
    {"trap", LOADED, trap},
    {"exit", LOADED, exit_0},
    {"exit-quick", LOADED, exit_quick},
    {"killed", LOADED, killed},
    {"stopped", LOADED, stopped},
    {"kill-group", LOADED, kill_group},
    {"kill-parent", LOADED, kill_parent},
    {"spin", LOADED, spin},
    {"sleeps", LOADED, sleeps},
    {"stack", LOADED, stack},
    {"grandchild", LOADED, grandchild},
    {"grandchild-and-hang", LOADED, grandchild_and_hang},
    {"close-all", LOADED, close_all},
    {"scribble", LOADED, scribble},
    {"noise", LOADED, noise},
    {"folder", LOADED, folder},
    {"mask", LOADED, mask},
    {"locale", LOADED, locale},
    {"rounding", LOADED, rounding},
    {"handler", LOADED, handler},
    {"block", LOADED, block},
    {"block-and-spin", LOADED, block_and_spin},
    {"thread", LOADED, thread},
    {"closes-itself", LOADED, closes_itself},
    {"jump", LOADED, jump},
    {"memory", LOADED, memory},
    {"set-variable", LOADED, set_variable},
    {"unset-variable", LOADED, unset_variable},
    {"no-environment", LOADED, no_environment},
    {"session", LOADED, session},
    {"group", LOADED, group},
    {"lower", LOADED, lower},
    {"root", LOADED, root},
    {"rename-thread", LOADED, rename_thread},
    {"attribute", LOADED, attribute},
    {"wake", LOADED, wake},
    {"limit", LOADED, limit},
    {"interval", LOADED, interval},
    {"timer", LOADED, timer},
    {"schedule", LOADED, schedule},
    {"stack-of-signals", LOADED, stack_of_signals},
    {"own-locale", LOADED, own_locale},
    {"leak", LOADED, leak},
    {"leak-many", LOADED, leak_many},
    {"redirect", LOADED, redirect},
    {"never-wait", LOADED, never_wait},
    {"query-variable", QUERIED, set_variable},
    {"query-limit", QUERIED, limit},
    {"needs-room", LOADED, needs_room},
    {"removes-itself", LOADED, removes_itself},
    {"rewrites-itself", LOADED, rewrites_itself},
    {"query-crash", QUERIED, segfault},
    {"query-hang", QUERIED, no_return},
    {"query-exit", QUERIED, exit_0},
    {"query-stack", QUERIED, stack},
    {"query-wild", QUERIED, NULL},
    {"query-crooked", QUERIED, NULL},
    {"bad-kernels", QUERIED, bad_kernels},
    {"bad-backends", QUERIED, bad_backends},
    {"bad-backend", QUERIED, bad_backend},
    {"bad-name", QUERIED, bad_name},
    {"bad-row-name", QUERIED, bad_row_name},
    {"bad-operators", QUERIED, bad_operators},
    {"bad-layers", QUERIED, bad_layers},
    {"bad-version", QUERIED, bad_version},
    {"bad-description", QUERIED, bad_description},
    {"bad-note", QUERIED, bad_note},
    {"bad-run", QUERIED, bad_run},
    {"bad-slot", QUERIED, bad_slot},
    {"bad-layer-text", QUERIED, bad_layer_text},
    {"bad-operator-text", QUERIED, bad_operator_text},
    {"endless-note", QUERIED, endless_note},
    {"endless", QUERIED, endless},
    {"no-names", QUERIED, no_names},
    {"crooked", QUERIED, crooked},
    {"small", QUERIED, small},
    {"open-crash", OPENED, segfault},
    {"open-variable", OPENED, set_variable},
    {"count-crash", COUNTED, segfault},
    {"count-exit", COUNTED, exit_0},
    {"count-hang", COUNTED, sleeps},
    {"count-handler", COUNTED, handler},
    {"describe-crash", DESCRIBED, segfault},
    {"device-crash", DEVICE_OPENED, abort},
    {"device-close-crash", DEVICE_CLOSED, segfault},
    {"close-crash", PLUGIN_CLOSED, segfault},
    {"end-crash", ENDED, segfault},
    {"end-hang", ENDED, sleeps},
    {"end-exit", ENDED, exit_7},
};

static const struct misdeed *find_misdeed(void) {
  const char *file = strrchr(self.dli_fname, '/') + 1;
  for (size_t i = 0; i < sizeof misdeeds / sizeof *misdeeds; i++) {
    char name[64];
    snprintf(name, sizeof name, "libtenon-%s.so", misdeeds[i].name);
    if (strcmp(file, name) == 0) return &misdeeds[i];
  }
  return NULL;
}

static void commit(moment now) {
  const struct misdeed *m = find_misdeed();
  if (m && m->when == now && m->commit) m->commit();
}

__attribute__((constructor)) static void begin(void) {
  if (dladdr(&misdeeds, &self)) commit(LOADED);
}
__attribute__((destructor)) static void end(void) { commit(ENDED); }

static bool is(const char *name) {
  const struct misdeed *m = find_misdeed();
  return m && strcmp(m->name, name) == 0;
}

/* ------------------------------------------------------------------------ devices --- */

static tn_status open_plugin(const tn_host *host, void **context) {
  (void)host, (void)context;
  commit(OPENED);
  return TN_OK;
}
static void close_plugin(void *context) {
  (void)context;
  commit(PLUGIN_CLOSED);
}
static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  commit(COUNTED);
  return fixture_count(host, context, devices);
}
static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  commit(DESCRIBED);
  return fixture_describe(host, context, index, out);
}
static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **device) {
  commit(DEVICE_OPENED);
  return fixture_open(host, context, index, device);
}
static void close_device(void *device) {
  (void)device;
  commit(DEVICE_CLOSED);
}

TN_PLUGIN_DEFINE("hostile") {
  (void)host;
  backend.count = count, backend.describe = describe;
  backend.open = open_device, backend.close = close_device;
  plugin.open = open_plugin, plugin.close = close_plugin;
  commit(QUERIED);
  if (is("query-wild")) return WILD;
  if (is("query-crooked")) return (const tn_plugin *)(const void *)((const char *)&plugin + 2);
  return &plugin;
}
