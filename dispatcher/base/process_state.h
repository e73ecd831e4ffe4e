/*
 * What code of plugins, and of the libraries that they bring along, may change of the whole
 * process while it is loaded or opens a device: floating-point modes, signal handlers, the
 * thread's signal mask. Taken before and put back after.
 */
#ifndef TENON_DISPATCHER_PROCESS_STATE_H
#define TENON_DISPATCHER_PROCESS_STATE_H

#include <fenv.h>
#include <signal.h>

/* What is the thread's own. Handlers are the process's, and so is what is kept of them. */
typedef struct process_state {
  fenv_t floating_point; /* on x86 it includes MXCSR */
  sigset_t mask;
} process_state;

void process_state_save(process_state *s);
/* Puts back what has changed; handlers once no other thread is between the two any more. A
 * handler that another thread of the host installs in between counts as changed by the plugin:
 * there is no telling them apart. */
void process_state_restore(const process_state *s);
/* In a forked child: what other threads had begun ends with them. */
void process_state_forked(void);

#endif
