/*
 * Side effects: how a process and a thread are, looked at through the C library and the kernel
 * alone. What drivers rightly make at their first use and keep, threads and descriptors, is not
 * looked at here but counted over many calls (growth.c).
 */
#include "effects.h"

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* --- how things are --- */

static float_words float_words_get(void) {
  float_words w = {0};
#if defined(__x86_64__)
  uint32_t sse;
  uint16_t x87;
  __asm__ volatile("stmxcsr %0" : "=m"(sse));
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  w.control = sse & 0xffc0;
  w.x87 = x87 & 0xf3f;
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(w.control));
#else
  w.control = (uint64_t)fegetround();
#endif
  return w;
}

static void float_words_put(float_words w) {
#if defined(__x86_64__)
  uint32_t sse = (uint32_t)w.control;
  uint16_t x87 = (uint16_t)(w.x87 | 0x40);
  __asm__ volatile("ldmxcsr %0" : : "m"(sse) : "memory");
  __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(x87) : "memory");
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(w.control) : "memory");
#else
  fesetround((int)w.control);
#endif
}

/* FNV-1a, over every variable in the order of the table. */
static uint64_t environment_hash(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char **at = environ; at && *at; at++)
    for (const char *c = *at;; c++) {
      hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
      if (!*c) break;
    }
  return hash;
}

/* From what the kernel says of the process: to ask by umask(0) would give files that other threads
 * make meanwhile to everybody. */
static mode_t umask_now(void) {
  char text[512];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[n > 0 ? n : 0] = 0;
  const char *at = strstr(text, "\nUmask:");
  return at ? (mode_t)strtoul(at + strlen("\nUmask:"), NULL, 8) : 0;
}

static void effects_take(effects *e) {
  memset(e, 0, sizeof *e);
  e->mode = float_words_get();
  sigprocmask(SIG_BLOCK, NULL, &e->mask);
  for (int s = 1; s < EFFECT_SIGNALS; s++) sigaction(s, NULL, &e->action[s]);
  e->umask = umask_now();
  if (!getcwd(e->folder, sizeof e->folder)) snprintf(e->folder, sizeof e->folder, "?");
  const char *locale = setlocale(LC_ALL, NULL);
  snprintf(e->locale, sizeof e->locale, "%s", locale ? locale : "?");
  e->thread_locale = uselocale((locale_t)0);
  e->environment = environment_hash();
  for (int i = 0; i < RLIM_NLIMITS; i++) getrlimit((__rlimit_resource_t)i, &e->limit[i]);
  sched_getaffinity(0, sizeof e->affinity, &e->affinity);
  for (int i = 0; i < EFFECT_TIMERS; i++) getitimer((__itimer_which_t)i, &e->timer[i]);
}

static void effects_restore(const effects *e) {
  float_words_put(e->mode);
  for (int s = 1; s < EFFECT_SIGNALS; s++) {
    struct sigaction now;
    if (!sigaction(s, NULL, &now) && now.sa_handler != e->action[s].sa_handler)
      sigaction(s, &e->action[s], NULL);
  }
  sigprocmask(SIG_SETMASK, &e->mask, NULL);
  if (umask_now() != e->umask) umask(e->umask);
  if (chdir(e->folder)) errno = 0; /* it was removed: what changed has been said */
  uselocale(e->thread_locale);
  setlocale(LC_ALL, e->locale);
  for (int i = 0; i < RLIM_NLIMITS; i++) setrlimit((__rlimit_resource_t)i, &e->limit[i]);
  sched_setaffinity(0, sizeof e->affinity, &e->affinity);
  for (int i = 0; i < EFFECT_TIMERS; i++) setitimer((__itimer_which_t)i, &e->timer[i], NULL);
}

/* --- what has changed --- */

typedef struct finding {
  uint32_t said; /* as effects_watch.said */
  bool any;      /* said before or not */
  char *text;
  size_t size;
} finding;

/* False for what was said before. */
#define SAY(f, kind, ...)                                                                          \
  ((f)->any = true,                                                                                \
   !((f)->said & (kind)) && (snprintf((f)->text, (f)->size, __VA_ARGS__), (f)->said |= (kind)))

#if defined(__x86_64__)
static bool say_mode(const float_words *was, const float_words *now, finding *f) {
  static const char *const ways[] = {"to nearest", "toward minus infinity", "toward infinity",
                                     "toward zero"};
  const uint64_t changed = was->control ^ now->control;
  if (changed & 0x6000 && SAY(f, EFFECT_ROUNDING, "left the thread's rounding mode as %s",
                              ways[now->control >> 13 & 3]))
    return true;
  if (changed & 0x8000 &&
      SAY(f, EFFECT_FLUSH, "left the thread flushing subnormal results to zero"))
    return true;
  if (changed & 0x40 &&
      SAY(f, EFFECT_SUBNORMALS, "left the thread reading subnormal numbers as zero"))
    return true;
  if (changed & 0x1f80 &&
      SAY(f, EFFECT_EXCEPTIONS, "left other floating-point exceptions trapping in the thread"))
    return true;
  return was->x87 != now->x87 &&
         SAY(f, EFFECT_OTHER_MODE, "left the thread's x87 control word as %#x, it was %#x",
             now->x87, was->x87);
}
#elif defined(__aarch64__)
static bool say_mode(const float_words *was, const float_words *now, finding *f) {
  static const char *const ways[] = {"to nearest", "toward infinity", "toward minus infinity",
                                     "toward zero"};
  const uint64_t changed = was->control ^ now->control;
  if (changed & 0xc00000 && SAY(f, EFFECT_ROUNDING, "left the thread's rounding mode as %s",
                                ways[now->control >> 22 & 3]))
    return true;
  if (changed & 0x1000000 &&
      SAY(f, EFFECT_FLUSH, "left the thread flushing subnormal results to zero"))
    return true;
  if (changed & 0x9f00 &&
      SAY(f, EFFECT_EXCEPTIONS, "left other floating-point exceptions trapping in the thread"))
    return true;
  return changed & ~UINT64_C(0x1c09f00) &&
         SAY(f, EFFECT_OTHER_MODE, "left the thread's FPCR as %#llx, it was %#llx",
             (unsigned long long)now->control, (unsigned long long)was->control);
}
#else
static bool say_mode(const float_words *was, const float_words *now, finding *f) {
  if (was->control == now->control) return false;
  return SAY(f, EFFECT_ROUNDING, "left the thread's floating-point mode as %#llx, it was %#llx",
             (unsigned long long)now->control, (unsigned long long)was->control);
}
#endif

static bool say_signals(const effects *was, const effects *now, finding *f) {
  for (int s = 1; s < EFFECT_SIGNALS; s++) {
    if ((sigismember(&was->mask, s) != sigismember(&now->mask, s)) &&
        SAY(f, EFFECT_MASK, "left signal %d (%s) %s in the thread", s, strsignal(s),
            sigismember(&now->mask, s) ? "blocked" : "let through"))
      return true;
    if (was->action[s].sa_handler != now->action[s].sa_handler &&
        SAY(f, EFFECT_HANDLER, "left another handler for signal %d (%s)", s, strsignal(s)))
      return true;
  }
  return false;
}

static bool say_files(const effects *was, const effects *now, finding *f) {
  if ((strcmp(was->folder, now->folder)) &&
      SAY(f, EFFECT_FOLDER, "changed the working directory to %.200s", now->folder))
    return true;
  if ((was->umask != now->umask) &&
      SAY(f, EFFECT_UMASK, "changed the process's umask to %03o, it was %03o", now->umask,
          was->umask))
    return true;
  return false;
}

static bool say_words(const effects *was, const effects *now, finding *f) {
  if ((strcmp(was->locale, now->locale)) &&
      SAY(f, EFFECT_LOCALE, "changed the process's locale to %.200s", now->locale))
    return true;
  if ((was->thread_locale != now->thread_locale) &&
      SAY(f, EFFECT_THREAD_LOCALE, "changed the thread's locale"))
    return true;
  if ((was->environment != now->environment) &&
      SAY(f, EFFECT_ENVIRONMENT, "changed the environment"))
    return true;
  return false;
}

static bool say_means(const effects *was, const effects *now, finding *f) {
  for (int i = 0; i < RLIM_NLIMITS; i++)
    if ((was->limit[i].rlim_cur != now->limit[i].rlim_cur ||
         was->limit[i].rlim_max != now->limit[i].rlim_max) &&
        SAY(f, EFFECT_LIMIT, "changed a limit of the process (resource %d)", i))
      return true;
  if ((!CPU_EQUAL(&was->affinity, &now->affinity)) &&
      SAY(f, EFFECT_AFFINITY, "left the thread bound to %d processors, it had %d",
          CPU_COUNT(&now->affinity), CPU_COUNT(&was->affinity)))
    return true;
  for (int i = 0; i < EFFECT_TIMERS; i++) {
    const struct itimerval *a = &was->timer[i], *b = &now->timer[i];
    if ((!(a->it_value.tv_sec | a->it_value.tv_usec) &&
         (b->it_value.tv_sec | b->it_value.tv_usec)) &&
        SAY(f, EFFECT_TIMER, "left a timer running (alarm or setitimer)"))
      return true;
  }
  return false;
}

void effects_begin(effects_watch *w) {
  effects_take(&w->was);
  w->said = 0;
}

/* The first that was not said before. */
static bool say_one(const effects *was, const effects *now, finding *f) {
  return say_mode(&was->mode, &now->mode, f) || say_signals(was, now, f) ||
         say_files(was, now, f) || say_words(was, now, f) || say_means(was, now, f);
}

uint32_t effects_list(effects_watch *w, char *text, size_t size, uint32_t most) {
  effects now;
  uint32_t count = 0;
  finding f = {.said = w->said, .text = text, .size = size};
  effects_take(&now);
  while (count < most && say_one(&w->was, &now, &f)) f.text = text + ++count * size;
  if (!f.any) return 0;
  effects_restore(&w->was);
  effects_take(&w->was);
  w->said = f.said;
  return count;
}

bool effects_found(effects_watch *w, char *text, size_t size) {
  return effects_list(w, text, size, 1) > 0;
}

bool effects_found_mode(effects_watch *w, char *text, size_t size) {
  float_words now = float_words_get();
  finding f = {.said = w->said, .text = text, .size = size};
  bool fresh = say_mode(&w->was.mode, &now, &f);
  if (f.any) float_words_put(w->was.mode);
  w->said = f.said;
  return fresh;
}
