/*
 * What kernels and slots may leave behind in the process and in the thread that calls them:
 * nothing. A watch remembers how things are, and says what has changed since.
 */
#ifndef TENON_CHECK_EFFECTS_H
#define TENON_CHECK_EFFECTS_H

#include <limits.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>

enum { EFFECT_SIGNALS = 65, EFFECT_TIMERS = 3 };

/* Kinds of changes. */
enum {
  EFFECT_ROUNDING = 1 << 0,
  EFFECT_FLUSH = 1 << 1,
  EFFECT_SUBNORMALS = 1 << 2,
  EFFECT_EXCEPTIONS = 1 << 3,
  EFFECT_OTHER_MODE = 1 << 4, /* of the x87 unit, or FPCR's further bits */
  EFFECT_MASK = 1 << 5,
  EFFECT_HANDLER = 1 << 6,
  EFFECT_FOLDER = 1 << 7,
  EFFECT_UMASK = 1 << 8,
  EFFECT_LOCALE = 1 << 9,
  EFFECT_THREAD_LOCALE = 1 << 10,
  EFFECT_ENVIRONMENT = 1 << 11,
  EFFECT_LIMIT = 1 << 12,
  EFFECT_AFFINITY = 1 << 13,
  EFFECT_TIMER = 1 << 14,
  EFFECT_OUTPUT = 1 << 15, /* see output.h */
  /* What drivers may set up for themselves as they are opened. */
  EFFECTS_OF_DRIVERS = EFFECT_ENVIRONMENT | EFFECT_LIMIT,
};

/* Of the calling thread's floating-point unit; words that a machine lacks are 0. */
typedef struct float_words {
  uint64_t control; /* MXCSR without the flags of exceptions, or FPCR */
  uint32_t x87;
} float_words;

/* The process and its calling thread. */
typedef struct effects {
  float_words mode;
  sigset_t mask;
  struct sigaction action[EFFECT_SIGNALS];
  mode_t umask;
  char folder[PATH_MAX], locale[512];
  locale_t thread_locale;
  uint64_t environment; /* a hash */
  struct rlimit limit[RLIM_NLIMITS];
  cpu_set_t affinity;
  struct itimerval timer[EFFECT_TIMERS];
} effects;

typedef struct effects_watch {
  effects was;
  uint32_t said; /* kinds that are not said again; a caller may clear or set some */
} effects_watch;

/* Remembers how things are. A thread that calls kernels has a watch of its own. */
void effects_begin(effects_watch *w);

/* Whether something has changed since, in words: "left the thread's rounding mode as toward
 * zero". Puts back what was changed, the environment excepted. What was said already is put back
 * and not said again. Some tens of microseconds. */
bool effects_found(effects_watch *w, char *text, size_t size);

/* All that has changed, `most` texts of `size` at the most, one behind the other; how many. */
uint32_t effects_list(effects_watch *w, char *text, size_t size, uint32_t most);

/* The same of the floating-point mode alone, which spoils what follows. Some nanoseconds. */
bool effects_found_mode(effects_watch *w, char *text, size_t size);

#endif
