/*
 * The last words of a process that checks. A handler of the signals that crashes raise walks the
 * stack and notes the innermost plugin on it and where the function begins that Tenon called
 * there. Which slot that is, its table says, which a process that is still young reads later:
 * the one that crashed can be trusted with nothing more.
 */
#include "last_words.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "tenon/plugin.h"

static last_words *words;        /* of this process */
static const char *named_plugin; /* on the command line */

/* --- in the process that dies --- */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

static bool is_plugin(const char *path) {
  return begins(base_name(path), "libtenon-") || (named_plugin && !strcmp(path, named_plugin));
}

static bool is_loader(const char *path) { return begins(base_name(path), "ld-"); }

/* Where everybody crashes on everybody's behalf. */
static bool is_system(const char *path) {
  const char *name = base_name(path);
  return begins(name, "libc.so") || begins(name, "libpthread") || begins(name, "libgcc_s") ||
         begins(name, "linux-vdso") || is_loader(path);
}

static void copy(char *to, size_t size, const char *from) {
  size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

typedef struct walk {
  bool left;       /* the handler's own frames */
  bool was_plugin; /* the frame before this one, which it called */
  uintptr_t start; /* of that frame's function */
  Dl_info at;      /* of that frame */
} walk;

static void *own_base(void) {
  Dl_info at;
  return dladdr(&words, &at) ? at.dli_fbase : NULL;
}

/* A frame, innermost first. What counts is the outermost function of the innermost plugin that
 * libtenon called: a kernel, not the share of a loop that it handed out. */
static _Unwind_Reason_Code visit(struct _Unwind_Context *frame, void *ctx) {
  walk *s = ctx;
  Dl_info at;
  uintptr_t pc = _Unwind_GetIP(frame);
  if (!pc || !dladdr((void *)(pc - 1), &at) || !at.dli_fname) {
    s->was_plugin = false;
    return _URC_NO_REASON;
  }
  s->left = s->left || at.dli_fbase != own_base();
  if (!s->left) return _URC_NO_REASON;
  bool plugin = is_plugin(at.dli_fname);
  if (!words->library[0] && !is_system(at.dli_fname))
    copy(words->library, sizeof words->library, at.dli_fname);
  if (plugin && words->plugin[0] && strcmp(words->plugin, at.dli_fname)) return _URC_END_OF_STACK;
  if (plugin) copy(words->plugin, sizeof words->plugin, at.dli_fname);
  if (s->was_plugin && is_loader(at.dli_fname)) words->loading = true;
  if (s->was_plugin && begins(base_name(at.dli_fname), "libtenon.so")) {
    words->function = s->start - (uintptr_t)s->at.dli_fbase;
    bool exported = s->at.dli_saddr && (uintptr_t)s->at.dli_saddr == s->start;
    copy(words->symbol, sizeof words->symbol, exported ? s->at.dli_sname : "");
  }
  *s = (walk){true, plugin, _Unwind_GetRegionStart(frame), at};
  return _URC_NO_REASON;
}

static void speak(int number, siginfo_t *info, void *context) {
  walk s = {0};
  (void)context;
  if (!atomic_load(&words->said)) _Unwind_Backtrace(visit, &s);
  atomic_store(&words->said, true);
  if (info->si_code == SI_USER && info->si_pid == getppid()) _exit(128 + number);
  signal(number, SIG_DFL);
  raise(number); /* it is blocked until this returns */
}

static _Unwind_Reason_Code visit_nothing(struct _Unwind_Context *frame, void *ctx) {
  (void)frame, (void)ctx;
  return _URC_END_OF_STACK;
}

void last_words_keep(last_words *w, const char *plugin) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
  static char stack[1 << 16]; /* for a stack that overflowed */
  if (TN_FLAVOUR) return;
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_sigaction = speak, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* one that hangs shall not outlive who watches it */
  words = w;
  named_plugin = plugin;
  _Unwind_Backtrace(visit_nothing, NULL); /* what it loads at first it has then */
  sigaltstack(&other, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &action, NULL);
}

void last_words_forget(last_words *w) {
  w->loading = false;
  w->library[0] = w->plugin[0] = w->symbol[0] = 0;
  w->function = 0;
  atomic_store(&w->said, false);
}

void last_words_ask(pid_t pid) { kill(pid, TN_FLAVOUR ? SIGKILL : SIGABRT); }

/* --- whose function it was --- */

typedef struct slot {
  size_t offset;
  const char *name;
} slot;

#define SLOT(name)                                                                                 \
  { offsetof(tn_backend, name), #name }
static const slot backend_slots[] = {
    SLOT(count),         SLOT(describe),      SLOT(open),
    SLOT(close),         SLOT(alloc),         SLOT(free),
    SLOT(memory_info),   SLOT(copy),          SLOT(queue_create),
    SLOT(queue_destroy), SLOT(queue_wait),    SLOT(queue_native),
    SLOT(event_create),  SLOT(event_destroy), SLOT(event_record),
    SLOT(event_query),   SLOT(event_wait),    SLOT(queue_wait_event),
    SLOT(event_elapsed), SLOT(capture_begin), SLOT(capture_end),
    SLOT(graph_launch),  SLOT(graph_destroy), SLOT(queue_wrap),
    SLOT(copy_between),
};
#undef SLOT

/* Pointers to functions of several types, compared as bytes. */
static bool is_at(const void *table, uint32_t size, size_t offset, const void *function) {
  void *found;
  if (size < offset + sizeof found) return false;
  memcpy(&found, (const char *)table + offset, sizeof found);
  return found == function;
}

static bool name_backend_slot(const tn_plugin *p, const void *function, char *text, size_t size) {
  for (uint32_t b = 0; b < p->num_backends; b++)
    for (size_t i = 0; i < sizeof backend_slots / sizeof *backend_slots; i++)
      if (is_at(p->backends[b], p->backends[b]->struct_size, backend_slots[i].offset, function))
        return snprintf(text, size, "%s of its backend", backend_slots[i].name), true;
  return false;
}

static bool name_kernel(const tn_plugin *p, const void *function, char *text, size_t size) {
  const char *row = (const char *)p->kernels;
  uint32_t stride = p->num_kernels ? p->kernels->struct_size : 0;
  for (uint32_t i = 0; i < p->num_kernels; i++, row += stride) {
    const tn_kernel *k = (const void *)row;
    const char *part = is_at(k, stride, offsetof(tn_kernel, run), function)        ? ""
                       : is_at(k, stride, offsetof(tn_kernel, supports), function) ? "supports of "
                       : is_at(k, stride, offsetof(tn_kernel, workspace), function)
                           ? "workspace of "
                           : NULL;
    if (part) return snprintf(text, size, "%skernel %s", part, k->name), true;
  }
  return false;
}

static void name_function(const tn_plugin *p, const void *function, char *text, size_t size) {
  if (is_at(p, p->struct_size, offsetof(tn_plugin, open), function))
    snprintf(text, size, "tn_plugin.open");
  else if (is_at(p, p->struct_size, offsetof(tn_plugin, close), function))
    snprintf(text, size, "tn_plugin.close");
  else if (!name_backend_slot(p, function, text, size))
    name_kernel(p, function, text, size);
}

static tn_status no_message(tn_status code, const char *format, ...) {
  (void)format;
  return code;
}

static void *plain_alloc(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  return align <= 16 ? malloc(bytes ? bytes : 1) : NULL;
}

static void plain_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

static void no_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level, (void)format;
}

/* Asks the plugin for its table once more. */
static void look_up(const last_words *w, char *text, size_t size) {
  const tn_host host = {.struct_size = sizeof host,
                        .abi_min = TN_ABI_VERSION_MIN,
                        .abi_max = TN_ABI_VERSION,
                        .num_threads = 1,
                        .version = TN_VERSION_STRING,
                        .fail = no_message,
                        .log = no_log,
                        .alloc = plain_alloc,
                        .free = plain_free};
  void *library = dlopen(w->plugin, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, TN_PLUGIN_QUERY) : NULL;
  Dl_info at;
  tn_plugin_query_fn query;
  if (!symbol || !dladdr(symbol, &at)) return;
  memcpy(&query, &symbol, sizeof query);
  const tn_plugin *p = query(&host);
  if (p) name_function(p, (const char *)at.dli_fbase + w->function, text, size);
}

/* Shared with a child, which may crash or hang as the one before did. */
static void look_up_apart(const last_words *w, char *text, size_t size) {
  char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(3);
    look_up(w, shared, size);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
  copy(text, size, shared);
  munmap(shared, size);
}

/* "libtenon-mine.so" is "mine". */
static void name_of(const char *path, char *name, size_t size) {
  const char *base = base_name(path);
  copy(name, size, begins(base, "libtenon-") ? base + strlen("libtenon-") : base);
  char *dot = strstr(name, ".so");
  if (dot) *dot = 0;
}

void last_words_text(const last_words *w, char *text, size_t size) {
  char plugin[128], function[256] = "", inside[560] = "";
  text[0] = 0;
  if (!atomic_load(&w->said)) return;
  if (!w->plugin[0]) {
    if (w->library[0]) snprintf(text, size, " in %s", base_name(w->library));
    return;
  }
  name_of(w->plugin, plugin, sizeof plugin);
  if (w->symbol[0])
    copy(function, sizeof function, w->symbol);
  else if (w->function)
    look_up_apart(w, function, sizeof function);
  else if (w->loading)
    copy(function, sizeof function, "while it was being loaded");
  if (w->library[0] && strcmp(w->library, w->plugin))
    snprintf(inside, sizeof inside, " %s, called by", base_name(w->library));
  snprintf(text, size, " in%s plugin %s%s%s", inside, plugin, function[0] ? ", " : "", function);
}
