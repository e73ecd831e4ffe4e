/* Where a process was when a signal ended it: in which plugin, and in which of its functions. */
#ifndef TENON_CHECK_LAST_WORDS_H
#define TENON_CHECK_LAST_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Lies in shared memory: written by a signal handler of the process that dies, read by its
 * parent. */
typedef struct last_words {
  _Atomic bool said; /* the rest is complete */
  bool loading;      /* the plugin was being loaded: its constructors */
  char library[512]; /* that ran: the plugin, or one that it had called; "" for the C library */
  char plugin[512];  /* path of the innermost plugin that was called, or "" */
  uint64_t function; /* where the function begins that Tenon had called, from the plugin's base */
  char symbol[128];  /* its name where the plugin exports it, or "" */
} last_words;

/* From now on this process writes to *w where it is when it crashes or is told to stop. Does
 * nothing under sanitizers, which have reports of their own. `plugin`: a file that is a plugin
 * whatever it is called, or NULL; both must outlive the process. */
void last_words_keep(last_words *w, const char *plugin);
/* Forgets what an earlier process said. */
void last_words_forget(last_words *w);

/* Asks a process that hangs to say where, and to end; what does not answer is to be killed. */
void last_words_ask(pid_t pid);

/* " in plugin mine, count" and the like; "" where nothing is known. Looks into the plugin's table
 * in a process of its own. */
void last_words_text(const last_words *w, char *text, size_t size);

#endif
